"""Members in a store: users by their address, memberships under the account's lock, invitations."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import Unprocessable
from meetcore.domain.members.members import Invitation, Member, Membership, User, check_owner_stays
from meetcore.domain.members.roles import Role
from meetcore.ports.member_queries import AccountMembership
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import AT, email_of, new_id, open_account

WEEK = timedelta(days=7)


def new_user(**fields: Any) -> User:
    """A user whom no store knows yet."""
    id_ = new_id()
    return evolve(User(id_, email_of(id_), "Dewi Ayu", AT), **fields)


async def put_user(rig: StoreRig, user: User | None = None) -> User:
    """Write a user."""
    async with rig.store.begin() as tx:
        return await tx.members.ensure_user(user or new_user())


async def put_member(
    rig: StoreRig, account_id: UUID, role: Role = Role.OWNER, user: User | None = None
) -> User:
    """Write a user who is a member of an account."""
    async with rig.store.begin() as tx:
        user = await tx.members.ensure_user(user or new_user())
        await tx.lock_account(account_id)
        assert await tx.members.add_membership(Membership(account_id, user.id, role, AT))
        return user


async def remove_member(rig: StoreRig, account_id: UUID, user_id: UUID) -> None:
    """End a membership as the use case does."""
    async with rig.store.begin() as tx:
        await tx.lock_account(account_id)
        check_owner_stays(await tx.members.load_members(account_id), user_id, None)
        await tx.members.remove_membership(account_id, user_id, AT)


def _invitation(account_id: UUID, email: str = "budi@example.com") -> Invitation:
    return Invitation(new_id(), account_id, email, Role.FINANCE, None, AT, AT + WEEK)


async def _invite(rig: StoreRig, invitation: Invitation) -> Invitation:
    async with rig.store.begin() as tx:
        await tx.lock_account(invitation.account_id)
        await tx.members.add_invitation(invitation)
    return invitation


@pytest.mark.asyncio
class MemberRepositoryContract:
    """What `ports.members.MemberRepository` and its reads in `ports.member_queries` promise.

    Give it the fixture `rig`, a `StoreRig`.
    """

    async def test_an_email_address_is_one_users_in_any_case(self, rig: StoreRig) -> None:
        user = new_user()
        assert await put_user(rig, user) == user
        assert await put_user(rig, new_user(email=user.email.upper(), full_name="Another")) == user

    async def test_users_written_at_once_with_one_address_are_one(self, rig: StoreRig) -> None:
        email = email_of(new_id())
        found = await asyncio.gather(*(put_user(rig, new_user(email=email)) for _ in range(8)))
        assert len({user.id for user in found}) == 1

    async def test_members_are_listed_oldest_first_by_account_and_by_user(self, rig: StoreRig) -> None:
        one, other = await open_account(rig), await open_account(rig)
        user = new_user()
        async with rig.store.begin() as tx:
            await tx.members.ensure_user(user)
            late = await tx.members.ensure_user(new_user())
            for membership in (
                Membership(one.account_id, late.id, Role.VIEWER, AT + WEEK),
                Membership(one.account_id, user.id, Role.OWNER, AT),
                Membership(other.account_id, user.id, Role.DEVELOPER, AT + WEEK),
            ):
                assert await tx.members.add_membership(membership)
            own = await tx.members.load_members(one.account_id)
            assert [each.user_id for each in own] == [user.id, late.id]
            assert [each.account_id for each in await tx.members.load_memberships(user.id)] == [
                one.account_id, other.account_id,
            ]  # fmt: skip
        listed = await rig.queries.list_members(one.account_id)
        assert list(listed) == [Member(user, own[0]), Member(late, own[1])]
        assert list(await rig.queries.list_accounts_of(user.id)) == [
            AccountMembership(one.account_id, "A Customer", email_of(one.account_id), Role.OWNER),
            AccountMembership(other.account_id, "A Customer", email_of(other.account_id), Role.DEVELOPER),
        ]

    async def test_a_member_is_one_once_and_keeps_the_role(self, rig: StoreRig) -> None:
        account_id = (await open_account(rig)).account_id
        user = await put_member(rig, account_id)
        async with rig.store.begin() as tx:
            assert not await tx.members.add_membership(Membership(account_id, user.id, Role.VIEWER, AT))
            await tx.members.save_membership(Membership(account_id, user.id, Role.FINANCE, AT))
        (member,) = await rig.queries.list_members(account_id)
        assert member.membership.role is Role.FINANCE

    async def test_the_last_owner_stays_when_two_are_removed_at_once(self, rig: StoreRig) -> None:
        account_id = (await open_account(rig)).account_id
        owners = [await put_member(rig, account_id) for _ in range(2)]
        outcomes = await asyncio.gather(
            *(remove_member(rig, account_id, owner.id) for owner in owners), return_exceptions=True
        )
        assert [type(each) for each in outcomes if each is not None] == [Unprocessable]
        assert len(await rig.queries.list_members(account_id)) == 1

    async def test_one_invitation_for_an_address_is_pending(self, rig: StoreRig) -> None:
        one, other = (await open_account(rig)).account_id, (await open_account(rig)).account_id
        first = await _invite(rig, _invitation(one))
        second = await _invite(rig, _invitation(one, "BUDI@example.com"))
        elsewhere = await _invite(rig, _invitation(other))
        assert list(await rig.queries.list_invitations(one, AT)) == [second]
        assert list(await rig.queries.list_invitations(other, AT)) == [elsewhere]
        assert list(await rig.queries.list_invitations(one, AT + WEEK)) == []
        async with rig.store.begin() as tx:
            assert await tx.members.load_invitation(first.id) == evolve(first, revoked_at=AT)
            assert await tx.members.load_invitation(new_id()) is None

    async def test_an_invitation_that_was_accepted_is_not_pending(self, rig: StoreRig) -> None:
        account_id = (await open_account(rig)).account_id
        invitation = await _invite(rig, _invitation(account_id))
        accepted = evolve(invitation, accepted_at=AT)
        async with rig.store.begin() as tx:
            await tx.members.save_invitation(accepted)
            assert await tx.members.load_invitation(invitation.id) == accepted
        assert list(await rig.queries.list_invitations(account_id, AT)) == []
        again = await _invite(rig, _invitation(account_id))
        assert list(await rig.queries.list_invitations(account_id, AT)) == [again]
