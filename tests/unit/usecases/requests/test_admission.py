"""Admission of keys, their last uses, and requests that wait in memory until they are written."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, cast
from uuid import UUID

import pytest
from attrs import define, evolve, field

from meetcore.domain.errors import InvalidApiKey, ServiceUnavailable
from meetcore.domain.requests.keys import ApiKey, Scope, digest, mint
from meetcore.domain.requests.rate_window import Quotas
from meetcore.domain.requests.request_log import ALL_OF_MINUTE, ONE_OF, LoggedRequest
from meetcore.domain.requests.views import AccountSummary
from meetcore.ports.queries import Caller
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.requests import admit as module
from meetcore.usecases.requests.admit import (
    BATCH,
    Admit,
    CollectRequests,
    DigestMemory,
    KeyLookups,
    TrackKeyUse,
)
from tests.unit.usecases.application import ApplicationHarness

NOW = datetime(2026, 12, 1, tzinfo=UTC)
_numbers = count()


def a_key() -> str:
    return mint("mk", next(_numbers).to_bytes(32))


@define
class SlowQueries:
    """Finds callers when it is let; remembers how many lookups there were, and how many at once."""

    callers: dict[bytes, Caller] = field(factory=dict)
    released: asyncio.Event = field(factory=asyncio.Event)
    lookups: int = 0
    open: int = 0
    most_open: int = 0

    def know(self, key: str, revoked_at: datetime | None = None) -> None:
        id_ = UUID(int=next(_numbers))
        known = ApiKey(id_, id_, tuple(Scope), None, NOW, None, revoked_at)
        self.callers[digest(key)] = Caller(known, AccountSummary(id_, id_, "a@example.com", "A", 0, 0))

    async def find_caller(self, key_digest: bytes, includes: object = None) -> Caller | None:
        self.lookups += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        await self.released.wait()
        self.open -= 1
        return self.callers.get(key_digest)


def admission(queries: SlowQueries, at_once: int = 2) -> Admit:
    nothing = cast(Any, None)  # nothing is counted or kept
    return Admit(
        cast(Any, queries), nothing, Quotas(), "mk", TrackKeyUse(nothing), CollectRequests(nothing),
        lookups=KeyLookups(at_once),
    )  # fmt: skip


async def enter(admit: Admit, key: str, now: datetime = NOW) -> Caller:
    return await admit.authenticate(f"Bearer {key}", now)


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.spec("5/3")
async def test_few_unknown_keys_are_looked_up_at_a_time_and_a_known_one_does_not_wait():
    queries, known = SlowQueries(), a_key()
    queries.know(known)
    admit = admission(queries)
    queries.released.set()
    await enter(admit, known)
    queries.released.clear()
    flood = [asyncio.create_task(enter(admit, a_key())) for _ in range(50)]
    await settled()
    assert queries.open == 2
    requests = [asyncio.create_task(enter(admit, known)) for _ in range(3)]
    await settled()
    assert queries.open == 5, "a caller admitted recently does not wait"
    queries.released.set()
    await asyncio.gather(*requests)
    refused = await asyncio.gather(*flood, return_exceptions=True)
    assert {type(each) for each in refused} == {InvalidApiKey}
    assert queries.most_open == 5


async def test_a_key_that_was_not_found_is_looked_up_once_in_ten_seconds():
    queries, wrong = SlowQueries(), a_key()
    queries.released.set()
    admit = admission(queries)
    refused = await asyncio.gather(*(enter(admit, wrong) for _ in range(20)), return_exceptions=True)
    assert {type(each) for each in refused} == {InvalidApiKey}
    with pytest.raises(InvalidApiKey):
        await enter(admit, wrong, NOW + timedelta(seconds=9))
    assert queries.lookups == 1
    queries.know(wrong)
    await enter(admit, wrong, NOW + timedelta(seconds=10))


async def test_a_new_key_works_at_once_and_a_revoked_one_no_more():
    """Nothing of a key's validity is remembered, only that it was not found."""
    queries, key = SlowQueries(), a_key()
    queries.released.set()
    admit = admission(queries)
    queries.know(key)
    await enter(admit, key)
    queries.know(key, revoked_at=NOW)
    with pytest.raises(InvalidApiKey):
        await enter(admit, key)
    queries.released.clear()
    flood = [asyncio.create_task(enter(admit, key)) for _ in range(5)]
    await settled()
    assert queries.open == 2, "it is none of those that were valid lately"
    queries.released.set()
    await asyncio.gather(*flood, return_exceptions=True)


