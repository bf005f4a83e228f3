"""A webhook receiver: a TLS server on port 443 of its own loopback address, with its own authority."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EADDRINUSE
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from secrets import randbelow
from time import sleep, time
from typing import Any

import pytest
from attrs import define, field, frozen

from meetcore.testing.receiver import Authority
from tests.support.program import TIMEOUT_S


@frozen
class Post:
    """A received request. `at` is the receiver's wall clock."""

    at: float
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event_id(self) -> str:
        return self.headers["webhook-id"]


@define
class Receiver:
    """Records every post and answers with `status` after `pause_s` seconds.

    Posts to `/hang…` wait until `release` is set or the sender hangs up; posts to `/fail…` get 500.
    `most_open` is the peak of open posts by path.
    """

    address: str
    ca_file: Path
    status: int = 200
    pause_s: float = 0.0
    posts: list[Post] = field(factory=list)
    release: threading.Event = field(factory=threading.Event)
    most_open: dict[str, int] = field(factory=dict)
    _open: dict[str, set[socket.socket]] = field(factory=dict)
    _counting: threading.Lock = field(factory=threading.Lock)

    def url(self, path: str) -> str:
        return f"https://{self.address}/{path}"

    def at(self, path: str) -> list[Post]:
        """Return the posts to one path."""
        return [post for post in list(self.posts) if post.path == f"/{path}"]

    @contextmanager
    def counted(self, path: str, connection: socket.socket) -> Iterator[None]:
        """Count a post as open, until just before its answer."""
        with self._counting:
            there = self._open.setdefault(path, set())
            there.add(connection)
            # A sender that timed out or died may post again before the thread of its old post has noticed.
            waiting = sum(not has_hung_up(each) for each in there)
            self.most_open[path] = max(waiting, self.most_open.get(path, 0))
        try:
            yield
        finally:
            with self._counting:
                there.discard(connection)

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of a sender. The per-host limits are raised: all endpoints share this host."""
        return {
            "webhook_allowed_networks": f"{self.address}/32",
            "ca_file": self.ca_file,
            "webhook_posts_per_host": 1000,
        }


def has_hung_up(connection: socket.socket, within_s: float = 0) -> bool:
    """Return whether the sender has closed the connection."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(within_s * 1000))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_S
    receiver: Receiver

    def setup(self) -> None:
        self.request.settimeout(TIMEOUT_S)
        self.request.do_handshake()
        super().setup()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.receiver.posts.append(Post(time(), self.path, dict(self.headers.items()), body))
        with self.receiver.counted(self.path, self.connection):
            if self.path.startswith("/hang") and not self._hang():
                self.close_connection = True
                return
            sleep(self.receiver.pause_s)
        self.send_response(500 if self.path.startswith("/fail") else self.receiver.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _hang(self) -> bool:
        """Wait for `release`; return `False` when the sender hangs up first."""
        while not self.receiver.release.is_set():
            if has_hung_up(self.connection, within_s=0.2):
                return False
        return True

    def log_message(self, format: str, *args: Any) -> None: ...


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore connections that a killed sender closed."""


def _listen(handler: type[_Handler]) -> tuple[str, _Server]:
    """Listen on an unused address; skip if impossible."""
    while True:
        address = f"127.{1 + randbelow(250)}.{1 + randbelow(250)}.{1 + randbelow(250)}"
        try:
            return address, _Server((address, 443), handler)
        except OSError as error:
            if error.errno != EADDRINUSE:
                pytest.skip(f"webhooks go to port 443, which cannot be listened on here: {error}")


@contextmanager
def receiving(directory: Path, *names: str) -> Iterator[Receiver]:
    """Run a receiver that has a certificate for its address and names; skip without port 443."""
    handler = type("Handler", (_Handler,), {})
    address, server = _listen(handler)
    authority = Authority(directory)
    context = authority.certified(IPv4Address(address), *names)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    receiver = Receiver(address, Path(authority.ca_file))
    handler.receiver = receiver  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.release.set()
        server.shutdown()
        thread.join()
        server.server_close()
