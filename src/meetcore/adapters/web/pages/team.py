"""The team: members with their roles, and invitations."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from starlette.responses import Response

from meetcore.adapters.web.page import Page
from meetcore.adapters.web.problems import explain
from meetcore.adapters.web.texts import ROLE_TEXTS, _
from meetcore.adapters.web.visit import Visit, see_other
from meetcore.domain.errors import DomainError
from meetcore.domain.ids import parse_id
from meetcore.domain.members.roles import Action, Role
from meetcore.domain.requests.accounts import InvalidEmail

ROOT: Final = "/dashboard/team"


@Page("GET", ROOT, Action.VIEW_MEMBERS)
async def show_team(visit: Visit) -> Response:
    """Who belongs to the account, and who is invited."""
    return await _show(visit, {})


@Page("POST", f"{ROOT}/invitations", Action.MANAGE_MEMBERS, needs_fresh=True)
async def invite(visit: Visit) -> Response:
    """Invite somebody by e-mail."""
    email, role = visit.form.get("email", "").strip(), _role(visit)
    if role is None:
        return await _show(visit, {"role": visit.text(_("Choose a role."))})
    try:
        await visit.use.members.invite(
            visit.signed_in, email, role, visit.client_address, visit.look.language
        )
    except InvalidEmail:
        return await _show(visit, {"email": visit.text(_("Write the address like name@example.com."))})
    return see_other(f"{ROOT}?done=invited")


@Page("POST", f"{ROOT}/invitations/{{id}}/revoke", Action.MANAGE_MEMBERS)
async def revoke_invitation(visit: Visit) -> Response:
    """Take an invitation back."""
    await visit.use.members.revoke_invitation(visit.signed_in, _id(visit, "invitation"), visit.client_address)
    return see_other(f"{ROOT}?done=invitation_revoked")


@Page("POST", f"{ROOT}/{{id}}/role", Action.MANAGE_MEMBERS, needs_fresh=True)
async def change_role(visit: Visit) -> Response:
    """Give a member another role."""
    role = _role(visit)
    if role is None:
        return await _show(visit, {"role": visit.text(_("Choose a role."))})
    try:
        await visit.use.members.change_role(visit.signed_in, _id(visit, "member"), role, visit.client_address)
    except DomainError as refusal:
        return await _show(visit, explain(visit.look, refusal))
    return see_other(f"{ROOT}?done=role_changed")


@Page("POST", f"{ROOT}/{{id}}/remove", Action.MANAGE_MEMBERS, needs_fresh=True)
async def remove_member(visit: Visit) -> Response:
    """End a membership, and the sessions of it."""
    try:
        await visit.use.members.remove(visit.signed_in, _id(visit, "member"), visit.client_address)
    except DomainError as refusal:
        return await _show(visit, explain(visit.look, refusal))
    return see_other(f"{ROOT}?done=member_removed")


async def _show(visit: Visit, errors: Mapping[str, str]) -> Response:
    own = visit.signed_in.user
    return visit.page(
        "team.html",
        422 if errors else 200,
        errors=errors,
        members=await visit.use.members.list_members(visit.signed_in),
        invitations=await visit.use.members.list_invitations(visit.signed_in),
        own_id=None if own is None else own.id,
        roles=[(role.value, visit.text(text)) for role, text in ROLE_TEXTS.items()],
        email=visit.form.get("email", ""),
    )


def _role(visit: Visit) -> Role | None:
    text = visit.form.get("role", "")
    return Role(text) if text in set(Role) else None


def _id(visit: Visit, what: str) -> UUID:
    return parse_id(visit.request.path_params["id"], what)
