"""Limits of an API: requests a minute for each caller and class of request, by ASGI middleware.

It stands before any ASGI application: Starlette, FastAPI, Django. Try it, and ask a fourth time::

    uvicorn --factory examples.shop.limits:make_app
    for _ in 1 2 3 4; do curl -i -X POST http://127.0.0.1:8000/; done
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeAlias

from attrs import frozen
from sqlalchemy import BigInteger, Column, Engine, Integer, String, Table, delete
from sqlalchemy.dialects import postgresql, sqlite

from examples.shop.tables import metadata, open_database
from meetcore.domain.requests.rate_window import WINDOW_SECONDS, RateVerdict, decide, window_start

__all__ = ["Counters", "RateLimit", "Request", "make_app"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class Request(StrEnum):
    """The classes of requests of this shop, each with a limit of its own."""

    BROWSE = "browse"
    ORDER = "order"


def request_class(scope: Scope) -> Request:
    """Return what is counted: requests that only read, or those that change something."""
    return Request.BROWSE if scope["method"] in ("GET", "HEAD") else Request.ORDER


def client_address(scope: Scope) -> str:
    """Return the peer's address. Behind a proxy the server must trust it, else all are one caller."""
    client = scope.get("client")
    return client[0] if client else ""


def utc_now() -> datetime:
    """Return the time; a test brings its own."""
    return datetime.now(UTC)


hits = Table(
    "hits",
    metadata,
    Column("window_start", BigInteger, primary_key=True),
    Column("caller", String(64), primary_key=True),
    Column("class", String(16), primary_key=True),
    Column("count", Integer, nullable=False),
)


@frozen
class Counters:
    """Counts in a table that all processes share."""

    engine: Engine

    def hit(self, caller: str, request: Request, window: int) -> int:
        """Count one more request and return the new count, in one statement: it is atomic."""
        dialect = postgresql if self.engine.dialect.name == "postgresql" else sqlite
        counter = {"window_start": window, "caller": caller, "class": request.value}
        added = dialect.insert(hits).values(**counter, count=1)
        counted = added.on_conflict_do_update(
            index_elements=list(counter), set_={"count": hits.c.count + 1}
        ).returning(hits.c.count)
        with self.engine.begin() as connection:
            count: int = connection.execute(counted).scalar_one()
            if count == 1:
                # Kept: the window before this one, for a request that read its clock just before second 00.
                connection.execute(delete(hits).where(hits.c.window_start < window - WINDOW_SECONDS))
            return count


@frozen
class RateLimit:
    """At most `limits` requests a minute for each caller and class, refused ones counted.

    Every answer has `X-Quota`, `X-Quota-Left` and `X-Quota-Resets` (unix seconds); a refused request gets 429
    with `Retry-After` and never reaches the application.
    """

    app: Application
    counters: Counters
    limits: Mapping[Request, int]
    caller_of: Callable[[Scope], str] = client_address
    clock: Callable[[], datetime] = utc_now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Judge an HTTP request; lifespan and web sockets pass."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        verdict = await self.judge(scope)

        async def send_with_quota(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *quota_headers(verdict)]}
            await send(message)

        if verdict.is_allowed:
            await self.app(scope, receive, send_with_quota)
        else:
            await refuse(verdict, send_with_quota)

    async def judge(self, scope: Scope) -> RateVerdict:
        """Count a request and judge it."""
        # One instant for both, or a request that straddles second 00 is counted in one minute and judged in
        # another.
        now, request = self.clock(), request_class(scope)
        count = await asyncio.to_thread(self.counters.hit, self.caller_of(scope), request, window_start(now))
        return decide(self.limits[request], count, now)


def quota_headers(verdict: RateVerdict) -> list[tuple[bytes, bytes]]:
    """Return the state of the window in header names of this shop's own."""
    return [
        (b"x-quota", b"%d" % verdict.limit),
        (b"x-quota-left", b"%d" % verdict.remaining),
        (b"x-quota-resets", b"%d" % verdict.reset),
    ]


async def refuse(verdict: RateVerdict, send: Send) -> None:
    """Answer 429 with the seconds after which the next minute has begun."""
    body = json.dumps({"error": "too many requests", "retry_after_s": verdict.retry_after_s}).encode()
    await answer(send, 429, body, (b"retry-after", b"%d" % verdict.retry_after_s))


async def answer(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    """Send a whole answer."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def greet(scope: Scope, receive: Receive, send: Send) -> None:
    """Stand in for your application."""
    if scope["type"] != "http":
        # No lifespan and no web sockets: servers take this as an answer.
        raise NotImplementedError(scope["type"])
    await answer(send, 200, b"hello")


def make_app() -> RateLimit:
    """Make the application that the first lines start, with its database where it was started."""
    limits = {Request.BROWSE: 5, Request.ORDER: 3}
    return RateLimit(greet, Counters(open_database("sqlite:///shop.sqlite3")), limits)
