from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import pytest

from meetcore.domain.members.audit import ActionOrigin, Actor, ActorKind
from meetcore.domain.members.members import User
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.roles import OperatorRole, Role
from meetcore.domain.members.sessions import OperatorSession, Session
from meetcore.domain.members.views import SignedIn, SignedInOperator
from meetcore.domain.requests.views import AccountSummary

NOW = datetime(2026, 8, 1, tzinfo=UTC)
ACCOUNT, USER, OPERATOR, SESSION = (UUID(int=number) for number in range(1, 5))
ADDRESS = "192.0.2.1"
TIMES: Final[dict[str, Any]] = {"created_at": NOW, "last_seen_at": NOW, "authenticated_at": NOW}


@pytest.mark.parametrize(("user_id", "guest", "operator", "actor"), [
    (USER, None, None, Actor(ActorKind.MEMBER, USER, "member")),
    (None, Role.FINANCE, None, Actor(ActorKind.GUEST, SESSION, "guest (finance)")),
    (None, Role.VIEWER, OPERATOR, Actor(ActorKind.OPERATOR, OPERATOR, "operator")),
])  # fmt: skip
def test_a_change_is_of_the_member_the_guest_or_the_operator_who_looks_at_the_account(
    user_id: UUID | None, guest: Role | None, operator: UUID | None, actor: Actor
) -> None:
    session = Session(
        id=SESSION, account_id=ACCOUNT, user_id=user_id, guest_role=guest, impersonated_by=operator, **TIMES
    )
    account = AccountSummary(ACCOUNT, USER, "owner@example.com", "Owner", 0)
    user = None if user_id is None else User(user_id, "owner@example.com", "Owner", NOW)
    signed_in = SignedIn(session, account, user, guest or Role.OWNER)
    assert signed_in.origin(ADDRESS) == ActionOrigin(actor, ADDRESS, operator is not None)


@pytest.mark.parametrize("is_impersonated", [False, True])
def test_a_change_in_the_console_is_of_the_operator(is_impersonated: bool) -> None:
    operator = Operator(OPERATOR, "ops@example.com", OperatorRole.ADMIN, NOW)
    signed_in = SignedInOperator(OperatorSession(id=SESSION, operator_id=OPERATOR, **TIMES), operator)
    actor = Actor(ActorKind.OPERATOR, OPERATOR, "ops@example.com")
    expected = ActionOrigin(actor, ADDRESS, is_impersonated)
    assert signed_in.origin(ADDRESS, is_impersonated=is_impersonated) == expected
    assert not signed_in.origin(ADDRESS).is_impersonated
