"""Limits of texts, and words of titles."""

from __future__ import annotations

from unicodedata import category

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.texts import MAX_SEARCH, MAX_SEARCH_WORDS, TextLimits, count_of, is_blank, search_words

TITLE, LINES = TextLimits(200, min_length=1), TextLimits(200, has_lines=True)
UNSEEN = "must have a character that can be seen"
CONTROLS = "must not contain control characters or lone surrogates"
ANY_TEXT = st.text(st.characters(categories=("L", "C", "Z")), max_size=9)


@pytest.mark.parametrize(("limits", "text", "problems"), [
    (TITLE, "", ["must be 1 to 200 characters long"]), (TITLE, "\U0001f600" * 200, []),
    (TITLE, "x" * 201, ["must be 1 to 200 characters long"]),
    (TITLE, "\0" * 201, ["must be 1 to 200 characters long", CONTROLS]), (TITLE, "a\tb", [CONTROLS]),
    (TITLE, " ", [UNSEEN]), (TITLE, "\u00a0\u3000", [UNSEEN]), (TITLE, "\u200b", [UNSEEN]),
    (TITLE, "\u202e", [UNSEEN]), (TITLE, "\u3164\u2800", [UNSEEN]), (TITLE, "\u0301", [UNSEEN]),
    (TITLE, "\t", [UNSEEN, CONTROLS]), (TITLE, "\u202ea\u200b", []), (LINES, " ", []), (LINES, "", []),
    (LINES, "a\tb\r\nc", []), (LINES, "a\x0bb", [CONTROLS]),
    (LINES, "x" * 201, ["must be at most 200 characters long"]),
])  # fmt: skip
def test_every_problem_of_a_text_is_named(limits: TextLimits, text: str, problems: list[str]) -> None:
    assert limits.problems(text) == problems


@given(ANY_TEXT, st.integers(0, 5), st.integers(0, 9), st.booleans())
@example("\ud800", 0, 9, True)
@example("\x7f", 0, 9, True)
def test_a_text_is_accepted_by_its_length_and_its_characters(
    text: str, least: int, most: int, has_lines: bool
) -> None:
    forbidden = [char for char in text if category(char) in ("Cc", "Cs")]
    if has_lines:
        forbidden = [char for char in forbidden if char not in "\t\n\r"]
    is_accepted = least <= len(text) <= most and not forbidden and not (least and is_blank(text))
    assert (TextLimits(most, least, has_lines).problems(text) == []) is is_accepted


@pytest.mark.parametrize(("text", "words"), [
    ("Rapat Q3", ("rapat", "q3")),
    ("  budi@example.com/notulen_7 ", ("budi", "example", "com", "notulen", "7")),
    ("Straße ÉTUDE", ("straße", "étude")),
    ("%_'\\&|!:*()<->", ()),
    ("", ()),
    ("a " * 50, ("a",) * MAX_SEARCH_WORDS),
    ("x" * 500, ("x" * MAX_SEARCH,)),
])  # fmt: skip
def test_words_are_letters_and_digits_in_lower_case(text: str, words: tuple[str, ...]) -> None:
    assert search_words(text) == words


def test_a_number_has_its_unit_in_the_singular_or_the_plural() -> None:
    shown = [count_of(number, "credit") for number in (-2, -1, 0, 1, 11)]
    assert shown == ["-2 credits", "-1 credit", "0 credits", "1 credit", "11 credits"]
