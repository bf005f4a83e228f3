"""The service's tools for programs that speak over standard input and output.

`meetcore mcp` runs beside the agent, with an API key and nothing else: what is asked goes to the service's
`/mcp`, what is answered comes back as it is. Owns the two ends. Refuses to decide anything: a database's
address has no place on a desk, and a rule is carried out once.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx2
from attrs import evolve, frozen
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    INTERNAL_ERROR,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    DiscoverResult,
    ListToolsResult,
    PaginatedRequestParams,
)

from meetcore.adapters.mcp.tools import KEY

__all__ = ["BridgeRefused", "bridge"]

CONNECT_S = 10.0
ANSWER_S = 60.0
"""Longer than the service lets a duplicate wait and a provider think."""

_AWAY = "The service does not answer. Try again later."
_AWAY_FROM_AN_INTENT = f"The service does not answer. Try again later, with the same {KEY}."

Result = TypeVar("Result")


class BridgeRefused(Exception):
    """The service does not answer, or does not let this key in; the message says which."""


async def bridge(base_url: str, api_key: str) -> None:
    """Serve standard input and output until the input ends.

    A service that goes away meanwhile is told to the agent, call by call, until it is back.

    Args:
        base_url: where the service is, without a slash at its end.
        api_key: whose tools they are; never shown.

    Raises:
        BridgeRefused: nothing can be served.
    """
    headers = {"Authorization": f"Bearer {api_key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(CONNECT_S, read=ANSWER_S)) as http:
        far = _FarEnd(http, f"{base_url}/mcp")
        try:
            server = await far.ask(_introduced)
        except MCPError as error:
            raise BridgeRefused(f"{base_url}: {error.message}") from None
        async with stdio_server() as (heard, said):
            await server.run(heard, said, server.create_initialization_options())


@frozen
class _FarEnd:
    """The service. Each request is a conversation of its own: one that fails must not take others with it.

    `mode` is the protocol's revision once it is known, so that nothing is negotiated twice.
    """

    http: httpx2.AsyncClient
    url: str
    mode: str = "auto"
    known: DiscoverResult | None = None

    async def ask(
        self, question: Callable[["_FarEnd", Client], Awaitable[Result]], away: str = _AWAY
    ) -> Result:
        """Put a question.

        Args:
            question: what to do with a conversation.
            away: the words for a service that does not answer.

        Raises:
            MCPError: the service refuses, or does not answer.
        """
        transport = streamable_http_client(self.url, http_client=self.http)
        refusal: Exception
        try:
            async with Client(transport, mode=self.mode, prior_discover=self.known, cache=None) as client:
                try:
                    return await question(self, client)
                except MCPError as error:
                    refusal = error
        except Exception as error:  # noqa: BLE001  (told apart by its first cause)
            refusal = _first(error, away)
        raise refusal from None

    async def list_tools(self, _: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        """The tools of the key."""
        wanted = PaginatedRequestParams(cursor=None if params is None else params.cursor)
        return await self.ask(lambda _, client: client.session.list_tools(params=wanted))

    async def call_tool(self, _: Any, params: CallToolRequestParams) -> CallToolResult:
        """What the service answers, as it is: its shape was held against the schema where it was made."""
        wanted = CallToolRequest(params=CallToolRequestParams(name=params.name, arguments=params.arguments))
        away = _AWAY_FROM_AN_INTENT if KEY in (params.arguments or {}) else _AWAY
        return await self.ask(lambda _, client: client.session.send_request(wanted, CallToolResult), away)


def _first(error: Exception, away: str) -> Exception:
    """What went wrong first in a group of tasks, in the protocol's words where the line was at fault."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return MCPError(INTERNAL_ERROR, away) if isinstance(error, httpx2.HTTPError) else error


async def _introduced(far: _FarEnd, client: Client) -> Server[Any]:
    """The near end, which says of itself what the service says."""
    info, session = client.server_info, client.session
    known = session.discover_result
    met = far if known is None else evolve(far, mode=client.protocol_version, known=known)
    return Server(
        "meetcore",
        version=info.version if info is not None else "",
        instructions=session.instructions,
        on_list_tools=met.list_tools,
        on_call_tool=met.call_tool,
    )
