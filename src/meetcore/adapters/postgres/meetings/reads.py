"""Reads of meetings: by id with the host's key, pages by time, pages by words of the title.

Words that many meetings have are found near the newest ones; words that few have are found by the index of
words and sorted; in between the meetings are scanned from the newest on. Each read is one statement outside
any transaction.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from uuid import UUID

from meetcore.adapters.postgres.columns import Row, utc
from meetcore.adapters.postgres.meetings import rows
from meetcore.adapters.postgres.repository import NEWEST, Reads, load_statements
from meetcore.domain.ids import id_bound
from meetcore.domain.meetings import views
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.meetings.schedule import MAX_DAYS_AHEAD
from meetcore.ports.queries import MAX_PAGE

# `domain.meetings.meetings.shown_status` as conditions, of which one holds. Each names statuses, and bounds the start
# wherever it bounds the end, for the sake of the indexes.
STANDS: dict[MeetingStatus | None, tuple[str, ...]] = {
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


# How many meetings are scanned for words of their titles, and how many that the index of words finds are sorted.
NEWEST_LOOKED_AT = 1_000
MOST_SORTED = 5_000
# How many meetings of a range of starts are read whole and sorted. Where there are more, the first of them are near when scanning
# down from the newest possible one.
_READ_WHOLE = 2_000

SQL = load_statements(
    __file__, MAX_ENDS_LOOKED_AT=views.MAX_ENDS_LOOKED_AT, MAX_PAGE=MAX_PAGE, MEETING=rows.MEETING,
    MOST_CHECKED_HOSTS=rows.MOST_CHECKED_HOSTS, MOST_FREE_HOSTS=rows.MOST_FREE_HOSTS, MOST_SORTED=MOST_SORTED,
    NEWEST_LOOKED_AT=NEWEST_LOOKED_AT, READ_WHOLE=_READ_WHOLE,
)  # fmt: skip


def title_query(account_id: UUID, words: Sequence[str]) -> str:
    """Return the words as a `tsquery`; each is letters and digits alone."""
    account = str(account_id)[24:]
    return " & ".join(f"'{account}{word}':*" for word in words)


def title_patterns(words: Sequence[str]) -> list[str]:
    """Return the words as regular expressions, of which a title matches each."""
    return [f"(^|[^[:alnum:]]){word}" for word in words]


def _filled(statement: str, stands: Sequence[str]) -> str:
    return statement.replace("{stands}", " OR ".join(stands))


def _in_time(stands: Sequence[str]) -> str:
    """Each condition on the status has an index of its own: the counts and the whole reads are unions over them."""
    parts = [
        f"m.account_id = %(account_id)s AND m.start_at >= %(from)s AND m.start_at < %(to)s AND {each}"
        for each in stands
    ]
    counted = (f"(SELECT FROM meetings m WHERE {part} LIMIT {_READ_WHOLE + 1})" for part in parts)
    whole = (
        f"SELECT m.id FROM meetings m WHERE (SELECT is_small FROM probe) AND {part} AND m.id < %(before)s"
        for part in parts
    )
    page = _filled(SQL["page_in_time"], stands).replace("{counted}", " UNION ALL ".join(counted))
    return page.replace("{whole}", " UNION ALL ".join(whole))


# Pages of an account's meetings, all of them or those shown in a status: by words of their titles, by id, in a range of starts.
_BY_TITLE = {status: _filled(SQL["page_by_title"], stands) for status, stands in STANDS.items()}
_BY_ID = {status: _filled(SQL["page_by_id"], stands) for status, stands in STANDS.items()}
_IN_TIME = {status: _in_time(stands) for status, stands in STANDS.items()}


class MeetingReads(Reads):
    """Reads of meetings and of when hosts are free."""

    async def find_meeting(self, account_id: UUID, meeting_id: UUID) -> Meeting | None:
        row = await self._one(SQL["find_meeting"], account_id=account_id, id=meeting_id)
        return None if row is None else rows.meeting_with_key(row, self._cipher)

    async def is_in_progress(self, account_id: UUID, meeting_id: UUID) -> bool:
        return (
            await self._one(SQL["is_in_progress"], {"account_id": account_id, "id": meeting_id}) is not None
        )

    async def list_meetings(
        self, account_id: UUID, wanted: views.MeetingFilter, limit: int, before: UUID | None
    ) -> Sequence[Meeting]:
        page = _page_parameters(account_id, wanted, limit, before)
        found = await self._all(_page_statement(wanted), page)
        return [rows.meeting_with_key(row, self._cipher) for row in found]

    async def list_meetings_by_start(
        self,
        account_id: UUID,
        wanted: views.MeetingFilter,
        limit: int,
        after: views.StartCursor | None,
        *,
        is_ascending: bool,
    ) -> Sequence[Meeting]:
        page: Row = {
            "account_id": account_id,
            "now": wanted.now,
            "from": wanted.starts_from or "-infinity",
            "to": wanted.starts_before or "infinity",
            "limit": limit,
        }
        if after is not None:
            page |= {"after_start": after.start_at, "after_id": after.id}
        statement = _by_start(wanted.status, is_ascending=is_ascending, is_first=after is None)
        return [rows.meeting(row, self._cipher) for row in await self._all(statement, page)]

    async def next_free_start(self, wanted: views.FreeStartQuery) -> datetime | None:
        row = await self._one(SQL["next_free_start"], _free_start_parameters(wanted))
        return None if row is None else utc(row["at"])

    async def next_creation_at(self, wanted: views.FreeStartQuery) -> datetime | None:
        row = await self._one(SQL["next_creation"], _free_start_parameters(wanted))
        return None if row is None or row["at"] is None else utc(row["at"])

    async def find_at_provider(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        parameters = {"provider": provider, "provider_meeting_id": provider_meeting_id}
        row = await self._one(SQL["find_at_provider"], parameters)
        return None if row is None else rows.meeting(row, self._cipher)


# The statuses in the table of the meetings that a status shows, in the order of the conditions of `STANDS`.
_STATUSES: dict[MeetingStatus | None, tuple[str, ...]] = {
    None: ("scheduled", "cancelling", "started", "ended", "cancelled"),
    MeetingStatus.SCHEDULED: ("scheduled", "cancelling"),
    MeetingStatus.STARTED: ("scheduled", "cancelling", "started"),
    MeetingStatus.ENDED: ("scheduled", "cancelling", "started", "ended"),
    MeetingStatus.CANCELLED: ("cancelled",),
}


@cache
def _by_start(status: MeetingStatus | None, *, is_ascending: bool, is_first: bool) -> str:
    """Compose the page for a shown status: each part walks the index of one status alone, and so needs no sort."""
    order, follows = ("ASC", ">") if is_ascending else ("DESC", "<")
    behind = "" if is_first else f" AND (m.start_at, m.id) {follows} (%(after_start)s, %(after_id)s)"
    stands = " OR ".join(STANDS[status])
    parts = (
        f"""(SELECT m.id, m.start_at FROM meetings m WHERE m.account_id = %(account_id)s AND m.status = '{each}'
            AND m.start_at >= %(from)s AND m.start_at < %(to)s{behind} AND ({stands})
        ORDER BY m.start_at {order}, m.id {order} LIMIT %(limit)s)"""
        for each in _STATUSES[status]
    )
    return SQL["page_by_start"].replace("{parts}", " UNION ALL ".join(parts)).replace("{order}", order)


def _page_statement(wanted: views.MeetingFilter) -> str:
    if wanted.words:
        return _BY_TITLE[wanted.status]
    is_ranged = wanted.starts_from is not None or wanted.starts_before is not None
    return (_IN_TIME if is_ranged else _BY_ID)[wanted.status]


def _page_parameters(account_id: UUID, wanted: views.MeetingFilter, limit: int, before: UUID | None) -> Row:
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


def _free_start_parameters(wanted: views.FreeStartQuery) -> Row:
    length = timedelta(minutes=wanted.minutes)
    latest = min(wanted.start_at + views.FREE_START_WITHIN, wanted.now + timedelta(days=MAX_DAYS_AHEAD))
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
