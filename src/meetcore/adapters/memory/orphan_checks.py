"""Checks for orphans in memory."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.state import StoredOrphanCheck, Tables
from meetcore.ports.clock import Clock
from meetcore.ports.lease import Lease
from meetcore.ports.orphan_checks import OrphanCheck


def open_check(tables: Tables, owner: tuple[UUID, UUID], since: datetime, window_s: float) -> None:
    """Open the check of a meeting (account and meeting id), due so many seconds after an instant."""
    tables.orphan_checks[owner] = StoredOrphanCheck(since, since + timedelta(seconds=window_s))


def move_check(tables: Tables, owner: tuple[UUID, UUID], now: datetime, after_s: float | None) -> None:
    """Make the check of a meeting due in so many seconds, opened if there is none; `None` closes it."""
    if after_s is None:
        tables.orphan_checks.pop(owner, None)
        return
    known = tables.orphan_checks.get(owner)
    since = now if known is None else known.since
    tables.orphan_checks[owner] = StoredOrphanCheck(since, now + timedelta(seconds=after_s))


class MemoryOrphanCheckRepository:
    """Checks that are open, on one open transaction."""

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    async def open(self, account_id: UUID, meeting_id: UUID) -> None:
        now = self._clock.now()
        self._tables.orphan_checks[account_id, meeting_id] = StoredOrphanCheck(now, now)

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[OrphanCheck]:
        now = self._clock.now()
        due = sorted(
            (stored.due_at, owner)
            for owner, stored in self._tables.orphan_checks.items()
            if stored.due_at <= now
        )
        return [self._claim(owner, lease, now) for _, owner in due[:limit]]

    async def take(self, account_id: UUID, meeting_id: UUID, lease: Lease) -> OrphanCheck | None:
        owner = account_id, meeting_id
        return self._claim(owner, lease, self._clock.now()) if owner in self._tables.orphan_checks else None

    def _claim(self, owner: tuple[UUID, UUID], lease: Lease, now: datetime) -> OrphanCheck:
        stored = self._tables.orphan_checks[owner]
        until = now + timedelta(seconds=lease.seconds)
        self._tables.orphan_checks[owner] = evolve(stored, due_at=until, token=lease.token)
        meeting = self._tables.meetings[owner].meeting
        host = None if meeting.host_id is None else self._tables.hosts[meeting.host_id]
        user = "" if host is None else host.provider_user_id
        age_s = (now - stored.since).total_seconds()
        return OrphanCheck(meeting, user, age_s, stored.failures, lease.token)

    async def postpone(
        self, check: OrphanCheck, after_s: float, *, failures: int = 0, is_sighting: bool = False
    ) -> None:
        owner, now = (check.meeting.account_id, check.meeting.id), self._clock.now()
        stored = self._tables.orphan_checks.get(owner)
        if stored is not None and stored.token == check.token:
            self._tables.orphan_checks[owner] = StoredOrphanCheck(
                now if is_sighting else stored.since, now + timedelta(seconds=after_s), failures
            )

    async def close(self, check: OrphanCheck) -> None:
        owner = check.meeting.account_id, check.meeting.id
        stored = self._tables.orphan_checks.get(owner)
        if stored is not None and stored.token == check.token:
            del self._tables.orphan_checks[owner]
