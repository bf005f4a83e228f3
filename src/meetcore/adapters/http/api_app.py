"""The application of `/api/v1`: every request passes the same checks in the same order.

request id → authenticate (401) → rate limit (429) → route and method (404, 405) → scope (403) →
parse and validate (400) → the work. Every error has the envelope of spec 7; every answer has
X-Request-Id and the rate headers of part 8, all made of one instant.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import structlog
from attrs import evolve, frozen
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from meetcore.adapters.api.answers import JSON, ApiResponse, MethodNotAllowed, render_error
from meetcore.adapters.api.bodies import NoBody
from meetcore.adapters.api.decoding import decode_body, decode_json
from meetcore.adapters.api.http_common import (
    DEFAULT_LIMITS,
    MAX_BODY_BYTES,
    check_media,
    common_headers,
    headers_of,
    read_body,
)
from meetcore.adapters.api.limits import RequestLimits
from meetcore.adapters.api.log_fields import loggable_path
from meetcore.adapters.api.operation import API_ROOT, Operation, UseCases
from meetcore.adapters.api.operations import OPERATIONS
from meetcore.adapters.api.paging import Page, read_options, read_page
from meetcore.adapters.api.query import read_query
from meetcore.adapters.api.request_pipeline import ParsedRequest, RequestContext, RequestPipeline
from meetcore.adapters.http.whole_answers import write_whole
from meetcore.domain.errors import InvalidRequest, NotFound
from meetcore.domain.requests.idempotency import is_key
from meetcore.domain.requests.keys import require_scope
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.log_fields import logged_with
from meetcore.ports.queries import NO_INCLUDES
from meetcore.usecases.admit import Admit
from meetcore.usecases.runtime import Runtime

log = structlog.get_logger("meetcore.http")


@frozen
class _Match:
    """The operation that a request matches.

    `allow` names the methods that the path knows, `template` is the path with the names of its ids; both are
    there for a method that it does not know, too.
    """

    operation: Operation | None
    path: dict[str, str]
    allow: str
    template: str = ""

    @property
    def rate_class(self) -> OperationClass:
        return OperationClass.READ if self.operation is None else self.operation.rate_class

    @property
    def label(self) -> str:
        """The operation's name among the metrics; one name for every request that matches none."""
        return "unknown" if self.operation is None else self.operation.label


