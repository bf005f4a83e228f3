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

import msgspec
import structlog
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ListedTool
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message as AsgiMessage
from starlette.types import Receive, Scope, Send

from meetcore.adapters.api import answers, http_common, operation, request_pipeline
from meetcore.adapters.api.operations import OPERATIONS
from meetcore.adapters.mcp import confirmation, resources
from meetcore.adapters.mcp.arguments import McpRequest, Message, ids_of, present, read_arguments, read_message
from meetcore.adapters.mcp.oauth_routes import SCOPES_FOR_BOOKING, metadata_url
from meetcore.adapters.mcp.tools import FOR_BOOKING, INSTRUCTIONS, KEY, Tool, costs, tools_of
from meetcore.domain.errors import (
    DomainError,
    InsufficientScope,
    InvalidApiKey,
    InvalidRequest,
    RateLimited,
    ServiceUnavailable,
)
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.requests import idempotency
from meetcore.domain.requests.keys import require_scope
from meetcore.ports import observability, queries
from meetcore.usecases.requests.admit import Admit
from meetcore.usecases.runtime import Runtime

_REQUEST_KEY = "meetcore.mcp_request"
_ACCEPT = (b"accept", b"application/json, text/event-stream")

log = structlog.get_logger("meetcore.mcp")


class McpApp:
    """The ASGI application of the agent interface, made of `RequestPipeline`'s arguments; `open` it first.

    `is_for_booking`: the tools of webhooks, events and payments are left out. `has_grants`: access tokens of
    grants are taken, and a refusal says where they are given.
    """

    def __init__(
        self,
        use: operation.UseCases,
        admit: Admit,
        runtime: Runtime,
        base_url: str,
        limits: http_common.RequestLimits = http_common.DEFAULT_LIMITS,
        is_for_booking: bool = False,
        has_grants: bool = False,
    ) -> None:
        self._limits, self._has_grants = limits, has_grants
        self._pipeline = request_pipeline.RequestPipeline(use, admit, runtime, base_url, has_grants)
        self._base_url = base_url
        tools = tools_of(OPERATIONS)
        self._tools = {tool.name: tool for tool in tools if not is_for_booking or tool.name in FOR_BOOKING}
        self._listings = {name: tool_listing(tool) for name, tool in self._tools.items()}
        place = urlsplit(base_url)
        self._origin = f"{place.scheme}://{place.netloc}".lower()
        server: Server[Any] = Server(
            "meetcore", version=_version(), title="Meetings and notes",
            instructions=INSTRUCTIONS, website_url=f"{base_url}/docs",
            get_tool_input_schema=self._input_schema, on_list_tools=self._list_tools,
            on_call_tool=self._call_tool, on_list_resource_templates=_list_templates,
            on_read_resource=self._read_resource,
        )  # fmt: skip
        self._manager = StreamableHTTPSessionManager(
            server, stateless=True, json_response=True, max_request_body_size=http_common.MAX_BODY_BYTES
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
        with observability.logged_with(request_id=mcp_request.context.request_id):
            await self._answer(request, mcp_request, reply, receive)

    async def _answer(
        self, request: Request, mcp_request: McpRequest, reply: "_Reply", receive: Receive
    ) -> None:
        message, scope = mcp_request.message, request.scope
        try:
            await self._admit(request, mcp_request)
            # The answer is JSON whatever a client accepts, which RFC 9110 (12.5.1) lets a server decide.
            headers = [(name, value) for name, value in scope["headers"] if name != b"accept"]
            inside = {**scope, "headers": [*headers, _ACCEPT], _REQUEST_KEY: mcp_request}
            await self._manager.handle_request(inside, _replayed(message.raw, receive), reply)
        except Exception as error:  # noqa: BLE001  (the caller gets an error of the service for any fault)
            refusal = self._pipeline.to_domain_error(error, mcp_request.context)
            if reply.status is None:
                mcp_request.code = refusal.code
                await self._refuse(refusal, mcp_request, request.headers)(scope, receive, reply)
        self._log(mcp_request, reply.status)

    def _log(self, mcp_request: McpRequest, status: int | None) -> None:
        """Log and count a request that was answered with a status over HTTP."""
        message, context = mcp_request.message, mcp_request.context
        answer = mcp_request.outcome or answers.ApiResponse(status or 0, b"", code=mcp_request.code)
        tool = self._tools.get(message.tool or "")
        label, name, path = (
            ("agent", "", None) if tool is None else (f"tool {tool.name}", tool.name, tool.operation.path)
        )
        took_ms = self._pipeline.finish(context, answer, label, name, path)
        log.info(
            "agent request", method=message.method, tool=message.tool, status=answer.status or None,
            request_id=context.request_id, key_id=context.key_id, duration_ms=took_ms,
            **http_common.subject_of(context.subject_id),
        )  # fmt: skip

    async def _admit(self, request: Request, mcp_request: McpRequest) -> None:
        """Authenticate, count and read a request; raise a `DomainError` that no tool can answer."""
        message, headers = mcp_request.message, request.headers
        if headers.get("origin", self._origin).lower() != self._origin:
            raise answers.OriginNotAllowed
        try:
            includes = self._includes_of(message, mcp_request.context.now)
            mcp_request.caller = await self._pipeline.authenticate(
                mcp_request.context, http_common.authorization_of(headers), includes
            )
        except Exception as error:  # noqa: BLE001  (a tool call returns it itself)
            refusal = self._pipeline.to_domain_error(error, mcp_request.context)
            if isinstance(refusal, InvalidApiKey) or not message.is_tool_call:
                raise refusal from None
            mcp_request.refusal = refusal
        tool, caller = self._tools.get(message.tool or ""), mcp_request.caller
        if tool is not None and caller is not None and caller.key.client_id is not None:
            require_scope(caller.key, tool.operation.scopes)  # its client can ask for another grant
        if message.problem is not None:
            raise mcp_request.refusal or message.problem
        version = headers.get("mcp-protocol-version", KNOWN_PROTOCOL_VERSIONS[0])
        if version not in KNOWN_PROTOCOL_VERSIONS and not message.has_revision:
            known = ", ".join(KNOWN_PROTOCOL_VERSIONS)
            raise InvalidRequest({"MCP-Protocol-Version": [f"must be one of {known}"]})

    def _includes_of(self, message: Message, now: datetime) -> queries.CallerIncludes:
        tool = self._tools.get(message.tool or "")
        ids = None if tool is None else ids_of(tool.operation, message.arguments)
        if tool is None or ids is None:
            return queries.NO_INCLUDES
        if not costs(tool.operation):
            return tool.operation.includes(ids, now)
        key = message.arguments.get(KEY)
        is_key = isinstance(key, str) and idempotency.is_idempotency_key(key)
        return queries.CallerIncludes(state_on=cap_day(now), idempotency_key=key if is_key else None)

    def _refuse(self, refusal: DomainError, mcp_request: McpRequest, sent: Headers) -> Response:
        body = protocol_refusal(
            refusal, mcp_request.message.id, self._base_url, mcp_request.context.request_id
        )
        headers = answers.headers_of(refusal)
        if self._has_grants and isinstance(refusal, InvalidApiKey | InsufficientScope):
            headers["WWW-Authenticate"] = _challenge(refusal, "authorization" in sent, self._base_url)
        return Response(body, answers.status_of(refusal), headers, "application/json")

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        tool = self._tools.get(name)
        return None if tool is None else tool.input_schema

    async def _list_tools(self, context: Any, _: object) -> ListToolsResult:
        caller = _mcp_request_of(context).caller
        assert caller is not None
        open_ = [name for name, tool in self._tools.items() if tool.is_open_to(caller.key)]
        return ListToolsResult(tools=[self._listings[name] for name in open_])

    async def _call_tool(
        self, call: Any, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        mcp_request = _mcp_request_of(call)
        context, message = mcp_request.context, mcp_request.message
        tool = self._tools.get(message.tool or "")
        if tool is None and mcp_request.refusal is None:
            raise MCPError(INVALID_PARAMS, "There is no such tool. tools/list names the tools.")
        try:
            operation_, parsed = self._read(mcp_request, tool)
            meta: dict[str, object] = {REQUEST_ID: context.request_id}
            unconfirmed = await confirmation.ask(call, params, self._pipeline.use, parsed, meta)
            if unconfirmed is not None:
                return unconfirmed
            rendered = await self._pipeline.dispatch(context, operation_, parsed)
        except Exception as error:  # noqa: BLE001  (any fault becomes an envelope)
            refusal = self._pipeline.to_domain_error(error, context)
            rendered = refused(refusal, self._base_url, context.request_id)
        mcp_request.outcome = rendered
        return tool_result(rendered, context)

    async def _read_resource(self, context: Any, wanted: ReadResourceRequestParams) -> ReadResourceResult:
        mcp_request = _mcp_request_of(context)
        context, caller = mcp_request.context, mcp_request.caller
        assert caller is not None
        try:
            resource = resources.find_resource(wanted.uri)
            require_scope(caller.key, resource.operation.scopes)
            parsed = resources.request_of(resource, wanted.uri, caller, context.now)
            rendered = await self._pipeline.dispatch(context, resource.operation, parsed)
        except Exception as error:  # noqa: BLE001  (any fault becomes an envelope)
            refusal = self._pipeline.to_domain_error(error, context)
            mcp_request.outcome = refused(refusal, self._base_url, context.request_id)
            error_data = msgspec.json.decode(mcp_request.outcome.body)["error"]
            raise MCPError(_REFUSED, refusal.message, error_data) from None
        mcp_request.outcome = rendered
        return resources.result_of(resource, wanted.uri, rendered.body)

    def _read(
        self, mcp_request: McpRequest, tool: Tool | None
    ) -> tuple[operation.Operation, operation.OperationRequest]:
        message, caller = mcp_request.message, mcp_request.caller
        if mcp_request.refusal is not None:
            raise mcp_request.refusal
        assert message.is_tool_call
        assert caller is not None
        assert tool is not None
        require_scope(caller.key, tool.operation.scopes)
        arguments = present(message.arguments, tool.input_schema)
        return tool.operation, read_arguments(tool.operation, arguments, caller, mcp_request.context.now)


class _Reply:
    """Passes an answer on, with the headers of every answer."""

    def __init__(self, send: Send, mcp_request: McpRequest) -> None:
        self._send = send
        self._mcp_request = mcp_request
        self.status: int | None = None

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            headers = request_pipeline.common_headers(self._mcp_request.context)
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


def _challenge(refusal: InvalidApiKey | InsufficientScope, has_token: bool, base_url: str) -> str:
    """Build the challenge of RFC 6750, 3, with the resource's metadata (RFC 9728, 5.1) and wanted scopes."""
    if isinstance(refusal, InsufficientScope):
        error, scopes = 'error="insufficient_scope", ', refusal.details["required"]
    else:
        error, scopes = 'error="invalid_token", ' if has_token else "", SCOPES_FOR_BOOKING
    assert isinstance(scopes, list | tuple)
    wanted, place = " ".join(scopes), metadata_url(base_url)
    return f'Bearer realm="meetcore", {error}scope="{wanted}", resource_metadata="{place}"'


async def _list_templates(_context: Any, _wanted: object) -> ListResourceTemplatesResult:
    return resources.TEMPLATES


def _version() -> str:
    try:
        return metadata.version("meetcore")
    except metadata.PackageNotFoundError:
        return "0"  # from a checkout that is not installed


def _mcp_request_of(context: Any) -> McpRequest:
    mcp_request = context.request.scope[_REQUEST_KEY]
    assert isinstance(mcp_request, McpRequest)
    return mcp_request


REQUEST_ID = "meetcore/request_id"
REPLAYED = "meetcore/idempotent_replayed"
ERROR = "meetcore/error"
_DONE = "Deleted. No content."
_INVALID_REQUEST = -32600
_REFUSED = -32000


def tool_listing(tool: Tool) -> ListedTool:
    """Build the listing of a tool."""
    return ListedTool(
        name=tool.name,
        title=tool.operation.summary,
        description=tool.description,
        input_schema=tool.input_schema,
        annotations=ToolAnnotations(
            read_only_hint=tool.is_read_only,
            destructive_hint=tool.is_destructive,
            idempotent_hint=tool.is_idempotent,
            open_world_hint=tool.operation.reaches_out,
        ),
    )


def tool_result(rendered: answers.ApiResponse, context: request_pipeline.RequestContext) -> CallToolResult:
    """Turn an answer into a tool result: the same JSON as text, and as a value.

    A refusal's value is in `_meta`: some clients validate any structured content against the tool's output
    schema, and drop what does not fit.
    """
    meta: dict[str, object] = {REQUEST_ID: context.request_id}
    if rendered.is_replay:
        meta[REPLAYED] = True
    content = TextContent(type="text", text=rendered.body.decode() or _DONE)
    value = msgspec.json.decode(rendered.body) if rendered.body else {}
    if rendered.status >= 400:
        return CallToolResult(content=[content], is_error=True, _meta=meta | {ERROR: value["error"]})
    return CallToolResult(content=[content], structured_content=value, _meta=meta)


def refused(error: DomainError, base_url: str, request_id: str) -> answers.ApiResponse:
    """Render a refusal. The value of `Retry-After` is in its details: agents see no headers."""
    details = dict(error.details)
    if isinstance(error, RateLimited | ServiceUnavailable):
        details["retry_after_seconds"] = error.retry_after_s
    envelope = answers.envelope_of(error.code, error.message, base_url, request_id, details)
    return answers.ApiResponse(answers.status_of(error), msgspec.json.encode(envelope), code=error.code)


def protocol_refusal(error: DomainError, id_: str | int | None, base_url: str, request_id: str) -> bytes:
    """Build the body of a refused request: a JSON-RPC error whose `data` is the error of spec 7."""
    error_data = msgspec.json.decode(refused(error, base_url, request_id).body)["error"]
    code = _INVALID_REQUEST if isinstance(error, InvalidRequest) else _REFUSED
    return msgspec.json.encode(
        {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": error.message, "data": error_data}}
    )
