"""The agent interface: `{base_url}/mcp`, the Model Context Protocol over streamable HTTP.

Each request passes the same steps as in the API: authenticate (401) → rate limit → scope → arguments →
idempotency → the work, through the same pipeline and the same operations. A tool call counts as one, anything
else as a read. After authentication, a refusal of a tool call is the tool's own answer, so that the agent can
read it; every other refusal has its HTTP status.

Stateless: any process can answer any request.
"""

from collections.abc import AsyncIterator, Mapping, MutableMapping
from contextlib import asynccontextmanager
from datetime import datetime
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

import structlog
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, ListToolsResult
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message as AsgiMessage
from starlette.types import Receive, Scope, Send

from meetcore.adapters.api.answers import STATUS, ApiResponse, OriginNotAllowed, status_of
from meetcore.adapters.api.http_common import DEFAULT_LIMITS, MAX_BODY_BYTES, common_headers, headers_of
from meetcore.adapters.api.limits import RequestLimits
from meetcore.adapters.api.operation import UseCases
from meetcore.adapters.api.operations import OPERATIONS
from meetcore.adapters.api.request_pipeline import RequestPipeline
from meetcore.adapters.mcp.arguments import ids_of, read_arguments
from meetcore.adapters.mcp.mcp_request import McpRequest, Message, read_message
from meetcore.adapters.mcp.results import protocol_refusal, refused, tool_listing, tool_result
from meetcore.adapters.mcp.texts import INSTRUCTIONS
from meetcore.adapters.mcp.tools import Tool, tools_of
from meetcore.domain.errors import DomainError, InvalidApiKey
from meetcore.domain.requests.keys import require_scope
from meetcore.ports.log_fields import logged_with
from meetcore.ports.queries import NO_INCLUDES, CallerIncludes
from meetcore.usecases.admit import Admit
from meetcore.usecases.runtime import Runtime

_REQUEST_KEY = "meetcore.visit"

log = structlog.get_logger("meetcore.mcp")


