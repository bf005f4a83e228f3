"""An agent's request, as far as admission needs to know it.

Owns the reading of a message before the protocol does: whether it is a tool call, and of which tool with
which arguments. The message checked here is the one executed later; the protocol's own reading decides
nothing.
"""

from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen
from starlette.requests import Request

from meetcore.adapters.api.answers import ApiResponse, MethodNotAllowed
from meetcore.adapters.api.decoding import decode_json
from meetcore.adapters.api.http_common import DEFAULT_LIMITS, MAX_BODY_BYTES, check_media, read_body
from meetcore.adapters.api.limits import RequestLimits
from meetcore.adapters.api.request_pipeline import RequestContext
from meetcore.domain.errors import DomainError, InvalidRequest
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.queries import Caller

_MAX_SHOWN = 100


@frozen
class Message:
    """The message of a request.

    `tool` and `arguments` are there for a well-formed tool call. `problem` is why it is malformed, reported
    after authentication.
    """

    raw: bytes = field(default=b"", repr=False)
    id: str | int | None = None
    method: str = ""
    tool: str | None = None
    arguments: Mapping[str, Any] = field(factory=dict, repr=False)
    problem: InvalidRequest | None = None

    @property
    def is_tool_call(self) -> bool:
        """Whether it counts against the tool quota."""
        return self.method == "tools/call"

    @property
    def rate_class(self) -> OperationClass:
        """What it counts as: one request is counted once."""
        return OperationClass.TOOL if self.is_tool_call else OperationClass.READ


@define
class McpRequest:
    """A message and its result.

    `refusal` is a refusal that the tool call itself answers. `outcome` is what the tool
    answered, and `code` that of a refusal which no tool answered, for the log and the metrics.
    """

    context: RequestContext
    message: Message
    caller: Caller | None = None
    refusal: DomainError | None = None
    outcome: ApiResponse | None = None
    code: str = ""


async def read_message(request: Request, limits: RequestLimits = DEFAULT_LIMITS) -> Message:
    """Read one message; report what cannot be read in `problem`.

    Raises:
        ClientDisconnect: the client disconnected.
    """
    if request.method != "POST":
        return Message(problem=MethodNotAllowed(request.method, "POST"))
    try:
        check_media(request)
        raw = await read_body(request, MAX_BODY_BYTES, limits)
        value = decode_json(raw)
    except InvalidRequest as problem:
        return Message(problem=problem)
    if not isinstance(value, dict):  # several at once would be let in and counted as one
        return Message(problem=InvalidRequest({"body": ["must be one JSON-RPC message"]}))
    return _message(raw, value)


def _message(raw: bytes, value: dict[str, Any]) -> Message:
    id_, method, params = value.get("id"), value.get("method"), value.get("params")
    tool, arguments = None, None
    if method == "tools/call" and isinstance(params, dict):
        tool, arguments = params.get("name"), params.get("arguments")
    return Message(
        raw,
        id_ if isinstance(id_, str | int) else None,
        method[:_MAX_SHOWN] if isinstance(method, str) else "",
        tool[:_MAX_SHOWN] if isinstance(tool, str) else None,
        arguments if isinstance(arguments, dict) else {},
    )
