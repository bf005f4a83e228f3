"""The application of `/api/v1`: every request passes the same checks in the same order.

request id → authenticate (401) → rate limit (429) → route and method (404, 405) → scope (403) →
parse and validate (400) → the work. Every error has the envelope of spec 7; every answer has
X-Request-Id and the rate headers of part 8, all made of one instant.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import Any

import structlog
from attrs import evolve, frozen
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from meetcore.adapters.api import answers, bodies, decoding, http_common, paging, request_pipeline
from meetcore.adapters.api.operation import API_ROOT, Operation, OperationRequest, UseCases, place_of
from meetcore.adapters.api.operations import OPERATIONS
from meetcore.domain.errors import InvalidRequest, NotFound
from meetcore.domain.requests import idempotency, rate_window
from meetcore.domain.requests.keys import require_scope
from meetcore.ports import observability, queries
from meetcore.usecases.requests.admit import Admit
from meetcore.usecases.runtime import Runtime

log = structlog.get_logger("meetcore.http")

_ID = re.compile(r"(?<=/)[0-9a-fA-F-]{36}(?=/|$)")
_MAX_COMPARED = 100
"""Characters of an unknown path that are compared with those of operations."""


@frozen
class _Match:
    """The operation that a request matches, if any; `allow` names the methods that its path knows."""

    operation: Operation | None
    path: dict[str, str]
    allow: str
    template: str = ""
    is_document: bool = False

    @property
    def rate_class(self) -> rate_window.OperationClass:
        return rate_window.OperationClass.READ if self.operation is None else self.operation.rate_class

    @property
    def label(self) -> str:
        """The operation's name among the metrics; one name for every request that matches none."""
        return "unknown" if self.operation is None else self.operation.label


class ApiApp:
    """The ASGI application of the API, on a `RequestPipeline` of the same arguments.

    `document` gives the OpenAPI document of an instant, without a key; `limits` are those of query and body.
    """

    def __init__(
        self,
        use: UseCases,
        admit: Admit,
        runtime: Runtime,
        base_url: str,
        document: Callable[[datetime], bytes],
        limits: http_common.RequestLimits = http_common.DEFAULT_LIMITS,
    ) -> None:
        self._limits = limits
        self._pipeline = request_pipeline.RequestPipeline(use, admit, runtime, base_url)
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
        method, path, pipeline = scope["method"], scope["path"], self._pipeline
        match = self._fixed.get((method, path)) or self._search(method, path)
        context = pipeline.open(match.rate_class)
        with observability.logged_with(request_id=context.request_id):
            extra: dict[str, str] = {}
            try:
                answer = await self._process(Request(scope, receive), match, context)
            except ClientDisconnect:
                return
            except Exception as error:  # noqa: BLE001  (any fault becomes an envelope)
                refusal = pipeline.to_domain_error(error, context)
                answer = answers.render_error(refusal, self._base_url, context.request_id)
                extra |= answers.headers_of(refusal)
            if answer.is_replay:
                extra["Idempotent-Replayed"] = "true"
            if answer.location is not None:
                extra["Location"] = self._base_url + answer.location
            await _send(answer, request_pipeline.common_headers(context) | extra, scope, receive, send)
            took_ms = pipeline.finish(context, answer, match.label, method, match.template)
            log.info(
                "request", method=method, path=http_common.loggable_path(path), status=answer.status,
                request_id=context.request_id, key_id=context.key_id, duration_ms=took_ms,
                **http_common.subject_of(context.subject_id),
            )  # fmt: skip

    def answer_to_unread(self, refusal: InvalidRequest) -> Response:
        """Answer a request that was never complete; nothing is counted."""
        context = self._pipeline.open(rate_window.OperationClass.READ)
        rendered = answers.render_error(refusal, self._base_url, context.request_id)
        log.info(
            "request refused", status=rendered.status, request_id=context.request_id,
            fields=refusal.details["fields"],
        )  # fmt: skip
        headers = request_pipeline.common_headers(context) | answers.headers_of(refusal)
        return Response(rendered.body, rendered.status, headers, rendered.media_type)

    def _search(self, method: str, path: str) -> _Match:
        for pattern, template, known in self._routes:
            if found := pattern.fullmatch(path):
                return _Match(known.get(method), found.groupdict(), ", ".join(sorted(known)), template)
        if path == f"{API_ROOT}/openapi.json":
            return _Match(None, {}, "GET, HEAD", "/openapi.json", is_document=method in ("GET", "HEAD"))
        return _Match(None, {}, "")

    def _unknown_path(self, path: str) -> str:
        """Return the message for a path of no operation: it names the nearest one, never the path itself."""
        asked = _ID.sub("{id}", path.removeprefix(API_ROOT)[:_MAX_COMPARED])
        near = get_close_matches(asked, [template for _, template, _ in self._routes], n=1, cutoff=0.75)
        hint = f" Did you mean {near[0]}?" if near else ""
        return f"No such path.{hint} The API is described at {API_ROOT}/openapi.json."

    async def _process(
        self, request: Request, match: _Match, context: request_pipeline.RequestContext
    ) -> answers.ApiResponse:
        """Authenticate, count, read, parse and execute a request."""
        operation, headers = match.operation, request.headers
        if match.is_document:
            return answers.ApiResponse(200, self._document(context.now))
        includes_at = partial(_includes_at, match, headers)
        authorization = http_common.authorization_of(headers)
        caller = await self._pipeline.authenticate(context, authorization, includes_at(context.now))
        if operation is None:
            if match.allow:
                raise answers.MethodNotAllowed(request.method, match.allow)
            raise NotFound(self._unknown_path(request.scope["path"]))
        require_scope(caller.key, operation.scopes)
        raw = b""
        if operation.body is not None:
            http_common.check_media(request)
        if operation.body is not None or (operation.is_mutating and _may_have_body(headers)):
            start = self._pipeline.runtime.now()
            raw = await http_common.read_body(request, http_common.MAX_BODY_BYTES, self._limits)
            if (self._pipeline.runtime.now() - start).total_seconds() > self._limits.recheck_after_s:
                caller = await self._pipeline.judge_again(context, authorization, includes_at)
        parsed = self._parse(request, raw, match.path, operation, caller, context.now)
        return await self._pipeline.dispatch(context, operation, parsed)

    def _parse(
        self, request: Request, raw: bytes, ids: dict[str, str], operation: Operation, caller: queries.Caller,
        now: datetime,
    ) -> OperationRequest:  # fmt: skip
        listing, path = operation.listing, place_of(operation, ids)
        try:
            value, body = _decoded(request, raw, operation)
            query = http_common.read_query(request.scope["query_string"], self._limits)
            page = paging.Page() if listing is None else paging.read_page(query, listing, path)
            options = paging.read_options(query, operation.options) if operation.options else {}
        except InvalidRequest as refusal:
            if operation.is_mutating and not isinstance(refusal, answers.HttpRefusal):
                _idempotency_key(request.headers, refusal.details["fields"])
            raise
        key = _idempotency_key(request.headers) if operation.is_mutating else None
        return OperationRequest(caller, now, path, ids, value, body, key, page, options)


