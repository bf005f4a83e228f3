"""The suite of the webhook sender on asyncio, and what is its own: pool, places, caps, overrides.

What happens when this side falls short is in `test_webhook_sender_short.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import zlib
from collections.abc import AsyncIterator, Callable
from ipaddress import IPv4Address, ip_address
from pathlib import Path
from types import SimpleNamespace

import pytest
from attrs import define, evolve

from meetcore.adapters.webhook_sender import AsyncioWebhookSender, dialling
from meetcore.adapters.webhook_sender import pool as pool_module
from meetcore.adapters.webhook_sender import sender as sender_module
from meetcore.adapters.webhook_sender.connection import excerpt_of, retry_after_s
from meetcore.domain.webhooks.deliveries import Attempt, judge
from meetcore.ports.webhook_sender import WebhookSender
from meetcore.testing.contracts.webhook_sender import MakeSender, SenderSetting, WebhookSenderContract
from meetcore.testing.contracts.webhook_setting import HOST, LOOPBACK, NOW, StaticResolver, a_post
from meetcore.testing.receiver import (
    OK,
    Authority,
    Behaviour,
    Receiver,
    answering,
    hang,
    hang_up,
    pouring,
    receiving,
)
from tests.support.api_harness import until

# The port


@pytest.mark.spec("4.3/1", "6/1", "6/4")
class TestAsyncio(WebhookSenderContract):
    @pytest.fixture
    def make_sender(self, at_port: Callable[[int], None]) -> MakeSender:
        @contextlib.asynccontextmanager
        async def make(setting: SenderSetting) -> AsyncIterator[WebhookSender]:
            at_port(setting.port)
            sender = AsyncioWebhookSender(
                setting.resolver,
                setting.allowed_networks,
                setting.ca_file,
                setting.timeout_s,
                now=setting.now,
            )
            sender.open()
            try:
                yield sender
            finally:
                await sender.close()

        return make


# The sender


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


LIMIT_S = 30.0


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Timeout]:
    """The clocks of the attempts that have begun."""
    begun: list[asyncio.Timeout] = []

    def timeout(limit_s: float) -> asyncio.Timeout:
        clock = asyncio.timeout(limit_s)
        if limit_s == LIMIT_S:
            begun.append(clock)
        return clock

    # Its own name for asyncio: others in this loop have clocks, too.
    monkeypatch.setattr(sender_module, "asyncio", SimpleNamespace(**{**vars(asyncio), "timeout": timeout}))
    return begun


def running_out(clocks: list[asyncio.Timeout]) -> Behaviour:
    """Send nothing, and let the clock of the last attempt run out."""

    async def behaviour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clocks[-1].reschedule(asyncio.get_running_loop().time())
        await hang(reader, writer)

    return behaviour


@contextlib.asynccontextmanager
async def sending(
    authority: Authority, receiver: Receiver | None = None, **options: object
) -> AsyncIterator[AsyncioWebhookSender]:
    """A sender that believes the test authority; a receiver given is dialled for HOST, without vetting."""
    settings: dict[str, object] = {
        "ca_file": authority.ca_file,
        "timeout_s": LIMIT_S,
        "now": lambda: NOW,
        **options,
    }
    if receiver is not None:
        settings["dial_overrides"] = {HOST: ("127.0.0.1", receiver.port)}
    settings.setdefault("resolver", StaticResolver(()))
    sender = AsyncioWebhookSender(**settings)  # type: ignore[arg-type]
    sender.open()
    try:
        yield sender
    finally:
        await sender.close()


@contextlib.asynccontextmanager
async def reached(
    authority: Authority, behaviour: Behaviour, **options: object
) -> AsyncIterator[tuple[Receiver, AsyncioWebhookSender]]:
    """A receiver, and a sender that dials it for HOST."""
    async with (
        receiving(authority.certified(HOST), behaviour) as receiver,
        sending(authority, receiver, **options) as sender,
    ):
        yield receiver, sender


async def attempt_at(authority: Authority, behaviour: Behaviour) -> Attempt:
    async with reached(authority, behaviour) as (_, sender):
        return await sender.post(a_post())


@pytest.fixture
def at_port(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets a test walk the whole way, vetting included, to a receiver that cannot listen on 443."""

    def use(port: int) -> None:
        monkeypatch.setattr(sender_module, "_HTTPS_PORT", port)

    return use


Vetting = Callable[..., contextlib.AbstractAsyncContextManager[tuple[Receiver, AsyncioWebhookSender]]]


