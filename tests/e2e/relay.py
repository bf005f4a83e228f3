"""A TCP relay in front of a Postgres server that can be cut and restored: an outage without touching it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import quote

from attrs import define, field
from psycopg.conninfo import conninfo_to_dict


@define
class Relay:
    """Runs on a loop of its own, in a thread."""

    host: str
    port: int
    own_port: int = 0
    _is_cut: bool = False
    _loop: asyncio.AbstractEventLoop = field(factory=asyncio.new_event_loop)
    _writers: set[asyncio.StreamWriter] = field(factory=set)

    def cut(self) -> None:
        """Close every connection, and each new one at once."""
        self._is_cut = True
        self._loop.call_soon_threadsafe(self._drop)

    def restore(self) -> None:
        """Accept connections again."""
        self._is_cut = False

    def of(self, url: str) -> str:
        """The address of a database on the server, through this relay."""
        parts = conninfo_to_dict(url)
        user = ":".join(quote(str(parts[part]), safe="") for part in ("user", "password") if part in parts)
        return f"postgresql://{user}@127.0.0.1:{self.own_port}/{parts['dbname']}"

    def _drop(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.host.startswith("/"):
            return await asyncio.open_unix_connection(f"{self.host}/.s.PGSQL.{self.port}")
        return await asyncio.open_connection(self.host, self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        there, back = await self._connect()
        self._writers |= {writer, back}
        try:
            await asyncio.gather(_pass(reader, back), _pass(there, writer))
        finally:
            self._writers -= {writer, back}

    async def _run(self, is_ready: threading.Event, stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.own_port = server.sockets[0].getsockname()[1]
        is_ready.set()
        await stop.wait()
        server.close()
        self._is_cut = True
        self._drop()
        while self._writers:  # noqa: ASYNC110  (a moment, at the end)
            await asyncio.sleep(0.01)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


@contextmanager
def relaying(url: str) -> Iterator[Relay]:
    """Run a relay in front of the Postgres server of an address."""
    parts = conninfo_to_dict(url)
    relay = Relay(str(parts.get("host", "127.0.0.1")), int(parts.get("port") or 5432))
    is_ready, stop = threading.Event(), asyncio.Event()
    runner = asyncio.Runner(loop_factory=lambda: relay._loop)
    thread = threading.Thread(target=lambda: runner.run(relay._run(is_ready, stop)))
    thread.start()
    try:
        assert is_ready.wait(10)
        yield relay
    finally:
        relay._loop.call_soon_threadsafe(stop.set)
        thread.join()
        runner.close()
