"""An answer that is written at once is the one that the server writes of its messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn._types import ASGISendEvent
from uvicorn.lifespan.on import LifespanOn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from meetcore.adapters.http import whole_answers
from meetcore.adapters.http.whole_answers import is_known, write_whole
from meetcore.app import Service
from tests.http.test_connections import Served, listening
from tests.support.api_harness import Customer, settings_for, until

ANSWERS_OF_THEIR_OWN = {"x-request-id", "date", "ratelimit", "x-ratelimit-remaining", "x-ratelimit-reset"}
"""Two answers differ in these, also because a minute may end between them."""


EXPECTED = {"x-name": "a", "content-length": "2", "content-type": "application/json"}


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


class Either:
    """Answers with a body: at once where that is possible, otherwise in messages. Notes which it was."""

    def __init__(self, body: bytes = b"{}") -> None:
        self._body = body
        self.at_once: list[bool] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            asked = await Request(scope, receive).body()
        except ClientDisconnect:
            return
        await self.may_answer.wait()
        body = asked or self._body
        self.at_once.append(write_whole(send, 200, {"X-Name": "a"}, "application/json", body))
        if not self.at_once[-1]:
            await Response(body, 200, {"X-Name": "a"}, "application/json")(scope, receive, send)


@asynccontextmanager
async def either_at(app: Either, *, access_log: bool = False) -> AsyncIterator[Served]:
    config = uvicorn.Config(app, lifespan="off", log_level="critical", access_log=access_log)
    async with listening(config, {}) as server:
        yield server


PLAIN = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def test_the_installed_server_is_known():
    assert is_known(RequestResponseCycle), "compare `send` of this version with `write_whole`"


@pytest.mark.parametrize("names", ["one more", "one less"])
def test_a_server_with_another_state_is_not_known(names: str):
    class More(RequestResponseCycle):
        def __init__(self) -> None:
            self.scope = self.transport = self.unknown = None  # type: ignore[assignment]

    class Less:
        def __init__(self) -> None:
            self.scope = self.transport = None

    assert not is_known(More if names == "one more" else Less)
    assert not is_known(object), "made without code of Python"


def test_a_server_that_sends_in_another_way_is_not_known():
    class Counting(RequestResponseCycle):
        async def send(self, message: ASGISendEvent) -> None:
            self.sent = getattr(self, "sent", 0) + 1
            await super().send(message)

    class Less(RequestResponseCycle):
        async def send(self, message: ASGISendEvent) -> None:
            self.response_complete = True

    assert Counting.__init__ is RequestResponseCycle.__init__
    assert not is_known(Counting)
    assert not is_known(Less)


async def test_the_service_writes_its_answers_at_once(
    migrated_url: str, customer: Customer, monkeypatch: pytest.MonkeyPatch
):
    """Where a middleware stands between, the server gets them in messages."""
    sent: list[str] = []
    send = RequestResponseCycle.send

    async def note(self: RequestResponseCycle, message: ASGISendEvent) -> None:
        sent.append(message["type"])
        await send(self, message)

    monkeypatch.setattr(RequestResponseCycle, "send", note)
    asked = request(customer.key.text, "/api/v1/me")
    async with service_at(Service(settings_for(migrated_url))) as server:
        assert (await (await server.connect()).ask(asked))[0] == 200
    assert sent == []
    async with service_at(Between(Service(settings_for(migrated_url)))) as server:
        assert (await (await server.connect()).ask(asked))[0] == 200
    assert sent == ["http.response.start", "http.response.body"]


async def test_a_server_that_is_not_known_writes_the_answer_itself(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(whole_answers, "_IS_KNOWN", False)
    app = Either()
    async with either_at(app) as server:
        assert await (await server.connect()).ask(PLAIN) == (200, EXPECTED, b"{}")
    assert app.at_once == [False]


async def test_another_protocol_of_the_server_writes_the_answer_itself():
    app, state = Either(), ServerState()
    config = uvicorn.Config(app, lifespan="off", log_level="critical", access_log=False)
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: H11Protocol(config, state, {}), "127.0.0.1", 0)
    async with listener:
        reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
        writer.write(PLAIN.replace(b"Host: x", b"Host: x\r\nConnection: close"))
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"\r\n\r\n{}")
    assert app.at_once == [False]


@pytest.mark.parametrize(
    ("asked", "is_at_once", "is_kept"),
    [
        (PLAIN, True, True),
        (b"GET / HTTP/1.0\r\nHost: x\r\n\r\n", True, False),
        (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", False, False),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", True, True),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", True, True),
    ],
    ids=["plain", "HTTP/1.0", "close", "body", "chunked"],
)
async def test_an_answer_is_the_same_however_it_was_asked_for(asked: bytes, is_at_once: bool, is_kept: bool):
    app = Either()
    async with either_at(app) as server:
        wire = await server.connect()
        found = await wire.ask(asked)
        expected = EXPECTED if is_kept else {**EXPECTED, "connection": "close"}
        assert found == (200, expected, b"{}")
        if is_kept:
            assert (await wire.ask(asked))[0] == 200
        else:
            assert await wire.is_closed(5)
    assert set(app.at_once) == {is_at_once}


async def test_the_server_notes_an_answer_in_its_access_log_itself():
    app = Either()
    async with either_at(app, access_log=True) as server:
        assert (await (await server.connect()).ask(PLAIN))[0] == 200
    assert app.at_once == [False]


async def test_a_client_that_expects_to_be_told_to_go_on_is_told_so():
    app = Either()
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    async with either_at(app) as server:
        wire = await server.connect()
        await wire.send(head)
        assert await wire.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert await wire.ask(b"{}") == (200, EXPECTED, b"{}")
    assert app.at_once == [True]


async def test_a_client_that_went_away_is_written_nothing():
    app = Either()
    app.may_answer.clear()
    async with either_at(app) as server:
        wire = await server.connect()
        await wire.send(PLAIN)
        await until(lambda: server.server.tasks)
        wire.writer.transport.abort()
        await until(lambda: server.open_connections() == 0)
        app.may_answer.set()
        await until(lambda: app.at_once)
    assert app.at_once == [False]


async def test_a_client_that_reads_slowly_gets_all_its_answers():
    app, number = Either(b"x" * 1_000_000), 40
    async with either_at(app) as server:
        wire = await server.connect()
        await wire.send(PLAIN * number)
        await until(lambda: False in app.at_once)  # what was written is not taken: the next answer waits
        for _ in range(number):
            status, _, body = await wire.answer()
            assert (status, len(body)) == (200, 1_000_000)
    assert len(app.at_once) == number
