"""The passkeys of the operator: how they sign in without a link by e-mail."""

from starlette.responses import Response

from meetcore.adapters.web.console.page import ConsolePage, ConsoleVisit
from meetcore.adapters.web.passkey_pages import add_passkey, ask_for_passkey, remove_passkey, show_passkeys
from meetcore.domain.members.roles import OperatorAction
from meetcore.usecases.passkeys import CONSOLE_PAGE


@ConsolePage("GET", CONSOLE_PAGE, OperatorAction.MANAGE_PASSKEYS)
async def show(visit: ConsoleVisit) -> Response:
    """The passkeys of who looks."""
    return await show_passkeys(visit)


@ConsolePage("POST", f"{CONSOLE_PAGE}/options", OperatorAction.MANAGE_PASSKEYS, needs_fresh=True)
async def ask(visit: ConsoleVisit) -> Response:
    """What the browser is to ask its authenticator."""
    return await ask_for_passkey(visit)


@ConsolePage("POST", CONSOLE_PAGE, OperatorAction.MANAGE_PASSKEYS, needs_fresh=True)
async def add(visit: ConsoleVisit) -> Response:
    """Add a passkey."""
    return await add_passkey(visit)


@ConsolePage("POST", f"{CONSOLE_PAGE}/{{id}}/remove", OperatorAction.MANAGE_PASSKEYS, needs_fresh=True)
async def remove(visit: ConsoleVisit) -> Response:
    """Remove a passkey."""
    return await remove_passkey(visit)
