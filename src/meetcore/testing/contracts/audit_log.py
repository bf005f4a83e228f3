"""The audit log of a store: entries are kept with their change, and read newest first."""

from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.members.audit import (
    INVITATION_ACTIONS,
    Actor,
    ActorKind,
    AuditEntry,
    Detail,
    member_actor,
)
from meetcore.domain.members.members import Invitation, Membership, User
from meetcore.domain.members.roles import Role
from meetcore.domain.requests.erasures import erased_email
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import AT, email_of, new_id, open_account

_MEMBER = Actor(ActorKind.MEMBER, UUID(int=7), "dewi@example.com")


def _entry(account_id: UUID | None, action: str = "key.created") -> AuditEntry:
    details: dict[str, Detail] = {"daily_cap": 5, "before": None, "is_new": True, "reason": "“ganda”"}
    return AuditEntry(new_id(), AT, account_id, _MEMBER, action, str(new_id()), details, "2001:db8::1", True)


async def _append(rig: StoreRig, *entries: AuditEntry) -> None:
    async with rig.store.begin() as tx:
        for entry in entries:
            await tx.audit_log.append(entry)


async def _erase(rig: StoreRig, account_id: UUID) -> None:
    async with rig.store.begin() as tx:
        await tx.lock_account(account_id)
        await tx.erasures.start(account_id, AT)


async def _emails(rig: StoreRig, account_id: UUID) -> list[Detail]:
    """The addresses in the details of an account's entries, the newest first."""
    return [each.details.get("email") for each in await rig.queries.list_audit_entries(account_id, 9, None)]


@pytest.mark.asyncio
class AuditLogContract:
    """What `ports.audit_log.AuditLog` and its reads in `ports.queries` promise."""

    async def test_entries_of_an_account_are_listed_newest_first_and_by_page(self, rig: StoreRig) -> None:
        one, other = await open_account(rig), await open_account(rig)
        entries = [_entry(one.account_id) for _ in range(5)]
        await _append(rig, *entries, _entry(other.account_id), _entry(None, "host.added"))
        listed = await rig.queries.list_audit_entries(one.account_id, 3, None)
        assert list(listed) == entries[:1:-1]
        assert list(await rig.queries.list_audit_entries(one.account_id, 9, listed[-1].id)) == entries[1::-1]

    async def test_the_whole_log_holds_what_belongs_to_no_account(self, rig: StoreRig) -> None:
        account = await open_account(rig)
        entries = [_entry(account.account_id), _entry(None, "host.added")]
        await _append(rig, *entries)
        assert list(await rig.queries.list_audit_entries(None, 2, None)) == entries[::-1]
        assert list(await rig.queries.list_audit_entries(None, 1, entries[1].id)) == entries[:1]

    @pytest.mark.parametrize("kind", ActorKind)
    async def test_an_actor_of_any_kind_is_kept(self, rig: StoreRig, kind: ActorKind) -> None:
        account = await open_account(rig)
        entry = evolve(_entry(account.account_id), actor=Actor(kind, None, "root"), client_address=None)
        await _append(rig, entry)
        assert list(await rig.queries.list_audit_entries(account.account_id, 9, None)) == [entry]

    async def test_members_are_shown_by_their_address_until_they_are_erased(self, rig: StoreRig) -> None:
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
        await _erase(rig, account_id)
        [erased] = await rig.queries.list_audit_entries(account_id, 9, None)
        assert erased.actor.name == erased_email(user.id)

    async def test_invitations_are_shown_with_their_address_until_it_is_erased(self, rig: StoreRig) -> None:
        account_id, invited_id = (await open_account(rig)).account_id, new_id()
        invited = Invitation(invited_id, account_id, "budi@example.com", Role.VIEWER, None, AT, AT)
        entries = [
            evolve(_entry(account_id, action), target_id=str(invited_id), details={"role": "viewer"})
            for action in (*INVITATION_ACTIONS, "key.created")
        ]
        async with rig.store.begin() as tx:
            await tx.members.add_invitation(invited)
        await _append(rig, *entries)
        assert await _emails(rig, account_id) == [None, invited.email, invited.email]
        await _erase(rig, account_id)
        assert await _emails(rig, account_id) == [None] + [erased_email(invited_id)] * 2

    async def test_an_entry_goes_with_its_transaction(self, rig: StoreRig) -> None:
        account = await open_account(rig)

        async def append_and_fail() -> None:
            async with rig.store.begin() as tx:
                await tx.audit_log.append(_entry(account.account_id))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await append_and_fail()
        assert list(await rig.queries.list_audit_entries(account.account_id, 9, None)) == []

    async def test_an_audit_entry_is_written_once(self, rig: StoreRig) -> None:
        entry = _entry((await open_account(rig)).account_id)
        await _append(rig, entry)
        with pytest.raises(rig.refusal):
            await _append(rig, entry)
