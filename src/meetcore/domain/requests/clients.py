"""One client, as every limit by address counts it: an IPv4 address, or the /64 of an IPv6 address.

A subscriber of IPv6 has a /64 at least, 2^64 addresses: counted singly they would be without a limit.
"""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from meetcore.domain.webhooks.addresses import Address


def parse_address(text: str) -> Address | None:
    """Read an IP address, an IPv4 address mapped into IPv6 as the IPv4 address; `None` if it is not one."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


@lru_cache(1024)  # connections serve many requests
def one_client(client_address: str | None) -> str:
    """Return the name under which a client is counted; a text that is no address stands for itself."""
    address = parse_address(client_address or "")
    if isinstance(address, IPv6Address):
        return str(IPv6Address(int(address) >> 64 << 64)) + "/64"
    return str(address or client_address)
