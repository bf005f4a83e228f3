"""Reads of meetings in PostgreSQL: one with its host's key, a page of an account's, the next free start.

Each is one statement, outside any transaction. Nothing is locked; the domain decides what is shown.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from meetcore.adapters.postgres.columns import Row, utc
from meetcore.adapters.postgres.hosts.free import FITS, OPEN_HOSTS
from meetcore.adapters.postgres.meetings.rows import MEETING_COLUMNS, meeting, meeting_with_key
from meetcore.adapters.postgres.meetings.search import BY_TITLE, title_patterns, title_query
from meetcore.adapters.postgres.meetings.shown import HOST_KEY, STANDS
from meetcore.adapters.postgres.repository import NEWEST, Reads
from meetcore.domain.ids import id_bound
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.meetings.schedule import MAX_DAYS_AHEAD
from meetcore.ports.queries import (
    FREE_START_WITHIN,
    MAX_ENDS_LOOKED_AT,
    MAX_PAGE,
    FreeStartQuery,
    MeetingFilter,
)

# One of an account's meetings.
_FIND_MEETING = f"""
SELECT {MEETING_COLUMNS}, {HOST_KEY} FROM meetings m
WHERE m.account_id = %(account_id)s AND m.id = %(id)s
"""

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
    page = _PAGE.format(condition=f"({' OR '.join(STANDS[status])})")
    return f"""
SELECT {MEETING_COLUMNS}, {HOST_KEY}
FROM {page} AS page JOIN meetings m ON m.account_id = %(account_id)s AND m.id = page.id
ORDER BY m.id DESC
"""


def _page_in_time(status: MeetingStatus | None) -> str:
    # A page of a range of starts: of all there are, or a scan that skips what lies outside. In the scan the start is
    # hidden from the planner, which takes any range for a small one and would sort it.
    parts = [
        f"""m.account_id = %(account_id)s AND m.start_at >= %(from)s AND m.start_at < %(to)s
            AND {stands}"""
        for stands in STANDS[status]
    ]
    counted = " UNION ALL ".join(
        f"(SELECT FROM meetings m WHERE {part} LIMIT {_READ_WHOLE + 1})" for part in parts
    )
    whole = " UNION ALL ".join(
        f"SELECT m.id FROM meetings m WHERE (SELECT is_small FROM probe) AND {part} AND m.id < %(before)s"
        for part in parts
    )
    in_time = "m.start_at + interval '0' >= %(from)s AND m.start_at + interval '0' < %(to)s"
    stands = " OR ".join(STANDS[status])
    page = _PAGE.format(condition=f"NOT (SELECT is_small FROM probe) AND ({stands}) AND {in_time}")
    return f"""
WITH probe AS MATERIALIZED (
    SELECT count(*) <= {_READ_WHOLE} AS is_small FROM ({counted}) AS counted
), page AS (
    (SELECT * FROM ({whole}) AS whole ORDER BY id DESC LIMIT %(limit)s)
    UNION ALL
    {page}
)
SELECT {MEETING_COLUMNS}, {HOST_KEY}
FROM page JOIN meetings m ON m.account_id = %(account_id)s AND m.id = page.id
ORDER BY m.id DESC
"""


# A page of an account's meetings, the newest first, all of them or those shown in a status.
_BY_ID = {status: _page_by_id(status) for status in STANDS}
# The same of a range of starts.
_IN_TIME = {status: _page_in_time(status) for status in STANDS}

# The instant that was wished for, if a fitting host is free then after all; else the first end of a reservation at
# which that slot of a fitting host stays free for as long as it takes.
_NEXT_FREE_START = f"""
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


# When a host with the seats may be given a meeting, free or not (`domain.meetings.hosts.Host.next_creation_at`). Of an
# instant the day in UTC decides, as the connection's time zone is UTC.
_NEXT_CREATION = """
SELECT min(CASE WHEN h.creations_on = first::date AND h.creations >= %(per_day)s
                THEN (first::date + 1)::timestamptz ELSE first END) AS at
FROM hosts h CROSS JOIN LATERAL (SELECT GREATEST(h.unavailable_until, %(now)s::timestamptz) AS first) AS rested
WHERE h.is_active AND h.capacity >= %(seats)s
"""

# The meeting that a provider names, the latest that had the id.
_FIND_AT_PROVIDER = f"""
SELECT {MEETING_COLUMNS} FROM meetings m
WHERE m.provider = %(provider)s AND m.provider_meeting_id = %(provider_meeting_id)s ORDER BY m.id DESC LIMIT 1
"""

# Whether a process works on a meeting now. Polled by duplicate requests: it locks nothing.
_IS_IN_PROGRESS = """
SELECT 1 FROM meetings WHERE account_id = %(account_id)s AND id = %(id)s AND lease_until > clock_timestamp()
"""


class MeetingReads(Reads):
    """Reads of meetings and of when hosts are free."""

    async def find_meeting(self, account_id: UUID, meeting_id: UUID) -> Meeting | None:
        row = await self._one(_FIND_MEETING, {"account_id": account_id, "id": meeting_id})
        return None if row is None else meeting_with_key(row, self._cipher)

    async def is_in_progress(self, account_id: UUID, meeting_id: UUID) -> bool:
        return await self._one(_IS_IN_PROGRESS, {"account_id": account_id, "id": meeting_id}) is not None

    async def list_meetings(
        self, account_id: UUID, wanted: MeetingFilter, limit: int, before: UUID | None
    ) -> Sequence[Meeting]:
        page = _page_parameters(account_id, wanted, limit, before)
        found = await self._all(_page_statement(wanted), page)
        return [meeting_with_key(row, self._cipher) for row in found]

    async def next_free_start(self, wanted: FreeStartQuery) -> datetime | None:
        row = await self._one(_NEXT_FREE_START, _free_start_parameters(wanted))
        return None if row is None else utc(row["at"])

    async def next_creation_at(self, wanted: FreeStartQuery) -> datetime | None:
        row = await self._one(_NEXT_CREATION, _free_start_parameters(wanted))
        return None if row is None or row["at"] is None else utc(row["at"])

    async def find_at_provider(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        parameters = {"provider": provider, "provider_meeting_id": provider_meeting_id}
        row = await self._one(_FIND_AT_PROVIDER, parameters)
        return None if row is None else meeting(row, self._cipher)


def _page_statement(wanted: MeetingFilter) -> str:
    if wanted.words:
        return BY_TITLE[wanted.status]
    is_ranged = wanted.starts_from is not None or wanted.starts_before is not None
    return (_IN_TIME if is_ranged else _BY_ID)[wanted.status]


def _page_parameters(account_id: UUID, wanted: MeetingFilter, limit: int, before: UUID | None) -> Row:
    # What starts before an instant was made before it, and so was its id.
    bounds = [NEWEST] if before is None else [before]
    if wanted.starts_before is not None:
        bounds.append(id_bound(wanted.starts_before))
    return {
        "account_id": account_id,
        "now": wanted.now,
        "from": wanted.starts_from or "-infinity",
        "to": wanted.starts_before or "infinity",
        "before": min(bounds),
        "limit": limit,
        "words": title_query(account_id, wanted.words),
        "patterns": title_patterns(wanted.words),
    }


def _free_start_parameters(wanted: FreeStartQuery) -> Row:
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
