"""Meetings as files for calendars: iCalendar (RFC 5545), one event each."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from attrs import field, frozen

MEDIA_TYPE: Final = "text/calendar; charset=utf-8"
MAX_LINE_BYTES: Final = 75
"""Octets of a line without its break (RFC 5545, 3.1)."""
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@frozen
class CalendarEvent:
    """An event; its id alone is a UID (RFC 7986, 5.3). `url` is empty where it must not be shown."""

    id: UUID
    title: str
    starts_at: datetime
    ends_at: datetime
    description: str = field(repr=False)
    url: str = field(repr=False)
    is_cancelled: bool = False


def calendar_file(event: CalendarEvent, now: datetime) -> bytes:
    """Return the file of an event, made at `now`."""
    values: Sequence[tuple[str, str]] = (
        ("BEGIN", "VCALENDAR"),
        ("VERSION", "2.0"),
        ("PRODID", "-//meetcore//meetings//EN"),
        ("METHOD", "PUBLISH"),
        ("BEGIN", "VEVENT"),
        ("UID", str(event.id)),
        ("DTSTAMP", _instant(now)),
        ("DTSTART", _instant(event.starts_at)),
        ("DTEND", _instant(event.ends_at)),
        ("SUMMARY", escape(event.title)),
        ("DESCRIPTION", escape(event.description)),
        ("LOCATION", escape(event.url)),
        ("URL", _CONTROLS.sub("", event.url).replace("\n", "")),
        ("STATUS", "CANCELLED" if event.is_cancelled else "CONFIRMED"),
        ("END", "VEVENT"),
        ("END", "VCALENDAR"),
    )
    return b"".join(fold(f"{name}:{value}") for name, value in values if value)


def escape(text: str) -> str:
    """Escape a TEXT value (RFC 5545, 3.3.11); control characters are left out."""
    plain = _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    escaped = re.sub(r"([\\;,])", r"\\\1", plain)
    return escaped.replace("\n", "\\n")


def fold(line: str) -> bytes:
    """Break a line into pieces of at most 75 octets, never within a character (RFC 5545, 3.1)."""
    pieces, piece = [], b""
    for character in line:
        encoded = character.encode("utf-8", "replace")
        if len(piece) + len(encoded) > MAX_LINE_BYTES:
            pieces.append(piece)
            piece = b" "
        piece += encoded
    return b"\r\n".join([*pieces, piece]) + b"\r\n"


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