@pytest.fixture
def vetting(authority: Authority, at_port: Callable[[int], None]) -> Vetting:
    """A receiver at an address or several, and a sender that looks it up."""

    @contextlib.asynccontextmanager
    async def reach(
        resolver: StaticResolver, *addresses: str
    ) -> AsyncIterator[tuple[Receiver, AsyncioWebhookSender]]:
        there = addresses or ("127.0.0.1",)
        async with receiving(authority.certified(HOST), answering(OK), there) as receiver:
            at_port(receiver.port)
            async with sending(authority, resolver=resolver, allowed_networks=[LOOPBACK]) as sender:
                yield receiver, sender

    return reach


# What is sent


async def test_http_gets_the_headers_it_needs_and_a_delivery_may_replace_them(authority: Authority) -> None:
    async with reached(authority, answering(OK)) as (receiver, sender):
        await sender.post(a_post(headers={"X-Service-Signature": "t=1,v1=aa", "User-Agent": "meetcore/1"}))
        await sender.post(a_post())
    given, left_out = (head.decode().split("\r\n") for head in receiver.heads)
    own_headers = {
        "Content-Type: application/json",
        "Accept: */*",
        "Accept-Encoding: identity",
        f"Host: {HOST}",
    }
    assert {*own_headers, "X-Service-Signature: t=1,v1=aa", "User-Agent: meetcore/1"} <= set(given)
    assert {*own_headers, "User-Agent: meetcore"} <= set(left_out)
    for lines in (given, left_out):
        names = [line.partition(":")[0].lower() for line in lines[1:-2]]
        assert len(names) == len(set(names))


async def test_http_itself_is_the_senders_business(authority: Authority) -> None:
    smuggled = {
        "host": "other.test", "Content-Length": "3", "Transfer-Encoding": "chunked", "CONNECTION": "close",
        "User-Agent": "one", "user-agent": "two",
    }  # fmt: skip
    async with reached(authority, answering(OK)) as (receiver, sender):
        for _ in range(2):
            assert judge(await sender.post(a_post(headers=smuggled, body=b"12345")))
    assert (receiver.bodies, receiver.connections) == ([b"12345"] * 2, 1)
    lines = receiver.heads[0].decode().split("\r\n")
    assert {f"Host: {HOST}", "Content-Length: 5", "user-agent: two"} <= set(lines)
    assert len(lines) == 9  # the request line, three of HTTP, four of ours and the empty one


@pytest.mark.parametrize("headers", [
    {"X-A": "b\r\nX-B: c"}, {"X-A": "b\n"}, {"X-A": "b\r"}, {"X-A\r\nX-B": "c"}, {"X-A": "\0"}, {"X-A": "é"},
    {"Host": "b\r\nX-B: c", "X-A": "b\nX-B: c"},
])  # fmt: skip
async def test_header_that_is_not_one_line_is_not_sent(authority: Authority, headers: dict[str, str]) -> None:
    async with reached(authority, answering(OK)) as (receiver, sender):
        with pytest.raises(ValueError, match=r"line|ascii"):
            await sender.post(a_post(headers=headers))
        assert judge(await sender.post(a_post()))
    assert len(receiver.heads) == 1


async def test_an_override_is_dialled_without_being_looked_up_or_vetted(authority: Authority) -> None:
    resolver = StaticResolver(())
    async with reached(authority, answering(OK), resolver=resolver) as (receiver, sender):
        attempt = await sender.post(a_post())
        other_attempt = await sender.post(a_post("https://other.test/"))
    assert judge(attempt)
    assert attempt.address == "127.0.0.1"
    assert receiver.names == [HOST]
    assert (other_attempt.error, resolver.lookups) == ("dns_failed", 1)


# What comes back


@pytest.mark.parametrize(("value", "wait_s"), [
    ("120", 120), ("0", 0), ("9" * 5000, 999_999_999), ("1" * 10, 999_999_999),
    ("Tue, 01 Dec 2026 02:01:00 GMT", 60),
    ("Tue, 01 Dec 2026 02:01:00 -0000", 60), ("Mon, 30 Nov 2026 02:00:00 GMT", 0),
    ("", None), ("soon", None), ("-5", None), ("1.5", None), ("٣", None),
    ("Tue, 99 Dec 2026 02:01:00 GMT", None),
    ("Fri, 31 Dec 9999 23:59:59 -2359", 999_999_999),
])  # fmt: skip
def test_retry_after_is_seconds_or_a_date(value: str, wait_s: int | None) -> None:
    assert retry_after_s({"Retry-After": value}, NOW) == wait_s
    assert retry_after_s({}, NOW) is None


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

