"""Roles of members and operators, and the actions of each: two tables, and nothing else decides.

A page and its form require the same action. `scopes_of` follows from the table, so that a member's own
actions have the scopes that an API key would need for them.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from meetcore.domain.errors import ActionNotAllowed
from meetcore.domain.requests.keys import Scope


class Role(StrEnum):
    """The role of a member, or a guest, in an account."""

    OWNER = "owner"
    DEVELOPER = "developer"
    FINANCE = "finance"
    VIEWER = "viewer"


class OperatorRole(StrEnum):
    """The role of an operator in the console."""

    SUPPORT = "support"
    FINANCE = "finance"
    ADMIN = "admin"


class Action(StrEnum):
    """An action of a page of the dashboard."""

    VIEW_OVERVIEW = "overview.view"
    VIEW_KEYS = "keys.view"
    MANAGE_KEYS = "keys.manage"
    MANAGE_CAPS = "caps.manage"
    VIEW_MEETINGS = "meetings.view"
    MANAGE_MEETINGS = "meetings.manage"
    VIEW_NOTES = "notes.view"
    MANAGE_NOTES = "notes.manage"
    VIEW_LEDGER = "ledger.view"
    BUY_CREDITS = "credits.buy"
    VIEW_STATEMENTS = "statements.view"
    VIEW_WEBHOOKS = "webhooks.view"
    MANAGE_WEBHOOKS = "webhooks.manage"
    MANAGE_WEBHOOK_SECRETS = "webhook_secrets.manage"
    VIEW_REQUESTS = "requests.view"
    VIEW_MEMBERS = "members.view"
    MANAGE_MEMBERS = "members.manage"
    VIEW_SETTINGS = "settings.view"
    MANAGE_SETTINGS = "settings.manage"
    MANAGE_PASSKEYS = "passkeys.manage"
    VIEW_AUDIT = "audit.view"
    EXPORT_ACCOUNT = "account.export"
    ERASE_ACCOUNT = "account.erase"


class OperatorAction(StrEnum):
    """An action of a page of the console."""

    VIEW_ACCOUNTS = "accounts.view"
    SUSPEND_ACCOUNTS = "accounts.suspend"
    IMPERSONATE = "accounts.impersonate"
    MAKE_PORTAL_LINKS = "portal_links.make"
    MAKE_OWNER_LINKS = "portal_links.make_owner"
    MOVE_CREDITS = "credits.move"
    APPROVE_CREDITS = "credits.approve"
    VIEW_HOSTS = "hosts.view"
    MANAGE_HOSTS = "hosts.manage"
    VIEW_DOUBTS = "doubts.view"
    RESOLVE_DOUBTS = "doubts.resolve"
    VIEW_PRICES = "prices.view"
    VIEW_HEALTH = "health.view"
    VIEW_LIABILITY = "liability.view"
    VIEW_PAYMENTS = "payments.view"
    VIEW_AUDIT = "audit.view"
    MANAGE_PASSKEYS = "passkeys.manage"
    MANAGE_SESSIONS = "sessions.manage"
    MANAGE_OPERATORS = "operators.manage"


_READ = frozenset({
    Action.VIEW_OVERVIEW, Action.VIEW_KEYS, Action.VIEW_MEETINGS, Action.VIEW_NOTES, Action.VIEW_LEDGER,
    Action.VIEW_WEBHOOKS, Action.VIEW_REQUESTS, Action.VIEW_SETTINGS, Action.MANAGE_PASSKEYS,
})  # fmt: skip

ALLOWED: Final[Mapping[Role, frozenset[Action]]] = MappingProxyType({
    Role.OWNER: frozenset(Action),
    Role.DEVELOPER: _READ
    | {
        Action.MANAGE_KEYS, Action.MANAGE_MEETINGS, Action.MANAGE_NOTES, Action.MANAGE_WEBHOOKS,
        Action.MANAGE_WEBHOOK_SECRETS, Action.VIEW_MEMBERS,
    },
    Role.FINANCE: frozenset({
        Action.VIEW_OVERVIEW, Action.VIEW_KEYS, Action.MANAGE_CAPS, Action.VIEW_LEDGER, Action.BUY_CREDITS,
        Action.VIEW_STATEMENTS, Action.VIEW_MEMBERS, Action.VIEW_SETTINGS, Action.MANAGE_SETTINGS,
        Action.MANAGE_PASSKEYS,
    }),
    Role.VIEWER: _READ,
})  # fmt: skip

WHILE_SUSPENDED: Final = frozenset(
    {each for each in Action if each.value.endswith(".view")}
    | {Action.MANAGE_PASSKEYS, Action.EXPORT_ACCOUNT, Action.ERASE_ACCOUNT}
)
"""The actions of members of a suspended account: they read, and start nothing new."""

_SUPPORT = frozenset({
    OperatorAction.VIEW_ACCOUNTS, OperatorAction.IMPERSONATE, OperatorAction.MAKE_PORTAL_LINKS,
    OperatorAction.VIEW_HOSTS, OperatorAction.VIEW_DOUBTS, OperatorAction.RESOLVE_DOUBTS,
    OperatorAction.VIEW_PRICES, OperatorAction.VIEW_HEALTH, OperatorAction.VIEW_AUDIT,
    OperatorAction.VIEW_PAYMENTS,
    OperatorAction.MANAGE_PASSKEYS, OperatorAction.MANAGE_SESSIONS,
})  # fmt: skip

OPERATORS_ALLOWED: Final[Mapping[OperatorRole, frozenset[OperatorAction]]] = MappingProxyType({
    OperatorRole.SUPPORT: _SUPPORT,
    OperatorRole.FINANCE: frozenset({
        OperatorAction.VIEW_ACCOUNTS, OperatorAction.MOVE_CREDITS, OperatorAction.APPROVE_CREDITS,
        OperatorAction.VIEW_PRICES, OperatorAction.VIEW_HEALTH, OperatorAction.VIEW_LIABILITY,
        OperatorAction.VIEW_PAYMENTS,
        OperatorAction.VIEW_AUDIT, OperatorAction.MANAGE_PASSKEYS, OperatorAction.MANAGE_SESSIONS,
    }),
    OperatorRole.ADMIN: frozenset(OperatorAction),
})  # fmt: skip

SCOPES: Final = {
    Action.VIEW_MEETINGS: frozenset({Scope.MEETINGS_READ}),
    Action.MANAGE_MEETINGS: frozenset({Scope.MEETINGS_WRITE}),
    Action.VIEW_NOTES: frozenset({Scope.NOTULEN_READ, Scope.RECORDINGS_READ}),
    Action.MANAGE_NOTES: frozenset({Scope.NOTULEN_WRITE, Scope.RECORDINGS_WRITE}),
    Action.VIEW_LEDGER: frozenset({Scope.CREDITS_READ}),
    Action.BUY_CREDITS: frozenset({Scope.CREDITS_WRITE}),
    Action.VIEW_WEBHOOKS: frozenset({Scope.WEBHOOKS_READ}),
    Action.MANAGE_WEBHOOKS: frozenset({Scope.WEBHOOKS_WRITE}),
}
"""The scopes of the API that an action needs; the others have no operation in the API."""


def is_allowed(role: Role, action: Action) -> bool:
    """Return whether a page offers an action to members of this role. `check_allowed` decides."""
    return action in ALLOWED[role]


def check_allowed(role: Role, action: Action) -> None:
    """Check that a member of this role may do it; ActionNotAllowed where the table does not say so."""
    if action not in ALLOWED[role]:
        raise ActionNotAllowed(role, action)


def check_operator_allowed(role: OperatorRole, action: OperatorAction) -> None:
    """Check that an operator of this role may do it; ActionNotAllowed where the table does not say so."""
    if action not in OPERATORS_ALLOWED[role]:
        raise ActionNotAllowed(role, action)


def scopes_of(role: Role) -> frozenset[Scope]:
    """Return the scopes that a member's own actions have in the API."""
    return frozenset[Scope]().union(*(SCOPES.get(action, ()) for action in ALLOWED[role]))


def playground_scopes(role: Role, *, is_sandbox: bool) -> tuple[Scope, ...]:
    """Return the scopes of a key for trying requests: the member's own, without the sandbox those to read."""
    own = scopes_of(role)
    return tuple(each for each in Scope if each in own and (is_sandbox or each.value.endswith(":read")))
