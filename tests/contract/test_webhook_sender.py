"""The webhook sender against a real TLS receiver on loopback that misbehaves in every way it can."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gzip
import random
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address
from pathlib import Path

import pytest
from aiohttp.connector import AddrInfoType
from attrs import define, evolve, field
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from meetcore.adapters.webhook_sender import AiohttpWebhookSender, SystemResolver, dialling
from meetcore.adapters.webhook_sender import sender as sender_module
from meetcore.adapters.webhook_sender.answers import excerpt_of, retry_after_s
from meetcore.adapters.webhook_sender.resolver import BriefAnswers
from meetcore.domain.addresses import Address
from meetcore.domain.deliveries import Attempt, judge
from meetcore.domain.errors import HostUnresolved
from meetcore.domain.webhook_urls import parse_webhook_url
from meetcore.ports.webhook_sender import OutgoingPost, WebhookSender

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)
HOST = "hooks.test"
LOOPBACK = IPv4Network("127.0.0.0/8")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SOON_S = 0.4
"""The time limit where running out of time is the point."""


# The receiver


@define
class Receiver:
    """Reads requests and answers each as `behaviour` says; knows what it was sent."""

    port: int
    behaviour: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
    heads: list[bytes] = field(factory=list)
    bodies: list[bytes] = field(factory=list)
    names: list[str | None] = field(factory=list)
    connections: int = 0
    writers: list[asyncio.StreamWriter] = field(factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                self.bodies.append(await reader.readexactly(length))
                self.heads.append(head)
                await self.behaviour(reader, writer)
        writer.transport.abort()


def answering(answer: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def behaviour(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    return behaviour


async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def hang(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read()


def dripping(beginning: bytes, drop: bytes) -> Callable[..., Awaitable[None]]:
    async def behaviour(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(beginning)
        while not writer.is_closing():
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(SOON_S / 40)

    return behaviour


Issued = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def issue(name: str, alternatives: list[x509.GeneralName], issuer: Issued | None) -> Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    signer = issuer[1] if issuer else key
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if issuer is None:
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
    else:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(signer, hashes.SHA256()), key


@define
class Certificates:
    ca_file: str
    server: ssl.SSLContext


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    place: Path = tmp_path_factory.mktemp("tls")
    authority = issue("test authority", [], None)
    names: list[x509.GeneralName] = [x509.DNSName(HOST), x509.IPAddress(IPv4Address("127.0.0.1"))]
    leaf, key = issue(HOST, names, authority)
    (place / "ca.pem").write_bytes(authority[0].public_bytes(serialization.Encoding.PEM))
    (place / "leaf.pem").write_bytes(
        leaf.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place / "leaf.pem")
    return Certificates(str(place / "ca.pem"), context)


@contextlib.asynccontextmanager
async def receiving(
    certificates: Certificates,
    behaviour: Callable[..., Awaitable[None]],
    hosts: tuple[str, ...] = ("127.0.0.1",),
) -> AsyncIterator[Receiver]:
    sockets = [socket.create_server((hosts[0], 0))]
    port = sockets[0].getsockname()[1]
    sockets += [socket.create_server((host, port)) for host in hosts[1:]]
    receiver = Receiver(port, behaviour)
    certificates.server.sni_callback = lambda _socket, name, _context: receiver.names.append(name)
    servers = [
        await asyncio.start_server(receiver.serve, sock=one, ssl=certificates.server) for one in sockets
    ]
    try:
        yield receiver
    finally:
        for server in servers:
            server.close()
        for writer in receiver.writers:
            writer.transport.abort()
        for server in servers:
            await server.wait_closed()
        while tasks := [task for task in asyncio.all_tasks() if "Receiver.serve" in repr(task.get_coro())]:
            await asyncio.wait(tasks)


# The sender


@define
class StaticResolver:
    """Answers what it is told; counts how often it is asked."""

    addresses: tuple[Address, ...]
    asked: int = 0

    async def resolve(self, host: str) -> tuple[Address, ...]:
        self.asked += 1
        if not self.addresses:
            raise HostUnresolved(host)
        return self.addresses


@contextlib.asynccontextmanager
async def sending(
    certificates: Certificates, receiver: Receiver | None = None, **options: object
) -> AsyncIterator[AiohttpWebhookSender]:
    """A sender that believes the test authority; a receiver given is dialled for HOST, without vetting."""
    settings: dict[str, object] = {
        "ca_file": certificates.ca_file,
        "timeout_s": 5.0,
        "now": lambda: NOW,
        **options,
    }
    if receiver is not None:
        settings["dial_overrides"] = {HOST: ("127.0.0.1", receiver.port)}
    settings.setdefault("resolver", StaticResolver(()))
    sender = AiohttpWebhookSender(**settings)  # type: ignore[arg-type]
    port: WebhookSender = sender
    assert port is sender
    await sender.start()
    try:
        yield sender
    finally:
        await sender.close()


def a_post(url: str = f"https://{HOST}/hook?x=1", **headers: str) -> OutgoingPost:
    return OutgoingPost(parse_webhook_url(url), headers, b'{"id":"1"}')


async def attempt_at(
    certificates: Certificates, behaviour: Callable[..., Awaitable[None]], timeout_s: float = 5.0
) -> tuple[Attempt, Receiver]:
    async with (
        receiving(certificates, behaviour) as receiver,
        sending(certificates, receiver, timeout_s=timeout_s) as sender,
    ):
        return await sender.post(a_post()), receiver


@pytest.fixture
def at_port(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets a test walk the whole way, vetting included, to a receiver that cannot listen on 443."""

    def use(port: int) -> None:
        monkeypatch.setattr(sender_module, "_HTTPS_PORT", port)

    return use