_PLENTY = bytes([65]) * 20_000_000
_BOMBS = {
    "gzip": (gzip.compress(_PLENTY), "A" * 2048),
    "deflate": (zlib.compress(_PLENTY), "A" * 2048),
    "identity": (gzip.compress(_PLENTY), None),
    "gzip, gzip": (gzip.compress(gzip.compress(_PLENTY)), None),
    "br": (b"\x5b\xff\xff\xaf\x02\x24\x52" * 5000, None),
}
"""Encoding, body, and the excerpt where it is unpacked; whatever else is named is shown as it came."""


@pytest.mark.parametrize("encoding", _BOMBS)
async def test_a_bomb_does_not_go_off(authority: Authority, encoding: str) -> None:
    bomb, unpacked = _BOMBS[encoding]
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(bomb)}\r\n\r\n"
    attempt = await attempt_at(authority, answering(head.encode() + bomb))
    assert judge(attempt)
    assert attempt.response_excerpt == excerpt_of(bomb, encoding)
    assert len((attempt.response_excerpt or "").encode()) <= 2048
    assert unpacked is None or attempt.response_excerpt == unpacked


async def test_a_gibibyte_is_not_waited_for(authority: Authority) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n"
    attempt = await attempt_at(authority, pouring(head))
    assert judge(attempt)
    assert attempt.response_excerpt == "x" * 2048


_HEADS_WITHOUT_END = (
    pouring(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000),
    pouring(b"", b"HTTP/1.1 103 Early\r\n\r\n" * 1000),
    pouring(b"HTTP/1.1 ", b"2" * 5000),
    answering(b"HTTP/1.1 103 Early\r\n\r\n" * 200 + OK),
    answering(b"HTTP/1.1 200 OK\r\n" + b"A: %b\r\n" % (b"b" * 8000) * 10 + b"\r\n"),
)
_ENDS_WITHOUT_END = (
    pouring(CHUNKED + b"0\r\nX: "), pouring(CHUNKED + b"1;"), pouring(CHUNKED + b"0\r\n", b"X: y\r\n" * 1000),
)  # fmt: skip
_CALLED_HTTP_BY_SOME = map(answering, (
    b"HTTP/1.1 20 OK\r\n\r\n", b"HTTP/9.9.9 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nA b: c\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000 + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 5000 + b"\r\n",
))  # fmt: skip


@pytest.mark.parametrize(("behaviour", "status_code"), [
    *((head, None) for head in (*_HEADS_WITHOUT_END, *_CALLED_HTTP_BY_SOME)),
    *((end, 200) for end in _ENDS_WITHOUT_END),
])  # fmt: skip
async def test_what_has_no_end_or_is_not_quite_http_is_invalid(
    authority: Authority, behaviour: Behaviour, status_code: int | None
) -> None:
    attempt = await attempt_at(authority, behaviour)
    assert (attempt.error, attempt.status_code) == ("invalid_response", status_code)


async def test_a_body_in_chunks_of_a_byte_is_read_to_the_cap(authority: Authority) -> None:
    attempt = await attempt_at(authority, answering(CHUNKED + b"1\r\nx\r\n" * 70_000))
    assert (attempt.error, attempt.response_excerpt) == (None, "x" * 2048)


async def test_a_head_as_large_as_any_receiver_sends_is_read(authority: Authority) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + b"A: %b\r\n" % (b"b" * 8000) * 3 + b"\r\nok"
    assert judge(await attempt_at(authority, answering(head)))


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("lengths", [
    b"Content-Length: 2\r\nContent-Length: 2\r\n", b"Content-Length:2\nX: y\ncontent-length: 2 \r\n",
    b"Content-Length: 2, 2\r\n", b"Content-Length: 2\r\nContent-Length: 2,2\r\nConten: 3\r\n",
])  # fmt: skip
async def test_equal_lengths_are_one(authority: Authority, lengths: bytes, step: int) -> None:
    async def behaviour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        early = b"HTTP/1.1 103 Early\r\nContent-Length: 2\r\n\r\n"
        answer = early + b"HTTP/1.1 200 OK\r\n" + lengths + b"\r\nok"
        for at in range(0, len(answer), step):
            writer.write(answer[at : at + step])
            await writer.drain()
            await asyncio.sleep(0)

    attempt = await attempt_at(authority, behaviour)
    assert (attempt.status_code, attempt.response_excerpt, attempt.error) == (200, "ok", None)


