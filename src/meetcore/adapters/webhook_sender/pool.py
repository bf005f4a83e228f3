"""The connections: to vetted addresses, kept for a while, and not too many.

Owns the number of open connections and how long one is kept idle. It neither vets nor waits: how many posts
are under way is the sender's.
"""

import asyncio
import ssl
from collections import defaultdict
from typing import TypeAlias

from meetcore.adapters.webhook_sender.connection import ReceiverConnection
from meetcore.adapters.webhook_sender.dialling import ConnectionAttempt, VettedRoute, dial
from meetcore.adapters.webhook_sender.exchange import Exchange

_IDLE_S = 15.0

_SWEEP_EVERY_S = 1.0

_Idle: TypeAlias = dict[ReceiverConnection, float]


def _vetted_peer(connection: ReceiverConnection, route: VettedRoute) -> str:
    """Check the peer of a connection that was kept, or that is new, and return its address."""
    peer = connection.peer
    if peer is None or not route.leads_to(*peer):
        raise ConnectionResetError("the connection's peer is not among the vetted addresses")
    return peer[0]


class ConnectionPool:
    """Posts on a connection that was kept or on a new one.

    Args:
        context: the trusted certificates.
        max_open: from so many open connections on, idle ones included, no connection is kept.
    """

    def __init__(self, context: ssl.SSLContext, max_open: int) -> None:
        self._context = context
        self._max_open = max_open
        self._open: set[ReceiverConnection] = set()
        self._idle: defaultdict[VettedRoute, _Idle] = defaultdict(dict)
        self._sweeper: asyncio.TimerHandle | None = None  # while a connection is kept
        self._dialling: set[asyncio.Task[None]] = set()

    async def post(self, attempt: ConnectionAttempt, request: bytes, exchange: Exchange) -> None:
        """Send a request and write the answer into the exchange.

        Raises:
            InvalidResponse: the answer is not HTTP.
            OSError: no connection could be opened, or it ended before the answer did.
        """
        connection = self._take(attempt.route) if attempt.may_reuse else None
        if connection is None:
            attempt.is_new_connection = True
            connection = await self._connect(attempt)
        may_keep = False
        try:
            attempt.peer = _vetted_peer(connection, attempt.route)
            may_keep = await connection.post(request, exchange) and len(self._open) < self._max_open
        finally:
            if may_keep:
                self._keep(attempt.route, connection)
            else:
                connection.abort()

    def _take(self, route: VettedRoute) -> ReceiverConnection | None:
        idle = self._idle.get(route)
        if not idle:
            return None
        connection, _ = idle.popitem()
        return connection

    def _keep(self, route: VettedRoute, connection: ReceiverConnection) -> None:
        # One timer for all of them: a connection is kept and taken with every post.
        loop = asyncio.get_running_loop()
        self._idle[route][connection] = loop.time()
        if self._sweeper is None:
            self._sweeper = loop.call_later(_SWEEP_EVERY_S, self._sweep)

    def _sweep(self) -> None:
        """Close what has been idle for long; each route has the longest idle first."""
        loop = asyncio.get_running_loop()
        latest = loop.time() - _IDLE_S
        for idle in self._idle.values():
            for connection, since in idle.items():
                if since > latest:
                    break
                connection.abort()  # it is forgotten when it is closed, not while this looks at it
        is_kept = any(self._idle.values())
        self._sweeper = loop.call_later(_SWEEP_EVERY_S, self._sweep) if is_kept else None

    async def _connect(self, attempt: ConnectionAttempt) -> ReceiverConnection:
        # A task of its own, so that closing the pool ends it.
        connection = ReceiverConnection()
        task = asyncio.create_task(dial(attempt, connection, self._context))
        self._dialling.add(task)
        try:
            await task
        except BaseException:
            connection.abort()
            raise
        finally:
            self._dialling.discard(task)
        self._open.add(connection)
        connection.closed.add_done_callback(lambda _: self._forget(attempt.route, connection))
        return connection

    def _forget(self, route: VettedRoute, connection: ReceiverConnection) -> None:
        self._open.discard(connection)
        idle = self._idle[route]
        idle.pop(connection, None)
        if not idle:
            del self._idle[route]

    async def close(self) -> None:
        """Cut every connection."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for task in self._dialling:
            task.cancel()
        for connection in self._open:
            connection.abort()
        ends = [*self._dialling, *(connection.closed for connection in self._open)]
        await asyncio.gather(*ends, return_exceptions=True)
