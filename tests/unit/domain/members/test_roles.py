"""The table of roles and actions: every pair, as it is written here once more."""

import pytest

from meetcore.domain.errors import ActionNotAllowed
from meetcore.domain.members.roles import (
    ALLOWED,
    OPERATORS_ALLOWED,
    Action,
    OperatorAction,
    OperatorRole,
    Role,
    check_allowed,
    check_operator_allowed,
    is_allowed,
    scopes_of,
)
from meetcore.domain.requests.keys import Scope

# o owner, d developer, f finance, v viewer
MEMBERS = {
    Action.VIEW_OVERVIEW: "odfv",
    Action.VIEW_KEYS: "odfv",
    Action.MANAGE_KEYS: "od",
    Action.MANAGE_CAPS: "of",
    Action.VIEW_MEETINGS: "odv",
    Action.MANAGE_MEETINGS: "od",
    Action.VIEW_NOTES: "odv",
    Action.MANAGE_NOTES: "od",
    Action.VIEW_LEDGER: "odfv",
    Action.VIEW_STATEMENTS: "of",
    Action.VIEW_WEBHOOKS: "odv",
    Action.MANAGE_WEBHOOKS: "od",
    Action.MANAGE_WEBHOOK_SECRETS: "od",
    Action.VIEW_REQUESTS: "odv",
    Action.VIEW_MEMBERS: "odf",
    Action.MANAGE_MEMBERS: "o",
    Action.VIEW_SETTINGS: "odfv",
    Action.MANAGE_SETTINGS: "of",
    Action.MANAGE_PASSKEYS: "odfv",
    Action.VIEW_AUDIT: "o",
    Action.EXPORT_ACCOUNT: "o",
    Action.ERASE_ACCOUNT: "o",
}
# s support, f finance, a admin
OPERATORS = {
    OperatorAction.VIEW_ACCOUNTS: "sfa",
    OperatorAction.SUSPEND_ACCOUNTS: "a",
    OperatorAction.IMPERSONATE: "sa",
    OperatorAction.MAKE_PORTAL_LINKS: "sa",
    OperatorAction.MOVE_CREDITS: "fa",
    OperatorAction.APPROVE_CREDITS: "fa",
    OperatorAction.VIEW_HOSTS: "sa",
    OperatorAction.MANAGE_HOSTS: "a",
    OperatorAction.VIEW_DOUBTS: "sa",
    OperatorAction.RESOLVE_DOUBTS: "sa",
    OperatorAction.VIEW_PRICES: "sfa",
    OperatorAction.VIEW_HEALTH: "sfa",
    OperatorAction.VIEW_LIABILITY: "fa",
    OperatorAction.VIEW_AUDIT: "sfa",
    OperatorAction.MANAGE_PASSKEYS: "sfa",
    OperatorAction.MAKE_OWNER_LINKS: "a",
    OperatorAction.MANAGE_OPERATORS: "a",
}


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("role", Role)
def test_a_member_may_do_what_the_table_says(role: Role, action: Action) -> None:
    assert is_allowed(role, action) == (role.value[0] in MEMBERS[action])
    if is_allowed(role, action):
        check_allowed(role, action)
        return
    with pytest.raises(ActionNotAllowed) as caught:
        check_allowed(role, action)
    assert caught.value.code == "insufficient_scope"
    assert caught.value.details == {"role": role.value, "action": action.value}


@pytest.mark.parametrize("action", OperatorAction)
@pytest.mark.parametrize("role", OperatorRole)
def test_an_operator_may_do_what_the_table_says(role: OperatorRole, action: OperatorAction) -> None:
    if role.value[0] in OPERATORS[action]:
        check_operator_allowed(role, action)
        return
    with pytest.raises(ActionNotAllowed) as caught:
        check_operator_allowed(role, action)
    assert caught.value.details == {"role": role.value, "action": action.value}


def test_every_role_and_every_action_stands_in_the_tables() -> None:
    assert set(ALLOWED) == set(Role)
    assert set(OPERATORS_ALLOWED) == set(OperatorRole)
    assert set().union(*ALLOWED.values()) == set(Action)
    assert set().union(*OPERATORS_ALLOWED.values()) == set(OperatorAction)


def test_who_manages_something_sees_it() -> None:
    for actions in ALLOWED.values():
        for action in actions:
            subject, _, verb = action.partition(".")
            shown = {"caps": "keys", "webhook_secrets": "webhooks", "passkeys": "settings"}
            seen = shown.get(subject, subject)
            assert verb != "manage" or Action(f"{seen}.view") in actions


def test_a_members_own_actions_have_the_scopes_of_a_key() -> None:
    assert scopes_of(Role.OWNER) == set(Scope)
    assert scopes_of(Role.DEVELOPER) == set(Scope)
    assert scopes_of(Role.FINANCE) == {Scope.CREDITS_READ}
    assert scopes_of(Role.VIEWER) == {scope for scope in Scope if scope.endswith(":read")}
