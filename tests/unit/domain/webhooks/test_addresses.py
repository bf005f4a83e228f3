"""The address rule: tables, wrappings, exemptions (rule 4.3/1)."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.errors import Unprocessable
from meetcore.domain.webhooks.addresses import (
    REFUSED_IPV4,
    REFUSED_IPV6,
    Address,
    Network,
    is_allowed,
    is_public_unicast,
    unwrapped,
    vet,
)
from meetcore.testing.strategies.addresses import (
    IANA_IPV4,
    IANA_IPV6,
    WRAPPINGS,
    fillings,
    public_addresses,
    public_ipv4,
    special_purpose_addresses,
    special_purpose_ipv4,
    wrapped,
)

pytestmark = pytest.mark.spec("4.3/1")

PRIVATE = IPv4Address("10.0.0.1")
PUBLIC = IPv4Address("8.8.8.8")
ipv4 = st.integers(0, 2**32 - 1).map(IPv4Address)
ipv6 = st.integers(0, 2**128 - 1).map(IPv6Address)


def test_every_row_of_the_iana_registries_is_a_row_of_the_tables() -> None:
    assert set(IANA_IPV4) <= set(REFUSED_IPV4)
    assert set(IANA_IPV6) <= set(REFUSED_IPV6)


@given(special_purpose_addresses())
def test_everything_in_the_iana_special_purpose_registries_is_refused(address: Address) -> None:
    assert not is_public_unicast(address)
    assert not is_allowed(address, [])


@given(special_purpose_ipv4().flatmap(wrapped))
def test_it_stays_refused_inside_every_ipv6_form_that_embeds_an_ipv4_address(address: IPv6Address) -> None:
    assert not is_public_unicast(address)


@pytest.mark.parametrize("form", WRAPPINGS)
def test_both_ends_of_every_row_stay_refused_in_every_form(form: str) -> None:
    for network in REFUSED_IPV4:
        for inner in (network.network_address, network.broadcast_address):
            assert not is_public_unicast(WRAPPINGS[form](inner, 0)), network


@given(public_addresses())
def test_a_public_address_passes(address: Address) -> None:
    assert is_public_unicast(address)
    vet([address], [])


@given(public_addresses() | ipv4 | ipv6)
def test_accepted_addresses_are_global_to_the_standard_library_too(address: Address) -> None:
    """Its verdict is not enough by itself, but nothing that it calls private gets through ours."""
    if is_public_unicast(address):
        assert address.is_global
        assert not any((address.is_multicast, address.is_reserved, address.is_link_local))


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
    "0.0.0.0", "127.0.0.1", "127.255.255.254", "169.254.169.254", "100.100.100.200",
    "161.26.0.10", "161.26.255.255", "166.8.0.1", "166.11.255.254", "168.63.129.16",
    "192.0.0.192", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "fd00:ec2::254", "fd20:ce::254", "fe80::1", "febf::1", "fec0::1", "ff02::1", "4000::1",
    "1fff::1", "e000::1", "64:ff9b::808:808", "::ffff:8.8.8.8", "2002:808:808::1", "3fff:fff::1",
])  # fmt: skip
def test_addresses_that_must_never_be_contacted_are_refused(text: str) -> None:
    assert not is_public_unicast(ip_address(text))


@pytest.mark.parametrize("text", ["fe80::1%eth0", "2606:4700::1%1"])
def test_a_scope_id_is_refused_even_where_its_network_is_exempt(text: str) -> None:
    assert not is_public_unicast(IPv6Address(text))
    assert not is_allowed(IPv6Address(text), [IPv6Network("::/0")])


@pytest.mark.parametrize("form", WRAPPINGS)
@given(ipv4, fillings())
def test_every_embedded_address_is_checked(form: str, inner: IPv4Address, free: int) -> None:
    assert inner in set(unwrapped(WRAPPINGS[form](inner, free)))


@given(public_ipv4(), fillings())
def test_isatap_is_judged_by_its_embedded_address(inner: IPv4Address, free: int) -> None:
    """The other forms are refused whatever they carry: their prefixes are special themselves."""
    for form, wrap in WRAPPINGS.items():
        assert is_public_unicast(wrap(inner, free)) is form.startswith("ISATAP")


@pytest.mark.parametrize(("text", "carried"), [
    ("::ffff:1.2.3.4", ["1.2.3.4"]),
    ("::1.2.3.4", ["1.2.3.4"]),
    ("::ffff:0:1.2.3.4", ["1.2.3.4"]),
    ("64:ff9b::1.2.3.4", ["1.2.3.4"]),
    # RFC 6052, 2.4, with the prefix of RFC 8215 in place of the documentation prefix.
    ("64:ff9b:1:102:3:400::", ["1.2.3.4", "2.3.4.0", "3.4.0.0", "0.0.0.0"]),
    ("64:ff9b:1:aa01:2:304::", ["170.1.2.3", "1.2.3.4", "2.3.4.0", "0.0.0.0"]),
    ("64:ff9b:1:aabb:1:203:400:0", ["170.187.1.2", "187.1.2.3", "1.2.3.4", "4.0.0.0"]),
    ("64:ff9b:1:aabb:cc:dd00:1.2.3.4", ["170.187.204.221", "187.204.221.0", "204.221.0.1", "1.2.3.4"]),
    # An octet that RFC 6052 wants to be zero and is not carries nothing.
    ("64:ff9b:1:aa02:ff02:304::", ["170.2.2.3", "2.2.3.4", "2.3.4.0", "0.0.0.0"]),
    ("2002:102:304::", ["1.2.3.4"]),
    ("2001:0:102:304:0:0:fefd:fcfb", ["1.2.3.4", "1.2.3.4"]),
    ("2a00::5efe:1.2.3.4", ["1.2.3.4"]),
    ("2a00::200:5efe:1.2.3.4", ["1.2.3.4"]),
    ("2a00::100:5efe:1.2.3.4", ["1.2.3.4"]),
    ("2a00::400:5efe:1.2.3.4", []),
    ("2a00::1.2.3.4", []),
])  # fmt: skip
def test_embedded_ipv4_addresses_are_found(text: str, carried: list[str]) -> None:
    assert list(map(str, unwrapped(IPv6Address(text)))) == carried


def test_an_ipv4_address_embeds_none() -> None:
    assert list(unwrapped(PUBLIC)) == []


@given(ipv6)
def test_public_addresses_are_global_unicast_and_embed_only_public_ones(address: IPv6Address) -> None:
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


@given(special_purpose_ipv4(), fillings())
def test_an_exemption_never_reaches_an_address_inside_another(inner: IPv4Address, free: int) -> None:
    exempt = [ip_network(str(inner)), IPv4Network("0.0.0.0/0")]
    assert is_allowed(inner, exempt)
    for wrap in WRAPPINGS.values():
        assert not is_allowed(wrap(inner, free), exempt)


@pytest.mark.spec("4.3/1")
@given(public_addresses())
def test_a_denied_address_is_refused_even_where_it_is_exempt(address: Address) -> None:
    itself = [ip_network(str(address))]
    assert is_allowed(address, [])
    assert not is_allowed(address, itself, itself)
    with pytest.raises(Unprocessable):
        vet([PUBLIC, address], itself, iter(itself))


@given(public_ipv4(), fillings())
def test_a_denied_address_is_refused_inside_another(inner: IPv4Address, free: int) -> None:
    for wrap in WRAPPINGS.values():
        outer = wrap(inner, free)
        assert not is_allowed(outer, [ip_network(str(outer))], [ip_network(str(inner))])


def test_networks_of_the_other_family_exempt_nothing() -> None:
    assert not is_allowed(PRIVATE, [IPv6Network("::/0")])
    assert not is_allowed(IPv6Address("::1"), [IPv4Network("0.0.0.0/0")])


def test_vet_passes_public_and_exempt_addresses() -> None:
    vet([PUBLIC, PRIVATE], iter([IPv4Network("10.0.0.0/8")]))


@pytest.mark.parametrize("addresses", [[], [PRIVATE], [PUBLIC, PRIVATE], [PRIVATE, PUBLIC]])
def test_one_refused_address_refuses_the_host_and_the_message_names_none(addresses: list[Address]) -> None:
    with pytest.raises(Unprocessable) as refusal:
        vet(addresses, [])
    problem = "must have a host that is, or resolves to, public unicast addresses only"
    assert refusal.value.message == f"`url` {problem}."
    assert refusal.value.details == {"fields": {"url": [problem]}}
