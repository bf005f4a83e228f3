"""The gate of `/api/v1`: every request walks through the same checks in the same order.

request id → authenticate (401) → rate limit (429) → route and method (404, 405) → scope (403) →
parse and validate (400) → the work. Every answer, whatever went wrong, leaves with the envelope of
spec part 7, X-Request-Id and the rate headers of part 8, all made of one instant.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import structlog
from attrs import define, frozen
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from meetcore.adapters.http.answers import (
    MethodNotAllowed,
    Rendered,
    UnsupportedMediaType,
    pack,
    render_error,
)
from meetcore.adapters.http.bodies import NoBody
from meetcore.adapters.http.body_bytes import read_body
from meetcore.adapters.http.calls import API_ROOT, Call, Operation, answered
from meetcore.adapters.http.decoding import MAX_BODY_BYTES, decode_body, decode_json
from meetcore.adapters.http.paging import Page, read_page
from meetcore.domain.errors import (
    DomainError,
    InternalError,
    InvalidApiKey,
    InvalidRequest,
    NotFound,
    RateLimited,
    ServiceUnavailable,
)
from meetcore.domain.idempotency import fingerprint, is_key
from meetcore.domain.keys import require_scope
from meetcore.domain.rate_window import WINDOW_SECONDS, OperationClass, RateVerdict
from meetcore.ports.queries import NOTHING_ELSE
from meetcore.ports.store import StoreAway
from meetcore.usecases.admit import Admit
from meetcore.usecases.intent import Intent
from meetcore.usecases.world import World

__all__ = ["Gate"]

STORE_AWAY_RETRY_AFTER_S = 5

log = structlog.get_logger("meetcore.http")


@frozen
class _Match:
    """What a request asks for. `allow` names the methods that the path knows."""

    operation: Operation | None
    path: dict[str, str]
    allow: str

    @property
    def rate_class(self) -> OperationClass:
        return OperationClass.READ if self.operation is None else self.operation.rate_class


@define
class _Exchange:
    """One request on its way: the one instant, the one verdict, and what the log needs."""

    request_id: str
    now: datetime
    verdict: RateVerdict
    rate_class: OperationClass
    key_id: str | None = None


class Gate:
    """The ASGI application of the API.

    Args:
        table: the operations.
        admit: who may come in, and how often.
        world: the clock, and new request ids.
        base_url: where the service is reached, without a slash at its end.
        document: the OpenAPI document, which needs no key.
    """

    def __init__(
        self, table: Sequence[Operation], admit: Admit, world: World, base_url: str, document: bytes
    ) -> None:
        self._admit = admit
        self._world = world
        self._base_url = base_url
        self._document = document
        self._routes: list[tuple[re.Pattern[str], Mapping[str, Operation]]] = []
        for path in dict.fromkeys(operation.path for operation in table):
            known = {operation.method: operation for operation in table if operation.path == path}
            pattern = re.compile(API_ROOT + re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))
            self._routes.append((pattern, known))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; nothing escapes but a client that hung up."""
        now = self._world.now()
        match = self._match(scope["method"], scope["path"])
        exchange = _Exchange(
            str(self._world.new_id(now)), now, self._admit.untouched(match.rate_class, now), match.rate_class
        )
        request = Request(scope, receive)
        extra: dict[str, str] = {}
        try:
            rendered, is_replay = await self._walk(request, match, exchange)
            if is_replay:
                extra["Idempotent-Replayed"] = "true"
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001  (whatever it is, the caller gets an envelope)
            refusal = self._refusal_of(error, exchange)
            rendered = render_error(refusal, self._base_url, exchange.request_id)
            extra |= _headers_of(refusal)
        if rendered.location is not None:
            extra["Location"] = self._base_url + rendered.location
        headers = _common_headers(exchange) | extra
        # What has no body has no type either.
        media_type = "application/json" if rendered.body else None
        response = Response(rendered.body, rendered.status, headers, media_type)
        await response(scope, receive, send)
        took_ms = (self._world.now() - now).total_seconds() * 1000
        log.info(
            "request", method=scope["method"], path=scope["path"], status=rendered.status,
            request_id=exchange.request_id, key_id=exchange.key_id, duration_ms=round(took_ms, 1),
        )  # fmt: skip

    def _match(self, method: str, path: str) -> _Match:
        for pattern, known in self._routes:
            if found := pattern.fullmatch(path):
                return _Match(known.get(method), found.groupdict(), ", ".join(sorted(known)))
        return _Match(None, {}, "GET" if path == f"{API_ROOT}/openapi.json" else "")

    async def _walk(self, request: Request, match: _Match, exchange: _Exchange) -> tuple[Rendered, bool]:
        if request.method == "GET" and request.scope["path"] == f"{API_ROOT}/openapi.json":
            return Rendered(200, self._document), False
        headers = request.headers
        operation = match.operation
        peek = NOTHING_ELSE if operation is None else operation.peek(match.path, exchange.now)
        caller = await self._admit.authenticate(headers.get("authorization"), exchange.now, peek)
        exchange.key_id = str(caller.key.id)
        exchange.verdict = await self._admit.count(caller.key.id, match.rate_class, exchange.now)
        if not exchange.verdict.is_allowed:
            raise self._admit.refusal(exchange.verdict)
        if operation is None:
            if match.allow:
                raise MethodNotAllowed(request.method, match.allow)
            raise NotFound("No such path. The API is described at /api/v1/openapi.json.")
        require_scope(caller.key, operation.scopes)
        value, body = await _decoded(request, headers, operation)
        intent = self._intent(request, headers, operation, value, exchange) if operation.is_mutating else None
        listing = operation.listing
        path = request.scope["path"]
        page = Page() if listing is None else read_page(request.query_params, listing, path)
        call = Call(caller, exchange.now, match.path, body, intent, page)
        return answered(await operation.handle(call))

    def _intent(
        self, request: Request, headers: Headers, operation: Operation, value: Any, exchange: _Exchange
    ) -> Intent:
        keys = headers.getlist("idempotency-key")
        if len(keys) > 1 or (keys and not is_key(keys[0])):
            raise InvalidRequest(
                {"Idempotency-Key": ["must be one value of 1 to 255 visible ASCII characters"]}
            )
        told = fingerprint(request.method, request.scope["path"], value)
        return Intent(keys[0] if keys else None, told, partial(self._render, operation, exchange))

    def _render(self, operation: Operation, exchange: _Exchange, outcome: object) -> bytes:
        if isinstance(outcome, DomainError):
            return pack(render_error(outcome, self._base_url, exchange.request_id))
        assert operation.present is not None
        return pack(operation.present(outcome, exchange.now))

    def _refusal_of(self, error: Exception, exchange: _Exchange) -> DomainError:
        if isinstance(error, StoreAway):
            # One line, no traceback: an outage makes many of these, all alike.
            log.error("store away", request_id=exchange.request_id, cause=repr(error.__cause__))
            return ServiceUnavailable(
                "The service is temporarily unavailable. Try again soon.", STORE_AWAY_RETRY_AFTER_S
            )
        if isinstance(error, DomainError):
            if error.__cause__ is not None:
                log.warning(
                    "refused", request_id=exchange.request_id, code=error.code, cause=repr(error.__cause__)
                )
            return error
        log.error("fault", request_id=exchange.request_id, exc_info=error)
        return InternalError("Something went wrong at the service. Quote the request id to support.")


