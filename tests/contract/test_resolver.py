"""The suite of the resolvers on every adapter, and what is each one's own."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from types import MappingProxyType
from uuid import UUID

import pytest

from meetcore.adapters.webhook_sender import SystemResolver
from meetcore.adapters.webhook_sender import resolver as resolver_module
from meetcore.adapters.webhook_sender.resolver import DnsCache
from meetcore.domain.errors import HostUnresolved
from meetcore.ports.webhook_sender import Resolver, ResolverUnavailable
from meetcore.testing.contracts.webhook_setting import StaticResolver
from tests.support.api_harness import until

ZONE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "one.test": ("192.0.2.1",),
        "two.test": ("192.0.2.2", "2001:db8::2"),
        "doubled.test": ("2001:db8::3", "192.0.2.3", "192.0.2.3", "2001:db8::3", "192.0.2.4"),
        "private.test": ("127.0.0.1", "10.0.0.1", "::1"),
        "xn--bcher-kva.test": ("192.0.2.5",),
        "empty.test": (),
    }
)
"""Each name with its records, as they come: doubles included, and a name that has none."""

HANGING = "hanging.test"
"""A name about which no answer ever comes."""

_MISSING = (
    "missing.test", "sub.one.test", "test", "localhost.missing.test", "xn--.missing.test",
    ("a" * 63 + ".") * 3 + "missing.test",
)  # fmt: skip
_ACCOUNT = UUID(int=1)
_LIMIT_S = 3.0
_SLACK_S = 5.0  # a loaded machine is no defect of the adapter


@pytest.fixture(params=["system", "cache"])
async def resolver(request: pytest.FixtureRequest, zoned: SystemResolver) -> AsyncIterator[Resolver]:
    if request.param == "system":
        yield zoned
    else:
        cache = DnsCache(zoned, lambda: 0.0)
        yield cache
        await cache.close()


@pytest.mark.parametrize("host", _MISSING)
async def test_a_name_that_is_not_there_is_unresolved(resolver: Resolver, host: str) -> None:
    assert await _outcome(resolver, host) is None


@pytest.mark.parametrize("limit_s", [0.5])
async def test_waiting_for_an_answer_has_its_limit(resolver: Resolver, limit_s: float) -> None:
    try:
        async with asyncio.timeout(_LIMIT_S + _SLACK_S):
            assert await _outcome(resolver, HANGING) is None
    except TimeoutError:
        raise AssertionError("the lookup was still waiting long after its limit") from None


async def test_names_resolved_at_once_do_not_mix(resolver: Resolver) -> None:
    hosts = [*ZONE, "missing.test"] * 10
    found = await asyncio.gather(*(_outcome(resolver, host) for host in hosts))
    for host, addresses in zip(hosts, found, strict=True):
        assert (addresses or set()) == {str(ip_address(record)) for record in ZONE.get(host, ())}


async def test_a_name_that_hangs_holds_up_no_other(resolver: Resolver, release: threading.Event) -> None:
    hanging = [asyncio.create_task(_outcome(resolver, HANGING)) for _ in range(8)]
    await asyncio.sleep(0)  # they are asked first
    # Waiting for its turn behind those, it would run out of time as they do.
    assert await _outcome(resolver, "one.test") == {"192.0.2.1"}
    assert not any(lookup.done() for lookup in hanging)
    release.set()
    assert await asyncio.gather(*hanging) == [None] * 8


async def test_a_cancelled_call_cancels_no_other(resolver: Resolver) -> None:
    lookups = [asyncio.create_task(_outcome(resolver, "one.test")) for _ in range(5)]
    await asyncio.sleep(0)
    lookups[0].cancel()
    _, *others = await asyncio.gather(*lookups, return_exceptions=True)
    assert others == [{"192.0.2.1"}] * 4


async def _outcome(resolver: Resolver, host: str) -> set[str] | None:
    """Return the addresses as text, or `None` for the one error that the port knows."""
    try:
        found = await resolver.resolve(host, _ACCOUNT)
    except HostUnresolved:
        return None
    assert found, "a resolver raises HostUnresolved where there is no address"
    return {str(address) for address in found}


HOST = "hooks.test"
ACCOUNT, ANOTHER = UUID(int=1), UUID(int=2)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What a lookup that hangs waits for: opened at the end, so that no thread is left."""
    opened = threading.Event()
    yield opened
    opened.set()


@pytest.fixture
def limit_s() -> float:
    """The time limit of a look-up."""
    return 30.0


