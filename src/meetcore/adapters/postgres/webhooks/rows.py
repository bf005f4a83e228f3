"""Endpoints, deliveries and events as rows: their columns, and the parameters of statements that write events."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from meetcore.adapters.postgres.columns import Columns, Row
from meetcore.domain.webhooks.deliveries import Attempt, Delivery
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import Event, EventKind, encode_event
from meetcore.domain.webhooks.views import GivenUp, GiveUpReason
from meetcore.ports.runtime import Cipher

_CONTEXT = "{account_id}/webhooks/{id}/secret"
_PREVIOUS_CONTEXT = "{account_id}/webhooks/{id}/previous_secret"
_KINDS = {"event_types": EventKind, "event_kind": EventKind}
ENDPOINT = Columns(
    Endpoint, "w", "endpoint_", sealed={"secret": _CONTEXT, "previous_secret": _PREVIOUS_CONTEXT}, sets=_KINDS
)

# As attempts are judged: what signs them is neither read nor decrypted.
ENDPOINT_WITHOUT_SECRETS = Columns(
    Endpoint, "w", "endpoint_", without=("secret", "previous_secret"), sets=_KINDS
)


def previous_secret_context(account_id: UUID, endpoint_id: UUID) -> str:
    """Return the context that the secret before the last rotation is sealed for."""
    return _PREVIOUS_CONTEXT.format(account_id=account_id, id=endpoint_id)


def endpoint_context(account_id: UUID, endpoint_id: UUID) -> str:
    """Return the context that a webhook secret is sealed for."""
    return _CONTEXT.format(account_id=account_id, id=endpoint_id)


DELIVERY = Columns(Delivery, "d", "delivery_", renamed={"next_attempt_at": "due_at"}, sets=_KINDS)

# As its customer may see it: without the address that was dialled. Lists leave out the headers, which are long.
ATTEMPT = Columns(Attempt, "a", "attempt_", without=("address", "retry_after_s"))
LISTED_ATTEMPT = Columns(
    Attempt, "a", "attempt_", without=("address", "retry_after_s", "request_headers", "response_headers")
)

# The attempt that succeeded, in the row of its delivery: as it is written, and as its customer may see it.
_OF_FAILURES = ("error", "retry_after_s", "request_headers", "response_headers")
SUCCESS = Columns(Attempt, "d", "success_", begins="success_", without=_OF_FAILURES)
SHOWN_SUCCESS = Columns(Attempt, "d", "success_", begins="success_", without=(*_OF_FAILURES, "address"))


def given_up(rows: Iterable[Row], reason: GiveUpReason) -> Sequence[GivenUp]:
    """Return the deliveries that ended without a last attempt."""
    return [
        GivenUp(row["account_id"], row["delivery_id"], row["endpoint_id"], row["event_id"], reason)
        for row in rows
    ]


def event_context(account_id: UUID, event_id: UUID) -> str:
    """Return the context that an event's payload is sealed for."""
    return f"{account_id}/events/{event_id}/payload"


def event_parameters(events: Sequence[Event], cipher: Cipher) -> Row:
    """Return the parameters of the statements that write events, payloads encoded and sealed."""
    return {
        "event_ids": [event.id for event in events],
        "event_kinds": [event.kind.value for event in events],
        "event_payloads": [
            cipher.seal(encode_event(event), event_context(event.account_id, event.id)) for event in events
        ],
        "event_times": [event.created_at for event in events],
        "event_subjects": [event.subject_id for event in events],
        "event_causes": [event.cause for event in events],
    }


def event_row(event: Event, cipher: Cipher) -> Row:
    """Return an event by the names of its columns, its payload encoded and sealed."""
    payload = cipher.seal(encode_event(event), event_context(event.account_id, event.id))
    return {
        "account_id": event.account_id, "id": event.id, "kind": event.kind.value, "payload": payload,
        "created_at": event.created_at, "subject_id": event.subject_id, "cause": event.cause,
    }  # fmt: skip
