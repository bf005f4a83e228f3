"""Money in a store: appended once, in order, never lost and never changed."""

import asyncio
import random
from itertools import accumulate
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import Conflict, InsufficientCredits, NotFound
from meetcore.domain.money import ledger
from meetcore.domain.money.chain_keys import ChainKey
from meetcore.domain.money.ledger import Funds
from meetcore.testing.contracts.reads import funds_of
from meetcore.testing.contracts.store_rig import LedgerRig, StoreRig
from meetcore.testing.contracts.transactions import (
    AT,
    KIND,
    adjust,
    finish_cancelling,
    new_endpoint,
    new_event,
    new_host,
    new_id,
    open_account,
    open_customer,
    register,
    scheduled,
    start_cancelling,
    top_up,
)


async def prove_history(rig: LedgerRig, account_id: UUID, funds: Funds) -> None:
    """Check the invariants of a history: numbers, sums, both legs, the chain, the holds."""
    entries = await rig.entries(account_id)
    legs = await rig.legs(account_id)
    assert [entry.number for entry in entries] == list(range(1, funds.entries + 1))
    assert [entry.balance_after for entry in entries] == list(accumulate(entry.amount for entry in entries))
    assert funds.balance == sum(amount for book, amount in legs if book == "customer")
    assert funds.balance == (entries[-1].balance_after if entries else 0)
    assert sum(amount for _, amount in legs) == 0
    assert len(legs) == 2 * len(entries)
    assert ledger.first_broken(account_id, entries) is None
    assert funds.held == sum(await rig.holds(account_id))