# What is sent


@pytest.mark.spec("6/1")
async def test_a_delivery_arrives_as_it_was_signed(certificates: Certificates) -> None:
    async with receiving(certificates, answering(OK)) as receiver, sending(certificates, receiver) as sender:
        post = a_post(**{"X-Service-Signature": "t=1,v1=aa", "webhook-id": "evt", "User-Agent": "meetcore/1"})
        attempt = await sender.post(post)
    assert judge(attempt)
    assert evolve(attempt, duration_ms=0) == Attempt(
        NOW, 0, status_code=200, response_excerpt="ok", address="127.0.0.1"
    )
    assert receiver.bodies == [b'{"id":"1"}']
    assert receiver.names == [HOST]
    lines = receiver.heads[0].decode().split("\r\n")
    assert lines[0] == "POST /hook?x=1 HTTP/1.1"
    assert {
        f"Host: {HOST}", "X-Service-Signature: t=1,v1=aa", "webhook-id: evt", "User-Agent: meetcore/1",
        "Content-Type: application/json", "Accept-Encoding: identity",
    } <= set(lines)  # fmt: skip
    assert sum(line.lower().startswith("host:") for line in lines) == 1


@pytest.mark.parametrize(
    "target", ["/", "/a/../b//c", "/a%2Fb%20?q=%C3%BC&x[]=1;2", "/~a;b=c/@:!$&'()*+,=?/?"]
)
async def test_path_and_query_go_out_byte_for_byte(certificates: Certificates, target: str) -> None:
    async with receiving(certificates, answering(OK)) as receiver, sending(certificates, receiver) as sender:
        assert judge(await sender.post(a_post(f"https://{HOST}{target}")))
    assert receiver.heads[0].split(b" ")[1].decode() == target


