"""The connection of a request: what it may take before a request is whole, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_network
from typing import Any

import pytest
import uvicorn
from attrs import evolve, field, frozen
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.lifespan.on import LifespanOn
from uvicorn.server import ServerState

from meetcore.adapters.http.connections import ConnectionLimits, Connections
from meetcore.adapters.http.protocol import FRONT, BoundedHttpProtocol, Front
from meetcore.app import Service
from meetcore.domain.webhooks.addresses import Network
from tests.support.api_harness import Customer, settings_for, until

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LIMITS = ConnectionLimits(per_address=5, head_bytes=1000, head_timeout_s=60, body_timeout_s=60)
IMPATIENT = evolve(LIMITS, head_timeout_s=0.3, body_timeout_s=0.3)
Handler = Callable[[Request], Awaitable[Response]]


@frozen
class Wire:
    """A connection to the server under test."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, fields and body of the next answer."""
        async with asyncio.timeout(20):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await self.reader.readexactly(int(fields["content-length"]))
        return int(head[0].split()[1]), fields, body

    async def ask(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        await self.send(data)
        return await self.answer()

    async def is_closed(self, within_s: float = 20) -> bool:
        """Read on until the server closes; what it still sends is thrown away."""
        try:
            async with asyncio.timeout(within_s):
                while await self.reader.read(65536):
                    pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True


@frozen
class Served:
    """A server and the front that its connections share."""

    port: int
    front: Front
    server: ServerState
    wires: list[Wire] = field(factory=list)

    async def connect(self, address: str = "127.0.0.1") -> Wire:
        wire = Wire(*await asyncio.open_connection("127.0.0.1", self.port, local_addr=(address, 0)))
        self.wires.append(wire)
        return wire

    def open_connections(self) -> int:
        return len(self.server.connections)


async def whole(request: Request) -> Response:
    """Answer with the received request."""
    try:
        body = await request.body()
    except ClientDisconnect:
        SCOPES.append("disconnected")
        raise
    return JSONResponse({"headers": request.headers.items(), "body": body.decode()})


SCOPES: list[str] = []


async def early(_: Request) -> Response:
    """Answer without a look at the body."""
    return PlainTextResponse("early")


@asynccontextmanager
async def served(
    handler: Handler, limits: ConnectionLimits = LIMITS, proxies: tuple[Network, ...] = (), **options: Any
) -> AsyncIterator[Served]:
    """A handler behind our protocol, on a free port."""
    front = Front(Connections(limits, proxies))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        response = await handler(Request(scope, receive))
        await response(scope, receive, send)

    config = uvicorn.Config(app, lifespan="off", log_level="critical", **options)
    async with listening(config, {FRONT: front}) as found:
        yield found


@asynccontextmanager
async def listening(config: uvicorn.Config, state: dict[str, Any]) -> AsyncIterator[Served]:
    """What uvicorn's server does with a protocol, without its waiting."""
    server = ServerState()

    def connect() -> BoundedHttpProtocol:
        return BoundedHttpProtocol(config, server, state)

    listener = await asyncio.get_running_loop().create_server(connect, "127.0.0.1", 0, backlog=2000)
    found = Served(listener.sockets[0].getsockname()[1], state.setdefault(FRONT, Front()), server)
    try:
        yield found
    finally:
        listener.close()
        for wire in found.wires:
            wire.writer.close()
            with suppress(ConnectionError):
                await wire.writer.wait_closed()
        for connection in tuple(server.connections):
            connection.transport.abort()
        await until(lambda: not server.connections)


# Ordinary requests


async def test_requests_are_answered_one_after_the_other() -> None:
    async with served(whole) as server:
        wire = await server.connect()
        for number in range(3):
            status, fields, _ = await wire.ask(GET)
            assert (status, "connection" in fields) == (200, False), number
        body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
        assert json.loads((await wire.ask(body))[2])["body"] == "hello"
        await wire.send(GET + GET)  # pipelined
        assert [(await wire.answer())[0] for _ in range(2)] == [200, 200]


@pytest.mark.parametrize("cut", [1, 8, 20, len(GET) - 1])
async def test_a_head_may_come_in_parts(cut: int) -> None:
    async with served(whole) as server:
        wire = await server.connect()
        for _ in range(2):
            await wire.send(GET[:cut])
            await asyncio.sleep(0.02)
            assert (await wire.ask(GET[cut:]))[0] == 200


async def test_an_idle_connection_is_kept_longer_than_a_head_may_take() -> None:
    async with served(whole, IMPATIENT, timeout_keep_alive=60) as server:
        wire = await server.connect()
        assert (await wire.ask(GET))[0] == 200
        assert not await wire.is_closed(IMPATIENT.head_timeout_s * 3)
        assert (await wire.ask(GET))[0] == 200


# Time


@pytest.mark.parametrize(
    "sent", [b"", b"\r\n", b"GET / HT", GET[:-2]], ids=["none", "line", "part", "nearly"]
)
@pytest.mark.parametrize("is_second", [False, True])
async def test_a_head_that_does_not_end_is_cut(sent: bytes, is_second: bool) -> None:
    expected = bool(sent) or not is_second
    async with served(whole, IMPATIENT, timeout_keep_alive=60) as server:
        wire = await server.connect()
        if is_second:
            assert (await wire.ask(GET))[0] == 200
        await wire.send(sent)
        assert await wire.is_closed(20 if expected else 1) == expected


async def test_a_head_sent_in_small_parts_is_cut_too() -> None:
    async with served(whole, IMPATIENT) as server:
        wire = await server.connect()

        async def drip() -> None:
            await wire.send(b"GET / HTTP/1.1\r\nHost: x\r\n")
            while True:
                await wire.send(b"a: b\r\n")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        assert await wire.is_closed()
        dripping.cancel()
        await asyncio.wait([dripping])


@pytest.mark.parametrize(
    "remaining", [b"Content-Length: 1000\r\n\r\nx", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel"]
)
async def test_what_is_left_of_a_body_after_the_answer_is_not_waited_for(remaining: bytes) -> None:
    async with served(early, IMPATIENT, timeout_keep_alive=60) as server:
        wire = await server.connect()
        assert (await wire.ask(b"POST / HTTP/1.1\r\nHost: x\r\n" + remaining))[2] == b"early"
        assert await wire.is_closed()


async def test_a_body_that_ends_after_the_answer_keeps_its_connection() -> None:
    limits = evolve(LIMITS, body_timeout_s=2)
    async with served(early, limits, timeout_keep_alive=60) as server:
        wire = await server.connect()
        await wire.ask(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe")
        await wire.send(b"llo")
        assert not await wire.is_closed(limits.body_timeout_s * 1.2)
        assert (await wire.ask(GET))[2] == b"early"


async def test_a_connection_whose_body_ended_after_the_answer_is_closed_after_its_own_time() -> None:
    async with served(early, timeout_keep_alive=1) as server:
        wire = await server.connect()
        await wire.ask(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe")
        await wire.send(b"llo")
        assert await wire.is_closed()


async def test_a_long_answer_is_not_cut_by_the_time_of_a_head() -> None:
    async def slow(_: Request) -> Response:
        await asyncio.sleep(IMPATIENT.head_timeout_s * 3)
        return PlainTextResponse("slow")

    async with served(slow, IMPATIENT) as server:
        wire = await server.connect()
        assert (await wire.ask(GET))[2] == b"slow"
        # The next one has begun meanwhile, and does not go on: it is the last of this connection.
        await wire.send(GET + GET[:5])
        assert (await wire.answer())[2] == b"slow"
        assert await wire.is_closed()


# Size


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 2000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 2000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 300 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a:\r\n" * 101 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 2000,
        b"GET /" + b"x" * 2000,
    ],
    ids=["address", "field", "fields", "many fields", "endless field", "endless address"],
)
@pytest.mark.parametrize("is_second", [False, True])
@pytest.mark.parametrize("step", [10**6, 700])
async def test_a_head_that_is_too_large_is_refused(head: bytes, is_second: bool, step: int) -> None:
    async with served(whole) as server:
        wire = await server.connect()
        if is_second:
            assert (await wire.ask(GET))[0] == 200
        for at in range(0, len(head), step):
            await wire.send(head[at : at + step])
            await asyncio.sleep(0.01)
        status, fields, _ = await wire.answer()
        assert (status, fields["connection"]) == (431, "close")
        assert await wire.is_closed()


async def test_an_endless_head_takes_bounded_memory() -> None:
    async with served(whole, ConnectionLimits(head_timeout_s=60)) as server:
        wire = await server.connect()
        await wire.send(b"GET / HTTP/1.1\r\nHost: x\r\n")

        async def send_on() -> None:
            while True:
                await wire.send(b"a: " + b"x" * 60_000 + b"\r\n")

        sending = asyncio.create_task(send_on())
        assert (await wire.answer())[0] == 431
        [connection] = server.server.connections
        assert isinstance(connection, BoundedHttpProtocol)
        assert len(connection.headers) < 100  # what comes after the refusal is thrown away
        assert await wire.is_closed()
        with pytest.raises(ConnectionError):
            await sending


@pytest.mark.parametrize(
    "sent",
    [b"0\r\nA: " + b"x" * 5000, b"0\r\n" + b"a: b\r\n" * 2000, b"5;" + b"x" * 5000],
    ids=["trailer field", "trailer fields", "chunk extension"],
)
async def test_what_surrounds_a_body_is_bounded_like_a_head(sent: bytes) -> None:
    SCOPES.clear()
    async with served(whole) as server:
        wire = await server.connect()
        await wire.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await asyncio.sleep(0.02)
        for at in range(0, len(sent), 500):
            await wire.send(sent[at : at + 500])
            await asyncio.sleep(0.002)
            if wire.reader.at_eof():
                break
        assert (await wire.answer())[0] == 431
        assert await wire.is_closed()
        await until(lambda: SCOPES == ["disconnected"])


# What RFC 9112 asks for


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nhost: y\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n", 400), (b"GET / HTTP/1.0\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\nhOsT: x\r\n\r\n", 200), (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400), (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", 400),
    ],
)  # fmt: skip
async def test_a_request_names_its_host_once(head: bytes, status: int) -> None:
    async with served(whole) as server:
        wire = await server.connect()
        found, fields, _ = await wire.ask(head)
        assert found == status
        if status == 400:
            assert fields["connection"] == "close"
            assert await wire.is_closed()


