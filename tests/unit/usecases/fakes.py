"""Third parties that make notes possible, played in memory: who keeps files, cuts, hears and writes.

A medium is the bytes `<name> <seconds>`; what is cut of it names the stretch, and what is heard is that name
again. So a transcript tells which stretches it is made of, and how often each was heard can be counted.

Every call passes through `Studio.meet`, where a test can let it fail, or let something else happen meanwhile.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from typing import Any, BinaryIO

from attrs import define, evolve, field

from meetcore.domain.notes.due_words import Holiday, Holidays
from meetcore.domain.notes.notes import ActionItem, Decision, Language, NoteDraft
from meetcore.domain.notes.recordings import FileKind, RecordingFile
from meetcore.domain.notes.transcripts import Transcript, Utterance
from meetcore.ports.ai import NOTHING_KEPT, AiRefused, KeptParts, MediaUnreadable, Sound
from meetcore.ports.recording_files import ByteRange, FileGone, OpenFile
from meetcore.ports.store import CommitLost

__all__ = [
    "RECORDED_AT", "FakeAudioEditor", "FakeNoteWriter", "FakeRecordings", "FakeTranscriber",
    "FaultPlan", "draft_of", "losing", "recorded", "written",
]  # fmt: skip

RECORDED_AT = datetime(2026, 12, 2, 2, 0, tzinfo=UTC)


def recorded(
    name: str,
    seconds: float = 600.0,
    *,
    minutes_in: int = 0,
    kind: FileKind = FileKind.AUDIO,
    session_id: str = "",
):
    """A file of media, so many minutes after the first, and its bytes."""
    content = f"{name} {seconds}".encode()
    starts_at = RECORDED_AT + timedelta(minutes=minutes_in)
    ends_at = starts_at + timedelta(seconds=seconds or 1)
    url = f"https://f/{name}"
    return RecordingFile(name, kind, len(content), starts_at, ends_at, url, session_id=session_id), content


def written(name: str, *lines: str, minutes_in: int = 0):
    """A provider's transcript that lies beside the medium of that time, a line each second."""
    cues = [f"00:00:{n:02}.000 --> 00:00:{n + 1:02}.000\n{line}" for n, line in enumerate(lines)]
    content = "\n\n".join(["WEBVTT", *cues]).encode()
    starts_at = RECORDED_AT + timedelta(minutes=minutes_in)
    file = RecordingFile(
        name,
        FileKind.TRANSCRIPT,
        len(content),
        starts_at,
        starts_at + timedelta(minutes=1),
        f"https://f/{name}",
    )
    return file, content


@define(slots=False)
class FaultPlan:
    """Where every call to a third party comes past.

    `calls` counts them by name. `plan` lets the next calls of a name fail, one after the other; `during` runs
    in each call before it does anything, `at_next` in one.
    """

    calls: Counter[str] = field(factory=Counter)
    plans: defaultdict[str, deque[BaseException | None]] = field(factory=lambda: defaultdict(deque))
    during: Callable[[str], Awaitable[None]] | None = None

    def plan(self, call: str, *faults: BaseException | None) -> None:
        """Let the next calls of that name end so; none is a call that goes well."""
        self.plans[call].extend(faults)

    def at_next(self, call: str, act: Callable[[], Awaitable[object]]) -> None:
        """Let something happen in the next call of that name, and only there."""

        async def once(name: str) -> None:
            if name == call:
                self.during = None
                await act()

        self.during = once

    async def meet(self, call: str) -> None:
        """Count a call, and let happen what was planned for it."""
        self.calls[call] += 1
        if self.during is not None:
            await self.during(call)
        fault = self.plans[call].popleft() if self.plans[call] else None
        if fault is not None:
            raise fault


@define(slots=False)
class FakeRecordings:
    """Where a provider keeps the files of recordings. Fills `ports.recording_files.RecordingFiles`.

    `opened` are the addresses that were asked for, `unlisted` the sessions whose files are found only by
    those who name them.
    """

    fault_plan: FaultPlan
    provider: str = "sandbox"
    listed: dict[str, tuple[RecordingFile, ...]] = field(factory=dict)
    contents: dict[str, bytes] = field(factory=dict)
    opened: list[str] = field(factory=list)
    unlisted: set[str] = field(factory=set)

    def put(self, provider_meeting_id: str, *files: tuple[RecordingFile, bytes]) -> None:
        """Have these files of a meeting from now on, beside those that are there."""
        known = {file.provider_file_id: file for file in self.listed.get(provider_meeting_id, ())}
        known |= {file.provider_file_id: file for file, _ in files}
        self.listed[provider_meeting_id] = tuple(known.values())
        self.contents |= {file.provider_file_id: content for file, content in files}

    async def find(
        self, provider_meeting_id: str, session_ids: Iterable[str] = ()
    ) -> tuple[RecordingFile, ...]:
        await self.fault_plan.meet("find")
        hidden = self.unlisted - set(session_ids)
        files = self.listed.get(provider_meeting_id, ())
        return tuple(file for file in files if file.session_id not in hidden)

    @asynccontextmanager
    async def open(self, file: RecordingFile, wanted: ByteRange | None = None) -> AsyncIterator[OpenFile]:
        """A file in chunks of a few bytes."""
        await self.fault_plan.meet(f"open {file.kind}")
        self.opened.append(file.url)
        content = self.contents.get(file.provider_file_id)
        if content is None:
            raise FileGone
        yield OpenFile(len(content), 0, len(content) - 1, self._chunks(content))

    async def _chunks(self, content: bytes) -> AsyncIterator[bytes]:
        for place in range(0, len(content), 7):
            await self.fault_plan.meet("chunk")
            yield content[place : place + 7]

    async def remove(self, provider_meeting_id: str, file: RecordingFile) -> None:
        """Delete a file; one that is gone is fine."""
        await self.fault_plan.meet("remove")
        self.contents.pop(file.provider_file_id, None)
        left = [
            one
            for one in self.listed.get(provider_meeting_id, ())
            if one.provider_file_id != file.provider_file_id
        ]
        self.listed[provider_meeting_id] = tuple(left)


