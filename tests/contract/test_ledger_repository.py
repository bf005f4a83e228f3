"""Money in every store: appended once, in order, never lost and never changed."""

import asyncio
import random
from itertools import accumulate
from uuid import UUID

import psycopg
import pytest
from attrs import evolve

from meetcore.domain import ledger
from meetcore.domain.errors import Conflict, InsufficientCredits, NotFound
from meetcore.domain.ledger import Funds, Reference
from tests.contract.acts import (
    AT,
    KIND,
    Customer,
    adjust,
    finish_cancelling,
    new_endpoint,
    new_event,
    new_host,
    new_id,
    open_customer,
    register,
    scheduled,
    start_cancelling,
    top_up,
)
from tests.contract.rigs import PostgresRig, Rig, until_somebody_waits


async def funds_of(rig: Rig, customer: Customer) -> Funds:
    async with rig.store.begin() as tx:
        return (await tx.ledger.load(customer.account_id, "nothing")).funds


async def prove(rig: Rig, account_id: UUID, funds: Funds) -> None:
    """The invariants of a history: numbers, sums, both legs, the chain, the holds."""
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


async def test_an_account_starts_empty(rig: Rig):
    customer = await open_customer(rig, low_threshold=50)
    assert await funds_of(rig, customer) == ledger.open_account(customer.account_id, 50)


async def test_an_unknown_account_is_not_found(rig: Rig):
    with pytest.raises(NotFound):
        async with rig.store.begin() as tx:
            await tx.ledger.load(new_id(), "topup:x")


async def test_an_entry_is_read_back_as_it_was_written(rig: Rig):
    customer = await open_customer(rig)
    async with rig.store.begin() as tx:
        view = await tx.ledger.load(customer.account_id, "topup:INV-7")
        assert view.entry is None
        posting = ledger.top_up(view.funds, new_id(), "INV-7", 500, AT)
        assert posting.entry is not None
        await tx.ledger.append(posting.funds, posting.entry, [])
    async with rig.store.begin() as tx:
        again = await tx.ledger.load(customer.account_id, "topup:INV-7")
    assert (again.funds, again.entry) == (posting.funds, posting.entry)
    assert await rig.entries(customer.account_id) == [posting.entry]


async def test_a_top_up_happens_once_for_each_reference(rig: Rig):
    customer = await open_customer(rig)
    await asyncio.gather(*(top_up(rig, customer, 70, "INV-1") for _ in range(10)))
    with pytest.raises(Conflict):
        await top_up(rig, customer, 71, "INV-1")
    assert (await funds_of(rig, customer)).balance == 70


async def test_a_second_operation_of_one_name_is_refused_and_nothing_of_it_kept(rig: Rig):
    customer = await open_customer(rig, 100)
    before = await funds_of(rig, customer)
    posting = ledger.top_up(before, new_id(), "opening", 5, AT)
    assert posting.entry is not None
    with pytest.raises(rig.refusal):
        async with rig.store.begin() as tx:
            await tx.ledger.append(posting.funds, posting.entry, [])
    assert await funds_of(rig, customer) == before
    assert len(await rig.entries(customer.account_id)) == 1


async def test_a_number_is_given_once(rig: Rig):
    customer = await open_customer(rig, 100)
    stale = ledger.open_account(customer.account_id)
    posting = ledger.top_up(stale, new_id(), "another", 5, AT)
    assert posting.entry is not None
    with pytest.raises(rig.refusal):
        async with rig.store.begin() as tx:
            await tx.ledger.append(posting.funds, posting.entry, [])


async def test_a_charge_is_reversed_once_whatever_the_operation_is_called(rig: Rig):
    customer = await open_customer(rig, 100)
    await rig.plant(new_host())
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


async def test_an_exception_undoes_everything(rig: Rig):
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
    assert await funds_of(rig, customer) == before
    assert await rig.deliveries(customer.account_id) == {}
    await prove(rig, customer.account_id, before)


