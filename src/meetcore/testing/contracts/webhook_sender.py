"""The contract of `ports.webhook_sender`: posts, responses, time limits and vetted addresses.

Nothing that a receiver does is raised. The pool of connections, the limits of the sender, and the form of an
excerpt are tested with each adapter.
"""

import asyncio
import gzip
import random
import socket
from ipaddress import IPv4Address, IPv4Network, ip_address
from pathlib import Path
from time import monotonic

import pytest
from attrs import evolve

from meetcore.domain.webhooks.deliveries import Attempt, judge
from meetcore.ports.webhook_sender import Resolver, WebhookSender
from meetcore.testing.contracts.webhook_setting import (
    HOST,
    LOCAL,
    NOW,
    SOON_S,
    HangingResolver,
    MakeSender,
    SenderBench,
    SenderSetting,
    StaticResolver,
    a_post,
)
from meetcore.testing.receiver import (
    OK,
    Authority,
    Behaviour,
    answering,
    dripping,
    hang,
    hang_up,
    pouring,
    replying_and_closing,
    reset,
)

__all__ = ["MakeSender", "SenderSetting", "WebhookSenderContract"]

_HEADERS = {"webhook-id": "evt_1", "webhook-timestamp": "1796090400", "webhook-signature": "v1,a/b+c= v1,d"}
_NOT_PUBLIC = (
    "https://127.0.0.1/", "https://10.0.0.1/", "https://169.254.169.254/", "https://168.63.129.16/",
    "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/",
    "https://224.0.0.1/",
)  # fmt: skip
_SLOW = {
    "hangs": (hang, None),
    "drips its status": (dripping(b"HTTP/1.1 200 ", b"O"), None),
    "drips headers": (dripping(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"), None),
    "drips early hints": (dripping(b"", b"HTTP/1.1 103 Early\r\n\r\n"), None),
    "drips its body": (dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"x"), 200),
}
_REDIRECTS = (301, 302, 303, 307, 308)
_EXCERPT_BYTES = 2048
_ERRORS = frozenset({
    "dns_failed", "address_refused", "connect_timeout", "connect_failed", "tls_failed", "timeout",
    "connection_lost", "invalid_response",
})  # fmt: skip
_RETRY_AFTER = (
    ("120", 120), ("0", 0), ("9" * 30, 999_999_999),
    ("Tue, 01 Dec 2026 02:01:00 GMT", 60), ("Mon, 30 Nov 2026 02:00:00 GMT", 0),
    ("", None), ("soon", None), ("-5", None), ("1.5", None), ("Tue, 99 Dec 2026 02:01:00 GMT", None),
)  # fmt: skip
_NOT_HTTP = (
    b"not http\r\n\r\n", b"HTTP/1.1 abc OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
)  # fmt: skip
_FRAGMENTS = [
    b"HTTP/1.1 ", b"HTTP/1.1 200 OK\r\n", b"200", b" OK", b"\r\n", b"\n", b"\r\n\r\n", b":", b";", b"5",
    b"\0", b"Content-Length: ", b"Transfer-Encoding: chunked", b"Set-Cookie: ",
    b"Content-Type: x; charset=", b"Content-Encoding: br", b"Connection: ", b"Location: //[", b"\xff\xfe",
]  # fmt: skip


@pytest.mark.asyncio
class WebhookSenderContract:
    """The suite of a `WebhookSender`. The fixture `make_sender` makes one with the given settings::

    class TestMySender(WebhookSenderContract):
        @pytest.fixture
        def make_sender(self) -> MakeSender:
            @asynccontextmanager
            async def make(setting: SenderSetting) -> AsyncIterator[WebhookSender]:
                sender = MySender(
                    setting.resolver, setting.allowed_networks, ca_file=setting.ca_file, port=setting.port,
                    timeout_s=setting.timeout_s, now=setting.now,
                )
                yield sender
                await sender.close()

            return make
    """

    @pytest.fixture
    def bench(self, make_sender: MakeSender, tmp_path: Path) -> SenderBench:
        return SenderBench(make_sender, Authority(tmp_path))

    # The request

    async def test_a_delivery_arrives_as_it_was_signed(self, bench: SenderBench) -> None:
        async with bench.open(answering(OK)) as (sender, receiver):
            attempt = await sender.post(a_post(headers=_HEADERS))
        assert judge(attempt)
        assert attempt.duration_ms >= 0
        expected = Attempt(NOW, 0, status_code=200, response_excerpt="ok", address="127.0.0.1")
        assert evolve(attempt, duration_ms=0) == expected
        assert (receiver.bodies, receiver.names) == ([b'{"id":"1"}'], [HOST])
        line, headers = _read(receiver.heads[0])
        assert (line, headers["host"]) == ("POST /hook?x=1 HTTP/1.1", [HOST])
        for name, value in _HEADERS.items():
            assert headers.get(name) == [value]

    @pytest.mark.parametrize(
        "body", [b"", b"\0\r\n\r\n\xff", '{"名":"é"}'.encode(), bytes(range(256)) * 4096], ids=len
    )
    async def test_the_body_goes_out_byte_for_byte(self, bench: SenderBench, body: bytes) -> None:
        async with bench.open(answering(OK)) as (sender, receiver):
            assert judge(await sender.post(a_post(body=body)))
        assert receiver.bodies == [body]

    @pytest.mark.parametrize(
        "target", ["/", "/a/../b//c", "/a%2Fb%20?q=%C3%BC&x[]=1;2", "/~a;b=c/@:!$&'()*+,=?/?"]
    )
    async def test_path_and_query_go_out_byte_for_byte(self, bench: SenderBench, target: str) -> None:
        async with bench.open(answering(OK)) as (sender, receiver):
            assert judge(await sender.post(a_post(f"https://{HOST}{target}")))
        assert receiver.heads[0].split(b" ")[1].decode() == target

    async def test_cookies_and_proxies_are_ignored(
        self, bench: SenderBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        cookie = OK.replace(b"OK\r\n", b"OK\r\nSet-Cookie: a=b; Path=/\r\n")
        async with bench.open(answering(cookie)) as (sender, receiver):
            for _ in range(2):
                assert judge(await sender.post(a_post()))
        assert not any(b"cookie" in head.lower() for head in receiver.heads)

    # The response

    @pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
    async def test_a_2xx_is_a_success(self, bench: SenderBench, status: int) -> None:
        attempt = await bench.attempt(answering(_empty(status)))
        assert (attempt.status_code, attempt.error) == (status, None)

    @pytest.mark.parametrize("status", [300, 304, 400, 401, 404, 410, 429, 500, 503, 599, *_REDIRECTS])
    async def test_any_other_status_fails_and_is_not_followed(self, bench: SenderBench, status: int) -> None:
        answer = _empty(status, f"Location: https://{HOST}/x\r\n" if status in _REDIRECTS else "")
        async with bench.open(answering(answer)) as (sender, receiver):
            attempt = await sender.post(a_post())
        assert (attempt.status_code, attempt.error) == (status, f"status_{status}")
        assert len(receiver.heads) == 1

    @pytest.mark.parametrize(("value", "wait_s"), _RETRY_AFTER)
    async def test_retry_after_is_returned(self, bench: SenderBench, value: str, wait_s: int | None) -> None:
        head = f"HTTP/1.1 503 Busy\r\nretry-after: {value}\r\nContent-Length: 4\r\n\r\n".encode()
        attempt = await bench.attempt(answering(head + b"busy"))
        assert (attempt.error, attempt.response_excerpt) == ("status_503", "busy")
        assert attempt.retry_after_s == wait_s

    async def test_the_headers_of_a_refusal_are_returned_without_cookies(self, bench: SenderBench) -> None:
        head = b"HTTP/1.1 401 No\r\nwww-authenticate: Basic\r\nset-cookie: a=b\r\nContent-Length: 0\r\n\r\n"
        headers = (await bench.attempt(answering(head))).response_headers
        assert headers == "Www-Authenticate: Basic\nSet-Cookie: (not kept)\nContent-Length: 0"

    async def test_informational_answers_are_skipped_and_upgrades_fail(self, bench: SenderBench) -> None:
        assert judge(await bench.attempt(answering(b"HTTP/1.1 103 Early\r\n\r\n" * 3 + OK)))
        upgrade = answering(b"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
        assert not judge(await bench.attempt(upgrade, SOON_S))

    @pytest.mark.parametrize("encoding", [b"identity", b"gzip"])
    async def test_a_bomb_does_not_go_off(self, bench: SenderBench, encoding: bytes) -> None:
        bomb = gzip.compress(b"A" * 20_000_000)
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n"
        attempt = await bench.attempt(answering(head % (encoding, len(bomb)) + bomb))
        assert judge(attempt)
        _assert_is_safe(attempt.response_excerpt)

    async def test_an_endless_answer_is_read_to_a_cap(self, bench: SenderBench) -> None:
        attempt = await bench.attempt(pouring(b"HTTP/1.1 200 OK\r\n\r\n"))
        assert judge(attempt)
        assert set(attempt.response_excerpt or "") == {"x"}
        _assert_is_safe(attempt.response_excerpt)

    @pytest.mark.parametrize("body", [
        b"a\0b\xff\0", b"\xff\xfe\x00\xd8", b"\0\0", b"", bytes(range(256)) * 20, "é".encode() * 3000,
    ], ids=len)  # fmt: skip
    async def test_an_excerpt_is_text_that_any_store_can_hold(self, bench: SenderBench, body: bytes) -> None:
        head = b"HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n" % len(body)
        attempt = await bench.attempt(answering(head + body))
        assert attempt.error == "status_500"
        _assert_is_safe(attempt.response_excerpt)

    @pytest.mark.parametrize("answer", _NOT_HTTP)
    async def test_an_answer_that_is_not_http_is_invalid(self, bench: SenderBench, answer: bytes) -> None:
        attempt = await bench.attempt(answering(answer))
        assert (attempt.error, attempt.status_code) == ("invalid_response", None)

    @pytest.mark.parametrize("framing", [b"Transfer-Encoding: chunked", b"Content-Length: 10"])
    async def test_a_body_that_breaks_off_shows_its_status(self, bench: SenderBench, framing: bytes) -> None:
        broken = replying_and_closing(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n5\r\nabc")
        attempt = await bench.attempt(broken)
        assert (attempt.status_code, attempt.error) == (200, "connection_lost")

    async def test_no_bytes_make_the_sender_raise(self, bench: SenderBench) -> None:
        rng = random.Random(20261201)

        async def noise(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            beginning = b"HTTP/1.1 200 OK\r\n" if rng.random() < 0.7 else b""
            answer = beginning + b"".join(rng.choices(_FRAGMENTS, k=rng.randrange(25)))
            await replying_and_closing(answer)(reader, writer)

        async with bench.open(noise) as (sender, _):
            for _ in range(200):
                attempt = await sender.post(a_post())
                assert judge(attempt) is (attempt.error is None)
                assert attempt.error in {None, f"status_{attempt.status_code}", *_ERRORS}
                _assert_is_safe(attempt.response_excerpt)

    # TLS

    async def test_the_certificate_must_be_of_a_trusted_authority(self, bench: SenderBench) -> None:
        async with bench.open(answering(OK), ca_file=None) as (sender, receiver):
            assert (await sender.post(a_post())).error == "tls_failed"
        assert receiver.heads == []

    async def test_the_certificate_must_be_for_the_name_or_the_address(self, bench: SenderBench) -> None:
        for host, names in (("other.test", (HOST,)), ("127.0.0.1", (HOST, "127.0.0.1"))):
            async with bench.open(answering(OK), *names) as (sender, receiver):
                attempt = await sender.post(a_post(f"https://{host}/"))
            assert (attempt.error, attempt.status_code, receiver.heads) == ("tls_failed", None, [])
        async with bench.open(answering(OK), HOST, LOCAL) as (sender, receiver):
            assert judge(await sender.post(a_post("https://127.0.0.1/")))
        assert _read(receiver.heads[0])[1]["host"] == ["127.0.0.1"]

    # Time and connections

    @pytest.mark.parametrize(("behaviour", "status_code"), _SLOW.values(), ids=_SLOW)
    async def test_one_clock_runs(
        self, bench: SenderBench, behaviour: Behaviour, status_code: int | None
    ) -> None:
        attempt, limit_s = await bench.timed_out(behaviour)
        assert not judge(attempt)
        assert (attempt.status_code, attempt.error) == (status_code, "timeout")
        assert limit_s * 1000 <= attempt.duration_ms < limit_s * 1000 + 2000

    async def test_an_unfinished_handshake_is_a_connect_timeout(self, bench: SenderBench) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            async with bench.sender(silent.getsockname()[1], timeout_s=SOON_S) as sender:
                assert (await sender.post(a_post())).error == "connect_timeout"

    async def test_a_closed_port_is_connect_failed(self, bench: SenderBench) -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))  # without listening
            async with bench.sender(bound.getsockname()[1]) as sender:
                attempt = await sender.post(a_post())
        assert evolve(attempt, duration_ms=0, address=None) == Attempt(NOW, 0, error="connect_failed")

    @pytest.mark.parametrize("behaviour", [reset, hang_up])
    async def test_a_lost_connection_is_not_retried(self, bench: SenderBench, behaviour: Behaviour) -> None:
        async with bench.open(behaviour) as (sender, receiver):
            attempt = await sender.post(a_post())
        assert (attempt.error, attempt.status_code) == ("connection_lost", None)
        assert receiver.connections == 1

    async def test_a_cancelled_post_is_cancelled_and_leaves_the_sender_fit(self, bench: SenderBench) -> None:
        arrived = asyncio.Event()

        async def first_hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            behaviour = answering(OK) if arrived.is_set() else hang
            arrived.set()
            await behaviour(reader, writer)

        async with bench.open(first_hangs) as (sender, _):
            task = asyncio.create_task(sender.post(a_post()))
            await asyncio.wait_for(arrived.wait(), 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert judge(await sender.post(a_post()))

    async def test_a_receiver_that_hangs_holds_up_no_other_post(self, bench: SenderBench) -> None:
        all_hang = asyncio.Event()

        async def hangs_for_some(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if sum(b"/hang" in head for head in receiver.heads) == 5:
                all_hang.set()
            await (hang if b"/hang" in receiver.heads[-1] else answering(OK))(reader, writer)

        async with bench.open(hangs_for_some) as (sender, receiver):
            hanging = [asyncio.create_task(sender.post(a_post(f"https://{HOST}/hang"))) for _ in range(5)]
            await all_hang.wait()
            assert judge(await sender.post(a_post()))
            assert not any(task.done() for task in hanging)
            for task in hanging:
                task.cancel()
            await asyncio.gather(*hanging, return_exceptions=True)

    # Names and addresses

    @pytest.mark.parametrize("url", _NOT_PUBLIC)
    async def test_an_address_that_is_not_public_is_not_dialled(self, bench: SenderBench, url: str) -> None:
        async with bench.open(answering(OK), HOST, LOCAL, allowed_networks=()) as (sender, receiver):
            attempt = await sender.post(a_post(url))
        assert evolve(attempt, duration_ms=0) == Attempt(NOW, 0, error="address_refused")
        assert receiver.connections == 0

    @pytest.mark.parametrize(
        "addresses", [("127.0.0.1",), ("8.8.8.8", "10.0.0.1"), ("fe80::1%1",), ("::ffff:127.0.0.1",)]
    )
    async def test_one_such_address_refuses_the_name(
        self, bench: SenderBench, addresses: tuple[str, ...]
    ) -> None:
        resolver = StaticResolver(tuple(map(ip_address, addresses)))
        changes = {"resolver": resolver, "allowed_networks": (IPv4Network("10.9.0.0/16"),)}
        async with bench.open(answering(OK), **changes) as (sender, receiver):
            assert (await sender.post(a_post())).error == "address_refused"
        assert receiver.connections == 0

    async def test_an_exempt_network_is_dialled_and_not_its_mapped_form(self, bench: SenderBench) -> None:
        async with bench.open(answering(OK)) as (sender, receiver):
            assert judge(await sender.post(a_post()))
            assert (await sender.post(a_post("https://[::ffff:127.0.0.1]/"))).error == "address_refused"
        assert len(receiver.heads) == 1

    async def test_an_open_connection_does_not_outlive_its_vetting(self, bench: SenderBench) -> None:
        resolver = StaticResolver((LOCAL,))
        async with bench.open(answering(OK), resolver=resolver) as (sender, receiver):
            assert judge(await sender.post(a_post()))
            resolver.addresses = (IPv4Address("10.0.0.1"),)
            await _until_refused(sender)
            taken = len(receiver.heads)
            for _ in range(3):
                assert (await sender.post(a_post())).error == "address_refused"
        assert len(receiver.heads) == taken

    @pytest.mark.parametrize("resolver", [StaticResolver(()), HangingResolver()])
    async def test_a_name_that_is_not_resolved_in_time_is_dns_failed(
        self, bench: SenderBench, resolver: Resolver
    ) -> None:
        async with bench.sender(resolver=resolver, timeout_s=SOON_S) as sender:
            attempt = await sender.post(a_post())
        assert evolve(attempt, duration_ms=0) == Attempt(NOW, 0, error="dns_failed")


async def _until_refused(sender: WebhookSender) -> None:
    """Post until an address is refused: a sender may use a lookup for a second."""
    deadline = monotonic() + 10
    while (await sender.post(a_post())).error != "address_refused":
        assert monotonic() < deadline, "a name's new address was never vetted"


def _empty(status: int, headers: str = "") -> bytes:
    length = "" if status in (204, 304) else "Content-Length: 0\r\n"
    return f"HTTP/1.1 {status} X\r\n{headers}{length}\r\n".encode()


def _assert_is_safe(excerpt: str | None) -> None:
    assert excerpt is None or 0 < len(excerpt.encode("utf-8")) <= _EXCERPT_BYTES
    assert "\0" not in (excerpt or "")


def _read(head: bytes) -> tuple[str, dict[str, list[str]]]:
    """Return the request line, and the values of each header by its name in lower case."""
    line, *lines = head.decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
    headers: dict[str, list[str]] = {}
    for one in lines:
        name, _, value = one.partition(":")
        headers.setdefault(name.lower(), []).append(value.strip(" "))
    return line, headers
