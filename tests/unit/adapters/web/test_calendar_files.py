"""Files for calendars: escaping and folding lose nothing, and no text adds a line."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.adapters.web.calendar_files import MAX_LINE_BYTES, CalendarEvent, calendar_file, escape, fold

AT = datetime(2026, 12, 1, 2, tzinfo=UTC)
EVENT = CalendarEvent(
    UUID(int=7), "Rapat; tim, A\\B", AT, AT.replace(hour=3), "Agenda\nBudget",
    "https://meet.example/j/1?pwd=a,b",
)  # fmt: skip
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


def unfolded(file: bytes) -> list[str]:
    assert file.endswith(b"\r\n")
    assert all(len(line) <= MAX_LINE_BYTES for line in file.split(b"\r\n"))
    return file.decode().replace("\r\n ", "").removesuffix("\r\n").split("\r\n")


def test_the_file_of_an_event() -> None:
    assert unfolded(calendar_file(EVENT, AT)) == [
        "BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//meetcore//meetings//EN", "METHOD:PUBLISH",
        "BEGIN:VEVENT", "UID:00000000-0000-0000-0000-000000000007",
        "DTSTAMP:20261201T020000Z", "DTSTART:20261201T020000Z", "DTEND:20261201T030000Z",
        r"SUMMARY:Rapat\; tim\, A\\B", r"DESCRIPTION:Agenda\nBudget",
        r"LOCATION:https://meet.example/j/1?pwd=a\,b", "URL:https://meet.example/j/1?pwd=a,b",
        "STATUS:CONFIRMED", "END:VEVENT", "END:VCALENDAR",
    ]  # fmt: skip


def test_without_a_link_the_file_has_none_and_says_what_is_cancelled() -> None:
    lines = unfolded(calendar_file(evolve(EVENT, url="", description="", is_cancelled=True), AT))
    assert not [line for line in lines if line.startswith(("URL", "LOCATION", "DESCRIPTION"))]
    assert "STATUS:CANCELLED" in lines


@given(TEXTS, TEXTS, TEXTS)
def test_no_text_adds_a_line(title: str, description: str, url: str) -> None:
    event = evolve(EVENT, title=title, description=description, url=url)
    lines = unfolded(calendar_file(event, AT))
    names = [line.partition(":")[0] for line in lines]
    assert names.count("BEGIN") == names.count("END") == 2
    assert set(names) <= {
        "BEGIN", "END", "VERSION", "PRODID", "METHOD", "UID", "DTSTAMP", "DTSTART", "DTEND", "SUMMARY",
        "DESCRIPTION", "LOCATION", "URL", "STATUS",
    }  # fmt: skip


@given(TEXTS)
def test_folding_loses_nothing(text: str) -> None:
    line = "SUMMARY:" + escape(text)
    assert unfolded(fold(line)) == [line]
