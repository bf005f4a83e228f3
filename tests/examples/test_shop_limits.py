"""The limits of a shop's API, over real HTTP and with a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, func, select

from examples.shop.limits import (
    Counters,
    RateLimit,
    Receive,
    Request,
    Scope,
    Send,
    client_address,
    greet,
    hits,
    make_app,
)
from tests.client import clients

NOON = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)
LIMITS = {Request.BROWSE: 5, Request.ORDER: 2}


class HandClock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


class Hello:
    """The application, which counts the requests that reach it."""

    def __init__(self) -> None:
        self.reached = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.reached += scope["type"] == "http"
        await greet(scope, receive, send)


def by_authorization(scope: Scope) -> str:
    given_headers: dict[bytes, bytes] = dict(scope["headers"])
    return given_headers.get(b"authorization", b"").decode("latin-1")


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application behind uvicorn."""
    async with (
        clients.served(app, lifespan="auto") as base_url,
        httpx.AsyncClient(base_url=base_url, trust_env=False, timeout=10) as client,
    ):
        yield client


async def test_one_request_too_many_is_refused_and_the_next_minute_starts_anew(engine: Engine) -> None:
    clock, inner = HandClock(), Hello()
    clock.now = NOON.replace(second=59, microsecond=900_000)
    async with served(RateLimit(inner, Counters(engine), LIMITS, clock=clock)) as client:
        allowed = [await client.get("/") for _ in range(5)]
        assert [(answer.status_code, answer.text) for answer in allowed] == [(200, "hello")] * 5
        assert [answer.headers["X-Quota-Left"] for answer in allowed] == ["4", "3", "2", "1", "0"]

        refused = await client.get("/")
        assert refused.status_code == 429
        assert refused.json() == {"error": "too many requests", "retry_after_s": 1}
        assert (refused.headers["Retry-After"], refused.headers["X-Quota"]) == ("1", "5")
        assert refused.headers["X-Quota-Left"] == "0"
        assert int(refused.headers["X-Quota-Resets"]) == int(NOON.replace(minute=1).timestamp())
        assert inner.reached == 5

        clock.now = NOON.replace(minute=1, microsecond=900_000)
        fresh = await client.get("/")
        assert (fresh.status_code, fresh.headers["X-Quota-Left"]) == (200, "4")
        assert "Retry-After" not in fresh.headers


async def test_neither_callers_nor_classes_share_a_window(engine: Engine) -> None:
    limit = RateLimit(greet, Counters(engine), LIMITS, caller_of=by_authorization, clock=HandClock())
    async with served(limit) as client:
        ordered = [
            await client.post("/", headers={"Authorization": who})
            for who in ("alice", "bob")
            for _ in range(3)
        ]
        browsed = await client.get("/", headers={"Authorization": "alice"})
    assert [answer.status_code for answer in ordered] == [200, 200, 429] * 2
    assert (browsed.status_code, browsed.headers["X-Quota-Left"]) == (200, "4")


async def test_requests_at_once_are_admitted_up_to_the_limit_exactly(engine: Engine) -> None:
    limit = RateLimit(Hello(), Counters(engine), {**LIMITS, Request.BROWSE: 7}, clock=HandClock())
    async with served(limit) as client:
        answers = await asyncio.gather(*(client.get("/") for _ in range(30)))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [429] * 23


async def test_the_program_as_it_ships_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    limit = make_app()
    async with served(limit) as client:
        answers = [await client.post("/") for _ in range(4)]
    limit.counters.engine.dispose()
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]


async def test_non_http_requests_pass_uncounted(engine: Engine) -> None:
    passing = RateLimit(greet, Counters(engine), LIMITS)
    with pytest.raises(NotImplementedError, match="websocket"):
        await passing({"type": "websocket"}, _nothing, _nowhere)
    assert Counters(engine).hit("", Request.BROWSE, 0) == 1


async def _nothing() -> dict[str, Any]:
    raise AssertionError("not read")


async def _nowhere(message: object) -> None:
    raise AssertionError("not written")


@pytest.mark.parametrize(("scope", "address"), [({"client": ("10.0.0.9", 4711)}, "10.0.0.9"), ({}, "")])
def test_a_caller_is_identified_by_its_peer_address(scope: dict[str, Any], address: str) -> None:
    assert client_address(scope) == address


def test_windows_that_are_over_are_dropped(engine: Engine) -> None:
    counters = Counters(engine)
    counts = [counters.hit("a", Request.BROWSE, window) for window in (0, 0, 60, 60, 120)]
    assert counts == [1, 2, 1, 2, 1]
    with engine.begin() as connection:
        kept = connection.execute(select(func.min(hits.c.window_start))).scalar_one()
    assert kept == 60