@pytest.mark.spec("6/4")
async def test_endless_answer_is_read_to_a_cap_and_its_connection_is_not_kept(
    authority: Authority,
) -> None:
    async with reached(authority, pouring(b"HTTP/1.1 200 OK\r\n\r\n")) as (receiver, sender):
        for _ in range(2):
            attempt = await sender.post(a_post())
            assert judge(attempt)
            assert attempt.response_excerpt == "x" * 2048
    assert receiver.connections == 2


@pytest.mark.parametrize("body", [b"a\0b\0", b"\xff\xfe\x00\xd8", b"\0\0", b"", bytes(range(256)) * 300])
def test_an_excerpt_is_text_that_any_store_can_hold(body: bytes) -> None:
    for encoding in ("", "gzip", "deflate", "br", "\0"):
        excerpt = excerpt_of(body, encoding)
        assert excerpt is None or ("\0" not in excerpt and 0 < len(excerpt.encode("utf-8")) <= 2048)
    assert excerpt_of(b"a\0b\xff\0", "") == "ab\N{REPLACEMENT CHARACTER}"


# Time and connections


async def test_a_closed_port_is_connect_failed_without_details(authority: Authority) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        async with sending(authority, dial_overrides={HOST: closed.getsockname()}) as sender:
            attempt = await sender.post(a_post())
    assert evolve(attempt, duration_ms=0) == Attempt(NOW, 0, error="connect_failed")