async def test_cookies_and_proxies_of_the_environment_are_ignored(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    answer = OK.replace(b"OK\r\n", b"OK\r\nSet-Cookie: a=b; Path=/\r\n")
    async with (
        receiving(certificates, answering(answer)) as receiver,
        sending(certificates, receiver) as sender,
    ):
        for _ in range(2):
            assert judge(await sender.post(a_post()))
    assert not any(b"cookie" in head.lower() for head in receiver.heads)


# TLS


@pytest.mark.spec("6/1")
async def test_the_certificate_must_be_for_the_name(certificates: Certificates) -> None:
    async with receiving(certificates, answering(OK)) as receiver:
        overrides = {"other.test": ("127.0.0.1", receiver.port)}
        async with sending(certificates, dial_overrides=overrides) as sender:
            attempt = await sender.post(a_post("https://other.test/"))
    assert (attempt.error, attempt.status_code, receiver.heads) == ("tls_failed", None, [])


@pytest.mark.spec("6/1")
async def test_the_certificate_must_be_of_an_authority_that_is_believed(certificates: Certificates) -> None:
    async with (
        receiving(certificates, answering(OK)) as receiver,
        sending(certificates, receiver, ca_file=None) as sender,
    ):
        assert (await sender.post(a_post())).error == "tls_failed"
    assert receiver.heads == []


async def test_the_certificate_of_an_address_is_checked_for_the_address(
    certificates: Certificates, at_port: Callable[[int], None]
) -> None:
    hosts = ("127.0.0.1", "127.0.0.2")
    async with receiving(certificates, answering(OK), hosts) as receiver:
        at_port(receiver.port)
        async with sending(certificates, allowed_networks=[LOOPBACK]) as sender:
            assert judge(await sender.post(a_post("https://127.0.0.1/")))
            assert (await sender.post(a_post("https://127.0.0.2/"))).error == "tls_failed"
    assert b"Host: 127.0.0.1\r\n" in receiver.heads[0]


# What comes back


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(certificates: Certificates, status: int) -> None:
    answer = f"HTTP/1.1 {status} X\r\nLocation: https://{HOST}/x\r\nContent-Length: 0\r\n\r\n".encode()
    attempt, receiver = await attempt_at(certificates, answering(answer))
    assert (attempt.status_code, attempt.error) == (status, f"status_{status}")
    assert len(receiver.heads) == 1


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


async def test_a_busy_receiver_is_heard(certificates: Certificates) -> None:
    answer = b"HTTP/1.1 503 Busy\r\nretry-after: 120\r\nContent-Length: 4\r\n\r\nbusy"
    attempt, _ = await attempt_at(certificates, answering(answer))
    assert (attempt.error, attempt.retry_after_s, attempt.response_excerpt) == ("status_503", 120, "busy")


async def test_informational_answers_are_skipped_and_an_upgrade_is_no_success(
    certificates: Certificates,
) -> None:
    attempt, _ = await attempt_at(certificates, answering(b"HTTP/1.1 103 Early\r\n\r\n" * 3 + OK))
    assert judge(attempt)
    upgrade = b"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    attempt, _ = await attempt_at(certificates, answering(upgrade), SOON_S)
    assert not judge(attempt)


@pytest.mark.parametrize("encoding", [b"identity", b"gzip"])
async def test_a_bomb_does_not_go_off(certificates: Certificates, encoding: bytes) -> None:
    bomb = gzip.compress(bytes([65]) * 20_000_000)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (encoding, len(bomb))
    attempt, _ = await attempt_at(certificates, answering(head + bomb))
    assert judge(attempt)
    assert len((attempt.response_excerpt or "").encode()) <= 2048
    if encoding == b"gzip":
        assert attempt.response_excerpt == "A" * 2048


@pytest.mark.spec("6/4")
async def test_an_endless_answer_is_read_to_a_cap_and_its_connection_is_not_kept(
    certificates: Certificates,
) -> None:
    async def pour(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x" * 65536)
            await writer.drain()

    async with receiving(certificates, pour) as receiver, sending(certificates, receiver) as sender:
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


async def test_nul_bytes_of_a_receiver_do_not_reach_the_record(certificates: Certificates) -> None:
    answer = b"HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\na\0b\xff\0"
    attempt, _ = await attempt_at(certificates, answering(answer))
    assert attempt.response_excerpt == "ab\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("answer", [
    b"not http\r\n\r\n", b"HTTP/1.1 abc OK\r\n\r\n", b"HTTP/1.1 20 OK\r\n\r\n", b"HTTP/9.9.9 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000 + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 5000 + b"\r\n",
])  # fmt: skip
async def test_an_answer_that_is_not_http_is_invalid(certificates: Certificates, answer: bytes) -> None:
    attempt, _ = await attempt_at(certificates, answering(answer))
    assert (attempt.error, attempt.status_code) == ("invalid_response", None)