def _includes_at(match: _Match, headers: Headers, now: datetime) -> queries.CallerIncludes:
    """Return what is read with the caller at an instant."""
    if match.operation is None:
        return queries.NO_INCLUDES
    includes = match.operation.includes(match.path, now)
    if includes.state_on is None:
        return includes
    key = headers.get("idempotency-key", "")
    return evolve(includes, idempotency_key=key if idempotency.is_idempotency_key(key) else None)


async def _send(
    answer: answers.ApiResponse, headers: Mapping[str, str], scope: Scope, receive: Receive, send: Send
) -> None:
    # No body, no media type.
    media_type = answer.media_type if answer.body else None
    await Response(answer.body, answer.status, headers, media_type)(scope, receive, send)


def _idempotency_key(headers: Headers, problems: Any = MappingProxyType({})) -> str | None:
    """Read the key; raise `InvalidRequest` for a wrong one, with the problems of the other fields."""
    keys = headers.getlist("idempotency-key")
    if len(keys) > 1 or (keys and not idempotency.is_idempotency_key(keys[0])):
        problem = "must be one value of 1 to 255 visible ASCII characters"
        raise InvalidRequest({**problems, "Idempotency-Key": [problem]})
    return keys[0] if keys else None


def _decoded(request: Request, raw: bytes, operation: Operation) -> tuple[Any, Any]:
    """Return the body as a JSON value and decoded; `None` for both if the operation takes none."""
    if operation.body is not None:
        value = decoding.decode_json(raw)
        return value, decoding.decode_body(value, operation.body)
    if raw:
        # A field in it would be ignored silently; the empty object, which some clients send, is allowed.
        http_common.check_media(request)
        decoding.decode_body(decoding.decode_json(raw), bodies.NoBody)
    return None, None


def _may_have_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