async def test_a_receiver_that_never_answers_takes_no_connection_that_another_one_keeps(
    authority: Authority, clocks: list[asyncio.Timeout]
) -> None:
    async def by_path(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_silent = receiver.heads[-1].startswith(b"POST /silent")
        await (running_out(clocks) if is_silent else answering(OK))(reader, writer)

    async with reached(authority, by_path) as (receiver, sender):
        assert (await sender.post(a_post(f"https://{HOST}/silent"))).error == "timeout"
        opened = []
        for path in ("other", "silent", "other", "silent", "other"):
            before = receiver.connections
            attempt = await sender.post(a_post(f"https://{HOST}/{path}"))
            assert attempt.error == ("timeout" if path == "silent" else None)
            opened.append(receiver.connections - before)
    assert opened == [1, 1, 0, 1, 0]


async def test_a_pooled_connection_that_the_receiver_gave_up_is_no_failure(
    authority: Authority,
) -> None:
    async def once_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await (answering(OK) if len(receiver.heads) != 2 else hang_up)(reader, writer)

    async with reached(authority, once_each) as (receiver, sender):
        for _ in range(2):
            assert judge(await sender.post(a_post()))
    assert (receiver.connections, len(receiver.heads)) == (2, 3)


async def test_the_wait_for_a_place_is_not_on_the_receivers_clock(
    authority: Authority, clocks: list[asyncio.Timeout]
) -> None:
    async def first_hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.append(len(clocks))
        await (running_out(clocks) if len(receiver.heads) == 1 else answering(OK))(reader, writer)

    begun: list[int] = []
    async with reached(authority, first_hangs, max_connections=1) as (receiver, sender):
        attempts = await asyncio.gather(*(sender.post(a_post()) for _ in range(2)))
    assert [attempt.error for attempt in attempts] == ["timeout", None]
    assert begun == [1, 2], "the clock of the second begins when the first has ended"


async def test_beyond_so_many_open_connections_none_is_kept(authority: Authority) -> None:
    async with receiving(authority.certified(HOST, "other.test"), answering(OK)) as receiver:
        there = dict.fromkeys((HOST, "other.test"), ("127.0.0.1", receiver.port))
        async with sending(authority, dial_overrides=there, max_open=2) as sender:
            for host in (HOST, "other.test", "other.test", HOST):
                assert judge(await sender.post(a_post(f"https://{host}/")))
    # The first stays; each of the other name's is the second, is closed after its post.
    assert (receiver.connections, receiver.names) == (3, [HOST, "other.test", "other.test"])


async def test_a_connection_that_is_idle_for_long_is_closed(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_IDLE_S", 0.2)
    monkeypatch.setattr(pool_module, "_SWEEP_EVERY_S", 0.02)
    async with reached(authority, answering(OK)) as (receiver, sender):
        pool = sender._pool
        assert pool is not None
        for _ in range(2):  # each has a sweeper: that of the first ends when nothing is kept any more
            assert judge(await sender.post(a_post()))
            assert pool._idle
            await until(lambda: not pool._open)
            await until(lambda: pool._sweeper is None)
            assert not pool._idle
    assert (receiver.connections, len(receiver.heads)) == (2, 2)


async def test_a_sender_that_was_not_opened_raises(authority: Authority) -> None:
    with pytest.raises(RuntimeError, match=r"open\(\)"):
        await AsyncioWebhookSender(StaticResolver(())).post(a_post())


# Vetting


@define
class Clock:
    at: float = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the sender's lookups."""
    clock = Clock()
    monkeypatch.setattr(sender_module, "monotonic", clock)
    return clock


@pytest.mark.spec("4.3/1")
async def test_every_attempt_is_vetted_anew_and_a_pooled_connection_does_not_outlive_the_answer(
    vetting: Vetting, clock: Clock
) -> None:
    first, second = IPv4Address("127.0.0.1"), IPv4Address("127.0.0.2")
    resolver, dialled = StaticResolver((first,)), []
    async with vetting(resolver, str(first), str(second)) as (receiver, sender):
        for addresses in [(first,), (first,), (second,), (second,), (first,), (IPv4Address("10.0.0.1"),)]:
            clock.at += 1.0
            resolver.addresses = addresses
            attempt = await sender.post(a_post())
            dialled.append((attempt.address, attempt.error))
    assert dialled == [
        ("127.0.0.1", None), ("127.0.0.1", None), ("127.0.0.2", None), ("127.0.0.2", None),
        ("127.0.0.1", None), (None, "address_refused"),
    ]  # fmt: skip
    assert (resolver.lookups, receiver.connections) == (6, 2)


@pytest.mark.spec("4.3/1")
async def test_an_answer_serves_for_one_second_only(vetting: Vetting, clock: Clock) -> None:
    resolver, lookups = StaticResolver((IPv4Address("127.0.0.1"),)), []
    async with vetting(resolver) as (_, sender):
        for clock.at in (0.0, 0.5, 0.999, 1.0, 1.5, 2.0):
            assert judge(await sender.post(a_post()))
            lookups.append(resolver.lookups)
    assert lookups == [1, 1, 1, 2, 2, 3]


@pytest.mark.spec("4.3/1")
async def test_nothing_is_written_to_a_pooled_peer_that_is_not_vetted(
    vetting: Vetting, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard behind the pool's key: with one key for everything the peer is still checked."""
    monkeypatch.setattr(dialling.VettedRoute, "__eq__", lambda *_: True)
    monkeypatch.setattr(dialling.VettedRoute, "__hash__", lambda _: 1)
    resolver = StaticResolver((IPv4Address("127.0.0.1"),))
    async with vetting(resolver) as (receiver, sender):
        assert judge(await sender.post(a_post()))
        resolver.addresses = (IPv4Address("127.0.0.3"),)
        clock.at = 2.0
        attempt = await sender.post(a_post())
    assert not judge(attempt)
    assert (len(receiver.heads), attempt.address) == (1, None)


def test_the_pool_knows_a_connection_by_name_and_peers() -> None:
    one, two = IPv4Address("8.8.8.1"), IPv4Address("8.8.8.2")
    route = dialling.VettedRoute
    assert route("a", (one, two), 443) == route("a", (two, one), 443)
    ways = [
        route("a", (one, two), 443),
        route("b", (one, two), 443),
        route("a", (one,), 443),
        route("a", (one, two), 1),
    ]
    assert len(set(ways)) == 4


@pytest.mark.parametrize("address", ["2001:db8::7", "::ffff:127.0.0.1", "64:ff9b::7f00:1"])
def test_a_peer_is_known_however_the_system_writes_its_address(address: str) -> None:
    route = dialling.VettedRoute(HOST, (ip_address(address),), 443)
    as_the_system_writes = socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, address))
    assert route.leads_to(as_the_system_writes, 443)
    assert not route.leads_to("127.0.0.1", 443)
    assert not route.leads_to(as_the_system_writes, 80)


async def test_a_second_address_is_tried_when_the_first_refuses(vetting: Vetting) -> None:
    async with vetting(StaticResolver((IPv4Address("127.0.0.9"), IPv4Address("127.0.0.1")))) as (_, sender):
        assert (await sender.post(a_post())).address == "127.0.0.1"
