"""Keep connections to vetted addresses, bounded in number and idle time."""

import asyncio
from collections import defaultdict
from typing import TypeAlias

from meetcore.adapters.webhook_sender.connection import Exchange, ReceiverConnection
from meetcore.adapters.webhook_sender.dialling import ConnectionAttempt, VettedRoute, dial
from meetcore.adapters.webhook_sender.trust import Trust

_IDLE_S = 15.0

_SWEEP_EVERY_S = 1.0

_Idle: TypeAlias = dict[ReceiverConnection, float]


def _vetted_peer(connection: ReceiverConnection, route: VettedRoute) -> str:
    """Check the peer of a connection and return its address."""
    peer = connection.peer
    if peer is None or not route.leads_to(*peer):
        raise ConnectionResetError("the peer is not a vetted address")
    return peer[0]


class ConnectionPool:
    """Posts on a pooled or a new connection; none is kept from `max_open` open ones on."""

    def __init__(self, trust: Trust, max_open: int) -> None:
        self._trust = trust
        self._max_open = max_open
        self._open: set[ReceiverConnection] = set()
        self._idle: defaultdict[VettedRoute, _Idle] = defaultdict(dict)
        self._sweeper: asyncio.TimerHandle | None = None  # while a connection is kept
        self._dialling: set[asyncio.Task[None]] = set()

    async def post(self, attempt: ConnectionAttempt, request: bytes, exchange: Exchange) -> None:
        """Send a request and read the response into the exchange; raise as `ReceiverConnection.post` does."""
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
        # One timer for all: connections are kept and taken with every post.
        loop = asyncio.get_running_loop()
        self._idle[route][connection] = loop.time()
        if self._sweeper is None:
            self._sweeper = loop.call_later(_SWEEP_EVERY_S, self._sweep)

    def _sweep(self) -> None:
        """Close idle connections; each route has its longest idle first."""
        loop = asyncio.get_running_loop()
        latest = loop.time() - _IDLE_S
        for idle in self._idle.values():
            for connection, since in idle.items():
                if since > latest:
                    break
                connection.abort()  # removed by its callback, after this loop
        is_kept = any(self._idle.values())
        self._sweeper = loop.call_later(_SWEEP_EVERY_S, self._sweep) if is_kept else None

    async def _connect(self, attempt: ConnectionAttempt) -> ReceiverConnection:
        # In a task, so that closing the pool ends it.
        connection = ReceiverConnection()
        task = asyncio.create_task(dial(attempt, connection, self._trust.context))
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
        if self._sweeper is not None:
            self._sweeper.cancel()
        for task in self._dialling:
            task.cancel()
        for connection in self._open:
            connection.abort()
        ends = [*self._dialling, *(connection.closed for connection in self._open)]
        await asyncio.gather(*ends, return_exceptions=True)
