"""The rate window of meetcore in front of any ASGI application: Starlette, FastAPI, Django or none.

Owns the header names, the answer to a refused request and who counts as one caller. The arithmetic
is in `meetcore.domain.requests.rate_window`; a `Counter` of two lines decides where hits are counted.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any, Protocol, TypeAlias

from meetcore.domain.requests.rate_window import RateVerdict, decide, window_start

__all__ = ["Counter", "DictCounter", "RateLimit", "client_address"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class Counter(Protocol):
    """Where hits are counted. In Redis: `INCR` of `f"{caller}:{window}"`, and `EXPIRE` after two minutes."""

    async def hit(self, caller: str, window: int) -> int:
        """Count one more request of this caller in this window and give the new count, atomically."""
        ...


class DictCounter:
    """Counts in this process alone: right for one worker, and for tests."""

    def __init__(self) -> None:
        self._window = 0
        self._hits: dict[tuple[str, int], int] = {}

    async def hit(self, caller: str, window: int) -> int:
        """Count; nothing is awaited in between, so that no other task can come between read and write."""
        if window > self._window:
            # Kept: the window before this one, for a request that read its clock just before second 00.
            self._hits = {key: hits for key, hits in self._hits.items() if key[1] >= self._window}
            self._window = window
        count = self._hits[caller, window] = self._hits.get((caller, window), 0) + 1
        return count


def client_address(scope: Scope) -> str:
    """The peer's address. Behind a proxy the server must trust it, else all are one caller."""
    client = scope.get("client")
    return client[0] if client else ""


def utc_now() -> datetime:
    """The time; a test brings its own."""
    return datetime.now(UTC)


class RateLimit:
    """ASGI middleware: at most `limit` requests a minute for each caller, refused ones counted.

    Every answer carries `X-Quota`, `X-Quota-Left` and `X-Quota-Resets` (unix seconds); a refused request
    gets 429 with `Retry-After` and never reaches the application.
    """

    def __init__(
        self,
        app: Application,
        limit: int,
        counter: Counter | None = None,
        caller_of: Callable[[Scope], str] = client_address,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._app, self._limit = app, limit
        self._counter = DictCounter() if counter is None else counter
        self._caller_of, self._clock = caller_of, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Judge an HTTP request; lifespan and web sockets pass."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # One instant for both, or a request that straddles second 00 is counted in one minute and judged in
        # another.
        now = self._clock()
        hits = await self._counter.hit(self._caller_of(scope), window_start(now))
        verdict = decide(self._limit, hits, now)

        async def send_with_quota(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *quota_headers(verdict)]}
            await send(message)

        if verdict.is_allowed:
            await self._app(scope, receive, send_with_quota)
        else:
            await refuse(verdict, send_with_quota)


def quota_headers(verdict: RateVerdict) -> list[tuple[bytes, bytes]]:
    """The refusal in this application's own format."""
    return [
        (b"x-quota", b"%d" % verdict.limit),
        (b"x-quota-left", b"%d" % verdict.remaining),
        (b"x-quota-resets", b"%d" % verdict.reset),
    ]


async def refuse(verdict: RateVerdict, send: Send) -> None:
    """Answer 429 with the seconds after which the next minute has begun."""
    body = json.dumps({"error": "too many requests", "retry_after_s": verdict.retry_after_s}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"retry-after", b"%d" % verdict.retry_after_s),
    ]
    await send({"type": "http.response.start", "status": 429, "headers": headers})
    await send({"type": "http.response.body", "body": body})