@pytest.mark.asyncio
class LedgerContract:
    """What `ports.store.LedgerRepository` promises to a program that keeps a ledger and nothing else."""

    async def test_an_account_starts_empty(self, rig: LedgerRig) -> None:
        customer = await open_account(rig, low_threshold=50)
        assert await funds_of(rig, customer) == ledger.open_account(customer.account_id, 50)

    async def test_an_unknown_account_has_no_ledger(self, rig: LedgerRig) -> None:
        with pytest.raises(NotFound):
            async with rig.store.begin() as tx:
                await tx.ledger.load_locked(new_id(), "topup:x")

    async def test_an_entry_is_read_back_as_it_was_written(self, rig: LedgerRig) -> None:
        customer = await open_account(rig)
        async with rig.store.begin() as tx:
            view = await tx.ledger.load_locked(customer.account_id, "topup:INV-7")
            assert view.entry is None
            posting = ledger.top_up(view.funds, new_id(), "INV-7", 500, AT)
            assert posting.entry is not None
            await tx.ledger.append(posting.funds, posting.entry, [])
        async with rig.store.begin() as tx:
            again = await tx.ledger.load_locked(customer.account_id, "topup:INV-7")
        assert (again.funds, again.entry) == (posting.funds, posting.entry)
        assert await rig.entries(customer.account_id) == [posting.entry]

    async def test_a_top_up_happens_once_for_each_reference(self, rig: LedgerRig) -> None:
        customer = await open_account(rig)
        await asyncio.gather(*(top_up(rig, customer, 70, "INV-1") for _ in range(10)))
        with pytest.raises(Conflict):
            await top_up(rig, customer, 71, "INV-1")
        assert (await funds_of(rig, customer)).balance == 70

    async def test_a_second_operation_of_one_name_is_refused_and_nothing_of_it_kept(
        self, rig: LedgerRig
    ) -> None:
        customer = await open_account(rig, 100)
        before = await funds_of(rig, customer)
        posting = ledger.top_up(before, new_id(), "opening", 5, AT)
        assert posting.entry is not None
        with pytest.raises(rig.refusal):
            async with rig.store.begin() as tx:
                await tx.ledger.append(posting.funds, posting.entry, [])
        assert await funds_of(rig, customer) == before
        assert len(await rig.entries(customer.account_id)) == 1

    async def test_a_number_is_given_once(self, rig: LedgerRig) -> None:
        customer = await open_account(rig, 100)
        stale = ledger.open_account(customer.account_id)
        posting = ledger.top_up(stale, new_id(), "another", 5, AT)
        assert posting.entry is not None
        with pytest.raises(rig.refusal):
            async with rig.store.begin() as tx:
                await tx.ledger.append(posting.funds, posting.entry, [])

    async def test_an_exception_undoes_everything(self, rig: LedgerRig) -> None:
        customer = await open_account(rig, 100)
        before = await funds_of(rig, customer)
        posting = ledger.top_up(before, new_id(), "INV-9", 5, AT)
        assert posting.entry is not None

        async def append_and_fail(entry: ledger.Entry) -> None:
            async with rig.store.begin() as tx:
                await tx.ledger.append(posting.funds, entry, [])
                raise RuntimeError("too late")

        with pytest.raises(RuntimeError, match="too late"):
            await append_and_fail(posting.entry)
        assert await funds_of(rig, customer) == before
        await prove_history(rig, customer.account_id, before)

    async def test_the_threshold_is_not_the_ledgers_to_change(self, rig: LedgerRig) -> None:
        customer = await open_account(rig, 100, low_threshold=10)
        funds = evolve(await funds_of(rig, customer), low_threshold=99)
        posting = ledger.top_up(funds, new_id(), "INV-2", 5, AT)
        assert posting.entry is not None
        async with rig.store.begin() as tx:
            await tx.ledger.append(posting.funds, posting.entry, [])
        assert (await funds_of(rig, customer)).low_threshold == 10

    async def test_two_charges_race_for_the_last_credits(self, rig: LedgerRig) -> None:
        customer = await open_account(rig, 100)
        takes = (adjust(rig, customer, -100, f"take-{n}") for n in range(2))
        outcomes = await asyncio.gather(*takes, return_exceptions=True)
        assert sum(isinstance(outcome, InsufficientCredits) for outcome in outcomes) == 1
        funds = await funds_of(rig, customer)
        assert funds.balance == 0
        await prove_history(rig, customer.account_id, funds)

    async def test_numbers_have_no_gap_under_concurrency(self, rig: LedgerRig) -> None:
        customer = await open_account(rig, 100)
        rng = random.Random(4)
        amounts = [rng.choice([-30, -7, 3, 11]) for _ in range(40)]
        moves = (adjust(rig, customer, amount, f"move-{n % 35}") for n, amount in enumerate(amounts))
        outcomes = await asyncio.gather(*moves, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} <= {ledger.Entry, type(None), InsufficientCredits}
        await prove_history(rig, customer.account_id, await funds_of(rig, customer))

    async def test_a_load_after_a_lock_wait_returns_what_the_lock_holder_wrote(self, rig: LedgerRig) -> None:
        customer = await open_account(rig)
        async with rig.store.begin() as tx:
            view = await tx.ledger.load_locked(customer.account_id, "topup:INV-3")
            waiting = asyncio.create_task(top_up(rig, customer, 5, "INV-3"))
            posting = ledger.top_up(view.funds, new_id(), "INV-3", 5, AT)
            assert posting.entry is not None
            await rig.until_lock_contended()
            await tx.ledger.append(posting.funds, posting.entry, [])
        await waiting
        assert (await funds_of(rig, customer)).balance == 5

    async def test_an_entry_keeps_the_name_of_its_key(self, rig: LedgerRig) -> None:
        key = ChainKey.of(bytes(32))
        customer = await open_account(rig)
        await top_up(rig, customer, 50, "keyed", key=key)
        await top_up(rig, customer, 5, "bare")
        assert [entry.key_id for entry in await rig.entries(customer.account_id)] == [key.id, b""]
        async with rig.store.begin() as tx:
            view = await tx.ledger.load_locked(customer.account_id, ledger.top_up_operation("keyed"))
        assert view.entry is not None
        assert (view.entry.key_id, view.entry.version) == (key.id, 2)


@pytest.mark.asyncio
class LedgerRepositoryContract(LedgerContract):
    """What `ports.store.LedgerRepository` promises where meetings are charged and events are sent, too."""

    async def test_a_charge_is_reversed_once_whatever_the_operation_is_called(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        meeting = await scheduled(rig, customer)
        await finish_cancelling(rig, meeting, await start_cancelling(rig, meeting))
        refund = (await rig.entries(customer.account_id))[-1].transfer
        funds = await funds_of(rig, customer)
        again = ledger.post(funds, evolve(refund, id=new_id(), operation="refund:again"), AT)
        assert again.entry is not None
        with pytest.raises(rig.refusal):
            async with rig.store.begin() as tx:
                await tx.ledger.append(again.funds, again.entry, [])
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
        assert posting.entry is not None

        async def append_and_fail(entry: ledger.Entry) -> None:
            async with rig.store.begin() as tx:
                await tx.ledger.append(posting.funds, entry, [new_event(customer)])
                raise RuntimeError("too late")

        with pytest.raises(RuntimeError, match="too late"):
            await append_and_fail(posting.entry)
        assert await rig.deliveries(customer.account_id) == {}
