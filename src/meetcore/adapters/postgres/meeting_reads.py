"""Reads of meetings in PostgreSQL: one with its host's key, a page of an account's, the next free start.

Each is one statement, outside any transaction. Nothing is locked; the domain decides what is shown.
"""

from datetime import UTC, timedelta
from typing import Any
from uuid import UUID

from meetcore.adapters.postgres.free_hosts import FITS, OPEN_HOSTS
from meetcore.adapters.postgres.meetings import MEETING_COLUMNS
from meetcore.domain.ids import id_bound
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.meetings.schedule import MAX_DAYS_AHEAD
from meetcore.ports.queries import (
    FREE_START_WITHIN,
    MAX_ENDS_LOOKED_AT,
    MAX_PAGE,
    FreeStartQuery,
    MeetingFilter,
)

__all__ = [
    "FIND_MEETING",
    "HOST_KEY",
    "NEXT_FREE_START",
    "free_start_parameters",
    "page_parameters",
    "page_statement",
]

_NEWEST = UUID(int=(1 << 128) - 1)  # no record has it, and every id is less

# The key of a meeting's host, where it is in place and the meeting is the first on the host: what it reserved is
# there, and no reservation begins before.
HOST_KEY = """(
        SELECT h.host_key FROM host_reservations r
        JOIN hosts h ON h.id = r.host_id AND h.max_concurrent = 1 AND h.key_due_at IS NULL
        WHERE r.account_id = m.account_id AND r.meeting_id = m.id AND NOT EXISTS (
            SELECT FROM host_reservations e
            WHERE e.host_id = r.host_id AND e.during && tstzrange(NULL, lower(r.during)))
    ) AS host_key"""

# One of an account's meetings.
FIND_MEETING = f"""
SELECT m.account_id, {MEETING_COLUMNS}, {HOST_KEY} FROM meetings m
WHERE m.account_id = %(account_id)s AND m.id = %(id)s
"""

# `domain.meetings.shown_status` as conditions, of which one holds. Each names statuses, and bounds the start
# wherever it bounds the end, for the sake of the indexes.
_STANDS: dict[MeetingStatus | None, tuple[str, ...]] = {
    None: ("m.status IN ('scheduled', 'cancelling', 'started', 'ended', 'cancelled')",),
    MeetingStatus.SCHEDULED: ("m.status IN ('scheduled', 'cancelling') AND m.start_at > %(now)s",),
    MeetingStatus.STARTED: (
        "m.status = 'started' AND m.end_at > %(now)s",
        "m.status IN ('scheduled', 'cancelling') AND m.start_at <= %(now)s AND m.end_at > %(now)s",
    ),
    MeetingStatus.ENDED: (
        "m.status = 'ended'",
        """m.status IN ('scheduled', 'cancelling', 'started') AND m.start_at <= %(now)s
            AND m.end_at <= %(now)s""",
    ),
    MeetingStatus.CANCELLED: ("m.status = 'cancelled'",),
}

# Of a range of starts, so many meetings are read whole and sorted. Where there are more, the first of them are near
# when scanning down from the newest possible one.
_READ_WHOLE = 2_000

# The next of an account's meetings, by the ids backwards. The inner limit is for the planner: of a parameter it would
# expect a tenth of the table, and sort that instead of reading an index backwards.
_PAGE = f"""(SELECT * FROM (
        SELECT m.id FROM meetings m
        WHERE m.account_id = %(account_id)s AND m.id < %(before)s AND {{condition}}
        ORDER BY m.id DESC LIMIT {MAX_PAGE}
    ) AS walked LIMIT %(limit)s)"""


def _page_by_id(status: MeetingStatus | None) -> str:
    page = _PAGE.format(condition=f"({' OR '.join(_STANDS[status])})")
    return f"""
SELECT m.account_id, {MEETING_COLUMNS}, {HOST_KEY}
FROM {page} AS page JOIN meetings m ON m.account_id = %(account_id)s AND m.id = page.id
ORDER BY m.id DESC
"""


