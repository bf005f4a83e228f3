"""A fuse in the program itself: it dies by SIGKILL at the N-th step of what it does.

The launcher fits it into a child before that becomes the program. Steps are the edges of transactions, of
requests to Zoom and to the AI provider, of work on media, and every 64 KiB of a file that is read.
`MEETCORE_FUSE` is N, 0 for never; `MEETCORE_FUSE_TRAIL` is a file that each step is written to before it may
be the last. With `MEETCORE_FUSE_WITHIN` set to `notes` only steps of the work on recordings and notes count,
so that neither idle rounds nor renewed leases do. Not a line of it is in the product.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from typing import Any

import httpx
from attrs import evolve

from meetcore.adapters.media import AvAudioEditor, editor
from meetcore.adapters.openai import http as ai_http
from meetcore.adapters.postgres.store import PostgresStore, PostgresTransaction
from meetcore.adapters.zoom.http import Answer, HttpClient
from meetcore.adapters.zoom.recording_files import ZoomRecordingFiles
from meetcore.ports.recording_files import OpenFile
from meetcore.usecases.work_on_recordings import WorkOnRecordings
from meetcore.usecases.write_notes import WriteNotes

STRIDE_BYTES = 64 * 1024

Opened = AbstractAsyncContextManager[PostgresTransaction]
Work = Callable[..., Awaitable[Any]]

_counts: ContextVar[bool] = ContextVar("_counts")


class CrashPoint:
    """Burns down a step at a time."""

    def __init__(self, at: int, trail: str, *, is_always_lit: bool) -> None:
        self._at = at
        self._burnt = 0
        self._trail = os.open(trail, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._is_always_lit = is_always_lit

    def burn(self, step: str) -> None:
        """One step; the program may not come back from it."""
        if not _counts.get(self._is_always_lit):
            return
        self._burnt += 1
        os.write(self._trail, f"{step}\n".encode())
        if self._burnt == self._at:
            os.kill(os.getpid(), signal.SIGKILL)

    @asynccontextmanager
    async def around(self, opened: Opened) -> AsyncIterator[PostgresTransaction]:
        """A transaction with steps before it, on its last line, and just after it."""
        self.burn("begin")
        async with opened as tx:
            yield tx
            self.burn("last line")
        self.burn("committed")

    @asynccontextmanager
    async def reading(self, opened: AbstractAsyncContextManager[OpenFile]) -> AsyncIterator[OpenFile]:
        """A file with steps before it, and wherever so many bytes of it have come."""
        self.burn("open")
        async with opened as file:
            yield evolve(file, chunks=self._chunks(file))

    async def _chunks(self, file: OpenFile) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in file.chunks:
            yield chunk
            # However the network cut it.
            for _ in range(read // STRIDE_BYTES, (read + len(chunk)) // STRIDE_BYTES):
                self.burn("read on")
            read += len(chunk)
        self.burn("read")


def call_of(method: str, url: str) -> str:
    """A request in a word or two, without the numbers of meetings and the names of hosts and files."""
    path = re.sub(r"/users/[^/]+", "", url.partition("/v2")[2]) or "/token"
    if re.search("/recordings/.", path):
        return f"{method} file"
    return f"{method} {re.sub('[0-9]+', 'n', path)}"


def within(work: Work) -> Work:
    """Work whose steps count."""

    async def counted(*told: Any) -> Any:
        _counts.set(True)
        return await work(*told)

    return counted


def fit() -> None:
    """Fit the fuse that the environment asks for, if any."""
    if "MEETCORE_FUSE" not in os.environ:
        return
    is_within_notes = os.environ.get("MEETCORE_FUSE_WITHIN") == "notes"
    at, trail = int(os.environ["MEETCORE_FUSE"]), os.environ["MEETCORE_FUSE_TRAIL"]
    crash_point = CrashPoint(at, trail, is_always_lit=not is_within_notes)

    def around(open_: Callable[[Any], Opened]) -> Callable[[Any], Opened]:
        return lambda store: crash_point.around(open_(store))

    def along(send: Callable[..., Awaitable[Answer]]) -> Callable[..., Awaitable[Answer]]:
        async def send_and_burn(line: HttpClient, method: str, url: str, *told: Any, **named: Any) -> Answer:
            call = call_of(method, url)
            crash_point.burn(call)
            answer = await send(line, method, url, *told, **named)
            crash_point.burn(f"{call} {answer.status}")
            return answer

        return send_and_burn

    places: tuple[tuple[object, str, Callable[[Any], Any]], ...] = (
        (PostgresStore, "begin", around), (PostgresStore, "at_once", around), (HttpClient, "send", along),
    )  # fmt: skip
    for owner, name, fitted in (*places, *(_of_notes(crash_point) if is_within_notes else ())):
        setattr(owner, name, fitted(getattr(owner, name)))


def _of_notes(crash_point: CrashPoint) -> tuple[tuple[object, str, Callable[[Any], Any]], ...]:
    def asked(exchange: Work) -> Work:
        async def ask(line: ai_http.HttpClient, request: httpx.Request) -> Any:
            call = f"{request.method} {request.url.path.removeprefix('/v1')}"
            crash_point.burn(call)
            answer = await exchange(line, request)
            crash_point.burn(f"{call} {answer.status}")
            return answer

        return ask

    def acted(name: str) -> Callable[[Work], Work]:
        def fitted(act: Work) -> Work:
            async def act_and_burn(*told: Any, **named: Any) -> Any:
                crash_point.burn(name)
                done = await act(*told, **named)
                crash_point.burn(f"{name} done")
                return done

            return act_and_burn

        return fitted

    def read(open_: Callable[..., AbstractAsyncContextManager[OpenFile]]) -> Callable[..., Any]:
        return lambda *told: crash_point.reading(open_(*told))

    return (
        (WriteNotes, "_go_on", within),
        (WorkOnRecordings, "_measure", within),
        (WorkOnRecordings, "_remove", within),
        (ai_http.HttpClient, "_exchange", asked),
        (ZoomRecordingFiles, "open", read),
        (AvAudioEditor, "measure", acted("measure")),
        (AvAudioEditor, "cut", acted("cut")),
        # The process of an act is there by then, and lives on for a moment when we do not.
        (editor, "_answer", acted("media")),
    )
