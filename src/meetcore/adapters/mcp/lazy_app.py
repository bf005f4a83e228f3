"""The application of the agent interface, built at its first request.

The protocol's package costs half a second and some 30 MB, which a service without agents does not pay.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from meetcore.adapters.api.http_common import DEFAULT_LIMITS, RequestLimits
from meetcore.adapters.api.operation import UseCases
from meetcore.usecases.requests.admit import Admit
from meetcore.usecases.runtime import Runtime

if TYPE_CHECKING:
    from meetcore.adapters.mcp.mcp_app import McpApp


class LazyMcpApp:
    """The ASGI application of the agent interface, made of `McpApp`'s arguments; `open` it first."""

    def __init__(
        self,
        use: UseCases,
        admit: Admit,
        runtime: Runtime,
        base_url: str,
        limits: RequestLimits = DEFAULT_LIMITS,
        is_for_booking: bool = False,
        has_grants: bool = False,
    ) -> None:
        self._parts = (use, admit, runtime, base_url, limits, is_for_booking, has_grants)
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[ASGIApp] = asyncio.get_running_loop().create_future()
        self._lifespan_task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve agents until the block is left."""
        try:
            yield
        finally:
            self._closing.set()
            if self._lifespan_task is not None:
                await self._lifespan_task

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; the first one waits until the application is built."""
        if self._lifespan_task is None:
            self._lifespan_task = asyncio.create_task(self._run_lifespan())
        app = await asyncio.shield(self._opened)  # a client that disconnects does not cancel it for others
        await app(scope, receive, send)

    async def _run_lifespan(self) -> None:
        """Open and close the application in one task, as its package requires."""
        try:
            app = (await asyncio.to_thread(_app_class))(*self._parts)
            async with app.open():
                self._opened.set_result(app)
                await self._closing.wait()
        except Exception as error:
            if self._opened.done():
                raise
            # Waiting requests get the error, and the next request tries again.
            failed, self._opened = self._opened, asyncio.get_running_loop().create_future()
            self._lifespan_task = None
            failed.set_exception(error)


def _app_class() -> type["McpApp"]:
    from meetcore.adapters.mcp.mcp_app import McpApp  # an extra

    return McpApp
