"""An agent on the wire: JSON-RPC over POST, in a revision with a handshake and in one without.

Tests get status, headers and body as they were sent; the official client is tested end to end.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
from attrs import field, frozen

from meetcore.adapters.api.operation import UseCases
from meetcore.adapters.mcp.mcp_app import McpApp
from meetcore.app import Service
from meetcore.composition.application import Application
from tests.support.api_harness import BASE_URL, rebuilt, started

HANDSHAKE, SINGLE = "2025-11-25", "2026-07-28"
ERAS = (HANDSHAKE, SINGLE)
_NUMBERS = itertools.count(1)
_CLIENT = {"name": "test", "version": "1"}


@frozen
class ToolResult:
    """The result of a tool call."""

    http: httpx.Response
    result: dict[str, Any]

    @property
    def is_error(self) -> bool:
        return bool(self.result["isError"])

    @property
    def value(self) -> dict[str, Any]:
        assert not self.is_error, self.result
        return dict(self.result["structuredContent"])

    @property
    def error(self) -> dict[str, Any]:
        assert self.is_error, self.result
        # Some clients refuse structured content that breaks the schema of the tool's result.
        assert "structuredContent" not in self.result
        (content,) = self.result["content"]
        body = json.loads(content["text"])["error"]
        assert body == self.meta["meetcore/error"]
        return dict(body)

    @property
    def problems(self) -> dict[str, list[str]]:
        """The arguments that an `invalid_request` names."""
        assert self.error["code"] == "invalid_request", self.error
        return dict(self.error["details"]["fields"])

    @property
    def meta(self) -> dict[str, Any]:
        return dict(self.result["_meta"])


@frozen
class Agent:
    """Speaks to `/mcp` with one key, from a page of `origin` where there is one.

    `capabilities` are the client's; a revision with a handshake does not send them with a call.
    """

    line: httpx.AsyncClient
    key: str | None = field(repr=False)
    era: str = HANDSHAKE
    origin: str | None = None
    capabilities: dict[str, Any] = field(factory=dict)

    async def post(self, message: object, **headers: str) -> httpx.Response:
        return await self.line.post("/mcp", json=message, headers=self.headers() | headers)

    async def ask(self, method: str, **params: Any) -> httpx.Response:
        headers: dict[str, str] = {}
        if self.era == SINGLE:
            headers["Mcp-Method"] = method
            if name := params.get("name") or params.get("uri"):
                headers["Mcp-Name"] = name
            meta = {"protocolVersion": SINGLE, "clientInfo": _CLIENT, "clientCapabilities": self.capabilities}
            params["_meta"] = {f"io.modelcontextprotocol/{name}": value for name, value in meta.items()}
        message = {"jsonrpc": "2.0", "id": next(_NUMBERS), "method": method, "params": params}
        return await self.post(message, **headers)

    async def call(self, tool: str, /, **arguments: Any) -> ToolResult:
        """Call a tool; the protocol itself must not refuse."""
        answer = await self.ask("tools/call", name=tool, arguments=arguments)
        assert answer.status_code == 200, answer.text
        return ToolResult(answer, answer.json()["result"])

    async def greet(self) -> httpx.Response:
        """Open a conversation in the way of the revision."""
        if self.era == SINGLE:
            return await self.ask("server/discover")
        return await self.ask("initialize", protocolVersion=HANDSHAKE, capabilities={}, clientInfo=_CLIENT)

    async def tools(self) -> dict[str, dict[str, Any]]:
        """List the tools by name."""
        answer = await self.ask("tools/list")
        assert answer.status_code == 200, answer.text
        return {tool["name"]: tool for tool in answer.json()["result"]["tools"]}

    def headers(self) -> dict[str, str]:
        sent = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": self.era}
        if self.origin is not None:
            sent["Origin"] = self.origin
        return sent if self.key is None else sent | {"Authorization": f"Bearer {self.key}"}


@asynccontextmanager
async def line_to(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application; of a service, once it has started."""
    async with AsyncExitStack() as stack:
        if isinstance(app, Service):
            await stack.enter_async_context(started(app))
        transport = httpx.ASGITransport(app)
        yield await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url=BASE_URL))


@asynccontextmanager
async def mcp_on(
    application: Application, adjust: Callable[[UseCases], UseCases] = lambda use: use, **changes: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """The agent interface alone, of an application with other ports or another policy."""
    changed = rebuilt(application, **changes)
    mcp_app = McpApp(adjust(changed.api), changed.admit, changed.runtime, changed.policy.base_url)
    async with mcp_app.open(), line_to(mcp_app) as line:
        yield line
