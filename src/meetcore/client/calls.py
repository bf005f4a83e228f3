"""A call before it is made: the request, and the type of its answer.

Owns the text of a request: its path, its query, its body, its idempotency key. Refuses what could not be
meant (an empty id, a time without an offset) with a ValueError before anything is sent, and leaves every rule
of the API to the API. A call is a value: made once, sent as often as it takes, the same every time.
"""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from secrets import token_bytes
from typing import Generic, TypeVar
from urllib.parse import quote
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.client.records import Page
from meetcore.domain.ids import RANDOM_BYTES, uuid7
from meetcore.domain.requests.idempotency import MAX_KEY_LENGTH, is_key
from meetcore.domain.webhooks.endpoints import Unset

__all__ = [
    "Call",
    "Id",
    "Listing",
    "change",
    "day_text",
    "instant_text",
    "page_query",
    "path_of",
    "read",
    "time_text",
]

T = TypeVar("T")
Id = str | UUID


@frozen
class Call(Generic[T]):
    """One call. `into` is what a success is read as; NoneType for one without a
    body, `str` for one that is a text."""

    method: str
    path: str
    into: type[T]
    query: Mapping[str, str] = field(factory=dict)
    body: bytes | None = field(default=None, repr=False)
    idempotency_key: str | None = None


@frozen
class Listing(Generic[T]):
    """A list to be read page after page; `first` asks for the first one."""

    first: Call[Page[T]]

    def page(self, cursor: str | None) -> Call[Page[T]]:
        """The call for the page at a cursor; None is where the list was begun."""
        if cursor is None:
            return self.first
        return evolve(self.first, query={**self.first.query, "cursor": cursor})


def page_query(page_size: int | None, **filters: str | None) -> dict[str, str | None]:
    """The query of a list: how many at once, and what narrows it."""
    return {"limit": None if page_size is None else str(page_size), **filters}


def read(path: str, into: type[T], query: Mapping[str, str | None] | None = None) -> Call[T]:
    """Describe a call that changes nothing."""
    parameters = {name: value for name, value in (query or {}).items() if value is not None}
    return Call("GET", path, into, parameters)


def change(
    method: str,
    path: str,
    into: type[T],
    idempotency_key: str | None,
    body: Mapping[str, object] | None = None,
    query: Mapping[str, str] | None = None,
) -> Call[T]:
    """Describe a call that changes something: it has an idempotency key, the caller's or a fresh one.

    Raises:
        ValueError: the key is invalid.
    """
    key = _new_key() if idempotency_key is None else idempotency_key
    if not is_key(key):
        raise ValueError(f"an idempotency key is 1 to {MAX_KEY_LENGTH} visible ASCII characters")
    return Call(method, path, into, query or {}, None if body is None else encode(body), key)


def _new_key() -> str:
    # It states when it was made: a service whose records of that time were lost can refuse it.
    return str(uuid7(datetime.now(UTC), token_bytes(RANDOM_BYTES)))


def encode(body: Mapping[str, object]) -> bytes:
    """The JSON of a body, without the fields that were not given."""
    given = {name: value for name, value in body.items() if not isinstance(value, Unset)}
    return json.dumps(
        given, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_as_text
    ).encode()


def _as_text(value: object) -> str:
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no value of JSON")


def path_of(*parts: Id) -> str:
    """A path of the API, each part escaped.

    Raises:
        ValueError: a part is empty, or would name another path.
    """
    texts = [str(part) for part in parts]
    if any(text in ("", ".", "..") for text in texts):
        raise ValueError("an id must not be empty")
    return "".join(f"/{quote(text, safe='')}" for text in texts)


def day_text(day: date | str) -> str:
    """A day as `YYYY-MM-DD`.

    Raises:
        TypeError: a datetime, which is a different day in another zone: the API wants the day in WIB.
    """
    if isinstance(day, datetime):
        raise TypeError("give the day in WIB (UTC+7): start.astimezone(WIB).date()")
    return day.isoformat() if isinstance(day, date) else day


def time_text(at: time | str) -> str:
    """A time of day as `HH:mm`.

    Raises:
        ValueError: it has an offset, or is finer than a minute.
    """
    if isinstance(at, str):
        return at
    if at.tzinfo is not None or at.second or at.microsecond:
        raise ValueError("give the time in WIB (UTC+7), in whole minutes and without an offset")
    return at.strftime("%H:%M")


def instant_text(at: datetime | date | str | None) -> str | None:
    """An instant as RFC 3339, or a day as it is.

    Raises:
        ValueError: a datetime without an offset.
    """
    if isinstance(at, datetime) and at.utcoffset() is None:
        raise ValueError("give a datetime with an offset, such as datetime.now(UTC)")
    return at.isoformat() if isinstance(at, date) else at
