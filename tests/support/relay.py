"""A TCP relay before a PostgreSQL server, to simulate outages."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import quote

from attrs import define, field
from psycopg.conninfo import conninfo_to_dict

from tests.support.program import TIMEOUT_S


@define
class Relay:
    """Pipes bytes to a host or a socket directory, on the loop that opened it."""

    database_url: str
    own_port: int = 0
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(factory=set)
    _is_open: bool = False
    is_cut: bool = False

    @property
    def url(self) -> str:
        """The relayed address of the database."""
        parts = conninfo_to_dict(self.database_url)
        user = ":".join(quote(str(parts[part]), safe="") for part in ("user", "password") if part in parts)
        return f"postgresql://{user}@127.0.0.1:{self.own_port}/{parts['dbname']}"

    async def open(self) -> None:
        """Accept connections, after a close at the same port."""
        self._is_open = True
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.own_port)
        self.own_port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Refuse new connections and cut open ones."""
        self._is_open = False
        if self._server is not None:
            self._server.close()
            self._server = None
        self.drop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def drop(self) -> None:
        """Cut all connections."""
        for task in self._tasks:
            task.cancel()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = conninfo_to_dict(self.database_url)
        host, port = str(parts.get("host", "127.0.0.1")), int(parts.get("port") or 5432)
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut or not self._is_open:  # closed since it was accepted
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        ends = [writer]
        try:
            there_reader, there_writer = await self._connect()
            ends.append(there_writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(_pipe(reader, there_writer))
                group.create_task(_pipe(there_reader, writer))
        except (asyncio.CancelledError, OSError, ExceptionGroup):
            pass  # one end is gone or the relay closed: so ends this connection
        finally:
            self._tasks.discard(task)
            for end in ends:
                end.transport.abort()


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65_536):
        sink.write(data)
        await sink.drain()
    raise ConnectionResetError


@asynccontextmanager
async def relay_to(url: str) -> AsyncIterator[tuple[Relay, str]]:
    """Yield a closed relay and the database's address through it."""
    relay = Relay(url)
    await relay.open()
    await relay.close()
    try:
        yield relay, relay.url
    finally:
        await relay.close()


@define
class Outage:
    """A relay in a thread."""

    relay: Relay
    _loop: asyncio.AbstractEventLoop

    def cut(self) -> None:
        """Cut all connections, and new ones at once."""
        self.relay.is_cut = True
        self._loop.call_soon_threadsafe(self.relay.drop)

    def restore(self) -> None:
        self.relay.is_cut = False


@contextmanager
def relaying(url: str) -> Iterator[Outage]:
    with asyncio.Runner() as runner:
        relay, loop = Relay(url), runner.get_loop()
        runner.run(relay.open())
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            yield Outage(relay, loop)
        finally:
            asyncio.run_coroutine_threadsafe(relay.close(), loop).result(TIMEOUT_S)
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
