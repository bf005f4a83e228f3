"""The suite of the places where recordings lie, on every adapter, and what is the sandbox's own."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from uuid import uuid4

import av
import pytest

from meetcore.adapters.media import AvAudioEditor
from meetcore.adapters.sandbox import (
    SandboxCall,
    SandboxFault,
    SandboxFaults,
    SandboxMeetingState,
    SandboxRecordingFiles,
    SandboxState,
)
from meetcore.adapters.sandbox.recording_files import FOLLOW_UP, LENGTHS_S, MEETING
from meetcore.domain.notes.recordings import FileKind, RecordingFile
from meetcore.ports.recording_files import FilesUnavailable
from meetcore.testing.contracts.providers import RecordingFilesContract, RecordingPlace, order_for
from meetcore.usecases.notes.downloads import MeasuredFiles
from tests.support.fakes import FakeRecordingFiles
from tests.support.sandbox_state import MemorySandboxState, postgres_state
from tests.support.zoom_adapter import zoom_at_hand

START = datetime(2026, 11, 24, 2, 4, tzinfo=UTC)
END = START + timedelta(minutes=36)
CONTENTS = {"audio": bytes(range(256)) * 9000 + b"end", "transcript": b"WEBVTT\n\n"}


def memory_files() -> FakeRecordingFiles:
    files = FakeRecordingFiles()
    for name, content in CONTENTS.items():
        file = RecordingFile(
            name, FileKind(name), len(content), START, END, f"memory:{name}", session_id="session-1"
        )
        files.put("meeting-1", file, content)
    return files


class TestMemory(RecordingFilesContract):
    @pytest.fixture
    def place(self) -> RecordingPlace:
        return RecordingPlace(memory_files(), "meeting-1", CONTENTS, ("meeting-2",))


class TestMeasured(RecordingFilesContract):
    """Files whose calls are counted are the same files."""

    @pytest.fixture
    def place(self) -> RecordingPlace:
        return RecordingPlace(MeasuredFiles(memory_files()), "meeting-1", CONTENTS, ("meeting-2",))


class TestZoom(RecordingFilesContract):
    @pytest.fixture
    async def place(self) -> AsyncIterator[RecordingPlace]:
        async with zoom_at_hand() as zoom:
            zoom.stand_in.terms.has_ranges = self.has_ranges
            orders = [order_for(zoom.provider) for _ in range(2)]
            made, other = [(await zoom.provider.create(order)).provider_meeting_id for order in orders]
            meeting = zoom.stand_in.account.meeting(made)
            zoom.stand_in.record(meeting, "audio", "M4A", CONTENTS["audio"], START, END)
            zoom.stand_in.record(meeting, "transcript", "TRANSCRIPT", CONTENTS["transcript"], START, END)
            yield RecordingPlace(zoom.provider.files, made, CONTENTS, (other, "80000000001", "sandbox-1"))


class TestZoomSessions(RecordingFilesContract):
    """A number that was held in four sessions, each with a uuid of another form."""

    @pytest.fixture
    async def place(self) -> AsyncIterator[RecordingPlace]:
        async with zoom_at_hand() as zoom:
            made = (await zoom.provider.create(order_for(zoom.provider))).provider_meeting_id
            contents: dict[str, bytes] = {}
            for k in range(4):
                uuid = zoom.stand_in.open_session(made)
                for name, kind in (("audio", "M4A"), ("transcript", "TRANSCRIPT")):
                    contents[f"{name}-{k}"] = CONTENTS[name]
                    meeting = zoom.stand_in.account.meeting(made)
                    zoom.stand_in.record(meeting, f"{name}-{k}", kind, CONTENTS[name], START, END)
                zoom.stand_in.close_session(uuid)
            yield RecordingPlace(zoom.provider.files, made, contents, ("80000000001",))


class TestZoomWithoutRanges(TestZoom):
    """Its stores of files may send the whole where a part is wanted."""

    has_ranges = False


RECORDED = resources.files("meetcore.adapters.sandbox") / "recording"
SPOKEN, WRITTEN = (RECORDED / "meeting.m4a").read_bytes(), (RECORDED / "meeting.vtt").read_bytes()


async def ended(state: SandboxState) -> str:
    name = f"sandbox-{uuid4()}"
    assert await state.put(name, SandboxMeetingState.ENDED)
    return name


async def sandbox_place(state: SandboxState) -> RecordingPlace:
    made, started, removed = await ended(state), f"sandbox-{uuid4()}", f"sandbox-{uuid4()}"
    await state.put(started, SandboxMeetingState.STARTED)
    await state.put(removed, SandboxMeetingState.REMOVED)
    contents = {f"{made}-1-audio": SPOKEN, f"{made}-1-transcript": WRITTEN}
    files = SandboxRecordingFiles(state)
    return RecordingPlace(files, made, contents, (started, removed, f"sandbox-{uuid4()}", "80000000001"))


class TestSandboxInMemory(RecordingFilesContract):
    @pytest.fixture
    async def place(self) -> RecordingPlace:
        return await sandbox_place(MemorySandboxState())


class TestSandboxInPostgres(RecordingFilesContract):
    @pytest.fixture
    async def place(self, database_url: str) -> AsyncIterator[RecordingPlace]:
        async with postgres_state(database_url) as state:
            yield await sandbox_place(state)


async def test_the_recording_ends_with_the_meeting(database_url: str):
    async with postgres_state(database_url) as kept:
        for state in (kept, MemorySandboxState()):
            before = datetime.now(UTC)
            audio, transcript = await SandboxRecordingFiles(state).find(await ended(state))
            assert abs(audio.ends_at - before) < timedelta(seconds=30)
            assert (audio.ends_at - audio.starts_at).total_seconds() == pytest.approx(LENGTHS_S[MEETING])
            assert (audio.kind, transcript.kind) == (FileKind.AUDIO, FileKind.TRANSCRIPT)
            assert (audio.starts_at, audio.ends_at) == (transcript.starts_at, transcript.ends_at)


@pytest.mark.parametrize("name", [MEETING, FOLLOW_UP])
async def test_the_recording_is_as_long_as_declared(name: str):
    editor, spoken = AvAudioEditor(share=1), (RECORDED / f"{name}.m4a").read_bytes()
    with editor.scratch() as media:
        media.write(spoken)
        assert await editor.measure(media) == pytest.approx(LENGTHS_S[name], abs=0.001)
    assert len(spoken) <= 200_000


async def test_a_later_session_of_a_meeting_has_the_follow_up():
    state, name = MemorySandboxState(), f"sandbox-{uuid4()}"
    for step in ("started", "left") * 3:
        await state.put(name, SandboxMeetingState(step))
    files, contents = SandboxRecordingFiles(state), []
    for file in await files.find(name):
        async with files.open(file) as opened:
            contents.append(b"".join([chunk async for chunk in opened.chunks]))
            assert opened.size_bytes == file.size_bytes == len(contents[-1])
    follow_up = [(RECORDED / f"{FOLLOW_UP}.{suffix}").read_bytes() for suffix in ("m4a", "vtt")]
    assert contents == [SPOKEN, WRITTEN, *follow_up, *follow_up]


@pytest.mark.parametrize(("name", "count"), [(MEETING, 12), (FOLLOW_UP, 8)])
def test_the_recording_speaks_where_its_transcript_has_text(name: str, count: int):
    written = (RECORDED / f"{name}.vtt").read_text("utf-8")
    with av.open(str(RECORDED / f"{name}.m4a"), "r") as media:
        resampler = av.AudioResampler("s16", "mono", 1000)
        frames = [each for frame in (*media.decode(audio=0), None) for each in resampler.resample(frame)]
    pcm = b"".join(bytes(frame.planes[0])[: 2 * frame.samples] for frame in frames)
    loud = [abs(int.from_bytes(pcm[at : at + 2], "little", signed=True)) for at in range(0, len(pcm), 2)]
    lines = written.splitlines()
    spans = [tuple(map(milliseconds, line.split(" --> "))) for line in lines if " --> " in line]
    assert len(spans) == count
    assert {line.split(":")[0] for line in lines if ": " in line} == {
        "Sari Wijaya", "Budi Santoso", "Dewi Lestari",
    }  # fmt: skip
    for begin, end in spans:
        assert max(loud[begin + 50 : end - 50]) > 1000
        assert max(loud[end + 60 : end + 250]) < 500  # the pause behind it
    assert spans[-1][1] <= LENGTHS_S[name] * 1000


def milliseconds(clock: str) -> int:
    hours, minutes, seconds = clock.split(":")
    return (int(hours) * 60 + int(minutes)) * 60_000 + round(float(seconds) * 1000)


@pytest.mark.parametrize("call", [SandboxCall.FIND_FILES, SandboxCall.OPEN_FILE, SandboxCall.REMOVE_FILE])
@pytest.mark.parametrize("fault", list(SandboxFault)[:5])
async def test_a_planned_fault_is_met_once(call: SandboxCall, fault: SandboxFault):
    state, faults = MemorySandboxState(), SandboxFaults()
    files, made = SandboxRecordingFiles(state, faults, timeout_s=0.05), await ended(state)
    audio, _ = await files.find(made)

    async def make_call() -> None:
        match call:
            case SandboxCall.FIND_FILES:
                assert len(await files.find(made)) == 2
            case SandboxCall.OPEN_FILE:
                async with files.open(audio):
                    pass
            case _:
                await files.remove(made, audio)

    faults.plan(call, fault)
    async with asyncio.timeout(5):
        with pytest.raises(FilesUnavailable):
            await make_call()
        is_removed = call is SandboxCall.REMOVE_FILE and fault.does_the_work
        assert len(await files.find(made)) == (1 if is_removed else 2)
        await make_call()
