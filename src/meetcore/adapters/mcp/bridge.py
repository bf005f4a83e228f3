"""The service's tools for programs that speak over standard input and output.

`meetcore mcp` runs beside the agent, with an API key and nothing else: requests go to the service's `/mcp`,
answers come back unchanged.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx2
from attrs import evolve, frozen
from mcp import Client, MCPError
from mcp.client.session import ElicitationFnT
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    INTERNAL_ERROR,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    DiscoverResult,
    ElicitResult,
    ErrorData,
    InputRequiredResult,
    InputResponses,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
)
from pydantic import TypeAdapter

from meetcore.adapters.mcp.confirmation import can_ask
from meetcore.adapters.mcp.tools import KEY
from meetcore.domain.proxies import check_proxy

CONNECT_S = 10.0
ANSWER_S = 60.0
"""Longer than the service lets a duplicate wait and a provider think."""

_UNAVAILABLE = "The service does not answer. Try again later."
_UNAVAILABLE_WITH_KEY = f"The service does not answer. Try again later, with the same {KEY}."

_RESULT: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)

Result = TypeVar("Result")


class BridgeRefused(Exception):
    """The service does not answer, or refuses the key; the message says which."""


async def bridge(base_url: str, api_key: str, proxy: str | None = None) -> None:
    """Serve standard input and output with the tools of a key until the input ends.

    While the service is unavailable, each call of the agent is answered with an error. Raises `BridgeRefused`
    where nothing can be served.
    """
    headers, timeout = {"Authorization": f"Bearer {api_key}"}, httpx2.Timeout(CONNECT_S, read=ANSWER_S)
    try:
        transport = httpx2.AsyncHTTPTransport(proxy=check_proxy(proxy))
    except ImportError:
        raise BridgeRefused(
            "the environment names a SOCKS proxy: pip install 'httpx2[socks]', or put it into NO_PROXY"
        ) from None
    except (httpx2.InvalidURL, ValueError):
        raise BridgeRefused("the environment names a proxy that is no address of one") from None
    except OSError as error:  # of certificates without a certificate, too
        raise BridgeRefused(
            f"the environment names a file of TLS that cannot be used (SSL_CERT_FILE, SSLKEYLOGFILE): {error}"
        ) from None
    async with httpx2.AsyncClient(headers=headers, timeout=timeout, transport=transport) as http:
        far = _FarEnd(http, f"{base_url}/mcp")
        try:
            server = await far.ask(_introduced)
        except MCPError as error:
            raise BridgeRefused(f"{base_url}: {error.message}") from None
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())


@frozen
class _FarEnd:
    """The service, with a session for each request, so that one failure affects no other.

    `mode` is the protocol's revision once it is known, so that nothing is negotiated twice.
    """

    http: httpx2.AsyncClient
    url: str
    mode: str = "auto"
    known: DiscoverResult | None = None
    elicitation_callback: ElicitationFnT | None = None

    async def ask(
        self, question: Callable[["_FarEnd", Client], Awaitable[Result]], unavailable: str = _UNAVAILABLE
    ) -> Result:
        """Send one request; raise `MCPError` where the service refuses, or `unavailable` without answer."""
        transport = streamable_http_client(self.url, http_client=self.http)
        refusal: Exception
        try:
            async with Client(
                transport, mode=self.mode, prior_discover=self.known, cache=None,
                elicitation_callback=self.elicitation_callback,
            ) as client:  # fmt: skip
                try:
                    return await question(self, client)
                except MCPError as error:
                    refusal = error
        except Exception as error:  # noqa: BLE001  (classified by its first cause)
            refusal = _first(error, unavailable)
        raise refusal from None

    async def list_tools(self, _: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        """List the tools of the key."""
        wanted = PaginatedRequestParams(cursor=None if params is None else params.cursor)
        return await self.ask(lambda _, client: client.session.list_tools(params=wanted))

    async def list_templates(
        self, _: Any, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """List the templates of resources."""
        return await self.ask(lambda _, client: client.session.list_resource_templates())

    async def read_resource(self, _: Any, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Read a note or a recording in Markdown."""
        return await self.ask(lambda _, client: client.session.read_resource(params.uri))

    async def call_tool(
        self, call: Any, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """Return the service's answer unchanged: the service has validated it against the schema.

        A question of the service is put to the agent's program, where that can ask a person.
        """
        far = evolve(self, elicitation_callback=_asked_elsewhere if can_ask(call) else None)
        result = await far._send(params, params.input_responses)
        if not (isinstance(result, InputRequiredResult) and call.session.can_send_request):
            return result
        asked = (result.input_requests or {}).items()
        answers = {name: await call.session.send_request(each, ElicitResult) for name, each in asked}
        return await far._send(params, answers)

    async def _send(
        self, params: CallToolRequestParams, answers: InputResponses | None
    ) -> CallToolResult | InputRequiredResult:
        wanted = CallToolRequest(
            params=CallToolRequestParams(
                name=params.name, arguments=params.arguments, input_responses=answers
            )
        )
        unavailable = _UNAVAILABLE_WITH_KEY if KEY in (params.arguments or {}) else _UNAVAILABLE
        return await self.ask(lambda _, client: client.session.send_request(wanted, _RESULT), unavailable)


async def _asked_elsewhere(context: object, params: object) -> ErrorData:
    """Stand for a person who can be asked; the service asks in its answer to a call."""
    return ErrorData(code=INTERNAL_ERROR, message="Questions are put in the answer to a call.")


def _first(error: Exception, unavailable: str) -> Exception:
    """Return the first error in a group of tasks, as a protocol error if the connection failed."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return MCPError(INTERNAL_ERROR, unavailable) if isinstance(error, httpx2.HTTPError) else error


async def _introduced(far: _FarEnd, client: Client) -> Server[Any]:
    """Build the local server, which introduces itself as the service does."""
    info, session = client.server_info, client.session
    known = session.discover_result
    met = far if known is None else evolve(far, mode=client.protocol_version, known=known)
    return Server(
        "meetcore",
        version=info.version if info is not None else "",
        instructions=session.instructions,
        on_list_tools=met.list_tools,
        on_call_tool=met.call_tool,
        on_list_resource_templates=met.list_templates,
        on_read_resource=met.read_resource,
    )
