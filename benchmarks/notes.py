"""Webhooks during note writing: the latency of events while notes are written without pause.

Events are written at a steady rate and delivered from here, by the worker and the sender of `deliveries`. The
floor is a worker that has no note to write. Then notes are always due: recordings of twenty minutes are
fetched from a stand-in for Zoom, cut, transcribed and written by an AI provider stand-in. First the same
process does both, on one event loop; then a worker of its own writes the notes. That worker is halted and
resumed in turns, so that other load on this machine affects both.
"""

import asyncio
import base64
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL
from bisect import bisect
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from datetime import timedelta
from statistics import median
from typing import Any
from uuid import UUID, uuid4

import psycopg
import typed_settings
from attrs import define, field, frozen

from benchmarks.deliveries import FAILING, HEALTHY, Endpoint, arrivals, centiles, furnish, place
from benchmarks.processes import ROOT, STOP_TIMEOUT_S, family
from benchmarks.report import Result
from meetcore.adapters.secrets import AesGcmCipher
from meetcore.adapters.settings import Settings
from meetcore.composition.application import Application
from meetcore.composition.infrastructure import open_application
from meetcore.composition.ports import Part
from meetcore.composition.worker import working
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.notes.notes import Language
from meetcore.domain.notes.recordings import RETENTION, FileKind, Recording, RecordingFile, RecordingStatus
from meetcore.domain.requests.keys import Scope
from meetcore.ports.notes import NoteQuery
from meetcore.usecases.create_note import NoteQueue
from tests.e2e.ai_stack import TRANSCRIPTION, AiStack, ai_stack
from tests.e2e.long_sound import long_sound
from tests.e2e.zoom_stack import ZoomStack, zoom_stack

__all__ = ["NoteLoad", "measure_beside_notes"]

STARTS_WITHIN_S = 120
EXTRA_ROUNDS = 5
TURN_S = 1.5
SETTLES_S = 0.2  # until what was written before a turn has arrived
LONG_AFTER = timedelta(days=1)


@frozen
class NoteLoad:
    """The notes that are written meanwhile."""

    recording_s: int = 20 * 60
    ai_latency_s: float = 20.0  # for ten minutes of sound, as those that are for hire take
    recordings: int = 60
    warm_up_s: float = 4.0


@define
class NoteBench:
    """A database with notes to write, and the services that they need."""

    url: str
    key: bytes = field(repr=False)
    zoom: ZoomStack
    ai: AiStack
    endpoints: list[Endpoint]
    ca_file: str
    port: int
    load: NoteLoad
    pieces_transcribed: int = 0

    @property
    def cipher(self) -> AesGcmCipher:
        return AesGcmCipher([self.key])

    @property
    def variables(self) -> dict[str, str]:
        """The settings of a process that works here, by name."""
        key = base64.urlsafe_b64encode(self.key).decode()
        settings = self.zoom.settings | self.ai.settings | {"database_url": self.url, "secrets_key": key}
        return {name: str(value) for name, value in settings.items()}

    @property
    def settings(self) -> Settings:
        """The same for this process."""
        secret = {each.name for each in Settings.__attrs_attrs__ if each.type is typed_settings.SecretStr}
        values: dict[str, Any] = {
            name: typed_settings.SecretStr(value) if name in secret else value
            for name, value in self.variables.items()
        }
        return Settings(**values)

    def set_notes_due(self, *, is_now: bool) -> None:
        """Make the remaining notes due now, or long after."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                """UPDATE notes SET lease_token = NULL, due_at = now() + %s WHERE due_at IS NOT NULL""",
                (timedelta() if is_now else LONG_AFTER,),
            )

    async def wait_for_piece(self) -> None:
        """Wait until one more piece is transcribed: the start of a program is no part of writing notes."""
        before = self.ai.done(TRANSCRIPTION)
        async with asyncio.timeout(STARTS_WITHIN_S):
            while self.ai.done(TRANSCRIPTION) == before:  # noqa: ASYNC110  (another process cannot notify)
                await asyncio.sleep(0.2)

    async def arrivals(self, seconds: float) -> list[tuple[float, float]]:
        """Return each event's time of writing and latency in ms; counts the pieces transcribed meanwhile."""
        before = self.ai.done(TRANSCRIPTION)
        found = await arrivals(
            self.url, self.cipher, self.ca_file, self.port, self.endpoints, seconds, self.load.warm_up_s
        )
        self.pieces_transcribed += self.ai.done(TRANSCRIPTION) - before
        return found

    async def furnish(self) -> None:
        """An account whose meetings were recorded and measured, with a note due for each."""
        lies_at = self.zoom.fill("long", sound := long_sound(self.load.recording_s))
        async with open_application(self.settings) as application:
            account = await application.administration.create_account("notes@example.com", "Bench", 10**9)
            key = (await application.administration.create_key(account.id, [Scope.NOTULEN_WRITE])).key
            for _ in range(self.load.recordings):
                now = application.runtime.now()
                until = now + timedelta(seconds=self.load.recording_s)
                file = RecordingFile(
                    "long", FileKind.AUDIO, len(sound), now, until, lies_at, self.load.recording_s
                )
                await _queue(application, account.id, key.id, file)


