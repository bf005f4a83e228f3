"""Lists of meetings: those of today and later before the earlier ones, by words of the title, and by week."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from attrs import evolve, frozen
from starlette.responses import Response

from meetcore.adapters.web import forms
from meetcore.adapters.web.texts import MEETING_STATES, _
from meetcore.adapters.web.visit import AreaVisit, Page, Visit
from meetcore.domain.meetings import schedule, views
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus, shown_status
from meetcore.domain.members.roles import Action
from meetcore.domain.texts import search_words

ROOT: Final = "/dashboard/meetings"
MOST_OF_WEEK = 300
"""Meetings that a week shows."""


class When(StrEnum):
    """The two lists of meetings, in the order of the page."""

    UPCOMING = "upcoming"
    PAST = "past"


_LISTS: Final[Mapping[When, str]] = {When.UPCOMING: _("Today and later"), When.PAST: _("Earlier")}
_FILTERS: Final = ("search", "status", "from", "to")


@frozen
class _Row:
    """A meeting in a list; `state` is the text and the kind of its mark, `credits` the price less refunds."""

    id: UUID
    title: str
    start_at: datetime
    end_at: datetime
    state: tuple[str, str]
    credits: int
    has_ended: bool


@frozen
class MeetingList:
    """A part of the page: its rows, and the address of the next page with the text of its link.

    `nothing` is shown in place of no rows where nothing was searched for.
    """

    heading: str
    rows: Sequence[_Row]
    further: str = ""
    further_text: str = ""
    nothing: str = ""


@frozen
class WeekDay:
    """A day (WIB) of a week, with its meetings in the order of their starts."""

    day: date
    is_today: bool
    meetings: Sequence[_Row]


@Page("GET", ROOT, Action.VIEW_MEETINGS)
async def list_meetings(visit: Visit) -> Response:
    """Show the meetings by their starts, those found by words of the title, or those of a week."""
    days = forms.read_days(visit)
    status = forms.read_choice(visit, "status", MEETING_STATES, days.errors)
    wanted = views.MeetingFilter(visit.now, status, words=search_words(visit.query("search")))
    if visit.query("view") == "week":
        return await _show_week(visit, wanted, days.errors)
    wanted = evolve(wanted, starts_from=days.begins_at, starts_before=days.ends_at)
    if wanted.words:
        found = await visit.use.reads.list_meetings(
            visit.signed_in, wanted, forms.PAGE_SIZE + 1, forms.read_before(visit)
        )
        shown, older = forms.first_page(visit, found, lambda one: one.id, *_FILTERS)
        heading = visit.text("Found, the last made first")
        lists = [MeetingList(heading, meeting_rows(visit, shown), older)]
    else:
        when = visit.query("when")
        lists = [
            shown
            for each in When
            if when in ("", each) or when not in set(When)
            for shown in _split(visit, each, await _by_start(visit, wanted, each))
        ]
    return _page(visit, lists=lists, errors=days.errors)


def _page(visit: Visit, **values: object) -> Response:
    """Render the page with its filters, and the links to its other view, which keep them."""
    chosen = {name: visit.query(name).strip() for name in _FILTERS}
    kept = {name: chosen[name] for name in ("search", "status")}
    common: dict[str, object] = {
        "chosen": chosen,
        "statuses": visit.choices((each.value, label) for each, (label, _kind) in MEETING_STATES.items()),
        "list_link": forms.address(ROOT, **kept),
        "week_link": forms.address(ROOT, **kept, view="week", week=chosen["from"]),
        "errors": {},
        "lists": (),
        "week": (),
    }
    return visit.page("meetings.html", 200, **common | values)


async def _show_week(visit: Visit, wanted: views.MeetingFilter, errors: Mapping[str, str]) -> Response:
    """Show the meetings that start in a week, from Monday to Sunday in WIB."""
    monday, today = forms.read_week(visit), schedule.cap_day(visit.now)
    days = [monday + timedelta(days=number) for number in range(7)]
    span = forms.DayRange(days[0], days[-1])
    found = await _of_week(visit, evolve(wanted, starts_from=span.begins_at, starts_before=span.ends_at))
    rows = meeting_rows(visit, found[:MOST_OF_WEEK])
    kept = {name: visit.query(name).strip() for name in ("search", "status")}

    def link(monday: date | None) -> str:
        return forms.address(ROOT, **kept, view="week", week=_week_name(monday) if monday else "")

    return _page(
        visit,
        errors=errors,
        week=[
            WeekDay(day, day == today, [row for row in rows if schedule.cap_day(row.start_at) == day])
            for day in days
        ],
        week_name=_week_name(monday),
        earlier=link(monday - timedelta(days=7)),
        later=link(monday + timedelta(days=7)),
        now_link=link(None),
        whole_list=forms.address(ROOT, **kept, **{"from": str(days[0]), "to": str(days[-1])})
        if len(found) > MOST_OF_WEEK
        else "",
    )


async def _of_week(visit: Visit, wanted: views.MeetingFilter) -> Sequence[Meeting]:
    """Read the meetings of a week by their starts, one more than are shown where there are more."""
    reads, who, limit = visit.use.reads, visit.signed_in, MOST_OF_WEEK + 1
    if not wanted.words:
        return await reads.list_meetings_by_start(who, wanted, limit, None, is_ascending=True)
    return sorted(await reads.list_meetings(who, wanted, limit, None), key=lambda one: one.start_at)


def _week_name(monday: date) -> str:
    """Name a week as ISO 8601 does: `2026-W48`."""
    year, week, _day = monday.isocalendar()
    return f"{year}-W{week:02}"


def today_begins_at(visit: Visit) -> datetime:
    """Return when the present day began, in WIB."""
    return schedule.cap_day_ends_at(schedule.cap_day(visit.now)) - timedelta(days=1)


async def _by_start(visit: Visit, wanted: views.MeetingFilter, when: When) -> MeetingList:
    """Read the meetings of today and later, the first one first, or the earlier ones, the last one first."""
    is_upcoming, today = when is When.UPCOMING, today_begins_at(visit)
    if is_upcoming:
        wanted = evolve(wanted, starts_from=max(wanted.starts_from or today, today))
    else:
        wanted = evolve(wanted, starts_before=min(wanted.starts_before or today, today))
    after = _read_cursor(visit) if visit.query("when") == when else None
    found = await visit.use.reads.list_meetings_by_start(
        visit.signed_in, wanted, forms.PAGE_SIZE + 1, after, is_ascending=is_upcoming
    )
    shown, further = found[: forms.PAGE_SIZE], ""
    if len(found) > forms.PAGE_SIZE:
        last = f"{shown[-1].start_at.isoformat()}_{shown[-1].id}"
        further = f"{forms.older(visit, last, *_FILTERS)}&when={when}"
    return MeetingList(
        visit.text(_LISTS[when]),
        meeting_rows(visit, shown),
        further,
        visit.text("Later") if is_upcoming else "",
        visit.text(_("No meeting is planned.") if is_upcoming else _("No meeting is over yet.")),
    )


def _split(visit: Visit, when: When, found: MeetingList) -> list[MeetingList]:
    """Take the meetings that have ended, the last one first, out of those of today and later."""
    over = [row for row in reversed(found.rows) if row.has_ended]
    if when is When.PAST or not over:
        return [found]
    coming = evolve(found, rows=[row for row in found.rows if not row.has_ended])
    lists = [coming, MeetingList(visit.text("Over already"), over)]
    return lists if coming.rows or coming.further else lists[1:]


def _read_cursor(visit: Visit) -> views.StartCursor | None:
    """Read the place that a list goes on behind; anything else means its beginning."""
    text, _mark, id_ = visit.query("before").rpartition("_")
    try:
        at = datetime.fromisoformat(text)
        return views.StartCursor(at, UUID(id_)) if at.utcoffset() is not None else None
    except ValueError:
        return None


def meeting_rows(visit: AreaVisit[Any, Any, Any], meetings: Sequence[Meeting]) -> list[_Row]:
    """Turn meetings into rows of `meeting_rows.html`."""
    return [
        _Row(
            each.id,
            each.title,
            each.start_at,
            each.end_at,
            meeting_state(visit, each),
            each.credits - (each.credits_refunded or 0),
            shown_status(each, visit.now) is MeetingStatus.ENDED,
        )
        for each in meetings
    ]


def meeting_state(visit: AreaVisit[Any, Any, Any], meeting: Meeting) -> tuple[str, str]:
    """Describe the state of a meeting: its text, and the kind of its mark."""
    return visit.mark(MEETING_STATES[shown_status(meeting, visit.now)])
