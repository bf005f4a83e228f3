"""What everything that writes notes is held against: what it cites is in the transcript.

How well it writes, and how it fails, is tested with each adapter.
"""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from meetcore.domain.notes.citations import is_in_vocabulary, vocabulary
from meetcore.domain.notes.notes import ActionItem, Decision, Language, NoteDraft
from meetcore.domain.notes.transcripts import Transcript, Utterance
from meetcore.ports.note_writer import NoteWriter


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
"""Meetings in which writers have stumbled."""

_LIMIT_S = 60.0


def _check(draft: NoteDraft, transcript: Transcript) -> None:
    assert draft.summary.strip()
    among = vocabulary(transcript)
    quoting: list[Decision | ActionItem] = [*draft.decisions, *draft.action_items]
    for item in quoting:
        assert any(item.quote in one.text and item.at_s == one.at_s for one in transcript), item.at_s
        assert item.quote.strip()
    for decision in draft.decisions:
        assert decision.text.strip()
    for action in draft.action_items:
        assert action.task.strip()
        for text in (action.owner, action.due):
            assert text is None or is_in_vocabulary(text, among)
    assert len(set(draft.topics)) == len(draft.topics)
    assert all(topic.strip() for topic in draft.topics)


@pytest.mark.asyncio
class NoteWriterContract:
    """The suite for one `NoteWriter`. Give it the fixture `note_writer`::

    class TestMyNoteWriter(NoteWriterContract):
        @pytest.fixture
        def note_writer(self) -> NoteWriter:
            return MyNoteWriter("https://writes.example")
    """

    @pytest.mark.parametrize("language", Language)
    @pytest.mark.parametrize("meeting", MEETINGS)
    async def test_a_note_cites_what_was_spoken_at_that_second(
        self, note_writer: NoteWriter, meeting: str, language: Language
    ) -> None:
        transcript = MEETINGS[meeting]
        async with asyncio.timeout(_LIMIT_S):
            _check(await note_writer.write(transcript, language), transcript)

    async def test_a_decision_and_what_is_to_be_done_are_found(self, note_writer: NoteWriter) -> None:
        for meeting, decided, task in (("indonesian", 9.0, 13.5), ("english", 9.0, 9.0)):
            draft = await note_writer.write(MEETINGS[meeting], Language.INDONESIAN)
            assert decided in {one.at_s for one in draft.decisions}
            assert task in {one.at_s for one in draft.action_items}

    async def test_meetings_at_one_time_do_not_mix(self, note_writer: NoteWriter) -> None:
        meetings = [MEETINGS["indonesian"], MEETINGS["english"], MEETINGS["one word"]] * 3
        drafts = await asyncio.gather(*(note_writer.write(one, Language.ENGLISH) for one in meetings))
        for draft, meeting in zip(drafts, meetings, strict=True):
            _check(draft, meeting)

    async def test_a_cancelled_call_cancels_no_other(self, note_writer: NoteWriter) -> None:
        transcript = MEETINGS["english"]
        given_up = asyncio.create_task(note_writer.write(transcript, Language.ENGLISH))
        kept = asyncio.create_task(note_writer.write(transcript, Language.ENGLISH))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        _check(await kept, transcript)

    async def test_the_representation_holds_nothing_of_the_transcript(self, note_writer: NoteWriter) -> None:
        draft = await note_writer.write(MEETINGS["indonesian"], Language.INDONESIAN)
        assert "anggaran" not in repr(draft).lower()
