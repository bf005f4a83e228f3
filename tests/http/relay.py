"""A port that leads to the database while it is open, and refuses to connect while it is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

from attrs import define, field
from psycopg.conninfo import conninfo_to_dict

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@define
class Relay:
    """Pipes bytes to a host, or to a socket in a directory."""

    host: str
    target_port: int
    port: int = 0
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(factory=set)

    async def open(self) -> None:
        """Take connections, from the second time on at the port of the first."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Close the port and cut every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self) -> Streams:
        if self.host.startswith("/"):
            return await asyncio.open_unix_connection(f"{self.host}/.s.PGSQL.{self.target_port}")
        return await asyncio.open_connection(self.host, self.target_port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        there_reader, there_writer = await self._connect()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pipe(reader, there_writer))
                group.create_task(_pipe(there_reader, writer))
        except (asyncio.CancelledError, ExceptionGroup):
            pass  # one end is gone or the relay closed: so ends this connection
        finally:
            self._tasks.discard(task)
            for end in (writer, there_writer):
                end.transport.abort()


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65_536):
        sink.write(data)
        await sink.drain()
    raise ConnectionResetError


@asynccontextmanager
async def relay_to(url: str) -> AsyncIterator[tuple[Relay, str]]:
    """A relay that is closed at first, and the address that leads through it to this database."""
    at = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    relay = Relay(at.get("host", "127.0.0.1"), int(at.get("port", 5432)))
    await relay.open()
    await relay.close()
    who = quote(at.get("user", "postgres"))
    if "password" in at:
        who += f":{quote(at['password'])}"
    try:
        yield relay, f"postgresql://{who}@127.0.0.1:{relay.port}/{at['dbname']}"
    finally:
        await relay.close()