@pytest.mark.parametrize("framing", [b"Transfer-Encoding: chunked", b"Content-Length: 10"])
async def test_a_body_that_breaks_off_is_a_failure_that_shows_its_status(
    certificates: Certificates, framing: bytes
) -> None:
    async def say_and_go(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n5\r\nabc")
        writer.close()
        raise OSError

    attempt, _ = await attempt_at(certificates, say_and_go)
    assert not judge(attempt)
    assert (attempt.status_code, attempt.error) == (200, "connection_lost")


async def test_no_bytes_make_the_sender_raise(certificates: Certificates) -> None:
    dice = random.Random(20261201)
    words = [
        b"HTTP/1.1 ", b"HTTP/1.1 200 OK\r\n", b"200", b" OK", b"\r\n", b"\n", b"\r\n\r\n", b":", b";", b"5",
        b"\0", b"Content-Length: ", b"Transfer-Encoding: chunked", b"Set-Cookie: ",
        b"Content-Type: x; charset=", b"Content-Encoding: br", b"Connection: ", b"Location: //[", b"\xff\xfe",
    ]  # fmt: skip

    async def babble(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if dice.random() < 0.7:
            writer.write(b"HTTP/1.1 200 OK\r\n")
        writer.write(b"".join(dice.choices(words, k=dice.randrange(25))))
        writer.close()
        raise OSError

    async with receiving(certificates, babble) as receiver, sending(certificates, receiver) as sender:
        for _ in range(200):
            attempt = await sender.post(a_post())
            assert judge(attempt) is (attempt.error is None)


# Time and connections


@pytest.mark.spec("6/4")
@pytest.mark.parametrize(("behaviour", "status_code"), [
    (hang, None),
    (dripping(b"HTTP/1.1 200 ", b"O"), None),
    (dripping(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"), None),
    (dripping(b"", b"HTTP/1.1 103 Early\r\n\r\n"), None),
    (dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"x"), 200),
], ids=["hangs", "drips its status", "drips headers", "drips early hints", "drips its body"])  # fmt: skip
async def test_one_clock_runs_over_the_whole_attempt(
    certificates: Certificates, behaviour: Callable[..., Awaitable[None]], status_code: int | None
) -> None:
    attempt, _ = await attempt_at(certificates, behaviour, SOON_S)
    assert not judge(attempt)
    assert (attempt.status_code, attempt.error) == (status_code, "timeout")
    assert SOON_S * 1000 <= attempt.duration_ms < SOON_S * 1000 + 2000


async def test_a_receiver_that_never_greets_is_a_connect_timeout(certificates: Certificates) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        overrides = {HOST: silent.getsockname()}
        async with sending(certificates, dial_overrides=overrides, timeout_s=SOON_S) as sender:
            assert (await sender.post(a_post())).error == "connect_timeout"


async def test_a_closed_port_is_connect_failed_and_tells_nothing_else(certificates: Certificates) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        overrides = {HOST: closed.getsockname()}
    async with sending(certificates, dial_overrides=overrides) as sender:
        attempt = await sender.post(a_post())
    assert evolve(attempt, duration_ms=0) == Attempt(NOW, 0, error="connect_failed")


async def test_a_reset_is_a_lost_connection_and_is_not_retried(certificates: Certificates) -> None:
    async def reset(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raw: socket.socket = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    for behaviour in (reset, hang_up):
        attempt, receiver = await attempt_at(certificates, behaviour)
        assert (attempt.error, attempt.status_code) == ("connection_lost", None)
        assert receiver.connections == 1


async def test_a_connection_is_used_again(certificates: Certificates) -> None:
    async with receiving(certificates, answering(OK)) as receiver, sending(certificates, receiver) as sender:
        for _ in range(3):
            assert (await sender.post(a_post())).address == "127.0.0.1"
    assert (receiver.connections, len(receiver.heads)) == (1, 3)


async def test_a_pooled_connection_that_the_receiver_gave_up_is_no_failure(
    certificates: Certificates,
) -> None:
    async def once_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await (answering(OK) if len(receiver.heads) != 2 else hang_up)(reader, writer)

    async with receiving(certificates, once_each) as receiver, sending(certificates, receiver) as sender:
        for _ in range(2):
            assert judge(await sender.post(a_post()))
    assert (receiver.connections, len(receiver.heads)) == (2, 3)


async def test_the_wait_for_a_slot_is_not_on_the_receivers_clock(certificates: Certificates) -> None:
    async def first_hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await (hang if len(receiver.heads) == 1 else answering(OK))(reader, writer)

    async with (
        receiving(certificates, first_hangs) as receiver,
        sending(certificates, receiver, timeout_s=SOON_S, max_connections=1) as sender,
    ):
        attempts = await asyncio.gather(*(sender.post(a_post()) for _ in range(2)))
    assert [attempt.error for attempt in attempts] == ["timeout", None]


async def test_a_cancelled_post_is_cancelled_and_leaves_the_sender_fit(certificates: Certificates) -> None:
    async def first_hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await (hang if len(receiver.heads) == 1 else answering(OK))(reader, writer)

    arrived = asyncio.Event()
    async with receiving(certificates, first_hangs) as receiver, sending(certificates, receiver) as sender:
        task = asyncio.create_task(sender.post(a_post()))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert judge(await sender.post(a_post()))


async def test_our_own_want_of_sockets_is_raised_and_blames_nobody(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(_addr_info: AddrInfoType) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(sender_module, "vetted_socket", no_more)
    overrides = {HOST: ("127.0.0.1", 9)}
    async with sending(certificates, dial_overrides=overrides) as sender:
        with pytest.raises(OSError) as raised:
            await sender.post(a_post())
    assert raised.value.errno == errno.EMFILE


async def test_a_sender_that_was_not_started_says_so(certificates: Certificates) -> None:
    with pytest.raises(RuntimeError, match="start"):
        await AiohttpWebhookSender(StaticResolver(())).post(a_post())


# Vetting


@pytest.mark.spec("4.3/1")
@pytest.mark.parametrize("url", [
    "https://127.0.0.1/", "https://10.0.0.1/", "https://169.254.169.254/", "https://168.63.129.16/", "https://[::1]/",
    "https://[::ffff:127.0.0.1]/", "https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/", "https://224.0.0.1/",
])  # fmt: skip
async def test_an_address_that_is_not_public_is_not_dialled(certificates: Certificates, url: str) -> None:
    async with sending(certificates) as sender:
        attempt = await sender.post(a_post(url))
    assert evolve(attempt, duration_ms=0) == Attempt(NOW, 0, error="address_refused")


@pytest.mark.spec("4.3/1")
@pytest.mark.parametrize(
    "addresses", [("127.0.0.1",), ("8.8.8.8", "10.0.0.1"), ("fe80::1%1",), ("::ffff:127.0.0.1",)]
)
async def test_a_name_that_resolves_to_one_is_refused_whole(
    certificates: Certificates, at_port: Callable[[int], None], addresses: tuple[str, ...]
) -> None:
    async with receiving(certificates, answering(OK)) as receiver:
        at_port(receiver.port)
        resolver = StaticResolver(tuple(map(ip_address, addresses)))
        networks = [IPv4Network("10.9.0.0/16")]
        async with sending(certificates, resolver=resolver, allowed_networks=networks) as sender:
            assert (await sender.post(a_post())).error == "address_refused"
    assert receiver.connections == 0


@pytest.mark.spec("4.3/1")
async def test_an_exempt_network_is_dialled_and_not_its_mapped_form(
    certificates: Certificates, at_port: Callable[[int], None]
) -> None:
    async with receiving(certificates, answering(OK)) as receiver:
        at_port(receiver.port)
        resolver = StaticResolver((IPv4Address("127.0.0.1"),))
        async with sending(certificates, resolver=resolver, allowed_networks=[LOOPBACK]) as sender:
            assert judge(await sender.post(a_post()))
            assert (await sender.post(a_post("https://[::ffff:127.0.0.1]/"))).error == "address_refused"


@define
class Clock:
    at: float = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.mark.spec("4.3/1")
async def test_every_attempt_is_vetted_anew_and_a_pooled_connection_does_not_outlive_the_answer(
    certificates: Certificates, at_port: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(sender_module, "monotonic", clock)
    first, second = IPv4Address("127.0.0.1"), IPv4Address("127.0.0.2")
    async with receiving(certificates, answering(OK), (str(first), str(second))) as receiver:
        at_port(receiver.port)
        resolver = StaticResolver((first,))
        async with sending(certificates, resolver=resolver, allowed_networks=[LOOPBACK]) as sender:
            dialled = []
            for addresses in [(first,), (first,), (second,), (second,), (first,), (IPv4Address("10.0.0.1"),)]:
                clock.at += 1.0
                resolver.addresses = addresses
                attempt = await sender.post(a_post())
                dialled.append((attempt.address, attempt.error))
    assert dialled == [
        ("127.0.0.1", None), ("127.0.0.1", None), ("127.0.0.2", None), ("127.0.0.2", None),
        ("127.0.0.1", None), (None, "address_refused"),
    ]  # fmt: skip
    assert (resolver.asked, receiver.connections) == (6, 2)


@pytest.mark.spec("4.3/1")
async def test_an_answer_serves_for_one_second_only(
    certificates: Certificates, at_port: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(sender_module, "monotonic", clock)
    async with receiving(certificates, answering(OK)) as receiver:
        at_port(receiver.port)
        resolver = StaticResolver((IPv4Address("127.0.0.1"),))
        async with sending(certificates, resolver=resolver, allowed_networks=[LOOPBACK]) as sender:
            asked = []
            for clock.at in (0.0, 0.5, 0.999, 1.0, 1.5, 2.0):
                assert judge(await sender.post(a_post()))
                asked.append(resolver.asked)
    assert asked == [1, 1, 1, 2, 2, 3]


@pytest.mark.spec("4.3/1")
async def test_nothing_is_written_to_a_pooled_peer_that_is_not_vetted(
    certificates: Certificates, at_port: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard behind the pool's key: with one key for everything the peer is still checked."""
    monkeypatch.setattr(dialling.Dial, "pseudonym", "one.invalid")
    clock = Clock()
    monkeypatch.setattr(sender_module, "monotonic", clock)
    async with receiving(certificates, answering(OK)) as receiver:
        at_port(receiver.port)
        resolver = StaticResolver((IPv4Address("127.0.0.1"),))
        async with sending(certificates, resolver=resolver, allowed_networks=[LOOPBACK]) as sender:
            assert judge(await sender.post(a_post()))
            resolver.addresses = (IPv4Address("127.0.0.3"),)
            clock.at = 2.0
            attempt = await sender.post(a_post())
    assert not judge(attempt)
    assert (len(receiver.heads), attempt.address) == (1, None)


@pytest.mark.spec("4.3/1")
def test_no_socket_is_opened_to_another_address() -> None:
    target = dialling.Target(IPv4Address("127.0.0.1"), 443)
    token = dialling.current_dial.set(dialling.Dial(HOST, (target,)))
    try:
        for peer in [("127.0.0.1", 80), ("127.0.0.2", 443), ("::ffff:127.0.0.1", 443, 0, 0)]:
            family = socket.AF_INET6 if ":" in str(peer[0]) else socket.AF_INET
            with pytest.raises(PermissionError):
                dialling.vetted_socket((family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", peer))
        vetted = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 443))
        dialling.vetted_socket(vetted).close()
    finally:
        dialling.current_dial.reset(token)


def test_the_pool_knows_a_connection_by_name_and_peers() -> None:
    one, two = (dialling.Target(IPv4Address(f"8.8.8.{n}"), 443) for n in (1, 2))
    assert dialling.Dial("a", (one, two)).pseudonym == dialling.Dial("a", (two, one)).pseudonym
    others = [
        dialling.Dial("b", (one, two)),
        dialling.Dial("a", (one,)),
        dialling.Dial("a", (evolve(one, port=1), two)),
    ]
    assert len({dial.pseudonym for dial in [dialling.Dial("a", (one, two)), *others]}) == 4


async def test_a_second_address_is_tried_when_the_first_refuses(
    certificates: Certificates, at_port: Callable[[int], None]
) -> None:
    async with receiving(certificates, answering(OK)) as receiver:
        at_port(receiver.port)
        resolver = StaticResolver((IPv4Address("127.0.0.9"), IPv4Address("127.0.0.1")))
        async with sending(certificates, resolver=resolver, allowed_networks=[LOOPBACK]) as sender:
            assert (await sender.post(a_post())).address == "127.0.0.1"


# Names


async def test_a_name_that_does_not_resolve_is_dns_failed(certificates: Certificates) -> None:
    async with sending(certificates, resolver=StaticResolver(())) as sender:
        assert (await sender.post(a_post())).error == "dns_failed"


async def test_time_that_runs_out_in_the_lookup_is_dns_failed(certificates: Certificates) -> None:
    class Hanging:
        async def resolve(self, host: str) -> tuple[Address, ...]:
            return await asyncio.Future()

    async with sending(certificates, resolver=Hanging(), timeout_s=0.05) as sender:
        assert (await sender.post(a_post())).error == "dns_failed"


@pytest.fixture
async def system_resolver() -> AsyncIterator[SystemResolver]:
    resolver = SystemResolver()
    yield resolver
    await resolver.close()


async def test_the_system_resolves_localhost(system_resolver: SystemResolver) -> None:
    found = await system_resolver.resolve("localhost")
    assert set(found) <= {IPv4Address("127.0.0.1"), IPv6Address("::1")}
    assert len(found) == len(set(found)) > 0


@pytest.mark.parametrize("answer", [
    socket.gaierror(socket.EAI_NONAME, "no such name"), OSError("down"), [],
    [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("not an address", 0))],
])  # fmt: skip
async def test_whatever_the_system_says_instead_is_host_unresolved(answer: object) -> None:
    def lookup(*_args: object, **_options: object) -> list[tuple[object, ...]]:
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    resolver = SystemResolver(lookup=lookup)
    with pytest.raises(HostUnresolved):
        await resolver.resolve(HOST)
    await resolver.close()


async def test_a_scope_id_of_the_system_is_kept_to_be_refused() -> None:
    entry = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1%3", 0, 0, 3))
    resolver = SystemResolver(lookup=lambda *_args, **_options: [entry, entry])
    assert await resolver.resolve(HOST) == (IPv6Address("fe80::1%3"),)
    await resolver.close()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    opened = threading.Event()
    yield opened
    opened.set()


async def test_a_lookup_that_hangs_ends_at_its_limit(gate: threading.Event) -> None:
    resolver = SystemResolver(0.05, lookup=lambda *_args, **_options: [(gate.wait(),)])
    with pytest.raises(HostUnresolved):
        await resolver.resolve(HOST)
    await resolver.close()


async def test_callers_at_one_time_share_a_lookup_and_a_failure_is_forgotten() -> None:
    clock, inner = Clock(), StaticResolver(())
    answers = BriefAnswers(inner, clock)
    outcomes = await asyncio.gather(*(answers.resolve(HOST) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(outcome, HostUnresolved) for outcome in outcomes)
    assert inner.asked == 1
    inner.addresses = (IPv4Address("8.8.8.8"),)
    assert await asyncio.gather(*(answers.resolve(HOST) for _ in range(5))) == [inner.addresses] * 5
    assert inner.asked == 2
    clock.at = 1.0
    await answers.resolve("other.test")
    assert list(answers._answers) == ["other.test"]
