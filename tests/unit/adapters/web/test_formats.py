"""Languages, numbers, dates and charts of the pages."""

import re
from datetime import UTC, date, datetime, timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.adapters.catalogues import choose_language, format_money
from meetcore.adapters.web import texts
from meetcore.adapters.web.formats import (
    format_change,
    format_count,
    format_day,
    format_instant,
    format_month,
    format_share,
)
from meetcore.adapters.web.markup import Bar, axis_step, bar_chart
from meetcore.adapters.web.pages.meetings import OPTIONS
from meetcore.adapters.web.templates import environment
from meetcore.domain.meetings.meetings import MeetingOptions, MeetingStatus
from meetcore.domain.members.roles import Role
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.notes.notes import Language, NoteStatus
from meetcore.domain.notes.transcripts import format_offset
from meetcore.domain.payments.payments import Doubt, PaymentStatus
from meetcore.domain.payments.views import MessageSource
from meetcore.domain.records.meetings import MeetingState
from meetcore.domain.records.notes import NoteState
from meetcore.domain.requests.keys import Scope
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import EndpointState
from meetcore.domain.webhooks.events import EventKind

EN, ID = Language.ENGLISH, Language.INDONESIAN
AT = datetime(2026, 11, 30, 17, 5, tzinfo=UTC)


@pytest.mark.parametrize(("chosen", "accepted", "language"), [
    (None, "", EN),
    (None, "id", ID),
    (None, "id-ID,id;q=0.9,en-US;q=0.8", ID),
    (None, "en-US,en;q=0.9,id;q=0.8", EN),
    (None, "en;q=0.1, id;q=0.5", ID),
    (None, "de, in;q=0.7", ID),
    (None, "id;q=0", EN),
    (None, "id;q=x", EN),
    ("en", "id", EN),
    ("id", "en", ID),
    ("xx", "id", ID),
])  # fmt: skip
def test_the_language_is_chosen(chosen: str | None, accepted: str, language: Language) -> None:
    assert choose_language(chosen, accepted) is language


@given(st.text(max_size=200))
def test_any_header_gives_a_language(accepted: str) -> None:
    assert choose_language(None, accepted) in Language


def test_numbers_and_dates_are_written_by_language() -> None:
    assert format_count(-1234567, EN) == "\N{MINUS SIGN}1,234,567"
    assert format_count(1234567, ID) == "1.234.567"
    assert format_change(5, EN) == "+5"
    assert format_change(0, EN) == "0"
    assert format_share(0.9876, EN) == "98.8%"
    assert format_share(0.9876, ID) == "98,8%"
    assert format_instant(AT, EN) == "1 Dec 2026, 00:05 WIB"
    assert format_instant(AT, ID) == "1 Des 2026, 00.05 WIB"
    for_ever = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert format_instant(for_ever, EN) == "31 Dec 9999, 23:59 WIB"
    assert format_day(date(2026, 5, 1), ID) == "1 Mei 2026"
    assert format_month(date(2026, 5, 1), EN) == "May 2026"
    assert [format_offset(at) for at in (0, 61.9, 3600)] == ["0:00", "1:01", "1:00:00"]


@pytest.mark.parametrize(("amount", "currency", "english", "indonesian"), [
    (555_000, "IDR", "IDR\N{NO-BREAK SPACE}555,000", "Rp555.000"),
    (-123_456, "USD", "\N{MINUS SIGN}$1,234.56", "\N{MINUS SIGN}US$1.234,56"),
    (5, "JPY", "\N{YEN SIGN}5", "JP\N{YEN SIGN}5"),
    (123_456, "HUF", "HUF\N{NO-BREAK SPACE}1,234.56", "HUF\N{NO-BREAK SPACE}1.234,56"),
    (123_450, "KWD", "KWD\N{NO-BREAK SPACE}123.450", "KWD\N{NO-BREAK SPACE}123,450"),
])  # fmt: skip
def test_money_is_written_in_the_unit_of_its_currency(
    amount: int, currency: str, english: str, indonesian: str
) -> None:
    assert (format_money(amount, currency, EN), format_money(amount, currency, ID)) == (english, indonesian)


