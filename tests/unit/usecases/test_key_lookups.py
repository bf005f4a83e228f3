"""A flood of wrong keys slows nobody who has a right one."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import count
from uuid import UUID

import pytest
from attrs import define, field

from meetcore.adapters.memory.key_uses import MemoryKeyUses
from meetcore.adapters.memory.state import MemoryState
from meetcore.domain.errors import InvalidApiKey, ServiceUnavailable
from meetcore.domain.requests.keys import ApiKey, Scope, digest, mint
from meetcore.domain.requests.rate_window import Quotas
from meetcore.ports.queries import AccountSummary, Caller
from meetcore.usecases import key_lookups
from meetcore.usecases.admit import Admit
from meetcore.usecases.collect_requests import CollectRequests
from meetcore.usecases.key_lookups import DigestMemory, KeyLookups
from meetcore.usecases.track_key_use import TrackKeyUse

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
    uses = TrackKeyUse(MemoryKeyUses(MemoryState()))
    return Admit(queries, None, Quotas(), "mk", uses, CollectRequests(None), lookups=KeyLookups(at_once))  # type: ignore[arg-type]  # nothing is counted


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
    assert queries.open == 5, "whoever was let in lately waits for nobody"
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
    monkeypatch.setattr(key_lookups, "MAX_WAITING", 5)
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
