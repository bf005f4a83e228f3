"""The table of roles and actions: every pair, as it is written here once more."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import ActionNotAllowed, Unprocessable
from meetcore.domain.members import roles
from meetcore.domain.members.sessions import Session
from meetcore.domain.members.views import SignedIn, check_member
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.views import AccountSummary

# o owner, d developer, f finance, v viewer
MEMBERS = {
    roles.Action.VIEW_OVERVIEW: "odfv",
    roles.Action.VIEW_KEYS: "odfv",
    roles.Action.MANAGE_KEYS: "od",
    roles.Action.MANAGE_CAPS: "of",
    roles.Action.VIEW_MEETINGS: "odv",
    roles.Action.MANAGE_MEETINGS: "od",
    roles.Action.VIEW_NOTES: "odv",
    roles.Action.MANAGE_NOTES: "od",
    roles.Action.VIEW_LEDGER: "odfv",
    roles.Action.VIEW_STATEMENTS: "of",
    roles.Action.BUY_CREDITS: "of",
    roles.Action.VIEW_WEBHOOKS: "odv",
    roles.Action.MANAGE_WEBHOOKS: "od",
    roles.Action.MANAGE_WEBHOOK_SECRETS: "od",
    roles.Action.VIEW_REQUESTS: "odv",
    roles.Action.VIEW_MEMBERS: "odf",
    roles.Action.MANAGE_MEMBERS: "o",
    roles.Action.VIEW_SETTINGS: "odfv",
    roles.Action.MANAGE_SETTINGS: "of",
    roles.Action.MANAGE_PASSKEYS: "odfv",
    roles.Action.VIEW_AUDIT: "o",
    roles.Action.EXPORT_ACCOUNT: "o",
    roles.Action.ERASE_ACCOUNT: "o",
}
# s support, f finance, a admin
OPERATORS = {
    roles.OperatorAction.VIEW_ACCOUNTS: "sfa",
    roles.OperatorAction.SUSPEND_ACCOUNTS: "a",
    roles.OperatorAction.IMPERSONATE: "sa",
    roles.OperatorAction.MAKE_PORTAL_LINKS: "sa",
    roles.OperatorAction.MOVE_CREDITS: "fa",
    roles.OperatorAction.APPROVE_CREDITS: "fa",
    roles.OperatorAction.VIEW_HOSTS: "sa",
    roles.OperatorAction.MANAGE_HOSTS: "a",
    roles.OperatorAction.VIEW_DOUBTS: "sa",
    roles.OperatorAction.RESOLVE_DOUBTS: "sa",
    roles.OperatorAction.VIEW_PRICES: "sfa",
    roles.OperatorAction.VIEW_HEALTH: "sfa",
    roles.OperatorAction.VIEW_LIABILITY: "fa",
    roles.OperatorAction.VIEW_PAYMENTS: "sfa",
    roles.OperatorAction.VIEW_AUDIT: "sfa",
    roles.OperatorAction.MANAGE_PASSKEYS: "sfa",
    roles.OperatorAction.MANAGE_SESSIONS: "sfa",
    roles.OperatorAction.MAKE_OWNER_LINKS: "a",
    roles.OperatorAction.MANAGE_OPERATORS: "a",
}


@pytest.mark.parametrize("action", roles.Action)
@pytest.mark.parametrize("role", roles.Role)
def test_a_member_may_do_what_the_table_says(role: roles.Role, action: roles.Action) -> None:
    assert roles.is_allowed(role, action) == (role.value[0] in MEMBERS[action])
    if roles.is_allowed(role, action):
        roles.check_allowed(role, action)
        return
    with pytest.raises(ActionNotAllowed) as caught:
        roles.check_allowed(role, action)
    assert caught.value.code == "insufficient_scope"
    assert caught.value.details == {"role": role.value, "action": action.value}


@pytest.mark.parametrize("action", roles.OperatorAction)
@pytest.mark.parametrize("role", roles.OperatorRole)
def test_an_operator_may_do_what_the_table_says(
    role: roles.OperatorRole, action: roles.OperatorAction
) -> None:
    if role.value[0] in OPERATORS[action]:
        roles.check_operator_allowed(role, action)
        return
    with pytest.raises(ActionNotAllowed) as caught:
        roles.check_operator_allowed(role, action)
    assert caught.value.details == {"role": role.value, "action": action.value}


def test_every_role_and_every_action_stands_in_the_tables() -> None:
    assert set(roles.ALLOWED) == set(roles.Role)
    assert set(roles.OPERATORS_ALLOWED) == set(roles.OperatorRole)
    assert set().union(*roles.ALLOWED.values()) == set(roles.Action)
    assert set().union(*roles.OPERATORS_ALLOWED.values()) == set(roles.OperatorAction)


def test_who_manages_something_sees_it() -> None:
    for actions in roles.ALLOWED.values():
        for action in actions:
            subject, _, verb = action.partition(".")
            shown = {"caps": "keys", "webhook_secrets": "webhooks", "passkeys": "settings"}
            seen = shown.get(subject, subject)
            assert verb != "manage" or roles.Action(f"{seen}.view") in actions


def test_a_members_own_actions_have_the_scopes_of_a_key() -> None:
    assert roles.scopes_of(roles.Role.OWNER) == set(Scope)
    assert roles.scopes_of(roles.Role.DEVELOPER) == set(Scope) - {Scope.CREDITS_WRITE}
    assert roles.scopes_of(roles.Role.FINANCE) == {Scope.CREDITS_READ, Scope.CREDITS_WRITE}
    assert roles.scopes_of(roles.Role.VIEWER) == {scope for scope in Scope if scope.endswith(":read")}


@pytest.mark.parametrize("action", roles.Action)
def test_members_of_a_suspended_account_read_and_start_nothing(action: roles.Action) -> None:
    at, owner = datetime(2026, 12, 1, tzinfo=UTC), roles.Role.OWNER
    session = Session(
        id=UUID(int=1), account_id=UUID(int=2), user_id=None, guest_role=owner, created_at=at,
        last_seen_at=at, authenticated_at=at,
    )  # fmt: skip
    account = AccountSummary(UUID(int=2), UUID(int=3), "A", "a@example.com", 0, 0, at)
    goes_on = action in {
        roles.Action.MANAGE_PASSKEYS, roles.Action.EXPORT_ACCOUNT, roles.Action.ERASE_ACCOUNT,
    }  # fmt: skip
    who = SignedIn(session, account, None, owner)
    if goes_on or action.value.endswith(".view"):
        check_member(who, action)
    else:
        with pytest.raises(Unprocessable, match=r"^The account is suspended\. Ask the operator"):
            check_member(who, action)
    check_member(evolve(who, account=evolve(account, suspended_at=None)), action)


@pytest.mark.parametrize("role", roles.Role)
def test_a_key_of_the_playground_has_the_scopes_of_the_role_and_only_reads_without_the_sandbox(
    role: roles.Role,
) -> None:
    own = roles.playground_scopes(role, is_sandbox=True)
    assert (frozenset(own), len(own)) == (roles.scopes_of(role), len(roles.scopes_of(role)))
    reads = roles.playground_scopes(role, is_sandbox=False)
    assert reads == tuple(scope for scope in own if not scope.value.endswith("write"))


def test_the_scopes_of_the_playground_stand_in_the_order_of_all() -> None:
    assert roles.playground_scopes(roles.Role.OWNER, is_sandbox=True) == tuple(Scope)
