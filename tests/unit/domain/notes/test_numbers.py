"""Numbers by their values, whatever they are written in."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.notes.numbers import are_borne_out, borne_out, claimed


@pytest.mark.parametrize(("text", "values"), [
    ("dua ratus lima puluh juta", {250_000_000}),
    ("Rp250.000.000", {250_000_000}),
    ("250 juta", {250_000_000}),
    ("2,5 juta", {2_500_000}),
    ("dua setengah juta", {2_500_000}),
    ("dua koma lima juta", {2_500_000}),
    ("dua koma dua lima", {Fraction("2.25")}),
    ("two point five million", {2_500_000}),
    ("tiga koma sepuluh", {3, 10}),
    ("dua koma lima juta tiga ratus ribu", {2_800_000}),
    ("2.50 juta", {2_500_000}),
    ("dua ratus 50 juta", {250_000_000}),
    ("dua puluh seribu", {20, 1_000}),
    ("sejuta seribu seratus", {1_001_100}),
    ("seratus", {100}),
    ("juta", {1_000_000}),
    ("dua juta lima ratus ribu", {2_500_000}),
    ("2 juta 500 ribu", {2_500_000}),
    ("seratus dua puluh lima ribu", {125_000}),
    ("seribu dua ratus", {1_200}),
    ("dua belas ribu tiga ratus", {12_300}),
    ("sejuta", {1_000_000}),
    ("dua ribu dua puluh enam", {2026}),
    ("lima belas orang", {15}),
    ("puluh", {10}),
    ("50k, 20 rb, 3jt", {50_000, 20_000, 3_000_000}),
    ("two hundred and fifty", {250}),
    ("two thousand", {2_000}),
    ("a million", {1_000_000}),
    ("twenty-five", {25}),
    ("five thousand two million", {5_000, 2_000_000}),
    ("dua juta tiga juta", {2_000_000, 3_000_000}),
    ("tiga dan empat", {3, 4}),
    ("two hundred people, fifty chairs", {200, 50}),
    ("two hundred people fifty", {200, 50}),
    ("dua puluh\nlima", {20, 5}),
    ("twenty ten", {20, 10}),
    ("the third", {3}),
    ("kuartal keempat", {4}),
    ("Q4", {4}),
    ("28/12/2026", {28, 12, 2026}),
    ("1.2.3", {1, 2, 3}),
    ("empat puluh lima persen", {45}),
    ("setengah", set()),
    ("dua juta lima setengah", {Fraction("2000005.5")}),
    ("belas koma point and k", set()),
    ("salah satu tim, kedua pihak, one of us, first, kosong", set()),
    ("kita mulai", set()),
    ("²", set()),
])  # fmt: skip
def test_the_numbers_of_a_text(text: str, values: set[int | Fraction]) -> None:
    assert {value for number in claimed(text) for value in number[0]} == values


@pytest.mark.parametrize(("claim", "source", "expected"), [
    ("anggaran 250 juta", "dua ratus lima puluh juta", True),
    ("anggaran 250 juta", "dua ratus lima puluh ribu", False),
    ("anggaran 250 juta", "anggarannya 250", False),
    ("anggaran 250", "anggarannya 250 juta", True),
    ("pukul 15.00", "jam tiga sore", True),
    ("pukul 10.30", "jam sepuluh tiga puluh", True),
    ("pukul 10.30", "jam sepuluh", False),
    ("pukul 10:00", "jam sepuluh", True),
    ("pukul 10.01", "jam sepuluh", False),
    ("pukul 1.00", "jam satu", True),
    ("pukul 22.30", "pukul 10.30 malam", True),
    ("pukul 16.00", "jam tiga, sore jam empat", False),
    ("jam tiga sore", "jam 3 sore", True),
    ("0.00 juta, 0:00 k", "0.00 juta, 0:00 k", True),
    ("1.500 orang", "seribu lima ratus", True),
    ("1.500 million", "1.5 million", False),
    ("2.5%", "dua koma lima persen", True),
    ("nomor 0812", "nol delapan satu dua", True),
    ("tahun 2026", "twenty twenty-six", True),
    ("tahun 2010", "twenty ten", True),
    ("kode 4821", "4 8 dua 1", True),
    ("nomor 48", "4, 8", False),
    ("nomor 34", "three and four", False),
    ("nomor 123", "12 and 3", False),
    ("1 orang", "satu orang", True),
    ("3 orang", "satu dua orang", False),
    ("tanpa angka", "", True),
    ("tanggal 28", "tanggal 27", False),
    ("pukul 14.30", "jam setengah tiga sore", True),
    ("pukul 14.30", "setengah 3 sore", True),
    ("pukul 15.30", "jam setengah tiga", False),
    ("pukul 12.30", "jam setengah satu", True),
    ("pukul 09.45", "jam sepuluh kurang seperempat", True),
    ("pukul 10.15", "sepuluh lewat seperempat", True),
    ("9:45, 10:15, 10:30", "quarter to ten, quarter past ten, half past ten", True),
    ("pukul 9.00", "kurang lebih sepuluh", False),
    ("pukul 9.00", "sepuluh", False),
    ("4 orang", "jam setengah tiga lima orang", False),
    ("1 orang", "dua tiga kurang seperempat", False),
    ("pukul 15.00", "jam tiga kurang sepuluh sore", True),
    ("pukul 14.30", "jam dua lewat tiga puluh siang", True),
    ("14:00", "two in the afternoon", True),
    ("pukul 22.05", "pukul 10.05 malam", True),
    ("50%, 0,5, 30 menit", "setengahnya, setengah", True),
    ("25%, 25%", "seperempat, a quarter of it", True),
    ("25%", "this quarter, the first quarter of 2027", False),
    ("Rp5.000.000, 20 orang, 100 ribu", "lima jutaan, dua puluhan, seratusan ribu", True),
    ("Rp5.000.000", "5 jutaan", True),
    ("Rp5.000.000", "jutaan", False),
    ("dalam 1 minggu", "seminggu", True),
    ("1 week", "a week", True),
    ("1 minggu", "minggu", False),
    ("2,5 jam, 1,5 juta", "two and a half hours, one and a half million", True),
    ("Rp2,5 juta", "dua juta setengah", True),
])  # fmt: skip
def test_a_claim_is_borne_out_by_its_value(claim: str, source: str, expected: bool) -> None:
    assert are_borne_out(claimed(claim), borne_out(source)) is expected


WORDS = """dua ratus puluh belas ribu juta setengah koma point and two hundred thousand 12 7 3.5 satu sejuta k
twenty keempat seribu seratus dan sore"""
texts = st.text("0123456789.,: abkrt", max_size=40) | st.lists(
    st.sampled_from(WORDS.split()), max_size=12
).map(" ".join)


@given(texts)
def test_a_text_bears_out_what_it_claims(text: str) -> None:
    assert are_borne_out(claimed(text), borne_out(text))


@given(texts, texts)
def test_more_words_bear_out_no_less_digits(text: str, more: str) -> None:
    assert are_borne_out(claimed(text), borne_out(f"{text} . {more}"))


@pytest.mark.parametrize("hour", range(14))
def test_an_hour_of_the_afternoon_bears_out_that_of_the_day(hour: int) -> None:
    of_day = Fraction(hour + 12)
    for said in (f"jam {hour} sore", f"jam {in_words(hour)} malam", f"{hour} pm"):
        assert (of_day in borne_out(said)) is (0 < hour < 12)
    assert of_day not in borne_out(f"jam {hour}")
    assert of_day not in borne_out(f"jam {hour}. Sore")


@given(st.text("0123456789", min_size=1, max_size=60))
def test_spelled_digits_bear_out_the_number(digits: str) -> None:
    assert are_borne_out(claimed(digits), borne_out(" ".join(_ID[int(digit)] for digit in digits)))


@given(st.integers(0, 10**12))
def test_digits_in_groups_are_the_number(value: int) -> None:
    for grouped in (f"{value}", f"{value:,}", f"{value:,}".replace(",", ".")):
        assert Fraction(value) in borne_out(grouped)


_ID = (
    *("nol", "satu", "dua", "tiga", "empat", "lima", "enam", "tujuh", "delapan", "sembilan", "sepuluh"),
    "sebelas",
)


def in_words(value: int) -> str:
    """Return a number in Indonesian."""
    if value < 12:
        return _ID[value]
    if value < 20:
        return f"{_ID[value - 10]} belas"
    for size, name in ((10**9, "miliar"), (10**6, "juta"), (1000, "ribu"), (100, "ratus"), (10, "puluh")):
        if value >= size:
            head, tail = divmod(value, size)
            word = f"se{name}" if head == 1 and size in (100, 1000) else f"{in_words(head)} {name}"
            return f"{word} {in_words(tail)}" if tail else word
    raise AssertionError(value)


@given(st.integers(2, 10**12 - 1))
def test_a_number_in_words_is_the_number_in_digits(value: int) -> None:
    (number,) = claimed(in_words(value))
    assert number == (frozenset({Fraction(value)}),)
