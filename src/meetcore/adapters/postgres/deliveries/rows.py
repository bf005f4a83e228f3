"""Deliveries and their attempts as rows."""

from collections.abc import Iterable, Sequence

from meetcore.adapters.postgres.columns import Columns, Row
from meetcore.domain.webhooks.deliveries import TRANSITIONS, Attempt, Delivery, DeliveryEvent, DeliveryStatus
from meetcore.ports.deliveries import GivenUp, GiveUpReason

DELIVERY = Columns(Delivery, "d", "delivery_", renamed={"next_attempt_at": "due_at"})

# As its customer may see it: without the address that was dialled.
ATTEMPT = Columns(Attempt, "a", "attempt_", without=("address", "retry_after_s"))

# The states that statements move many rows between, by the domain's table. They stand in the texts, so that the
# indexes of those states serve.
PENDING = DeliveryStatus.PENDING.value
HELD = TRANSITIONS[DeliveryStatus.PENDING, DeliveryEvent.HOLD].value
RELEASED = TRANSITIONS[DeliveryStatus.HELD, DeliveryEvent.RELEASE].value
_FAILED = TRANSITIONS[DeliveryStatus.PENDING, DeliveryEvent.FAIL].value
_EXPIRED = TRANSITIONS[DeliveryStatus.HELD, DeliveryEvent.EXPIRE].value

HOLD = (
    f"status = '{HELD}', held_at = clock_timestamp(), due_at = NULL, is_throttled = false, lease_token = NULL"
)
GIVE_UP = f"status = '{_FAILED}', due_at = NULL, failed_at = clock_timestamp(), lease_token = NULL, lease_host = NULL"
EXPIRE = f"status = '{_EXPIRED}', held_at = NULL, failed_at = clock_timestamp()"

# Those that can be recovered, and where they go.
_RECOVERABLE = {
    status: after for (status, event), after in TRANSITIONS.items() if event is DeliveryEvent.RECOVER
}
RECOVERABLE = ", ".join(f"'{status.value}'" for status in _RECOVERABLE)
(_RECOVERED,) = set(_RECOVERABLE.values())
RECOVER = (
    f"status = '{_RECOVERED.value}', held_at = clock_timestamp(), failed_at = NULL, "
    "attempts_before_recovery = d.attempts_made"
)


def given_up(rows: Iterable[Row], reason: GiveUpReason) -> Sequence[GivenUp]:
    """Return what ended without a last attempt."""
    return [
        GivenUp(row["account_id"], row["delivery_id"], row["endpoint_id"], row["event_id"], reason)
        for row in rows
    ]
