"""Keeps aiohttp from connecting anywhere but to the addresses vetted for one attempt.

aiohttp would look names up itself, skip a custom resolver for address literals, and hand out a pooled
connection to any peer that once served the name. So the URL that it is given never names the receiver:
its host is a pseudonym of the receiver's name and of the vetted addresses. The pool is keyed by it, so
that a connection is used again only for the same name at the same addresses. TLS and the Host header
carry the real name.

Three guards stand behind one another: the resolver answers with the vetted addresses, the socket
factory opens no other, and the request is written to no other peer.
"""

import asyncio
import hashlib
import socket
from contextvars import ContextVar
from ipaddress import ip_address
from typing import Any, cast

from aiohttp import ClientConnectionError, ClientRequest, ClientResponse
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import AddrInfoType, Connection
from attrs import define, frozen

from meetcore.domain.addresses import Address

__all__ = ["Dial", "Target", "VettedRequest", "VettedResolver", "current_dial", "vetted_socket"]


@frozen
class Target:
    """One peer that may be dialled."""

    address: Address
    port: int


@define
class Dial:
    """One request on its way: where it may go, and how far it got."""

    host: str
    targets: tuple[Target, ...]
    is_new_connection: bool = False
    transport: asyncio.Transport | None = None
    peer: str | None = None

    @property
    def pseudonym(self) -> str:
        """A host name for aiohttp's pool: equal exactly for equal names at equal peers."""
        peers = sorted(f"{target.address} {target.port}" for target in self.targets)
        digest = hashlib.sha256("\n".join([self.host, *peers]).encode()).hexdigest()
        return f"{digest[:32]}.{digest[32:]}.invalid"


current_dial: ContextVar[Dial] = ContextVar("current_dial")
"""The dial of the running task; aiohttp's helper tasks inherit it."""


class VettedResolver(AbstractResolver):
    """Answers every question with the addresses of the current dial."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Give the vetted targets; aiohttp asks only when it opens a new connection."""
        dial = current_dial.get()
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
            for target in dial.targets
        ]

    async def close(self) -> None:
        """Nothing is held."""


def vetted_socket(addr_info: AddrInfoType) -> socket.socket:
    """Open a socket for a target of the current dial.

    Raises:
        PermissionError: the address is not one of them, however aiohttp came by it.
    """
    family, type_, proto, _, peer = addr_info
    if not _is_target(peer, current_dial.get()):
        raise PermissionError("refused to dial an address that was not vetted")
    return socket.socket(family, type_, proto)


class VettedRequest(ClientRequest):
    """Writes itself only to a peer of the current dial, on a pooled connection as on a new one."""

    async def send(self, conn: Connection) -> ClientResponse:
        """Check the peer, then send.

        Raises:
            ClientConnectionError: the peer is not among the vetted, or is gone.
        """
        dial = current_dial.get()
        transport = conn.transport
        peer = transport.get_extra_info("peername") if transport is not None else None
        if peer is None or not _is_target(peer, dial):
            raise ClientConnectionError("the connection's peer is not among the vetted addresses")
        dial.transport = cast(asyncio.Transport, transport)
        dial.peer = str(peer[0])
        return await super().send(conn)


def _is_target(peer: tuple[Any, ...], dial: Dial) -> bool:
    return Target(ip_address(peer[0]), int(peer[1])) in dial.targets