class McpApp:
    """The ASGI application of the agent interface, on a `RequestPipeline` of the same arguments.

    `open` it before the first request. `limits` says how slow the body of a request may be.
    """

    def __init__(
        self,
        use: UseCases,
        admit: Admit,
        runtime: Runtime,
        base_url: str,
        limits: RequestLimits = DEFAULT_LIMITS,
    ) -> None:
        self._limits = limits
        self._pipeline = RequestPipeline(use, admit, runtime, base_url)
        self._base_url = base_url
        self._tools = {tool.name: tool for tool in tools_of(OPERATIONS)}
        self._listings = {name: tool_listing(tool) for name, tool in self._tools.items()}
        place = urlsplit(base_url)
        self._origin = f"{place.scheme}://{place.netloc}".lower()
        server: Server[Any] = Server(
            "meetcore", version=_version(), title="Meetings and notes",
            instructions=INSTRUCTIONS, website_url=f"{base_url}/docs",
            get_tool_input_schema=self._input_schema, on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )  # fmt: skip
        self._manager = StreamableHTTPSessionManager(
            server, stateless=True, json_response=True, max_request_body_size=MAX_BODY_BYTES
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve agents, once, until the block is left."""
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; raise nothing but `ClientDisconnect`."""
        request = Request(scope, receive)
        try:
            message = await read_message(request, self._limits)
        except ClientDisconnect:
            return
        mcp_request = McpRequest(self._pipeline.open(message.rate_class), message)
        reply = _Reply(send, mcp_request)
        with logged_with(request_id=mcp_request.context.request_id):
            await self._answer(request, mcp_request, reply, receive)

    async def _answer(
        self, request: Request, mcp_request: McpRequest, reply: "_Reply", receive: Receive
    ) -> None:
        message, scope = mcp_request.message, request.scope
        try:
            await self._admit(request, mcp_request)
            inside = {**scope, _REQUEST_KEY: mcp_request}
            await self._manager.handle_request(inside, _replayed(message.raw, receive), reply)
        except Exception as error:  # noqa: BLE001  (the caller gets an error of the service for any fault)
            refusal = self._pipeline.to_domain_error(error, mcp_request.context)
            if reply.status is None:
                mcp_request.code = refusal.code
                await self._refuse(refusal, mcp_request)(scope, receive, reply)
        self._log(mcp_request, reply.status)

    def _log(self, mcp_request: McpRequest, status: int | None) -> None:
        """Log and count a request that was answered with a status over HTTP."""
        message, context = mcp_request.message, mcp_request.context
        answer = mcp_request.outcome or ApiResponse(status or 0, b"", code=mcp_request.code)
        took_ms = self._pipeline.took_ms(context)
        name = f"tool {message.tool}" if message.tool in self._tools else "agent"
        self._pipeline.count(context, name, answer, took_ms)
        log.info(
            "agent request", method=message.method, tool=message.tool, status=answer.status or None,
            request_id=context.request_id, key_id=context.key_id, duration_ms=took_ms,
        )  # fmt: skip
        if (tool := self._tools.get(message.tool or "")) is not None:
            self._pipeline.keep(
                context, tool.name, tool.operation.path, answer.status or STATUS["internal_error"], took_ms
            )

    async def _admit(self, request: Request, mcp_request: McpRequest) -> None:
        """Authenticate, count and read a request.

        Raises:
            DomainError: the request has no answer but this refusal.
        """
        message, headers = mcp_request.message, request.headers
        if headers.get("origin", self._origin).lower() != self._origin:
            raise OriginNotAllowed
        try:
            includes = self._includes_of(message, mcp_request.context.now)
            mcp_request.caller = await self._pipeline.authenticate(
                mcp_request.context, headers.get("authorization"), includes
            )
        except Exception as error:  # noqa: BLE001  (a tool call returns it itself)
            refusal = self._pipeline.to_domain_error(error, mcp_request.context)
            if isinstance(refusal, InvalidApiKey) or not message.is_tool_call:
                raise refusal from None
            mcp_request.refusal = refusal
        if message.problem is not None:
            raise message.problem

    def _includes_of(self, message: Message, now: datetime) -> CallerIncludes:
        tool = self._tools.get(message.tool or "")
        ids = None if tool is None else ids_of(tool.operation, message.arguments)
        return NO_INCLUDES if tool is None or ids is None else tool.operation.includes(ids, now)

    def _refuse(self, refusal: DomainError, mcp_request: McpRequest) -> Response:
        body = protocol_refusal(
            refusal, mcp_request.message.id, self._base_url, mcp_request.context.request_id
        )
        return Response(body, status_of(refusal), headers_of(refusal), "application/json")

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        tool = self._tools.get(name)
        return None if tool is None else tool.input_schema

    async def _list_tools(self, context: Any, _: object) -> ListToolsResult:
        caller = _mcp_request_of(context).caller
        assert caller is not None
        open_ = [name for name, tool in self._tools.items() if tool.is_open_to(caller.key)]
        return ListToolsResult(tools=[self._listings[name] for name in open_])

    async def _call_tool(self, context: Any, _: object) -> CallToolResult:
        mcp_request = _mcp_request_of(context)
        context, is_replay = mcp_request.context, False
        tool = self._tools.get(mcp_request.message.tool or "")
        if tool is None and mcp_request.refusal is None:
            raise MCPError(INVALID_PARAMS, "There is no such tool. tools/list names the tools.")
        try:
            rendered, is_replay = await self._work(mcp_request, tool)
        except Exception as error:  # noqa: BLE001  (whatever it is, the agent gets an envelope)
            refusal = self._pipeline.to_domain_error(error, context)
            rendered = refused(refusal, self._base_url, context.request_id)
        mcp_request.outcome = rendered
        return tool_result(rendered, context, is_replay=is_replay)

    async def _work(self, mcp_request: McpRequest, tool: Tool | None) -> tuple[ApiResponse, bool]:
        if mcp_request.refusal is not None:
            raise mcp_request.refusal
        assert mcp_request.message.is_tool_call
        assert mcp_request.caller is not None
        assert tool is not None
        require_scope(mcp_request.caller.key, tool.operation.scopes)
        parsed = read_arguments(tool.operation, mcp_request.message.arguments)
        return await self._pipeline.dispatch(mcp_request.context, mcp_request.caller, tool.operation, parsed)


class _Reply:
    """Passes an answer on, with the headers of every answer."""

    def __init__(self, send: Send, mcp_request: McpRequest) -> None:
        self._send = send
        self._mcp_request = mcp_request
        self.status: int | None = None

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            headers = common_headers(self._mcp_request.context)
            own = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
            names = {name for name, _ in own}
            kept = [(name, value) for name, value in message["headers"] if name.lower() not in names]
            message = {**message, "headers": [*kept, *own]}
        await self._send(message)


def _replayed(raw: bytes, receive: Receive) -> Receive:
    """Receive the body that was read already, then the messages of the connection."""
    waiting: list[AsgiMessage] = [{"type": "http.request", "body": raw, "more_body": False}]

    async def replay() -> AsgiMessage:
        return waiting.pop() if waiting else await receive()

    return replay


def _version() -> str:
    try:
        return metadata.version("meetcore")
    except metadata.PackageNotFoundError:
        return "0"  # from a checkout that is not installed


def _mcp_request_of(context: Any) -> McpRequest:
    mcp_request = context.request.scope[_REQUEST_KEY]
    assert isinstance(mcp_request, McpRequest)
    return mcp_request
