"""A call before it is sent: the request, and the type of its result.

Owns path, query, body and idempotency key. Raises ValueError or TypeError for what cannot be sent (an empty
id, a time without an offset) and leaves the rules of the API to the API. A call is a value: it is made once
and sent unchanged at each attempt.
"""

import json
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Generic, TypeVar, cast
from urllib.parse import quote
from uuid import UUID, uuid4

from attrs import evolve, field, frozen

from meetcore.client.records import Page
from meetcore.domain.requests.idempotency import MAX_KEY_LENGTH, is_idempotency_key
from meetcore.domain.webhooks.endpoints import Unset

__all__ = [
    "Call", "Id", "Listing", "Moment", "change", "day_text", "encode", "given", "instant_text", "path_of",
    "read", "read_pages", "time_text",
]  # fmt: skip

T = TypeVar("T")
Id = str | UUID
Moment = datetime | date | str


@frozen
class Call(Generic[T]):
    """One call. A success is decoded to `into`: NoneType for no body, `str` for a text.

    Failures are retried: one that is no GET has an idempotency key, a new one unless it is given.
    """

    method: str
    path: str
    into: type[T]
    query: Mapping[str, str] = field(factory=dict)
    body: bytes | None = field(default=None, repr=False)
    idempotency_key: str | None = field()

    @idempotency_key.default
    def _new_key(self) -> str | None:
        return None if self.method == "GET" else str(uuid4())


@frozen
class Listing(Generic[T]):
    """A list that is read page after page; `first` requests the first page."""

    first: Call[Page[T]]

    def page(self, cursor: str | None) -> Call[Page[T]]:
        """Return the call for the page at a cursor; for None the first."""
        if cursor is None:
            return self.first
        return evolve(self.first, query={**self.first.query, "cursor": cursor})


def read(path: str, into: type[T], query: Mapping[str, str | None] | None = None) -> Call[T]:
    """Describe a call that changes nothing."""
    return Call("GET", path, into, cast(dict[str, str], given(**(query or {}))))


def read_pages(
    path: str,
    into: type[T],
    page_size: int | None,
    *,
    from_: Moment | None = None,
    to: Moment | None = None,
    **filters: Id | None,
) -> Listing[T]:
    """Describe a list: its filters, and how many items a page holds."""
    query = {name: str(value) for name, value in given(limit=page_size, **filters).items()}
    span = {"from": instant_text(from_), "to": instant_text(to)}
    return Listing(read(path, Page[into], query | span))  # type: ignore[valid-type]


def change(
    method: str,
    path: str,
    into: type[T],
    idempotency_key: str | None,
    body: Mapping[str, object] | None = None,
    query: Mapping[str, str] | None = None,
) -> Call[T]:
    """Describe a call that changes something, under the given valid idempotency key or a new one."""
    key = str(uuid4()) if idempotency_key is None else idempotency_key
    if not is_idempotency_key(key):
        raise ValueError(f"an idempotency key is 1 to {MAX_KEY_LENGTH} visible ASCII characters")
    return Call(method, path, into, query or {}, None if body is None else encode(body), key)


def given(**fields: object) -> dict[str, object]:
    """Drop the fields that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def encode(body: Mapping[str, object]) -> bytes:
    """Encode a body as JSON, without the fields that are `Unset`."""
    fields = {name: value for name, value in body.items() if not isinstance(value, Unset)}
    return json.dumps(
        fields, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_as_text
    ).encode()


def _as_text(value: object) -> str:
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def path_of(*parts: Id) -> str:
    """Join a path of the API, each part escaped; raise `ValueError` for one that names another path."""
    texts = [str(part) for part in parts]
    if any(text in ("", ".", "..") for text in texts):
        raise ValueError("an id must not be empty")
    return "".join(f"/{quote(text, safe='')}" for text in texts)


def day_text(day: date | str) -> str:
    """Format a day in WIB as `YYYY-MM-DD`; raise `TypeError` for a datetime, whose day differs by zone."""
    if isinstance(day, datetime):
        raise TypeError("give the day in WIB (UTC+7): start.astimezone(WIB).date()")
    return day.isoformat() if isinstance(day, date) else day


def time_text(at: time | str) -> str:
    """Format a time of day as `HH:mm`; raise `ValueError` for an offset or less than a minute."""
    if isinstance(at, str):
        return at
    if at.tzinfo is not None or at.second or at.microsecond:
        raise ValueError("give the time in WIB (UTC+7), in whole minutes and without an offset")
    return at.strftime("%H:%M")


def instant_text(at: Moment | None) -> str | None:
    """Format an instant as RFC 3339, a day as `YYYY-MM-DD`; raise `ValueError` without an offset."""
    if isinstance(at, datetime) and at.utcoffset() is None:
        raise ValueError("give a datetime with an offset, such as datetime.now(UTC)")
    return at.isoformat() if isinstance(at, date) else at
