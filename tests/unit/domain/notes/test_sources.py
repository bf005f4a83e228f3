"""Each stretch of a recording has its own transcript, and none costs the others theirs."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.meetings.sessions import Session
from meetcore.domain.notes import sources
from meetcore.domain.notes.notes import Language
from meetcore.domain.notes.recordings import FileKind, Recording, RecordingFile, RecordingStatus, segments
from meetcore.domain.notes.transcripts import Transcript, Utterance

AT = datetime(2026, 12, 1, 2, tzinfo=UTC)
ID = UUID(int=1)
HOUR = timedelta(hours=1)

MINUTE = timedelta(minutes=1)
NOW = datetime(2026, 12, 1, 3, tzinfo=UTC)


def sound(place: int, media_s: float | None) -> RecordingFile:
    begins = AT + place * HOUR
    return RecordingFile(f"m{place}", FileKind.AUDIO, 1, begins, begins + HOUR / 2, "https://f", media_s)


def recording_of(*lengths_s: float | None) -> Recording:
    files = tuple(sound(place, media_s) for place, media_s in enumerate(lengths_s))
    return Recording(ID, ID, ID, "zoom", "1", RecordingStatus.AVAILABLE, files, AT, AT + HOUR, AT + 90 * HOUR)


def saying(*words: str) -> Transcript:
    return tuple(Utterance(float(at), at + 1.0, word, "Budi") for at, word in enumerate(words))


def test_stretches_without_a_transcript_and_without_speech():
    recording = recording_of(60.0, 60.0, 60.0, 0.9)
    provided = {0: saying("ya"), 2: saying()}
    assert [file.provider_file_id for file in sources.find_lacking(recording, provided)] == ["m1"]
    assert [file.provider_file_id for file in sources.find_speechless(recording, provided)] == ["m1", "m2"]
    assert sources.find_lacking(recording_of(1.0), {}) == (sound(0, 1.0),)


@pytest.mark.parametrize(("waited_s", "expected_s"), [
    (-30, 60), (0, 60), (30, 90), (60, 120), (180, 240), (240, 300), (420, 300), (1500, 300), (1620, 180),
])  # fmt: skip
def test_a_waiting_note_looks_in_1_2_4_then_5_minutes_and_at_the_end(
    waited_s: float, expected_s: float
) -> None:
    wait = timedelta(seconds=1800)
    assert sources.next_look_s(1800 - waited_s, wait) == expected_s


@pytest.mark.parametrize(("lacking", "now", "expected_s"), [
    ([0], AT + HOUR, 600.0),
    ([0], AT + HOUR + timedelta(seconds=601), -1.0),
    ([0, 2], AT + 3 * HOUR, -1200.0),
    ([1, 2], AT + 2.5 * HOUR, 600.0),
    ([1, 2], AT + 2.5 * HOUR - timedelta(seconds=1), 600.0 + 1 - 3600),
])  # fmt: skip
def test_a_transcript_is_waited_for_since_the_first_files_or_the_end_of_the_stretch(
    lacking: list[int], now: datetime, expected_s: float
):
    recording = recording_of(60.0, 60.0, 60.0)
    sounds = [recording.files[place] for place in lacking]
    assert sources.waits_for_s(recording, sounds, timedelta(seconds=600), now) == expected_s


@pytest.mark.parametrize(("set_s", "can_transcribe", "expected_s"), [
    (1800, True, 1800), (1800, False, 7200), (9000, False, 9000), (0, False, 0),
])  # fmt: skip
def test_what_nothing_here_can_make_is_waited_for_twice_as_long_as_it_was_recorded(
    set_s: float, can_transcribe: bool, expected_s: float
) -> None:
    recording, wait = recording_of(1800.0, 1800.0), timedelta(seconds=set_s)
    waited = sources.transcript_wait(recording, wait, can_transcribe=can_transcribe)
    assert waited == timedelta(seconds=expected_s)


@pytest.mark.parametrize(("held", "expected_s"), [
    ((), 0.0),
    ((Session("known", None, NOW),), 0.0),
    ((Session("runs", NOW),), 0.0),
    ((Session("known", None, NOW), Session("other", None, NOW)), 600.0),
    (
        (Session("a", None, NOW - 9 * MINUTE), Session("b", None, NOW - 99 * MINUTE)),
        60.0,
    ),
])  # fmt: skip
def test_the_files_of_other_sessions_are_waited_for_after_their_ends(held, expected_s):
    recording = recording_of(60.0)
    recording = evolve(recording, files=(evolve(recording.files[0], session_id="known"),))
    assert sources.waits_for_sessions_s(recording, held, timedelta(minutes=10), NOW) == expected_s


def test_the_media_of_a_session_is_waited_for_where_only_its_chat_is_there():
    recording = recording_of(60.0)
    chat = evolve(recording.files[0], provider_file_id="chat", kind=FileKind.OTHER, session_id="other")
    held = [Session("other", ended_at=NOW)]
    wait = timedelta(minutes=10)
    assert sources.waits_for_sessions_s(evolve(recording, files=(chat,)), held, wait, NOW) == 600.0


def test_transcripts_are_joined_in_the_time_of_the_recording():
    own = (Utterance(61.0, 62.0, "dua"),)
    joined = sources.join_sources(recording_of(60.0, 30.0, 60.0), {2: saying("tiga"), 0: saying("satu")}, own)
    assert [(one.at_s, one.speaker, one.text) for one in joined] == [
        (0.0, "Budi", "satu"), (61.0, None, "dua"), (90.0, "Budi", "tiga"),
    ]  # fmt: skip


def test_what_is_left_out_is_named_and_not_paid_for():
    recording = recording_of(60.0, 90.5, 3600.0)
    left_out = sources.spans_of(recording, [recording.files[1], recording.files[2]])
    assert left_out == ((60.0, 150.5), (150.5, 3750.5))
    unmeasured = recording_of(60.0, None)
    assert sources.spans_of(unmeasured, unmeasured.files) == ((0.0, 60.0), (60.0, 60.0))
    assert recording.duration_s == 3751
    assert sources.duration_s(recording, left_out) == 60
    assert sources.duration_s(recording, ()) == 3751
    without_sound = recording_of(0.0, 90.5)
    assert sources.duration_s(without_sound, sources.spans_of(without_sound, without_sound.files[1:])) == 1
    assert sources.mention_left_out("Ringkasan", (), Language.INDONESIAN) == "Ringkasan"
    assert sources.mention_left_out("Ringkasan", left_out, Language.INDONESIAN).splitlines() == [
        "Ringkasan",
        "Bagian rekaman dari 1:00 sampai 2:30 tidak termasuk dalam notulen ini, "
        "karena tidak ada transkripnya.",
        "Bagian rekaman dari 2:30 sampai 1:02:30 tidak termasuk dalam notulen ini, "
        "karena tidak ada transkripnya.",
    ]
    assert sources.mention_left_out("Summary", left_out[:1], Language.ENGLISH).splitlines()[1:] == [
        "The part of the recording from 1:00 to 2:30 is not in these notes, because there is no "
        "transcript of it."
    ]


@given(st.lists(st.tuples(st.floats(0, 4000), st.none() | st.booleans()), max_size=6))
def test_every_stretch_is_provided_or_transcribed_or_too_short(stretches: list[tuple[float, bool | None]]):
    recording = recording_of(*(media_s for media_s, _ in stretches))
    provided = {
        place: saying("ya") if speaks else saying()
        for place, (_, speaks) in enumerate(stretches) if speaks is not None
    }  # fmt: skip
    lacking, speechless = (
        sources.find_lacking(recording, provided),
        sources.find_speechless(recording, provided),
    )
    assert set(lacking) <= set(speechless)
    for place, segment in enumerate(segments(recording)):
        media_s, speaks = stretches[place]
        assert (segment.sound in speechless) is (media_s >= 1 and not speaks)
        assert (segment.sound in lacking) is (media_s >= 1 and speaks is None)
    spans = sources.spans_of(recording, lacking)
    assert len(spans) == len(lacking)
    assert 0 <= sources.duration_s(recording, spans) <= recording.duration_s
    assert len(sources.join_sources(recording, provided)) == sum(bool(speaks) for _, speaks in stretches)
