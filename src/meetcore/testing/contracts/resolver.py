"""What every resolver is held against: the names of one small zone, given by the suite.

Asks no real name server: the adapter's author lets `ZONE` answer, by whatever stands for the
servers in the technology at hand.
"""

import asyncio
from collections.abc import Mapping
from ipaddress import ip_address
from types import MappingProxyType
from uuid import UUID

import pytest

from meetcore.domain.errors import HostUnresolved
from meetcore.ports.resolver import Resolver

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
    "missing.test",
    "sub.one.test",
    "test",
    "localhost.missing.test",
    "xn--.missing.test",
    ("a" * 63 + ".") * 3 + "missing.test",
)
_ACCOUNT = UUID(int=1)
_LIMIT_S = 3.0
_SLACK_S = 5.0  # a loaded machine is no defect of the adapter


@pytest.mark.asyncio
class ResolverContract:
    """The suite for one `Resolver`. Give it the fixture `resolver`::

        class TestMyResolver(ResolverContract):
            @pytest.fixture
            async def resolver(self, my_name_server: NameServer) -> AsyncIterator[Resolver]:
                my_name_server.serve(ZONE, silent={HANGING})
                resolver = MyResolver(my_name_server.address, timeout_s=0.1)
                yield resolver
                await resolver.close()

    It finds the names of `ZONE` and no others, and waits for an answer about `HANGING` in vain. The port's
    limit is 3 s; a shorter one makes the suite quick.
    """

    @pytest.mark.parametrize("host", [host for host, records in ZONE.items() if records])
    async def test_a_name_has_all_its_addresses_once(self, resolver: Resolver, host: str) -> None:
        found = await resolver.resolve(host, _ACCOUNT)
        assert set(found) == {ip_address(record) for record in ZONE[host]}
        assert len(found) == len(set(found))

    async def test_a_name_without_an_address_is_unresolved(self, resolver: Resolver) -> None:
        assert await _outcome(resolver, "empty.test") is None

    @pytest.mark.parametrize("host", _MISSING)
    async def test_a_name_that_is_not_there_is_unresolved(self, resolver: Resolver, host: str) -> None:
        assert await _outcome(resolver, host) is None

    async def test_waiting_for_an_answer_has_its_limit(self, resolver: Resolver) -> None:
        try:
            async with asyncio.timeout(_LIMIT_S + _SLACK_S):
                assert await _outcome(resolver, HANGING) is None
        except TimeoutError:
            raise AssertionError("the lookup was still waiting long after its limit") from None

    async def test_names_resolved_at_once_do_not_mix(self, resolver: Resolver) -> None:
        hosts = [*ZONE, "missing.test"] * 10
        found = await asyncio.gather(*(_outcome(resolver, host) for host in hosts))
        for host, addresses in zip(hosts, found, strict=True):
            assert (addresses or set()) == {str(ip_address(record)) for record in ZONE.get(host, ())}

    async def test_a_name_that_hangs_holds_up_no_other(self, resolver: Resolver) -> None:
        hanging = [asyncio.create_task(_outcome(resolver, HANGING)) for _ in range(8)]
        await asyncio.sleep(0)  # they are asked first
        # Waiting for its turn behind those, it would run out of time as they do.
        assert await _outcome(resolver, "one.test") == {"192.0.2.1"}
        assert await asyncio.gather(*hanging) == [None] * 8

    async def test_a_cancelled_call_cancels_no_other(self, resolver: Resolver) -> None:
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
