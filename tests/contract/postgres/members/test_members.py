"""Members, operators and their programs: users of one address, invitations, tokens."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.members.audit import (
    INVITATION_ACTIONS,
    Actor,
    ActorKind,
    AuditEntry,
    Detail,
    member_actor,
)
from meetcore.domain.members.members import Invitation, Member, Membership, User
from meetcore.domain.members.operators import Operator, OperatorToken
from meetcore.domain.members.roles import OperatorRole, Role
from meetcore.domain.members.sessions import Session
from meetcore.domain.members.views import AccountMembership
from meetcore.domain.requests.retention import erased_email
from tests.support.postgres_rig import PostgresRig
from tests.support.records import new_user, put_operator, put_user
from tests.support.transactions import AT, email_of, new_id, open_account, start_erasure

WEEK = timedelta(days=7)


def _invitation(account_id: UUID, email: str = "budi@example.com") -> Invitation:
    return Invitation(new_id(), account_id, email, Role.FINANCE, None, AT, AT + WEEK)


async def _invite(rig: PostgresRig, invitation: Invitation) -> Invitation:
    async with rig.store.begin() as tx:
        await tx.lock_account(invitation.account_id)
        await tx.members.add_invitation(invitation)
    return invitation


async def test_an_email_address_is_one_users_in_any_case(rig: PostgresRig) -> None:
    user = new_user()
    assert await put_user(rig, user) == user
    assert await put_user(rig, new_user(email=user.email.upper(), full_name="Another")) == user


async def test_users_written_at_once_with_one_address_are_one(rig: PostgresRig) -> None:
    email = email_of(new_id())
    found = await asyncio.gather(*(put_user(rig, new_user(email=email)) for _ in range(8)))
    assert len({user.id for user in found}) == 1


async def test_members_are_listed_oldest_first_by_account_and_by_user(rig: PostgresRig) -> None:
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


async def test_one_invitation_for_an_address_is_pending(rig: PostgresRig) -> None:
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


DAY = timedelta(days=1)


async def _remove(rig: PostgresRig, operator_id: UUID, late: timedelta = timedelta(0)) -> Operator:
    return await rig.alone.operators.remove(operator_id, AT + late)


async def test_an_address_is_one_operators_until_they_are_removed(rig: PostgresRig) -> None:
    email = email_of(new_id())

    async def add(spelling: str) -> Operator:
        operator = Operator(new_id(), spelling, OperatorRole.ADMIN, AT)
        await rig.alone.operators.add(operator)
        return operator

    outcomes = await asyncio.gather(*(add(email) for _ in range(5)), return_exceptions=True)
    assert [type(each) for each in outcomes].count(Conflict) == 4
    (operator,) = (each for each in outcomes if isinstance(each, Operator))
    with pytest.raises(Conflict) as caught:
        await add(email.upper())
    assert caught.value.details == {"id": str(operator.id)}
    await _remove(rig, operator.id)
    assert (await add(email.upper())).email == email.upper()


async def test_a_token_is_found_by_its_digest_until_it_is_revoked_and_after(rig: PostgresRig) -> None:
    tokens = [OperatorToken(new_id(), "backend", role, "abcd", AT, AT + DAY) for role in OperatorRole]
    for token in tokens:
        await rig.alone.operators.add_token(token, token.id.bytes * 2)
    assert [each for each in await rig.queries.list_operator_tokens() if each in tokens] == tokens
    for token in tokens:
        assert await rig.queries.find_operator_token(token.id.bytes * 2) == token
    assert await rig.queries.find_operator_token(new_id().bytes * 2) is None
    revoked = evolve(tokens[0], revoked_at=AT + DAY)
    for late in (DAY, 2 * DAY):
        assert await rig.alone.operators.revoke_token(tokens[0].id, AT + late) == revoked
    assert await rig.queries.find_operator_token(tokens[0].id.bytes * 2) == revoked
    async with rig.store.begin() as tx:
        with pytest.raises(NotFound):
            await tx.operators.revoke_token(new_id(), AT)


async def test_a_removed_operators_views_of_accounts_are_over(rig: PostgresRig) -> None:
    operator, account_id = await put_operator(rig), (await open_account(rig)).account_id
    view = Session(
        id=new_id(), account_id=account_id, user_id=None, guest_role=Role.VIEWER, created_at=AT,
        last_seen_at=AT, authenticated_at=AT, impersonated_by=operator.id,
    )  # fmt: skip
    await rig.alone.sign_in.add_session(view, operator.id.bytes * 2)
    found = await rig.queries.find_session(operator.id.bytes * 2)
    assert found is not None
    assert found.session == view
    await _remove(rig, operator.id)
    assert evolve(view, ended_at=AT) in await rig.queries.list_account_sessions(account_id, 10, None)
    # One that was begun at the same moment.
    await rig.alone.sign_in.add_session(evolve(view, id=new_id()), view.id.bytes * 2)
    for digest in (operator.id.bytes * 2, view.id.bytes * 2):
        assert await rig.queries.find_session(digest) is None


_MEMBER = Actor(ActorKind.MEMBER, UUID(int=7), "dewi@example.com")


def _entry(account_id: UUID | None, action: str = "key.created") -> AuditEntry:
    details: dict[str, Detail] = {"daily_cap": 5, "before": None, "is_new": True, "reason": "“ganda”"}
    return AuditEntry(new_id(), AT, account_id, _MEMBER, action, str(new_id()), details, "2001:db8::1", True)


async def _append(rig: PostgresRig, *entries: AuditEntry) -> None:
    async with rig.store.begin() as tx:
        for entry in entries:
            await tx.audit_log.append(entry)


async def _emails(rig: PostgresRig, account_id: UUID) -> list[Detail]:
    """The addresses in the details of an account's entries, the newest first."""
    return [each.details.get("email") for each in await rig.queries.list_audit_entries(account_id, 9, None)]


