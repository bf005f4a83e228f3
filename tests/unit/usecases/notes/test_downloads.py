"""Downloads of recordings: signed links of fifteen minutes, and a bound on open streams."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import Gone, NotFound, TooManyDownloads
from meetcore.domain.notes.downloads import DownloadLimits, DownloadLink, is_signed_by
from meetcore.domain.notes.recordings import FileKind, RecordingFile, RecordingStatus
from meetcore.ports.recording_files import FilesUnavailable, OpenFile
from meetcore.usecases.notes import downloads, write_notes
from meetcore.usecases.notes.downloads import DownloadRecording, DownloadStreams
from tests.support.fakes import FakeRecordingFiles
from tests.support.recording_fakes import KEY, NOW, OLD_KEY, FakeRecordings, a_recording


@pytest.fixture
def kept() -> FakeRecordings:
    return FakeRecordings()


@pytest.fixture
def download(kept: FakeRecordings) -> DownloadRecording:
    return DownloadRecording(kept.queries, (KEY, OLD_KEY))


async def test_a_link_works_for_fifteen_minutes(kept: FakeRecordings, download: DownloadRecording):
    recording = kept.put(a_recording())
    signed = await download.link(recording.account_id, recording.id, NOW)
    assert signed.link.expires == int((NOW + timedelta(minutes=15)).timestamp())
    await download(signed, NOW + timedelta(minutes=14, seconds=59))
    for late in (timedelta(minutes=15), timedelta(days=2)):
        with pytest.raises(Gone, match="link is over"):
            await download(signed, NOW + late)


async def test_a_link_of_the_key_before_is_honoured_and_none_is_signed_with_it(
    kept: FakeRecordings, download: DownloadRecording
):
    recording = kept.put(a_recording())
    old = await DownloadRecording(kept.queries, (OLD_KEY,)).link(recording.account_id, recording.id, NOW)
    assert (await download(old, NOW)).file == recording.files[0]
    new = await download.link(recording.account_id, recording.id, NOW)
    assert is_signed_by([KEY], new.link, new.signature)
    with pytest.raises(NotFound):
        await DownloadRecording(kept.queries, (KEY,))(old, NOW)


async def test_retention_ends_at_its_instant_even_before_the_expiry_sweep(
    kept: FakeRecordings, download: DownloadRecording
):
    recording = kept.put(evolve(a_recording(), expires_at=NOW + timedelta(minutes=5)))
    signed = await download.link(recording.account_id, recording.id, NOW)
    await download(signed, NOW + timedelta(minutes=5) - timedelta(microseconds=1))
    with pytest.raises(Gone, match="retention"):
        await download(signed, NOW + timedelta(minutes=5))
    with pytest.raises(Gone, match="retention"):
        await download.link(recording.account_id, recording.id, NOW + timedelta(minutes=5))
    with pytest.raises(Gone, match="retention"):  # rather than that the link is over: another would not help
        await download(signed, NOW + timedelta(minutes=20))


async def test_one_that_is_being_measured_is_not_there_yet(kept: FakeRecordings, download: DownloadRecording):
    recording = kept.put(a_recording())
    signed = await download.link(recording.account_id, recording.id, NOW)
    kept.change(recording, status=RecordingStatus.MEASURING)
    with pytest.raises(NotFound):
        await download(signed, NOW)
    with pytest.raises(NotFound):
        await download.link(recording.account_id, recording.id, NOW)


async def test_no_key_and_no_signature_is_in_a_repr(kept: FakeRecordings, download: DownloadRecording):
    recording = kept.put(a_recording((FileKind.AUDIO, FileKind.AUDIO), (1, 2)))
    signed = await download.link(recording.account_id, recording.id, NOW)
    found = await download(signed, NOW)
    assert found.next_part is not None
    for each in (signed, found, download):
        assert signed.signature not in repr(each)
        assert found.next_part.signature not in repr(each)
        assert repr(KEY)[2:20] not in repr(each)


LINK = DownloadLink(UUID(int=1), UUID(int=2), 1, 1_800_000_000)


def test_a_link_has_four_and_an_account_twenty() -> None:
    streams = DownloadStreams()
    with ExitStack() as stack:
        for part in range(1, 6):
            for _ in range(4):
                stack.enter_context(streams.one(evolve(LINK, part=part)))
        assert len(streams) == 20
        for part in (1, 6):
            with pytest.raises(TooManyDownloads), streams.one(evolve(LINK, part=part)):
                pass
        with streams.one(evolve(LINK, account_id=UUID(int=9))):
            pass
    assert len(streams) == 0


def test_a_stream_that_is_over_or_broke_makes_room() -> None:
    streams = DownloadStreams(DownloadLimits(streams_per_link=1, streams_per_account=1))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), streams.one(LINK):
            raise ZeroDivisionError
        with streams.one(LINK), pytest.raises(TooManyDownloads), streams.one(LINK):
            pass
    assert not streams._of_link
    assert not streams._of_account


class Trickling(FakeRecordingFiles):
    """A file that never ends, and comes by a byte at a time."""

    @asynccontextmanager
    async def open(self, file: RecordingFile, wanted: Any = None) -> AsyncIterator[OpenFile]:
        yield OpenFile(1000, 0, 999, self._bytes())

    async def _bytes(self) -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0.001)
            yield b"x"


@pytest.mark.parametrize("limit", ["time", "size"])
async def test_a_transcript_that_trickles_is_not_waited_for(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limit == "time":
        monkeypatch.setattr(downloads, "COPY_WITHIN_S", 0.01)
    else:
        monkeypatch.setattr(write_notes, "MAX_TRANSCRIPT_BYTES", 3)
    recording = a_recording((FileKind.AUDIO,))
    transcript = evolve(recording.files[0], provider_file_id="t", kind=FileKind.TRANSCRIPT)
    nothing: Any = None
    reading = write_notes.TranscribeRecording(nothing, Trickling(), nothing, None)
    async with asyncio.timeout(10):
        with pytest.raises(FilesUnavailable):
            await reading.read(evolve(recording, files=(*recording.files, transcript)))


async def test_a_large_file_may_take_as_long_as_its_size_at_the_least_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow(Trickling):
        async def _bytes(self) -> AsyncIterator[bytes]:
            for _ in range(20):
                await asyncio.sleep(0.005)
                yield b"x"

    monkeypatch.setattr(downloads, "COPY_WITHIN_S", 0.01)
    monkeypatch.setattr(downloads, "LEAST_BYTES_PER_S", 1)
    file = evolve(a_recording((FileKind.AUDIO,)).files[0], size_bytes=20)
    copy = io.BytesIO()
    async with asyncio.timeout(10):
        await downloads.copy_file(Slow(), file, copy)
    assert copy.getvalue() == b"x" * 20
