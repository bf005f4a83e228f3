"""The suite of the rate counters on every adapter, what each has of its own, and a store that is away."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import pytest
import redis.asyncio

from meetcore.adapters.in_process import FallbackRateCounters, InProcessRateCounters
from meetcore.adapters.postgres.pool import Pool, make_pool
from meetcore.adapters.postgres.requests.rate_counters import PostgresRateCounters
from meetcore.adapters.redis import RedisRateCounters, read_address
from meetcore.composition.infrastructure import RATE_WINDOWS_KEPT_S
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.requests import RateStoreUnavailable
from meetcore.testing.contracts.infrastructure import (
    MINUTE,
    RateCountersContract,
    SharedRateCountersContract,
)
from tests.support import servers
from tests.support.kept_log import KeptLog

READ, CREDIT = OperationClass.READ, OperationClass.CREDIT
LIMIT_S = 30.0
"""The time limit of a store that answers."""


@pytest.fixture
def closed_port():
    """A local port without a listener."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.fixture(params=["closed", "silent"])
def useless_port(request: pytest.FixtureRequest, closed_port: int):
    """A port without a listener, and one that accepts connections and never answers."""
    if request.param == "closed":
        yield closed_port
        return
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


class SlowRedis:
    """A server of one connection that answers when the test says so."""

    def __init__(self) -> None:
        self.url = ""
        self.commands: list[bytes] = []
        self._writer: asyncio.StreamWriter | None = None
        self._asked = asyncio.Condition()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        try:
            while commands := await reader.read(65_536):
                async with self._asked:
                    self.commands.append(commands)
                    self._asked.notify_all()
        finally:
            writer.close()

    async def until_asked(self, times: int) -> None:
        async with asyncio.timeout(10), self._asked:
            await self._asked.wait_for(lambda: len(self.commands) >= times)

    def answer(self, replies: bytes) -> None:
        assert self._writer is not None
        self._writer.write(replies)


@asynccontextmanager
async def slow_redis() -> AsyncIterator[SlowRedis]:
    redis_server = SlowRedis()
    async with await asyncio.start_server(redis_server.serve, "127.0.0.1", 0) as listening:
        redis_server.url = f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield redis_server


@asynccontextmanager
async def pool_at(url: str) -> AsyncIterator[Pool]:
    pool = make_pool(url, min_size=0, max_size=8)
    await pool.open()
    try:
        yield pool
    finally:
        await pool.close()


@pytest.fixture(scope="session")
def counters_database(postgres_server_url):
    """A migrated database of these tests alone: they purge."""
    with servers.migrated_database(postgres_server_url) as url:
        yield url


# The port


@pytest.mark.spec("8/1", "8/2", "8/5", "8/6")
class TestMemory(RateCountersContract):
    @pytest.fixture
    def counters(self):
        return InProcessRateCounters()


@asynccontextmanager
async def redis_view(url: str, prefix: str) -> AsyncIterator[RedisRateCounters]:
    counters = RedisRateCounters(url, prefix=prefix + "rate", timeout_s=LIMIT_S)
    try:
        yield counters
    finally:
        await counters.aclose()


@pytest.mark.spec("8/1", "8/2", "8/5", "8/6")
class TestRedis(SharedRateCountersContract):
    @pytest.fixture
    async def counters(self, redis_url, redis_prefix):
        async with redis_view(redis_url, redis_prefix) as view:
            yield view

    @pytest.fixture
    async def other_counters(self, redis_url, redis_prefix):
        async with redis_view(redis_url, redis_prefix) as view:
            yield view

    @pytest.fixture
    def an_hour_later(self, redis_url, redis_prefix):
        async def pass_by() -> None:
            """Delete what Redis will have deleted by then."""
            async with redis.asyncio.from_url(redis_url) as client:
                async for key in client.scan_iter(match=redis_prefix + "*"):
                    if 0 <= await client.ttl(key) < 3600:
                        await client.delete(key)

        return pass_by

    @pytest.fixture
    async def unavailable_counters(self, useless_port):
        counters = RedisRateCounters(f"redis://127.0.0.1:{useless_port}/15", timeout_s=0.05)
        yield counters
        await counters.aclose()


