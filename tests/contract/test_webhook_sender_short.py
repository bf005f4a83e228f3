"""What the webhook sender does when this side falls short: nothing that counts against a receiver."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest
from aiohappyeyeballs import AddrInfoType

from meetcore.adapters.webhook_sender import AsyncioWebhookSender, SystemResolver, dialling, trust
from meetcore.adapters.webhook_sender.dialling import ConnectionAttempt, VettedRoute
from meetcore.domain.errors import HostUnresolved
from meetcore.domain.webhooks.deliveries import judge
from meetcore.domain.webhooks.sender_faults import SenderFault
from meetcore.ports.webhook_sender import Resolver, SenderFailed
from meetcore.testing.contracts.webhook_setting import HOST, SOON_S, HangingResolver, StaticResolver, a_post
from meetcore.testing.receiver import OK, Authority, Behaviour, answering, hang, pouring, receiving

ROOT = Path(__file__).parents[2]
POSTS = 200
_HEAD = b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%03d: %b\r\n" % (n, b"v" * 240) for n in range(120)) + b"\r\n"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def in_exhausted_child(*arguments: str) -> dict[str, object]:
    """Return what `exhaustion_child` printed."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.contract.exhaustion_child", *arguments,
        cwd=ROOT, env=os.environ | {"PYTHONPATH": "src"}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await child.communicate()
    assert child.returncode == 0
    found: dict[str, object] = json.loads(output)
    return found


def stalling(answer: bytes) -> Behaviour:
    """Answer these bytes, and nothing more until the sender goes."""

    async def behaviour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await reader.read()

    return behaviour


# Descriptors and memory, in a process of its own


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
async def test_without_descriptors_no_attempt_is_recorded(authority: Authority, loop: str) -> None:
    async with receiving(authority.certified(HOST, "other.test"), answering(OK)) as receiver:
        outcomes = await in_exhausted_child("descriptors", loop, authority.ca_file, str(receiver.port))
    assert outcomes == {
        "before": "ok", "kept connection": "ok", "new connection": "exhausted", "lookup": "exhausted",
        "after": "ok",
    }  # fmt: skip
    assert receiver.connections == 2


@pytest.mark.parametrize(("behaviour", "limit_s", "outcome", "most_mb"), [
    (pouring(b"HTTP/1.1 200 OK\r\n\r\n"), 60, "ok", 48),
    # As much as is ever held for one post: a head and a body just below their caps.
    (stalling(_HEAD + b"x" * 65_000), 10, "timeout", 88),
], ids=["endless", "stalling"])  # fmt: skip
async def test_hundreds_of_hostile_answers_fit_into_memory(
    authority: Authority, behaviour: Behaviour, limit_s: int, outcome: str, most_mb: int
) -> None:
    async with receiving(authority.certified(HOST), behaviour) as receiver:
        found = await in_exhausted_child(
            "memory",
            "uvloop",
            authority.ca_file,
            str(receiver.port),
            f"--posts={POSTS}",
            f"--timeout-s={limit_s}",
        )
    assert found["outcomes"] == {outcome: POSTS}
    assert receiver.connections == POSTS + 1
    assert isinstance(found["grew_mb"], float)
    assert found["grew_mb"] < most_mb


# Places, time and the end


async def _sender(
    authority: Authority, port: int, resolver: Resolver | None = None, **options: float
) -> AsyncioWebhookSender:
    there = {} if resolver is not None else {HOST: ("127.0.0.1", port)}
    sender = AsyncioWebhookSender(
        resolver or StaticResolver(()), ca_file=authority.ca_file, dial_overrides=there, **options  # type: ignore[arg-type]
    )  # fmt: skip
    sender.open()
    return sender


async def test_a_post_that_finds_no_place_in_time_is_not_tried(authority: Authority) -> None:
    arrived = asyncio.Event()

    async def first_hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_first = not arrived.is_set()
        arrived.set()
        await (hang if is_first else answering(OK))(reader, writer)

    async with receiving(authority.certified(HOST), first_hangs) as receiver:
        sender = await _sender(authority, receiver.port, max_connections=1, max_wait_s=0.05)
        holds_the_place = asyncio.create_task(sender.post(a_post()))
        await asyncio.wait_for(arrived.wait(), 10)
        with pytest.raises(SenderFailed):
            await sender.post(a_post())
        holds_the_place.cancel()
        await asyncio.gather(holds_the_place, return_exceptions=True)
        assert judge(await sender.post(a_post()))
        await sender.close()
    assert len(receiver.heads) == 2


