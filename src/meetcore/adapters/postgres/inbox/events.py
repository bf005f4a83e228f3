"""Provider webhook events in PostgreSQL: an inbox whose events are claimed by pushing their due time past a lease."""

from collections.abc import Sequence
from uuid import UUID

import msgspec
import structlog

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.meetings.provider_events import ProviderEvent
from meetcore.ports.cipher import CipherRefused
from meetcore.ports.lease import Lease
from meetcore.ports.provider_events import ClaimedEvent

log = structlog.get_logger("meetcore.postgres")

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ProviderEvent)

# Takes an event in, unless the same bytes are known.
_ADD = """
INSERT INTO provider_events (id, provider, digest, kind, payload, received_at, due_at)
VALUES (%(id)s, %(provider)s, %(digest)s, %(kind)s, %(payload)s, clock_timestamp(), clock_timestamp())
ON CONFLICT (provider, digest) DO NOTHING
"""

# Takes what is due, the longest due first, and passes over what another worker is taking.
_CLAIM = """
WITH due AS (
    SELECT id, due_at, lease_token IS NOT NULL AS had_lease FROM provider_events WHERE due_at <= statement_timestamp()
    ORDER BY due_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE provider_events e SET tries = e.tries + 1, lease_token = %(token)s,
        due_at = statement_timestamp() + %(lease_s)s * interval '1 second'
    FROM due WHERE e.id = due.id
    RETURNING e.id, e.payload, e.tries, due.due_at AS was_due_at, due.had_lease
)
SELECT id, payload, tries, had_lease FROM claimed ORDER BY was_due_at, id
"""

# Gives an event back until later, for the holder of its claim only.
_POSTPONE = """
UPDATE provider_events
SET lease_token = NULL, due_at = clock_timestamp() + %(seconds)s * interval '1 second'
WHERE id = %(id)s AND lease_token = %(token)s
"""

# Leaves the digest of an event, for the holder of its claim only.
_DONE = """
UPDATE provider_events SET payload = NULL, lease_token = NULL, due_at = NULL
WHERE id = %(id)s AND lease_token = %(token)s
"""


def provider_event_context(event_id: UUID) -> str:
    """What a provider's event is sealed for; it is no account's."""
    return f"provider-events/{event_id}/payload"


class PostgresProviderEventInbox(Repository):
    """Events of providers that are not applied yet."""

    async def add(self, id: UUID, event: ProviderEvent, digest: bytes) -> bool:
        parameters = {
            "id": id,
            "provider": event.provider,
            "digest": digest,
            "kind": event.kind.value,
            "payload": self._cipher.seal(_encoder.encode(event), provider_event_context(id)),
        }
        return await self._changed(_ADD, parameters)

    async def claim(self, limit: int, lease: Lease) -> Sequence[ClaimedEvent]:
        """Take events that are due, each under the lease.

        One that does not open is logged and left to its lease, as a delivery is: a key that went missing, or a
        release that put in what this one does not know, stops such events and nothing else.
        """
        parameters = {"limit": limit, "token": lease.token, "lease_s": lease.seconds}
        claimed = [self._claimed(row, lease.token) for row in await self._all(_CLAIM, parameters)]
        return [one for one in claimed if one is not None]

    def _claimed(self, row: Row, token: UUID) -> ClaimedEvent | None:
        try:
            event = _decoder.decode(self._cipher.open(row["payload"], provider_event_context(row["id"])))
        except (CipherRefused, msgspec.DecodeError):
            log.exception("provider event does not open", event_id=str(row["id"]))
            return None
        return ClaimedEvent(row["id"], event, row["tries"], token, row["had_lease"])

    async def postpone(self, id: UUID, token: UUID, seconds: float) -> None:
        await self._connection.execute(_POSTPONE, {"id": id, "token": token, "seconds": seconds})

    async def done(self, id: UUID, token: UUID) -> None:
        await self._connection.execute(_DONE, {"id": id, "token": token})
