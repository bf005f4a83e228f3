"""Read the message of an agent, and the arguments of a tool call.

A message is read before the protocol does; the message checked here is the one executed later. Arguments are
read as strictly as path, query, header and body over HTTP, all problems at once, by the same rules.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from attrs import define, field, frozen
from mcp_types import PROTOCOL_VERSION_META_KEY
from starlette.requests import Request

from meetcore.adapters.api import answers, bodies, decoding, http_common, paging, request_pipeline
from meetcore.adapters.api.operation import Operation, OperationRequest, place_of
from meetcore.adapters.mcp.tools import KEY, chosen_options, costs, path_names
from meetcore.domain.errors import DomainError, InvalidRequest
from meetcore.domain.requests import idempotency, rate_window
from meetcore.ports.queries import Caller

_MAX_SHOWN = 100
_BATCHING, _INSTEAD_OF_BATCHING = "2025-03-26", "2025-06-18"
"""The only revision that has batches, which are not taken here, and the next one."""


@frozen
class Message:
    """The message of a request: a well-formed tool call, or the problem to report after authentication."""

    raw: bytes = field(default=b"", repr=False)
    id: str | int | None = None
    method: str = ""
    tool: str | None = None
    arguments: Mapping[str, Any] = field(factory=dict, repr=False)
    problem: InvalidRequest | None = None
    has_revision: bool = False

    @property
    def is_tool_call(self) -> bool:
        """Whether it counts against the tool quota."""
        return self.method == "tools/call"

    @property
    def rate_class(self) -> rate_window.OperationClass:
        """The quota of the request, which is counted once."""
        return rate_window.OperationClass.TOOL if self.is_tool_call else rate_window.OperationClass.READ


@define
class McpRequest:
    """A message and its result; a refusal of the call itself, or the code of one before it, for the log."""

    context: request_pipeline.RequestContext
    message: Message
    caller: Caller | None = None
    refusal: DomainError | None = None
    outcome: answers.ApiResponse | None = None
    code: str = ""


async def read_message(
    request: Request, limits: http_common.RequestLimits = http_common.DEFAULT_LIMITS
) -> Message:
    """Read one message; report what cannot be read in `problem`. A lost client raises `ClientDisconnect`."""
    if request.method != "POST":
        return Message(problem=answers.MethodNotAllowed(request.method, "POST"))
    try:
        http_common.check_media(request)
        raw = await http_common.read_body(request, http_common.MAX_BODY_BYTES, limits)
        value = decoding.decode_json(raw)
    except InvalidRequest as problem:
        return Message(problem=problem)
    if not isinstance(value, dict):  # several at once would be let in and counted as one
        return Message(problem=InvalidRequest({"body": ["must be one JSON-RPC message"]}))
    return _message(raw, value)


def _message(raw: bytes, value: dict[str, Any]) -> Message:
    id_, method, params = value.get("id"), value.get("method"), value.get("params")
    params = params if isinstance(params, dict) else {}
    tool, arguments = None, None
    if method == "tools/call":
        tool, arguments = params.get("name"), params.get("arguments")
    if method == "initialize" and params.get("protocolVersion") == _BATCHING:
        raw = msgspec.json.encode(value | {"params": params | {"protocolVersion": _INSTEAD_OF_BATCHING}})
    problems = dict(_problems(value))
    return Message(
        raw,
        id_ if type(id_) in (str, int) else None,
        method[:_MAX_SHOWN] if isinstance(method, str) else "",
        tool[:_MAX_SHOWN] if isinstance(tool, str) else None,
        arguments if isinstance(arguments, dict) else {},
        InvalidRequest(problems) if problems else None,
        isinstance(meta := params.get("_meta"), dict) and PROTOCOL_VERSION_META_KEY in meta,
    )


def _problems(value: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Report what is wrong with the form of a message (JSON-RPC 2.0, 4)."""
    if value.get("jsonrpc") != "2.0":
        yield "jsonrpc", ['must be "2.0"']
    if "id" in value and type(value["id"]) not in (str, int):
        yield "id", ["must be a string or an integer"]
    if "method" not in value and ("result" in value or "error" in value):
        name = "result" if "result" in value else "error"  # an answer, though nothing was asked
        if not isinstance(value[name], dict):
            yield name, ["must be an object"]
        return
    method: Any = value.get("method")
    params: Any = value.get("params")
    if not isinstance(method, str):
        yield "method", ["must be a string"]
    if not isinstance(params, dict | None):
        yield "params", ["must be an object"]
    elif method == "tools/call":
        given: dict[str, Any] = params or {}
        if not isinstance(given.get("name"), str):
            yield "params.name", ["must be the name of a tool"]
        if not isinstance(given.get("arguments"), dict | None):
            yield "params.arguments", ["must be an object"]


