"""The rate window in another ASGI application, over real HTTP and with a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Literal

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.asgi_rate_limit.app import app as shipped
from examples.asgi_rate_limit.app import greet
from examples.asgi_rate_limit.middleware import DictCounter, RateLimit, Receive, Scope, Send, client_address
from tests.client import clients

NOON = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)


class HandClock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


class Hello:
    """The application, which counts how often it is reached."""

    def __init__(self) -> None:
        self.reached = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.reached += 1
        await greet(scope, receive, send)


def by_authorization(scope: Scope) -> str:
    given_headers: dict[bytes, bytes] = dict(scope["headers"])
    return given_headers.get(b"authorization", b"").decode("latin-1")


@asynccontextmanager
async def served(app: Any, lifespan: Literal["auto", "off"] = "off") -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application behind uvicorn."""
    async with (
        clients.served(app, lifespan=lifespan) as base_url,
        httpx.AsyncClient(base_url=base_url, trust_env=False, timeout=10) as client,
    ):
        yield client


async def test_the_sixth_request_of_a_minute_is_refused_and_the_next_minute_starts_anew() -> None:
    clock, inner = HandClock(), Hello()
    clock.now = NOON.replace(second=59, microsecond=900_000)
    async with served(RateLimit(inner, limit=5, clock=clock)) as client:
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


async def test_callers_do_not_share_a_window() -> None:
    async with served(RateLimit(greet, 1, caller_of=by_authorization, clock=HandClock())) as client:
        answers = [
            await client.get("/", headers={"Authorization": who}) for who in ("alice", "bob", "alice", "bob")
        ]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]


async def test_requests_at_once_are_admitted_up_to_the_limit_exactly() -> None:
    inner = Hello()
    async with served(RateLimit(inner, limit=7, clock=HandClock())) as client:
        answers = await asyncio.gather(*(client.get("/") for _ in range(30)))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [429] * 23
    assert inner.reached == 7


async def test_the_program_as_it_ships_answers_and_counts_by_address() -> None:
    async with served(shipped, lifespan="auto") as client:
        answer = await client.get("/")
    assert (answer.status_code, answer.headers["X-Quota"]) == (200, "5")


async def test_non_http_requests_pass_uncounted() -> None:
    counter = DictCounter()
    passing = RateLimit(greet, limit=1, counter=counter)
    with pytest.raises(NotImplementedError, match="websocket"):
        await passing({"type": "websocket"}, _nothing, _nowhere)
    assert await counter.hit("", 0) == 1


async def _nothing() -> dict[str, Any]:
    raise AssertionError("not read")


async def _nowhere(message: object) -> None:
    raise AssertionError("not written")


@pytest.mark.parametrize(("scope", "address"), [({"client": ("10.0.0.9", 4711)}, "10.0.0.9"), ({}, "")])
def test_a_caller_is_identified_by_its_peer_address(scope: dict[str, Any], address: str) -> None:
    assert client_address(scope) == address


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([0, 60])), max_size=40))
async def test_the_dict_counts_each_caller_and_window_apart(hits: list[tuple[str, int]]) -> None:
    counter = DictCounter()
    for place, (caller, window) in enumerate(hits):
        assert await counter.hit(caller, window) == hits[: place + 1].count((caller, window))


async def test_the_dict_drops_windows_that_are_over() -> None:
    counter = DictCounter()
    assert [await counter.hit("a", window) for window in (0, 0, 60, 120, 0)] == [1, 2, 1, 1, 1]
