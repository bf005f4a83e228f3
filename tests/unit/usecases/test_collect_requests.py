"""Requests wait in memory until they are written; what is too many is counted, no outage loses any."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import define, field

from meetcore.domain.requests.request_log import ALL_OF_MINUTE, ONE_OF, LoggedRequest
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases import collect_requests
from meetcore.usecases.collect_requests import BATCH, CollectRequests

NOW = datetime(2026, 7, 1, tzinfo=UTC)


@define
class Shelf:
    """A store of requests that can be away. `refusal` is raised, and `during` called, at the next save."""

    batches: list[list[LoggedRequest]] = field(factory=list)
    refusal: Exception | None = None
    during: CollectRequests | None = None

    async def save(self, requests: Sequence[LoggedRequest]) -> None:
        if self.during is not None:
            collector, self.during = self.during, None
            add(collector, request(999_999))
        if self.refusal is not None:
            refusal, self.refusal = self.refusal, None
            raise refusal
        self.batches.append(list(requests))

    @property
    def numbers(self) -> list[int]:
        return [each.id.int for batch in self.batches for each in batch]


def request(number: int, account: int | None = None, at: datetime = NOW, status: int = 200) -> LoggedRequest:
    """A request of an account of its own, unless one is named."""
    account_id = UUID(int=number if account is None else account)
    return LoggedRequest(UUID(int=number), account_id, account_id, at, "GET", "/me", status, 1)


def add(collect: CollectRequests, made: LoggedRequest) -> None:
    collect.add(made.account_id, made.at, made.status, lambda: made)


async def test_what_waits_is_written_in_batches_in_its_order() -> None:
    shelf = Shelf()
    collect = CollectRequests(shelf)
    for number in range(BATCH + 1):
        add(collect, request(number))
    shelf.during = collect
    await collect()
    assert [len(batch) for batch in shelf.batches] == [BATCH, 2]
    assert shelf.numbers == [*range(BATCH + 1), 999_999]
    await collect()
    assert len(shelf.batches) == 2, "nothing waits: nothing is written"


async def test_in_an_outage_requests_wait() -> None:
    shelf = Shelf(refusal=StoreUnavailable())
    collect = CollectRequests(shelf)
    add(collect, request(1))
    with pytest.raises(StoreUnavailable):
        await collect()
    add(collect, request(2))
    await collect()
    assert shelf.numbers == [1, 2]


async def test_a_full_queue_drops_and_counts() -> None:
    shelf, dropped = Shelf(), list[int]()
    collect = CollectRequests(shelf, dropped.append, at_most=2)
    for number in range(5):
        add(collect, request(number))
    await collect()
    assert (shelf.numbers, dropped) == ([0, 1], [3])
    await collect()
    assert dropped == [3]


async def test_a_batch_that_is_refused_holds_up_no_other() -> None:
    shelf, dropped = Shelf(refusal=ValueError("no such value")), list[int]()
    collect = CollectRequests(shelf, dropped.append)
    add(collect, request(1))
    with pytest.raises(ValueError, match="no such value"):
        await collect()
    add(collect, request(2))
    await collect()
    assert (shelf.numbers, dropped) == ([2], [1])


async def test_each_account_and_each_minute_has_a_sample_of_its_own() -> None:
    shelf = Shelf()
    collect = CollectRequests(shelf)
    for number in range(ALL_OF_MINUTE + ONE_OF):
        add(collect, request(number, account=7))
    add(collect, request(10_000, account=8))
    add(collect, request(10_001, account=7, status=500))
    add(collect, request(10_002, account=7, at=NOW + timedelta(minutes=1)))
    add(collect, request(10_003, account=7))  # of the minute before, but late: it counts in the present one
    await collect()
    assert shelf.numbers == [*range(ALL_OF_MINUTE + 1), 10_000, 10_001, 10_002, 10_003]


async def test_accounts_beyond_a_limit_are_counted_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect_requests, "MAX_ACCOUNTS", 1)
    shelf, dropped = Shelf(), list[int]()
    collect = CollectRequests(shelf, dropped.append)
    for number in (1, 2):
        add(collect, request(number))
    await collect()
    assert (shelf.numbers, dropped) == ([1], [1])
