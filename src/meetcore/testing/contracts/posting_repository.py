"""Entries appended where the funds are as they were: all of an account or nothing of it."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve, fields

from meetcore.domain.errors import NotFound
from meetcore.domain.members.audit import SERVICE, AuditEntry, Detail
from meetcore.domain.money import ledger
from meetcore.domain.money.chain_keys import ChainKey
from meetcore.domain.money.ledger import Entry, Funds, Reference
from meetcore.ports.postings import AccountPostings, OperationsView
from meetcore.testing.contracts.appending import append_one
from meetcore.testing.contracts.ledger import LedgerContract, prove_history
from meetcore.testing.contracts.reads import funds_of
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    AT,
    KIND,
    MeetingSpec,
    finish_cancelling,
    new_endpoint,
    new_event,
    new_host,
    new_id,
    open_customer,
    register,
    reserved,
    scheduled,
    start_cancelling,
    top_up,
)


def postings_on(
    funds: Funds, *amounts: int, name: str = "ticket", key: ChainKey | None = None
) -> AccountPostings:
    """Decide on adjustments by these amounts, one after another, each with an entry of the audit log."""
    before, entries = funds, []
    for number, amount in enumerate(amounts):
        operation = f"adjustment:{name}-{number}"
        posting = ledger.adjust(funds, new_id(), operation, amount, Reference("r", "“x”"), AT, None, key)
        assert posting.entry is not None
        entries.append(posting.entry)
        funds = posting.funds
    return AccountPostings(before, funds, entries, (), [_action(each) for each in entries])


_OTHER: dict[str, Any] = {
    "balance": 99, "held": 1, "low_threshold": 7, "is_low": True, "entries": 3, "last_hash": bytes(32),
    "last_at": None,
}  # fmt: skip
"""Values of each field of `Funds` that no test here has."""


def _action(entry: Entry) -> AuditEntry:
    details: dict[str, Detail] = {
        "amount": entry.amount,
        "reason": 'a "quoted" \\ text',
        "before": None,
        "is_new": True,
    }
    return AuditEntry(
        new_id(), AT, entry.account_id, SERVICE.actor, "credits.adjusted", str(new_id()), details, "::1"
    )


async def append(rig: StoreRig, *postings: AccountPostings) -> dict[UUID, int]:
    """Append at once; which accounts were written, and their due deliveries."""
    async with rig.store.at_once() as tx:
        return dict(await tx.postings.append_if_unchanged(postings))


@pytest.mark.asyncio
class PostingRepositoryContract(LedgerContract):
    """What `ports.postings.PostingRepository` promises where there are meetings and events, too."""

    async def test_entries_of_several_accounts_are_appended_together(self, rig: StoreRig) -> None:
        customers = [await open_customer(rig, 100) for _ in range(3)]
        made = [postings_on(await funds_of(rig, each), -30, 5, name=str(each.key_id)) for each in customers]
        assert await append(rig, *made) == {each.account_id: 0 for each in customers}
        for customer, postings in zip(customers, made, strict=True):
            assert await funds_of(rig, customer) == postings.after
            assert (await rig.entries(customer.account_id))[1:] == list(postings.entries)
            await prove_history(rig, customer.account_id, postings.after)
            found = await rig.queries.list_audit_entries(customer.account_id, 9, None)
            assert list(found) == list(postings.actions)[::-1]
            days = await rig.queries.list_day_totals(customer.account_id, AT.date(), AT.date())
            assert [(each.kind.value, each.credits, each.entries) for each in days] == [
                ("adjustment", -25, 2), ("topup", 100, 1),
            ]  # fmt: skip

    async def test_an_account_whose_funds_changed_is_left_alone(self, rig: StoreRig) -> None:
        changed, held, other = [await open_customer(rig, 100) for _ in range(3)]
        await rig.put_hosts(new_host())
        made = [postings_on(await funds_of(rig, each), -30) for each in (changed, held, other)]
        await top_up(rig, changed, 5, "INV-1")
        await reserved(rig, held, MeetingSpec())
        assert await append(rig, *made) == {other.account_id: 0}
        assert (await funds_of(rig, changed)).balance == 105
        assert (await funds_of(rig, held)).balance == 100
        assert len(await rig.entries(changed.account_id)) == 2
        assert not await rig.queries.list_audit_entries(changed.account_id, 9, None)

    @pytest.mark.parametrize("name", [each.name for each in fields(Funds) if each.name != "account_id"])
    async def test_every_part_of_the_funds_is_compared(self, rig: StoreRig, name: str) -> None:
        customer = await open_customer(rig, 100)
        made = postings_on(await funds_of(rig, customer), -30)
        changed = evolve(made.before, **{name: _OTHER[name]})
        assert changed != made.before
        assert await append(rig, evolve(made, before=changed)) == {}
        assert await append(rig, made) == {customer.account_id: 0}

    @pytest.mark.parametrize(
        "name", [each.name for each in fields(Funds) if each.name not in ("account_id", "low_threshold")]
    )
    async def test_every_part_of_the_funds_is_written(self, rig: StoreRig, name: str) -> None:
        customer = await open_customer(rig, 100)
        made = postings_on(await funds_of(rig, customer), -30)
        assert getattr(made.after, name) != _OTHER[name]
        changed = evolve(made, after=evolve(made.after, **{name: _OTHER[name]}))
        assert await append(rig, changed) == {customer.account_id: 0}
        assert await funds_of(rig, customer) == changed.after

    async def test_an_operation_that_is_known_is_not_appended_again(self, rig: StoreRig) -> None:
        customer, other = [await open_customer(rig, 100) for _ in range(2)]
        made = postings_on(await funds_of(rig, customer), -30)
        assert await append(rig, made) == {customer.account_id: 0}
        again = postings_on(await funds_of(rig, customer), -1, name="new")
        known = evolve(again, entries=[*again.entries, made.entries[0]])
        assert await append(rig, known, postings_on(await funds_of(rig, other), 5)) == {other.account_id: 0}
        assert len(await rig.entries(customer.account_id)) == 2

    async def test_an_account_that_is_not_there_is_not_written(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        made = postings_on(ledger.open_account(new_id()), 5)
        assert await append(rig, made, postings_on(await funds_of(rig, customer), 5)) == {
            customer.account_id: 0
        }

    async def test_the_events_are_those_of_the_accounts_that_were_written(self, rig: StoreRig) -> None:
        customers = [await open_customer(rig, 100) for _ in range(2)]
        for each in customers:
            await register(rig, new_endpoint(each))
            await register(rig, new_endpoint(each))
        made = [
            evolve(postings_on(await funds_of(rig, each), -30), events=[new_event(each)])
            for each in customers
        ]
        await top_up(rig, customers[0], 5, "INV-1")
        assert await append(rig, *made) == {customers[1].account_id: 2}
        found = [await rig.deliveries(each.account_id) for each in customers]
        assert [len(each) for each in found] == [0, 2]
        assert {each.event_id for each in found[1].values()} == {made[1].events[0].id}

    async def test_of_many_on_one_state_one_is_appended(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        funds = await funds_of(rig, customer)
        tries = [append(rig, postings_on(funds, -3, 1, name=str(number))) for number in range(8)]
        assert sum(bool(written) for written in await asyncio.gather(*tries)) == 1
        after = await funds_of(rig, customer)
        assert after.balance == 98
        await prove_history(rig, customer.account_id, after)

    async def test_under_the_lock_the_operations_asked_for_are_found(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        made = postings_on(await funds_of(rig, customer), -30, 5, -1, key=ChainKey.of(bytes(32)))
        await append(rig, made)
        names = [each.transfer.operation for each in made.entries]
        async with rig.store.begin() as tx:
            view = await tx.postings.load_locked(customer.account_id, [names[2], "other", names[0]])
            assert view.funds == made.after
            assert view.entries == {names[0]: made.entries[0], names[2]: made.entries[2]}
            more = postings_on(view.funds, 7, name="more")
            assert await tx.postings.append_if_unchanged([more]) == {customer.account_id: 0}
        assert await funds_of(rig, customer) == more.after

    async def test_an_unknown_account_has_no_postings(self, rig: StoreRig) -> None:
        with pytest.raises(NotFound):
            async with rig.store.begin() as tx:
                await tx.postings.load_locked(new_id(), ["x"])

    async def test_a_load_after_a_lock_wait_returns_what_was_appended_meanwhile(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)

        async def load() -> OperationsView:
            async with rig.store.begin() as tx:
                return await tx.postings.load_locked(customer.account_id, ["adjustment:ticket-0"])

        async with rig.store.begin() as tx:
            view = await tx.postings.load_locked(customer.account_id, [])
            made = postings_on(view.funds, -30)
            waiting = asyncio.create_task(load())
            await rig.until_lock_contended()
            await tx.postings.append_if_unchanged([made])
        assert await waiting == OperationsView(made.after, {"adjustment:ticket-0": made.entries[0]})

    async def test_a_charge_is_reversed_once_whatever_the_operation_is_called(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        meeting = await scheduled(rig, customer)
        await finish_cancelling(rig, meeting, await start_cancelling(rig, meeting))
        refund = (await rig.entries(customer.account_id))[-1].transfer
        funds = await funds_of(rig, customer)
        again = ledger.post(funds, evolve(refund, id=new_id(), operation="refund:again"), AT)
        with pytest.raises(rig.refusal):
            async with rig.store.begin() as tx:
                await append_one(tx, funds, again)
        assert (await funds_of(rig, customer)).balance == 100

    async def test_an_entry_and_its_events_are_one(self, rig: StoreRig) -> None:
        customer = await open_customer(rig)
        await register(rig, new_endpoint(customer))
        await register(rig, new_endpoint(customer))
        assert await top_up(rig, customer, 5, "INV-1", KIND) == 2
        assert len(await rig.deliveries(customer.account_id)) == 2

    async def test_an_exception_undoes_the_events_of_an_entry_too(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await register(rig, new_endpoint(customer))
        before = await funds_of(rig, customer)
        posting = ledger.top_up(before, new_id(), "INV-9", 5, AT)

        async def append_and_fail() -> None:
            async with rig.store.begin() as tx:
                assert await append_one(tx, before, posting, new_event(customer)) == 1
                raise RuntimeError("too late")

        with pytest.raises(RuntimeError, match="too late"):
            await append_and_fail()
        assert await rig.deliveries(customer.account_id) == {}
