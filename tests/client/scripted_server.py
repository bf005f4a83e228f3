"""A server on loopback that answers each request by a script: well, badly, late, or not at all."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from attrs import frozen

REQUEST_ID = "01a1fde1-9c79-7f87-a745-919389bf998d"
REASONS = {200: "OK", 204: "No Content"}


@frozen
class Drop:
    """Read the request, send these bytes and cut the connection."""

    sent: bytes = b""


@frozen
class Hang:
    """Read the request and never answer."""


@frozen
class Drip:
    """Answer, and send the body byte by byte until the client closes."""

    every_s: float = 0.02


Step = bytes | Drop | Hang | Drip


@frozen
class ReceivedRequest:
    """One request. The names of headers are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def key(self) -> str | None:
        return self.headers.get("idempotency-key")

    @property
    def json(self) -> object:
        return json.loads(self.body)


def answer(status: int, body: object = None, **headers: object) -> bytes:
    """Write a complete answer with these bytes, no body for None, or JSON."""
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    fields = {
        "Content-Type": "application/json", "Content-Length": len(content), "Connection": "close",
        "X-Request-Id": REQUEST_ID,
    } | {name.replace("_", "-"): value for name, value in headers.items()}  # fmt: skip
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Other')}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def refusal(status: int, code: str, details: object = None, **headers: object) -> bytes:
    """Write a refusal of the API."""
    error = {
        "code": code, "message": "Words for people.", "docs_url": f"https://meet.test/docs/errors/{code}",
        "request_id": REQUEST_ID, "details": details or {},
    }  # fmt: skip
    return answer(status, {"error": error}, **headers)


class ScriptedServer:
    """Serves one request for each connection. Past its script it drops every request."""

    def __init__(self, *script: Step) -> None:
        self.requests: list[ReceivedRequest] = []
        self._script = deque(script)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def then(self, *script: Step) -> None:
        """Add to the script."""
        self._script.extend(script)

    def again(self, *script: Step) -> None:
        """Replace the rest of the script."""
        self._script.clear()
        self._script.extend(script)

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        # Ends accept, which closing alone does not on every system.
        socket.create_connection(self._listener.getsockname()).close()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if self._over.is_set():
                connection.close()
                return
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                request = _read(connection)
            except OSError:
                return
            if request is not None:
                self.requests.append(request)
                self._play(connection, self._script.popleft() if self._script else Drop())

    def _play(self, connection: socket.socket, step: Step) -> None:
        try:
            match step:
                case bytes():
                    connection.sendall(step)
                case Drop(sent):
                    connection.sendall(sent)
                    if not sent:  # a reset, not an end
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                case Hang():
                    self._over.wait()
                case Drip(every_s):
                    connection.sendall(answer(200, None, Content_Length=10_000))
                    while not self._over.wait(every_s):
                        connection.sendall(b" ")
        except OSError:
            pass  # the client hung up


def _read(connection: socket.socket) -> ReceivedRequest | None:
    with connection.makefile("rb") as file:
        first = file.readline().split()
        if len(first) != 3:
            return None
        headers = dict(_headers(file))
        body = file.read(int(headers.get("content-length", "0")))
    return ReceivedRequest(first[0].decode(), first[1].decode(), headers, body)


def _headers(lines: Iterator[bytes]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, colon, value = line.decode("latin-1").rstrip("\r\n").partition(":")
        if not colon:
            return
        yield name.lower(), value.strip()
