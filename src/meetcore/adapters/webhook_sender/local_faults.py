"""Distinguish shortages of this machine from failures of a receiver.

A shortage of our own shows as the error of a lookup, of a connection or of a time limit, and would count
against a customer's endpoint. Owns this distinction only.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING

from meetcore.domain.errors import HostUnresolved

if TYPE_CHECKING:
    from meetcore.adapters.webhook_sender.dialling import ConnectionAttempt

_LATE_S = 1.0

_OUT_OF_MEANS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EAGAIN})


def is_local_fault(fault: Exception, dial: ConnectionAttempt | None) -> bool:
    """Return whether an attempt failed for lack of sockets, ports, threads or memory on this side.

    Args:
        fault: what the attempt ended with.
        dial: how far it got; None while the name was looked up.
    """
    if isinstance(fault, HostUnresolved):
        # Without a free descriptor the system's resolver reports an unknown name.
        return _is_out_of_resources(fault.__cause__) or not _can_open_a_socket()
    if dial is None or dial.peer is not None:
        return _is_out_of_resources(fault)
    if dial.local_error is not None and _is_out_of_resources(dial.local_error):
        return True
    # No port left towards this peer. For IPv6 it is also the word of a machine that has no IPv6 at all.
    is_ipv4 = all(address.version == 4 for address in dial.route.addresses)
    has_no_port = isinstance(fault, OSError) and fault.errno == errno.EADDRNOTAVAIL and is_ipv4
    # uvloop raises RuntimeError when the descriptor that it was given is not one it can use.
    return has_no_port or _is_out_of_resources(fault) or isinstance(fault, RuntimeError)


def is_late(limit: asyncio.Timeout) -> bool:
    """Return whether an expired time limit fired long after it was due.

    The process was stopped or had too much to do, and the answer may have been there in time.
    """
    due = limit.when()
    return due is not None and asyncio.get_running_loop().time() - due > _LATE_S


def _is_out_of_resources(fault: BaseException | None) -> bool:
    # The numbers of a resolver's errors are of another table.
    if isinstance(fault, socket.gaierror):
        return fault.errno == socket.EAI_MEMORY
    return isinstance(fault, MemoryError) or (isinstance(fault, OSError) and fault.errno in _OUT_OF_MEANS)


def _can_open_a_socket() -> bool:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
    except OSError:
        return False
    return True
