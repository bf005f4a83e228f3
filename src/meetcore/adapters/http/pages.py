"""Shared by the pages outside the API: refusals without a key, a bounded query, metrics, the access log."""

import asyncio
import logging
import re
from collections.abc import Mapping
from typing import Final

import structlog
from attrs import frozen
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from meetcore.adapters.api import answers, http_common
from meetcore.domain.errors import DomainError, InternalError, InvalidRequest
from meetcore.ports.observability import REQUEST_DURATION, REQUESTS, add_log_fields
from meetcore.usecases.runtime import Runtime

log = structlog.get_logger("meetcore.http")


@frozen
class Refuse:
    """Refusals with a request id, which is in the log too, under an endpoint's name and with its headers."""

    what: str
    runtime: Runtime
    base_url: str
    headers: Mapping[str, str]

    def __call__(self, refusal: DomainError, cause: Exception, **details: object) -> Response:
        """Build the answer; log `details` with the cause."""
        request_id = str(self.runtime.new_id(self.runtime.now()))
        details |= {"request_id": request_id, "code": refusal.code}
        if isinstance(refusal, InternalError):
            log.error("fault", **details, exc_info=cause)
        else:
            log.warning(f"{self.what} refused", **details, cause=repr(cause))
        answer = answers.render_error(refusal, self.base_url, request_id)
        headers = {"X-Content-Type-Options": "nosniff", **self.headers, **answers.headers_of(refusal)}
        return Response(answer.body, answer.status, headers, "application/json")


@frozen
class BoundedQuery:
    """An ASGI application with a query size limit; a larger one is 400 in the envelope of the API."""

    app: ASGIApp
    limits: http_common.RequestLimits
    refuse: Refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request whose query is small enough."""
        try:
            http_common.check_query(scope["query_string"], self.limits)
        except InvalidRequest as refusal:
            await self.refuse(refusal, refusal)(scope, receive, send)
        else:
            await self.app(scope, receive, send)


AREAS: Final = frozenset({
    ".well-known", "console", "dashboard", "docs", "downloads", "healthz", "oauth", "payment-events",
    "provider-events", "readyz", "sandbox",
})  # fmt: skip


_PROBES: Final = frozenset({"/healthz", "/readyz"})
"""What load balancers ask every second."""


class MeasuredPages:
    """Passes requests on and reports their answers to the log, to the metrics and to their traces."""

    def __init__(self, app: ASGIApp, runtime: Runtime) -> None:
        self._app = app
        self._runtime = runtime
        self._metrics = runtime.metrics
        self._tracing = runtime.tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        clock = asyncio.get_running_loop().time
        start, status = clock(), 0
        add_log_fields(request_id=str(self._runtime.new_id(self._runtime.now())))

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            label, path = label_of(scope["path"]), scope["path"]
            if path not in _PROBES:
                shown = http_common.loggable_path(_LINK_TOKEN.sub("…", path))
                log.info(
                    "request", method=scope["method"], path=shown, status=status or None,
                    duration_ms=round((clock() - start) * 1000, 1),
                )  # fmt: skip
            self._metrics.count(REQUESTS, label, "page", status, "")
            self._metrics.observe(REQUEST_DURATION, clock() - start, label)
            self._tracing.describe(label, status=status or None)


def label_of(path: str) -> str:
    """Return the name of a page's area among the metrics."""
    area = path.split("/", 2)[1] if path.startswith("/") else ""
    return f"page {area}" if area in AREAS else "unknown"


_LINK_TOKEN: Final = re.compile(r"(?<=/)[A-Za-z0-9_-]{40,}")
"""A token in a path, which is longer than an id."""


def keep_links_out_of_access_logs() -> None:
    """Remove signatures of downloads and tokens of sign-in from the server's access log, if it is enabled."""
    logger = logging.getLogger("uvicorn.access")
    if not any(isinstance(each, _WithoutLinks) for each in logger.filters):
        logger.addFilter(_WithoutLinks())


class _WithoutLinks(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(_without_secrets(each) for each in record.args)
        return True


def _without_secrets(value: object) -> object:
    """Cut the query of what is signed by it, and the token of a link that signs in."""
    if not isinstance(value, str):
        return value
    if f"{http_common.DOWNLOADS}/" in value or "/sign-in/oidc/" in value:
        value = value.partition("?")[0]
    return _LINK_TOKEN.sub("…", value)
