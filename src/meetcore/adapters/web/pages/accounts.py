"""The accounts of a member: choose one after signing in, and go on in another one."""

from typing import Final

from starlette.responses import Response

from meetcore.adapters.web.page import Page
from meetcore.adapters.web.texts import ROLE_TEXTS
from meetcore.adapters.web.visit import Visit, own_path, see_other
from meetcore.domain.ids import parse_id
from meetcore.domain.members.roles import Action
from meetcore.domain.members.sessions import ABSOLUTE_LIMIT
from meetcore.usecases.redeem_sign_in_link import Browser

ROOT: Final = "/dashboard/accounts"


@Page("GET", ROOT, Action.VIEW_OVERVIEW)
async def show_accounts(visit: Visit) -> Response:
    """The accounts of the member, each with a button that goes on there."""
    accounts = await visit.use.sessions.list_accounts(visit.signed_in)
    return visit.page(
        "accounts.html",
        accounts=[(each, visit.text(ROLE_TEXTS[each.role])) for each in accounts],
        present_id=visit.signed_in.account.id,
        next=own_path(visit.query("next"), visit.look.root),
    )


@Page("POST", f"{ROOT}/{{id}}/enter", Action.VIEW_OVERVIEW)
async def enter_account(visit: Visit) -> Response:
    """Go on in an account: in a new session, as the old one was of another account."""
    account_id = parse_id(visit.request.path_params["id"], "account")
    answer = see_other(own_path(visit.form.get("next", ""), visit.look.root))
    if account_id == visit.signed_in.account.id:
        return answer
    browser = Browser(None, visit.request.headers.get("user-agent", ""), visit.client_address)
    begun = await visit.use.sessions.switch_account(visit.signed_in, account_id, browser)
    visit.cookies.set(answer, visit.cookies.session, begun.token, ABSOLUTE_LIMIT)
    return answer