async def test_an_entry_and_its_events_are_one(rig: Rig):
    customer = await open_customer(rig)
    await register(rig, new_endpoint(customer))
    await register(rig, new_endpoint(customer))
    assert await top_up(rig, customer, 5, "INV-1", KIND) == 2
    assert len(await rig.deliveries(customer.account_id)) == 2


async def test_the_threshold_is_not_the_ledgers_to_change(rig: Rig):
    customer = await open_customer(rig, 100, low_threshold=10)
    funds = evolve(await funds_of(rig, customer), low_threshold=99)
    posting = ledger.top_up(funds, new_id(), "INV-2", 5, AT)
    assert posting.entry is not None
    async with rig.store.begin() as tx:
        await tx.ledger.append(posting.funds, posting.entry, [])
    assert (await funds_of(rig, customer)).low_threshold == 10


@pytest.mark.spec("1/credits")
async def test_two_charges_race_for_the_last_credits(rig: Rig):
    customer = await open_customer(rig, 100)
    takes = (adjust(rig, customer, -100, f"take-{n}") for n in range(2))
    outcomes = await asyncio.gather(*takes, return_exceptions=True)
    assert sum(isinstance(outcome, InsufficientCredits) for outcome in outcomes) == 1
    funds = await funds_of(rig, customer)
    assert funds.balance == 0
    await prove(rig, customer.account_id, funds)


async def test_numbers_have_no_gap_under_concurrency(rig: Rig):
    customer = await open_customer(rig, 100)
    dice = random.Random(4)
    amounts = [dice.choice([-30, -7, 3, 11]) for _ in range(40)]
    moves = (adjust(rig, customer, amount, f"move-{n % 35}") for n, amount in enumerate(amounts))
    outcomes = await asyncio.gather(*moves, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} <= {ledger.Entry, type(None), InsufficientCredits}
    await prove(rig, customer.account_id, await funds_of(rig, customer))


async def test_a_load_that_waited_sees_what_the_lock_holder_wrote(rig: Rig):
    customer = await open_customer(rig)
    async with rig.store.begin() as tx:
        view = await tx.ledger.load(customer.account_id, "topup:INV-3")
        waiting = asyncio.create_task(top_up(rig, customer, 5, "INV-3"))
        posting = ledger.top_up(view.funds, new_id(), "INV-3", 5, AT)
        assert posting.entry is not None
        await until_somebody_waits(rig)
        await tx.ledger.append(posting.funds, posting.entry, [])
    await waiting
    assert (await funds_of(rig, customer)).balance == 5


@pytest.mark.parametrize("statement", ["UPDATE {} SET amount = 1", "DELETE FROM {}", "TRUNCATE {}"])
@pytest.mark.parametrize("table", ["ledger_transfers", "ledger_entries"])
async def test_postgres_refuses_to_change_the_ledger(postgres_rig: PostgresRig, statement: str, table: str):
    customer = await open_customer(postgres_rig, 100)
    with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
        await postgres_rig.rows(statement.format(table))
    assert len(await postgres_rig.entries(customer.account_id)) == 1


@pytest.mark.parametrize("amount", [0, -5, 10**15 + 1])
async def test_postgres_refuses_amounts_that_are_none(postgres_rig: PostgresRig, amount: int):
    customer = await open_customer(postgres_rig)
    funds = await funds_of(postgres_rig, customer)
    entry = ledger.adjust(funds, new_id(), "x", 5, Reference("ticket", "x"), AT).entry
    assert entry is not None
    wrong = evolve(entry, amount=amount, transfer=evolve(entry.transfer, amount=amount))
    with pytest.raises(psycopg.IntegrityError):
        async with postgres_rig.store.begin() as tx:
            await tx.ledger.append(funds, wrong, [])


async def test_the_legs_of_all_transfers_sum_to_zero(postgres_rig: PostgresRig):
    customer = await open_customer(postgres_rig, 100)
    await adjust(postgres_rig, customer, -30, "take")
    found = await postgres_rig.rows(
        """SELECT account_id, transfer_id FROM ledger_entries GROUP BY 1, 2
        HAVING sum(amount) <> 0 OR count(*) <> 2"""
    )
    assert found == []
