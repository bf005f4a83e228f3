"""Decide which network addresses a webhook may be sent to (rule 4.3/1).

Owns the address rule: the IANA special-purpose registries written out, the forms in which an IPv4 address
hides inside an IPv6 one, and the operator's exemptions. It resolves no names and does not connect: a resolver
supplies the addresses and the sender applies the verdict, at registration and again before every delivery.

The rule, in order:

1. An address that lies in a network the operator denied is refused, and so is one that carries such an
   address.
2. An address as written that lies in a network the operator allowed passes.
3. IPv6 passes only inside 2000::/3, IPv4 anywhere, both less the tables below. A row is refused even
   where the registry calls it globally reachable (AS112 sinks, anycast relays): no customer receives
   webhooks there.
4. An IPv6 address that carries an IPv4 address passes only if each address it carries passes too.
   The exemption of step 2 never reaches an address that was carried in another.

`ipaddress.is_global` is not used: its verdict on multicast, NAT64 and 6to4 differs between Python
versions. A NAT64 prefix that a network chose for itself (RFC 6052, network-specific) looks like any
other address and cannot be seen here; only 64:ff9b::/96 and 64:ff9b:1::/48 are recognisable.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from types import MappingProxyType
from typing import TypeAlias

from meetcore.domain.errors import Unprocessable

__all__ = [
    "Address", "Network", "is_allowed", "is_public_unicast", "unwrapped", "vet",
]  # fmt: skip

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# IANA IPv4 Special-Purpose Address Registry, whole, and what is beside it: multicast, which has a
# registry of its own, and the private services of clouds that lie in public space. Rows inside another row
# are kept so that the table can be laid beside the registry.
REFUSED_IPV4 = MappingProxyType(
    {
        IPv4Network("0.0.0.0/8"): "this network (RFC 791)",
        IPv4Network("0.0.0.0/32"): "this host on this network (RFC 1122)",
        IPv4Network("10.0.0.0/8"): "private use (RFC 1918)",
        IPv4Network("100.64.0.0/10"): "shared address space (RFC 6598)",
        IPv4Network("127.0.0.0/8"): "loopback (RFC 1122)",
        IPv4Network("169.254.0.0/16"): "link local, cloud metadata (RFC 3927)",
        IPv4Network("172.16.0.0/12"): "private use (RFC 1918)",
        IPv4Network("192.0.0.0/24"): "IETF protocol assignments (RFC 6890)",
        IPv4Network("192.0.0.0/29"): "IPv4 service continuity prefix (RFC 7335)",
        IPv4Network("192.0.0.8/32"): "IPv4 dummy address (RFC 7600)",
        IPv4Network("192.0.0.9/32"): "port control protocol anycast (RFC 7723)",
        IPv4Network("192.0.0.10/32"): "TURN anycast (RFC 8155)",
        IPv4Network("192.0.0.170/32"): "NAT64/DNS64 discovery (RFC 8880)",
        IPv4Network("192.0.0.171/32"): "NAT64/DNS64 discovery (RFC 8880)",
        IPv4Network("192.0.2.0/24"): "documentation, TEST-NET-1 (RFC 5737)",
        IPv4Network("192.31.196.0/24"): "AS112-v4 (RFC 7535)",
        IPv4Network("192.52.193.0/24"): "AMT (RFC 7450)",
        IPv4Network("192.88.99.0/24"): "deprecated 6to4 relay anycast (RFC 7526)",
        IPv4Network("192.88.99.2/32"): "6a44 relay anycast (RFC 6751)",
        IPv4Network("192.168.0.0/16"): "private use (RFC 1918)",
        IPv4Network("192.175.48.0/24"): "direct delegation AS112 service (RFC 7534)",
        IPv4Network("198.18.0.0/15"): "benchmarking (RFC 2544)",
        IPv4Network("198.51.100.0/24"): "documentation, TEST-NET-2 (RFC 5737)",
        IPv4Network("203.0.113.0/24"): "documentation, TEST-NET-3 (RFC 5737)",
        IPv4Network("224.0.0.0/4"): "multicast (RFC 5771)",
        IPv4Network("240.0.0.0/4"): "reserved (RFC 1112)",
        IPv4Network("255.255.255.255/32"): "limited broadcast (RFC 919)",
        # Reachable from inside the cloud only, although no registry says so. Sources: Azure's documentation
        # of 168.63.129.16 (DHCP, DNS, health probes, the guest agent); IBM Cloud's list of its private
        # service network (DNS, object storage, key and service endpoints).
        IPv4Network("161.26.0.0/16"): "IBM Cloud private services, in public space",
        IPv4Network("166.8.0.0/14"): "IBM Cloud private service endpoints, in public space",
        IPv4Network("168.63.129.16/32"): "Azure platform address, in public space",
    }
)

# IANA IPv6 Special-Purpose Address Registry, whole, with multicast and the retired site-local range.
# Most rows lie outside 2000::/3 and would be refused without being named.
REFUSED_IPV6 = MappingProxyType(
    {
        IPv6Network("::1/128"): "loopback (RFC 4291)",
        IPv6Network("::/128"): "unspecified (RFC 4291)",
        IPv6Network("::/96"): "IPv4-compatible, deprecated (RFC 4291)",
        IPv6Network("::ffff:0:0/96"): "IPv4-mapped (RFC 4291)",
        IPv6Network("::ffff:0:0:0/96"): "IPv4-translated, SIIT (RFC 2765)",
        IPv6Network("64:ff9b::/96"): "IPv4-IPv6 translation, NAT64 (RFC 6052)",
        IPv6Network("64:ff9b:1::/48"): "IPv4-IPv6 translation, local use (RFC 8215)",
        IPv6Network("100::/64"): "discard only (RFC 6666)",
        IPv6Network("100:0:0:1::/64"): "dummy prefix (RFC 9780)",
        IPv6Network("2001::/23"): "IETF protocol assignments (RFC 2928)",
        IPv6Network("2001::/32"): "Teredo (RFC 4380)",
        IPv6Network("2001:1::1/128"): "port control protocol anycast (RFC 7723)",
        IPv6Network("2001:1::2/128"): "TURN anycast (RFC 8155)",
        IPv6Network("2001:1::3/128"): "DNS-SD registration anycast (RFC 9665)",
        IPv6Network("2001:2::/48"): "benchmarking (RFC 5180)",
        IPv6Network("2001:3::/32"): "AMT (RFC 7450)",
        IPv6Network("2001:4:112::/48"): "AS112-v6 (RFC 7535)",
        IPv6Network("2001:10::/28"): "ORCHID, deprecated (RFC 4843)",
        IPv6Network("2001:20::/28"): "ORCHIDv2 (RFC 7343)",
        IPv6Network("2001:30::/28"): "drone remote ID (RFC 9374)",
        IPv6Network("2001:db8::/32"): "documentation (RFC 3849)",
        IPv6Network("2002::/16"): "6to4 (RFC 3056)",
        IPv6Network("2620:4f:8000::/48"): "direct delegation AS112 service (RFC 7534)",
        IPv6Network("3fff::/20"): "documentation (RFC 9637)",
        IPv6Network("5f00::/16"): "segment routing SIDs (RFC 9602)",
        IPv6Network("fc00::/7"): "unique local, cloud metadata (RFC 4193)",
        IPv6Network("fe80::/10"): "link local (RFC 4291)",
        IPv6Network("fec0::/10"): "site local, deprecated (RFC 3879)",
        IPv6Network("ff00::/8"): "multicast (RFC 4291)",
    }
)


# Every post is vetted, and whole-number masks are some ten times faster than `address in network`.
_REFUSED_IPV4_ROWS = tuple((int(row.netmask), int(row.network_address)) for row in REFUSED_IPV4)
_REFUSED_IPV6_ROWS = tuple((int(row.netmask), int(row.network_address)) for row in REFUSED_IPV6)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_LOW_32_BITS_EMBED = tuple(
    (int(row.netmask), int(row.network_address))
    for row in map(IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
)
_NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")
_TEREDO = IPv6Network("2001::/32")
_6TO4 = IPv6Network("2002::/16")

# ISATAP (RFC 5214): the upper half of the interface identifier is 0000:5efe; the universal/local and
# group bits may be set.
_ISATAP_MASK = 0xFCFF_FFFF
_ISATAP_MARK = 0x0000_5EFE
_32_BITS = 0xFFFF_FFFF


def is_public_unicast(address: Address) -> bool:
    """Return whether packets go to one host on the public internet; not with a scope id (`fe80::1%eth0`)."""
    if isinstance(address, IPv4Address):
        return not _is_in(address, _REFUSED_IPV4_ROWS)
    if address.scope_id is not None or address not in _GLOBAL_UNICAST:
        return False
    if _is_in(address, _REFUSED_IPV6_ROWS):
        return False
    return all(is_public_unicast(inner) for inner in unwrapped(address))


def _is_in(address: Address, rows: tuple[tuple[int, int], ...]) -> bool:
    bits = int(address)
    return any(bits & mask == network for mask, network in rows)


def unwrapped(address: Address) -> Iterator[IPv4Address]:
    """Yield every IPv4 address that this one may carry, by each form that it fits.

    IPv4-mapped, -compatible and -translated, NAT64 (well known, and local use at each prefix length of RFC
    6052), 6to4, Teredo (server and client) and ISATAP. An IPv4 address embeds none.
    """
    if isinstance(address, IPv4Address):
        return
    bits = int(address)
    if _is_in(address, _LOW_32_BITS_EMBED):
        yield IPv4Address(bits & _32_BITS)
    if address in _NAT64_LOCAL:
        yield from _nat64_local(bits)
    if address in _6TO4:
        yield IPv4Address(bits >> 80 & _32_BITS)
    if address in _TEREDO:
        yield IPv4Address(bits >> 64 & _32_BITS)
        yield IPv4Address(~bits & _32_BITS)
    if bits >> 32 & _ISATAP_MASK == _ISATAP_MARK:
        yield IPv4Address(bits & _32_BITS)


def _nat64_local(bits: int) -> Iterator[IPv4Address]:
    # RFC 6052 section 2.2: the address starts after the prefix and leaves out bits 64 to 71. The
    # prefix length in use cannot be known from outside, so each is tried.
    without_u = bits >> 64 << 56 | bits & (1 << 56) - 1
    for prefix_length in (48, 56, 64):
        yield IPv4Address(without_u >> 120 - prefix_length - 32 & _32_BITS)
    yield IPv4Address(bits & _32_BITS)


def is_allowed(
    address: Address, allowed_networks: Iterable[Network], denied_networks: Iterable[Network] = ()
) -> bool:
    """Return whether a webhook may be sent to this address (rule 4.3/1).

    The operator's exemptions are for the address in this form only: with 10.0.0.0/8 allowed,
    `::ffff:10.0.0.1` is still refused. The refusals win over them, and reach an address that is carried in
    another.
    """
    denied = tuple(denied_networks)
    if any(form in network for form in (address, *unwrapped(address)) for network in denied):
        return False
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return False
    return any(address in network for network in allowed_networks) or is_public_unicast(address)


def vet(
    addresses: Iterable[Address], allowed_networks: Iterable[Network], denied_networks: Iterable[Network] = ()
) -> None:
    """Refuse a host unless each of its addresses may be sent to (rule 4.3/1): any of them may be dialled.

    Raises `Unprocessable`, also without an address. The message names none, so that a name of our own network
    cannot be looked up through it.
    """
    candidates = tuple(addresses)
    allowed, denied = tuple(allowed_networks), tuple(denied_networks)
    if not candidates or not all(is_allowed(address, allowed, denied) for address in candidates):
        problem = "must have a host that is, or resolves to, public unicast addresses only"
        raise Unprocessable(f"`url` {problem}.", {"fields": {"url": [problem]}})
