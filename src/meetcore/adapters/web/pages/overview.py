"""The first page: balance, spending, caps, the last meetings, and what needs attention."""

import asyncio
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final

from starlette.responses import Response

from meetcore.adapters.web import formats, markup
from meetcore.adapters.web.pages.credits import Hint, buy_hint
from meetcore.adapters.web.pages.meeting_lists import meeting_rows, today_begins_at
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import Page, Visit
from meetcore.domain.meetings import schedule, views
from meetcore.domain.members.roles import Action
from meetcore.domain.records.pages import CappedKey, DaySpending, FirstSteps, TroubledEndpoint

DAYS: Final = 30
MEETINGS: Final = 5
NEARLY: Final = 0.8
"""The share of a cap or of the days left from which the page warns."""


@Page("GET", "/dashboard", Action.VIEW_OVERVIEW)
async def show_overview(visit: Visit) -> Response:
    """Show the balance, the spending and what needs attention."""
    who, reads, today = visit.signed_in, visit.use.reads, schedule.cap_day(visit.now)
    upcoming = views.MeetingFilter(visit.now, starts_from=today_begins_at(visit))
    found, meetings = await asyncio.gather(
        reads.find_overview(who, today - timedelta(days=DAYS - 1), today),
        reads.list_next_meetings(who, upcoming, MEETINGS),
    )
    days = _every_day(found.spending, today)
    steps = _steps(visit, found.first_steps)
    return visit.page(
        "overview.html",
        balance=who.account.balance,
        held=who.account.held,
        spent_today=days[-1].meetings + days[-1].notes,
        steps={} if all(steps.values()) else steps,
        done=found.first_steps,
        buy=buy_hint(visit, ""),
        api=f"{visit.use.members.base_url}/api/v1",
        warnings=[
            *(_short(visit, found.low_threshold, days) if steps.get("credits", True) else ()),
            *_capped(visit, found.capped_keys),
            *_troubled(visit, found.troubled),
        ],
        chart=[_bar(visit, each) for each in days],
        days=[each for each in reversed(days) if each.meetings or each.notes],
        capped_keys=found.capped_keys,
        meetings=meeting_rows(visit, meetings),
    )


def _steps(visit: Visit, done: FirstSteps | None) -> dict[str, bool]:
    """Return the first steps that the visitor may take, in their order, and whether each is done."""
    if done is None:
        return {}
    steps = (
        ("credits", Action.BUY_CREDITS, done.has_credits),
        ("key", Action.MANAGE_KEYS, done.has_key),
        ("call", Action.MANAGE_KEYS, done.has_called),
        ("meeting", Action.MANAGE_MEETINGS, done.has_met),
        ("webhook", Action.MANAGE_WEBHOOKS, done.has_delivered),
    )
    return {name: is_done for name, action, is_done in steps if visit.may(action)}


def _every_day(spending: Sequence[DaySpending], today: date) -> list[DaySpending]:
    by_day = {each.day: each for each in spending}
    days = (today - timedelta(days=back) for back in reversed(range(DAYS)))
    return [by_day.get(day, DaySpending(day, 0, 0)) for day in days]


def _bar(visit: Visit, each: DaySpending) -> markup.Bar:
    language = visit.look.language
    title = visit.text(
        "%(day)s: meetings %(meetings)s, notes %(notes)s",
        day=formats.format_day(each.day, language),
        meetings=formats.format_count(each.meetings, language),
        notes=formats.format_count(each.notes, language),
    )
    parts = max(each.meetings, 0), max(each.notes, 0)
    path = f"/dashboard/ledger?from={each.day}&to={each.day}" if any(parts) else ""
    return markup.Bar(parts, title, formats.format_short_day(each.day, language), path)


def _short(visit: Visit, low_threshold: int, days: Sequence[DaySpending]) -> list[Hint]:
    """Warn once where few credits are available.

    That is below the threshold of the account, as `credit.low` does, or what is spent in a week. An account
    that has none and spends none is no more than reminded.
    """
    available, language = visit.signed_in.account.balance - visit.signed_in.account.held, visit.look.language
    if available == 0 and not any(each.meetings or each.notes for each in days):
        return [buy_hint(visit, visit.text("There are no credits. They pay for meetings and notes."), "")]
    week = sum(max(each.meetings + each.notes, 0) for each in days[-7:])
    if available < low_threshold:
        text = visit.look.plural(
            "%(credits)s credit is available, fewer than the threshold of %(threshold)s.",
            "%(credits)s credits are available, fewer than the threshold of %(threshold)s.",
            available,
            credits=formats.format_count(available, language),
            threshold=formats.format_count(low_threshold, language),
        )
    elif available <= week:
        text = visit.text("The credits last for less than a week at the pace of the last seven days.")
    else:
        return []
    return [buy_hint(visit, text)]


def _capped(visit: Visit, keys: Sequence[CappedKey]) -> list[Hint]:
    # A key whose cap is 0 spends nothing on purpose.
    near = [key.name for key in keys if key.spent and key.spent >= key.daily_cap * NEARLY]
    return [
        Hint(
            visit.text("The key %(name)s has used most of its cap for today.", name=name),
            "/dashboard/keys",
            visit.text("API keys"),
        )
        for name in near
    ]


def _troubled(visit: Visit, endpoints: Sequence[TroubledEndpoint]) -> list[Hint]:
    texts = {
        True: _("The webhook %(url)s was disabled by failures."),
        False: _("Deliveries to %(url)s fail."),
    }
    return [
        Hint(
            visit.text(texts[each.is_disabled], url=each.url.partition("?")[0]),
            f"/dashboard/webhooks/{each.id}",
            visit.text("Look at it"),
        )
        for each in endpoints
    ]
