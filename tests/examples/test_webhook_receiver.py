"""The webhook receiver over real HTTP: accepted and refused requests, and an event is handled once."""

from __future__ import annotations

import http.client
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Queue
from threading import Event, Thread

import pytest
from attrs import field, frozen

from examples.webhook_receiver import receiver as receiver_module
from examples.webhook_receiver.inbox import Inbox
from examples.webhook_receiver.receiver import MAX_BODY_BYTES, receiver, work
from meetcore.domain.webhooks.signature import SIGNATURE_HEADER, new_secret, sign

NOW = 1_795_000_000
OLD, NEW, STRANGE = (new_secret(bytes([number]) * 32) for number in (1, 2, 3))
BODY = b'{"id": "e-1", "type": "meeting.created", "data": {}}'


@frozen
class RunningReceiver:
    """A receiver that serves, its inbox, and what its worker has handled."""

    port: int
    inbox: Inbox
    handled: Queue[bytes] = field(factory=Queue)

    def post(self, body: bytes, *signatures: str, **headers: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.putrequest("POST", "/")
            for signature in signatures:
                connection.putheader(SIGNATURE_HEADER, signature)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            return connection.getresponse().status
        finally:
            connection.close()

    def handle_all(self) -> list[bytes]:
        """Process the inbox now."""
        while self.inbox.handle_next(self.handled.put):
            pass
        return [self.handled.get_nowait() for _ in range(self.handled.qsize())]


ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningReceiver]:
    inbox = Inbox(tmp_path / "inbox.sqlite3")
    with receiver(("127.0.0.1", 0), [NEW, OLD], inbox, clock=lambda: NOW + 0.9) as server:
        serving = Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        yield RunningReceiver(server.server_address[1], inbox)
        server.shutdown()
        serving.join()
    inbox.close()


@pytest.mark.parametrize("secret", [OLD, NEW], ids=["old", "new"])
def test_either_secret_is_accepted_during_rotation(running: RunningReceiver, secret: str) -> None:
    assert running.post(BODY, sign(secret, BODY, NOW)) == 204
    assert running.handle_all() == [BODY]


@pytest.mark.parametrize("age_s", [-300, 0, 300])
def test_signatures_up_to_five_minutes_old_are_accepted(running: RunningReceiver, age_s: int) -> None:
    assert running.post(BODY, sign(NEW, BODY, NOW - age_s)) == 204


@pytest.mark.parametrize(("body", "signatures", "status"), [
    pytest.param(BODY.replace(b"created", b"ended"), [sign(NEW, BODY, NOW)], 401, id="tampered"),
    pytest.param(BODY.replace(b" ", b""), [sign(NEW, BODY, NOW)], 401, id="written-anew"),
    pytest.param(BODY, [sign(NEW, BODY, NOW - 301)], 401, id="stale"),
    pytest.param(BODY, [sign(NEW, BODY, NOW + 301)], 401, id="from-the-future"),
    pytest.param(BODY, [sign(STRANGE, BODY, NOW)], 401, id="strange-secret"),
    pytest.param(BODY, ["v1=00"], 401, id="malformed"),
    pytest.param(BODY, [], 400, id="no-header"),
    pytest.param(BODY, [sign(STRANGE, BODY, NOW), sign(NEW, BODY, NOW)], 400, id="two-headers"),
    pytest.param(b"hello", [sign(NEW, b"hello", NOW)], 400, id="not-json"),
    pytest.param(b'{"id": 7}', [sign(NEW, b'{"id": 7}', NOW)], 400, id="no-text-for-an-id"),
    pytest.param(b"[1]", [sign(NEW, b"[1]", NOW)], 400, id="not-an-object"),
])  # fmt: skip
def test_a_refused_delivery_is_not_stored(
    running: RunningReceiver, body: bytes, signatures: list[str], status: int
) -> None:
    assert running.post(body, *signatures) == status
    assert running.handle_all() == []


def test_a_repeated_delivery_is_answered_again_and_handled_once(running: RunningReceiver) -> None:
    retried = sign(OLD, BODY, NOW - 60)
    assert [running.post(BODY, each) for each in (sign(NEW, BODY, NOW), retried)] == [204, 204]
    assert running.handle_all() == [BODY]
    assert running.post(BODY, sign(NEW, BODY, NOW)) == 204
    assert running.handle_all() == []


def test_deliveries_of_one_event_at_once_leave_one(running: RunningReceiver) -> None:
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: running.post(BODY, sign(NEW, BODY, NOW)), range(24)))
    assert statuses == [204] * 24
    assert running.handle_all() == [BODY]


@pytest.mark.parametrize("length", [str(MAX_BODY_BYTES + 1), "9" * 30])
def test_an_oversized_body_is_refused_before_it_is_read(running: RunningReceiver, length: str) -> None:
    # Nothing of the body is sent: an answer shows that it was not waited for.
    assert running.post(b"", sign(NEW, b"", NOW), **{"Content-Length": length}) == 413


def test_the_largest_body_is_accepted(running: RunningReceiver) -> None:
    body = b'{"id": "big", "data": "' + b"x" * (MAX_BODY_BYTES - 25) + b'"}'
    assert len(body) == MAX_BODY_BYTES
    assert running.post(body, sign(NEW, body, NOW)) == 204


