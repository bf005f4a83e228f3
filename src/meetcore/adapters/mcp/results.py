"""Answers in the protocol's forms: a tool's result, and the refusal of a request that no tool answers."""

import msgspec
from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from meetcore.adapters.api.answers import ApiResponse, envelope_of, status_of
from meetcore.adapters.api.request_pipeline import RequestContext
from meetcore.adapters.mcp.tools import Tool as KnownTool
from meetcore.domain.errors import DomainError, InvalidRequest, RateLimited, ServiceUnavailable

REQUEST_ID = "meetcore/request_id"
REPLAYED = "meetcore/idempotent_replayed"
ERROR = "meetcore/error"
_DONE = "Done; there is nothing to say."
_INVALID_REQUEST = -32600
_REFUSED = -32000


def tool_listing(tool: KnownTool) -> Tool:
    """Build the listing of a tool."""
    return Tool(
        name=tool.name,
        title=tool.operation.summary,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=ToolAnnotations(
            read_only_hint=tool.is_read_only,
            destructive_hint=tool.is_destructive,
            idempotent_hint=tool.is_idempotent,
            open_world_hint=False,
        ),
    )


def tool_result(rendered: ApiResponse, context: RequestContext, *, is_replay: bool) -> CallToolResult:
    """Turn an answer of the API into a tool result: the same JSON as text, and as a value.

    A refusal's value is in `_meta`: some clients validate any structured content against the tool's output
    schema, and drop what does not fit.
    """
    meta: dict[str, object] = {REQUEST_ID: context.request_id}
    if is_replay:
        meta[REPLAYED] = True
    content = TextContent(type="text", text=rendered.body.decode() or _DONE)
    value = msgspec.json.decode(rendered.body) if rendered.body else {}
    if rendered.status >= 400:
        return CallToolResult(content=[content], is_error=True, _meta=meta | {ERROR: value["error"]})
    return CallToolResult(content=[content], structured_content=value, _meta=meta)


def refused(error: DomainError, base_url: str, request_id: str) -> ApiResponse:
    """Render a refusal. The value of `Retry-After` is in its details: agents see no headers."""
    details = dict(error.details)
    if isinstance(error, RateLimited | ServiceUnavailable):
        details["retry_after_seconds"] = error.retry_after_s
    envelope = envelope_of(error.code, error.message, base_url, request_id, details)
    return ApiResponse(status_of(error), msgspec.json.encode(envelope), code=error.code)


def protocol_refusal(error: DomainError, id_: str | int | None, base_url: str, request_id: str) -> bytes:
    """Build the body of a refused request: a JSON-RPC error whose `data` is the error of spec 7."""
    error_data = msgspec.json.decode(refused(error, base_url, request_id).body)["error"]
    code = _INVALID_REQUEST if isinstance(error, InvalidRequest) else _REFUSED
    return msgspec.json.encode(
        {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": error.message, "data": error_data}}
    )
