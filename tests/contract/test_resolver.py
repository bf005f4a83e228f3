"""The suite of the resolvers on every adapter, and what is each one's own."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from ipaddress import IPv4Address, IPv6Address
from uuid import UUID

import pytest

from meetcore.adapters.webhook_sender import SystemResolver
from meetcore.adapters.webhook_sender.resolver import DnsCache
from meetcore.domain.errors import HostUnresolved
from meetcore.testing.contracts.resolver import HANGING, ZONE, ResolverContract
from meetcore.testing.contracts.webhook_setting import StaticResolver

HOST = "hooks.test"
ACCOUNT, ANOTHER = UUID(int=1), UUID(int=2)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What a lookup that hangs waits for: opened at the end, so that no thread is left."""
    opened = threading.Event()
    yield opened
    opened.set()


@pytest.fixture
async def zoned(release: threading.Event) -> AsyncIterator[SystemResolver]:
    """The system's resolver on a system that knows the zone of the suite."""

    def lookup(host: bytes, *_args: object, **_options: object) -> list[tuple[object, ...]]:
        name = host.decode()
        if name == HANGING:
            release.wait()
        if name not in ZONE:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [(socket.AF_UNSPEC, socket.SOCK_STREAM, 6, "", (record, 0)) for record in ZONE[name]]

    resolver = SystemResolver(0.5, lookup=lookup)
    yield resolver
    await resolver.close()


class TestSystem(ResolverContract):
    @pytest.fixture
    def resolver(self, zoned: SystemResolver):
        return zoned


class TestDnsCache(ResolverContract):
    @pytest.fixture
    async def resolver(self, zoned: SystemResolver):
        cache = DnsCache(zoned, lambda: 0.0)
        yield cache
        await cache.close()


# The system's


@pytest.fixture
async def system_resolver() -> AsyncIterator[SystemResolver]:
    resolver = SystemResolver()
    yield resolver
    await resolver.close()


async def test_the_system_resolves_localhost(system_resolver: SystemResolver) -> None:
    found = await system_resolver.resolve("localhost", ACCOUNT)
    assert set(found) <= {IPv4Address("127.0.0.1"), IPv6Address("::1")}
    assert len(found) == len(set(found)) > 0


@pytest.mark.parametrize("answer", [
    socket.gaierror(socket.EAI_NONAME, "no such name"), OSError("down"), [],
    [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("not an address", 0))],
])  # fmt: skip
async def test_any_other_result_of_the_system_is_host_unresolved(answer: object) -> None:
    def lookup(*_args: object, **_options: object) -> list[tuple[object, ...]]:
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    resolver = SystemResolver(lookup=lookup)
    with pytest.raises(HostUnresolved):
        await resolver.resolve(HOST, ACCOUNT)
    await resolver.close()


async def test_a_scope_id_of_the_system_is_kept_to_be_refused() -> None:
    entry = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1%3", 0, 0, 3))
    resolver = SystemResolver(lookup=lambda *_args, **_options: [entry, entry])
    assert await resolver.resolve(HOST, ACCOUNT) == (IPv6Address("fe80::1%3"),)
    await resolver.close()


async def test_the_systems_order_of_preference_is_kept(zoned: SystemResolver) -> None:
    assert list(map(str, await zoned.resolve("doubled.test", ACCOUNT))) == [
        "2001:db8::3",
        "192.0.2.3",
        "192.0.2.4",
    ]


async def test_a_lookup_that_hangs_ends_at_its_limit(release: threading.Event) -> None:
    resolver = SystemResolver(0.05, lookup=lambda *_args, **_options: [(release.wait(),)])
    with pytest.raises(HostUnresolved):
        await resolver.resolve(HOST, ACCOUNT)
    await resolver.close()


# Answers that serve for a second


async def test_concurrent_callers_share_a_lookup_and_a_failure_is_not_cached() -> None:
    now_s, inner = [0.0], StaticResolver(())
    cache = DnsCache(inner, lambda: now_s[0])
    outcomes = await asyncio.gather(*(cache.resolve(HOST, ACCOUNT) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(outcome, HostUnresolved) for outcome in outcomes)
    assert inner.lookups == 1
    inner.addresses = (IPv4Address("8.8.8.8"),)
    assert await asyncio.gather(*(cache.resolve(HOST, ACCOUNT) for _ in range(5))) == [inner.addresses] * 5
    assert inner.lookups == 2
    now_s[0] = 1.0
    await cache.resolve("other.test", ACCOUNT)
    assert list(cache._resolved) == ["other.test"]
