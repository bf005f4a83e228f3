"""The team: members with their roles, invitations, and the accounts of a member."""

from collections.abc import Mapping, Sequence
from typing import Final

from starlette.responses import Response

from meetcore.adapters.web.forms import explain
from meetcore.adapters.web.texts import ROLE_MEANINGS, ROLE_TEXTS, _
from meetcore.adapters.web.visit import Page, Question, Visit, own_path, see_other
from meetcore.domain.errors import DomainError, require_record
from meetcore.domain.members import roles, sessions
from meetcore.domain.members.members import Member
from meetcore.domain.requests.accounts import InvalidEmail, email_key
from meetcore.usecases.members.sign_in_links import Browser

ROOT: Final = "/dashboard/team"
ACCOUNTS: Final = "/dashboard/accounts"


@Page("GET", ROOT, roles.Action.VIEW_MEMBERS)
async def show_team(visit: Visit) -> Response:
    return await _show(visit, {})


@Page("POST", f"{ROOT}/invitations", roles.Action.MANAGE_MEMBERS, needs_fresh=True)
async def invite(visit: Visit) -> Response:
    email, role = visit.form.get("email", "").strip(), _role(visit)
    if role is None:
        return await _show(visit, {"role": visit.text("Choose a role.")})
    if email_key(email) in {email_key(each.user.email) for each in await _members(visit)}:
        text = _("This is the address of a member. Change the role in the list of members.")
        return await _show(visit, {"email": visit.text(text)})
    try:
        invited = await visit.use.members.invite(
            visit.signed_in, email, role, visit.client_address, visit.look.language
        )
    except InvalidEmail:
        return await _show(visit, {"email": visit.text("Write the address like name@example.com.")})
    except DomainError as refusal:
        return await _show(visit, explain(visit.look, refusal))
    return see_other(f"{ROOT}?done=invited&left={invited.left}")


@Page("POST", f"{ROOT}/invitations/{{id}}/revoke", roles.Action.MANAGE_MEMBERS)
async def revoke_invitation(visit: Visit) -> Response:
    await visit.use.members.revoke_invitation(
        visit.signed_in, visit.path_id("invitation"), visit.client_address
    )
    return see_other(f"{ROOT}?done=invitation_revoked")


@Page("POST", f"{ROOT}/{{id}}/role", roles.Action.MANAGE_MEMBERS, needs_fresh=True)
async def change_role(visit: Visit) -> Response:
    role = _role(visit)
    if role is None:
        return await _show(visit, {"role": visit.text("Choose a role.")})
    try:
        await visit.use.members.change_role(
            visit.signed_in, visit.path_id("member"), role, visit.client_address
        )
    except DomainError as refusal:
        return await _show(visit, explain(visit.look, refusal))
    own = visit.signed_in.user
    is_own = own is not None and own.id == visit.path_id("member")
    return see_other(f"{visit.look.root if is_own else ROOT}?done=role_changed")  # not all see the team


async def _ask_to_remove(visit: Visit) -> Question:
    found, user_id = await _members(visit), visit.path_id("member")
    member = require_record(next((each for each in found if each.user.id == user_id), None), "member")
    return Question(
        visit.text("Remove %(name)s from the account?", name=member.user.full_name),
        visit.text(
            "The member is signed out everywhere and has no access to this account until invited again. "
            "Keys that the member created go on working; pending invitations by the member do not."
        ),
        visit.text("Remove"),
    )


@Page("POST", f"{ROOT}/{{id}}/remove", roles.Action.MANAGE_MEMBERS, needs_fresh=True, ask=_ask_to_remove)
async def remove_member(visit: Visit) -> Response:
    """End a membership and its sessions."""
    try:
        await visit.use.members.remove(visit.signed_in, visit.path_id("member"), visit.client_address)
    except DomainError as refusal:
        return await _show(visit, explain(visit.look, refusal))
    return see_other(f"{ROOT}?done=member_removed")


async def _show(visit: Visit, errors: Mapping[str, str]) -> Response:
    own = visit.signed_in.user
    return visit.form_page(
        "team.html",
        errors,
        members=await _members(visit),
        invitations=await visit.use.members.list_invitations(visit.signed_in),
        own_id=None if own is None else own.id,
        roles=[(role.value, visit.text(text)) for role, text in ROLE_TEXTS.items()],
        meanings=[(visit.text(ROLE_TEXTS[role]), visit.text(text)) for role, text in ROLE_MEANINGS.items()],
        invited={"email": "", "role": "developer"} | dict(visit.typed(f"{ROOT}/invitations")),
        left=_left(visit),
    )


async def _members(visit: Visit) -> Sequence[Member]:
    return await visit.use.members.list_members(visit.signed_in)


def _left(visit: Visit) -> int | None:
    """Return how many invitations are left after the one that was just made."""
    text = visit.query("left")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 3 else None


def _role(visit: Visit) -> roles.Role | None:
    text = visit.form.get("role", "")
    return roles.Role(text) if text in set(roles.Role) else None


@Page("GET", ACCOUNTS, roles.Action.VIEW_OVERVIEW)
async def show_accounts(visit: Visit) -> Response:
    """List the accounts of the member, each with a button that switches to it."""
    accounts = await visit.use.sessions.list_accounts(visit.signed_in)
    return visit.page(
        "accounts.html",
        accounts=[(each, visit.text(ROLE_TEXTS[each.role])) for each in accounts],
        present_id=visit.signed_in.account.id,
        next=own_path(visit.query("next"), visit.look.root),
    )


@Page("POST", f"{ACCOUNTS}/{{id}}/enter", roles.Action.VIEW_OVERVIEW)
async def enter_account(visit: Visit) -> Response:
    """Switch to an account, in a new session."""
    account_id = visit.path_id("account")
    answer = see_other(own_path(visit.form.get("next", ""), visit.look.root))
    if account_id == visit.signed_in.account.id:
        return answer
    browser = Browser(None, visit.request.headers.get("user-agent", ""), visit.client_address)
    begun = await visit.use.sessions.switch_account(visit.signed_in, account_id, browser)
    visit.cookies.set(answer, visit.cookies.session, begun.token, sessions.ABSOLUTE_LIMIT)
    return answer
