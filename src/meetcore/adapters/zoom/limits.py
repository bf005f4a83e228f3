"""Which limit an answer of 429 names, and how long it asks to wait.

Owns the reading only.
"""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Final

from meetcore.adapters.zoom.http import HttpResponse

# A host's limit comes without any header; only its message distinguishes it from the others.
_OF_A_HOST: Final = "particular user"
_OF_A_DAY: Final = "daily"
# A limit of a second is over in one. A reset further away means that Zoom's clock differs from ours.
_LONGEST_RESET_S: Final = 5.0


class Limit(Enum):
    """What was used up."""

    SECOND = auto()
    ACCOUNT_DAY = auto()
    HOST_DAY = auto()


def limit_of(response: HttpResponse) -> Limit:
    """The limit that was met; one of a second by default."""
    message = response.message.lower()
    kind = response.headers.get("X-RateLimit-Type", "").lower()
    if _OF_A_HOST in message:
        return Limit.HOST_DAY
    if _OF_A_DAY in kind or (not kind and _OF_A_DAY in message):
        return Limit.ACCOUNT_DAY
    return Limit.SECOND


def retry_after_s(response: HttpResponse, now: datetime) -> float | None:
    """Seconds until the instant that the answer names; `None` when it names none.

    `Retry-After` is a date-time at Zoom; seconds and HTTP's own form are understood too.
    """
    text = response.headers.get("Retry-After", "").strip()
    if not text:
        reset = response.headers.get("X-RateLimit-Reset", "").strip()
        wait_s = int(reset) - now.timestamp() if _is_number(reset) else None
        return None if wait_s is None or wait_s > _LONGEST_RESET_S else max(0.0, wait_s)
    if _is_number(text):
        return float(text)
    at = _instant(text)
    return None if at is None else max(0.0, (at - now).total_seconds())


def next_utc_midnight(now: datetime) -> datetime:
    """When a host's creations are counted anew."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today + timedelta(days=1)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12


def _instant(text: str) -> datetime | None:
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            at = read(text)
        except (ValueError, OverflowError):
            continue
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return None
