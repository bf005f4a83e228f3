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

# Rows that are due, by the one index that fits: only what is pending has a `due_at`, and a condition on the status would admit
# others. The time is the statement's: a volatile one could not bound the scan of the index.
DUE = "NOT is_throttled AND due_at <= statement_timestamp()"

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


def hold_at(endpoints: str) -> str:
    """Return pieces of a statement that hold what waits at the endpoints of a table: `account_id` and `endpoint_id`.

    Posts in flight go on. The rows are found endpoint by endpoint, and changed by their primary key: joined at once, they would
    be read with all other rows of the state or of the account by a plan that was made while there were few.
    """
    return f"""waiting AS MATERIALIZED (
    SELECT p.account_id, p.id FROM {endpoints} AS e CROSS JOIN LATERAL (
        SELECT account_id, id FROM deliveries
        WHERE account_id = e.account_id AND endpoint_id = e.endpoint_id AND status = '{PENDING}'
            AND (lease_token IS NULL OR due_at <= statement_timestamp())
        OFFSET 0) AS p
), held AS (
    UPDATE deliveries d SET {HOLD}
    FROM waiting WHERE d.account_id = waiting.account_id AND d.id = waiting.id
        AND d.due_at IS NOT NULL AND (d.lease_token IS NULL OR d.due_at <= statement_timestamp())
)"""


def given_up(rows: Iterable[Row], reason: GiveUpReason) -> Sequence[GivenUp]:
    """Return what ended without a last attempt."""
    return [
        GivenUp(row["account_id"], row["delivery_id"], row["endpoint_id"], row["event_id"], reason)
        for row in rows
    ]
