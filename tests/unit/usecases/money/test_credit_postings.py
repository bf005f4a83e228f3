"""Postings: one statement on unchanged funds, shared by requests that wait, once for each reference."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast
from uuid import UUID

import pytest
from attrs import define, evolve, field

from meetcore.domain.errors import Conflict, InsufficientCredits, NotFound
from meetcore.domain.money.ledger import Entry, Funds, Posting
from meetcore.domain.money.transfers import Transfer
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.ports.store import CommitLost, OutcomeUnknown, Store, StoreUnavailable
from meetcore.usecases.money.credit_postings import (
    REMEMBERED,
    CreditPostings,
    PostingRequest,
    adjustment_request,
)
from meetcore.usecases.money.turns import FailedBatch
from meetcore.usecases.requests.administration import Administration
from tests.support.transactions import Customer, new_endpoint
from tests.unit.usecases.application import ApplicationHarness
from tests.unit.usecases.fakes import losing


@define
class _Watched:
    """Counts the transactions of a store, and loses the connection of some.

    `lost` are the numbers of the statements at once whose connection is lost at their end, kept or not;
    `lost_begun` those of the transactions of `begin` that are lost at their commit; `is_away` says that
    none of them can begin, and they begin when `may_begin` is set.
    """

    store: Store
    opened: list[str] = field(factory=list)
    lost: dict[int, bool] = field(factory=dict)
    fault: Exception | None = None
    lost_begun: dict[int, bool] = field(factory=dict)
    is_away: bool = False
    reported: list[FailedBatch] = field(factory=list)
    may_begin: asyncio.Event = field(factory=asyncio.Event)
    is_beginning: asyncio.Event = field(factory=asyncio.Event)

    def __attrs_post_init__(self) -> None:
        self.may_begin.set()

    @asynccontextmanager
    async def at_once(self) -> AsyncIterator[Any]:
        self.opened.append("at once")
        is_kept = self.lost.get(self.opened.count("at once"))
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        opened = self.store.begin() if is_kept is False else self.store.at_once()
        async with losing(opened, is_kept) as tx:
            yield tx

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Any]:
        self.opened.append("begin")
        self.is_beginning.set()
        await self.may_begin.wait()
        await asyncio.sleep(0)
        if self.is_away:
            raise StoreUnavailable("no connection in time")
        async with losing(self.store.begin(), self.lost_begun.get(self.opened.count("begin"))) as tx:
            yield tx


async def _started(credits: int = 100) -> tuple[ApplicationHarness, Administration, _Watched]:
    harness = await ApplicationHarness().start()
    watched = _Watched(harness.administration.store)
    postings = CreditPostings(cast("Store", watched), watched.reported.append)
    administration = evolve(harness.administration, postings=postings)
    await administration.top_up(harness.caller.account.id, 1, "first")  # from now on the funds are remembered
    watched.opened.clear()
    return harness, administration, watched


async def test_who_is_alone_posts_in_one_statement_on_what_is_remembered():
    harness, administration, watched = await _started()
    done = await administration.adjust(harness.caller.account.id, -30, "usage", "r-1")
    assert (done.is_new, done.balance, harness.funds().balance) == (True, 71, 71)
    assert watched.opened == ["at once"]
    harness.prove()


async def test_what_was_posted_elsewhere_is_read_under_the_lock():
    harness, administration, watched = await _started()
    await harness.administration.adjust(harness.caller.account.id, -50, "elsewhere")
    assert (await administration.adjust(harness.caller.account.id, -30, "usage")).balance == 21
    assert watched.opened == ["at once", "begin"]
    harness.prove()


async def test_those_that_wait_for_one_account_are_one_statement():
    harness, administration, watched = await _started()
    account_id = harness.caller.account.id
    moves = [administration.adjust(account_id, -number, "usage", f"r-{number}") for number in range(1, 9)]
    done = await asyncio.gather(*moves)
    assert watched.opened == ["at once", "at once"]
    assert [each.balance for each in done] == [100, 98, 95, 91, 86, 80, 73, 65]
    assert harness.count("audit_log") >= 9
    harness.prove()


async def test_those_of_several_accounts_are_one_statement():
    harness, administration, watched = await _started()
    ids = [harness.caller.account.id]
    for number in range(4):
        ids.append((await administration.create_account(f"{number}@example.com", "N", 50)).id)
        await administration.adjust(ids[-1], 5, "remember")
    watched.opened.clear()
    await asyncio.gather(*(administration.adjust(each, -1, "usage") for each in ids))
    assert watched.opened == ["at once", "at once"]
    assert [
        harness.read("SELECT balance FROM accounts WHERE id = %(id)s", id=each)[0]["balance"] for each in ids
    ] == [100] + [54] * 4


async def test_a_reference_that_comes_twice_at_once_is_posted_once():
    harness, administration, _ = await _started()
    account_id = harness.caller.account.id
    moves = [administration.adjust(account_id, -10, "usage", f"r-{number % 2}") for number in range(6)]
    done = await asyncio.gather(*moves)
    assert [each.is_new for each in done].count(True) == 2
    assert harness.funds().balance == 81
    with pytest.raises(Conflict):
        await administration.adjust(account_id, -11, "usage", "r-1")
    harness.prove()


async def test_one_that_is_refused_does_not_keep_the_others_from_posting():
    harness, administration, _ = await _started()
    account_id = harness.caller.account.id
    amounts = (-1, -60, -60, -2, 70, -60)
    found = await asyncio.gather(
        *(administration.adjust(account_id, each, "usage") for each in amounts), return_exceptions=True
    )
    assert [isinstance(each, InsufficientCredits) for each in found] == [
        False, False, True, False, False, False,
    ]  # fmt: skip
    assert harness.funds().balance == 48
    harness.prove()


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_fault_of_one_is_reported_once_and_not_one_of_the_others(is_known: bool):
    """In the statement that is tried on funds that are known, or else under the lock."""
    harness, administration, watched = await _started()
    account_id = harness.caller.account.id
    good = [_request(harness, account_id, f"g-{number}") for number in range(3)]
    faulty = [_faulty(_request(harness, account_id, f"f-{number}")) for number in range(2)]
    if not is_known:
        administration.postings._known.clear()
    first = good[0] if is_known else faulty[1]  # after a fault the funds are not known
    found = await asyncio.gather(
        *(administration.postings.post(each) for each in (first, good[1], faulty[0], good[2])),
        return_exceptions=True,
    )
    assert [isinstance(each, Exception) for each in found] == [not is_known, False, True, False]
    assert harness.funds().balance == (98 if is_known else 99)
    harness.prove()
    [reported] = watched.reported
    size = 1 if is_known else 3  # accounts of the statement, requests under the lock
    assert (reported.what, reported.size, type(reported.fault)) == ("postings", size, type(found[2]))


def _faulty(request: PostingRequest) -> PostingRequest:
    def decide(funds: Funds, existing: Transfer | None) -> Posting:
        posting = request.decide(funds, existing)
        assert posting.entry is not None
        return evolve(posting, entry=evolve(posting.entry, number=1))  # a number that is taken

    return evolve(request, decide=decide)


async def test_a_refusal_under_the_lock_is_no_fault():
    _, administration, watched = await _started()
    moves = [administration.top_up(UUID(int=404), 5) for _ in range(3)]
    found = await asyncio.gather(*moves, return_exceptions=True)
    assert [type(each) for each in found] == [NotFound] * 3
    assert len({id(each) for each in found}) == 3
    assert watched.reported == []


def _request(harness: ApplicationHarness, account_id: UUID, name: str) -> PostingRequest:
    runtime, origin = harness.administration.runtime, harness.administration.origin
    return adjustment_request(runtime, origin, harness.now(), account_id, -1, "usage", name)


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("number", [1, 2])
async def test_a_posting_whose_connection_was_lost_is_found_or_made(is_kept: bool, number: int):
    harness, administration, watched = await _started()
    watched.lost[number] = is_kept
    moves = [administration.adjust(harness.caller.account.id, -10, "usage") for _ in range(4)]
    done = await asyncio.gather(*moves)
    assert all(each.is_new for each in done)
    assert sorted(each.entry.balance_after for each in done) == [61, 71, 81, 91]
    assert harness.funds().balance == 61
    harness.prove()


async def test_after_a_lost_connection_nobody_is_refused_what_may_be_kept_yet():
    harness, administration, watched = await _started()
    watched.lost[1] = False
    watched.may_begin.clear()
    lost = asyncio.create_task(administration.adjust(harness.caller.account.id, -101, "usage"))
    await watched.is_beginning.wait()  # its statement is lost, and it is about to take the lock
    await harness.administration.adjust(harness.caller.account.id, -1, "elsewhere")
    watched.may_begin.set()
    with pytest.raises(CommitLost):
        await lost
    assert harness.funds().balance == 100


@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_commit_that_was_lost_is_found_or_made(is_kept: bool):
    harness, administration, watched = await _started()
    administration.postings._known.clear()
    watched.lost_begun[1] = is_kept
    moves = [administration.adjust(harness.caller.account.id, -10, "usage", f"r-{each}") for each in "ab"]
    done = await asyncio.gather(*moves)
    assert [(each.is_new, each.entry.number) for each in done] == [(True, 3), (True, 4)]
    assert watched.opened[:2] == ["begin", "begin"]
    assert harness.funds().balance == 81
    harness.prove()


@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_commit_that_was_lost_and_cannot_be_found_is_unknown_and_its_reference_finds_it(
    is_kept: bool,
):
    harness, administration, watched = await _started()
    administration.postings._known.clear()
    watched.lost_begun = {1: is_kept, 2: is_kept}
    with pytest.raises(OutcomeUnknown):
        await administration.adjust(harness.caller.account.id, -10, "usage", "r-1")
    assert watched.opened == ["begin", "begin"]
    again = await administration.adjust(harness.caller.account.id, -10, "usage", "r-1")
    assert again.is_new is not is_kept
    assert harness.funds().balance == 91
    harness.prove()


@pytest.mark.parametrize("fault", [StoreUnavailable, OutcomeUnknown])
async def test_a_store_that_does_not_answer_fails_all_that_wait(fault: type[StoreUnavailable]):
    """What was under way may be kept yet; what waited was not begun."""
    harness, administration, watched = await _started()
    other = await administration.create_account("other@example.com", "N", 50)
    await administration.adjust(other.id, 5, "remember")
    watched.opened.clear()
    watched.fault = fault("frozen")
    ids = [harness.caller.account.id] * 3 + [other.id] * 2
    moves = [administration.adjust(each, -1, "usage") for each in ids]
    found = await asyncio.gather(*moves, return_exceptions=True)
    assert [type(each) for each in found] == [fault] + [StoreUnavailable] * 4
    assert len({id(each) for each in found}) == 5
    assert watched.opened == ["at once"]
    assert harness.funds().balance == 101


async def test_so_many_accounts_are_remembered():
    harness, administration, _ = await _started()
    known: dict[UUID, Funds] = administration.postings._known
    for number in range(REMEMBERED + 5):
        administration.postings._remember(Funds(UUID(int=number)))
    assert len(known) == REMEMBERED
    assert harness.caller.account.id not in known
    assert UUID(int=REMEMBERED + 4) in known


async def test_the_event_of_a_top_up_is_due_and_notified_once():
    harness, administration, watched = await _started()
    account_id = harness.caller.account.id
    customer = Customer(account_id, harness.caller.key.id, b"")
    async with harness.store.begin() as tx:
        await tx.lock_account(account_id)
        await tx.endpoints.add(new_endpoint(customer))
    await asyncio.gather(*(administration.top_up(account_id, 5) for _ in range(4)))
    assert watched.opened == ["at once", "at once"]
    assert (len(_due(harness)), harness.notifier.notifications) == (4, 4)
    entry: Entry = (await administration.top_up(account_id, 5, "again")).entry
    assert (len(_due(harness)), harness.notifier.notifications) == (5, 5)
    assert (await administration.top_up(account_id, 5, "again")).entry == entry
    assert (len(_due(harness)), harness.notifier.notifications) == (5, 5)


def _due(harness: ApplicationHarness) -> set[UUID]:
    """The events of deliveries that are due now."""
    found = harness.deliveries()
    assert all(
        each.status is DeliveryStatus.PENDING and each.next_attempt_at == harness.now() for each in found
    )
    return {each.event_id for each in found}


@pytest.mark.parametrize("is_kept", [True, False])
async def test_of_a_lost_statement_nothing_is_known_while_the_store_is_away(is_kept: bool) -> None:
    harness, administration, watched = await _started()
    watched.lost, watched.is_away = {1: is_kept}, True
    with pytest.raises(OutcomeUnknown):
        await administration.adjust(harness.caller.account.id, -30, "usage")
    assert harness.funds().balance == (71 if is_kept else 101)
    with pytest.raises(StoreUnavailable) as away:
        await administration.adjust(harness.caller.account.id, -30, "usage")
    assert type(away.value) is StoreUnavailable
