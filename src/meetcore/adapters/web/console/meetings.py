"""Licensed hosts, and meetings in doubt."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Final
from uuid import UUID

from starlette.responses import Response

from meetcore.adapters.web.forms import read_week
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import Ask, ConsolePage, ConsoleVisit, Question, see_other
from meetcore.domain.errors import require_record
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.members import roles, views
from meetcore.usecases.meetings.resolve_doubts import IN_PROGRESS_FOR, StillInDoubt, StillInDoubtReason
from meetcore.usecases.requests.console import MAX_BOOKINGS

HOSTS: Final = "/console/hosts"


@ConsolePage("GET", HOSTS, roles.OperatorAction.VIEW_HOSTS)
async def list_hosts(visit: ConsoleVisit) -> Response:
    """List every host with its week, the smallest first."""
    week = await visit.use.hosts.week(visit.signed_in, read_week(visit))
    days = [week.monday + timedelta(days=number) for number in range(7)]
    return visit.page(
        "console/hosts.html",
        hosts=[(host, [(day, week.of(host, day)) for day in days]) for host in week.hosts],
        days=days,
        today=cap_day(visit.now),
        earlier=f"{HOSTS}?week={week.monday - timedelta(days=7)}" if cap_day(visit.now) < week.monday else "",
        later=f"{HOSTS}?week={week.monday + timedelta(days=7)}",
        now_link=HOSTS,
        is_cut=len(week.bookings) == MAX_BOOKINGS,
    )


@ConsolePage("POST", f"{HOSTS}/{{id}}/enable", roles.OperatorAction.MANAGE_HOSTS)
async def enable_host(visit: ConsoleVisit) -> Response:
    await visit.use.hosts.enable(visit.signed_in, visit.client_address, visit.path_id("host"))
    return see_other(f"{HOSTS}?done=host_enabled")


async def _ask_to_disable(visit: ConsoleVisit) -> Question:
    week, host_id = await visit.use.hosts.week(visit.signed_in, cap_day(visit.now)), visit.path_id("host")
    found = require_record(next((each for each in week.hosts if each.id == host_id), None), "host")
    return Question(
        visit.text("Disable the host %(name)s?", name=found.provider_user_id),
        visit.text(
            "It gets no new meetings: where no other host is free, customers are refused. Those that it "
            "has take place."
        ),
        visit.text("Disable"),
    )


@ConsolePage("POST", f"{HOSTS}/{{id}}/disable", roles.OperatorAction.MANAGE_HOSTS, ask=_ask_to_disable)
async def disable_host(visit: ConsoleVisit) -> Response:
    await visit.use.hosts.disable(visit.signed_in, visit.client_address, visit.path_id("host"))
    return see_other(f"{HOSTS}?done=host_disabled")


DOUBTS: Final = "/console/doubts"
_MEETING: Final = f"{DOUBTS}/{{id}}/{{meeting_id}}"

_REASONS: Final[Mapping[StillInDoubtReason, str]] = {
    StillInDoubtReason.OVER: _("This is not in doubt any more, or another decision about it is under way."),
    StillInDoubtReason.PROVIDER_REFUSED: _(
        "The provider refuses to remove the meeting. Remove it at the provider, then finish it here."
    ),
    StillInDoubtReason.PROVIDER_UNKNOWN: _("The provider does not answer. Try again later."),
    StillInDoubtReason.NOT_MADE: _("The provider has not made the meeting. Undo it."),
    StillInDoubtReason.REMOVED: _(
        "The provider does not have the meeting any more. Finish it, so that it is refunded."
    ),
}

Decision = Callable[[views.SignedInOperator, str | None, UUID, UUID], Awaitable[None]]


@ConsolePage("GET", DOUBTS, roles.OperatorAction.VIEW_DOUBTS)
async def list_doubts(visit: ConsoleVisit) -> Response:
    return await _list(visit, {})


def _ask_to(heading: str, texts: Mapping[bool, str], button: str) -> Ask[ConsoleVisit]:
    """Build the question before a decision; the text depends on whether the meeting is being made."""

    async def ask(visit: ConsoleVisit) -> Question | None:
        found = await visit.use.doubts.list_doubts(visit.signed_in)
        wanted = visit.path_id("account"), visit.path_id("meeting", "meeting_id")
        for each in found.meetings:
            if (each.account_id, each.id) == wanted:
                text = visit.text(texts[each.status is MeetingStatus.PROVISIONING])
                return Question(
                    visit.text(heading, title=each.title), text, visit.text(button), each.status.value
                )
        return None

    return ask


_ask_to_finish = _ask_to(
    _("Finish %(title)s?"),
    {
        True: _("If the provider has made it, it is charged and shown. This cannot be undone."),
        False: _("The provider is asked once more to remove it, and it is refunded. This cannot be undone."),
    },
    _("Finish"),
)
_ask_to_undo = _ask_to(
    _("Undo %(title)s?"),
    {
        True: _("Nothing is charged, and what the provider has is removed. This cannot be undone."),
        False: _("It stays, if the provider has it, and the charge with it. This cannot be undone."),
    },
    _("Undo"),
)


@ConsolePage(
    "POST", f"{_MEETING}/finish", roles.OperatorAction.RESOLVE_DOUBTS, needs_fresh=True, ask=_ask_to_finish
)
async def finish(visit: ConsoleVisit) -> Response:
    """Complete the creation or cancellation."""
    return await _decide(visit, visit.use.doubts.finish, "doubt_finished")


@ConsolePage(
    "POST", f"{_MEETING}/undo", roles.OperatorAction.RESOLVE_DOUBTS, needs_fresh=True, ask=_ask_to_undo
)
async def undo(visit: ConsoleVisit) -> Response:
    """Undo the creation or cancellation."""
    return await _decide(visit, visit.use.doubts.undo, "doubt_undone")


async def _decide(visit: ConsoleVisit, decide: Decision, done: str) -> Response:
    account_id, meeting_id = visit.path_id("account"), visit.path_id("meeting", "meeting_id")
    try:
        await decide(visit.signed_in, visit.client_address, account_id, meeting_id)
    except StillInDoubt as doubt:
        return await _list(visit, {"form": visit.text(_REASONS[doubt.reason])}, 409)
    return see_other(f"{DOUBTS}?done={done}")


async def _list(visit: ConsoleVisit, errors: Mapping[str, str], status: int = 200) -> Response:
    found = await visit.use.doubts.list_doubts(visit.signed_in)
    made = {MeetingStatus.PROVISIONING: (visit.text("being made"), True)}
    cancelled = (visit.text("being cancelled"), False)
    meetings = [(each, *made.get(each.status, cancelled)) for each in found.meetings]
    return visit.page(
        "console/doubts.html",
        status,
        meetings=meetings,
        removals=found.removals,
        recordings=found.recordings,
        listed_after_s=round(IN_PROGRESS_FOR.total_seconds()),
        errors=errors,
        now=visit.now,
    )
