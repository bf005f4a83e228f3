"""Sessions of the operator."""

from typing import Final

from starlette.responses import Response

from meetcore.adapters.web.visit import ConsolePage, ConsoleVisit
from meetcore.domain.members.roles import OperatorAction

ROOT: Final = "/console/sessions"


@ConsolePage("GET", ROOT, OperatorAction.MANAGE_SESSIONS)
async def list_sessions(visit: ConsoleVisit) -> Response:
    """List where the operator is signed in."""
    found = await visit.use.sessions.list_own(visit.signed_in)
    name = visit.signed_in.operator.email
    return visit.page(
        "console/sessions.html", sessions=[(each, name) for each in found], own_id=visit.signed_in.session.id
    )
