"""Recordings of what guests hold, and the services that make notes of them, each with faults by the seed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import date, datetime, timedelta
from io import BytesIO
from typing import BinaryIO, Final

from attrs import define, field

from meetcore.domain.meetings.sessions import Session
from meetcore.domain.notes.due_words import Holidays
from meetcore.domain.notes.notes import BY_RULES, Language, NoteDraft
from meetcore.domain.notes.recordings import FileKind, RecordingFile
from meetcore.domain.notes.transcripts import Transcript, Utterance
from meetcore.ports.ai import NOTHING_KEPT, AiRefused, AiUnavailable, KeptParts, Sound
from meetcore.ports.recording_files import ByteRange, FileGone, FilesUnavailable, OpenFile
from tests.simulation.loop import SimulatedLoop
from tests.simulation.outside import SimulatedProvider

LATEST_S: Final = 30.0
"""How long after its session a file is ready at the latest."""


@define(eq=False)
class Studio:
    """The files of recorded sessions, and an editor, a transcriber and a writer; a file holds its length.

    `removed` are the sessions whose files were removed.
    """

    loop: SimulatedLoop
    recorded: SimulatedProvider
    fault_rate: float
    removed: set[str] = field(factory=set)
    _ready_at: dict[str, datetime] = field(factory=dict)

    @property
    def provider(self) -> str:
        return "sandbox"

    def files_of(self, name: str) -> tuple[RecordingFile, ...]:
        """Return the files of a meeting that are ready now."""
        made = [self._file(name, each) for each in self.recorded.sessions.get(name, ())]
        return tuple(each for each in made if each is not None)

    def _file(self, name: str, session: Session) -> RecordingFile | None:
        is_recorded = self.recorded.held[name].order.options.with_recording
        if not is_recorded or session.ended_at is None or session.id in self.removed:
            return None
        assert session.started_at is not None
        ready_at = self._ready_at.setdefault(
            session.id, session.ended_at + timedelta(seconds=self.loop.random.uniform(0, LATEST_S))
        )
        if ready_at > self.loop.now():
            return None
        content = self._content(session)
        return RecordingFile(
            session.id, FileKind.AUDIO, len(content), session.started_at, session.ended_at,
            f"https://provider.test/{session.id}", session_id=session.id,
        )  # fmt: skip

    def _content(self, session: Session) -> bytes:
        assert session.started_at is not None
        assert session.ended_at is not None
        return f"{(session.ended_at - session.started_at).total_seconds():012.3f}".encode()

    async def find(
        self, provider_meeting_id: str, session_ids: Iterable[str] = ()
    ) -> tuple[RecordingFile, ...]:
        await self._pass_time(FilesUnavailable("simulated"))
        return self.files_of(provider_meeting_id)

    @asynccontextmanager
    async def open(self, file: RecordingFile, wanted: ByteRange | None = None) -> AsyncIterator[OpenFile]:
        await self._pass_time(FilesUnavailable("simulated"))
        if file.session_id in self.removed:
            raise FileGone("simulated")
        held = self.recorded.sessions[file.session_id.split("/")[0]]
        [session] = [each for each in held if each.id == file.session_id]
        content = self._content(session)

        async def chunks() -> AsyncIterator[bytes]:
            await self._pass_time(FilesUnavailable("simulated"))
            yield content

        yield OpenFile(len(content), 0, len(content) - 1, chunks())

    async def remove(self, provider_meeting_id: str, file: RecordingFile) -> None:
        await self._pass_time(FilesUnavailable("simulated"))
        self.removed.add(file.session_id)

    def scratch(self) -> BinaryIO:
        return BytesIO()

    async def measure(self, media: BinaryIO) -> float:
        return float(media.read())

    async def cut(self, media: BinaryIO, from_s: float, length_s: float, *, may_copy: bool = False) -> Sound:
        return Sound(BytesIO(), length_s)

    @property
    def max_piece_s(self) -> int:
        return 40

    @property
    def takes_copies(self) -> bool:
        return False

    async def transcribe(self, sound: Sound, language: Language) -> Transcript:
        await self._pass_time(self._ai_fault())
        return (Utterance(0.0, sound.length_s, "Kita setuju."),)

    @property
    def name(self) -> str:
        return BY_RULES

    async def write(
        self, transcript: Transcript, language: Language, kept: KeptParts = NOTHING_KEPT
    ) -> NoteDraft:
        await self._pass_time(self._ai_fault())
        return NoteDraft("Ringkasan")

    async def holidays_from(self, day: date) -> Holidays:
        return {}

    def _ai_fault(self) -> Exception:
        return AiRefused("simulated") if self.loop.random.random() < 0.5 else AiUnavailable("simulated")

    async def _pass_time(self, fault: Exception) -> None:
        await asyncio.sleep(self.loop.random.uniform(0.01, 1.0))
        if self.loop.strikes("studio", self.fault_rate, f"{type(fault).__name__}: a call"):
            raise fault
