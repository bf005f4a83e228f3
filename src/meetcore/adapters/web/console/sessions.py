"""Sessions of the operator."""

from typing import Final

from starlette.responses import Response

from meetcore.adapters.web.visit import ConsolePage, ConsoleVisit, see_other
from meetcore.domain.members.roles import OperatorAction

ROOT: Final = "/console/sessions"


@ConsolePage("GET", ROOT, OperatorAction.MANAGE_SESSIONS)
async def list_sessions(visit: ConsoleVisit) -> Response:
    """List where the operator is signed in."""
    found = await visit.use.sessions.list_own(visit.signed_in)
    name = visit.signed_in.operator.email
    return visit.page(
        "console/sessions.html",
        sessions=[(each, name) for each in found],
        own_id=visit.signed_in.session.id,
    )


@ConsolePage("POST", f"{ROOT}/{{id}}/end", OperatorAction.MANAGE_SESSIONS)
async def end_session(visit: ConsoleVisit) -> Response:
    """End another session of the operator."""
    await visit.use.sessions.end_own(visit.signed_in, visit.path_id("session"), visit.client_address)
    return see_other(f"{ROOT}?done=session_ended")


@ConsolePage("POST", f"{ROOT}/end-others", OperatorAction.MANAGE_SESSIONS)
async def end_other_sessions(visit: ConsoleVisit) -> Response:
    await visit.use.sessions.end_others(visit.signed_in, visit.client_address)
    return see_other(f"{ROOT}?done=session_ended")
