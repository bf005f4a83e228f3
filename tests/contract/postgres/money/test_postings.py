"""Postings: appended on unchanged funds, once for each operation, by two processes on one account."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve, fields

from meetcore.adapters.postgres.money import postings as statements
from meetcore.domain.errors import Conflict, InsufficientCredits
from meetcore.domain.members.audit import SERVICE, AuditEntry, Detail
from meetcore.domain.money import ledger
from meetcore.domain.money.hash_chain import ChainKey
from meetcore.domain.money.ledger import Entry, Funds, Reference
from meetcore.domain.money.views import AccountPostings, OperationsView
from meetcore.testing.contracts.ledger import LedgerContract, prove_history
from meetcore.usecases.requests.administration import Administration
from tests.support.fakes import FakeNotifier
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import (
    AT,
    RUNTIME,
    Customer,
    MeetingSpec,
    append_one,
    finish_cancelling,
    funds_of,
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


class TestLedger(LedgerContract):
    """The suite of a ledger alone."""


pytestmark = pytest.mark.spec("1/credits")


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


async def append(rig: PostgresRig, *postings: AccountPostings) -> dict[UUID, int]:
    """Append at once; which accounts were written, and their due deliveries."""
    async with rig.store.at_once() as tx:
        return dict(await tx.postings.append_if_unchanged(postings))


async def test_entries_of_several_accounts_are_appended_together(rig: PostgresRig) -> None:
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


async def test_an_account_whose_funds_changed_is_left_alone(rig: PostgresRig) -> None:
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
async def test_every_part_of_the_funds_is_compared(rig: PostgresRig, name: str) -> None:
    customer = await open_customer(rig, 100)
    made = postings_on(await funds_of(rig, customer), -30)
    changed = evolve(made.before, **{name: _OTHER[name]})
    assert changed != made.before
    assert await append(rig, evolve(made, before=changed)) == {}
    assert await append(rig, made) == {customer.account_id: 0}


@pytest.mark.parametrize(
    "name", [each.name for each in fields(Funds) if each.name not in ("account_id", "low_threshold")]
)
async def test_every_part_of_the_funds_is_written(rig: PostgresRig, name: str) -> None:
    customer = await open_customer(rig, 100)
    made = postings_on(await funds_of(rig, customer), -30)
    assert getattr(made.after, name) != _OTHER[name]
    changed = evolve(made, after=evolve(made.after, **{name: _OTHER[name]}))
    assert await append(rig, changed) == {customer.account_id: 0}
    assert await funds_of(rig, customer) == changed.after


async def test_an_operation_that_is_known_is_not_appended_again(rig: PostgresRig) -> None:
    customer, other = [await open_customer(rig, 100) for _ in range(2)]
    made = postings_on(await funds_of(rig, customer), -30)
    assert await append(rig, made) == {customer.account_id: 0}
    again = postings_on(await funds_of(rig, customer), -1, name="new")
    known = evolve(again, entries=[*again.entries, made.entries[0]])
    assert await append(rig, known, postings_on(await funds_of(rig, other), 5)) == {other.account_id: 0}
    assert len(await rig.entries(customer.account_id)) == 2


async def test_an_account_that_is_not_there_is_not_written(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    made = postings_on(ledger.open_account(new_id()), 5)
    assert await append(rig, made, postings_on(await funds_of(rig, customer), 5)) == {customer.account_id: 0}


async def test_the_events_are_those_of_the_accounts_that_were_written(rig: PostgresRig) -> None:
    customers = [await open_customer(rig, 100) for _ in range(2)]
    for each in customers:
        await register(rig, new_endpoint(each))
        await register(rig, new_endpoint(each))
    made = [
        evolve(postings_on(await funds_of(rig, each), -30), events=[new_event(each)]) for each in customers
    ]
    await top_up(rig, customers[0], 5, "INV-1")
    assert await append(rig, *made) == {customers[1].account_id: 2}
    found = [await rig.deliveries(each.account_id) for each in customers]
    assert [len(each) for each in found] == [0, 2]
    assert {each.event_id for each in found[1].values()} == {made[1].events[0].id}


async def test_of_many_on_one_state_one_is_appended(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    funds = await funds_of(rig, customer)
    tries = [append(rig, postings_on(funds, -3, 1, name=str(number))) for number in range(8)]
    assert sum(bool(written) for written in await asyncio.gather(*tries)) == 1
    after = await funds_of(rig, customer)
    assert after.balance == 98
    await prove_history(rig, customer.account_id, after)


async def test_under_the_lock_the_operations_asked_for_are_found(rig: PostgresRig) -> None:
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


async def test_a_load_after_a_lock_wait_returns_what_was_appended_meanwhile(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)

    async def load() -> OperationsView:
        return await rig.alone.postings.load_locked(customer.account_id, ["adjustment:ticket-0"])

    async with rig.store.begin() as tx:
        view = await tx.postings.load_locked(customer.account_id, [])
        made = postings_on(view.funds, -30)
        waiting = asyncio.create_task(load())
        await rig.until_lock_contended()
        await tx.postings.append_if_unchanged([made])
    assert await waiting == OperationsView(made.after, {"adjustment:ticket-0": made.entries[0]})


async def test_a_charge_is_reversed_once_whatever_the_operation_is_called(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    meeting = await scheduled(rig, customer)
    await finish_cancelling(rig, meeting, await start_cancelling(rig, meeting))
    refund = (await rig.entries(customer.account_id))[-1].transfer
    funds = await funds_of(rig, customer)
    again = ledger.post(funds, evolve(refund, id=new_id(), operation="refund:again"), AT)
    with pytest.raises(rig.refusal):
        async with rig.store.begin() as tx:
            await append_one(tx, funds, again)
    assert (await funds_of(rig, customer)).balance == 100


def _process(rig: PostgresRig) -> Administration:
    return Administration(rig.store, rig.registry, FakeNotifier(), RUNTIME, "mk")


async def test_two_processes_post_to_one_account_each_reference_once(rig: PostgresRig):
    customer, others = await open_customer(rig, 60), [await open_customer(rig, 500) for _ in range(3)]
    one, other = _process(rig), _process(rig)
    moves = [
        process.adjust(customer.account_id, -7 if number % 3 else 4, "race", f"r-{number % 40}")
        for number in range(60)
        for process in (one, other)
    ]
    moves += [
        process.adjust(each.account_id, -1, "race", f"r-{number}")
        for each in others
        for number in range(20)
        for process in (one, other)
    ]
    outcomes = await asyncio.gather(*moves, return_exceptions=True)
    refused = [each for each in outcomes if isinstance(each, BaseException)]
    assert {type(each) for each in refused} <= {InsufficientCredits, Conflict}
    funds = await funds_of(rig, customer)
    await prove_history(rig, customer.account_id, funds)
    entries = await rig.entries(customer.account_id)
    assert len({each.transfer.operation for each in entries}) == len(entries)
    new = [each.entry for each in outcomes if not isinstance(each, BaseException) and each.is_new]
    assert sorted((e.account_id, e.number) for e in new if e.account_id == customer.account_id) == [
        (e.account_id, e.number) for e in entries[1:]
    ]
    for each in others:
        await prove_history(rig, each.account_id, await funds_of(rig, each))
        assert (await funds_of(rig, each)).balance == 480


async def test_an_account_that_is_locked_is_left_alone_and_not_waited_for(rig: PostgresRig):
    locked, free = await open_customer(rig, 100), await open_customer(rig, 100)
    made = [postings_on(await funds_of(rig, each), -30) for each in (locked, free)]
    async with rig.store.begin() as tx:
        await tx.lock_account(locked.account_id)
        assert await append(rig, *made) == {free.account_id: 0}


def _nodes(plan: dict[str, Any]) -> Any:
    yield plan
    for below in plan.get("Plans", []):
        yield from _nodes(below)


async def test_accounts_operations_and_endpoints_are_found_by_their_keys(rig: PostgresRig):
    """With tables as small as these the plan could as well read an index from end to end."""
    customers: list[Customer] = [await open_customer(rig, 100) for _ in range(3)]
    made = [postings_on(await funds_of(rig, each), -30, -1) for each in customers]
    async with rig.store.at_once() as tx:
        parameters = tx.postings.parameters(made)
    async with rig.pool.connection() as connection:
        cursor = await connection.execute(
            f"EXPLAIN (FORMAT JSON) {statements.SQL['append_if_unchanged']}", parameters
        )
        [plan] = [row["QUERY PLAN"] for row in await cursor.fetchall()]
    read = [
        each for each in _nodes(plan[0]["Plan"]) if "Relation Name" in each and "Scan" in each["Node Type"]
    ]
    assert {each["Relation Name"] for each in read} == {"accounts", "ledger_transfers", "webhook_endpoints"}
    assert not any(each["Node Type"] == "Seq Scan" for each in read)
    keyed = [each for each in _nodes(plan[0]["Plan"]) if each.get("Index Name")]
    assert all("Index Cond" in each for each in keyed)