@pytest.mark.spec("8/1", "8/2", "8/5", "8/6")
class TestPostgres(SharedRateCountersContract):
    @pytest.fixture
    async def counters(self, counters_database):
        async with pool_at(counters_database) as pool:
            yield PostgresRateCounters(pool, timeout_s=LIMIT_S)

    @pytest.fixture
    async def other_counters(self, counters_database):
        async with pool_at(counters_database) as pool:
            yield PostgresRateCounters(pool, timeout_s=LIMIT_S)

    @pytest.fixture
    def an_hour_later(self, counters):
        """What the scheduler does."""
        return lambda: counters.purge(before=MINUTE + 3600 - RATE_WINDOWS_KEPT_S)

    @pytest.fixture
    async def unavailable_counters(self, useless_port):
        async with pool_at(f"postgresql://nobody@127.0.0.1:{useless_port}/nothing") as pool:
            yield PostgresRateCounters(pool, timeout_s=0.05)


@pytest.mark.spec("8/1", "8/2", "8/5", "8/6")
class TestFallbackWithItsStore(RateCountersContract):
    @pytest.fixture
    def counters(self):
        return FallbackRateCounters(InProcessRateCounters(), InProcessRateCounters(), KeptLog())


@pytest.mark.spec("8/1", "8/2", "8/5", "8/6")
class TestFallbackWithoutItsStore(RateCountersContract):
    @pytest.fixture
    async def counters(self):
        """Away from the first hit on; what finds it out counts with the others."""
        store = Patchy()
        store.is_unavailable = True
        counters = FallbackRateCounters(store, InProcessRateCounters(), KeptLog(), monotonic=lambda: 0.0)
        await counters.hit(uuid4(), READ, MINUTE)
        return counters


# The memory


async def test_memory_forgets_windows_and_keys():
    counters = InProcessRateCounters(windows=2, counters_per_window=2)
    keys = [uuid4() for _ in range(3)]
    for key in keys:
        assert await counters.hit(key, READ, MINUTE) == 1
    assert await counters.hit(keys[2], READ, MINUTE) == 2
    assert await counters.hit(keys[0], READ, MINUTE) == 1  # made room for the third, starts anew
    for later in (60, 120):
        await counters.hit(keys[0], READ, MINUTE + later)
    assert await counters.hit(keys[2], READ, MINUTE) == 1


async def test_memory_keeps_the_present_after_a_clock_that_jumped_ahead():
    counters, key = InProcessRateCounters(windows=2), uuid4()
    await counters.hit(key, READ, MINUTE + 10**9)
    await counters.hit(key, READ, MINUTE)
    await counters.hit(key, READ, MINUTE + 60)
    assert await counters.hit(key, READ, MINUTE) == 2


# Redis


async def test_a_counter_that_redis_has_lost_expires_again(redis_url: str, redis_prefix: str):
    counters, key = RedisRateCounters(redis_url, prefix=redis_prefix, timeout_s=LIMIT_S), uuid4()
    async with redis.asyncio.from_url(redis_url) as client:
        for count in range(1, 6):
            assert await counters.hit(key, READ, MINUTE) == count
        [name] = [name async for name in client.scan_iter(match=redis_prefix + "*")]
        await client.delete(name)
        assert await counters.hit(key, READ, MINUTE) == 1
        async with asyncio.timeout(10):
            while await client.ttl(name) < 60:  # noqa: ASYNC110  (Redis has no event for it)
                await asyncio.sleep(0.01)
    await counters.aclose()


async def test_the_expiry_is_sent_with_the_first_hits_only(redis_prefix: str):
    async with slow_redis() as server:
        counters, key = RedisRateCounters(server.url, prefix=redis_prefix, timeout_s=LIMIT_S), uuid4()
        sent: list[int] = []
        for count, window in ((1, 0), (2, 0), (3, 0), (4, 0), (1, 60), (2, 60), (3, 60)):
            hit = asyncio.create_task(counters.hit(key, READ, MINUTE + window))
            await server.until_asked(len(sent) + 1)
            sent.append(server.commands[-1].count(b"EXPIRE"))
            server.answer(b":%d\r\n" % count + b":1\r\n" * sent[-1])
            assert await hit == count
        assert sent == [1, 0, 0, 0, 1, 0, 0]
        await counters.aclose()


