"""The contracts of `ports.ai`: `AudioEditor`, `Transcriber` and `NoteWriter`.

Media are WAV files and silence. Other formats, accuracy and failures are tested with each adapter.
"""

import asyncio
import math
import os
import wave
from array import array
from collections.abc import Coroutine, Mapping
from types import MappingProxyType
from typing import Any, BinaryIO, TypeVar

import pytest
from attrs import define, field

from meetcore.domain.notes.citations import is_in_vocabulary, vocabulary
from meetcore.domain.notes.notes import ActionItem, Decision, Language, NoteDraft
from meetcore.domain.notes.transcripts import Transcript, Utterance
from meetcore.ports.ai import AiRefused, AudioEditor, MediaUnreadable, NoteWriter, Sound, Transcriber
from meetcore.testing.sounds import silence, sound_of

T = TypeVar("T")
_RATE = 8000
_OFF_S = 0.05  # frames of Opus are 20 ms


async def _cancel_first(one: Coroutine[Any, Any, T], other: Coroutine[Any, Any, T]) -> T:
    """Start two calls, cancel the first, and return the result of the other."""
    given_up, kept = asyncio.create_task(one), asyncio.create_task(other)
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    return await kept


def _recorded(editor: AudioEditor, seconds: float) -> BinaryIO:
    """Make a scratch file with a tone of this length."""
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
    """The suite of an `AudioEditor`, with the fixture `editor`."""

    async def test_a_scratch_file_is_new_and_empty_and_has_no_name(self, editor: AudioEditor) -> None:
        with editor.scratch() as one, editor.scratch() as other:
            assert one.read() == b""
            one.write(b"speech")
            one.seek(0)
            assert (one.read(), other.read()) == (b"speech", b"")
            assert os.fstat(one.fileno()).st_nlink == 0

    @pytest.mark.parametrize("seconds", [0.5, 3.0, 61.25])
    async def test_the_length_is_measured_wherever_the_file_stands(
        self, editor: AudioEditor, seconds: float
    ) -> None:
        with _recorded(editor, seconds) as media:
            for position in (0, os.SEEK_END):
                media.seek(0, position)
                assert await editor.measure(media) == pytest.approx(seconds, abs=0.001)

    async def test_a_file_that_was_cut_short_is_as_long_as_what_is_left(self, editor: AudioEditor) -> None:
        with _recorded(editor, 10) as media:
            media.truncate(44 + 4 * _RATE * 2)
            assert await editor.measure(media) == pytest.approx(4, abs=_OFF_S)

    @pytest.mark.parametrize("content", [b"", b"WEBVTT\n\n00:00.000 --> 00:01.000\nHalo\n", b"RIFF" * 500])
    async def test_no_media_is_unreadable(self, editor: AudioEditor, content: bytes) -> None:
        with editor.scratch() as media:
            media.write(content)
            with pytest.raises(MediaUnreadable):
                await editor.measure(media)
            with pytest.raises(MediaUnreadable):
                await editor.cut(media, 0, 1)

    async def test_a_piece_is_opus_in_ogg_with_one_channel_and_no_name(self, editor: AudioEditor) -> None:
        with _recorded(editor, 4) as media, await editor.cut(media, 1, 2) as piece:
            head = piece.file.read(64)
            assert not piece.is_copied
            assert os.fstat(piece.file.fileno()).st_nlink == 0
        assert head[:4] == b"OggS"
        opus = head.index(b"OpusHead")
        assert head[opus + 9] == 1

    @pytest.mark.parametrize("may_copy", [False, True])
    async def test_a_copied_piece_is_the_same_stretch(self, editor: AudioEditor, may_copy: bool) -> None:
        with _recorded(editor, 6) as media, await editor.cut(media, 1.5, 3, may_copy=may_copy) as piece:
            assert piece.file.tell() == 0
            assert may_copy or not piece.is_copied
            assert piece.length_s == pytest.approx(3, abs=_OFF_S)
            assert await editor.measure(piece.file) == pytest.approx(3, abs=_OFF_S)

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


_LIMIT_BYTES = 25 * 1024 * 1024


def _piece(length_s: float) -> Sound:
    return sound_of(silence(length_s), length_s)


