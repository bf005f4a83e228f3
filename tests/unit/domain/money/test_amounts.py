"""Amounts that people type: what stands in the text, in the language of the page, or a refusal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.adapters.web.formats import format_count
from meetcore.domain.money.amounts import read_amount
from meetcore.domain.money.transfers import MAX_CREDITS, InvalidAmount
from meetcore.domain.notes.notes import Language

EN, ID = Language.ENGLISH, Language.INDONESIAN


@given(st.integers(0, MAX_CREDITS), st.sampled_from([EN, ID]))
def test_what_a_page_shows_is_read_as_it_was(amount: int, language: Language) -> None:
    assert read_amount(format_count(amount, language), language) == amount
    assert read_amount(f" {amount}\t", language) == read_amount(str(amount)) == amount


@pytest.mark.parametrize(("text", "language", "amount"), [
    ("1,500", EN, 1500), ("1.500", ID, 1500), ("12.345.678", ID, 12_345_678), ("007", EN, 7), ("+5", EN, 5),
    ("-1,000", EN, -1000), ("-5", None, -5), ("0", None, 0),
])  # fmt: skip
def test_groups_of_three_are_read(text: str, language: Language | None, amount: int) -> None:
    assert read_amount(text, language) == amount


@pytest.mark.parametrize("language", [EN, ID, None])
@pytest.mark.parametrize("text", [
    "", " ", "1.5", "1,5", "1.50", "1,50", "15.00", "1,5000", "1.5000", "1,00,000", "1.00.000", ".500",
    ",500", "1..500", "1,,500", "1500,", "1500.", "1.500,00", "1,500.00", "1.500,000", "1234,567", "1234.567",
    "1 500", "1_500", "1e3", "0x10", "--5", "+-5", "- 5", "\uff11\uff10", "\u0661", "1\n000", "ten", "NaN",
    str(MAX_CREDITS + 1), str(-MAX_CREDITS - 1), "9" * 400,
])  # fmt: skip
def test_anything_else_is_refused(text: str, language: Language | None) -> None:
    with pytest.raises(InvalidAmount):
        read_amount(text, language)


@pytest.mark.parametrize(
    ("text", "language"), [("1.500", EN), ("1,500", ID), ("1.500", None), ("1,500", None)]
)
def test_the_separator_of_another_language_is_refused(text: str, language: Language | None) -> None:
    """A cap of 1.5 credits in English is no cap of 1500."""
    with pytest.raises(InvalidAmount, match=r"^it must be a whole number$"):
        read_amount(text, language)


def test_bounds_are_kept() -> None:
    assert read_amount("0", least=0) == 0
    assert read_amount("12", EN, most=12) == 12
    with pytest.raises(InvalidAmount, match=r"^it must be a whole number from 0 to 12$"):
        read_amount("-1", least=0, most=12)
    with pytest.raises(InvalidAmount, match=r"^it must be a whole number from -12 to 12$"):
        read_amount("13", most=12)
