"""Plausible mistakes of a place where recordings lie, and for each the test of the suite that finds it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from attrs import evolve

from meetcore.adapters.memory.recording_files import MemoryRecordingFiles
from meetcore.domain.notes.recordings import FileKind, RecordingFile
from meetcore.ports.recording_files import ByteRange, FileGone, OpenFile, RangeUnsatisfiable
from meetcore.testing.contracts.recording_files import RecordingFilesContract, RecordingPlace

START = datetime(2026, 11, 24, 2, 4, tzinfo=UTC)
CONTENTS = {"audio": bytes(range(256)) * 9000, "transcript": b"WEBVTT\n\n"}
Test = Callable[[RecordingFilesContract, RecordingPlace], Awaitable[None]]
Suite = RecordingFilesContract


class OneByteShort(MemoryRecordingFiles):
    @asynccontextmanager
    async def open(self, file: RecordingFile, wanted: ByteRange | None = None) -> AsyncIterator[OpenFile]:
        async with super().open(file, wanted) as opened:
            yield evolve(
                opened, chunks=self._chunks(CONTENTS[file.provider_file_id][opened.first : opened.last])
            )


class HugeChunks(MemoryRecordingFiles):
    @asynccontextmanager
    async def open(self, file: RecordingFile, wanted: ByteRange | None = None) -> AsyncIterator[OpenFile]:
        async with super().open(file, wanted) as opened:
            yield evolve(opened, chunks=self._at_once([chunk async for chunk in opened.chunks]))

    async def _at_once(self, chunks: list[bytes]) -> AsyncIterator[bytes]:
        yield b"".join(chunks)


class CountsFromOne(MemoryRecordingFiles):
    @asynccontextmanager
    async def open(self, file: RecordingFile, wanted: ByteRange | None = None) -> AsyncIterator[OpenFile]:
        if wanted is not None and wanted.first:
            wanted = evolve(wanted, first=wanted.first - 1)
        async with super().open(file, wanted) as opened:
            yield opened


class EmptyBehindTheEnd(MemoryRecordingFiles):
    @asynccontextmanager
    async def open(self, file: RecordingFile, wanted: ByteRange | None = None) -> AsyncIterator[OpenFile]:
        try:
            async with super().open(file, wanted) as opened:
                yield opened
        except RangeUnsatisfiable:
            yield OpenFile(file.size_bytes, file.size_bytes, file.size_bytes - 1, self._chunks(b""))


class RemovesAll(MemoryRecordingFiles):
    async def remove(self, provider_meeting_id: str, file: RecordingFile) -> None:
        for each in await self.find(provider_meeting_id):
            await super().remove(provider_meeting_id, each)


class RemovesOnlyFromTheList(MemoryRecordingFiles):
    async def remove(self, provider_meeting_id: str, file: RecordingFile) -> None:
        self._files.get(provider_meeting_id, {}).pop(file.provider_file_id, None)


class RemovesOnce(MemoryRecordingFiles):
    async def remove(self, provider_meeting_id: str, file: RecordingFile) -> None:
        if file not in await self.find(provider_meeting_id):
            raise FileGone("already")
        await super().remove(provider_meeting_id, file)


class FindsForOtherMeetings(MemoryRecordingFiles):
    async def find(self, provider_meeting_id: str) -> tuple[RecordingFile, ...]:
        return tuple(file for files in self._files.values() for file in files.values())


MISTAKES: list[tuple[Test, type[MemoryRecordingFiles]]] = [
    (Suite.test_a_file_is_read_whole, OneByteShort),
    (Suite.test_a_file_is_read_whole, HugeChunks),
    (Suite.test_any_part_is_read, OneByteShort),
    (Suite.test_any_part_is_read, CountsFromOne),
    (Suite.test_there_is_nothing_behind_the_end, EmptyBehindTheEnd),
    (Suite.test_a_file_that_was_removed_is_gone_and_no_other, RemovesAll),
    (Suite.test_a_file_that_was_removed_is_gone_and_no_other, RemovesOnlyFromTheList),
    (Suite.test_removing_what_is_gone_or_never_was_is_fine, RemovesOnce),
    (Suite.test_nothing_is_found_where_nothing_was_recorded, FindsForOtherMeetings),
]


def place_of(kind: type[MemoryRecordingFiles]) -> RecordingPlace:
    files = kind()
    for name, content in CONTENTS.items():
        end = START + timedelta(minutes=36)
        files.put("meeting-1", RecordingFile(name, FileKind(name), len(content), START, end, "x"), content)
    return RecordingPlace(files, "meeting-1", CONTENTS, ("meeting-2",))


@pytest.mark.parametrize(("test", "mistake"), MISTAKES)
async def test_the_suite_finds(test: Test, mistake: type[MemoryRecordingFiles]):
    await test(RecordingFilesContract(), place_of(MemoryRecordingFiles))
    with pytest.raises((AssertionError, FileGone, pytest.fail.Exception)):
        await test(RecordingFilesContract(), place_of(mistake))
