"""`meetcore portal`, `operator`, `audit`: who signs in to dashboard and console, and who changed what."""

from json import dumps
from uuid import UUID

from cyclopts import App

from meetcore.cli.inputs import InputRefused, Json, Whole, check_counts, read_id, read_role
from meetcore.cli.output import Record
from meetcore.cli.runner import add_change, read_account, show_change, show_list, show_result
from meetcore.composition.application import Application
from meetcore.domain.fields import shown_fields, shown_value
from meetcore.domain.members.audit import AuditEntry
from meetcore.domain.members.operators import DEFAULT_TOKEN_DAYS, DEFAULT_TOKEN_NAME, Operator, OperatorToken
from meetcore.domain.members.roles import OperatorRole, Role
from meetcore.domain.members.sign_in import DEFAULT_PORTAL_MINUTES
from meetcore.ports.queries import MAX_PAGE
from meetcore.usecases.members import operators

DEFAULT_LIMIT = 100
MAX_LIMIT = 100_000

portal = App(name="portal", help="One-time links to the dashboard.")
operator = App(name="operator", help="Operators: who may use the console.")
token = App(name="token", help="Tokens with which programs ask the console.")
operator.command(token)
sign_on = App(name="sign-on", help="Persons at the OpenID provider.")
audit = App(name="audit", help="The audit log: who changed what.")


@portal.command(name="link")
def make_portal_link(
    *,
    account: str,
    role: str | None = None,
    email: str | None = None,
    minutes: Whole = DEFAULT_PORTAL_MINUTES,
    json: Json = False,
) -> None:
    """Make a link that signs in to the dashboard once. It is printed once.

    Parameters
    ----------
    account:
        The account's id or e-mail address.
    role:
        What a guest may do: owner, developer, finance or viewer; viewer when not given.
    email:
        The member whom it signs in, with the member's own role; without it, it signs in a guest.
    minutes:
        For how long it is valid, 60 at most.
    """
    account_id = read_account(account, "--account", as_json=json)
    guest_role = Role.VIEWER if role is None else read_role(role, Role)
    if email is not None and role is not None:
        raise InputRefused("--role is for a guest: leave it out with --email, whose member has a role")

    async def make(application: Application) -> operators.PortalLink:
        links = application.access.portal_links
        if email is None:
            return await links.for_guest(account_id, guest_role, minutes)
        return await links.for_member(account_id, email, minutes)

    show_result(make, _link_record, as_json=json)


@sign_on.command(name="forget")
def forget_identities(*, email: str, json: Json = False) -> None:
    """Forget which person of the provider has an address: the next one to sign in with it has it.

    Parameters
    ----------
    email:
        The address of a member or an operator.
    """
    show_change(
        "sign-on forget",
        lambda app: app.access.forget_identities(email),
        lambda forgotten: {"email": email, "forgotten": forgotten},
        as_json=json,
    )


@operator.command(name="add")
def add_operator(*, email: str, role: str, json: Json = False) -> None:
    """Give access to the console.

    Parameters
    ----------
    email:
        Where sign-in links are sent.
    role:
        support, finance or admin.
    """
    operator_role = read_role(role, OperatorRole)

    show_change(
        "operator add",
        lambda app: app.access.operators.add(email, operator_role),
        _operator_record,
        as_json=json,
    )


@operator.command(name="list")
def list_operators(*, json: Json = False) -> None:
    """List operators, the oldest first."""
    show_list(lambda app: app.access.operators.list_operators(), _operator_record, as_json=json)


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
    operator_id = read_id(id, "the operator")
    show_result(
        lambda app: app.access.portal_links.for_operator(operator_id, minutes), _link_record, as_json=json
    )


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
    operator_role = read_role(role, OperatorRole)

    def to_record(minted: operators.MintedOperatorToken) -> Record:
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
    show_list(lambda app: app.access.operator_tokens.list_tokens(), _token_record, as_json=json)


def _token_record(each: OperatorToken) -> Record:
    return shown_fields(each, "id", "name", "role", "last_four", "created_at", "expires_at", "revoked_at")


def _link_record(link: operators.PortalLink) -> Record:
    return shown_fields(link, "url", "expires_at")


def _operator_record(each: Operator) -> Record:
    return shown_fields(each, "id", "email", "role", "created_at", "removed_at")


add_change(
    operator, "operator remove", "Take the console from an operator; every session of theirs ends.",
    "the operator", lambda app, id_: app.access.operators.remove(id_), _operator_record,
)  # fmt: skip
add_change(
    token, "operator token revoke", "Refuse a token from its next request on.",
    "the operator token", lambda app, id_: app.access.operator_tokens.revoke(id_), _token_record,
)  # fmt: skip


@audit.command(name="list")
def list_entries(
    *,
    account: str | None = None,
    limit: Whole = DEFAULT_LIMIT,
    json: Json = False,
) -> None:
    """List changes of accounts, keys, credits and hosts, newest first.

    Parameters
    ----------
    account:
        Only those of this account, by its id or e-mail address.
    limit:
        So many at most.
    """
    account_id = None if account is None else read_account(account, "--account", as_json=json)
    check_counts(1, MAX_LIMIT, limit=limit)

    show_list(
        lambda app: _read(app, account_id, limit + 1),
        lambda entry: _entry_record(entry, as_json=json),
        as_json=json,
        limit=limit,
        hint="see them with --limit",
    )


async def _read(application: Application, account_id: UUID | None, limit: int) -> list[AuditEntry]:
    found: list[AuditEntry] = []
    while (wanted := min(limit - len(found), MAX_PAGE)) > 0:
        before = found[-1].id if found else None
        page = await application.ports.queries.list_audit_entries(account_id, wanted, before)
        found += page
        if len(page) < wanted:
            break
    return found


def _entry_record(entry: AuditEntry, *, as_json: bool) -> Record:
    actor, details = entry.actor, dict(entry.details)
    return {
        **shown_fields(entry, "id", "at", "account_id"),
        "actor": actor.name,
        "actor_kind": actor.kind.value,
        "actor_id": shown_value(actor.id),
        **shown_fields(entry, "action", "target_id"),
        "details": details if as_json else dumps(details, ensure_ascii=False),
        **shown_fields(entry, "client_address", "is_impersonated"),
    }
