"""Turns of clients: one client's requests without a key of the right form share a part of the event loop.

A page is computed without a pause. Fifty at once would all be computed before any other request gets a turn,
so a client has `AT_ONCE` requests in progress and the others are read later; where it has several, each
begins after a rest. A client with one request at a time is never held up. Clients are those of `one_client`;
a trusted proxy, a Unix socket and a request with a key of the right form are not counted.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from attrs import define, field
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from meetcore.adapters.api.http_common import client_address, is_trusted_proxy
from meetcore.domain.requests.clients import one_client, parse_address
from meetcore.domain.webhooks.addresses import Network

AT_ONCE: Final = 8
"""Requests of one client in progress."""
REST: Final = 3.0
"""How long a client with several requests rests after one, in times of what that took."""
MAX_REST_S: Final = 0.05
"""How long at most, and after a refusal always."""
FIRST_REST_S: Final = 0.01
"""Of a client that had no answer yet."""


@define(eq=False)
class _Client:
    places: asyncio.Semaphore = field(factory=lambda: asyncio.Semaphore(AT_ONCE))
    turn: asyncio.Lock = field(factory=asyncio.Lock)
    requests: int = 0
    begun: int = 0
    next_at: float = 0.0
    rest_s: float = FIRST_REST_S


@define(eq=False)
class ClientTurns:
    """The clients whose requests are in progress or wait, by their names.

    Without `has_rests` a client has `AT_ONCE` in progress without a rest: a provider sends many at once.
    """

    proxies: Sequence[Network] = ()
    has_rests: bool = True
    _clients: defaultdict[str, _Client] = field(factory=lambda: defaultdict(_Client), init=False)

    def __len__(self) -> int:
        """Return how many clients have requests."""
        return len(self._clients)

    async def take(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on when it is its client's turn; its place is free once the answer begins."""
        address = parse_address(client_address(scope, self.proxies))
        if address is None or is_trusted_proxy(address, self.proxies):
            await app(scope, receive, send)
            return
        name = one_client(str(address))
        client = self._clients[name]
        client.requests += 1
        try:
            await self._pass_on(client, app, scope, receive, send)
        finally:
            client.requests -= 1
            if not client.requests:
                del self._clients[name]

    async def _pass_on(
        self, client: _Client, app: ASGIApp, scope: Scope, receive: Receive, send: Send
    ) -> None:
        clock, is_held = asyncio.get_running_loop().time, True
        await client.places.acquire()

        def release() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                client.begun -= 1
                client.places.release()

        async def noting(message: Message) -> None:
            if is_held:
                is_refusal = message.get("status", 200) >= HTTPStatus.BAD_REQUEST
                client.rest_s = MAX_REST_S if is_refusal else min((clock() - start) * REST, MAX_REST_S)
                client.next_at = clock() + client.rest_s
                release()
            await send(message)

        client.begun += 1
        try:
            await asyncio.sleep(0)  # requests that came together see each other
            async with client.turn:
                if self.has_rests and client.begun > 1:
                    await asyncio.sleep(max(0.0, client.next_at - clock()))
                start = clock()
                # Those that wait for the database together would go on together, without a pause.
                client.next_at = start + client.rest_s
            await app(scope, receive, noting)
        finally:
            release()
