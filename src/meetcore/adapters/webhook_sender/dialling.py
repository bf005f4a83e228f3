"""Keeps aiohttp from connecting anywhere but to the addresses vetted for one attempt.

aiohttp would look names up itself, skip a custom resolver for address literals, and hand out a pooled
connection to any peer that once served the name. So the requested host never names the receiver: the
host is a pseudonym of the receiver's name and of the vetted addresses. The pool is keyed by it, so that
a connection is used again only for the same name at the same addresses. TLS and the Host header contain
the real name.

Three guards stand behind one another: the resolver answers with the vetted addresses, the socket
factory opens no other, and a request is written to no other peer.

What is sent and what comes back is the exchange's.
"""

import asyncio
import hashlib
import socket
from contextvars import ContextVar
from ipaddress import ip_address
from typing import Self, cast

from aiohttp import ClientConnectionError, ClientRequest
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import AddrInfoType, Connection
from attrs import define, field, frozen
from yarl import URL

from meetcore.domain.webhooks.addresses import Address

__all__ = [
    "ConnectionAttempt",
    "PoolKey",
    "Target",
    "VettedResolver",
    "VettedRoute",
    "current_attempt",
    "vetted_socket",
    "vetted_transport",
]

_RECEIVE_BUFFER_BYTES = 16 * 1024
"""What the kernel holds for one connection, about: an answer is small, and hundreds may pour at once."""


@frozen
class Target:
    """One peer that may be dialled."""

    address: Address
    port: int


class PoolKey(ClientRequest):
    """What aiohttp's connector reads of a request: where to connect, and for which name.

    A request of aiohttp's own is built anew for each post, and most of it is of no use here. This one
    serves every post of its route, and cannot be sent.
    """

    proxy = None
    proxy_auth = None
    proxy_headers = None

    def __init__(self, host: str, pseudonym: str) -> None:
        self.url = URL.build(scheme="https", host=pseudonym)
        self.server_hostname = host
        self._ssl = True


@frozen
class VettedRoute:
    """The name of a receiver, the peers vetted for it, and what the pool knows both by."""

    host: str
    targets: tuple[Target, ...]
    call: PoolKey = field(init=False, eq=False)
    _peers: frozenset[tuple[str, int]] = field(init=False, eq=False)

    @classmethod
    def to(cls, host: str, addresses: tuple[Address, ...], port: int) -> Self:
        """Give the route for a name to addresses that were vetted."""
        return cls(host, tuple(Target(address, port) for address in addresses))

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "call", PoolKey(self.host, self.pseudonym))
        peers = frozenset((str(target.address), target.port) for target in self.targets)
        object.__setattr__(self, "_peers", peers)

    @property
    def pseudonym(self) -> str:
        """A host name for aiohttp's pool: equal exactly for equal names at equal peers."""
        peers = sorted(f"{target.address} {target.port}" for target in self.targets)
        digest = hashlib.sha256("\n".join([self.host, *peers]).encode()).hexdigest()
        return f"{digest[:32]}.{digest[32:]}.invalid"

    def leads_to(self, host: str, port: int) -> bool:
        """Return whether this peer, as the system writes its address, was vetted."""
        # The system may write an address in another way than `ipaddress`: only then is it read.
        return (host, port) in self._peers or Target(ip_address(host), port) in self.targets


@define
class ConnectionAttempt:
    """One request on its way: where it may go, and how far it got.

    Attributes:
        shortage: why this machine could not open a socket for one of the targets.
        peer: the address that the request was written to.
    """

    route: VettedRoute
    is_new_connection: bool = False
    local_error: OSError | None = None
    peer: str | None = None


current_attempt: ContextVar[ConnectionAttempt] = ContextVar("current_attempt")
"""The dial of the running task; aiohttp's helper tasks inherit it."""


class VettedResolver(AbstractResolver):
    """Answers every question with the addresses of the current dial."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Give the vetted targets; aiohttp asks only when it opens a new connection."""
        dial = current_attempt.get()
        dial.is_new_connection = True
        return [
            ResolveResult(
                hostname=host,
                host=str(target.address),
                port=target.port,
                family=socket.AF_INET if target.address.version == 4 else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for target in dial.route.targets
        ]

    async def close(self) -> None:
        """Nothing is held."""


def vetted_socket(addr_info: AddrInfoType) -> socket.socket:
    """Open a socket for a target of the current dial.

    Raises:
        PermissionError: the address is not one of them, however aiohttp came by it.
        OSError: this machine has none left; the dial keeps it as its `local_error`.
    """
    family, type_, proto, _, peer = addr_info
    dial = current_attempt.get()
    if not dial.route.leads_to(peer[0], peer[1]):
        raise PermissionError("refused to dial an address that was not vetted")
    try:
        opened = socket.socket(family, type_, proto)
    except OSError as local_error:
        # Kept here: where several addresses fail in several ways, aiohttp reports neither which nor why.
        dial.local_error = local_error
        raise
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
    return opened


def vetted_transport(connection: Connection, dial: ConnectionAttempt) -> asyncio.Transport:
    """Give what to write to, on a pooled connection as on a new one, and note the peer.

    Raises:
        ClientConnectionError: the peer was not vetted, or closed the connection.
    """
    transport = connection.transport
    peer = transport.get_extra_info("peername") if transport is not None else None
    if peer is None or not dial.route.leads_to(peer[0], peer[1]):
        raise ClientConnectionError("the connection's peer is not among the vetted addresses")
    dial.peer = peer[0]
    return cast(asyncio.Transport, transport)