async def test_white_space_around_a_value_is_no_part_of_it() -> None:
    async with served(whole) as server:
        wire = await server.connect()
        answer = await wire.ask(
            b"POST / HTTP/1.1\r\nHost: x \t\r\nIdempotency-Key: \t ow1 \t\r\nOrigin:null \r\n"
            b"Content-Length: 0\t\r\n\r\n"
        )
        sent = dict(json.loads(answer[2])["headers"])
        assert sent == {"host": "x", "idempotency-key": "ow1", "origin": "null", "content-length": "0"}


async def test_trailer_fields_are_no_header_fields() -> None:
    async with served(whole) as server:
        wire = await server.connect()
        answer = await wire.ask(
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"5\r\nhello\r\n0\r\nAuthorization: Bearer stolen\r\nIdempotency-Key: x\r\nHost: y\r\n\r\n"
        )
        request = json.loads(answer[2])
        assert request["body"] == "hello"
        assert {name for name, _ in request["headers"]} == {"host", "transfer-encoding"}
        assert (await wire.ask(GET))[0] == 200


async def test_no_other_protocol_is_spoken() -> None:
    async with served(whole) as server:
        wire = await server.connect()
        upgrade = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        assert (await wire.ask(upgrade))[0] == 200
        await wire.send(upgrade + upgrade + GET)
        assert [(await wire.answer())[0] for _ in range(3)] == [200, 200, 200]
        assert (await wire.ask(b"CONNECT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 34\r\n\r\n"))[0] == 400
        assert await wire.is_closed()


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("in_pieces", [False, True])
async def test_a_body_behind_upgrade_is_no_request(in_pieces: bool, is_chunked: bool) -> None:
    framing = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % len(GET)
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(GET), GET) if is_chunked else GET
    head = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    async with served(whole) as server:
        wire = await server.connect()
        await wire.send(head + framing + b"\r\n\r\n" + (b"" if in_pieces else body))
        if in_pieces:
            await asyncio.sleep(0.05)
            await wire.send(body)
        status, _, answer = await wire.answer()
        assert (status, json.loads(answer)["body"]) == (200, GET.decode())
        other = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nother"
        assert json.loads((await wire.ask(other))[2])["body"] == "other"


