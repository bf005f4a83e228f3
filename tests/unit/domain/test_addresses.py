"""The address rule: tables, wrappings, exemptions (spec 4.3 rule 1)."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.addresses import (
    REFUSED_IPV4,
    REFUSED_IPV6,
    Address,
    Network,
    is_allowed,
    is_public_unicast,
    unwrapped,
    vet,
)
from meetcore.domain.errors import Unprocessable

pytestmark = pytest.mark.spec("4.3/1")

PRIVATE = IPv4Address("10.0.0.1")
PUBLIC = IPv4Address("8.8.8.8")
ipv4 = st.integers(0, 2**32 - 1).map(IPv4Address)
ipv6 = st.integers(0, 2**128 - 1).map(IPv6Address)


def wrappings(inner: IPv4Address) -> dict[str, IPv6Address]:
    bits = int(inner)
    a, b = bits >> 16, bits & 0xFFFF
    return {
        "mapped": IPv6Address(f"::ffff:{inner}"),
        "compatible": IPv6Address(f"::{inner}"),
        "translated": IPv6Address(f"::ffff:0:{inner}"),
        "nat64": IPv6Address(f"64:ff9b::{inner}"),
        "nat64 local /48": IPv6Address(f"64:ff9b:1:{a:x}:{b >> 8:x}:{(b & 0xFF) << 8:x}::"),
        "nat64 local /56": IPv6Address(
            int(IPv6Address("64:ff9b:1::")) | bits >> 24 << 64 | (bits & 0xFFFFFF) << 32
        ),
        "nat64 local /64": IPv6Address(int(IPv6Address("64:ff9b:1::")) | bits << 24),
        "nat64 local /96": IPv6Address(f"64:ff9b:1::{inner}"),
        "6to4": IPv6Address(f"2002:{a:x}:{b:x}::1"),
        "teredo server": IPv6Address(f"2001:0:{a:x}:{b:x}:0:0:{0xFFFF & ~0x0808:x}:{0xFFFF & ~0x0808:x}"),
        "teredo client": IPv6Address(f"2001:0:808:808:0:0:{0xFFFF & ~a:x}:{0xFFFF & ~b:x}"),
        "isatap": IPv6Address(f"2606:4700::5efe:{inner}"),
        "isatap universal": IPv6Address(f"2606:4700::200:5efe:{inner}"),
    }


@pytest.mark.parametrize("network", [*REFUSED_IPV4, *REFUSED_IPV6], ids=str)
def test_both_ends_of_every_row_are_refused(network: Network) -> None:
    assert not is_public_unicast(network.network_address)
    assert not is_public_unicast(network.broadcast_address)


@pytest.mark.parametrize("text", [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
    "128.0.0.0", "168.63.129.15", "168.63.129.17", "169.253.255.255", "172.15.255.255", "172.32.0.0",
    "192.0.1.0", "192.167.255.255", "198.17.255.255", "198.20.0.0", "223.255.255.255",
    "2000::1", "2001:200::1", "2606:4700:4700::1111", "2a00:1450::1", "2003::1", "3ffe::1",
])  # fmt: skip
def test_neighbours_of_the_rows_and_well_known_addresses_are_public(text: str) -> None:
    assert is_public_unicast(ip_address(text))


@pytest.mark.parametrize("text", [
    "0.0.0.0", "127.0.0.1", "127.255.255.254", "169.254.169.254", "168.63.129.16", "100.100.100.200",
    "192.0.0.192", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "fd00:ec2::254", "fd20:ce::254", "fe80::1", "febf::1", "fec0::1", "ff02::1", "4000::1",
    "1fff::1", "e000::1", "64:ff9b::808:808", "::ffff:8.8.8.8", "2002:808:808::1", "3fff:fff::1",
])  # fmt: skip
def test_what_must_never_be_dialled_is_refused(text: str) -> None:
    assert not is_public_unicast(ip_address(text))


@pytest.mark.parametrize("text", ["fe80::1%eth0", "2606:4700::1%1"])
def test_a_scope_id_is_refused_even_where_its_network_is_exempt(text: str) -> None:
    assert not is_public_unicast(IPv6Address(text))
    assert not is_allowed(IPv6Address(text), [IPv6Network("::/0")])


@given(ipv4)
def test_every_wrapping_is_looked_through(inner: IPv4Address) -> None:
    for form, address in wrappings(inner).items():
        assert inner in set(unwrapped(address)), form


@pytest.mark.parametrize("form", list(wrappings(PRIVATE)))
def test_a_private_address_is_refused_in_every_form(form: str) -> None:
    assert not is_public_unicast(wrappings(PRIVATE)[form])


def test_isatap_is_judged_by_what_it_carries() -> None:
    assert is_public_unicast(wrappings(PUBLIC)["isatap"])


def test_an_ipv4_address_carries_none() -> None:
    assert list(unwrapped(PUBLIC)) == []


@given(ipv6)
def test_what_is_public_is_global_unicast_and_carries_only_public(address: IPv6Address) -> None:
    if is_public_unicast(address):
        assert address in IPv6Network("2000::/3")
        assert all(map(is_public_unicast, unwrapped(address)))


@given(ipv4)
def test_the_verdict_is_the_table(address: IPv4Address) -> None:
    assert is_public_unicast(address) is not any(address in network for network in REFUSED_IPV4)


@given(st.one_of(ipv4, ipv6), st.booleans())
def test_an_exemption_of_the_address_itself_passes(address: Address, exempt: bool) -> None:
    networks = [ip_network(str(address))] if exempt else []
    assert is_allowed(address, networks) is (exempt or is_public_unicast(address))


@pytest.mark.parametrize("form", list(wrappings(PRIVATE)))
def test_an_exemption_never_reaches_an_address_inside_another(form: str) -> None:
    assert is_allowed(PRIVATE, [IPv4Network("10.0.0.0/8")])
    assert not is_allowed(wrappings(PRIVATE)[form], [IPv4Network("10.0.0.0/8")])


def test_networks_of_the_other_family_exempt_nothing() -> None:
    assert not is_allowed(PRIVATE, [IPv6Network("::/0")])
    assert not is_allowed(IPv6Address("::1"), [IPv4Network("0.0.0.0/0")])


def test_vet_passes_public_and_exempt_addresses() -> None:
    vet([PUBLIC, PRIVATE], iter([IPv4Network("10.0.0.0/8")]))


@pytest.mark.parametrize("addresses", [[], [PRIVATE], [PUBLIC, PRIVATE], [PRIVATE, PUBLIC]])
def test_one_bad_address_refuses_the_host_and_none_is_named(addresses: list[Address]) -> None:
    with pytest.raises(Unprocessable) as refusal:
        vet(addresses, [])
    assert str(PRIVATE) not in refusal.value.message + str(refusal.value.details)
    assert list(refusal.value.details["fields"]) == ["url"]  # type: ignore[call-overload]