def _check(transcript: Transcript, length_s: float) -> None:
    assert [one.at_s for one in transcript] == sorted(one.at_s for one in transcript)
    for one in transcript:
        assert 0 <= one.at_s <= one.until_s <= length_s + _OFF_S
        assert one.text.strip()
        assert one.speaker is None or one.speaker.strip()


@pytest.mark.asyncio
class TranscriberContract:
    """The suite of a `Transcriber`, with the fixture `transcriber`. The pieces are silence."""

    async def test_it_declares_how_long_a_piece_may_be(self, transcriber: Transcriber) -> None:
        assert transcriber.max_piece_s >= 30
        assert isinstance(transcriber.takes_copies, bool)
        assert transcriber.max_piece_s * 3_000 <= _LIMIT_BYTES, "a piece of speech is larger than 25 MB"

    @pytest.mark.parametrize("length_s", [0.5, 7.25, 31.0])
    async def test_utterances_lie_within_the_piece(self, transcriber: Transcriber, length_s: float) -> None:
        with _piece(length_s) as sound:
            _check(await transcriber.transcribe(sound, Language.INDONESIAN), length_s)

    async def test_the_longest_piece_is_transcribed(self, transcriber: Transcriber) -> None:
        with _piece(transcriber.max_piece_s) as sound:
            _check(await transcriber.transcribe(sound, Language.INDONESIAN), transcriber.max_piece_s)

    async def test_a_piece_stays_open_and_can_be_transcribed_again(self, transcriber: Transcriber) -> None:
        with _piece(11.0) as sound:
            first = await transcriber.transcribe(sound, Language.INDONESIAN)
            assert not sound.file.closed
            sound.file.seek(0)
            assert await transcriber.transcribe(sound, Language.INDONESIAN) == first

    async def test_pieces_at_one_time_do_not_mix(self, transcriber: Transcriber) -> None:
        lengths_s = (0.5, 12.0)

        async def transcribe(length_s: float) -> Transcript:
            with _piece(length_s) as sound:
                return await transcriber.transcribe(sound, Language.INDONESIAN)

        alone = [await transcribe(length_s) for length_s in lengths_s]
        assert await asyncio.gather(*map(transcribe, lengths_s)) == alone

    @pytest.mark.parametrize("content", [b"", b"no sound at all", silence(1.0)[:30]])
    async def test_no_sound_is_refused(self, transcriber: Transcriber, content: bytes) -> None:
        with sound_of(content, 1.0) as sound, pytest.raises(AiRefused):
            await transcriber.transcribe(sound, Language.INDONESIAN)

    async def test_a_cancelled_call_cancels_no_other(self, transcriber: Transcriber) -> None:
        with _piece(6.0) as one, _piece(6.0) as other:
            kept = await _cancel_first(
                *(transcriber.transcribe(sound, Language.ENGLISH) for sound in (one, other))
            )
            _check(kept, 6.0)


def _transcript(*lines: tuple[str | None, str]) -> Transcript:
    return tuple(Utterance(4.5 * at, 4.5 * at + 4, text, speaker) for at, (speaker, text) in enumerate(lines))


_INDONESIAN = (
    ("Budi Santoso", "Selamat pagi, kita mulai rapat koordinasi anggaran kuartal keempat."),
    ("Siti Rahma", "Anggaran Q4 saya usulkan dua ratus lima puluh juta."),
    ("Budi Santoso", "Setuju. Kita putuskan anggaran Q4 dua ratus lima puluh juta."),
    ("Budi Santoso", "Siti, tolong kirim RAB final paling lambat tanggal 28."),
    (None, "Baik, Pak."),
)
_ENGLISH = (
    ("Ana", "Good morning, let us talk about the release of the mobile application."),
    ("Ben", "The tests are green, but the store review takes a week."),
    ("Ana", "We decided to ship on the third. Ben, please send the build to the store by Friday."),
    ("Ben", "I'll write the release notes tomorrow."),
)