async def test_redis_dials_again_after_its_connection_was_cut(redis_url: str, redis_prefix: str):
    counters, key = RedisRateCounters(redis_url, prefix=redis_prefix, timeout_s=LIMIT_S), uuid4()
    assert await counters.hit(key, READ, MINUTE) == 1
    assert counters._pipeline is not None
    counters._pipeline.give_up("cut by the test")
    assert await counters.hit(key, READ, MINUTE) == 2
    await counters.aclose()
    assert await counters.hit(key, READ, MINUTE) == 3
    await counters.aclose()


@pytest.mark.parametrize("turns", [1, 2], ids=["not yet sent", "sent"])
async def test_pending_redis_hits_fail_when_the_connection_drops(redis_url, redis_prefix, turns):
    counters, key = RedisRateCounters(redis_url, prefix=redis_prefix, timeout_s=LIMIT_S), uuid4()
    await counters.hit(key, READ, MINUTE)
    hits = [asyncio.create_task(counters.hit(key, READ, MINUTE)) for _ in range(3)]
    for _ in range(turns):
        await asyncio.sleep(0)
    await counters.aclose()
    assert all(
        isinstance(result, RateStoreUnavailable)
        for result in await asyncio.gather(*hits, return_exceptions=True)
    )
    assert (counters._pipeline, counters._dialling) == (None, None)  # every opened connection is closed


