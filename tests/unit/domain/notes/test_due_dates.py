"""The days that due words mean."""

import re
from collections.abc import Iterable
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.notes.due_dates import names_holiday, resolve, with_due_dates
from meetcore.domain.notes.due_words import HOLIDAYS, MONTHS, NUMBERS, WEEKDAYS, Holiday, Holidays, any_of
from meetcore.domain.notes.notes import ActionItem, NoteDraft

WEDNESDAY = date(2026, 11, 4)
KNOWN: Holidays = {
    Holiday.EID_AL_FITR: (date(2026, 3, 21), date(2027, 3, 10)),
    Holiday.CHRISTMAS: (date(2026, 12, 25), date(2027, 12, 25)),
    Holiday.NEW_YEAR: (date(2027, 1, 1),),
}


@pytest.mark.parametrize(("words", "expected"), [
    # Dates
    ("2026-12-03", "2026-12-03"), ("30/11/2026", "2026-11-30"), ("30-11-26", "2026-11-30"),
    ("11/30/2026", "2026-11-30"), ("sebelum 5/12", "2026-12-05"), ("3/11", "2027-11-03"),
    ("11/13/2026", "2026-11-13"), ("5/12/2030", "2030-12-05"),
    ("5 Des", "2026-12-05"), ("tanggal 5 Desember 2027", "2027-12-05"), ("lima Desember", "2026-12-05"),
    ("5 bulan Januari", "2027-01-05"), ("tanggal dua puluh lima November", "2026-11-25"),
    ("by December 5", "2026-12-05"), ("4 November", "2026-11-04"), ("Dec. 5th, 2027", "2027-12-05"),
    ("the 5th of December", "2026-12-05"), ("May the first", "2027-05-01"), ("31 April", None),
    ("2026-13-01", None), ("Jumat, 13 November", "2026-11-13"),
    # Days of a month
    ("tgl 5", "2026-11-05"), ("tgl 4", "2026-11-04"), ("tgl. 3", "2026-12-03"), ("tgl5", "2026-11-05"),
    ("paling lambat tanggal 28", "2026-11-28"), ("tanggal lima", "2026-11-05"), ("tanggal 31", "2026-12-31"),
    ("tanggal dua belas", "2026-11-12"), ("tanggal 5 bulan depan", "2026-12-05"),
    ("tgl 2 bulan ini", "2026-11-02"), ("tanggal 31 bulan ini", None), ("tanggal 99", None),
    ("by the 3rd", "2026-12-03"), ("the fifteenth", "2026-11-15"), ("the 5th of next month", "2026-12-05"),
    ("the first week", None), ("Senin tanggal 30", "2026-11-30"),
    ("bulan depan tanggal 5", "2026-12-05"), ("next month on the 5th", "2026-12-05"),
    ("tanggal 5 bulan berikutnya", "2026-12-05"), ("5 Desember tahun depan", "2027-12-05"),
    ("akhir November tahun depan", "2027-11-30"), ("3 hari sebelum 5 Januari", None),
    # Near days
    ("hari ini", "2026-11-04"), ("malem ini", "2026-11-04"), ("ntar sore", "2026-11-04"),
    ("EOD", "2026-11-04"), ("akhir hari", "2026-11-04"), ("by end of day", "2026-11-04"),
    ("setelah rapat", "2026-11-04"), ("after the meeting", "2026-11-04"), ("tonight", "2026-11-04"),
    ("by 5 pm", "2026-11-04"), ("jam tiga", "2026-11-04"), ("besok pagi", "2026-11-05"),
    ("tomorrow at noon", "2026-11-05"), ("lusa", "2026-11-06"), ("the day after tomorrow", "2026-11-06"),
    ("by end of day Friday", "2026-11-06"), ("Jumat, akhir hari", "2026-11-06"),
    ("the end of the day tomorrow", "2026-11-05"), ("akhir hari kerja", "2026-11-04"),
    # Lengths of time
    ("tiga hari lagi", "2026-11-07"), ("dua minggu lagi", "2026-11-18"), ("seminggu lagi", "2026-11-11"),
    ("dalam sebulan", "2026-12-04"), ("dalam waktu 10 hari", "2026-11-14"), ("2 jam lagi", "2026-11-04"),
    ("in two weeks", "2026-11-18"), ("within a couple of days", "2026-11-06"), ("in a year", "2027-11-04"),
    ("dua pekan lagi", "2026-11-18"), ("90 menit lagi", "2026-11-04"), ("in 3 hours", "2026-11-04"),
    ("within 45 minutes", "2026-11-04"), ("setahun lagi", "2027-11-04"), ("dalam 2 tahun", "2028-11-04"),
    ("in a few days", None), ("dalam 3 hari kerja", None), ("tiga hari kerja lagi", None),
    ("dua hari sebelum Jumat", None), ("two weeks from Monday", None), ("3 hari sebelum akhir bulan", None),
    ("dalam seminggu setelah kontrak", None), ("satu jam sebelum demo Jumat", "2026-11-06"),
    ("tiga hari setelah rapat", "2026-11-07"), ("two months from now", "2027-01-04"),
    # Ends
    ("akhir bulan", "2026-11-30"), ("akhir bulan depan", "2026-12-31"), ("end of month", "2026-11-30"),
    ("by the end of next month", "2026-12-31"), ("EOM", "2026-11-30"), ("EOW", "2026-11-06"),
    ("akhir minggu ini", "2026-11-06"), ("end of next week", "2026-11-13"), ("akhir tahun", "2026-12-31"),
    ("akhir pekan ini", "2026-11-06"), ("end of the year", "2026-12-31"), ("end of Q4", "2026-12-31"),
    ("akhir kuartal depan", "2027-03-31"), ("akhir triwulan ini", "2026-12-31"), ("week-end", "2026-11-06"),
    ("akhir tahun depan", "2027-12-31"), ("before year-end", "2026-12-31"), ("akhir kuartal", "2026-12-31"),
    ("the end of next quarter", "2027-03-31"), ("akhir Q1 2027", "2027-03-31"), ("end of Q3", "2027-09-30"),
    ("akhir Januari", "2027-01-31"), ("akhir Februari 2028", "2028-02-29"), ("end of November", "2026-11-30"),
    # Weekdays
    ("Jumat", "2026-11-06"), ("by Friday", "2026-11-06"), ("Rabu", "2026-11-11"),
    ("hari Rabu ini", "2026-11-04"), ("this Wednesday", "2026-11-04"), ("this Friday", "2026-11-06"),
    ("Selasa ini", "2026-11-10"),
    ("Senin depan", "2026-11-09"), ("Jumat depan", "2026-11-13"), ("Jum\u2019at depan", "2026-11-13"),
    ("Jumat minggu depan", "2026-11-13"), ("minggu depan hari Kamis", "2026-11-12"),
    ("next Friday", "2026-11-13"), ("Friday next week", "2026-11-13"), ("next week on Monday", "2026-11-09"),
    ("hari Minggu", "2026-11-08"), ("Minggu malam", "2026-11-08"), ("Friday this week", "2026-11-06"),
    ("minggu depan sebelum Jumat", "2026-11-13"), ("Friday of next week", "2026-11-13"),
    ("next week, Friday", "2026-11-13"), ("Jumat minggu berikutnya", "2026-11-13"),
    ("besok Kamis", "2026-11-05"), ("the first Monday of January", None), ("Senin kedua Januari", None),
    # Holidays
    ("H min tiga Lebaran", "2027-03-07"), ("H minus 1 Natal", "2026-12-24"), ("H min satu rapat Jumat", None),
    ("H plus dua hari raya", "2027-03-12"),
    ("H-3 Lebaran", "2027-03-07"), ("H+2 hari raya", "2027-03-12"), ("sebelum Lebaran", "2027-03-10"),
    ("seminggu sebelum Natal", "2026-12-18"), ("dua hari setelah Natal", "2026-12-27"),
    ("two days before Christmas", "2026-12-23"), ("before New Year", "2027-01-01"),
    ("malam tahun baru", "2026-12-31"), ("by Christmas Eve", "2026-12-24"), ("malam Nyepi", None),
    ("Nyepi", None),
    ("H-1 Nyepi", None), ("H-1", None), ("H-7 acara", None),
    # No one day
    ("every Monday", None), ("tiap Senin", None), ("secepatnya", None), ("minggu depan", None),
    ("next month jam 3", None), ("awal Januari", None), ("Q1 2027", None),
    ("pertengahan Desember 2026", None), ("sebelum Minggu", None), ("", None),
])  # fmt: skip
def test_due_words_mean_a_day(words: str, expected: str | None):
    found = resolve(words, WEDNESDAY, KNOWN)
    assert (found and found.isoformat()) == expected


