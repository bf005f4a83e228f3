"""Connect to the addresses vetted for one attempt.

No name is looked up here: sockets are opened to the vetted addresses, and the name only checks the
certificate. `aiohappyeyeballs` tries the next address if one is slow.

Shortages of this machine are distinguished from failures of a receiver, which would count against
a customer's endpoint.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from functools import lru_cache
from ipaddress import ip_address

from aiohappyeyeballs import AddrInfoType, start_connection
from attrs import Factory, define, field, frozen

from meetcore.domain.errors import HostUnresolved
from meetcore.domain.webhooks.addresses import Address

_RECEIVE_BUFFER_BYTES = 16 * 1024
"""Kernel buffer of a connection: responses are small, and hundreds may arrive at once."""

_NEXT_ADDRESS_AFTER_S = 0.25
_DIALLED = 4
"""Addresses of each family that an attempt dials: a name may lead to many hosts that are not its owner's."""

# Called with the peer at each post on a connection.
_address_of = lru_cache(maxsize=4096)(ip_address)


@frozen(cache_hash=True)
class VettedRoute:
    """The name of a receiver and its vetted addresses; equal for equal names at equal addresses."""

    host: str
    addresses: tuple[Address, ...] = field(eq=False)
    port: int
    _peers: frozenset[Address] = field(
        init=False, default=Factory(lambda self: frozenset(self.addresses), takes_self=True)
    )

    def leads_to(self, host: str, port: int) -> bool:
        """Return whether this peer was vetted, in any notation of its address."""
        return port == self.port and _address_of(host) in self._peers


@define
class ConnectionAttempt:
    """One request in progress, from a pooled connection if it may; `peer` is the address that got it.

    `local_error` is why this machine could not open a socket.
    """

    route: VettedRoute
    is_new_connection: bool = False
    local_error: OSError | None = None
    peer: str | None = None
    may_reuse: bool = True


async def dial(attempt: ConnectionAttempt, protocol: asyncio.Protocol, context: ssl.SSLContext) -> None:
    """Connect a protocol to a vetted address; raise `OSError` if none accepts or has the certificate."""

    def open_socket(info: AddrInfoType) -> socket.socket:
        try:
            opened = socket.socket(info[0], info[1], info[2])
        except OSError as local_error:
            # Kept here: the combined error of several addresses names neither address nor reason.
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
    chosen = {version: [each for each in route.addresses if each.version == version] for version in families}
    dialled = {each for found in chosen.values() for each in found[:_DIALLED]}
    return [
        (families[each.version], *tcp, (str(each), route.port)) for each in route.addresses if each in dialled
    ]


_LATE_S = 1.0

_OUT_OF_MEANS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EAGAIN})


def is_local_fault(fault: Exception, dial: ConnectionAttempt | None) -> bool:
    """Return whether an attempt, or a lookup without a dial, failed for lack of something on this side."""
    if isinstance(fault, HostUnresolved):
        # Without a free descriptor the system's resolver reports an unknown name.
        return _is_out_of_resources(fault.__cause__) or not _can_open_a_socket()
    if dial is None or dial.peer is not None:
        return _is_out_of_resources(fault)
    if dial.local_error is not None and _is_out_of_resources(dial.local_error):
        return True
    # No port left towards this peer. For IPv6 also the error of a machine without IPv6.
    is_ipv4 = all(address.version == 4 for address in dial.route.addresses)
    has_no_port = isinstance(fault, OSError) and fault.errno == errno.EADDRNOTAVAIL and is_ipv4
    # uvloop raises RuntimeError for an unusable descriptor.
    return has_no_port or _is_out_of_resources(fault) or isinstance(fault, RuntimeError)


_NO_ROUTE = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL})

_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses for documentation (RFC 5737, RFC 3849), of no host: their route is the default route."""


def is_without_route(fault: Exception) -> bool:
    """Return whether a connection failed because this machine has no way to any other.

    A receiver can make its own address unreachable, and one with IPv6 alone is so for a machine without it.
    """
    is_unreachable = isinstance(fault, OSError) and fault.errno in _NO_ROUTE
    return is_unreachable and not any(_has_route(*elsewhere) for elsewhere in _ELSEWHERE)


def _has_route(family: socket.AddressFamily, address: str) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))  # sends nothing
    except OSError as fault:
        return fault.errno not in _NO_ROUTE | {errno.EAFNOSUPPORT}
    return True


def is_late(limit: asyncio.Timeout) -> bool:
    """Return whether a time limit fired so late that the response may have arrived in time."""
    due = limit.when()
    return due is not None and asyncio.get_running_loop().time() - due > _LATE_S


def _is_out_of_resources(fault: BaseException | None) -> bool:
    # A resolver's error numbers are not errno's.
    if isinstance(fault, socket.gaierror):
        return fault.errno == socket.EAI_MEMORY
    return isinstance(fault, MemoryError) or (isinstance(fault, OSError) and fault.errno in _OUT_OF_MEANS)


def _can_open_a_socket() -> bool:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
    except OSError:
        return False
    return True