Arguments = Mapping[str, Any]
Problems = dict[str, list[str]]
Found = TypeVar("Found")


def present(arguments: Arguments, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out each optional argument that is `null`, unless `null` is a value of it.

    Models and frameworks name every argument of a tool, with `null` for those that they do not set.
    """
    known, required = schema["properties"], schema.get("required", ())
    return {
        name: value
        for name, value in arguments.items()
        if value is not None or name in required or name not in known or _takes_null(known[name])
    }


def _takes_null(schema: Mapping[str, Any]) -> bool:
    return any(each.get("type") == "null" for each in schema.get("anyOf", ()))


def ids_of(operation: Operation, arguments: Arguments) -> dict[str, str] | None:
    """Return the ids of an operation's path; `None` when one is missing or is no text."""
    found = {name: arguments.get(name) for name in path_names(operation)}
    texts = {name: value for name, value in found.items() if isinstance(value, str) and value}
    return texts if len(texts) == len(found) else None


def read_arguments(
    operation: Operation, arguments: Arguments, caller: Caller, now: datetime
) -> OperationRequest:
    """Read the arguments of a tool call; raise `InvalidRequest` with the problems of all."""
    problems: Problems = {}
    ids = _read_ids(operation, arguments, problems)
    key = _read_key(operation, arguments, problems)
    own = {*ids, KEY} if operation.is_mutating else {*ids}
    remaining = {name: value for name, value in arguments.items() if name not in own}
    request = OperationRequest(caller, now, place_of(operation, ids), ids, key=key)
    try:
        _read_remaining(operation, remaining, request)
    except InvalidRequest as error:
        problems |= _fields_of(error)
    if problems:
        raise InvalidRequest(problems)
    return request


def _read_ids(operation: Operation, arguments: Arguments, problems: Problems) -> dict[str, str]:
    ids = ids_of(operation, arguments)
    if ids is not None:
        return ids
    for name in path_names(operation):
        if name not in arguments:
            problems[name] = ["is required"]
        elif not isinstance(arguments[name], str) or not arguments[name]:
            problems[name] = ["must be a string of at least one character"]
    return dict.fromkeys(path_names(operation), "")


def _read_key(operation: Operation, arguments: Arguments, problems: Problems) -> str | None:
    if not operation.is_mutating:
        return None
    if KEY not in arguments:
        if costs(operation):
            problems[KEY] = ["is required"]
        return None
    key = arguments[KEY]
    if not (isinstance(key, str) and idempotency.is_idempotency_key(key)):
        problems[KEY] = ["must be 1 to 255 visible ASCII characters"]
    return str(key)


def _read_remaining(operation: Operation, remaining: dict[str, Any], request: OperationRequest) -> None:
    if operation.listing is not None:
        request.page = _read_page(operation.listing, remaining, request.place)
    elif operation.body is not None:
        request.value, request.body = remaining, decoding.decode_body(remaining, operation.body)
    else:
        options = chosen_options(operation)
        # An operation without a body over HTTP takes no further argument.
        decoding.decode_body(
            {name: value for name, value in remaining.items() if name not in options}, bodies.NoBody
        )
        types = {name: each.schema.get("type") for name, each in options.items()}
        chosen = {name: value for name, value in remaining.items() if name in options}
        request.options = _read_query(chosen, types, lambda query: paging.read_options(query, options))


def _read_page(listing: paging.Listing, remaining: Arguments, place: str) -> paging.Page:
    types = {name: each.schema.get("type") for name, each in listing.filters.items()}
    types |= {"limit": "integer", "cursor": "string"}
    return _read_query(remaining, types, lambda query: paging.read_page(query, listing, place))


def _read_query(
    given: Arguments, types: Mapping[str, object], read: Callable[[dict[str, list[str]]], Found]
) -> Found:
    """Read arguments that are parameters of a query over HTTP, after their types in the schema.

    Unknown names are passed on unchanged.
    """
    problems: Problems = {}
    query: dict[str, list[str]] = {}
    for name, value in given.items():
        value = decoding.whole(value)
        kind, type_name = _TYPES.get(types.get(name), _TYPES["string"])
        if type(value) is kind or name not in types:
            query[name] = [str(value).lower() if kind is bool else str(value)]
        else:
            problems[name] = [f"must be {type_name}"]
    try:
        found = read(query)
    except InvalidRequest as error:
        raise InvalidRequest(problems | _fields_of(error)) from None
    if problems:
        raise InvalidRequest(problems)
    return found


_TYPES: Mapping[object, tuple[type, str]] = {
    "integer": (int, "an integer"), "boolean": (bool, "a boolean"), "string": (str, "a string"),
}  # fmt: skip


def _fields_of(refusal: InvalidRequest) -> Problems:
    fields = refusal.details["fields"]
    assert isinstance(fields, dict)
    return fields
