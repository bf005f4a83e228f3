"""Transcripts: joined, split into audio chunks, and cited."""

from datetime import timedelta
from itertools import pairwise

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.notes.recordings import Recording, is_measured, segments
from meetcore.domain.notes.transcripts import (
    Piece,
    Transcript,
    Utterance,
    cut,
    join,
    merge,
    moved,
    offsets,
    source_of,
    speech_of,
)
from meetcore.testing.strategies.meetings import recordings, transcripts
from tests.unit.domain.notes.test_recordings import LATER, a_file, opened

HELLO = Utterance(1.0, 2.5, "Halo.", "Dewi")
offsets_s = st.integers(0, 10_000).map(float)


def test_an_utterance_is_moved_with_its_end_and_keeps_its_speaker() -> None:
    assert moved([HELLO], 60.0) == (Utterance(61.0, 62.5, "Halo.", "Dewi"),)


def test_parts_are_joined_in_the_order_of_time() -> None:
    second = Utterance(0.5, 1.0, "Baik.")
    assert join([(60.0, (second,)), (0.0, (HELLO,))]) == (HELLO, Utterance(60.5, 61.0, "Baik."))
    assert join([]) == ()


@given(st.lists(st.tuples(offsets_s, transcripts()), max_size=4))
def test_joining_keeps_every_utterance_and_sorts(parts: list[tuple[float, Transcript]]) -> None:
    whole = join(parts)
    assert sorted(one.text for one in whole) == sorted(one.text for _, part in parts for one in part)
    starts = [one.at_s for one in whole]
    assert starts == sorted(starts)


def test_speech_is_the_text_alone() -> None:
    transcript = (HELLO, Utterance(3.0, 4.0, "  "), Utterance(5.0, 6.0, " Baik. \n"))
    assert speech_of(transcript) == "Halo.\nBaik."
    assert speech_of(()) == speech_of((Utterance(3.0, 4.0, "\n"),)) == ""


def test_utterance_text_is_not_in_the_repr() -> None:
    assert "Halo" not in repr(HELLO)
    assert "Dewi" not in repr(HELLO)


SLACK_S = 1e-6  # a float's, in the length of a day


def paused(first_s: float | None = 600.0, second_s: float | None = 90.0) -> Recording:
    """A recording with a pause."""
    later = a_file("b1", starts_at=LATER, ends_at=LATER + timedelta(minutes=2), media_s=second_s)
    return opened(a_file(media_s=first_s), later)


def test_each_segment_begins_where_the_media_before_it_ends() -> None:
    first, second = segments(paused())
    assert offsets(paused()) == ((first, 0.0), (second, 600.0))
    assert [before_s for _, before_s in offsets(paused(None))] == [0.0, 0.0]


def test_pieces_are_of_one_length_in_each_segment() -> None:
    first, second = paused().files
    assert cut(paused(), 250) == (
        Piece(0, first, 0.0, 200.0, 0.0),
        Piece(1, first, 200.0, 200.0, 200.0),
        Piece(2, first, 400.0, 200.0, 400.0),
        Piece(3, second, 0.0, 90.0, 600.0),
    )


def test_media_without_length_has_no_pieces() -> None:
    assert cut(paused(0.0, None), 60) == ()


@given(recordings(), st.integers(1, 1800))
def test_the_pieces_cover_the_media_without_gap_or_overlap(recording: Recording, max_piece_s: int) -> None:
    pieces = cut(recording, max_piece_s)
    assert [piece.number for piece in pieces] == list(range(len(pieces)))
    assert all(0 < piece.length_s <= max_piece_s + SLACK_S for piece in pieces)
    for segment, before_s in offsets(recording):
        segment_pieces = [piece for piece in pieces if piece.file == segment.sound]
        media_s = segment.media_s or 0.0
        assert sum(piece.length_s for piece in segment_pieces) == pytest.approx(media_s, abs=SLACK_S)
        assert not segment_pieces or segment_pieces[0].from_s == 0.0
        for one, following in pairwise(segment_pieces):
            assert following.from_s == pytest.approx(one.from_s + one.length_s, abs=SLACK_S)
        for piece in segment_pieces:
            assert piece.offset_s == pytest.approx(before_s + piece.from_s, abs=SLACK_S)


@given(recordings(), st.integers(1, 1800))
def test_transcribed_text_keeps_its_time_in_the_recording(recording: Recording, max_piece_s: int) -> None:
    pieces = cut(recording, max_piece_s)
    transcripts: dict[int, Transcript] = {
        piece.number: (Utterance(0.0, piece.length_s, str(piece.number)),) for piece in pieces
    }
    whole = merge(pieces, transcripts)
    assert [one.text for one in whole] == [str(piece.number) for piece in pieces]
    assert [one.at_s for one in whole] == [piece.offset_s for piece in pieces]
    if pieces and is_measured(recording):
        media_s = sum(one.media_s or 0.0 for one in segments(recording))
        assert whole[-1].until_s == pytest.approx(media_s, abs=SLACK_S)


def test_a_piece_without_transcript_is_an_error() -> None:
    with pytest.raises(KeyError):
        merge(cut(paused(), 250), {0: (), 1: (), 3: ()})


def test_a_source_name_depends_only_on_its_files_and_the_cut() -> None:
    name = source_of(cut(paused(), 250))
    assert name == source_of(cut(paused(), 299))  # the same pieces
    fresh = evolve(paused(), files=tuple(evolve(file, url="https://f/new") for file in paused().files))
    assert name == source_of(cut(fresh, 250))
    others = {
        source_of(cut(paused(), 100)),
        source_of(cut(paused(601.0), 250)),
        source_of(cut(opened(a_file(media_s=600.0)), 250)),
        source_of(cut(opened(a_file("x", media_s=600.0)), 250)),
        source_of(cut(opened(a_file(media_s=600.0, size_bytes=101)), 250)),
    }
    assert len(others) == 5
    assert name not in others
    assert len(name) == 32


@pytest.mark.parametrize(("other_s", "is_same"), [(1.0004, True), (1.001, False), (1.4, False)])
def test_a_source_name_tells_beginnings_apart_to_the_millisecond(other_s: float, is_same: bool) -> None:
    piece = cut(paused(), 250)[0]
    name, other = (source_of((evolve(piece, from_s=from_s),)) for from_s in (1.0, other_s))
    assert (name == other) is is_same