def _page_in_time(status: MeetingStatus | None) -> str:
    # A page of a range of starts: of all there are, or a scan that skips what lies outside. In the scan the start is
    # hidden from the planner, which takes any range for a small one and would sort it.
    parts = [
        f"""m.account_id = %(account_id)s AND m.start_at >= %(from)s AND m.start_at < %(to)s
            AND {stands}"""
        for stands in _STANDS[status]
    ]
    counted = " UNION ALL ".join(
        f"(SELECT FROM meetings m WHERE {part} LIMIT {_READ_WHOLE + 1})" for part in parts
    )
    whole = " UNION ALL ".join(
        f"SELECT m.id FROM meetings m WHERE (SELECT is_small FROM probe) AND {part} AND m.id < %(before)s"
        for part in parts
    )
    in_time = "m.start_at + interval '0' >= %(from)s AND m.start_at + interval '0' < %(to)s"
    stands = " OR ".join(_STANDS[status])
    page = _PAGE.format(condition=f"NOT (SELECT is_small FROM probe) AND ({stands}) AND {in_time}")
    return f"""
WITH probe AS MATERIALIZED (
    SELECT count(*) <= {_READ_WHOLE} AS is_small FROM ({counted}) AS counted
), page AS (
    (SELECT * FROM ({whole}) AS whole ORDER BY id DESC LIMIT %(limit)s)
    UNION ALL
    {page}
)
SELECT m.account_id, {MEETING_COLUMNS}, {HOST_KEY}
FROM page JOIN meetings m ON m.account_id = %(account_id)s AND m.id = page.id
ORDER BY m.id DESC
"""


# A page of an account's meetings, the newest first, all of them or those shown in a status.
_BY_ID = {status: _page_by_id(status) for status in _STANDS}
# The same of a range of starts.
_IN_TIME = {status: _page_in_time(status) for status in _STANDS}

# The instant that was wished for, if a fitting host is free then after all; else the first end of a reservation at
# which that slot of a fitting host stays free for as long as it takes.
NEXT_FREE_START = f"""
WITH {OPEN_HOSTS}
SELECT at FROM (
    SELECT %(start_at)s AS at WHERE %(start_at)s <= %(latest)s AND EXISTS (SELECT FROM open_hosts)
    UNION ALL
    (SELECT upper(r.during) FROM (
        SELECT host_id, slot, during FROM host_reservations
        WHERE upper(during) > %(start_at)s AND upper(during) <= %(latest)s
        ORDER BY upper(during) LIMIT {MAX_ENDS_LOOKED_AT}
    ) AS r JOIN hosts h ON h.id = r.host_id
    WHERE {FITS} AND r.slot < h.max_concurrent AND NOT EXISTS (
        SELECT FROM host_reservations o WHERE o.host_id = r.host_id AND o.slot = r.slot
            AND o.during && tstzrange(upper(r.during), upper(r.during) + %(length)s))
    ORDER BY upper(r.during) LIMIT 1)
) AS free ORDER BY at LIMIT 1
"""


def page_statement(wanted: MeetingFilter) -> str:
    """The statement that reads a page of such meetings."""
    is_ranged = wanted.starts_from is not None or wanted.starts_before is not None
    return (_IN_TIME if is_ranged else _BY_ID)[wanted.status]


def page_parameters(
    account_id: UUID, wanted: MeetingFilter, limit: int, before: UUID | None
) -> dict[str, Any]:
    """Its parameters. What starts before an instant was made before it, and so was its id."""
    bounds = [_NEWEST] if before is None else [before]
    if wanted.starts_before is not None:
        bounds.append(id_bound(wanted.starts_before))
    return {
        "account_id": account_id,
        "now": wanted.now,
        "from": wanted.starts_from or "-infinity",
        "to": wanted.starts_before or "infinity",
        "before": min(bounds),
        "limit": limit,
    }


def free_start_parameters(wanted: FreeStartQuery) -> dict[str, Any]:
    """The parameters of `NEXT_FREE_START`."""
    length = timedelta(minutes=wanted.minutes)
    latest = min(wanted.start_at + FREE_START_WITHIN, wanted.now + timedelta(days=MAX_DAYS_AHEAD))
    return {
        "seats": wanted.seats,
        "start_at": wanted.start_at,
        "end_at": wanted.start_at + length,
        "length": length,
        "latest": latest,
        "now": wanted.now,
        "today": wanted.now.astimezone(UTC).date(),
        "per_day": wanted.per_day,
    }
