"""The contract of a ledger: entries are appended once, in order, and never lost or changed."""

import asyncio
import random
from itertools import accumulate
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import Conflict, InsufficientCredits, NotFound
from meetcore.domain.money import hash_chain, ledger, views
from meetcore.domain.money.ledger import Funds, Reference
from meetcore.testing.ledger import (
    AT,
    LedgerRig,
    adjust,
    append_one,
    funds_of,
    new_id,
    open_account,
    top_up,
)


async def prove_history(rig: LedgerRig, account_id: UUID, funds: Funds) -> None:
    """Check the numbers, the sums, both legs, the chain and the holds of an account."""
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


def _adjustments(funds: Funds, *operations: str) -> views.AccountPostings:
    """Decide on an adjustment for each operation, one after the other."""
    before, entries = funds, []
    for operation in operations:
        posting = ledger.adjust(funds, new_id(), operation, -7, Reference("ticket", operation), AT)
        assert posting.entry is not None
        entries.append(posting.entry)
        funds = posting.funds
    return views.AccountPostings(before, funds, entries)


@pytest.mark.asyncio
class LedgerContract:
    """The suite of a `PostingRepository` alone, with the fixture `rig`, a `LedgerRig`."""

    async def test_an_account_starts_empty(self, rig: LedgerRig) -> None:
        customer = await open_account(rig, low_threshold=50)
        assert await funds_of(rig, customer) == ledger.open_account(customer.account_id, 50)

    async def test_an_unknown_account_has_no_ledger(self, rig: LedgerRig) -> None:
        with pytest.raises(NotFound):
            async with rig.store.begin() as tx:
                await tx.postings.load_locked(new_id(), ["topup:x"])

    async def test_an_entry_is_read_back_as_it_was_written(self, rig: LedgerRig) -> None:
        customer = await open_account(rig)
        async with rig.store.begin() as tx:
            view = await tx.postings.load_locked(customer.account_id, ["topup:INV-7"])
            assert view.entries == {}
            posting = ledger.top_up(view.funds, new_id(), "INV-7", 500, AT)
            assert posting.entry is not None
            assert await append_one(tx, view.funds, posting) == 0
        async with rig.store.begin() as tx:
            again = await tx.postings.load_locked(customer.account_id, ["topup:INV-7", "topup:INV-8"])
        assert again == views.OperationsView(posting.funds, {"topup:INV-7": posting.entry})
        assert await rig.entries(customer.account_id) == [posting.entry]

    async def test_a_top_up_happens_once_for_each_reference(self, rig: LedgerRig) -> None:
        customer = await open_account(rig)
        await asyncio.gather(*(top_up(rig, customer, 70, "INV-1") for _ in range(10)))
        with pytest.raises(Conflict):
            await top_up(rig, customer, 71, "INV-1")
        assert (await funds_of(rig, customer)).balance == 70

    async def test_of_a_second_operation_of_one_name_nothing_is_written(self, rig: LedgerRig) -> None:
        customer = await open_account(rig, 100)
        before = await funds_of(rig, customer)
        async with rig.store.begin() as tx:
            posting = ledger.top_up(before, new_id(), "opening", 5, AT)
            assert await append_one(tx, before, posting) is None
        assert await funds_of(rig, customer) == before
        assert len(await rig.entries(customer.account_id)) == 1

    async def test_of_several_accounts_each_is_written_wholly_or_not(self, rig: LedgerRig) -> None:
        written, changed, repeated = [await open_account(rig, 100) for _ in range(3)]
        names = {
            written: ("a", "b"),
            changed: ("a", "b"),
            repeated: ("a", ledger.top_up_operation("opening")),
        }
        before = {each: await funds_of(rig, each) for each in names}
        postings = [
            _adjustments(evolve(before[each], held=int(each is changed)), *operations)
            for each, operations in names.items()
        ]
        async with rig.store.begin() as tx:
            assert await tx.postings.append_if_unchanged(postings) == {written.account_id: 0}
        assert (await rig.entries(written.account_id))[1:] == list(postings[0].entries)
        for each in names:
            funds = postings[0].after if each is written else before[each]
            assert await funds_of(rig, each) == funds
            await prove_history(rig, each.account_id, funds)

    async def test_a_number_is_given_once(self, rig: LedgerRig) -> None:
        customer = await open_account(rig, 100)
        funds = await funds_of(rig, customer)
        posting = ledger.top_up(funds, new_id(), "another", 5, AT)
        assert posting.entry is not None
        faulty = evolve(posting, entry=evolve(posting.entry, number=1))
        with pytest.raises(rig.refusal):
            async with rig.store.begin() as tx:
                await append_one(tx, funds, faulty)
        assert await funds_of(rig, customer) == funds

    async def test_on_funds_that_are_no_more_nothing_is_written(self, rig: LedgerRig) -> None:
        customer = await open_account(rig, 100)
        stale = evolve(await funds_of(rig, customer), balance=99)
        async with rig.store.begin() as tx:
            assert await append_one(tx, stale, ledger.top_up(stale, new_id(), "another", 5, AT)) is None
        assert len(await rig.entries(customer.account_id)) == 1

    async def test_an_exception_undoes_everything(self, rig: LedgerRig) -> None:
        customer = await open_account(rig, 100)
        before = await funds_of(rig, customer)
        posting = ledger.top_up(before, new_id(), "INV-9", 5, AT)

        async def append_and_fail() -> None:
            async with rig.store.begin() as tx:
                assert await append_one(tx, before, posting) is not None
                raise RuntimeError("too late")

        with pytest.raises(RuntimeError, match="too late"):
            await append_and_fail()
        assert await funds_of(rig, customer) == before
        await prove_history(rig, customer.account_id, before)

    async def test_the_threshold_is_not_the_ledgers_to_change(self, rig: LedgerRig) -> None:
        customer = await open_account(rig, 100, low_threshold=10)
        funds = await funds_of(rig, customer)
        posting = ledger.top_up(funds, new_id(), "INV-2", 5, AT)
        async with rig.store.begin() as tx:
            changed = evolve(posting, funds=evolve(posting.funds, low_threshold=99))
            assert await append_one(tx, funds, changed) is not None
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

    async def test_a_load_after_a_lock_wait_sees_the_holders_write(self, rig: LedgerRig) -> None:
        customer = await open_account(rig)
        async with rig.store.begin() as tx:
            view = await tx.postings.load_locked(customer.account_id, ["topup:INV-3"])
            waiting = asyncio.create_task(top_up(rig, customer, 5, "INV-3"))
            posting = ledger.top_up(view.funds, new_id(), "INV-3", 5, AT)
            await rig.until_lock_contended()
            assert await append_one(tx, view.funds, posting) is not None
        await waiting
        assert (await funds_of(rig, customer)).balance == 5

    async def test_an_entry_keeps_the_name_of_its_key(self, rig: LedgerRig) -> None:
        key = hash_chain.ChainKey.of(bytes(32))
        customer = await open_account(rig)
        await top_up(rig, customer, 50, "keyed", key=key)
        await top_up(rig, customer, 5, "bare")
        assert [entry.key_id for entry in await rig.entries(customer.account_id)] == [key.id, b""]
        async with rig.store.begin() as tx:
            operation = ledger.top_up_operation("keyed")
            view = await tx.postings.load_locked(customer.account_id, [operation])
        assert view.entries[operation].key_id == key.id
