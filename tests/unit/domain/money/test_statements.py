"""Statements: months in WIB, when they are closed, and sums that agree with the balances."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.errors import NotFound
from meetcore.domain.money import statements
from meetcore.domain.money.transfers import TransferKind

NOVEMBER = statements.Month(2026, 11)
MONTHS = st.builds(statements.Month, st.integers(3, 9997), st.integers(1, 12))
FIRST, LAST = statements.Month(2, 1), statements.Month(9998, 12)


def total(day: int, kind: TransferKind, entries: int, credits: int) -> statements.DayTotal:
    return statements.DayTotal(date(2026, 11, day), kind, credits, entries)


@given(MONTHS | st.sampled_from([FIRST, LAST]))
@example(FIRST)
@example(LAST)
def test_a_month_is_read_as_it_is_written(month: statements.Month) -> None:
    assert statements.read_month(str(month)) == month


@pytest.mark.parametrize("text", [
    "", "2026", "2026-00", "2026-13", "2026-1", "0001-12", "9999-01", " 2026-11", "\uff12026-11", "-026-11",
])  # fmt: skip
def test_what_is_no_month_has_no_statement(text: str) -> None:
    with pytest.raises(NotFound, match=r"^No statement of this month\.$"):
        statements.read_month(text)


@given(MONTHS, st.integers(0, 26 * 24 * 3600))
def test_instants_of_a_month_are_those_from_its_beginning_on_and_before_its_end(
    month: statements.Month, seconds: int
) -> None:
    assert statements.month_of(month.begins_at + timedelta(seconds=seconds)) == month
    assert statements.month_of(month.ends_at) > month
    assert statements.month_of(month.ends_at - timedelta(microseconds=1)) == month
    assert statements.month_of(month.begins_at - timedelta(microseconds=1)) < month


def test_months_begin_at_midnight_in_wib() -> None:
    assert NOVEMBER.begins_at == datetime(2026, 10, 31, 17, tzinfo=UTC)
    assert NOVEMBER.ends_at == datetime(2026, 11, 30, 17, tzinfo=UTC)
    assert statements.Month(2026, 12).last_day == date(2026, 12, 31)
    assert statements.Month(2028, 2).last_day == date(2028, 2, 29)


def test_a_month_is_closed_when_nothing_can_be_added_to_it() -> None:
    closes_at = NOVEMBER.ends_at + statements.CLOSES_AFTER
    assert statements.is_closed(NOVEMBER, closes_at)
    assert not statements.is_closed(NOVEMBER, closes_at - timedelta(microseconds=1))


def test_the_last_closed_month_is_the_one_before_until_that_is_closed() -> None:
    closes_at = NOVEMBER.ends_at + statements.CLOSES_AFTER
    assert statements.last_closed(closes_at) == NOVEMBER
    assert statements.last_closed(closes_at + timedelta(days=20)) == NOVEMBER
    assert statements.last_closed(closes_at - timedelta(microseconds=1)) == statements.Month(2026, 10)


def test_months_are_listed_from_the_present_one_to_that_of_the_first_entry() -> None:
    first_at = datetime(2026, 8, 31, 17, tzinfo=UTC)  # 1 September in WIB
    now = datetime(2026, 11, 15, tzinfo=UTC)
    months = ["2026-11", "2026-10", "2026-09"]
    assert [str(month) for month in statements.months_since(first_at, now, 9)] == months
    assert [str(month) for month in statements.months_since(first_at, now, 2)] == months[:2]
    assert statements.months_since(now, now, 9) == [NOVEMBER]


def test_lines_are_ordered_by_day_and_kind() -> None:
    lines = [
        total(2, TransferKind.MEETING_CHARGE, 3, -21),
        total(2, TransferKind.TOPUP, 1, 8),
        total(1, TransferKind.MEETING_CHARGE, 1, -4),
    ]
    statement = statements.make_statement(NOVEMBER, statements.EntryRange(4, 8, 100, 83), lines)
    assert (statement.month, statement.lines) == (NOVEMBER, lines[::-1])
    assert (statement.opening, statement.closing, statement.entries) == (100, 83, 5)
    assert statement.by_kind() == [(TransferKind.TOPUP, 1, 8), (TransferKind.MEETING_CHARGE, 4, -25)]


def test_a_month_without_entries_keeps_the_balance() -> None:
    statement = statements.make_statement(NOVEMBER, statements.EntryRange(3, 2, 7, 7), [])
    assert (statement.entries, statement.by_kind()) == (0, [])


@pytest.mark.parametrize(
    "around", [statements.EntryRange(1, 1, 100, 100), statements.EntryRange(1, 2, 100, 101)]
)
def test_totals_that_do_not_agree_with_the_entries_are_no_statement(around: statements.EntryRange) -> None:
    with pytest.raises(ValueError, match=r"^the totals of 2026-11 do not agree with its entries$"):
        statements.make_statement(NOVEMBER, around, [total(1, TransferKind.TOPUP, 1, 1)])