async def _decoded(request: Request, headers: Headers, operation: Operation) -> tuple[Any, Any]:
    """The body as a JSON value and decoded; none of both where nothing is to be said."""
    if operation.body is not None:
        _check_media(headers)
        value = decode_json(await read_body(request, MAX_BODY_BYTES))
        return value, decode_body(value, operation.body)
    if (
        operation.is_mutating
        and _may_carry_body(headers)
        and (raw := await read_body(request, MAX_BODY_BYTES))
    ):
        # A field in it would be ignored silently; the empty object, which some clients send, says nothing.
        _check_media(headers)
        decode_body(decode_json(raw), NoBody)
    return None, None


def _may_carry_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _check_media(headers: Headers) -> None:
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise UnsupportedMediaType(
            {"Content-Type": ["must be application/json"]}, "Send the body as Content-Type: application/json."
        )


def _common_headers(exchange: _Exchange) -> dict[str, str]:
    verdict = exchange.verdict
    left_s = verdict.reset - verdict.window_start - int(exchange.now.timestamp()) % WINDOW_SECONDS
    name = exchange.rate_class.value
    return {
        "X-Request-Id": exchange.request_id,
        "X-RateLimit-Limit": str(verdict.limit),
        "X-RateLimit-Remaining": str(verdict.remaining),
        "X-RateLimit-Reset": str(verdict.reset),
        "RateLimit-Policy": f'"{name}";q={verdict.limit};w={WINDOW_SECONDS}',
        "RateLimit": f'"{name}";r={verdict.remaining};t={left_s}',
        "Cache-Control": "no-store",
    }


def _headers_of(refusal: DomainError) -> dict[str, str]:
    match refusal:
        case RateLimited() | ServiceUnavailable():
            return {"Retry-After": str(refusal.retry_after_s)}
        case MethodNotAllowed():
            return {"Allow": refusal.allow}
        case InvalidApiKey():
            return {"WWW-Authenticate": 'Bearer realm="meetcore"'}
        case _:
            return {}