@define(slots=False)
class FakeAudioEditor:
    """Measures and cuts. Fills `ports.ai.AudioEditor`."""

    fault_plan: FaultPlan
    files: list[BinaryIO] = field(factory=list)

    @property
    def open_files(self) -> int:
        """How many were handed out and are still open."""
        return sum(not file.closed for file in self.files)

    def scratch(self) -> BinaryIO:
        file = BytesIO()
        self.files.append(file)
        return file

    async def measure(self, media: BinaryIO) -> float:
        await self.fault_plan.meet("measure")
        return self._read(media)[1]

    async def cut(self, media: BinaryIO, from_s: float, length_s: float, *, may_copy: bool = False) -> Sound:
        await self.fault_plan.meet("cut")
        name, seconds = self._read(media)
        file = self.scratch()
        until_s = min(seconds, from_s + length_s)
        file.write(f"{name} {from_s:.0f}-{until_s:.0f}".encode())
        file.seek(0)
        return Sound(file, until_s - from_s, may_copy)

    def _read(self, media: BinaryIO) -> tuple[str, float]:
        media.seek(0)
        name, _, seconds = media.read().decode().partition(" ")
        if not seconds:
            raise MediaUnreadable("no medium")
        return name, float(seconds)


@define(slots=False)
class FakeTranscriber:
    """Hears the name of a stretch. Fills `ports.ai.Transcriber`.

    `heard` counts each stretch, `refused` those that it did not take as they were recorded.
    """

    fault_plan: FaultPlan
    max_piece_s: int = 300
    transcribed: Counter[str] = field(factory=Counter)
    refused: Counter[str] = field(factory=Counter)
    languages: set[Language] = field(factory=set)
    is_deaf: bool = False
    takes_copies: bool = True
    reads_copies: bool = True

    async def transcribe(self, sound: Sound, language: Language) -> Transcript:
        """What was cut, said in its second second."""
        self.languages.add(language)
        await self.fault_plan.meet("transcribe")
        text = sound.file.read().decode()
        if sound.is_copied and not self.reads_copies:
            self.refused[text] += 1
            raise AiRefused("an unknown form")
        self.transcribed[text] += 1
        return () if self.is_deaf else (Utterance(1.0, 2.0, text),)


@define(slots=False)
class FakeNoteWriter:
    """Writes a fixed draft of the transcript, after so many parts. Fills `ports.ai.NoteWriter`."""

    fault_plan: FaultPlan
    name: str = "fake-model"
    parts: int = 0

    async def write(
        self, transcript: Transcript, language: Language, kept: KeptParts = NOTHING_KEPT
    ) -> NoteDraft:
        for number in range(self.parts):
            if kept.get(str(number)) != f"part {number}":
                await self.fault_plan.meet("part")
                await kept.keep(str(number), f"part {number}")
        await self.fault_plan.meet("write")
        return draft_of(transcript, language)


DUE = "H-3 Natal"


def draft_of(transcript: Transcript, language: Language) -> NoteDraft:
    """What the scribe makes of a transcript."""
    first = transcript[0]
    summary = f"{language}: " + " / ".join(one.text for one in transcript)
    decision = Decision("decided", first.text, first.at_s)
    return NoteDraft(
        summary, (decision,), (ActionItem("do", first.text, first.at_s, "Budi", DUE),), ("topic",)
    )


class FakeHolidayCalendar:
    """One holiday a year. Fills `ports.runtime.HolidayCalendar`."""

    async def holidays_from(self, day: date) -> Holidays:
        return {Holiday.CHRISTMAS: (date(day.year, 12, 25), date(day.year + 1, 12, 25))}


def grown(file: tuple[RecordingFile, bytes], seconds: float) -> tuple[RecordingFile, bytes]:
    """The same file when more of it is there."""
    name = file[0].provider_file_id
    content = f"{name} {seconds} and more".split(" and")[0].encode() + b" " * 8
    return evolve(file[0], size_bytes=len(content)), content


class _Undone(Exception):
    """Has a transaction keep nothing."""


@asynccontextmanager
async def losing(opened: AbstractAsyncContextManager[Any], is_kept: bool | None) -> AsyncIterator[Any]:
    """A transaction whose connection is lost at its end, kept or not; `None` loses none."""
    with suppress(_Undone):
        async with opened as tx:
            yield tx
            if is_kept is False:
                raise _Undone
    if is_kept is not None:
        raise CommitLost("the connection was lost at the commit")