@pytest.mark.parametrize("resolver", [None, HangingResolver()], ids=["at the receiver", "in the lookup"])
async def test_posts_under_way_when_the_sender_closes_blame_no_receiver(
    authority: Authority, resolver: Resolver | None
) -> None:
    arrived = asyncio.Event()

    async def hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await hang(reader, writer)

    async with receiving(authority.certified(HOST), hangs) as receiver:
        sender = await _sender(authority, receiver.port, resolver)
        task = asyncio.create_task(sender.post(a_post()))
        if resolver is None:
            await asyncio.wait_for(arrived.wait(), 10)
        else:
            await asyncio.sleep(0)
        await sender.close()
        with pytest.raises(SenderFailed):
            await task


async def test_a_stalled_process_does_not_blame_the_receiver(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialling, "_LATE_S", 0.2)
    arrived = asyncio.Event()

    async def second_hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(receiver.heads) == 1:
            await answering(OK)(reader, writer)
            return
        arrived.set()
        await hang(reader, writer)

    async with receiving(authority.certified(HOST), second_hangs) as receiver:
        sender = await _sender(authority, receiver.port)
        assert judge(await sender.post(a_post()))
        sender._timeout_s = SOON_S  # the next one finds a connection, and arrives at once
        task = asyncio.create_task(sender.post(a_post()))
        await asyncio.wait_for(arrived.wait(), 10)
        _stand_still(SOON_S + 0.3)
        with pytest.raises(SenderFailed):
            await task
        await sender.close()


def _stand_still(seconds: float) -> None:
    time.sleep(seconds)


# Lookups


async def test_lookups_that_hang_in_every_thread_are_a_local_fault_and_one_name_takes_one_thread(
    authority: Authority,
) -> None:
    release, names = threading.Event(), list[bytes]()

    def lookup(host: bytes, *_: object, **__: object) -> list[tuple[object, ...]]:
        if host == b"meetcore.invalid.":  # the resolver itself answers
            raise socket.gaierror(socket.EAI_NONAME, "")
        names.append(host)
        release.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]

    resolver = SystemResolver(0.05, threads=2, lookup=lookup)
    sender = await _sender(authority, 9, resolver)
    try:
        for host in ("one.test", "two.test", "one.test"):
            assert (await sender.post(a_post(f"https://{host}/"))).error == "dns_failed"
        with pytest.raises(SenderFailed):
            await sender.post(a_post("https://three.test/"))
    finally:
        release.set()
        await sender.close()
        await resolver.close()
    assert names == [b"one.test", b"two.test"]