class ApiApp:
    """The ASGI application of the API, on a `RequestPipeline` of the same arguments.

    Args:
        document: gives the OpenAPI document of an instant; it needs no key.
        limits: how large the query and how slow the body of a request may be.
    """

    def __init__(
        self,
        use: UseCases,
        admit: Admit,
        runtime: Runtime,
        base_url: str,
        document: Callable[[datetime], bytes],
        limits: RequestLimits = DEFAULT_LIMITS,
    ) -> None:
        self._limits = limits
        self._pipeline = RequestPipeline(use, admit, runtime, base_url)
        self._base_url = base_url
        self._document = document
        self._routes: list[tuple[re.Pattern[str], str, Mapping[str, Operation]]] = []
        self._fixed: dict[tuple[str, str], _Match] = {}
        for path in dict.fromkeys(operation.path for operation in OPERATIONS):
            known = {operation.method: operation for operation in OPERATIONS if operation.path == path}
            pattern = re.compile(API_ROOT + re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))
            self._routes.append((pattern, path, known))
            if "{" not in path:
                for method in known:
                    self._fixed[method, API_ROOT + path] = self._search(method, API_ROOT + path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; raise nothing but `ClientDisconnect`."""
        match = self._match(scope["method"], scope["path"])
        context = self._pipeline.open(match.rate_class)
        with logged_with(request_id=context.request_id):
            await self._answer(match, context, scope, receive, send)

    async def _answer(
        self, match: _Match, context: RequestContext, scope: Scope, receive: Receive, send: Send
    ) -> None:
        request = Request(scope, receive)
        extra: dict[str, str] = {}
        try:
            rendered, is_replay = await self._process(request, match, context)
            if is_replay:
                extra["Idempotent-Replayed"] = "true"
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001  (whatever it is, the caller gets an envelope)
            refusal = self._pipeline.to_domain_error(error, context)
            rendered = render_error(refusal, self._base_url, context.request_id)
            extra |= headers_of(refusal)
        if rendered.location is not None:
            extra["Location"] = self._base_url + rendered.location
        headers = common_headers(context) | extra
        await _send(rendered, headers, scope, receive, send)
        took_ms = self._pipeline.took_ms(context)
        self._pipeline.count(context, match.label, rendered, took_ms)
        log.info(
            "request", method=scope["method"], path=loggable_path(scope["path"]), status=rendered.status,
            request_id=context.request_id, key_id=context.key_id, duration_ms=took_ms,
        )  # fmt: skip
        self._pipeline.keep(context, scope["method"], match.template, rendered.status, took_ms)

    def answer_to_unread(self, refusal: InvalidRequest) -> Response:
        """Answer a request that was never complete; nothing is counted."""
        context = self._pipeline.open(OperationClass.READ)
        rendered = render_error(refusal, self._base_url, context.request_id)
        log.info(
            "request refused", status=rendered.status, request_id=context.request_id,
            fields=refusal.details["fields"],
        )  # fmt: skip
        headers = common_headers(context) | headers_of(refusal)
        return Response(rendered.body, rendered.status, headers, rendered.media_type)

    def _match(self, method: str, path: str) -> _Match:
        return self._fixed.get((method, path)) or self._search(method, path)

    def _search(self, method: str, path: str) -> _Match:
        for pattern, template, known in self._routes:
            if found := pattern.fullmatch(path):
                return _Match(known.get(method), found.groupdict(), ", ".join(sorted(known)), template)
        is_document = path == f"{API_ROOT}/openapi.json"
        return _Match(None, {}, "GET", "/openapi.json") if is_document else _Match(None, {}, "")

    async def _process(
        self, request: Request, match: _Match, context: RequestContext
    ) -> tuple[ApiResponse, bool]:
        if request.method == "GET" and request.scope["path"] == f"{API_ROOT}/openapi.json":
            return ApiResponse(200, self._document(context.now)), False
        operation = match.operation
        includes = NO_INCLUDES if operation is None else operation.includes(match.path, context.now)
        authorization = request.headers.get("authorization")
        if includes.state_on is not None:
            key = request.headers.get("idempotency-key", "")
            includes = evolve(includes, idempotency_key=key if is_key(key) else None)
        caller = await self._pipeline.authenticate(context, authorization, includes)
        if operation is None:
            if match.allow:
                raise MethodNotAllowed(request.method, match.allow)
            raise NotFound("No such path. The API is described at /api/v1/openapi.json.")
        require_scope(caller.key, operation.scopes)
        raw, took_s = await self._read_body(request, operation)
        if took_s > self._limits.recheck_after_s:
            caller = await self._pipeline.judge_again(context, authorization, includes)
        parsed = self._parsed(request, raw, match.path, operation)
        return await self._pipeline.dispatch(context, caller, operation, parsed)

    async def _read_body(self, request: Request, operation: Operation) -> tuple[bytes, float]:
        """Read the body, empty if the operation ignores it, and the seconds that it took."""
        if operation.body is not None:
            check_media(request)
        elif not (operation.is_mutating and _may_have_body(request.headers)):
            return b"", 0.0
        start = self._pipeline.runtime.now()
        raw = await read_body(request, MAX_BODY_BYTES, self._limits)
        return raw, (self._pipeline.runtime.now() - start).total_seconds()

    def _parsed(
        self, request: Request, raw: bytes, ids: dict[str, str], operation: Operation
    ) -> ParsedRequest:
        value, body = _decoded(request, raw, operation)
        key = _idempotency_key(request.headers) if operation.is_mutating else None
        listing, path = operation.listing, request.scope["path"]
        page, options = Page(), {}
        if listing is not None or operation.options:
            query = read_query(request.scope["query_string"], self._limits)
            page = Page() if listing is None else read_page(query, listing, path)
            options = read_options(query, operation.options) if operation.options else {}
        return ParsedRequest(path, ids, value, body, key, page, options)


async def _send(
    answer: ApiResponse, headers: Mapping[str, str], scope: Scope, receive: Receive, send: Send
) -> None:
    # What the server or the framework has to look at takes the way through them.
    is_plain = answer.body and answer.media_type == JSON and "Connection" not in headers
    if is_plain and write_whole(send, answer.status, headers, answer.media_type, answer.body):
        return
    # What has no body has no type either.
    media_type = answer.media_type if answer.body else None
    await Response(answer.body, answer.status, headers, media_type)(scope, receive, send)


def _idempotency_key(headers: Headers) -> str | None:
    keys = headers.getlist("idempotency-key")
    if len(keys) > 1 or (keys and not is_key(keys[0])):
        raise InvalidRequest({"Idempotency-Key": ["must be one value of 1 to 255 visible ASCII characters"]})
    return keys[0] if keys else None


def _decoded(request: Request, raw: bytes, operation: Operation) -> tuple[Any, Any]:
    """Return the body as a JSON value and decoded; `None` for both if the operation takes none."""
    if operation.body is not None:
        value = decode_json(raw)
        return value, decode_body(value, operation.body)
    if raw:
        # A field in it would be ignored silently; the empty object, which some clients send, is allowed.
        check_media(request)
        decode_body(decode_json(raw), NoBody)
    return None, None


def _may_have_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
