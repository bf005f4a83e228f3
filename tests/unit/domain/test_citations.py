"""What a note quotes stands in the transcript, letter for letter, at the second that is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.citations import Quote, find_citation, is_said, vocabulary
from meetcore.domain.transcripts import Transcript, Utterance

SAID = (
    Utterance(0, 2, "Selamat pagi, semuanya.", "Budi Santoso"),
    Utterance(3, 6, "Kita sepakat: anggaran 250 juta! Lalu kita lanjut.", "Siti Rahma"),
    Utterance(7, 9, "Ya, kita sepakat.", "Budi Santoso"),
    Utterance(10, 11, " "),
)


@pytest.mark.parametrize(("words", "near", "quote"), [
    ("kita sepakat anggaran 250 juta", 1, Quote("Kita sepakat: anggaran 250 juta!", 3)),
    ("KITA  SEPAKAT", 2, Quote("kita sepakat.", 7)),
    ("lalu kita lanjut", 0, Quote("Lalu kita lanjut.", 3)),
    ("selamat pagi semuanya", -3, Quote("Selamat pagi, semuanya.", 0)),
    ("kita sepakat", 99, None),
    ("kita sepakat", 4, Quote("kita sepakat.", 7)),
    ("ya", 1, Quote("Kita sepakat: anggaran 250 juta! Lalu kita lanjut.", 3)),
    ("tidak pernah dikatakan", 2, Quote("Ya, kita sepakat.", 7)),
    ("", 0, Quote("Selamat pagi, semuanya.", 0)),
    ("tidak pernah dikatakan", 3, None),
    ("tidak pernah dikatakan", -1, None),
])  # fmt: skip
def test_a_quote_is_found_where_it_stands_or_is_the_utterance_itself(
    words: str, near: int, quote: Quote | None
):
    assert find_citation(SAID, words, near) == quote


def test_of_two_that_say_it_the_nearest_is_quoted():
    said = tuple(Utterance(at, at, "itu sudah diputuskan" if at in (2, 9) else "lain") for at in range(12))
    assert find_citation(said, "itu sudah diputuskan", 7) == Quote("itu sudah diputuskan", 9)


def test_what_is_said_far_away_is_not_looked_for():
    said = (Utterance(0, 1, "itu sudah diputuskan"), *(Utterance(at, at, "lain") for at in range(1, 100)))
    assert find_citation(said, "itu sudah diputuskan", 50) == Quote("itu sudah diputuskan", 0)
    assert find_citation(said, "itu sudah diputuskan", 51) == Quote("lain", 51)


@given(
    st.lists(st.text("ab c.,!\n", max_size=20), max_size=6),
    st.text("ab c.,!", max_size=10),
    st.integers(-3, 9),
)
def test_whatever_comes_out_stands_there_word_for_word(texts: list[str], words: str, near: int):
    said: Transcript = tuple(Utterance(at, at + 1, text) for at, text in enumerate(texts))
    found = find_citation(said, words, near)
    if found is not None:
        assert found.text
        assert found.text in said[int(found.at_s)].text


@pytest.mark.parametrize(("words", "expected"), [
    ("Siti Rahma", True), ("siti", True), ("Siti Aminah", False), ("250 juta", True), ("", False),
    ("...", False),
])  # fmt: skip
def test_whether_words_were_said_or_name_a_speaker(words: str, expected: bool):
    assert is_said(words, vocabulary(SAID)) is expected
