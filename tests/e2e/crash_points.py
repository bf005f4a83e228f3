"""A crash point in the program: SIGKILL at the N-th step, or another signal.

The launcher installs it in a child before the program starts. Steps are the edges of transactions, of
requests to Zoom and the AI provider, of work on media, and every 64 KiB of a read file.
`MEETCORE_CRASH_POINT` is N, 0 for never; `MEETCORE_CRASH_LOG` is a file that records each step before it
runs, `MEETCORE_CRASH_SIGNAL` the number of another signal. With `MEETCORE_CRASH_WITHIN` set to `notes` or
`payments` only steps of these count, not idle rounds, renewed leases, or sessions.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

from attrs import evolve

from meetcore.adapters.bounded_http import BoundedHttp, HttpResponse
from meetcore.adapters.media import AvAudioEditor, editor
from meetcore.adapters.postgres.store import PostgresStore, PostgresTransaction
from meetcore.adapters.zoom.recording_files import ZoomRecordingFiles
from meetcore.ports.recording_files import OpenFile
from meetcore.usecases.notes.recordings import WorkOnRecordings
from meetcore.usecases.notes.write_notes import WriteNotes
from meetcore.usecases.payments.follow_payments import FollowPayments, ReceiveNotification
from meetcore.usecases.payments.start_payment import StartPayment
from meetcore.usecases.requests.console import ConsoleAccounts

STRIDE_BYTES = 64 * 1024

Opened = AbstractAsyncContextManager[PostgresTransaction]
Work = Callable[..., Awaitable[Any]]
Places = tuple[tuple[object, str, Callable[[Any], Any]], ...]

_counts: ContextVar[bool] = ContextVar("_counts")


class CrashPoint:
    """Counts steps and kills the process at one of them, or sends it another signal."""

    def __init__(self, at: int, step_log: str, number: int, *, counts_by_default: bool) -> None:
        self._at = at
        self._steps = 0
        self._number = number
        self._step_log = os.open(step_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._counts_by_default = counts_by_default

    def step(self, step: str) -> None:
        """Record one step, and kill the process if it is the last."""
        if not _counts.get(self._counts_by_default):
            return
        self._steps += 1
        os.write(self._step_log, f"{step}\n".encode())
        if self._steps == self._at:
            os.kill(os.getpid(), self._number)

    @asynccontextmanager
    async def around(self, opened: Opened) -> AsyncIterator[PostgresTransaction]:
        """Wrap a transaction with steps before it, at its end and after its commit."""
        self.step("begin")
        async with opened as tx:
            yield tx
            self.step("last line")
        self.step("committed")

    @asynccontextmanager
    async def reading(self, opened: AbstractAsyncContextManager[OpenFile]) -> AsyncIterator[OpenFile]:
        """Wrap a file with steps before it and after every `STRIDE_BYTES` of it."""
        self.step("open")
        async with opened as file:
            yield evolve(file, chunks=self._chunks(file))

    async def _chunks(self, file: OpenFile) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in file.chunks:
            yield chunk
            # Independent of how the network split it.
            for _ in range(read // STRIDE_BYTES, (read + len(chunk)) // STRIDE_BYTES):
                self.step("read on")
            read += len(chunk)
        self.step("read")


def call_of(method: str, url: str) -> str:
    """Name a request without numbers and uuids of meetings, host names and file names."""
    if "/v1/" in url:  # of the AI provider
        return f"{method} /{url.partition('/v1/')[2]}"
    path = re.sub(r"/users/[^/]+", "", url.partition("/v2")[2]) or "/token"
    if re.search("/recordings/.", path):
        return f"{method} file"
    numbered = re.sub(r"/(meetings|past_meetings)/[^/]+", r"/\1/n", path)
    return f"{method} {numbered}"


def payment_call_of(method: str, url: str) -> str:
    """Name a request to a payment gateway without its query and the ids in its path."""
    path = urlsplit(url).path
    return f"{method} {re.sub(r'/[^/]*[0-9][^/]{4,}', '/n', path)}"


def within(work: Work) -> Work:
    """Wrap work whose steps count."""

    async def counted(*args: Any, **named: Any) -> Any:
        before = _counts.set(True)
        try:
            return await work(*args, **named)
        finally:
            _counts.reset(before)

    return counted


def fit() -> None:
    """Install the configured crash point."""
    if "MEETCORE_CRASH_POINT" not in os.environ:
        return
    part = os.environ.get("MEETCORE_CRASH_WITHIN", "")
    at, step_log = int(os.environ["MEETCORE_CRASH_POINT"]), os.environ["MEETCORE_CRASH_LOG"]
    number = int(os.environ.get("MEETCORE_CRASH_SIGNAL", signal.SIGKILL))
    crash_point = CrashPoint(at, step_log, number, counts_by_default=not part)
    name_of = payment_call_of if part == "payments" else call_of
    places_of_part = {"": (), "notes": _of_notes(crash_point), "payments": _OF_PAYMENTS}[part]

    def around(open_: Callable[[Any], Opened]) -> Callable[[Any], Opened]:
        return lambda store: crash_point.around(open_(store))

    def along(send: Callable[..., Awaitable[HttpResponse]]) -> Callable[..., Awaitable[HttpResponse]]:
        async def send_with_steps(
            http: BoundedHttp, method: str, url: str, *args: Any, **named: Any
        ) -> HttpResponse:
            call = name_of(method, url)
            crash_point.step(call)
            answer = await send(http, method, url, *args, **named)
            crash_point.step(f"{call} {answer.status}")
            return answer

        return send_with_steps

    places: Places = (
        (PostgresStore, "begin", around), (PostgresStore, "at_once", around), (BoundedHttp, "send", along),
    )  # fmt: skip
    for owner, name, fitted in (*places, *places_of_part):
        setattr(owner, name, fitted(getattr(owner, name)))


_OF_PAYMENTS: Places = (
    (StartPayment, "__call__", within),
    (ReceiveNotification, "__call__", within),
    (FollowPayments, "_look", within),
    (ConsoleAccounts, "move_credits", within),
)


def _of_notes(crash_point: CrashPoint) -> Places:
    def around_call(name: str) -> Callable[[Work], Work]:
        def fitted(work: Work) -> Work:
            async def call_with_steps(*args: Any, **named: Any) -> Any:
                crash_point.step(name)
                done = await work(*args, **named)
                crash_point.step(f"{name} done")
                return done

            return call_with_steps

        return fitted

    def read(open_: Callable[..., AbstractAsyncContextManager[OpenFile]]) -> Callable[..., Any]:
        return lambda *args: crash_point.reading(open_(*args))

    return (
        (WriteNotes, "_go_on", within),
        (WorkOnRecordings, "_measure", within),
        (WorkOnRecordings, "_remove", within),
        (ZoomRecordingFiles, "open", read),
        (AvAudioEditor, "measure", around_call("measure")),
        (AvAudioEditor, "cut", around_call("cut")),
        # The child process of a command exists by then, and outlives this process briefly.
        (editor, "_reply", around_call("media")),
    )
