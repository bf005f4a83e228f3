"""The address of the client behind a request.

The peer of the connection is the client unless it is a proxy that the operator trusts
(`MEETCORE_TRUSTED_PROXIES`): then `X-Forwarded-For` names the client. A client can write that header itself,
so it is read from its end, where the nearest proxy has written, and only as far as the proxies are trusted.
"""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from starlette.datastructures import Headers
from starlette.types import Scope

from meetcore.domain.webhooks.addresses import Address, Network


def client_address(scope: Scope, proxies: Sequence[Network]) -> str:
    """Find the address of the client that sent a request.

    Returns:
        The address in its canonical form; empty if the connection has none (a Unix socket).
    """
    peer = scope.get("client")
    if not proxies:
        return _canonical(peer[0]) if peer else ""
    address = parse_address(peer[0]) if peer else None
    if address is None:
        return ""
    if is_trusted_proxy(address, proxies):
        address = _forwarded_for(address, scope, proxies)
    return str(address)


@lru_cache(1024)  # connections serve many requests
def _canonical(peer: str) -> str:
    address = parse_address(peer)
    return "" if address is None else str(address)


def _forwarded_for(proxy: Address, scope: Scope, proxies: Sequence[Network]) -> Address:
    """Return the last address in `X-Forwarded-For` that is no trusted proxy, else the first valid one."""
    client = proxy
    fields = Headers(scope=scope).getlist("x-forwarded-for")
    for text in reversed(",".join(fields).split(",")):
        address = parse_address(text.strip())
        if address is None:  # whatever stands before it was written by the same hand
            break
        client = address
        if not is_trusted_proxy(address, proxies):
            break
    return client


def parse_address(text: str) -> Address | None:
    """Read an IP address, an IPv4 address mapped into IPv6 as the IPv4 address; `None` if it is not one."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def is_trusted_proxy(address: Address, proxies: Sequence[Network]) -> bool:
    """Return whether an address belongs to a trusted proxy."""
    return any(address in network for network in proxies)
