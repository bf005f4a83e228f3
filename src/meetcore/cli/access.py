"""`meetcore portal`, `meetcore operator`: who signs in to the dashboard and to the console."""

from cyclopts import App

from meetcore.cli.changes import show_change
from meetcore.cli.inputs import Json, Whole, read_id, read_role
from meetcore.cli.output import Record, show
from meetcore.cli.runner import guarded, with_application
from meetcore.composition.application import Application
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.members.operator_tokens import DEFAULT_TOKEN_DAYS, DEFAULT_TOKEN_NAME, OperatorToken
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.roles import OperatorRole, Role
from meetcore.domain.members.sign_in_links import DEFAULT_PORTAL_MINUTES
from meetcore.usecases.make_portal_link import PortalLink
from meetcore.usecases.operator_tokens import MintedOperatorToken

portal = App(name="portal", help="One-time links to the dashboard.")
operator = App(name="operator", help="Operators: who may use the console.")
token = App(name="token", help="Tokens with which programs ask the console.")
operator.command(token)


@portal.command(name="link")
def make_portal_link(
    *,
    account: str,
    role: str = Role.VIEWER,
    email: str | None = None,
    minutes: Whole = DEFAULT_PORTAL_MINUTES,
    json: Json = False,
) -> None:
    """Make a link that signs in to the dashboard once. It is printed once.

    Parameters
    ----------
    account:
        The account.
    role:
        What a guest may do: owner, developer, finance or viewer.
    email:
        The member whom it signs in, with the member's own role; without it, it signs in a guest.
    minutes:
        For how long it is valid, 60 at most.
    """
    account_id = guarded(lambda: read_id(account, "--account"), as_json=json)
    guest_role = guarded(lambda: read_role(role, Role), as_json=json)

    async def work(application: Application) -> Record:
        links = application.access.portal_links
        if email is None:
            return _link_record(await links.for_guest(account_id, guest_role, minutes))
        return _link_record(await links.for_member(account_id, email, minutes))

    show(with_application(work, as_json=json), as_json=json)


@operator.command(name="add")
def add_operator(*, email: str, role: str, json: Json = False) -> None:
    """Let somebody use the console.

    Parameters
    ----------
    email:
        Where sign-in links are sent.
    role:
        support, finance or admin.
    """
    operator_role = guarded(lambda: read_role(role, OperatorRole), as_json=json)

    show_change(
        "operator add",
        lambda app: app.access.operators.add(email, operator_role),
        _operator_record,
        as_json=json,
    )


@operator.command(name="list")
def list_operators(*, json: Json = False) -> None:
    """List operators, the oldest first."""

    async def work(application: Application) -> list[Record]:
        return [_operator_record(each) for each in await application.access.operators.list_operators()]

    show(with_application(work, as_json=json), as_json=json)


@operator.command(name="remove")
def remove_operator(id: str, /, *, json: Json = False) -> None:
    """Take the console from an operator; every session of theirs ends.

    Parameters
    ----------
    id:
        The operator's id.
    """
    operator_id = guarded(lambda: read_id(id, "the operator"), as_json=json)

    show_change(
        "operator remove",
        lambda app: app.access.operators.remove(operator_id),
        _operator_record,
        as_json=json,
    )


@operator.command(name="link")
def make_operator_link(id: str, /, *, minutes: Whole = DEFAULT_PORTAL_MINUTES, json: Json = False) -> None:
    """Make a link that signs an operator in to the console once. It is printed once.

    Parameters
    ----------
    id:
        The operator's id.
    minutes:
        For how long it is valid, 60 at most.
    """
    operator_id = guarded(lambda: read_id(id, "the operator"), as_json=json)

    async def work(application: Application) -> Record:
        return _link_record(await application.access.portal_links.for_operator(operator_id, minutes))

    show(with_application(work, as_json=json), as_json=json)


@token.command(name="create")
def create_token(
    *,
    role: str,
    name: str = DEFAULT_TOKEN_NAME,
    days: Whole = DEFAULT_TOKEN_DAYS,
    json: Json = False,
) -> None:
    """Make a token with which a program asks the console. It is printed once.

    Parameters
    ----------
    role:
        support, finance or admin: what the program may do.
    name:
        What the token is for, 60 characters at most.
    days:
        For how long it is valid, 730 at most.
    """
    operator_role = guarded(lambda: read_role(role, OperatorRole), as_json=json)

    def to_record(minted: MintedOperatorToken) -> Record:
        return {"token": minted.text, **_token_record(minted.token)}

    show_change(
        "operator token create",
        lambda app: app.access.operator_tokens.create(operator_role, name, days),
        to_record,
        as_json=json,
    )


@token.command(name="list")
def list_tokens(*, json: Json = False) -> None:
    """List tokens of programs, the oldest first."""

    async def work(application: Application) -> list[Record]:
        return [_token_record(each) for each in await application.access.operator_tokens.list_tokens()]

    show(with_application(work, as_json=json), as_json=json)


@token.command(name="revoke")
def revoke_token(id: str, /, *, json: Json = False) -> None:
    """Refuse a token from its next request on.

    Parameters
    ----------
    id:
        The token's id.
    """
    token_id = guarded(lambda: read_id(id, "the token"), as_json=json)

    show_change(
        "operator token revoke",
        lambda app: app.access.operator_tokens.revoke(token_id),
        _token_record,
        as_json=json,
    )


def _token_record(each: OperatorToken) -> Record:
    return {
        "id": str(each.id),
        "name": each.name,
        "role": each.role.value,
        "last_four": each.last_four,
        "created_at": utc_text(each.created_at),
        "expires_at": utc_text(each.expires_at),
        "revoked_at": None if each.revoked_at is None else utc_text(each.revoked_at),
    }


def _link_record(link: PortalLink) -> Record:
    return {"url": link.url, "expires_at": utc_text(link.expires_at)}


def _operator_record(each: Operator) -> Record:
    return {
        "id": str(each.id),
        "email": each.email,
        "role": each.role.value,
        "created_at": utc_text(each.created_at),
        "removed_at": None if each.removed_at is None else utc_text(each.removed_at),
    }