@pytest.mark.parametrize(("words", "day", "expected"), [
    ("akhir minggu", date(2026, 11, 7), date(2026, 11, 13)),
    ("akhir minggu", date(2026, 11, 6), date(2026, 11, 6)),
    ("hari Senin", date(2026, 11, 2), date(2026, 11, 9)),
    ("Senin depan", date(2026, 11, 8), date(2026, 11, 9)),
    ("sebulan lagi", date(2027, 1, 31), date(2027, 2, 28)),
    ("tanggal 30", date(2027, 1, 31), date(2027, 3, 30)), ("besok", date(9999, 12, 31), None),
    ("akhir kuartal", date(2026, 12, 31), date(2026, 12, 31)), ("dua bulan lagi", date(9999, 12, 1), None),
])  # fmt: skip
def test_due_words_mean_a_day_by_the_day_of_the_meeting(words: str, day: date, expected: date | None):
    assert resolve(words, day, {}) == expected


@pytest.mark.parametrize(("form", "day", "words"), [
    ("tanggal {}", date(2026, 12, 1), (
        "satu, dua, tiga, empat, lima, enam, tujuh, delapan, sembilan, sepuluh, sebelas, dua belas, "
        "tiga belas, empat belas, lima belas, enam belas, tujuh belas, delapan belas, sembilan belas, "
        "dua puluh, dua puluh satu, dua puluh dua, dua puluh tiga, dua puluh empat, dua puluh lima, "
        "dua puluh enam, dua puluh tujuh, dua puluh delapan, dua puluh sembilan, tiga puluh, tiga puluh satu"
    )),
    ("December the {}", date(2026, 12, 1), (
        "first, second, third, fourth, fifth, sixth, seventh, eighth, ninth, tenth, eleventh, twelfth, "
        "thirteenth, fourteenth, fifteenth, sixteenth, seventeenth, eighteenth, nineteenth, twentieth, "
        "twenty-first, twenty second, twenty-third, twenty fourth, twenty-fifth, twenty sixth, "
        "twenty-seventh, twenty eighth, twenty-ninth, thirtieth, thirty-first"
    )),
    ("in {} days", date(2026, 11, 30), (
        "one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve"
    )),
])  # fmt: skip
def test_numbers_have_words(form: str, day: date, words: str):
    for number, word in enumerate(words.split(", "), 1):
        assert resolve(form.format(word), day, {}) == date(2026, 12, number)


