"""Meetings that the clock or the provider moves on: expired leases, due checks, lifecycle events.

A claimed row is taken by one caller only, by its lock. Claims take a meeting's row without its
account's lock, so they lock nothing of the account after it but the key that waits for the meeting.

What is searched for is bounded by the statement's time: a volatile one could not bound the scan of an index, and
all meetings that are still to come would be read each time.
"""

from collections.abc import Sequence
from uuid import UUID

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.deliveries.outbox import WRITE_EVENTS, event_parameters
from meetcore.adapters.postgres.meetings.cancel import FREE_HOST, LOOKED_FOR, MeetingCancellation
from meetcore.adapters.postgres.meetings.rows import MEETING_COLUMNS, meeting
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.webhooks.events import Event
from meetcore.ports.lease import Lease
from meetcore.ports.meetings import DueMeeting, ExpiredLease

# An expired row gets a new lease, and so does the idempotency key that waits for it: a repeat of the
# request meanwhile finds it running. The meeting's row is locked before the key's, as everywhere.
_TAKE_OVER = """taken AS (
    UPDATE meetings m
    SET lease_token = %(token)s, lease_until = clock_timestamp() + %(lease_s)s * interval '1 second'
    FROM expired WHERE m.account_id = expired.account_id AND m.id = expired.id
    RETURNING m.account_id, m.id, m.lease_token, m.lease_until, m.idempotency_key
), prolonged AS (
    UPDATE idempotency_keys i SET lease_until = taken.lease_until
    FROM taken
    WHERE i.account_id = taken.account_id AND i.key = taken.idempotency_key AND i.lease_until IS NOT NULL
)
SELECT account_id, id, lease_token FROM taken"""

# Takes over work with an expired lease, the longest expired first.
_CLAIM_EXPIRED = f"""
WITH expired AS (
    SELECT account_id, id FROM meetings WHERE lease_until <= statement_timestamp()
    ORDER BY lease_until LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), {_TAKE_OVER}
"""

# Takes over one meeting, if its lease ran out.
_CLAIM_ONE_EXPIRED = f"""
WITH expired AS (
    SELECT account_id, id FROM meetings
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s AND lease_until <= clock_timestamp()
    FOR UPDATE
), {_TAKE_OVER}
"""

# Takes over one meeting in progress, also while another process has it.
_TAKE_ONE = f"""
WITH expired AS (
    SELECT account_id, id FROM meetings
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s AND lease_until IS NOT NULL
    FOR UPDATE
), {_TAKE_OVER}
"""

# Takes the meetings whose time has come, the longest due first; each comes again unless it is ended.
_CLAIM_DUE = f"""
WITH due AS (
    SELECT account_id, id, due_at AS was_due_at FROM meetings WHERE due_at <= statement_timestamp()
    ORDER BY due_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
), m AS (
    UPDATE meetings m SET due_at = clock_timestamp() + %(again_s)s * interval '1 second',
        recording_checks = recording_checks + CASE m.status WHEN 'ended' THEN 1 ELSE 0 END
    FROM due WHERE m.account_id = due.account_id AND m.id = due.id
    RETURNING m.*, due.was_due_at
)
SELECT {MEETING_COLUMNS}, COALESCE(h.provider_user_id, '') AS provider_user_id, m.recording_checks
FROM m LEFT JOIN hosts h ON h.id = m.host_id ORDER BY m.was_due_at
"""

# Schedules the next check of a meeting in so many seconds, or none.
_SCHEDULE_NEXT_CHECK = """
UPDATE meetings SET due_at = clock_timestamp() + %(again_s)s::float8 * interval '1 second'
WHERE account_id = %(account_id)s AND id = %(meeting_id)s
"""

# The account of the meeting that a provider names, the latest that had the id; nothing is locked yet.
_FIND_AT_PROVIDER = """
SELECT account_id, id FROM meetings
WHERE provider = %(provider)s AND provider_meeting_id = %(provider_meeting_id)s ORDER BY id DESC LIMIT 1
"""

# A status that the provider or the clock brought. A meeting that ended frees its host.
_SAVE_LIFECYCLE = f"""
WITH guard AS MATERIALIZED (SELECT %(account_id)s::uuid AS account_id), {WRITE_EVENTS}, meeting AS (
    UPDATE meetings SET status = %(meeting_status)s, {LOOKED_FOR}
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s
), {FREE_HOST}, account AS (
    UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s
)
SELECT count(*) AS due FROM delivery WHERE status = 'pending'
"""


class MeetingClock(MeetingCancellation):
    """What happens to a meeting without a request."""

    async def load_by_provider_id(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        parameters = {"provider": provider, "provider_meeting_id": provider_meeting_id}
        row = await self._one(_FIND_AT_PROVIDER, parameters)
        view = None if row is None else await self.load_locked(row["account_id"], row["id"], None)
        return None if view is None else view.meeting

    async def save_lifecycle(
        self, meeting: Meeting, events: Sequence[Event], *, invalidates_host_key: bool
    ) -> int:
        parameters = {
            "account_id": meeting.account_id,
            "meeting_id": meeting.id,
            "meeting_status": meeting.status.value,
            "is_over": meeting.status is MeetingStatus.ENDED,
            "invalidates_host_key": invalidates_host_key,
        } | event_parameters(events, self._cipher)
        return await self._due(_SAVE_LIFECYCLE, parameters)

    async def claim_due(self, limit: int, again_s: float) -> Sequence[DueMeeting]:
        return [
            DueMeeting(meeting(row, self._cipher), row["provider_user_id"], row["recording_checks"])
            for row in await self._all(_CLAIM_DUE, {"limit": limit, "again_s": again_s})
        ]

    async def schedule_next_check(self, meeting: Meeting, again_s: float | None = None) -> None:
        parameters = {"account_id": meeting.account_id, "meeting_id": meeting.id, "again_s": again_s}
        await self._connection.execute(_SCHEDULE_NEXT_CHECK, parameters)

    async def claim_expired(self, limit: int, lease: Lease) -> Sequence[ExpiredLease]:
        parameters = {"limit": limit, "token": lease.token, "lease_s": lease.seconds}
        return [_expired_lease(row) for row in await self._all(_CLAIM_EXPIRED, parameters)]

    async def lease_expired(self, account_id: UUID, meeting_id: UUID, lease: Lease) -> ExpiredLease | None:
        return await self._take(_CLAIM_ONE_EXPIRED, account_id, meeting_id, lease)

    async def take_lease(self, account_id: UUID, meeting_id: UUID, lease: Lease) -> ExpiredLease | None:
        return await self._take(_TAKE_ONE, account_id, meeting_id, lease)

    async def _take(
        self, statement: str, account_id: UUID, meeting_id: UUID, lease: Lease
    ) -> ExpiredLease | None:
        parameters = {
            "account_id": account_id,
            "meeting_id": meeting_id,
            "token": lease.token,
            "lease_s": lease.seconds,
        }
        row = await self._one(statement, parameters)
        return None if row is None else _expired_lease(row)


def _expired_lease(row: Row) -> ExpiredLease:
    return ExpiredLease(row["account_id"], row["id"], row["lease_token"])
