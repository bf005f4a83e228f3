"""The receiver of webhooks: TLS on one port of loopback, 200 to every post.

But 500 where the path begins with `/fail`, and no answer at all where it begins with `/hang`. A process of
its own and a raw protocol, so that it is cheaper than the senders. It makes its own authority: the
certificate to trust is `ca.pem` in the given directory.
"""

import asyncio
import re
import sys
from pathlib import Path
from typing import cast

import uvloop

from meetcore.testing.receiver import Authority

__all__ = ["CA_FILE", "NAMES"]

CA_FILE = "ca.pem"
NAMES = tuple(f"hooks{number}.test" for number in range(16))
"""The names that its certificate is for."""

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
_FAILURE = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nno"
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)


class _Answering(asyncio.Protocol):
    """Counts the bytes of one request after the other; knows no chunks."""

    def __init__(self) -> None:
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            found = _LENGTH.search(self._held, 0, end)
            whole = end + 4 + (int(found[1]) if found else 0)
            if len(self._held) < whole:
                return
            path, self._held = self._held[5:10], self._held[whole:]
            if path != b"/hang":
                self._transport.write(_FAILURE if path == b"/fail" else _ANSWER)


async def _serve(directory: Path, port: int) -> None:
    certificate = Authority(directory).certified(*NAMES)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Answering, "127.0.0.1", port, ssl=certificate, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1]), int(sys.argv[3])))