@pytest.mark.parametrize("words", [HOLIDAYS, MONTHS, NUMBERS, WEEKDAYS, ("a", "ab", "a b", "b")])
def test_a_pattern_of_words_matches_the_longest(words: Iterable[str]):
    pattern = re.compile(any_of(words))
    for word in words:
        found = pattern.match(word.replace(" ", " \n"))
        assert found is not None
        assert found[0].split() == word.split()


@pytest.mark.parametrize(("day", "expected"), [(25, date(2026, 12, 25)), (26, date(2027, 12, 25))])
def test_a_holiday_is_the_next_one_or_today(day: int, expected: date):
    assert resolve("Natal", date(2026, 12, day), KNOWN) == expected


@pytest.mark.parametrize(("day", "expected"), [(24, date(2026, 12, 24)), (25, date(2027, 12, 24))])
def test_an_eve_is_the_next_one_or_today(day: int, expected: date):
    assert resolve("Christmas Eve", date(2026, 12, day), KNOWN) == expected


@pytest.mark.parametrize(("words", "is_named"), [
    ("H-3 Lebaran", True), ("hari  raya", True), ("before Christmas", True), ("besok", False),
    ("nataliteit", False),
])  # fmt: skip
def test_whether_words_name_a_holiday(words: str, is_named: bool):
    assert names_holiday(words) is is_named


def test_a_draft_gets_its_due_dates():
    items = (
        ActionItem("a", "a", 1.0, due="besok"),
        ActionItem("b", "b", 2.0),
        ActionItem("c", "c", 3.0, due="nanti"),
        ActionItem("d", "d", 4.0, due="sebelum Natal"),
    )
    draft = with_due_dates(NoteDraft("s", action_items=items), WEDNESDAY, KNOWN)
    assert [one.due_on for one in draft.action_items] == [date(2026, 11, 5), None, None, date(2026, 12, 25)]


_WORDS = st.sampled_from([
    *HOLIDAYS, *MONTHS, *NUMBERS, *WEEKDAYS, "tgl", "tanggal", "H-3", "akhir", "end of", "q9", "lagi",
    "depan", "the", "next", "99", "0", "5/99", "9999-99-99", "week", "minggu", "dalam", "sebelum", "after",
])  # fmt: skip


@given(st.lists(_WORDS | st.text(max_size=9), max_size=40).map(" ".join), st.dates())
def test_no_words_make_it_fail(words: str, day: date):
    found = resolve(words, day, KNOWN)
    assert found is None or isinstance(found, date)
