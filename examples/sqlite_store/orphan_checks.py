"""Checks for orphans in SQLite: at most one for each meeting."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from meetcore.domain.meetings.meetings import Meeting
from meetcore.ports.clock import Clock
from meetcore.ports.lease import Lease
from meetcore.ports.orphan_checks import OrphanCheck

from . import rows
from .connection import Connection

__all__ = ["SqliteOrphanCheckRepository", "move_check", "open_check"]

# Opens a check, or makes the one that is open due at another time; it is released then.
_OPEN = """
INSERT INTO orphan_checks (account_id, meeting_id, since, due_at)
VALUES (:account_id, :meeting_id, :since, :due_at)
ON CONFLICT (account_id, meeting_id) DO UPDATE
    SET since = excluded.since, due_at = excluded.due_at, failures = 0, lease_token = NULL
"""
_MOVE = """
INSERT INTO orphan_checks (account_id, meeting_id, since, due_at)
VALUES (:account_id, :meeting_id, :since, :due_at)
ON CONFLICT (account_id, meeting_id) DO UPDATE
    SET due_at = excluded.due_at, failures = 0, lease_token = NULL
"""
_REMOVE = "DELETE FROM orphan_checks WHERE account_id = :account_id AND meeting_id = :meeting_id"

# Those that are due, with their meetings and hosts, the longest due first.
_DUE = """
SELECT m.*, c.since, c.failures, coalesce(h.provider_user_id, '') AS provider_user_id
FROM orphan_checks c JOIN meetings m ON m.account_id = c.account_id AND m.id = c.meeting_id
LEFT JOIN hosts h ON h.id = m.host_id
WHERE c.due_at <= :now ORDER BY c.due_at LIMIT :limit
"""
_TAKE = """
UPDATE orphan_checks SET lease_token = :token, due_at = :until
WHERE account_id = :account_id AND meeting_id = :meeting_id
"""

# For the holder of the lease only.
_POSTPONE = """
UPDATE orphan_checks SET lease_token = NULL, due_at = :due_at, failures = :failures,
    since = coalesce(:since, since)
WHERE account_id = :account_id AND meeting_id = :meeting_id AND lease_token = :token
"""
_CLOSE = f"{_REMOVE} AND lease_token = :token"


async def open_check(connection: Connection, meeting: Meeting, since: datetime, window_s: float) -> None:
    """Open the check of a meeting, due so many seconds after an instant."""
    due_at = since + timedelta(seconds=window_s)
    await connection.change(_OPEN, _named(meeting) | {"since": since, "due_at": due_at})


async def move_check(connection: Connection, meeting: Meeting, now: datetime, after_s: float | None) -> None:
    """Make the check of a meeting due in so many seconds, opened if there is none; `None` closes it."""
    if after_s is None:
        await connection.change(_REMOVE, _named(meeting))
        return
    due_at = now + timedelta(seconds=after_s)
    await connection.change(_MOVE, _named(meeting) | {"since": now, "due_at": due_at})


class SqliteOrphanCheckRepository:
    """Checks that are open, on one open transaction."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def open(self, account_id: UUID, meeting_id: UUID) -> None:
        """Look at once, as if an orphan had been seen now."""
        now = self._clock.now()
        named = {"account_id": account_id, "meeting_id": meeting_id}
        await self._connection.change(_OPEN, named | {"since": now, "due_at": now})

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[OrphanCheck]:
        """Take the checks that are due, the longest due first."""
        now = self._clock.now()
        bearer = {"token": lease.token, "until": now + timedelta(seconds=lease.seconds)}
        taken = []
        for row in await self._connection.fetch(_DUE, {"now": now, "limit": limit}):
            meeting = rows.record(Meeting, row)
            await self._connection.change(_TAKE, _named(meeting) | bearer)
            age_s = (now - rows.instant(row["since"])).total_seconds()
            taken.append(OrphanCheck(meeting, row["provider_user_id"], age_s, row["failures"], lease.token))
        return taken

    async def postpone(
        self, check: OrphanCheck, after_s: float, *, failures: int = 0, is_sighting: bool = False
    ) -> None:
        """Schedule the next check in so many seconds, unless another worker holds it now."""
        now = self._clock.now()
        values = {
            "token": check.token,
            "failures": failures,
            "since": now if is_sighting else None,
            "due_at": now + timedelta(seconds=after_s),
        }
        await self._connection.change(_POSTPONE, _named(check.meeting) | values)

    async def close(self, check: OrphanCheck) -> None:
        """Close the check, unless another worker holds it now."""
        await self._connection.change(_CLOSE, _named(check.meeting) | {"token": check.token})


def _named(meeting: Meeting) -> rows.Row:
    return {"account_id": meeting.account_id, "meeting_id": meeting.id}
