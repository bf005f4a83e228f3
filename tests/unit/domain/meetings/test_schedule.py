"""Time at the edges: WIB in, UTC inside, RFC 3339 out."""

from datetime import UTC, date, datetime, timedelta, tzinfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.errors import InvalidRequest, Unprocessable
from meetcore.domain.meetings.schedule import (
    MAX_DAYS_AHEAD,
    WIB,
    cap_day,
    cap_day_ends_at,
    check_start,
    meeting_start,
    read_instant,
    utc_text,
    wib_text,
)
from meetcore.testing.strategies.moments import TICK, clock_times, days, instants

NOW = datetime(2026, 12, 1, 2, 0, 30, 500_000, tzinfo=UTC)
LEAP_DAYS = [date(1600, 2, 29), date(2000, 2, 29), date(2024, 2, 29), date(2028, 2, 29), date(2096, 2, 29)]


@pytest.mark.spec("4.1/date", "4.1/start_time")
@given(days(), clock_times())
@example(date(9999, 12, 31), "23:59")
@example(date(999, 1, 1), "08:00")
def test_wib_to_utc_for_every_date_and_minute(day: date, at: str) -> None:
    """Seven hours, on every day of the calendar: WIB knows no daylight saving."""
    start = meeting_start(day.isoformat(), at)
    assert start.utcoffset() == timedelta(0)
    assert start.replace(tzinfo=None) == datetime.fromisoformat(f"{day}T{at}") - timedelta(hours=7)
    assert wib_text(start) == f"{day}T{at}:00+07:00"


@pytest.mark.parametrize("day", LEAP_DAYS, ids=str)
def test_a_leap_day_lies_between_the_28th_of_february_and_the_first_of_march(day: date) -> None:
    starts = [meeting_start(f"{day.year}-{on}", "00:00") for on in ("02-28", "02-29", "03-01")]
    assert starts[1] - starts[0] == starts[2] - starts[1] == timedelta(days=1)
    assert utc_text(starts[2]) == f"{day}T17:00:00Z"
    assert cap_day(starts[1]) == cap_day(starts[2] - TICK) == day


@given(st.integers(1, 9999).filter(lambda year: year % 4 != 0 or (year % 100 == 0 and year % 400 != 0)))
@example(1900)
@example(2026)
@example(2100)
def test_a_year_that_is_no_leap_year_has_no_leap_day(year: int) -> None:
    with pytest.raises(InvalidRequest):
        meeting_start(f"{year:04}-02-29", "09:00")


@given(clock_times())
def test_the_first_day_of_all_is_read_without_a_fall_below_it(at: str) -> None:
    """No one meets then, but it is a date that exists: `check_start` has to refuse it."""
    start = meeting_start("0001-01-01", at)
    since_seven = timedelta(hours=int(at[:2]) - 7, minutes=int(at[3:]))
    assert start == datetime(1, 1, 1, tzinfo=UTC) + max(since_seven, timedelta(0))
    with pytest.raises(Unprocessable):
        check_start(start, NOW)


BAD_DATES = (
    "2026-02-29", "2026-02-30", "2100-02-29", "2026-13-01", "2026-00-10", "2026-04-31", "2026-01-00",
    "0000-01-01", "2026-1-1", "20261201", "2026-W49-2", "2026-335", "2026-12-01T00:00", " 2026-12-01",
    "2026-12-01\n", "+026-12-01", "٢٠٢٦-12-01", "",
)  # fmt: skip
BAD_TIMES = (
    "24:00", "23:60", "9:00", "09:0", "0900", "09:00:00", "09:00Z", "-9:00", "09.00", " 9:00", "09:00\n",
    "٠٩:00", "",
)  # fmt: skip


@pytest.mark.parametrize("text", BAD_DATES)
def test_a_date_that_does_not_exist_or_is_written_otherwise_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        meeting_start(text, "09:00")
    assert refused.value.details == {"fields": {"date": ["must be a date that exists, as YYYY-MM-DD"]}}


@pytest.mark.parametrize("text", BAD_TIMES)
def test_a_time_that_does_not_exist_or_is_written_otherwise_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        meeting_start("2026-12-01", text)
    problem = "must be a time from 00:00 to 23:59, as HH:mm"
    assert refused.value.details == {"fields": {"start_time": [problem]}}


