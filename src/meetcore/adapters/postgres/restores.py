"""Restores in PostgreSQL, and the reads that compare the database with the provider."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from uuid import UUID

from meetcore.adapters.postgres.columns import Columns
from meetcore.adapters.postgres.meetings.rows import MEETING_COLUMNS, meeting
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.meetings.meetings import OPEN, Meeting
from meetcore.domain.requests.restores import Restore
from meetcore.ports.restores import OpenMeeting

_RESTORE = Columns(Restore, "r", "")

# The restore of the highest epoch.
_LATEST = f"SELECT {_RESTORE.select} FROM restores r ORDER BY epoch DESC LIMIT 1"

# Begins the next epoch, unless one is fenced.
_ADD = f"""
INSERT INTO restores AS r (epoch, restored_to, fenced_at)
SELECT COALESCE(max(epoch), 0) + 1, %(restored_to)s, clock_timestamp() FROM restores
HAVING NOT COALESCE(bool_or(released_at IS NULL), false)
ON CONFLICT DO NOTHING
RETURNING {_RESTORE.select}
"""

# Lets a fence that came with the backup cover what was lost after it, too.
_EXTEND = """
UPDATE restores SET fenced_at = GREATEST(clock_timestamp(), %(restored_to)s)
WHERE released_at IS NULL AND fenced_at < %(restored_to)s
"""

# Releases a restore that is fenced.
_RELEASE = f"""
UPDATE restores r SET released_at = clock_timestamp() WHERE epoch = %(epoch)s AND released_at IS NULL
RETURNING {_RESTORE.select}
"""

# Those of a provider's meetings that a meeting names.
_KNOWN_AT_PROVIDER = """
SELECT DISTINCT provider_meeting_id FROM meetings
WHERE provider = %(provider)s AND provider_meeting_id = ANY(%(ids)s)
"""

# Meetings of any account by their ids.
_BY_ID = f"SELECT {MEETING_COLUMNS} FROM meetings m WHERE id = ANY(%(ids)s)"

# A page of a provider's meetings that can still take place, with their hosts.
_OPEN = f"""
SELECT {MEETING_COLUMNS}, COALESCE(h.provider_user_id, '') AS provider_user_id
FROM meetings m LEFT JOIN hosts h ON h.id = m.host_id
WHERE m.id > %(after)s AND m.provider = %(provider)s AND m.status = ANY(%(open)s)
ORDER BY m.id LIMIT %(limit)s
"""

# Those of the events that are there.
_KNOWN_EVENTS = """
SELECT id FROM events
WHERE (account_id, id) IN (SELECT * FROM unnest(%(accounts)s::uuid[], %(ids)s::uuid[]))
"""


class PostgresRestoreRepository(Repository):
    """Restores, and the reads that compare the database with the provider."""

    async def latest(self) -> Restore | None:
        row = await self._one(_LATEST, {})
        return None if row is None else _RESTORE.read(row)

    async def add(self, restored_to: datetime) -> Restore:
        row = await self._one(_ADD, {"restored_to": restored_to})
        if row is None:
            await self._changed(_EXTEND, {"restored_to": restored_to})
            row = await self._one(_LATEST, {})
        assert row is not None  # where none was added, one is fenced
        return _RESTORE.read(row)

    async def release(self, epoch: int) -> Restore | None:
        row = await self._one(_RELEASE, {"epoch": epoch})
        return None if row is None else _RESTORE.read(row)

    async def known_at_provider(self, provider: str, provider_meeting_ids: Sequence[str]) -> AbstractSet[str]:
        rows = await self._all(_KNOWN_AT_PROVIDER, {"provider": provider, "ids": list(provider_meeting_ids)})
        return {row["provider_meeting_id"] for row in rows}

    async def meetings_by_id(self, ids: Sequence[UUID]) -> Mapping[UUID, Meeting]:
        found = [meeting(row, self._cipher) for row in await self._all(_BY_ID, {"ids": list(ids)})]
        return {each.id: each for each in found}

    async def open_meetings(self, provider: str, after: UUID | None, limit: int) -> Sequence[OpenMeeting]:
        first = UUID(int=0) if after is None else after
        parameters = {
            "provider": provider,
            "after": first,
            "limit": limit,
            "open": [each.value for each in OPEN],
        }
        rows = await self._all(_OPEN, parameters)
        return [OpenMeeting(meeting(row, self._cipher), row["provider_user_id"]) for row in rows]

    async def known_events(self, events: Sequence[tuple[UUID, UUID]]) -> AbstractSet[UUID]:
        accounts, ids = [each[0] for each in events], [each[1] for each in events]
        return {row["id"] for row in await self._all(_KNOWN_EVENTS, {"accounts": accounts, "ids": ids})}