async def _queue(application: Application, account_id: UUID, key_id: UUID, file: RecordingFile) -> None:
    now = file.starts_at
    recording = Recording(
        application.runtime.new_id(now), account_id, uuid4(), "zoom", "80000000001",
        RecordingStatus.AVAILABLE, (file,), now, now, now + RETENTION,
    )  # fmt: skip
    async with application.ports.store.begin() as tx:
        await tx.lock_account(account_id)
        await tx.recordings.save(recording)
    query = NoteQuery(account_id, key_id, cap_day(now), recording.id, Language.INDONESIAN)
    queue = NoteQueue(application.policy.catalogue, application.runtime)
    async with application.ports.store.begin() as tx:
        admission = await tx.notes.load_note_creation(query)
        await queue.add(tx, admission, recording, Language.INDONESIAN, now)


@asynccontextmanager
async def _writing_here(bench: NoteBench) -> AsyncIterator[None]:
    """Notes are written on this event loop."""
    async with open_application(bench.settings, parts=[Part.NOTES]) as application, working(application):
        yield


@asynccontextmanager
async def _writing_there(bench: NoteBench) -> AsyncIterator[int]:
    """Notes are written by a worker of their own, with this process id."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MEETCORE_")}
    settings = {f"MEETCORE_{name.upper()}": value for name, value in bench.variables.items()}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "meetcore.cli.main", "worker", "--only", "notes",
        env=clean | settings, cwd=ROOT, stdout=DEVNULL, stderr=DEVNULL,
    )  # fmt: skip
    try:
        yield child.pid
    finally:
        child.terminate()
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await child.wait()


async def _by_this_process(bench: NoteBench, seconds: float) -> tuple[float, ...]:
    """A turn without notes and a turn with: p50, p95, p50, p95."""
    figures: list[float] = []
    for is_busy in (False, True):
        bench.set_notes_due(is_now=is_busy)
        async with _writing_here(bench):
            if is_busy:
                await bench.wait_for_piece()
            figures += centiles(await bench.arrivals(seconds))
    bench.set_notes_due(is_now=False)
    return tuple(figures)


async def _by_another(bench: NoteBench, seconds: float) -> tuple[float, ...]:
    """Short turns in which the worker of notes is halted, and such in which it works: the same figures."""
    bench.set_notes_due(is_now=True)
    turns: list[tuple[float, bool]] = []
    async with _writing_there(bench) as worker:
        await bench.wait_for_piece()
        turning = asyncio.create_task(_turn_about(worker, turns))
        try:
            found = await bench.arrivals(2 * seconds)
        finally:
            turning.cancel()
            await asyncio.wait([turning])
    bench.set_notes_due(is_now=False)
    took: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for at, each_ms in found:
        began_at, is_busy = turns[bisect(turns, at, key=lambda turn: turn[0]) - 1]
        if at - began_at >= SETTLES_S:
            took[is_busy].append((at, each_ms))
    return (*centiles(took[False]), *centiles(took[True]))


async def _turn_about(worker: int, turns: list[tuple[float, bool]]) -> None:
    """Alternately halt and resume the worker and its children until cancelled; then resume them."""
    is_busy = True
    try:
        while True:
            turns.append((time.monotonic(), is_busy))
            await asyncio.sleep(TURN_S)
            is_busy = not is_busy
            _signal(worker, signal.SIGCONT if is_busy else signal.SIGSTOP)
    finally:
        _signal(worker, signal.SIGCONT)


def _signal(worker: int, what: signal.Signals) -> None:
    for each in family(worker):
        with suppress(ProcessLookupError):
            os.kill(each, what)


def measure_beside_notes(url: str, rounds: int, seconds: float, load: NoteLoad) -> list[Result]:
    """How much later webhooks arrive while notes are written: by the same process, and by another."""
    results: list[Result] = []
    key = os.urandom(32)
    with ExitStack() as stack:
        zoom, ai = stack.enter_context(zoom_stack()), stack.enter_context(ai_stack(load.ai_latency_s))
        ca_file, port, runner = stack.enter_context(place())
        endpoints = furnish(url, AesGcmCipher([key]), ["/hook"] * HEALTHY + ["/fail"] * FAILING)
        bench = NoteBench(url, key, zoom, ai, endpoints, ca_file, port, load)
        runner.run(bench.furnish())
        for where, measured in (("same process", _by_this_process), ("own process", _by_another)):
            bench.pieces_transcribed = 0
            turns: list[tuple[float, ...]] = []
            # On a machine with much else to do, nothing may be transcribed in a short turn.
            while len(turns) < rounds or (
                not bench.pieces_transcribed and len(turns) < rounds + EXTRA_ROUNDS
            ):
                turns.append(runner.run(measured(bench, seconds)))
            idle50, idle95, busy50, busy95 = (median(column) for column in zip(*turns, strict=True))
            if not bench.pieces_transcribed:
                raise RuntimeError("no sound was transcribed meanwhile: this says nothing about notes")
            extra = {
                "note": f"floor: no note is due; {bench.pieces_transcribed} chunks of sound were transcribed"
            }
            goal = "ratio < 1.1"
            results += [
                Result(f"beside notes, {where}, p50", busy50, idle50, "ms", goal, extra),
                Result(f"beside notes, {where}, p95", busy95, idle95, "ms", goal),
            ]
    return results