@pytest.mark.parametrize("name", ["day", "day_of_week", "month"])
@pytest.mark.parametrize("language", Language)
def test_the_day_of_an_instant_is_its_day_in_wib(name: str, language: Language) -> None:
    """Every filter of templates that shows a day without its time."""
    shown = environment(language).filters[name]
    assert shown(AT) == shown(date(2026, 12, 1)) != shown(date(2026, 11, 30))
    assert shown(AT - timedelta(minutes=6)) == shown(date(2026, 11, 30))
    with pytest.raises(ValueError, match="time zone"):
        shown(AT.replace(tzinfo=None))


def test_a_chart_escapes_what_it_is_given_and_fits() -> None:
    chart = bar_chart([Bar((1, 2), "<b>"), Bar((0, 0), "none")], '"&')
    assert "<b>" not in chart
    assert "&lt;b&gt;" in chart
    assert "&#34;&amp;" in chart
    assert chart.count('class="part-') == 2


def test_a_chart_of_nothing_is_drawn() -> None:
    assert 'class="part-' not in bar_chart([], "empty")
    assert 'class="part-' not in bar_chart([Bar((0,), "a")], "zero")


@pytest.mark.parametrize(("highest", "step"), [
    (0, 1), (1, 1), (5, 1), (6, 2), (10, 2), (11, 5), (25, 5), (26, 10), (506, 200), (1001, 500),
    (90_000, 20_000),
])  # fmt: skip
def test_an_axis_has_rounded_steps(highest: int, step: int) -> None:
    assert axis_step(highest) == step


def test_a_chart_has_axes() -> None:
    """Steps from zero to above the highest bar in the language's numbers, and a label for the last day."""
    bars = [Bar((day * 100, 6), f"title {day}", f"day {day}") for day in range(30)]
    chart = environment(Language.INDONESIAN).globals["bar_chart"](bars, "Spending")  # type: ignore[operator]
    assert re.findall(r'class="step"[^>]*>([^<]+)<', chart) == ["0", "1.000", "2.000", "3.000"]
    assert re.findall(r'class="label"[^>]*>([^<]+)<', chart) == [f"day {day}" for day in (5, 13, 21, 29)]
    tops = [float(y) for y in re.findall(r'class="part-2"[^>]* y="([\d.]+)"', chart)]
    assert tops == sorted(tops, reverse=True)
    [*_, highest] = [float(y) for y in re.findall(r'class="grid"[^>]* y1="([\d.]+)"', chart)]
    assert min(tops) >= highest


def test_a_bar_shows_its_title_and_leads_on() -> None:
    chart = bar_chart([Bar((3,), "3 < 4", path="/a?b=1&c=2"), Bar((0,), "nothing")], "two")
    assert '<a class="slot" href="/a?b=1&amp;c=2" aria-label="3 &lt; 4">' in chart
    assert chart.count("<a ") == 1
    assert re.findall(r'class="tip \w+"[^>]*>([^<]+)<', chart) == ["3 &lt; 4", "nothing"]


def test_every_value_of_the_domain_that_a_page_shows_has_a_text() -> None:
    assert set(texts.MEETING_STATES) == {MeetingStatus(state.value) for state in MeetingState}
    assert set(texts.NOTE_STATES) == {NoteStatus(state.value) for state in NoteState}
    assert set(texts.EVENT_TEXTS) == set(EventKind) - {EventKind.WEBHOOK_TEST}
    for shown, values in (
        (texts.TRANSFER_KINDS, TransferKind), (texts.ENDPOINT_STATES, EndpointState),
        (texts.DELIVERY_STATES, DeliveryStatus), (texts.SCOPE_TEXTS, Scope), (texts.ROLE_TEXTS, Role),
        (texts.PAYMENT_STATES, PaymentStatus), (texts.PAYMENT_DOUBTS, Doubt),
        (texts.MESSAGE_SOURCES, MessageSource),
    ):  # fmt: skip
        assert set(shown) == set(values)
    assert list(OPTIONS) == [each.name for each in attrs.fields(MeetingOptions)]
