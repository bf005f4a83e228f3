"""Reads of meetings in SQLite: one with its host's key, a page of an account's, the next free start.

One machine's meetings are some thousands: a page reads its account's backwards, whatever the filter.
"""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.meetings.schedule import MAX_DAYS_AHEAD
from meetcore.ports.queries import FREE_START_WITHIN, MAX_ENDS_LOOKED_AT, FreeStartQuery, MeetingFilter

from . import rows
from .connection import Connection

__all__ = ["find_meeting", "list_meetings", "next_creation_at", "next_free_start"]

# One of an account's meetings.
_FIND = "SELECT * FROM meetings_with_keys WHERE account_id = :account_id AND id = :id"

# A page of those that a customer may see. The status is that of `domain.meetings.shown_status`.
_LIST = """
SELECT * FROM meetings_with_keys
WHERE account_id = :account_id AND id < :before AND status NOT IN ('provisioning', 'abandoned')
    AND (:starts_from IS NULL OR start_at >= :starts_from)
    AND (:starts_before IS NULL OR start_at < :starts_before)
    AND (:status IS NULL OR :status = CASE
        WHEN status IN ('ended', 'cancelled') THEN status
        WHEN end_at <= :now THEN 'ended'
        WHEN start_at <= :now OR status = 'started' THEN 'started'
        ELSE 'scheduled' END)
ORDER BY id DESC LIMIT :limit
"""

# Whether a host that may be given such a meeting now (`domain.hosts.Host.can_take`, and the seats) has a slot
# free when it was wished for, after all.
_IS_FREE = """
SELECT 1 FROM hosts h
WHERE h.is_active AND h.capacity >= :seats AND (h.rests_until IS NULL OR h.rests_until <= :now)
    AND (:per_day IS NULL OR h.creations_on IS NOT :today OR h.creations < :per_day)
    AND h.max_concurrent > (
        SELECT count(DISTINCT r.slot) FROM host_reservations r
        WHERE r.host_id = h.id AND r.start_at < :end_at AND :start_at < r.end_at)
LIMIT 1
"""

# The first end of a reservation at which that slot of such a host stays free for as long as it takes.
_NEXT_FREE = """
SELECT r.end_at AS at FROM (
    SELECT * FROM host_reservations WHERE end_at > :start_at AND end_at <= :latest
    ORDER BY end_at LIMIT :looked_at) AS r
JOIN hosts h ON h.id = r.host_id
WHERE h.is_active AND h.capacity >= :seats AND (h.rests_until IS NULL OR h.rests_until <= :now)
    AND (:per_day IS NULL OR h.creations_on IS NOT :today OR h.creations < :per_day)
    AND NOT EXISTS (
        SELECT 1 FROM host_reservations o WHERE o.host_id = r.host_id AND o.slot = r.slot
            AND o.start_at < r.end_at + :length AND r.end_at < o.end_at)
ORDER BY r.end_at LIMIT 1
"""

_NEWEST = "~"  # comes after every id, which is text here


async def find_meeting(reader: Connection, account_id: UUID, meeting_id: UUID) -> Meeting | None:
    """An account's meeting in any state, with the key of its host."""
    row = await reader.fetch_one(_FIND, {"account_id": account_id, "id": meeting_id})
    return None if row is None else rows.record(Meeting, row)


async def list_meetings(
    reader: Connection, account_id: UUID, wanted: MeetingFilter, limit: int, before: UUID | None
) -> list[Meeting]:
    """An account's meetings that a customer may see, the newest first."""
    page = {"account_id": account_id, "limit": limit, "before": before or _NEWEST}
    found = await reader.fetch(_LIST, rows.fields_of(wanted) | page)
    return [rows.record(Meeting, row) for row in found]


async def next_free_start(reader: Connection, wanted: FreeStartQuery) -> datetime | None:
    """The earliest instant from `start_at` on at which such a meeting could be reserved now."""
    length = timedelta(minutes=wanted.minutes)
    latest = min(wanted.start_at + FREE_START_WITHIN, wanted.now + timedelta(days=MAX_DAYS_AHEAD))
    if latest < wanted.start_at:
        return None
    parameters = rows.fields_of(wanted) | {
        "today": wanted.now.astimezone(UTC).date(),
        "end_at": wanted.start_at + length,
        "length": length // rows.MICROSECOND,
        "latest": latest,
        "looked_at": MAX_ENDS_LOOKED_AT,
    }
    if await reader.fetch(_IS_FREE, parameters):
        return wanted.start_at
    row = await reader.fetch_one(_NEXT_FREE, parameters)
    return None if row is None else rows.instant(row["at"])


async def next_creation_at(reader: Connection, wanted: FreeStartQuery) -> datetime | None:
    """The first instant from `now` on at which a host with the seats may be given a meeting."""
    found = await reader.fetch("SELECT * FROM hosts WHERE capacity >= :seats", rows.fields_of(wanted))
    firsts = (rows.record(Host, row).next_creation_at(wanted.now, wanted.per_day) for row in found)
    return min((first for first in firsts if first is not None), default=None)