async def test_a_refusal_waits_for_the_answers_before_it() -> None:
    go_on = asyncio.Event()

    async def slow(_: Request) -> Response:
        await go_on.wait()
        return PlainTextResponse("slow")

    async with served(slow) as server:
        wire = await server.connect()
        await wire.send(GET + b"nonsense\r\n\r\n")
        await asyncio.sleep(0.05)
        go_on.set()
        status, fields, body = await wire.answer()
        assert (status, fields["connection"], body) == (200, "close", b"slow")
        assert await wire.reader.read() == b""


async def test_a_broken_body_is_refused_and_the_application_is_notified() -> None:
    SCOPES.clear()
    async with served(whole) as server:
        wire = await server.connect()
        status, _, _ = await wire.ask(
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n"
        )
        assert status == 400
        await until(lambda: SCOPES == ["disconnected"])


# How many


async def test_an_address_has_so_many_connections() -> None:
    async with served(whole) as server:
        wires = [await server.connect() for _ in range(5)]
        assert [(await wire.ask(GET))[0] for wire in wires] == [200] * 5
        assert await (await server.connect()).is_closed()
        # Another address has its own, and one that ends makes room.
        assert (await (await server.connect("127.0.0.2")).ask(GET))[0] == 200
        wires[0].writer.close()
        await until(lambda: server.open_connections() == 5)
        assert (await (await server.connect()).ask(GET))[0] == 200


