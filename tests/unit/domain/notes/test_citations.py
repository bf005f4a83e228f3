"""Quotes in notes are verbatim in the transcript, at the given second."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.notes.citations import Quote, find_citation, is_in_vocabulary, vocabulary
from meetcore.domain.notes.transcripts import Transcript, Utterance

TRANSCRIPT = (
    Utterance(0, 2, "Selamat pagi, semuanya.", "Budi Santoso"),
    Utterance(3, 6, "Kita sepakat: anggaran 250 juta! Lalu kita lanjut.", "Siti Rahma"),
    Utterance(7, 9, "Ya, kita sepakat.", "Budi Santoso"),
    Utterance(10, 11, " "),
)


@pytest.mark.parametrize(("text", "near", "quote"), [
    ("kita sepakat anggaran 250 juta", 1, Quote("Kita sepakat: anggaran 250 juta!", 3)),
    ("KITA  SEPAKAT", 2, Quote("kita sepakat.", 7)),
    ("lalu kita lanjut", 0, Quote("Lalu kita lanjut.", 3)),
    ("selamat pagi semuanya", -3, Quote("Selamat pagi, semuanya.", 0)),
    ("ya", 2, Quote("Ya", 7)),
    ("lalu kita", 0, Quote("Lalu kita", 3)),
    ("kita sepakat", 99, None),
    ("kita sepakat", 4, Quote("kita sepakat.", 7)),
    ("ya", 1, Quote("Kita sepakat: anggaran 250 juta! Lalu kita lanjut.", 3)),
    ("tidak pernah dikatakan", 2, Quote("Ya, kita sepakat.", 7)),
    ("", 0, Quote("Selamat pagi, semuanya.", 0)),
    ("tidak pernah dikatakan", 3, None),
    ("tidak pernah dikatakan", -1, None),
])  # fmt: skip
def test_a_quote_is_found_in_the_transcript_or_becomes_the_whole_utterance(
    text: str, near: int, quote: Quote | None
):
    assert find_citation(TRANSCRIPT, text, near) == quote


def test_of_two_matching_utterances_the_nearest_is_quoted():
    transcript = tuple(
        Utterance(at, at, "itu sudah diputuskan" if at in (2, 9) else "lain") for at in range(12)
    )
    assert find_citation(transcript, "itu sudah diputuskan", 7) == Quote("itu sudah diputuskan", 9)


def test_distant_utterances_are_not_searched():
    transcript = (
        Utterance(0, 1, "itu sudah diputuskan"),
        *(Utterance(at, at, "lain") for at in range(1, 100)),
    )
    assert find_citation(transcript, "itu sudah diputuskan", 50) == Quote("itu sudah diputuskan", 0)
    assert find_citation(transcript, "itu sudah diputuskan", 51) == Quote("lain", 51)
    backwards = transcript[::-1]
    assert find_citation(backwards, "itu sudah diputuskan", 49) == Quote("itu sudah diputuskan", 0)
    assert find_citation(backwards, "itu sudah diputuskan", 48) == Quote("lain", 51)


@given(
    st.lists(st.text("ab c.,!\n", max_size=20), max_size=6),
    st.text("ab c.,!", max_size=10),
    st.integers(-3, 9),
)
def test_every_result_is_verbatim_in_the_transcript(texts: list[str], text: str, near: int):
    transcript: Transcript = tuple(Utterance(at, at + 1, text) for at, text in enumerate(texts))
    found = find_citation(transcript, text, near)
    if found is not None:
        assert found.text
        assert found.text in transcript[int(found.at_s)].text


@pytest.mark.parametrize(("text", "expected"), [
    ("Siti Rahma", True), ("siti", True), ("Siti Aminah", False), ("250 juta", True), ("", False),
    ("...", False),
])  # fmt: skip
def test_is_said_accepts_spoken_words_and_speaker_names(text: str, expected: bool):
    assert is_in_vocabulary(text, vocabulary(TRANSCRIPT)) is expected


def test_a_vocabulary_is_each_spoken_word_and_each_word_of_a_name():
    words = vocabulary((Utterance(0, 1, "Ya, SETUJU."), Utterance(1, 2, "ya", "Siti R.")))
    assert words == {"ya", "setuju", "siti", "r"}
    assert is_in_vocabulary("ya setuju siti r", words), "all of them at once"