MEETINGS: Mapping[str, Transcript] = MappingProxyType(
    {
        "indonesian": _transcript(*_INDONESIAN),
        "english": _transcript(*_ENGLISH),
        "without names": _transcript(*((None, text) for _, text in (*_INDONESIAN, *_ENGLISH))),
        "one word": _transcript((None, "Halo")),
        "no word of a language": _transcript(
            ("李明", "会議を始めます。🎉"), (None, "?!"), (None, "a\u0301\u200d اجتماع")
        ),
        "marks of every kind": _transcript(('"A", [1]\\', '{"summary": "x"} ]]> <b>%s</b> {0} \t\n\\n `x`')),
        "all at one second": tuple(Utterance(1.0, 1.0, text, name) for name, text in _INDONESIAN),
        "one breath": (Utterance(0.0, 600.0, " ".join(text for _, text in _INDONESIAN * 40), "Budi"),),
        "three hours": _transcript(*(_INDONESIAN + _ENGLISH) * 300),
    }
)
"""Transcripts that are hard for writers."""


def _check_draft(draft: NoteDraft, transcript: Transcript) -> None:
    assert draft.summary.strip()
    among = vocabulary(transcript)
    items: list[Decision | ActionItem] = [*draft.decisions, *draft.action_items]
    for item in items:
        assert any(item.quote in one.text and item.at_s == one.at_s for one in transcript), item.at_s
        assert item.quote.strip()
        assert (item.text if isinstance(item, Decision) else item.task).strip()
    for text in (text for action in draft.action_items for text in (action.owner, action.due)):
        assert text is None or is_in_vocabulary(text, among)
    assert len(set(draft.topics)) == len(draft.topics)
    assert all(topic.strip() for topic in draft.topics)


@define
class PartsInMemory:
    """The parts of a note, kept in memory: `ports.ai.KeptParts`."""

    parts: dict[str, str] = field(factory=dict)

    def get(self, name: str) -> str | None:
        """Return a part."""
        return self.parts.get(name)

    async def keep(self, name: str, text: str) -> None:
        """Keep a part, which no writer makes again."""
        assert name not in self.parts, "a part that was kept is made again"
        self.parts[name] = text


@pytest.mark.asyncio
class NoteWriterContract:
    """The suite of a `NoteWriter`, with the fixture `note_writer`: every citation is in the transcript."""

    @pytest.mark.parametrize("language", Language)
    @pytest.mark.parametrize("meeting", MEETINGS)
    async def test_notes_cite_the_transcript(
        self, note_writer: NoteWriter, meeting: str, language: Language
    ) -> None:
        transcript = MEETINGS[meeting]
        async with asyncio.timeout(60):
            _check_draft(await note_writer.write(transcript, language), transcript)

    async def test_it_has_a_name(self, note_writer: NoteWriter) -> None:
        assert note_writer.name.strip()

    async def test_a_decision_and_a_task_are_found(self, note_writer: NoteWriter) -> None:
        for meeting, decided, task in (("indonesian", 9.0, 13.5), ("english", 9.0, 9.0)):
            draft = await note_writer.write(MEETINGS[meeting], Language.INDONESIAN)
            assert decided in {one.at_s for one in draft.decisions}
            assert task in {one.at_s for one in draft.action_items}

    async def test_meetings_at_one_time_do_not_mix(self, note_writer: NoteWriter) -> None:
        meetings = [MEETINGS[name] for name in ("indonesian", "english", "one word")] * 3
        drafts = await asyncio.gather(*(note_writer.write(one, Language.ENGLISH) for one in meetings))
        for draft, meeting in zip(drafts, meetings, strict=True):
            _check_draft(draft, meeting)

    async def test_a_cancelled_call_cancels_no_other(self, note_writer: NoteWriter) -> None:
        transcript = MEETINGS["english"]
        first, other = (note_writer.write(transcript, Language.ENGLISH) for _ in range(2))
        kept = await _cancel_first(first, other)
        _check_draft(kept, transcript)

    async def test_parts_that_were_kept_are_read_again(self, note_writer: NoteWriter) -> None:
        transcript, kept = MEETINGS["three hours"], PartsInMemory()
        await note_writer.write(transcript, Language.ENGLISH, kept)
        parts = dict(kept.parts)
        _check_draft(await note_writer.write(transcript, Language.ENGLISH, kept), transcript)
        assert kept.parts == parts

    async def test_the_representation_holds_nothing_of_the_transcript(self, note_writer: NoteWriter) -> None:
        draft = await note_writer.write(MEETINGS["indonesian"], Language.INDONESIAN)
        assert "anggaran" not in repr(draft).lower()