async def test_connections_of_a_trusted_proxy_are_not_counted() -> None:
    async with served(whole, proxies=(ip_network("127.0.0.1/32"),)) as server:
        for _ in range(12):
            assert (await (await server.connect()).ask(GET))[0] == 200
        others = [await server.connect("127.0.0.2") for _ in range(6)]
        assert await others[-1].is_closed()


async def test_silent_connections_make_room_for_others() -> None:
    limits = ConnectionLimits(total=20, per_address=5, head_timeout_s=60)
    async with served(whole, limits) as server:
        silent = [await server.connect(f"127.0.1.{number // 5}") for number in range(20)]
        await until(lambda: server.open_connections() == 20)
        for _ in range(5):
            assert (await (await server.connect("127.0.0.2")).ask(GET))[0] == 200
        # The oldest have gone.
        assert all([await wire.is_closed() for wire in silent[:5]])
        assert not await silent[-1].is_closed(0.1)
        assert server.open_connections() <= 20


async def test_a_request_in_progress_makes_no_room() -> None:
    go_on = asyncio.Event()

    async def slow(_: Request) -> Response:
        await go_on.wait()
        return PlainTextResponse("slow")

    async with served(slow, ConnectionLimits(total=3, per_address=10)) as server:
        busy = [await server.connect() for _ in range(3)]
        for wire in busy:
            await wire.send(GET)
        await until(lambda: len(server.server.tasks) == 3)
        assert await (await server.connect()).is_closed()
        go_on.set()
        assert [(await wire.answer())[0] for wire in busy] == [200] * 3
        # Now they are idle, and the one that has been for longest goes.
        assert (await (await server.connect()).ask(GET))[0] == 200
        assert await busy[0].is_closed()


async def test_counts_return_to_zero() -> None:
    async with served(whole) as server:
        for _ in range(3):
            wires = [await server.connect() for _ in range(5)]
            await wires[0].ask(GET)
            await wires[1].send(b"nonsense\r\n\r\n")
            for wire in wires:
                wire.writer.close()
            await until(lambda: server.open_connections() == 0)
        connections = server.front.connections
        assert (connections._groups, dict(connections._sizes), connections._waiting) == ({}, {}, {})


# The end


async def test_while_draining_a_connection_is_not_kept() -> None:
    async with served(whole) as server:
        wire = await server.connect()
        assert "connection" not in (await wire.ask(GET))[1]
        server.front.is_draining = lambda: True
        assert (await wire.ask(GET))[1]["connection"] == "close"
        assert await wire.is_closed()
        assert (await (await server.connect()).ask(GET))[0] == 200


# The service itself


async def test_the_service_refuses_in_the_envelope(migrated_url: str, customer: Customer) -> None:
    service = Service(settings_for(migrated_url, connections=15))
    config = uvicorn.Config(service, log_level="critical")
    config.load()
    lifespan = LifespanOn(config)
    await lifespan.startup()
    async with listening(config, lifespan.state) as server:
        for head, status in (
            (b"GET /api/v1/me HTTP/1.1\r\n\r\n", 400),
            (b"GET /api/v1/me HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 40_000, 431),
            (b"nonsense\r\n\r\n", 400),
        ):
            wire = await server.connect()
            found, fields, body = await wire.ask(head)
            assert (found, json.loads(body)["error"]["code"]) == (status, "invalid_request")
            assert fields["x-ratelimit-remaining"] == fields["x-ratelimit-limit"]
            assert fields["x-request-id"] == json.loads(body)["error"]["request_id"]
            assert fields["content-type"] == "application/json"
            assert await wire.is_closed()
            wire.writer.close()
        await until(lambda: server.open_connections() == 0)
        wire = await server.connect()
        key = customer.key.text.encode()
        request = b"GET /api/v1/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + b"\r\n\r\n"
        assert (await wire.ask(request))[0] == 200
        others = [await server.connect() for _ in range(3)]
        assert await others[-1].is_closed()
    await lifespan.shutdown()


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
        assert await wire.is_closed()
        await until(lambda: server.open_connections() == 0)


async def test_an_answer_to_head_has_no_body(migrated_url: str, customer: Customer):
    async with service_at(Service(settings_for(migrated_url))) as server:
        wire = await server.connect()
        await wire.send(request(customer.key.text, "/api/v1/me", method="HEAD"))
        head = (await wire.reader.readuntil(b"\r\n\r\n")).decode()
        assert head.startswith("HTTP/1.1 405")
        assert (await wire.ask(request(customer.key.text, "/api/v1/me")))[0] == 200
