"""The way to the door, built when somebody first takes it.

The protocol's package costs half a second and some 30 MB, which a service that no agent asks does not pay.
Owns when the door is opened and closed; refuses to know what it does.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from meetcore.adapters.api.http_common import DEFAULT_LIMITS
from meetcore.adapters.api.limits import RequestLimits
from meetcore.adapters.api.operation import Operation
from meetcore.usecases.admit import Admit
from meetcore.usecases.runtime import Runtime

if TYPE_CHECKING:
    from meetcore.adapters.mcp.mcp_app import McpApp

__all__ = ["LazyMcpApp"]


class LazyMcpApp:
    """The ASGI application of the agent interface; `open` it before it is asked.

    Args:
        table: the operations.
        admit: who may come in, and how often.
        world: the clock, and new request ids.
        base_url: where the service is reached, without a slash at its end.
        limits: how slow the body of a request may be.
    """

    def __init__(
        self,
        table: Sequence[Operation],
        admit: Admit,
        runtime: Runtime,
        base_url: str,
        limits: RequestLimits = DEFAULT_LIMITS,
    ) -> None:
        self._parts = (table, admit, runtime, base_url, limits)
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[ASGIApp] = asyncio.get_running_loop().create_future()
        self._keeper: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Let agents in until the block is left."""
        try:
            yield
        finally:
            self._closing.set()
            if self._keeper is not None:
                await self._keeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; the first one waits until the door is built."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep())
        door = await asyncio.shield(self._opened)  # who hangs up does not take it from the others
        await door(scope, receive, send)

    async def _keep(self) -> None:
        """Open the door and close it, in one task, as its package wants it."""
        try:
            door = (await asyncio.to_thread(_door))(*self._parts)
            async with door.open():
                self._opened.set_result(door)
                await self._closing.wait()
        except Exception as error:
            if self._opened.done():
                raise
            # Whoever waits is told, and whoever comes next tries again.
            failed, self._opened = self._opened, asyncio.get_running_loop().create_future()
            self._keeper = None
            failed.set_exception(error)


def _door() -> type["McpApp"]:
    from meetcore.adapters.mcp.mcp_app import McpApp  # an extra

    return McpApp
