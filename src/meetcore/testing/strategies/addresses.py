"""Network addresses: public ones, those of the IANA special-purpose registries, and IPv4 wrapped in IPv6.

The registries are transcribed apart from `meetcore.domain.webhooks.addresses`, so that the two can be
compared.
"""

from collections.abc import Callable, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, collapse_addresses
from types import MappingProxyType
from typing import TypeAlias

from hypothesis import strategies as st

from meetcore.domain.webhooks.addresses import Address

__all__ = [
    "IANA_IPV4", "IANA_IPV6", "WRAPPINGS", "fillings", "public_addresses", "public_ipv4", "public_ipv6",
    "special_purpose_addresses", "special_purpose_ipv4", "wrapped",
]  # fmt: skip

Wrapping: TypeAlias = Callable[[IPv4Address, int], IPv6Address]

IANA_IPV4: tuple[IPv4Network, ...] = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8", "0.0.0.0/32", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32", "192.0.0.10/32",
        "192.0.0.170/32", "192.0.0.171/32", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24",
        "192.88.99.0/24", "192.88.99.2/32", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15",
        "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "255.255.255.255/32",
    )
)  # fmt: skip
"""The rows of the IANA IPv4 Special-Purpose Address Registry (as of 2025-10)."""

IANA_IPV6: tuple[IPv6Network, ...] = tuple(
    IPv6Network(text)
    for text in (
        "::1/128", "::/128", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64",
        "100:0:0:1::/64", "2001::/23", "2001::/32", "2001:1::1/128", "2001:1::2/128", "2001:1::3/128",
        "2001:2::/48", "2001:3::/32", "2001:4:112::/48", "2001:10::/28", "2001:20::/28", "2001:30::/28",
        "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7",
        "fe80::/10",
    )
)  # fmt: skip
"""The rows of the IANA IPv6 Special-Purpose Address Registry (as of 2025-10)."""

# Not public although not in the registry: multicast, and private services of clouds.
_FURTHER_IPV4 = tuple(map(IPv4Network, ("224.0.0.0/4", "161.26.0.0/16", "166.8.0.0/14", "168.63.129.16/32")))
_REGIONAL_IPV6 = tuple(  # allocated by IANA to the regional registries
    map(IPv6Network, ("2400::/12", "2600::/12", "2610::/23", "2800::/12", "2a00::/11", "2c00::/12"))
)
_32_BITS = 0xFFFF_FFFF
_ISATAP = 0xFCFF_FFFF << 32, 0x0000_5EFE << 32


def _between(first: int, last: int) -> st.SearchStrategy[int]:
    return st.sampled_from((first, last)) | st.integers(first, last)


def _within(network: IPv4Network | IPv6Network) -> st.SearchStrategy[int]:
    return _between(int(network.network_address), int(network.broadcast_address))


def special_purpose_ipv4() -> st.SearchStrategy[IPv4Address]:
    """Draw an address of a row of the IPv4 registry; small rows are as frequent as large ones."""
    return st.sampled_from(IANA_IPV4).flatmap(_within).map(IPv4Address)


def special_purpose_addresses() -> st.SearchStrategy[Address]:
    """Draw an address of a row of either registry, to which no webhook may be sent."""
    return special_purpose_ipv4() | st.sampled_from(IANA_IPV6).flatmap(_within).map(IPv6Address)


def _gaps() -> Iterator[tuple[int, int]]:
    first = 0
    for network in collapse_addresses((*IANA_IPV4, *_FURTHER_IPV4)):
        if first < int(network.network_address):
            yield first, int(network.network_address) - 1
        first = int(network.broadcast_address) + 1


def public_ipv4() -> st.SearchStrategy[IPv4Address]:
    """Draw an address of a host on the public internet; the neighbours of special ranges are frequent."""
    return st.one_of(*(_between(first, last) for first, last in _gaps())).map(IPv4Address)


def public_ipv6() -> st.SearchStrategy[IPv6Address]:
    """Draw an address that a regional registry allocates, without an IPv4 address in it."""
    return st.sampled_from(_REGIONAL_IPV6).flatmap(_within).map(IPv6Address).filter(_is_plain)


def public_addresses() -> st.SearchStrategy[Address]:
    """Draw an address of a host on the public internet, of either family."""
    return public_ipv4() | public_ipv6()


def _is_plain(address: IPv6Address) -> bool:
    mask, mark = _ISATAP
    return int(address) & mask != mark and not any(address in network for network in IANA_IPV6)


def _at(network: str, shift: int, *, inverted: bool = False, marked: tuple[int, int] = (0, 0)) -> Wrapping:
    """Carry the address in 32 contiguous bits, `shift` bits from the right; free bits fill the rest."""
    prefix = IPv6Network(network)
    mask, mark = marked
    taken = int(prefix.netmask) | mask | _32_BITS << shift

    def wrap(inner: IPv4Address, free: int) -> IPv6Address:
        bits = int(inner) ^ (_32_BITS if inverted else 0)
        return IPv6Address(int(prefix.network_address) | mark | bits << shift | free & ~taken)

    return wrap


def _nat64(length: int) -> Wrapping:
    """Carry the address behind a prefix of this length, around the octet that RFC 6052 sets to zero.

    Free bits fill that octet too: a forged address need not follow the RFC.
    """
    prefix = int(IPv6Address("64:ff9b:1::"))
    after = length - 32  # the bits of the address to the right of the octet
    open_bits = ((1 << length - 48) - 1) << 128 - length | 0xFF << 56 | (1 << 56 - after) - 1

    def wrap(inner: IPv4Address, free: int) -> IPv6Address:
        bits = int(inner)
        placed = bits >> after << 64 | (bits & (1 << after) - 1) << 56 - after
        return IPv6Address(prefix | placed | free & open_bits)

    return wrap


WRAPPINGS: Mapping[str, Wrapping] = MappingProxyType(
    {
        "IPv4-mapped (RFC 4291)": _at("::ffff:0:0/96", 0),
        "IPv4-compatible (RFC 4291)": _at("::/96", 0),
        "IPv4-translated, SIIT (RFC 2765)": _at("::ffff:0:0:0/96", 0),
        "NAT64, well known (RFC 6052)": _at("64:ff9b::/96", 0),
        "NAT64, local use at /48 (RFC 8215)": _nat64(48),
        "NAT64, local use at /56 (RFC 8215)": _nat64(56),
        "NAT64, local use at /64 (RFC 8215)": _nat64(64),
        "NAT64, local use at /96 (RFC 8215)": _at("64:ff9b:1::/48", 0),
        "6to4 (RFC 3056)": _at("2002::/16", 80),
        "Teredo, the server (RFC 4380)": _at("2001::/32", 64),
        "Teredo, the client (RFC 4380)": _at("2001::/32", 0, inverted=True),
        "ISATAP (RFC 5214)": _at("2a00::/12", 0, marked=_ISATAP),
    }
)
"""The forms in which an IPv6 address carries an IPv4 one: `wrap(inner, free)`; `free` fills the rest."""


def fillings() -> st.SearchStrategy[int]:
    """Draw 128 bits for the rest of a form: no bit, every bit, or any."""
    any_bits = st.binary(min_size=16, max_size=16).map(lambda bits: int.from_bytes(bits, "big"))
    return st.sampled_from((0, 2**128 - 1)) | any_bits


def wrapped(inner: IPv4Address) -> st.SearchStrategy[IPv6Address]:
    """Draw an IPv6 address that carries this IPv4 address, in any form with any filling."""
    forms = st.sampled_from(tuple(WRAPPINGS.values()))
    return st.builds(lambda wrap, free: wrap(inner, free), forms, fillings())
