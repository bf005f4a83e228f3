"""Recordings: at most one for each meeting, the same whichever order its files came in."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.errors import Conflict
from meetcore.domain.meetings.meetings import Meeting, MeetingOptions, MeetingStatus
from meetcore.domain.money.pricing import started_minutes
from meetcore.domain.notes.recordings import (
    RETENTION,
    TRANSITIONS,
    FileKind,
    Recording,
    RecordingEvent,
    RecordingFile,
    RecordingReady,
    RecordingStatus,
    Segment,
    became_ready,
    can_be_recorded,
    check_begun,
    expire,
    gather_files,
    is_measured,
    measure,
    needs_work,
    open_recording,
    readdress,
    removed,
    segments,
    session_ids,
    shown_status,
)
from meetcore.testing.strategies.meetings import recording_files, recordings

START = datetime(2026, 12, 1, 2, tzinfo=UTC)
LATER = START + timedelta(hours=2)
ID = UUID(int=9)
MEETING = Meeting(
    id=UUID(int=1), account_id=UUID(int=2), api_key_id=UUID(int=3), status=MeetingStatus.ENDED,
    title="Rapat", description=None, start_at=START, end_at=LATER, duration=120, capacity=100,
    pricing_tier_id="standard-100", credits=15,
    options=MeetingOptions(with_recording=True), host_id=None, provider="zoom", created_at=START,
    provider_meeting_id="85746065432",
)  # fmt: skip


def a_file(id: str = "a1", **fields: Any) -> RecordingFile:
    ends_at = START + timedelta(minutes=30)
    return evolve(RecordingFile(id, FileKind.VIDEO, 100, START, ends_at, f"https://f/{id}"), **fields)


def opened(*files: RecordingFile) -> Recording:
    recording = open_recording(ID, MEETING, files, LATER)
    assert recording is not None
    return recording


def test_the_first_files_make_a_recording() -> None:
    later = a_file("b1", starts_at=START + timedelta(hours=1))
    recording = opened(later, a_file(), a_file("a2", kind=FileKind.AUDIO))
    assert recording == Recording(
        ID, MEETING.account_id, MEETING.id, "zoom", "85746065432", RecordingStatus.MEASURING,
        (a_file(), a_file("a2", kind=FileKind.AUDIO), later), START, LATER, START + RETENTION,
    )  # fmt: skip


def test_without_a_file_there_is_no_recording() -> None:
    assert open_recording(ID, MEETING, (), LATER) is None


def test_an_earlier_segment_that_comes_later_moves_the_beginning() -> None:
    early = a_file("z", starts_at=START - timedelta(minutes=5))
    recording = gather_files(opened(a_file()), [early])
    assert recording.recorded_at == START - timedelta(minutes=5)
    assert recording.files == (early, a_file())


def test_of_two_files_of_one_id_the_longer_is_kept() -> None:
    grown = a_file(size_bytes=200, url="https://f/0")
    assert opened(a_file(), grown).files == (grown,)
    assert gather_files(opened(grown), [a_file()]).files == (grown,)


@pytest.mark.parametrize("greater", [
    a_file(ends_at=LATER),
    a_file(starts_at=START + timedelta(minutes=1)),
    a_file(kind=FileKind.VIDEO, url="https://f/zz"),
    a_file(),
])  # fmt: skip
def test_files_of_equal_length_are_ordered_independently_of_arrival(greater: RecordingFile) -> None:
    least = a_file(kind=FileKind.AUDIO) if greater == a_file() else a_file()
    assert opened(least, greater).files == opened(greater, least).files == (greater,)


@pytest.mark.parametrize(
    ("known_s", "other_s", "kept_s"), [(None, 9.5, 9.5), (9.5, None, 9.5), (9.5, 8.0, 8.0)]
)
def test_of_two_files_of_one_id_and_size_the_length_that_was_measured_last_is_kept(
    known_s: float | None, other_s: float | None, kept_s: float
) -> None:
    files = gather_files(opened(a_file(media_s=known_s)), [a_file(media_s=other_s)]).files
    assert files == (a_file(media_s=kept_s),)


def test_the_session_of_a_file_is_kept_where_an_event_lacks_it() -> None:
    known, lacking = a_file(session_id="cc=="), a_file(size_bytes=200)
    grown = a_file(size_bytes=200, session_id="cc==")
    assert opened(known, lacking).files == opened(lacking, known).files == (grown,)
    several = opened(known, a_file("b1"), a_file("b2", session_id="/a//b=="), a_file("b3", session_id="cc=="))
    assert set(session_ids(several)) == {"cc==", "/a//b=="}
    assert len(session_ids(several)) == 2


def true_lengths(recording: Recording) -> dict[tuple[str, int], float]:
    """What measuring each file would tell: it depends on the file and how much of it is there."""
    return {
        (file.provider_file_id, file.size_bytes): 10.0 * file.size_bytes + ord(file.provider_file_id[0])
        for file in recording.files
    }


@given(
    st.lists(st.lists(recording_files(), max_size=4), min_size=1, max_size=5),
    st.lists(st.booleans(), min_size=10, max_size=10),
    st.randoms(use_true_random=False),
)
def test_duplicates_disorder_and_measuring_in_between_change_nothing(
    batches: list[list[RecordingFile]], measured: list[bool], random: Any
) -> None:
    first = a_file("first")
    straight = opened(first)
    for batch in batches:
        straight = gather_files(straight, batch)
    crossed = [*batches, *batches]
    random.shuffle(crossed)
    other = opened(first)
    for batch, is_measured_now in zip(crossed, measured, strict=False):
        fetched = true_lengths(other)
        random.shuffle(batch)
        other = gather_files(other, batch)
        if is_measured_now:
            other = measure(other, fetched)  # of what was there before this batch came
        lengths = true_lengths(other)
        for file in other.files:
            assert file.media_s in (None, lengths[file.provider_file_id, file.size_bytes])
    lengths = true_lengths(straight)
    assert measure(other, lengths) == measure(straight, lengths)
    assert gather_files(straight, straight.files) == straight
    ids = [file.provider_file_id for file in straight.files]
    assert len(ids) == len(set(ids))
    offered = [file for file in straight.files if file.kind is not FileKind.OTHER]
    assert straight.recorded_at == min(file.starts_at for file in offered)


def test_late_files_of_an_expired_recording_are_to_be_removed_too() -> None:
    gone = removed(expire(opened(a_file())), {"a1"})
    assert not needs_work(gone)
    more = gather_files(gone, [a_file("b1")])
    assert more.status is RecordingStatus.EXPIRED
    assert needs_work(more)
    assert needs_work(removed(more, {"a1"})), "it came while the other was removed"
    assert not needs_work(removed(more, {"a1", "b1"}))
    assert needs_work(gather_files(gone, [a_file()])), "who tells of it again has it again"


def test_addresses_are_those_of_the_providers_latest_answer() -> None:
    recording = opened(a_file(), a_file("b1", kind=FileKind.AUDIO))
    latest = [
        a_file(url="https://a/fresh"),
        a_file("b1", size_bytes=999, url="https://a/grown"),
        a_file("c1"),
    ]
    fresh = readdress(recording, latest)
    assert [file.url for file in fresh.files] == ["https://a/fresh", "https://f/b1"]
    assert readdress(recording, [a_file(url="")]) == recording


@pytest.mark.parametrize("status", list(MeetingStatus))
def test_a_meeting_that_took_place_with_recording_can_be_recorded(status: MeetingStatus) -> None:
    takes_place = status in {MeetingStatus.SCHEDULED, MeetingStatus.STARTED, MeetingStatus.ENDED}
    assert can_be_recorded(evolve(MEETING, status=status)) is takes_place
    assert not can_be_recorded(evolve(MEETING, status=status, options=MeetingOptions()))


@pytest.mark.parametrize("status", list(MeetingStatus))
def test_a_recording_is_deleted_once_its_meeting_has_begun(status: MeetingStatus) -> None:
    meeting = evolve(MEETING, status=status)
    before = meeting.start_at - timedelta(microseconds=1)
    check_begun(meeting, meeting.start_at)
    if status not in {MeetingStatus.SCHEDULED, MeetingStatus.CANCELLING}:
        check_begun(meeting, before)
        return
    message = r"^The meeting is still to come: its recording would be removed, too\.$"
    with pytest.raises(Conflict, match=message) as refused:
        check_begun(meeting, before)
    assert refused.value.details == {"id": str(meeting.id)}


def test_the_address_of_a_file_is_not_in_the_repr() -> None:
    assert "https" not in repr(opened(a_file()))


def standing(status: RecordingStatus) -> Recording:
    """A recording of one measured file in a state."""
    return evolve(opened(a_file(media_s=90.0)), status=status)


def happen(recording: Recording, event: RecordingEvent) -> Recording:
    """What the domain makes of an event."""
    if event is RecordingEvent.EXPIRE:
        return expire(recording)
    return measure(recording, {("a1", 100): 61.0})


@pytest.mark.parametrize("status", list(RecordingStatus))
@pytest.mark.parametrize("event", list(RecordingEvent))
def test_every_event_in_every_state_follows_the_table(status: RecordingStatus, event: RecordingEvent) -> None:
    before = standing(status)
    after = happen(before, event)
    expected = TRANSITIONS.get((status, event))
    assert after.status is (expected or status)
    if expected is None:
        assert after is before


def test_the_machine_has_only_the_documented_transitions() -> None:
    assert len(TRANSITIONS) == 4
    assert {state for state, _ in TRANSITIONS} == {RecordingStatus.MEASURING, RecordingStatus.AVAILABLE}


def test_a_recording_is_shown_when_all_of_its_media_is_measured() -> None:
    second = a_file("b1", starts_at=LATER, ends_at=LATER + timedelta(minutes=1))
    recording = opened(a_file(), second)
    half = measure(recording, {("a1", 100): 90.0})
    assert half.status is RecordingStatus.MEASURING
    assert not is_measured(half)
    assert needs_work(half)
    whole = measure(half, {("b1", 100): 30.5})
    assert whole.status is RecordingStatus.AVAILABLE
    assert is_measured(whole)
    assert not needs_work(whole)
    assert whole.duration_s == 121
    assert [one.media_s for one in segments(whole)] == [90.0, 30.5]


def test_a_recording_is_reported_ready_once_and_within_its_retention() -> None:
    recording = opened(a_file())
    shown = measure(recording, {("a1", 100): 90.0})
    before = shown.expires_at - timedelta(microseconds=1)
    assert became_ready(recording, shown, before) == (RecordingReady(shown),)
    assert became_ready(recording, shown, shown.expires_at) == ()
    assert became_ready(shown, shown, before) == ()
    assert became_ready(recording, recording, before) == ()


def test_later_files_are_measured_while_the_recording_stays_shown() -> None:
    shown = measure(opened(a_file()), {("a1", 100): 90.0})
    more = gather_files(shown, [a_file("b1", starts_at=LATER, ends_at=LATER + timedelta(minutes=1))])
    assert more.status is RecordingStatus.AVAILABLE
    assert needs_work(more)
    assert more.duration_s == 90


def test_a_file_that_grew_is_measured_again() -> None:
    shown = measure(opened(a_file()), {("a1", 100): 90.0})
    grown = gather_files(shown, [a_file(size_bytes=200)])
    assert grown.files == (a_file(size_bytes=200),)
    assert needs_work(grown)
    assert measure(grown, {("a1", 100): 90.0}) == grown, "the length of what was there before is not its own"
    assert measure(grown, {("a1", 200): 95.0}).duration_s == 95


def test_a_new_address_causes_no_new_measurement() -> None:
    shown = measure(opened(a_file()), {("a1", 100): 90.0})
    fresh = gather_files(shown, [a_file(url="https://f/zz")])
    assert fresh.files == (a_file(url="https://f/zz", media_s=90.0),)
    stale = gather_files(fresh, [a_file(url="https://f/0")])
    assert stale == fresh


def test_a_transcript_alone_is_nothing_to_measure_and_nothing_to_show() -> None:
    alone = opened(a_file("t", kind=FileKind.TRANSCRIPT))
    assert segments(alone) == ()
    assert not is_measured(alone)
    assert not needs_work(alone)
    assert measure(alone, {("t", 100): 9.0}).status is RecordingStatus.MEASURING
    assert (alone.duration_s, alone.size_bytes) == (0, 0)


def test_a_segment_is_transcribed_from_its_longest_audio_and_downloaded_as_its_largest_video() -> None:
    longer = {"ends_at": START + timedelta(minutes=31)}
    small, large = a_file("v1", size_bytes=50, **longer), a_file("v2", size_bytes=70)
    sound = a_file("s1", size_bytes=200, kind=FileKind.AUDIO, **longer)
    louder = a_file("s2", size_bytes=300, kind=FileKind.AUDIO)
    transcript, larger_transcript = (
        a_file("t1", kind=FileKind.TRANSCRIPT),
        a_file("t2", kind=FileKind.TRANSCRIPT),
    )
    assert segments(opened(small, large)) == (Segment(small, large, None),)
    assert segments(opened(sound, louder, transcript)) == (Segment(sound, louder, transcript),)
    whole = opened(small, large, sound, louder, larger_transcript, transcript)
    assert segments(whole) == (Segment(sound, large, larger_transcript),)
    assert whole.size_bytes == 70


def test_files_that_overlap_are_one_segment_and_a_pause_begins_the_next() -> None:
    minute = timedelta(minutes=1)
    first = a_file("a", starts_at=START, ends_at=START + 10 * minute)
    longer = a_file("b", starts_at=START + minute, ends_at=START + 12 * minute, kind=FileKind.AUDIO)
    within = a_file("c", starts_at=START + 11 * minute, ends_at=START + 11 * minute, kind=FileKind.TRANSCRIPT)
    after = a_file("d", starts_at=START + 12 * minute, ends_at=START + 13 * minute)
    found = segments(opened(after, within, longer, first))
    assert found == (Segment(longer, first, within), Segment(after, after, None))


def stretch(id: str, from_s: int, length_s: int, kind: FileKind = FileKind.AUDIO) -> RecordingFile:
    begin = START + timedelta(seconds=from_s)
    return a_file(id, starts_at=begin, ends_at=begin + timedelta(seconds=length_s), kind=kind)


@pytest.mark.parametrize(("second", "sounds"), [
    (stretch("b", 599, 30), ["a", "b"]),  # whole seconds: one ends after the next began
    (stretch("b", 585, 30), ["a", "b"]),
    (stretch("b", 584, 30), ["a"]),
    (stretch("b", 0, 599), ["a"]),
    (stretch("b", 0, 601), ["b"]),
    (stretch("b", 0, 600), ["b"]),
    (stretch("b", 600, 0), ["a", "b"]),
    (stretch("b", 599, 0), ["a"]),
])  # fmt: skip
def test_files_that_share_more_than_half_of_the_shorter_are_one_stretch(
    second: RecordingFile, sounds: list[str]
) -> None:
    found = segments(opened(stretch("a", 0, 600), second))
    assert [one.sound.provider_file_id for one in found] == sounds


def test_files_without_a_length_are_one_stretch_at_the_same_instant_only() -> None:
    sound, picture = stretch("a", 5, 0), stretch("v", 5, 0, FileKind.VIDEO)
    assert segments(opened(sound, picture)) == (Segment(sound, picture, None),)
    assert len(segments(opened(sound, stretch("v", 6, 0, FileKind.VIDEO)))) == 2


def test_a_video_is_measured_where_the_audio_has_no_length() -> None:
    sound, picture = stretch("a", 5, 0), stretch("v", 0, 60, FileKind.VIDEO)
    assert segments(opened(sound, picture)) == (Segment(picture, picture, None),)


def test_a_video_joins_a_stretch_of_sound_before_one_of_video_that_it_overlaps_more() -> None:
    sound, earlier = stretch("a", 10, 10), stretch("v1", 0, 12, FileKind.VIDEO)
    picture = stretch("v2", 2, 14, FileKind.VIDEO)
    found = segments(opened(sound, earlier, picture))
    assert found == (Segment(earlier, earlier, None), Segment(sound, picture, None))


def test_two_stretches_of_sound_within_one_video_are_both_measured() -> None:
    first, second = stretch("a", 0, 40), stretch("b", 60, 40)
    picture, text = stretch("v", 0, 100, FileKind.VIDEO), stretch("t", 60, 40, FileKind.TRANSCRIPT)
    found = segments(opened(picture, text, first, second))
    assert found == (Segment(first, picture, None), Segment(second, second, text))


def test_a_file_that_turned_out_to_be_empty_gives_way_to_another_of_its_stretch() -> None:
    recording = opened(stretch("a", 0, 60), stretch("v", 0, 60, FileKind.VIDEO))
    empty = measure(recording, {("a", 100): 0.0})
    assert (empty.status, needs_work(empty)) == (RecordingStatus.MEASURING, True)
    whole = measure(empty, {("v", 100): 59.5})
    assert (whole.status, whole.duration_s) == (RecordingStatus.AVAILABLE, 60)
    silent = measure(empty, {("v", 100): 0.0})
    assert (silent.status, silent.duration_s) == (RecordingStatus.AVAILABLE, 0)


def test_what_is_not_offered_is_kept_for_its_removal_only() -> None:
    other = a_file("o", kind=FileKind.OTHER, starts_at=START - timedelta(hours=1), ends_at=LATER)
    recording = gather_files(opened(a_file()), [other])
    assert segments(recording) == segments(opened(a_file()))
    assert (recording.size_bytes, recording.recorded_at) == (100, START)
    assert needs_work(removed(expire(recording), {"a1"}))
    assert opened(other).recorded_at == other.starts_at
    assert not needs_work(opened(other))


@given(recordings(), st.randoms(use_true_random=False))
def test_the_stretches_depend_on_kinds_and_times_only(recording: Recording, random: Any) -> None:
    found = segments(recording)
    files = [
        evolve(file, size_bytes=random.randint(0, 9))
        for file in recording.files
        if file.kind is not FileKind.OTHER
    ]
    random.shuffle(files)
    others = segments(evolve(recording, files=tuple(files)))
    assert [one.sound.provider_file_id for one in others] == [one.sound.provider_file_id for one in found]


def shared(one: RecordingFile, other: RecordingFile) -> bool:
    """Whether two files with a length, of one session, share more than half of the shorter."""
    if one.session_id != other.session_id:
        return False
    common = min(one.ends_at, other.ends_at) - max(one.starts_at, other.starts_at)
    return 2 * common > min(one.ends_at - one.starts_at, other.ends_at - other.starts_at)


@given(recordings())
def test_all_that_was_heard_is_measured_once(recording: Recording) -> None:
    unmeasured = evolve(recording, files=tuple(evolve(file, media_s=None) for file in recording.files))
    measured = [one.sound for one in segments(unmeasured)]
    audio = [file for file in unmeasured.files if file.kind is FileKind.AUDIO]
    media = [file for file in unmeasured.files if file.kind in (FileKind.AUDIO, FileKind.VIDEO)]
    for file in media:
        if file.ends_at > file.starts_at:
            assert file in measured or any(
                shared(file, other)
                for other in media
                if other is not file and other.ends_at > other.starts_at
            )
    for file in measured:
        assert file.kind is FileKind.AUDIO or not any(
            shared(file, other) for other in audio if other.ends_at > other.starts_at
        )
        assert file.kind in (FileKind.AUDIO, FileKind.VIDEO)


@given(recordings())
def test_segments_hold_each_file_of_media_at_most_once_and_in_order(recording: Recording) -> None:
    found = segments(recording)
    file_ids = [one.sound.provider_file_id for one in found]
    assert len(file_ids) == len(set(file_ids))
    assert all(one.sound.kind in (FileKind.AUDIO, FileKind.VIDEO) for one in found)
    assert all(one.download.kind in (FileKind.AUDIO, FileKind.VIDEO) for one in found)
    assert all(one.transcript is None or one.transcript.kind is FileKind.TRANSCRIPT for one in found)
    for one, following in pairwise(found):
        assert one.sound.starts_at <= following.sound.starts_at
    assert bool(found) is any(file.kind in (FileKind.AUDIO, FileKind.VIDEO) for file in recording.files)


@given(recordings())
def test_a_length_is_rounded_up_to_whole_seconds(recording: Recording) -> None:
    media_s = sum(one.media_s or 0.0 for one in segments(recording))
    assert media_s - 0.0011 <= recording.duration_s < media_s + 1
    assert started_minutes(recording.duration_s) == ceil(Fraction(recording.duration_s, 60))


@pytest.mark.parametrize(("media_s", "duration_s"), [
    (0.0, 0), (0.0005, 0), (0.002, 1), (1.0, 1), (60.0, 60), (60.0009, 60), (60.002, 61), (60.5, 61),
])  # fmt: skip
def test_the_padding_of_a_container_does_not_begin_a_second(media_s: float, duration_s: int) -> None:
    assert measure(opened(a_file()), {("a1", 100): media_s}).duration_s == duration_s


def test_only_an_expired_recording_loses_its_files() -> None:
    recording = opened(a_file())
    with pytest.raises(ValueError, match=r"^only the files of an expired recording are removed$"):
        removed(recording, {"a1"})
    gone = expire(recording)
    assert gone.files == recording.files
    assert needs_work(gone)
    left = removed(gone, {"a1"})
    assert [file.url for file in left.files] == [""]
    assert not needs_work(left)
    assert (left.duration_s, left.size_bytes) == (recording.duration_s, recording.size_bytes)
    assert expire(gone) is gone


@given(recordings())
def test_a_recording_past_its_retention_shows_expired_before_it_is_marked(recording: Recording) -> None:
    before = recording.expires_at - timedelta(microseconds=1)
    assert shown_status(recording, before) is recording.status
    assert shown_status(recording, recording.expires_at) is RecordingStatus.EXPIRED


def test_a_recording_is_kept_for_its_retention_from_its_beginning() -> None:
    recording = open_recording(ID, MEETING, [a_file()], LATER, timedelta(days=7))
    assert recording is not None
    assert recording.expires_at == START + timedelta(days=7)
    without_id = evolve(MEETING, provider_meeting_id=None)
    bare = open_recording(ID, without_id, [a_file()], LATER)
    assert bare is not None
    assert bare.provider_meeting_id == ""


def test_a_file_without_a_length_joins_no_two_others() -> None:
    def video(name: str, first: int, last: int) -> RecordingFile:
        hour = timedelta(hours=1)
        return evolve(a_file(name), starts_at=START + first * hour, ends_at=START + last * hour)

    recording = opened(video("b1", 2, 6), video("b2", 5, 7), video("b3", 5, 5))
    assert [one.sound.provider_file_id for one in segments(recording)] == ["b1", "b2"]


def test_sessions_are_stretches_of_their_own_whatever_their_times() -> None:
    first, second = a_file("b1", session_id="/a//b=="), a_file("b2", session_id="cc==")
    transcript = a_file("b3", kind=FileKind.TRANSCRIPT, session_id="cc==")
    one, other = segments(opened(first, second, transcript))
    assert (one.sound, one.transcript) == (first, None)
    assert (other.sound, other.transcript) == (second, transcript)
