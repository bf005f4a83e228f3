"""The outbox: events and their deliveries, written in the transaction of the change itself.

Kept as a fragment so that a change and its events are one statement: one row for each endpoint
that subscribed, not one round trip.
"""

from collections.abc import Sequence
from uuid import UUID

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.deliveries.rows import HELD, PENDING
from meetcore.domain.webhooks.events import Event, encode_event
from meetcore.ports.cipher import Cipher

EVENT_COLUMNS = "account_id, id, kind, payload, created_at, subject_id, cause"

# A delivery of each event for every endpoint of the account that subscribed to its kind: due now, or held while the
# endpoint is inactive. A delivery's id is a UUIDv7: the event's instant, and random bits of its own.
WRITE_DELIVERIES = f"""delivery AS (
        INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, due_at, held_at, created_at)
        SELECT {{account_id}}, (left(e.id::text, 15) || substr(gen_random_uuid()::text, 16))::uuid,
               w.id, e.id, e.kind,
               CASE w.state WHEN 'active' THEN '{PENDING}' ELSE '{HELD}' END,
               CASE w.state WHEN 'active' THEN clock_timestamp() END,
               CASE w.state WHEN 'active' THEN NULL ELSE clock_timestamp() END,
               e.created_at
        FROM event e CROSS JOIN LATERAL (
            SELECT id, state FROM webhook_endpoints
            WHERE account_id = {{account_id}} AND e.kind = ANY (event_types) OFFSET 0) AS w
        RETURNING account_id, status
    )"""

# Writes the events of an account and their deliveries, if the statement's guard lets it.
WRITE_EVENTS = f"""
    event AS (
        INSERT INTO events ({EVENT_COLUMNS})
        SELECT guard.account_id, e.id, e.kind, e.payload, e.created_at, e.subject_id, e.cause
        FROM guard CROSS JOIN unnest(%(event_ids)s::uuid[], %(event_kinds)s::text[], %(event_payloads)s::bytea[],
                    %(event_times)s::timestamptz[], %(event_subjects)s::uuid[], %(event_causes)s::text[])
                    AS e (id, kind, payload, created_at, subject_id, cause)
        RETURNING id, kind, created_at
    ), {WRITE_DELIVERIES.format(account_id="%(account_id)s")}"""


def event_context(account_id: UUID, event_id: UUID) -> str:
    """What an event's payload is sealed for."""
    return f"{account_id}/events/{event_id}/payload"


def event_parameters(events: Sequence[Event], cipher: Cipher) -> Row:
    """The parameters of `WRITE_EVENTS`, payloads encoded and sealed."""
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
    """An event by the names of its columns, its payload encoded and sealed."""
    payload = cipher.seal(encode_event(event), event_context(event.account_id, event.id))
    return {
        "account_id": event.account_id, "id": event.id, "kind": event.kind.value, "payload": payload,
        "created_at": event.created_at, "subject_id": event.subject_id, "cause": event.cause,
    }  # fmt: skip
