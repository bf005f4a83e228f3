"""Settings of the account, and where the member is signed in."""

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from meetcore.adapters.web.page import Page
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import Visit, see_other
from meetcore.domain.ids import parse_id
from meetcore.domain.members.roles import Action

ROOT: Final = "/dashboard/settings"
_DIGITS: Final = 12


@Page("GET", ROOT, Action.VIEW_SETTINGS)
async def show_settings(visit: Visit) -> Response:
    """The settings, and the sessions of who looks."""
    return await show_with_errors(visit, {})


@Page("POST", f"{ROOT}/threshold", Action.MANAGE_SETTINGS)
async def change_threshold(visit: Visit) -> Response:
    """Change the balance below which `credit.low` is sent."""
    text = visit.form.get("low_threshold", "").strip()
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        return await show_with_errors(
            visit, {"low_threshold": visit.text(_("Write a whole number of credits."))}
        )
    await visit.use.settings.set_low_threshold(visit.signed_in, visit.client_address, int(text))
    return see_other(f"{ROOT}?done=settings_changed")


@Page("POST", f"{ROOT}/statement-mails", Action.MANAGE_SETTINGS)
async def change_statement_mails(visit: Visit) -> Response:
    """Mail owners and finance when a month's statement is there, or stop."""
    is_on = visit.form.get("statement_mails") == "on"
    await visit.use.settings.set_statement_mails(visit.signed_in, visit.client_address, is_on=is_on)
    return see_other(f"{ROOT}?done=settings_changed")


@Page("POST", f"{ROOT}/sessions/{{id}}/end", Action.VIEW_SETTINGS)
async def end_session(visit: Visit) -> Response:
    """Sign out in another browser."""
    session_id = parse_id(visit.request.path_params["id"], "session")
    await visit.use.sessions.end_own(visit.signed_in, session_id)
    return see_other(f"{ROOT}?done=session_ended")


@Page("POST", f"{ROOT}/sessions/end-others", Action.VIEW_SETTINGS)
async def end_other_sessions(visit: Visit) -> Response:
    """Sign out in every other browser."""
    await visit.use.sessions.end_others(visit.signed_in)
    return see_other(f"{ROOT}?done=session_ended")


async def show_with_errors(visit: Visit, errors: Mapping[str, str]) -> Response:
    """The settings, with what is wrong in a form."""
    settings = await visit.use.settings.find(visit.signed_in)
    return visit.page(
        "settings.html",
        422 if errors else 200,
        errors=errors,
        account=settings,
        low_threshold=visit.form.get("low_threshold", settings.low_threshold),
        sessions=await visit.use.sessions.list_own(visit.signed_in),
        own_id=visit.signed_in.session.id,
    )
