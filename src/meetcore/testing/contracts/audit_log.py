"""The audit log of a store: entries are kept with their change, and read newest first."""

from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.members.audit import Actor, ActorKind, AuditEntry, Detail
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import AT, new_id, open_account

_MEMBER = Actor(ActorKind.MEMBER, UUID(int=7), "dewi@example.com")


def _entry(account_id: UUID | None, action: str = "key.created") -> AuditEntry:
    details: dict[str, Detail] = {"daily_cap": 5, "before": None, "is_new": True, "reason": "“ganda”"}
    return AuditEntry(new_id(), AT, account_id, _MEMBER, action, str(new_id()), details, "2001:db8::1", True)


async def _append(rig: StoreRig, *entries: AuditEntry) -> None:
    async with rig.store.begin() as tx:
        for entry in entries:
            await tx.audit_log.append(entry)


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
