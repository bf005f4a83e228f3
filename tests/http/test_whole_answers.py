"""An answer that is written at once is the one that the server writes of its messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.lifespan.on import LifespanOn

from meetcore.adapters.http.whole_answers import write_whole
from meetcore.app import Service
from tests.http.test_connections import Served, listening
from tests.support.api_harness import Customer, settings_for, until

ANSWERS_OF_THEIR_OWN = {"x-request-id", "date", "ratelimit", "x-ratelimit-remaining"}


class Between:
    """A middleware: what it gets of an answer are messages."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.seen: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def note(message: Message) -> None:
            self.seen.append(message["type"])
            await send(message)

        await self._app(scope, receive, note if scope["type"] == "http" else send)


@asynccontextmanager
async def service_at(app: ASGIApp) -> AsyncIterator[Served]:
    config = uvicorn.Config(app, log_level="critical", access_log=False)
    config.load()
    lifespan = LifespanOn(config)
    await lifespan.startup()
    try:
        async with listening(config, lifespan.state) as server:
            yield server
    finally:
        await lifespan.shutdown()


def request(key: str, target: str, *fields: str, method: str = "GET") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: x", f"Authorization: Bearer {key}", *fields]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize(
    "target",
    ["/api/v1/me", "/api/v1/credits", "/api/v1/pricing-tiers", "/api/v1/meetings/x", "/api/v1/nothing"],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_middleware_gets_the_same_answer_in_messages(
    migrated_url: str, customer: Customer, target: str, method: str
):
    between = Between(Service(settings_for(migrated_url)))
    asked = request(customer.key.text, target, "Content-Length: 0", method=method)
    async with service_at(between) as server:
        expected = await (await server.connect()).ask(asked)
    assert between.seen == ["http.response.start", "http.response.body"]
    async with service_at(Service(settings_for(migrated_url))) as server:
        found = await (await server.connect()).ask(asked)
    assert found[0] == expected[0]
    assert list(found[1]) == list(expected[1]), "the same fields in the same order"
    for name in found[1].keys() - ANSWERS_OF_THEIR_OWN:
        assert found[1][name] == expected[1][name]
    if found[0] == 200:
        assert found[2] == expected[2]


async def test_a_connection_is_kept_or_closed_as_the_client_wishes(migrated_url: str, customer: Customer):
    kept = request(customer.key.text, "/api/v1/me")
    async with service_at(Service(settings_for(migrated_url))) as server:
        wire = await server.connect()
        for _ in range(3):
            status, fields, _ = await wire.ask(kept)
            assert (status, "connection" in fields) == (200, False)
        await wire.send(kept * 3)  # pipelined
        assert [(await wire.answer())[0] for _ in range(3)] == [200] * 3
        status, fields, _ = await wire.ask(request(customer.key.text, "/api/v1/me", "Connection: close"))
        assert (status, fields["connection"]) == (200, "close")
        assert await wire.is_closed(5)
        await until(lambda: server.open_connections() == 0)


async def test_an_answer_to_head_has_no_body(migrated_url: str, customer: Customer):
    async with service_at(Service(settings_for(migrated_url))) as server:
        wire = await server.connect()
        await wire.send(request(customer.key.text, "/api/v1/me", method="HEAD"))
        head = (await wire.reader.readuntil(b"\r\n\r\n")).decode()
        assert head.startswith("HTTP/1.1 405")
        assert (await wire.ask(request(customer.key.text, "/api/v1/me")))[0] == 200


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "\x00", "\x7f", "\u20ac"])
async def test_a_value_that_would_split_the_head_is_left_to_the_server(value: str):
    written: list[bool] = []

    async def app(_: Scope, __: Receive, send: Send) -> None:
        written.append(write_whole(send, 200, {"X-Name": value}, "application/json", b"{}"))
        written.append(write_whole(send, 200, {"X-Name": "a b"}, "application/json", b"{}"))
        written.append(write_whole(send, 200, {"X-Name": "a b"}, "application/json", b"{}"))

    config = uvicorn.Config(app, lifespan="off", log_level="critical", access_log=False)
    async with listening(config, {}) as server:
        status, fields, body = await (await server.connect()).ask(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert written == [False, True, False]
    assert (status, fields["x-name"], body) == (200, "a b", b"{}")
