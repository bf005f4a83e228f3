"""The passkeys of the member: how they sign in without a link by e-mail."""

from starlette.responses import Response

from meetcore.adapters.web.page import Page
from meetcore.adapters.web.passkey_pages import add_passkey, ask_for_passkey, remove_passkey, show_passkeys
from meetcore.adapters.web.visit import Visit
from meetcore.domain.members.roles import Action
from meetcore.usecases.passkeys import DASHBOARD_PAGE


@Page("GET", DASHBOARD_PAGE, Action.MANAGE_PASSKEYS)
async def show(visit: Visit) -> Response:
    """The passkeys of who looks."""
    return await show_passkeys(visit)


@Page("POST", f"{DASHBOARD_PAGE}/options", Action.MANAGE_PASSKEYS, needs_fresh=True)
async def ask(visit: Visit) -> Response:
    """What the browser is to ask its authenticator."""
    return await ask_for_passkey(visit)


@Page("POST", DASHBOARD_PAGE, Action.MANAGE_PASSKEYS, needs_fresh=True)
async def add(visit: Visit) -> Response:
    """Add a passkey."""
    return await add_passkey(visit)


@Page("POST", f"{DASHBOARD_PAGE}/{{id}}/remove", Action.MANAGE_PASSKEYS, needs_fresh=True)
async def remove(visit: Visit) -> Response:
    """Remove a passkey."""
    return await remove_passkey(visit)