@pytest.mark.parametrize("length", ["-1", "1e3", "²", ""])
def test_an_invalid_length_is_refused(running: RunningReceiver, length: str) -> None:
    assert running.post(BODY, sign(NEW, BODY, NOW), **{"Content-Length": length}) == 411


def test_a_body_that_ends_early_is_refused(running: RunningReceiver) -> None:
    request = (
        f"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {len(BODY) + 5}\r\n"
        f"{SIGNATURE_HEADER}: {sign(NEW, BODY, NOW)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
        connection.sendall(request.encode() + BODY)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(64).startswith(b"HTTP/1.0 400 ")
    assert running.handle_all() == []


@pytest.mark.parametrize("rest", [b"X: ", b"Content-Length: 999\r\n\r\n"], ids=["head", "body"])
def test_a_sender_that_drips_is_cut_off(
    running: RunningReceiver, monkeypatch: pytest.MonkeyPatch, rest: bytes
) -> None:
    monkeypatch.setattr(receiver_module.Receiver, "timeout", 0.3)
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\n" + rest)
        connection.settimeout(0.05)
        deadline, answer = time.monotonic() + 5, b""
        while not answer:
            assert time.monotonic() < deadline, "each byte came in time, and the request took for ever"
            with suppress(ConnectionError):  # it has been closed, and its answer is still to be read
                connection.sendall(b"x")
            with suppress(TimeoutError):
                answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.0 4")


def test_other_methods_are_not_served(running: RunningReceiver) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)
    connection.request("GET", "/")
    assert connection.getresponse().status == 501
    connection.close()


def test_the_answer_does_not_wait_for_the_work(running: RunningReceiver) -> None:
    stop, may_finish, started = Event(), Event(), Event()

    def slow(body: bytes) -> None:
        started.set()
        assert may_finish.wait(10)
        running.handled.put(body)

    worker = Thread(target=work, args=(running.inbox, slow, stop))
    worker.start()
    try:
        assert running.post(BODY, sign(NEW, BODY, NOW)) == 204
        assert started.wait(10)
        second = BODY.replace(b"e-1", b"e-2")
        assert running.post(second, sign(NEW, second, NOW)) == 204  # while the first is still being handled
        assert running.handled.empty()
        may_finish.set()
        assert [running.handled.get(timeout=10) for _ in range(2)] == [BODY, second]
    finally:
        may_finish.set()
        stop.set()
        worker.join()


def test_a_failed_event_is_retried_and_delays_no_other(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "inbox.sqlite3")
    assert [inbox.put(name, name.encode()) for name in ("bad", "good", "bad")] == [True, True, False]
    tried: list[bytes] = []

    def handle(body: bytes) -> None:
        tried.append(body)
        if tried == [b"bad"]:
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk"):
        inbox.handle_next(handle)
    while inbox.handle_next(handle):
        pass
    assert tried == [b"bad", b"good", b"bad"]
    inbox.close()


def test_acknowledged_events_survive_a_restart(tmp_path: Path) -> None:
    first = Inbox(tmp_path / "inbox.sqlite3")
    first.put("e-1", BODY)
    first.close()
    second = Inbox(tmp_path / "inbox.sqlite3")
    handled: list[bytes] = []
    assert second.put("e-1", BODY) is False
    assert second.handle_next(handled.append)
    assert handled == [BODY]
    assert not second.handle_next(handled.append)
    second.close()


def test_the_program_runs_as_its_docstring_describes(tmp_path: Path) -> None:
    start, send = re.findall(r"::\n\n((?:    .+\n)+)", receiver_module.__doc__ or "")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    # In the shell's place, so that the signal below reaches the program.
    start = shell_lines(start).replace("WEBHOOK_SECRETS", "exec env WEBHOOK_SECRETS").replace("8080", "0")
    program = subprocess.Popen(
        ["/bin/sh", "-c", start],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdout is not None
    assert program.stderr is not None
    with program:
        try:
            port = re.search(r":(\d+)$", program.stderr.readline().strip())
            assert port is not None
            sent = subprocess.run(
                ["/bin/sh", "-c", shell_lines(send).replace("8080", port[1])],
                env=environment, capture_output=True, text=True, check=True,
            )  # fmt: skip
            assert sent.stdout == "204\n"
            assert program.stdout.readline() == '{"id": "e-1"}\n'
            program.send_signal(signal.SIGINT)
            assert program.wait(10) == 0
        finally:
            program.kill()


def shell_lines(lines: str) -> str:
    """Lines of a shell, with this Python for `python`."""
    return re.sub(r"\bpython -", f"{shlex.quote(sys.executable)} -", lines)


@pytest.mark.parametrize(("secrets", "arguments", "wanted"), [
    pytest.param(None, ["8080"], "Set WEBHOOK_SECRETS", id="no-secret"),
    pytest.param(" ", ["8080"], "Set WEBHOOK_SECRETS", id="empty"),
    pytest.param("new old", ["8080"], "Set WEBHOOK_SECRETS", id="no-secrets-of-ours"),
    pytest.param(NEW, [], "Give the port", id="no-port"),
    pytest.param(NEW, ["http"], "Give the port", id="a-name-for-a-port"),
])  # fmt: skip
def test_missing_arguments_are_reported_in_a_message(
    tmp_path: Path, secrets: str | None, arguments: list[str], wanted: str
) -> None:
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    if secrets is not None:
        environment["WEBHOOK_SECRETS"] = secrets
    command = [sys.executable, "-m", "examples.webhook_receiver.receiver", *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(wanted)
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
