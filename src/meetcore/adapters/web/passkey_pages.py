"""The pages of passkeys, which the dashboard and the console have alike."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from meetcore.adapters.web.problems import explain
from meetcore.adapters.web.visit import HEADERS, AreaVisit, see_other
from meetcore.domain.errors import DomainError
from meetcore.domain.ids import parse_id
from meetcore.ports.member_queries import SignedIn
from meetcore.usecases.passkeys import Passkeys, Visitor

AnyVisit = AreaVisit[Any, Any, Any]


async def show_passkeys(visit: AnyVisit, errors: Mapping[str, str] | None = None) -> Response:
    """Answer with the passkeys of who is signed in, and the form for another one."""
    passkeys: Passkeys = visit.use.passkeys
    who = visit.signed_in
    return visit.page(
        "passkeys.html",
        422 if errors else 200,
        errors=errors or {},
        passkeys=await passkeys.list_own(who),
        are_possible=passkeys.are_possible,
        is_guest=isinstance(who, SignedIn) and who.user is None,
        name=visit.form.get("name", ""),
    )


async def ask_for_passkey(visit: AnyVisit) -> Response:
    """Answer with what the browser is to ask its authenticator, for the script of the page."""
    return JSONResponse(await visit.use.passkeys.ask_to_register(_visitor(visit)), headers=HEADERS)


async def add_passkey(visit: AnyVisit) -> Response:
    """Add what the authenticator has made."""
    try:
        await visit.use.passkeys.add(
            _visitor(visit), visit.form.get("name", ""), visit.form.get("credential", "")
        )
    except DomainError as refusal:
        return await show_passkeys(visit, explain(visit.look, refusal))
    return see_other(f"{visit.look.root}/passkeys?done=passkey_added")


async def remove_passkey(visit: AnyVisit) -> Response:
    """Remove one."""
    passkey_id = parse_id(visit.request.path_params["id"], "passkey")
    await visit.use.passkeys.remove(_visitor(visit), passkey_id)
    return see_other(f"{visit.look.root}/passkeys?done=passkey_removed")


def _visitor(visit: AnyVisit) -> Visitor:
    token = visit.cookies.read(visit.request, visit.cookies.session) or ""
    return Visitor(visit.signed_in, token, visit.client_address, visit.look.language)
