"""Meetings are found by the beginnings of the words of their titles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.meetings.title_search import MAX_SEARCH, MAX_SEARCH_WORDS, has_words, search_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Rapat Q3", ("rapat", "q3")),
        ("  budi@example.com/notulen_7 ", ("budi", "example", "com", "notulen", "7")),
        ("Straße ÉTUDE", ("straße", "étude")),
        ("%_'\\&|!:*()<->", ()),
        ("", ()),
        ("a " * 50, ("a",) * MAX_SEARCH_WORDS),
        ("x" * 500, ("x" * MAX_SEARCH,)),
    ],
)
def test_words_are_letters_and_digits_in_lower_case(text: str, words: tuple[str, ...]) -> None:
    assert search_words(text) == words


@pytest.mark.parametrize(
    ("search", "is_found"),
    [
        ("rapat", True),
        ("RAP bes", True),
        ("besar rapat", True),
        ("", True),
        ("apat", False),
        ("rapat kecil", False),
    ],
)
def test_each_word_begins_a_word_of_the_title(search: str, is_found: bool) -> None:
    assert has_words("Rapat-Besar 2026", search_words(search)) is is_found


@given(st.text(max_size=60))
def test_a_title_is_found_by_itself(title: str) -> None:
    assert has_words(title, search_words(title))
