"""Counting what is answered outside the API, and naming its spans: pages, downloads, events of providers.

A page is named after the area that it is in, the first part of its path, and only where that is one of ours.
"""

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from meetcore.ports.metrics import NO_METRICS, Metrics, ServedRequest
from meetcore.ports.tracing import NO_TRACING, Tracing

AREAS: Final = frozenset({
    "console", "dashboard", "docs", "downloads", "healthz", "provider-events", "readyz", "sandbox",
})  # fmt: skip


class MeasuredPages:
    """Passes requests on and reports their answers to the metrics and to their traces."""

    def __init__(self, app: ASGIApp, metrics: Metrics, tracing: Tracing = NO_TRACING) -> None:
        self._app = app
        self._metrics = metrics
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if self._metrics is NO_METRICS and self._tracing is NO_TRACING:
            await self._app(scope, receive, send)
            return
        clock = asyncio.get_running_loop().time
        start, status = clock(), 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            label = label_of(scope["path"])
            self._metrics.served(ServedRequest(label, "page", status, "", clock() - start))
            self._tracing.describe(label, status=status or None)


def label_of(path: str) -> str:
    """Return the name of a page's area among the metrics."""
    area = path.split("/", 2)[1] if path.startswith("/") else ""
    return f"page {area}" if area in AREAS else "unknown"