async def test_unknown_keys_beyond_the_waiting_limit_get_a_retry_response(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_WAITING", 5)
    queries = SlowQueries()
    admit = admission(queries)
    flood = [asyncio.create_task(enter(admit, a_key())) for _ in range(5)]
    await settled()
    with pytest.raises(ServiceUnavailable) as caught:
        await enter(admit, a_key())
    assert caught.value.retry_after_s == 1
    queries.released.set()
    await asyncio.gather(*flood, return_exceptions=True)
    with pytest.raises(InvalidApiKey):
        await enter(admit, a_key())


def test_a_full_memory_drops_the_oldest_digest():
    memory = DigestMemory(timedelta(seconds=10), at_most=2)
    for each in (b"a", b"b", b"a", b"c"):
        memory.add(each, NOW)
    assert [memory.has(each, NOW) for each in (b"a", b"b", b"c")] == [True, False, True]
    assert not memory.has(b"c", NOW + timedelta(seconds=10))


AT = datetime(2026, 12, 1, 2, 3, 4, 5, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
THIS_MINUTE = datetime(2026, 12, 1, 2, 3, tzinfo=UTC)


def key(number: int, last_used_at: datetime | None = None) -> ApiKey:
    return ApiKey(UUID(int=number), UUID(int=99), (), None, AT, last_used_at=last_used_at)


@define
class Writes:
    """What was written; fails, or lets something happen meanwhile, when it is set to."""

    written: list[dict[UUID, datetime]] = field(factory=list)
    fault: Exception | None = None
    meanwhile: tuple[TrackKeyUse, ApiKey, datetime] | None = None

    async def save(self, used: Mapping[UUID, datetime]) -> None:
        if self.fault is not None:
            raise self.fault
        if self.meanwhile is not None:
            track, used_key, at = self.meanwhile
            track.add(used_key, at)
        self.written.append(dict(used))


async def test_many_requests_of_a_minute_are_one_write() -> None:
    track = TrackKeyUse(writes := Writes())
    for seconds in (0, 10, 40, 20, 70, 30):
        track.add(key(1), AT + timedelta(seconds=seconds))
    track.add(key(2), AT)
    await track()
    await track()
    assert writes.written == [{UUID(int=1): THIS_MINUTE + MINUTE, UUID(int=2): THIS_MINUTE}]


async def test_a_minute_that_is_stored_is_not_written_again() -> None:
    """Another process may have written it: a request reads its key anyway."""
    track = TrackKeyUse(writes := Writes())
    track.add(key(1, THIS_MINUTE), AT)
    track.add(key(2, THIS_MINUTE + MINUTE), AT)
    track.add(key(3, THIS_MINUTE - MINUTE), AT)
    await track()
    assert writes.written == [{UUID(int=3): THIS_MINUTE}]


async def test_uses_are_kept_while_the_store_is_unavailable() -> None:
    track = TrackKeyUse(writes := Writes(fault=StoreUnavailable("away")))
    track.add(key(1), AT)
    with pytest.raises(StoreUnavailable):
        await track()
    track.add(key(2), AT)
    writes.fault = None
    await track()
    assert writes.written == [{UUID(int=1): THIS_MINUTE, UUID(int=2): THIS_MINUTE}]


@pytest.mark.parametrize(("later", "is_kept"), [(timedelta(seconds=1), False), (MINUTE, True)])
async def test_a_use_during_the_write_waits_for_the_next(later: timedelta, is_kept: bool) -> None:
    track = TrackKeyUse(writes := Writes())
    track.add(key(1), AT)
    writes.meanwhile = track, key(1), AT + later
    await track()
    writes.meanwhile = None
    await track()
    assert writes.written[1:] == ([{UUID(int=1): THIS_MINUTE + MINUTE}] if is_kept else [])


async def test_memory_is_bounded() -> None:
    track = TrackKeyUse(writes := Writes(), at_most=2)
    for number in (1, 2, 3):
        track.add(key(number), AT)
    track.add(key(1), AT + MINUTE)
    await track()
    track.add(key(3), AT + MINUTE)
    await track()
    assert writes.written == [
        {UUID(int=1): THIS_MINUTE + MINUTE, UUID(int=2): THIS_MINUTE},
        {UUID(int=3): THIS_MINUTE + MINUTE},
    ]


async def test_a_key_that_was_accepted_is_used_and_a_refused_one_is_not(harness: ApplicationHarness) -> None:
    application = harness.process()
    minted = [await harness.administration.keys.create(harness.caller.account.id, ()) for _ in range(2)]
    await harness.administration.keys.revoke(minted[1].key.id)
    await application.admit.authenticate(f"Bearer {minted[0].text}", AT)
    with pytest.raises(InvalidApiKey):
        await application.admit.authenticate(f"Bearer {minted[1].text}", AT)
    await application.admit.uses()
    stored = {each.id: each for each in await harness.registry.list_keys(harness.caller.account.id)}
    assert stored[minted[0].key.id] == evolve(minted[0].key, last_used_at=THIS_MINUTE)
    assert stored[minted[1].key.id].last_used_at is None


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
    monkeypatch.setattr(module, "MAX_ACCOUNTS", 1)
    shelf, dropped = Shelf(), list[int]()
    collect = CollectRequests(shelf, dropped.append)
    for number in (1, 2):
        add(collect, request(number))
    await collect()
    assert (shelf.numbers, dropped) == ([1], [1])
