"""Hearing a recording piece by piece: all of it, nothing twice, the same pieces whoever cuts."""

from datetime import timedelta
from itertools import pairwise

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.notes.audio_chunks import Piece, cut, merge, offsets, source_of
from meetcore.domain.notes.recordings import Recording, is_measured, segments
from meetcore.domain.notes.transcripts import Transcript, Utterance
from meetcore.testing.strategies.recordings import recordings
from tests.unit.domain.notes.test_recordings import LATER, a_file, opened

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