@given(st.sampled_from(BAD_DATES), st.sampled_from(BAD_TIMES))
def test_both_problems_are_named_at_once(day: str, at: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        meeting_start(day, at)
    fields = refused.value.details["fields"]
    assert isinstance(fields, dict)
    assert fields.keys() == {"date", "start_time"}


@given(st.text(max_size=12), st.text(max_size=6))
def test_any_text_is_read_or_refused_and_nothing_else(day: str, at: str) -> None:
    try:
        start = meeting_start(day, at)
    except InvalidRequest:
        return
    assert wib_text(start)[:16] == f"{day}T{at}"


@given(instants())
@example(datetime(1, 1, 1, tzinfo=UTC))
@example(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
def test_an_instant_is_read_as_it_was_written_whatever_its_offset(at: datetime) -> None:
    read = read_instant(at.isoformat())
    assert (read, read.utcoffset()) == (at, timedelta(0))


@given(days(), st.sampled_from(["2026-12-01", "0001-01-01", "9999-12-31"]))
def test_a_day_is_its_beginning_in_wib(day: date, other: str) -> None:
    for text in (day.isoformat(), other):
        assert read_instant(text) == meeting_start(text, "00:00")


@pytest.mark.parametrize(("text", "whole"), [
    ("2026-12-01T02:00:00Z", "2026-12-01T02:00:00+00:00"),
    ("2026-12-01t02:00:00z", "2026-12-01T02:00:00+00:00"),
    ("2026-12-01T02:00:00-00:00", "2026-12-01T02:00:00+00:00"),
    ("2026-12-01T09:00:00+07:00", "2026-12-01T02:00:00+00:00"),
    ("2026-12-01T02:00:00.5Z", "2026-12-01T02:00:00.500000+00:00"),
    ("2026-12-01T02:00:00.000001000Z", "2026-12-01T02:00:00.000001+00:00"),
    ("2026-12-01T02:00:00.000001001Z", "2026-12-01T02:00:00.000002+00:00"),
    ("2026-12-01T02:00:00.999999999Z", "2026-12-01T02:00:01+00:00"),
])  # fmt: skip
def test_an_instant_is_read_to_the_microsecond_that_is_not_before_it(text: str, whole: str) -> None:
    at = read_instant(text)
    assert at.isoformat() == whole
    assert at.tzinfo is UTC


@pytest.mark.parametrize("text", [
    *BAD_DATES, "2026-12-01T02:00:00", "2026-12-01T02:00Z", "2026-12-01 02:00:00Z", "2026-12-01T24:00:00Z",
    "2026-12-01T02:60:00Z", "2026-12-01T02:00:60Z", "2026-12-01T02:00:00 07:00", "2026-12-01T02:00:00+07",
    "2026-12-01T02:00:00+0700", "2026-12-01T02:00:00+24:00", "2026-02-30T02:00:00Z", "20261201T020000Z",
    "2026-12-01T02:00:00.Z", "2026-12-01T02:00:00.0000000001Z", "2026-12-01T02:00:00Z ", "1764554400",
    "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "9999-12-31T23:59:59.9999991Z",
    "٢٠٢٦-12-01T02:00:00Z",
])  # fmt: skip
def test_an_invalid_instant_is_refused_with_the_expected_form(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must be an instant with an offset, such as .* 00:00 WIB$"):
        read_instant(text)


@given(st.text(max_size=30))
def test_any_text_is_read_as_an_instant_or_refused_and_nothing_else(text: str) -> None:
    try:
        assert read_instant(text).utcoffset() == timedelta(0)
    except ValueError:
        return


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=MAX_DAYS_AHEAD)))
@example(timedelta(0))
@example(timedelta(days=365))
def test_a_start_from_now_to_365_days_ahead_is_accepted(ahead: timedelta) -> None:
    check_start(NOW + ahead, NOW)


@given(st.timedeltas(min_value=TICK, max_value=timedelta(days=700_000)))
@example(TICK)
@example(NOW - datetime(999, 1, 1, 1, tzinfo=UTC))
def test_a_start_in_the_past_is_refused(behind: timedelta) -> None:
    with pytest.raises(Unprocessable) as refused:
        check_start(NOW - behind, NOW)
    message = "The meeting would start in the past. date and start_time are read in WIB (UTC+7)."
    assert refused.value.message == message
    assert refused.value.details == {"start_at": utc_text(NOW - behind)}


@given(st.timedeltas(min_value=TICK, max_value=timedelta(days=2_900_000)))
@example(TICK)
def test_a_start_more_than_365_days_ahead_is_refused(beyond: timedelta) -> None:
    start = NOW + timedelta(days=MAX_DAYS_AHEAD) + beyond
    with pytest.raises(Unprocessable) as refused:
        check_start(start, NOW)
    assert refused.value.message == "A meeting can start at most 365 days ahead."
    assert refused.value.details == {"start_at": utc_text(start)}


@given(instants())
def test_a_cap_day_is_the_date_in_wib_and_holds_its_instant(at: datetime) -> None:
    day = cap_day(at)
    assert day == at.astimezone(WIB).date()
    assert cap_day_ends_at(day) - timedelta(days=1) <= at < cap_day_ends_at(day)


@given(days(date.min))
@example(date.max)
@example(date.min)
def test_a_cap_day_ends_at_17_utc_and_the_next_one_begins(day: date) -> None:
    end = cap_day_ends_at(day)
    assert utc_text(end) == f"{day}T17:00:00Z"
    assert cap_day(end - TICK) == day
    if day < date.max:
        assert cap_day(end) == day + timedelta(days=1)


@given(instants())
@example(datetime(999, 1, 1, 1, tzinfo=UTC))
def test_both_texts_give_the_instant_in_whole_seconds(at: datetime) -> None:
    utc, wib = utc_text(at), wib_text(at)
    assert len(utc) == len("2026-12-01T02:00:00Z")
    assert utc.endswith("Z")
    assert wib.endswith("+07:00")
    whole = at.replace(microsecond=0)
    assert datetime.fromisoformat(utc) == datetime.fromisoformat(wib) == whole


@pytest.mark.usefixtures("far_from_utc")
def test_the_machines_own_time_zone_does_not_matter() -> None:
    at = datetime(2026, 12, 1, 16, 59, 59, tzinfo=UTC)
    assert at.astimezone().utcoffset() == timedelta(hours=13)
    for instant in (at, at.astimezone(WIB), at.astimezone()):
        assert cap_day(instant) == date(2026, 12, 1)
        assert (utc_text(instant), wib_text(instant)) == ("2026-12-01T16:59:59Z", "2026-12-01T23:59:59+07:00")
    assert cap_day(at + timedelta(seconds=1)) == date(2026, 12, 2)


class _Zoneless(tzinfo):
    """A zone that does not know its offset: such an instant is as naive as one without a zone."""

    def utcoffset(self, at: datetime | None) -> None:
        return None

    dst = tzname = utcoffset


@pytest.mark.parametrize("zone", [None, _Zoneless()])
def test_an_instant_without_a_zone_has_no_cap_day(zone: tzinfo | None) -> None:
    with pytest.raises(ValueError, match="needs its time zone"):
        cap_day(datetime(2026, 12, 1, 23, tzinfo=zone))
