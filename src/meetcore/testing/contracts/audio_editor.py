"""What everything that measures and cuts media is held against: WAV files of the standard library's making.

Other formats, and broken media, are tested with each adapter.
"""

import asyncio
import math
import os
import wave
from array import array
from typing import BinaryIO

import pytest

from meetcore.ports.audio_editor import AudioEditor, MediaUnreadable

_RATE = 8000
# Opus has frames of 20 ms, and what is cut must be right within 50.
_OFF_S = 0.05


def _recorded(editor: AudioEditor, seconds: float) -> BinaryIO:
    """A scratch file with a tone of that length."""
    samples = array("h", (round(9000 * math.sin(at / 3)) for at in range(round(seconds * _RATE))))
    media = editor.scratch()
    with wave.open(media, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(_RATE)
        sound.writeframes(samples.tobytes())
    media.seek(0)
    return media


@pytest.mark.asyncio
class AudioEditorContract:
    """The suite for one `AudioEditor`. Give it the fixture `editor`::

    class TestMyEditor(AudioEditorContract):
        @pytest.fixture
        def editor(self) -> AudioEditor:
            return MyEditor()
    """

    async def test_a_scratch_file_is_empty_and_has_no_name(self, editor: AudioEditor) -> None:
        with editor.scratch() as scratch:
            assert scratch.read() == b""
            scratch.write(b"what was said")
            scratch.seek(0)
            assert scratch.read() == b"what was said"
            assert os.fstat(scratch.fileno()).st_nlink == 0

    async def test_no_two_scratch_files_are_one(self, editor: AudioEditor) -> None:
        with editor.scratch() as one, editor.scratch() as other:
            one.write(b"x")
            one.flush()
            assert other.read() == b""

    @pytest.mark.parametrize("seconds", [0.5, 3.0, 61.25])
    async def test_the_length_is_that_of_the_sound(self, editor: AudioEditor, seconds: float) -> None:
        with _recorded(editor, seconds) as media:
            assert await editor.measure(media) == pytest.approx(seconds, abs=0.001)

    async def test_a_file_that_was_cut_short_is_as_long_as_what_is_left(self, editor: AudioEditor) -> None:
        with _recorded(editor, 10) as media:
            media.truncate(44 + 4 * _RATE * 2)
            assert await editor.measure(media) == pytest.approx(4, abs=_OFF_S)

    async def test_measuring_does_not_depend_on_where_the_file_stands(self, editor: AudioEditor) -> None:
        with _recorded(editor, 2) as media:
            media.seek(0, os.SEEK_END)
            assert await editor.measure(media) == pytest.approx(2, abs=0.001)

    @pytest.mark.parametrize("content", [b"", b"WEBVTT\n\n00:00.000 --> 00:01.000\nHalo\n", b"RIFF" * 500])
    async def test_what_is_no_media_is_unreadable(self, editor: AudioEditor, content: bytes) -> None:
        with editor.scratch() as media:
            media.write(content)
            with pytest.raises(MediaUnreadable):
                await editor.measure(media)
            with pytest.raises(MediaUnreadable):
                await editor.cut(media, 0, 1)

    async def test_a_piece_is_opus_in_ogg_with_one_channel(self, editor: AudioEditor) -> None:
        with _recorded(editor, 4) as media, await editor.cut(media, 1, 2) as piece:
            head = piece.file.read(64)
            assert not piece.is_copied
        assert head[:4] == b"OggS"
        opus = head.index(b"OpusHead")
        assert head[opus + 9] == 1

    @pytest.mark.parametrize("may_copy", [False, True])
    async def test_what_may_be_copied_is_the_same_stretch(self, editor: AudioEditor, may_copy: bool) -> None:
        with (
            _recorded(editor, 6) as media,
            await editor.cut(media, 1.5, 3, may_copy=may_copy) as piece,
        ):
            assert piece.file.tell() == 0
            assert may_copy or not piece.is_copied
            assert piece.length_s == pytest.approx(3, abs=_OFF_S)
            assert await editor.measure(piece.file) == pytest.approx(3, abs=_OFF_S)

    async def test_a_piece_has_no_name(self, editor: AudioEditor) -> None:
        with _recorded(editor, 2) as media, await editor.cut(media, 0, 1) as piece:
            assert os.fstat(piece.file.fileno()).st_nlink == 0

    @pytest.mark.parametrize(
        ("from_s", "length_s", "expected_s"),
        [(0, 10, 10), (0, 2.5, 2.5), (2.5, 5, 5), (7.25, 2.75, 2.75), (8, 30, 2)],
    )
    async def test_a_piece_is_as_long_as_requested_or_as_the_media_lasts(
        self, editor: AudioEditor, from_s: float, length_s: float, expected_s: float
    ) -> None:
        with _recorded(editor, 10) as media, await editor.cut(media, from_s, length_s) as piece:
            assert await editor.measure(piece.file) == pytest.approx(expected_s, abs=_OFF_S)
            assert piece.length_s == pytest.approx(expected_s, abs=_OFF_S)

    async def test_the_media_can_be_cut_again_and_at_the_same_time(self, editor: AudioEditor) -> None:
        with _recorded(editor, 12) as media:
            pieces = await asyncio.gather(*(editor.cut(media, at, 1 + at / 4) for at in (0, 4, 8)))
            lengths = [await editor.measure(piece.file) for piece in pieces]
            for piece in pieces:
                piece.close()
            assert lengths == pytest.approx([1, 2, 3], abs=_OFF_S)
            assert await editor.measure(media) == pytest.approx(12, abs=0.001)

    async def test_a_piece_that_makes_no_sense_is_refused(self, editor: AudioEditor) -> None:
        with _recorded(editor, 2) as media:
            for from_s, length_s in ((-1, 1), (0, 0), (0, -1), (math.nan, 1), (0, math.nan)):
                with pytest.raises(ValueError, match="piece"):
                    await editor.cut(media, from_s, length_s)
