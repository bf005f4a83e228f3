"""Members and invitations: an account keeps an owner, an invitation has an end."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.errors import NotFound, Unprocessable
from meetcore.domain.members.members import (
    Invitation,
    InvitationCounts,
    Membership,
    check_invitations,
    check_owner_stays,
    invitations_left,
    is_pending,
)
from meetcore.domain.members.roles import Role
from meetcore.domain.members.views import inviter_name

AT = datetime(2026, 12, 1, tzinfo=UTC)
ACCOUNT = UUID(int=1)


def membership(user: int, role: Role) -> Membership:
    return Membership(ACCOUNT, UUID(int=user), role, AT)


@given(
    st.lists(st.sampled_from(Role), min_size=1, max_size=4),
    st.integers(0, 3),
    st.none() | st.sampled_from(Role),
)
def test_an_account_with_an_owner_keeps_one(roles: list[Role], chosen: int, role: Role | None) -> None:
    members = [membership(number, each) for number, each in enumerate([Role.OWNER, *roles])]
    before = members[chosen % len(members)]
    after = [each for each in members if each is not before]
    if role is not None:
        after.append(evolve(before, role=role))
    if any(each.role is Role.OWNER for each in after):
        assert check_owner_stays(members, before.user_id, role) is before
        return
    with pytest.raises(Unprocessable) as refusal:
        check_owner_stays(members, before.user_id, role)
    assert refusal.value.message == "An account needs an owner. Make another member an owner first."


def test_who_is_no_member_is_not_found() -> None:
    with pytest.raises(NotFound, match=r"^No member with this id\.$"):
        check_owner_stays([membership(1, Role.OWNER)], UUID(int=2), Role.OWNER)


def test_an_invitation_is_pending_until_it_is_accepted_revoked_or_over() -> None:
    until = AT + timedelta(days=7)
    invitation = Invitation(UUID(int=1), ACCOUNT, "budi@example.com", Role.VIEWER, None, AT, until)
    assert is_pending(invitation, until - timedelta(microseconds=1))
    assert not is_pending(invitation, until)
    assert not is_pending(evolve(invitation, accepted_at=AT), AT)
    assert not is_pending(evolve(invitation, revoked_at=AT), AT)


@pytest.mark.parametrize(("pending", "today", "had_credits", "left"), [
    (0, 0, True, 50), (49, 99, True, 1), (50, 0, True, 0), (60, 0, True, 0), (0, 0, False, 5),
    (4, 4, False, 1), (0, 5, False, 0), (48, 0, False, 2), (0, 9, False, 0),
])  # fmt: skip
def test_invitations_are_bounded(pending: int, today: int, had_credits: bool, left: int) -> None:
    counts = InvitationCounts(pending, today, had_credits)
    assert invitations_left(counts) == left
    if left:
        check_invitations(counts)
        return
    with pytest.raises(Unprocessable, match="pending" if pending >= 50 else "5 invitations a day"):
        check_invitations(counts)


def test_a_member_is_named_with_the_address_to_those_who_are_invited() -> None:
    assert inviter_name("Sari Dewi", "sari@example.com") == "Sari Dewi (sari@example.com)"
