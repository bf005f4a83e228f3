"""Recordings: at most one for each meeting, the same whichever order its files came in."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.meetings import Meeting, MeetingStatus
from meetcore.domain.recordings import (
    RETENTION,
    FileKind,
    Recording,
    RecordingFile,
    RecordingStatus,
    can_be_recorded,
    gather_files,
    open_recording,
)

START = datetime(2026, 12, 1, 2, tzinfo=UTC)
LATER = START + timedelta(hours=2)
ID = UUID(int=9)
MEETING = Meeting(
    id=UUID(int=1), account_id=UUID(int=2), api_key_id=UUID(int=3), status=MeetingStatus.ENDED,
    title="Rapat", description=None, start_at=START, end_at=LATER, duration=120, capacity=100,
    pricing_tier_id="standard-100", credits=15, with_recording=True, auto_notulen=False, must_login=False,
    mic_off=False, email_notification=False, host_id=None, provider="zoom", created_at=START,
    provider_meeting_id="85746065432",
)  # fmt: skip


def a_file(id: str = "a1", **fields: Any) -> RecordingFile:
    ends_at = START + timedelta(minutes=30)
    return evolve(RecordingFile(id, FileKind.VIDEO, 100, START, ends_at, f"https://f/{id}"), **fields)


def files() -> st.SearchStrategy[RecordingFile]:
    """Files of few ids, so that doubles are frequent, each perhaps told with other facts."""
    moments = st.integers(0, 3).map(lambda hours: START + timedelta(hours=hours))
    return st.builds(
        RecordingFile, st.sampled_from("abcd"), st.sampled_from(FileKind), st.integers(0, 3), moments,
        moments, st.sampled_from(["https://f/1", "https://f/2"]),
    )  # fmt: skip


def opened(*told: RecordingFile) -> Recording:
    recording = open_recording(ID, MEETING, told, LATER)
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


def test_a_transcript_is_one_more_file() -> None:
    transcript = a_file("a3", kind=FileKind.TRANSCRIPT)
    recording = gather_files(opened(a_file()), [transcript])
    assert recording.files == (a_file(), transcript)
    assert (recording.id, recording.created_at) == (ID, LATER)


def test_an_earlier_segment_that_comes_later_moves_the_beginning() -> None:
    early = a_file("z", starts_at=START - timedelta(minutes=5))
    recording = gather_files(opened(a_file()), [early])
    assert recording.recorded_at == START - timedelta(minutes=5)
    assert recording.files == (early, a_file())


def test_of_two_files_of_one_id_the_longer_is_kept() -> None:
    grown = a_file(size_bytes=200, url="https://f/0")
    assert opened(a_file(), grown).files == (grown,)
    assert gather_files(opened(grown), [a_file()]).files == (grown,)


@pytest.mark.parametrize(
    "greater",
    [
        a_file(ends_at=LATER),
        a_file(starts_at=START + timedelta(minutes=1)),
        a_file(kind=FileKind.VIDEO, url="https://f/zz"),
    ],
)
def test_equally_long_ones_are_told_apart_whoever_came_first(greater: RecordingFile) -> None:
    assert opened(a_file(), greater).files == opened(greater, a_file()).files == (greater,)


@pytest.mark.parametrize(("one", "other"), [(FileKind.VIDEO, FileKind.AUDIO)])
def test_even_the_kind_decides(one: FileKind, other: FileKind) -> None:
    first, second = a_file(kind=one), a_file(kind=other)
    assert opened(first, second).files == opened(second, first).files == (first,)


@given(st.lists(st.lists(files(), max_size=4), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_doubles_and_disorder_change_nothing(told: list[list[RecordingFile]], random: Any) -> None:
    first = a_file("first")
    straight = opened(first)
    for batch in told:
        straight = gather_files(straight, batch)
    crossed = [*told, *told]
    random.shuffle(crossed)
    other = opened(first)
    for batch in crossed:
        random.shuffle(batch)
        other = gather_files(other, batch)
    assert other == straight
    assert gather_files(straight, straight.files) == straight
    ids = [file.provider_file_id for file in straight.files]
    assert len(ids) == len(set(ids))
    assert straight.recorded_at == min(file.starts_at for file in straight.files)


def test_a_recording_that_expired_takes_no_more() -> None:
    expired = evolve(opened(a_file()), status=RecordingStatus.EXPIRED)
    assert gather_files(expired, [a_file("b1")]) is expired


@pytest.mark.parametrize("status", list(MeetingStatus))
def test_what_took_place_and_was_sold_with_recording_can_be_recorded(status: MeetingStatus) -> None:
    takes_place = status in {MeetingStatus.SCHEDULED, MeetingStatus.STARTED, MeetingStatus.ENDED}
    assert can_be_recorded(evolve(MEETING, status=status)) is takes_place
    assert not can_be_recorded(evolve(MEETING, status=status, with_recording=False))


def test_the_address_of_a_file_does_not_show() -> None:
    assert "https" not in repr(opened(a_file()))