async def test_hits_that_come_while_redis_is_asked_leave_together(
    redis_prefix: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("meetcore.adapters.redis.LATE_S", LIMIT_S)  # or they wait for so long only
    async with slow_redis() as server:
        counters, key = RedisRateCounters(server.url, prefix=redis_prefix, timeout_s=LIMIT_S), uuid4()
        hits = [asyncio.create_task(counters.hit(key, READ, MINUTE))]
        await server.until_asked(1)
        for _ in range(3):
            hits.append(asyncio.create_task(counters.hit(key, READ, MINUTE)))
            await asyncio.sleep(0)
        server.answer(b":1\r\n:1\r\n")
        await server.until_asked(2)
        assert server.commands[1].count(b"INCRBY") == 1
        assert [commands.count(b"$3\r\n600\r\n") for commands in server.commands] == [1, 0]
        server.answer(b":4\r\n")
        assert await asyncio.gather(*hits) == [1, 2, 3, 4]
        await counters.aclose()


async def test_hits_do_not_wait_long_for_a_redis_that_is_slow(redis_prefix: str):
    async with slow_redis() as server:
        counters, key = RedisRateCounters(server.url, prefix=redis_prefix, timeout_s=LIMIT_S), uuid4()
        first = asyncio.create_task(counters.hit(key, READ, MINUTE))
        await server.until_asked(1)
        second = asyncio.create_task(counters.hit(key, READ, MINUTE))
        await server.until_asked(2)  # although nothing was answered
        server.answer(b":1\r\n:1\r\n:2\r\n")
        assert (await first, await second) == (1, 2)
        await counters.aclose()


async def test_redis_errors_are_an_absent_store_for_that_counter_alone(redis_url: str, redis_prefix: str):
    counters = RedisRateCounters(redis_url, prefix=redis_prefix + "rate", timeout_s=LIMIT_S)
    broken, sound = uuid4(), uuid4()
    async with redis.asyncio.from_url(redis_url) as client:
        await client.set(f"{redis_prefix}rate:{MINUTE}:{broken.hex}:read", "not a number")
    results = await asyncio.gather(
        counters.hit(broken, READ, MINUTE), counters.hit(sound, READ, MINUTE), return_exceptions=True
    )
    assert isinstance(results[0], RateStoreUnavailable)
    assert results[1] == 1
    assert await counters.hit(sound, READ, MINUTE) == 2
    await counters.aclose()


@pytest.mark.parametrize("url", ["http://127.0.0.1", "redis://127.0.0.1?max_connections=3"])
def test_redis_addresses_that_cannot_be_carried_out_are_refused(url: str):
    with pytest.raises(ValueError, match="Redis"):
        RedisRateCounters(url)


async def test_redis_refusing_the_login_is_an_absent_store(redis_url: str):
    at = urlsplit(redis_url)
    wrong_login = at._replace(netloc=f"nobody:wrong@{at.hostname}:{at.port or 6379}").geturl()
    counters = RedisRateCounters(wrong_login, timeout_s=LIMIT_S)
    with pytest.raises(RateStoreUnavailable, match="login"):
        await counters.hit(uuid4(), READ, MINUTE)
    await counters.aclose()


def test_redis_addresses_are_read_whole_and_keep_their_password_to_themselves():
    address = read_address("rediss://user:s3cret@example.org:6380/3")
    assert (address.host, address.port, address.tls is None) == ("example.org", 6380, False)
    assert address.login == (("AUTH", "user", "s3cret"), ("SELECT", "3"))
    assert "s3cret" not in repr(address)
    assert read_address("unix:///run/redis.sock").path == "/run/redis.sock"


# A store that does not answer


async def test_every_waiting_hit_fails_when_redis_is_absent(closed_port: int):
    counters = RedisRateCounters(f"redis://127.0.0.1:{closed_port}/15")
    results = await asyncio.gather(
        *(counters.hit(uuid4(), READ, MINUTE) for _ in range(20)), return_exceptions=True
    )
    assert all(isinstance(one, RateStoreUnavailable) for one in results)
    assert len({id(one) for one in results}) == 20, "one that is raised in many tasks grows its traceback"


async def test_postgres_purges_old_windows_only(counters_database: str):
    key = uuid4()
    async with pool_at(counters_database) as pool:
        counters = PostgresRateCounters(pool, timeout_s=LIMIT_S)
        for window in (60, 120, 180):
            await counters.hit(key, READ, window)
        assert await counters.purge(before=180) == 2
        assert await counters.hit(key, READ, 180) == 2
        assert await counters.hit(key, READ, 120) == 1


# The fallback


class Patchy:
    """A store that can be taken away, and counts its calls."""

    def __init__(self) -> None:
        self.is_unavailable = False
        self.calls = 0
        self._counters = InProcessRateCounters()

    async def hit(self, key_id: UUID, operation_class: OperationClass, window_start: int) -> int:
        self.calls += 1
        await asyncio.sleep(0)
        if self.is_unavailable:
            raise RateStoreUnavailable("taken away by the test")
        return await self._counters.hit(key_id, operation_class, window_start)


class Bench:
    """A fallback with its surroundings; the test sets the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log = KeptLog()
        self.store = Patchy()
        self.counters = FallbackRateCounters(
            self.store, InProcessRateCounters(), self.log, monotonic=lambda: self.now
        )
        self.key = uuid4()

    async def hit(self) -> int:
        return await self.counters.hit(self.key, READ, MINUTE)


async def test_an_outage_is_counted_in_the_fallback_and_logged_once_at_each_end():
    bench = Bench()
    await bench.hit()
    bench.store.is_unavailable = True
    assert [await bench.hit() for _ in range(5)] == [1, 2, 3, 4, 5]
    bench.store.is_unavailable = False
    bench.now += 1.0
    assert await bench.hit() == 2
    assert await bench.hit() == 3
    assert bench.log.events == [
        "rate store unavailable: counting in this process",
        "rate store back: counting is shared again",
    ]


async def test_an_absent_store_is_tried_once_a_second():
    bench = Bench()
    bench.store.is_unavailable = True
    for tenth in range(30):
        bench.now = tenth / 10
        await asyncio.gather(*(bench.hit() for _ in range(4)))
    assert 4 <= bench.store.calls <= 4 + 3  # four found out together, then one in each second
    assert len(bench.log.events) == 1