@pytest.fixture
async def zoned(release: threading.Event, limit_s: float) -> AsyncIterator[SystemResolver]:
    """The system's resolver on a system that knows the zone of the suite."""

    def lookup(host: bytes, *_args: object, **_options: object) -> list[tuple[object, ...]]:
        name = host.decode()
        if name == HANGING:
            release.wait()
        if name not in ZONE:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [(socket.AF_UNSPEC, socket.SOCK_STREAM, 6, "", (record, 0)) for record in ZONE[name]]

    resolver = SystemResolver(limit_s, lookup=lookup)
    yield resolver
    await resolver.close()


# The system's


UNKNOWN = b"meetcore.invalid."


class NameServer:
    """A system whose look-ups of names in `silent` have no answer; those it does answer have no address."""

    def __init__(self, *silent: bytes, fault: Exception | None = None) -> None:
        self.asked: list[bytes] = []
        self.silent = set(silent)
        self.fault = fault or socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    def lookup(self, host: bytes, *_: object, **__: object) -> list[tuple[object, ...]]:
        self.asked.append(host)
        raise self.fault if host in self.silent else socket.gaierror(socket.EAI_NONAME, "")


@contextlib.asynccontextmanager
async def resolving_by(server: NameServer) -> AsyncIterator[SystemResolver]:
    resolver = SystemResolver(30.0, lookup=server.lookup)
    yield resolver
    await resolver.close()


@pytest.mark.parametrize("fault", [
    socket.gaierror(socket.EAI_AGAIN, ""), socket.gaierror(socket.EAI_SYSTEM, ""),
    socket.gaierror(socket.EAI_FAIL, ""), TimeoutError(),
])  # fmt: skip
async def test_a_resolver_that_answers_about_no_name_is_away(
    fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver_module, "_VERDICT_S", 60.0)
    server = NameServer(b"one.test", b"two.test", UNKNOWN, fault=fault)
    async with resolving_by(server) as resolver:
        for host in ("one.test", "two.test"):
            with pytest.raises(ResolverUnavailable):
                await resolver.resolve(host, ACCOUNT)
        assert server.asked == [b"one.test", UNKNOWN, b"two.test"], "the verdict holds for a moment"
        server.silent.clear()
        with pytest.raises(HostUnresolved) as refusal:
            await resolver.resolve("one.test", ACCOUNT)
    assert not isinstance(refusal.value, ResolverUnavailable)


async def test_a_name_without_an_answer_is_its_owners_fault_where_another_has_one() -> None:
    server = NameServer(b"one.test")
    async with resolving_by(server) as resolver:
        with pytest.raises(HostUnresolved) as refusal:
            await resolver.resolve("one.test", ACCOUNT)
    assert not isinstance(refusal.value, ResolverUnavailable)
    assert server.asked == [b"one.test", UNKNOWN]


async def test_a_resolver_that_hangs_is_away_and_is_asked_by_one_thread(
    release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    def lookup(host: bytes, *_: object, **__: object) -> list[tuple[object, ...]]:
        asked.append(host)
        release.wait()
        raise socket.gaierror(socket.EAI_AGAIN, "")

    resolver = SystemResolver(0.05, threads=4, lookup=lookup)
    hosts = [f"{name}.test" for name in "abcd"]
    found = await asyncio.gather(
        *(resolver.resolve(host, UUID(int=n)) for n, host in enumerate(hosts)), return_exceptions=True
    )
    assert [type(fault) for fault in found] == [ResolverUnavailable] * 4
    monkeypatch.setattr(resolver_module, "_VERDICT_S", 0.0)  # not held any more; its look-up has not ended
    with pytest.raises(ResolverUnavailable):
        await resolver.resolve("a.test", ACCOUNT)
    await until(lambda: len(asked) >= 5)
    assert sorted(asked) == sorted([*(host.encode() for host in hosts), UNKNOWN])
    release.set()
    await resolver.close()


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


@pytest.mark.parametrize(("number", "is_resolved"), [(64, True), (65, False)])
async def test_a_name_with_too_many_addresses_does_not_resolve(number: int, is_resolved: bool) -> None:
    stream = socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, ""
    found = [(*stream, (f"203.0.113.{last}", 0)) for last in range(number)]
    resolver = SystemResolver(lookup=lambda *_args, **_options: found)
    assert (await _outcome(resolver, HOST) is not None) == is_resolved
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
