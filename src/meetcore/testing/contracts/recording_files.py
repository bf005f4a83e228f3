"""What every place where recordings lie is held against: found, read whole or in parts, removed for good.

How a place fails is tested with each provider.
"""

from collections.abc import Mapping

import pytest
from attrs import evolve, frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from meetcore.domain.notes.recordings import RecordingFile
from meetcore.ports.recording_files import ByteRange, FileGone, OpenFile, RangeUnsatisfiable, RecordingFiles

_MAX_CHUNK_BYTES = 1024 * 1024


@frozen
class RecordingPlace:
    """An adapter, and what it should find.

    Attributes:
        files: the adapter.
        provider_meeting_id: a meeting that was recorded, in two files or more.
        contents: what is in each of its files, by `provider_file_id`.
        unrecorded: names of meetings without a recording: one that has none, and what names no meeting.
    """

    files: RecordingFiles
    provider_meeting_id: str
    contents: Mapping[str, bytes]
    unrecorded: tuple[str, ...]

    async def found(self) -> dict[str, RecordingFile]:
        """The files of the meeting that was recorded, by their ids."""
        return {one.provider_file_id: one for one in await self.files.find(self.provider_meeting_id)}


@pytest.mark.asyncio
class RecordingFilesContract:
    """The suite for one `RecordingFiles`. Give it the fixture `place`::

        class TestMyFiles(RecordingFilesContract):
            @pytest.fixture
            def place(self, my_provider: MyProvider) -> RecordingPlace:
                contents = {"a": b"...", "b": b"..."}
                my_provider.record("meeting-1", contents)
                return RecordingPlace(MyFiles(my_provider), "meeting-1", contents, ("meeting-2", "nonsense"))

    Every test has a recording of its own.

    Attributes:
        has_ranges: whether a part that is wanted is what is answered, and not more.
    """

    has_ranges = True

    async def test_every_file_is_found_with_its_size(self, place: RecordingPlace) -> None:
        sizes = {name: file.size_bytes for name, file in (await place.found()).items()}
        assert sizes == {name: len(content) for name, content in place.contents.items()}
        assert len(sizes) >= 2

    async def test_a_file_has_a_beginning_before_its_end(self, place: RecordingPlace) -> None:
        for file in (await place.found()).values():
            assert file.starts_at < file.ends_at
            assert file.starts_at.utcoffset() is not None
            assert file.media_s is None

    async def test_finding_twice_finds_the_same(self, place: RecordingPlace) -> None:
        assert await place.found() == await place.found()

    async def test_nothing_is_found_where_nothing_was_recorded(self, place: RecordingPlace) -> None:
        for name in (*place.unrecorded, "", "../x", "x" * 300):
            assert await place.files.find(name) == ()

    async def test_a_file_is_read_whole(self, place: RecordingPlace) -> None:
        for name, file in (await place.found()).items():
            async with place.files.open(file) as opened:
                assert (opened.size_bytes, opened.first) == (file.size_bytes, 0)
                assert opened.last == file.size_bytes - 1
                assert await _read(opened) == place.contents[name]

    async def test_any_part_is_read(self, place: RecordingPlace) -> None:
        found = await place.found()
        for name, first, length in _parts(place.contents):
            content = place.contents[name]
            wanted = ByteRange(first, None if length is None else first + length - 1)
            async with place.files.open(found[name], wanted) as opened:
                last = len(content) - 1 if wanted.last is None else min(wanted.last, len(content) - 1)
                assert opened.size_bytes == len(content)
                assert opened.first <= first <= last <= opened.last < len(content)
                if self.has_ranges:
                    assert (opened.first, opened.last) == (first, last)
                assert await _read(opened) == content[opened.first : opened.last + 1]

    async def test_there_is_nothing_behind_the_end(self, place: RecordingPlace) -> None:
        for name, file in (await place.found()).items():
            size = len(place.contents[name])
            for first in (size, size + 1, size + 10**9):
                with pytest.raises(RangeUnsatisfiable) as caught:
                    async with place.files.open(file, ByteRange(first)):
                        pass
                assert caught.value.size_bytes == size

    async def test_a_reader_that_stopped_can_read_again(self, place: RecordingPlace) -> None:
        name, file = max((await place.found()).items(), key=lambda one: one[1].size_bytes)
        for _ in range(3):
            async with place.files.open(file) as opened:
                assert place.contents[name].startswith(await anext(opened.chunks))
            async with place.files.open(file):
                pass  # not even begun
        async with place.files.open(file) as opened:
            assert await _read(opened) == place.contents[name]

    async def test_a_file_that_was_removed_is_gone_and_no_other(self, place: RecordingPlace) -> None:
        found = await place.found()
        (removed, file), *others = found.items()
        await place.files.remove(place.provider_meeting_id, file)
        assert set(await place.found()) == {name for name, _ in others}
        for wanted in (None, ByteRange(1, 2)):
            with pytest.raises(FileGone):
                async with place.files.open(file, wanted):
                    pass
        for name, other in others:
            assert name != removed
            async with place.files.open(other) as opened:
                assert await _read(opened) == place.contents[name]

    async def test_removing_what_is_gone_or_never_was_is_fine(self, place: RecordingPlace) -> None:
        found = await place.found()
        for file in found.values():
            for _ in range(2):
                await place.files.remove(place.provider_meeting_id, file)
        assert await place.found() == {}
        unknown = evolve(next(iter(found.values())), provider_file_id="never-was")
        await place.files.remove(place.provider_meeting_id, unknown)
        for name in place.unrecorded:
            await place.files.remove(name, unknown)


async def _read(opened: OpenFile) -> bytes:
    content = bytearray()
    async for chunk in opened.chunks:
        assert 0 < len(chunk) <= _MAX_CHUNK_BYTES
        content += chunk
    return bytes(content)


def _parts(contents: Mapping[str, bytes]) -> list[tuple[str, int, int | None]]:
    """A file, where to begin, and how many bytes: the edges and some others."""
    parts: list[tuple[str, int, int | None]] = []
    for name, content in contents.items():
        end = len(content)
        parts += [(name, 0, 1), (name, 0, None), (name, end - 1, None), (name, 1, end), (name, 0, end + 99)]

    @settings(max_examples=10, deadline=None, database=None)
    @given(st.sampled_from(sorted(contents)), st.floats(0, 0.999), st.integers(1, 5000))
    def draw(name: str, share: float, length: int) -> None:
        parts.append((name, int(share * len(contents[name])), length))

    draw()
    return parts
