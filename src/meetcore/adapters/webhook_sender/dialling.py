"""Dials the addresses vetted for one attempt, and nothing else.

No name is looked up here: the sockets are opened for the vetted addresses themselves, and the name of the
receiver is used for its certificate alone. `aiohappyeyeballs` tries the next address when one is slow.
"""

import asyncio
import socket
import ssl
from functools import lru_cache
from ipaddress import ip_address

from aiohappyeyeballs import AddrInfoType, start_connection
from attrs import Factory, define, field, frozen

from meetcore.domain.webhooks.addresses import Address

_RECEIVE_BUFFER_BYTES = 16 * 1024
"""What the kernel holds for one connection, about: an answer is small, and hundreds may pour at once."""

_NEXT_ADDRESS_AFTER_S = 0.25

# Asked for the peer of a connection at each post on it.
_address_of = lru_cache(maxsize=4096)(ip_address)


@frozen(cache_hash=True)
class VettedRoute:
    """The name of a receiver and the addresses vetted for it; equal for equal names at equal addresses."""

    host: str
    addresses: tuple[Address, ...] = field(eq=False)
    port: int
    _peers: frozenset[Address] = field(
        init=False, default=Factory(lambda self: frozenset(self.addresses), takes_self=True)
    )

    def leads_to(self, host: str, port: int) -> bool:
        """Return whether this peer, however the system writes its address, was vetted."""
        return port == self.port and _address_of(host) in self._peers


@define
class ConnectionAttempt:
    """One request on its way: where it may go, and how far it got.

    Attributes:
        local_error: why this machine could not open a socket for one of the addresses.
        peer: the address that the request was written to.
        may_reuse: whether a connection that was kept may be used.
    """

    route: VettedRoute
    is_new_connection: bool = False
    local_error: OSError | None = None
    peer: str | None = None
    may_reuse: bool = True


async def dial(attempt: ConnectionAttempt, protocol: asyncio.Protocol, context: ssl.SSLContext) -> None:
    """Connect a protocol to one of the vetted addresses.

    Raises:
        OSError: no address took the connection, or its certificate is not the receiver's.
    """

    def open_socket(info: AddrInfoType) -> socket.socket:
        try:
            opened = socket.socket(info[0], info[1], info[2])
        except OSError as local_error:
            # Kept here: where several addresses fail in several ways, the error says neither which nor why.
            attempt.local_error = local_error
            raise
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        return opened

    connected = await start_connection(
        _address_infos(attempt.route),
        happy_eyeballs_delay=_NEXT_ADDRESS_AFTER_S,
        interleave=1,
        socket_factory=open_socket,
    )
    loop = asyncio.get_running_loop()
    host = attempt.route.host
    await loop.create_connection(lambda: protocol, sock=connected, ssl=context, server_hostname=host)


def _address_infos(route: VettedRoute) -> list[AddrInfoType]:
    families = {4: socket.AF_INET, 6: socket.AF_INET6}
    tcp = socket.SOCK_STREAM, socket.IPPROTO_TCP, ""
    return [(families[each.version], *tcp, (str(each), route.port)) for each in route.addresses]
