"""Meetings in doubt: what the provider neither does nor refuses, and what an operator decides about it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from uuid import UUID

from starlette.responses import Response

from meetcore.adapters.web.console.page import ConsolePage, ConsoleVisit
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import see_other
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.members.roles import OperatorAction
from meetcore.domain.money.ledger import InvalidReason
from meetcore.ports.member_queries import SignedInOperator
from meetcore.usecases.resolve_doubts import StillInDoubt, StillInDoubtReason

ROOT: Final = "/console/doubts"
_MEETING: Final = f"{ROOT}/{{id}}/{{meeting_id}}"

_REASONS: Final[Mapping[StillInDoubtReason, str]] = {
    StillInDoubtReason.OVER: _("This is not in doubt any more, or another decision about it is under way."),
    StillInDoubtReason.PROVIDER_REFUSED: _(
        "The provider refuses to remove the meeting. Remove it at the provider, or give the removal up."
    ),
    StillInDoubtReason.PROVIDER_UNKNOWN: _("The provider does not answer. Try again later."),
    StillInDoubtReason.NOT_MADE: _("The provider has not made the meeting. Undo it."),
    StillInDoubtReason.REMOVED: _(
        "The provider does not have the meeting any more. Finish it, so that it is refunded."
    ),
    StillInDoubtReason.NO_REMOVAL: _("This meeting is being made: undo it."),
}

Decision = Callable[[SignedInOperator, str | None, UUID, UUID], Awaitable[None]]


@ConsolePage("GET", ROOT, OperatorAction.VIEW_DOUBTS)
async def list_doubts(visit: ConsoleVisit) -> Response:
    """Everything in doubt."""
    return await _list(visit, {})


@ConsolePage("POST", f"{_MEETING}/finish", OperatorAction.RESOLVE_DOUBTS, needs_fresh=True)
async def finish(visit: ConsoleVisit) -> Response:
    """Complete what was begun."""
    return await _decide(visit, visit.use.doubts.finish, "doubt_finished")


@ConsolePage("POST", f"{_MEETING}/undo", OperatorAction.RESOLVE_DOUBTS, needs_fresh=True)
async def undo(visit: ConsoleVisit) -> Response:
    """Go back to before."""
    return await _decide(visit, visit.use.doubts.undo, "doubt_undone")


@ConsolePage("POST", f"{_MEETING}/give-up", OperatorAction.RESOLVE_DOUBTS, needs_fresh=True)
async def give_up(visit: ConsoleVisit) -> Response:
    """Cancel and refund a meeting that the provider does not remove."""
    reason = visit.form.get("reason", "").strip()
    use = visit.use.doubts

    async def decide(who: SignedInOperator, address: str | None, account_id: UUID, id: UUID) -> None:
        await use.give_up(who, address, account_id, id, reason)

    return await _decide(visit, decide, "doubt_given_up")


@ConsolePage("POST", f"{_MEETING}/retry-removal", OperatorAction.RESOLVE_DOUBTS)
async def retry_removal(visit: ConsoleVisit) -> Response:
    """Ask the provider again at once."""
    return await _decide(visit, visit.use.doubts.retry_removal, "removal_retried")


@ConsolePage("POST", f"{_MEETING}/give-up-removal", OperatorAction.RESOLVE_DOUBTS, needs_fresh=True)
async def give_up_removal(visit: ConsoleVisit) -> Response:
    """Look no more for what no record names."""
    reason = visit.form.get("reason", "").strip()
    use = visit.use.doubts

    async def decide(who: SignedInOperator, address: str | None, account_id: UUID, id: UUID) -> None:
        await use.give_up_removal(who, address, account_id, id, reason)

    return await _decide(visit, decide, "doubt_given_up")


async def _decide(visit: ConsoleVisit, decide: Decision, done: str) -> Response:
    account_id = parse_id(visit.request.path_params["id"], "account")
    meeting_id = parse_id(visit.request.path_params["meeting_id"], "meeting")
    try:
        await decide(visit.signed_in, visit.client_address, account_id, meeting_id)
    except StillInDoubt as doubt:
        return await _list(visit, {"form": visit.text(_REASONS[doubt.reason])}, 409)
    except InvalidReason:
        problem = {f"{meeting_id}-reason": visit.text(_("Write 1 to 200 characters."))}
        return await _list(visit, problem, 422)
    return see_other(f"{ROOT}?done={done}")


async def _list(visit: ConsoleVisit, errors: Mapping[str, str], status: int = 200) -> Response:
    found = await visit.use.doubts.list_doubts(visit.signed_in)
    made = {MeetingStatus.PROVISIONING: (visit.text(_("being made")), True)}
    cancelled = (visit.text(_("being cancelled")), False)
    meetings = [(each, *made.get(each.status, cancelled)) for each in found.meetings]
    return visit.page(
        "console/doubts.html",
        status,
        meetings=meetings,
        removals=found.removals,
        errors=errors,
        now=visit.now,
    )
