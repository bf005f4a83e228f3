"""Provider webhook events in SQLite: claimed by pushing the due time past a lease."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import msgspec

from meetcore.domain.meetings.provider_events import ProviderEvent
from meetcore.ports.clock import Clock
from meetcore.ports.lease import Lease
from meetcore.ports.provider_events import ClaimedEvent

from .connection import Connection

__all__ = ["SqliteProviderEventInbox"]

# Takes an event in, unless the same bytes are known.
_ADD = """
INSERT INTO provider_events (id, provider, digest, kind, payload, received_at, tries, due_at)
VALUES (:id, :provider, :digest, :kind, :payload, :now, 0, :now)
ON CONFLICT (provider, digest) DO NOTHING
"""

_DUE = "SELECT id, payload, tries FROM provider_events WHERE due_at <= :now ORDER BY due_at, id LIMIT :limit"

# Claims one: it is not due until the lease ends.
_CLAIM = "UPDATE provider_events SET tries = tries + 1, lease_token = :token, due_at = :until WHERE id = :id"

# Gives an event back until later, for the holder of its claim only.
_POSTPONE = """
UPDATE provider_events SET lease_token = NULL, due_at = :until WHERE id = :id AND lease_token = :token
"""

# Leaves the digest of an event, for the holder of its claim only.
_DONE = """
UPDATE provider_events SET payload = NULL, lease_token = NULL, due_at = NULL
WHERE id = :id AND lease_token = :token
"""


class SqliteProviderEventInbox:
    """The inbox, on one open transaction."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def add(self, id: UUID, event: ProviderEvent, digest: bytes) -> bool:
        """Take an event in, due at once; false when the same bytes are known."""
        parameters = {
            "id": id,
            "provider": event.provider,
            "digest": digest,
            "kind": event.kind,
            "payload": msgspec.json.encode(event),
            "now": self._clock.now(),
        }
        return await self._connection.change(_ADD, parameters) == 1

    async def claim(self, limit: int, lease: Lease) -> Sequence[ClaimedEvent]:
        """Take events that are due, each under the lease."""
        now = self._clock.now()
        bearer = {"token": lease.token, "until": now + timedelta(seconds=lease.seconds)}
        due = await self._connection.fetch(_DUE, {"now": now, "limit": limit})
        for row in due:
            await self._connection.change(_CLAIM, {"id": row["id"]} | bearer)
        return [
            ClaimedEvent(
                UUID(row["id"]),
                msgspec.json.decode(row["payload"], type=ProviderEvent),
                row["tries"] + 1,
                lease.token,
            )
            for row in due
        ]

    async def postpone(self, id: UUID, token: UUID, seconds: float) -> None:
        """Give an event back, due in so many seconds; a lost claim changes nothing."""
        until = self._clock.now() + timedelta(seconds=seconds)
        await self._connection.change(_POSTPONE, {"id": id, "token": token, "until": until})

    async def done(self, id: UUID, token: UUID) -> None:
        """Be done with an event for good; a lost claim changes nothing."""
        await self._connection.change(_DONE, {"id": id, "token": token})