async def test_entries_are_listed_newest_first_and_by_page_of_an_account_and_of_all(rig: PostgresRig) -> None:
    one, other = await open_account(rig), await open_account(rig)
    entries = [_entry(one.account_id) for _ in range(5)]
    foreign, of_no_account = _entry(other.account_id), _entry(None, "host.added")
    await _append(rig, *entries, foreign, of_no_account)
    listed = await rig.queries.list_audit_entries(one.account_id, 3, None)
    assert list(listed) == entries[:1:-1]
    assert list(await rig.queries.list_audit_entries(one.account_id, 9, listed[-1].id)) == entries[1::-1]
    assert list(await rig.queries.list_audit_entries(None, 2, None)) == [of_no_account, foreign]
    assert list(await rig.queries.list_audit_entries(None, 1, of_no_account.id)) == [foreign]


@pytest.mark.parametrize("kind", ActorKind)
async def test_an_actor_of_any_kind_is_kept(rig: PostgresRig, kind: ActorKind) -> None:
    account = await open_account(rig)
    entry = evolve(_entry(account.account_id), actor=Actor(kind, None, "root"), client_address=None)
    await _append(rig, entry)
    assert list(await rig.queries.list_audit_entries(account.account_id, 9, None)) == [entry]


async def test_members_are_shown_by_their_address_until_they_are_erased(rig: PostgresRig) -> None:
    account_id = (await open_account(rig)).account_id
    user = User(new_id(), email_of(new_id()), "A member", AT)
    entry = evolve(_entry(account_id), actor=member_actor(user.id))
    async with rig.store.begin() as tx:
        await tx.members.ensure_user(user)
        await tx.members.add_membership(Membership(account_id, user.id, Role.OWNER, AT))
        await tx.audit_log.append(entry)
    [shown] = await rig.queries.list_audit_entries(account_id, 9, None)
    assert shown == evolve(entry, actor=Actor(ActorKind.MEMBER, user.id, user.email))
    assert shown in await rig.queries.list_audit_entries(None, 9, None)
    await start_erasure(rig, account_id)
    [erased] = await rig.queries.list_audit_entries(account_id, 9, None)
    assert erased.actor.name == erased_email(user.id)


async def test_invitations_are_shown_with_their_address_until_it_is_erased(rig: PostgresRig) -> None:
    account_id, invited_id = (await open_account(rig)).account_id, new_id()
    invited = Invitation(invited_id, account_id, "budi@example.com", Role.VIEWER, None, AT, AT)
    entries = [
        evolve(_entry(account_id, action), target_id=str(invited_id), details={"role": "viewer"})
        for action in (*INVITATION_ACTIONS, "key.created")
    ]
    await rig.alone.members.add_invitation(invited)
    await _append(rig, *entries)
    assert await _emails(rig, account_id) == [None, invited.email, invited.email]
    await start_erasure(rig, account_id)
    assert await _emails(rig, account_id) == [None] + [erased_email(invited_id)] * 2


async def test_operators_are_listed_until_they_are_removed(rig: PostgresRig) -> None:
    operators = [await put_operator(rig, role) for role in OperatorRole]
    listed = await rig.queries.list_operators()
    assert [each for each in listed if each in operators] == operators
    removed = evolve(operators[0], removed_at=AT)
    assert await _remove(rig, operators[0].id) == removed
    assert await _remove(rig, operators[0].id, DAY) == removed
    assert operators[0].id not in {each.id for each in await rig.queries.list_operators()}
    with pytest.raises(NotFound):
        await _remove(rig, new_id())
