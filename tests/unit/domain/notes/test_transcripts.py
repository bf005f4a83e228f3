"""Transcripts: utterances and their times in a recording."""

from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.notes.transcripts import Transcript, Utterance, join, moved, speech_of
from meetcore.testing.strategies.recordings import transcripts

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