async def test_a_thread_that_cannot_be_started_is_a_local_fault(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    resolver = SystemResolver()
    sender = await _sender(authority, 9, resolver)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(SenderFailed):
            await sender.post(a_post())
    await sender.close()
    await resolver.close()


# What this machine lacks altogether


async def test_without_a_resolver_no_receiver_is_blamed(authority: Authority) -> None:
    def lookup(*_: object, **__: object) -> list[tuple[object, ...]]:
        raise socket.gaierror(socket.EAI_AGAIN, "")

    resolver = SystemResolver(0.5, lookup=lookup)
    sender = await _sender(authority, 9, resolver)
    with pytest.raises(SenderFailed) as failure:
        await sender.post(a_post())
    assert failure.value.fault is SenderFault.NO_RESOLVER
    await sender.close()
    await resolver.close()


async def test_without_authorities_no_receiver_is_blamed_and_a_renewed_file_is_read(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nothing, renewed = tmp_path / "nothing.pem", tmp_path / "renewed.pem"
    nothing.touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(renewed))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    monkeypatch.setattr(trust, "_LOOK_SOON_S", 0.05)
    async with receiving(authority.certified(HOST), answering(OK)) as receiver:
        sender = AsyncioWebhookSender(StaticResolver(()), dial_overrides={HOST: ("127.0.0.1", receiver.port)})
        sender.open()
        with pytest.raises(SenderFailed) as failure:
            await sender.post(a_post())
        assert failure.value.fault is SenderFault.NO_AUTHORITIES
        renewed.write_bytes(_pem(authority))
        await asyncio.sleep(0.1)
        assert judge(await sender.post(a_post()))
        await sender.close()


async def test_a_renewed_file_of_authorities_is_read_again_and_a_broken_one_is_not(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other, used = Authority(_made(tmp_path / "other")), tmp_path / "used.pem"
    used.write_bytes(_pem(other))
    monkeypatch.setattr(trust, "_LOOK_EVERY_S", 0.0)
    async with receiving(authority.certified(HOST), answering(OK)) as receiver:
        sender = AsyncioWebhookSender(
            StaticResolver(()), ca_file=str(used), dial_overrides={HOST: ("127.0.0.1", receiver.port)}
        )
        sender.open()
        assert (await sender.post(a_post())).error == "tls_failed"
        used.write_bytes(_pem(authority))
        assert judge(await sender.post(a_post()))
        for broken in (b"", b"-----BEGIN CERTIFICATE-----"):
            used.write_bytes(broken)
            assert judge(await sender.post(a_post(headers={"Connection": "close"})))
        used.unlink()
        assert judge(await sender.post(a_post()))
        await sender.close()


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _pem(authority: Authority) -> bytes:
    return Path(authority.ca_file).read_bytes()


_UNREACHABLE = OSError(errno.ENETUNREACH, "Network is unreachable")


@pytest.mark.parametrize(("routes", "is_ours"), [((), True), ((socket.AF_INET,), False)])
async def test_without_a_route_no_receiver_is_blamed(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, routes: tuple[int, ...], is_ours: bool
) -> None:
    async def unreachable(*_: object, **__: object) -> socket.socket:
        raise _UNREACHABLE

    monkeypatch.setattr(dialling, "start_connection", unreachable)
    monkeypatch.setattr(dialling, "_has_route", lambda family, _: family in routes)
    sender = await _sender(authority, 9)
    if is_ours:
        with pytest.raises(SenderFailed) as failure:
            await sender.post(a_post())
        assert failure.value.fault is SenderFault.NO_ROUTE
    else:
        assert (await sender.post(a_post())).error == "connect_failed"
    await sender.close()


def test_a_refused_connection_is_no_lack_of_a_route(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialling, "_has_route", lambda *_: False)
    assert dialling.is_without_route(_UNREACHABLE)
    assert not dialling.is_without_route(_REFUSED)


# The distinction


def _dial(*addresses: str, peer: str | None = None, local_faults: OSError | None = None) -> ConnectionAttempt:
    return ConnectionAttempt(
        VettedRoute(HOST, tuple(map(ip_address, addresses)), 443), True, local_faults, peer
    )


async def test_a_name_with_many_addresses_is_dialled_at_the_first_of_each_family(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dialled: list[str] = []

    async def start(infos: Sequence[AddrInfoType], **_: object) -> socket.socket:
        dialled.extend(str(place[0]) for *_, place in infos)
        raise _REFUSED

    monkeypatch.setattr(dialling, "start_connection", start)
    there = [f"2001:db8::{number}" for number in range(1, 7)] + [f"192.0.2.{last}" for last in range(30)]
    with pytest.raises(ConnectionRefusedError):
        await dialling.dial(_dial(*there), asyncio.Protocol(), ssl.create_default_context())
    assert dialled == [*there[:4], "192.0.2.0", "192.0.2.1", "192.0.2.2", "192.0.2.3"]


def _unresolved(cause: Exception) -> HostUnresolved:
    fault = HostUnresolved(HOST)
    fault.__cause__ = cause
    return fault


_NO_MORE = OSError(errno.EMFILE, "Too many open files")
_ASSIGNED = OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
_REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


@pytest.mark.parametrize(("fault", "dial", "is_local"), [
    (_unresolved(_NO_MORE), None, True),
    (_unresolved(socket.gaierror(socket.EAI_MEMORY, "")), None, True),
    # The numbers of the resolver's errors must not be read as the system's.
    (_unresolved(socket.gaierror(errno.EMFILE, "")), None, False),
    (_unresolved(socket.gaierror(socket.EAI_AGAIN, "")), None, False),
    (_unresolved(TimeoutError()), None, False),
    (MemoryError(), None, True),
    (RuntimeError("a defect"), None, False),
    (_REFUSED, _dial("8.8.8.8"), False),
    (_NO_MORE, _dial("8.8.8.8"), True),
    # One address refused, for the other no socket was left: the error of both has no number.
    (OSError("Multiple exceptions"), _dial("8.8.8.8", "8.8.4.4", local_faults=_NO_MORE), True),
    (OSError("Multiple exceptions"), _dial("8.8.8.8", "8.8.4.4"), False),
    (_ASSIGNED, _dial("8.8.8.8"), True),
    (_ASSIGNED, _dial("2001:db8::1"), False),
    (RuntimeError("File descriptor 9 is used by transport"), _dial("8.8.8.8"), True),
    # Once the request is written, an end of the connection is the receiver's.
    (ConnectionResetError(errno.ECONNRESET, ""), _dial("8.8.8.8", peer="8.8.8.8"), False),
    (_ASSIGNED, _dial("8.8.8.8", peer="8.8.8.8"), False),
    (RuntimeError("a defect"), _dial("8.8.8.8", peer="8.8.8.8"), False),
    (MemoryError(), _dial("8.8.8.8", peer="8.8.8.8"), True),
])  # fmt: skip
def test_local_faults_are_distinguished_from_the_receivers(
    fault: Exception, dial: ConnectionAttempt | None, is_local: bool
) -> None:
    assert dialling.is_local_fault(fault, dial) is is_local
