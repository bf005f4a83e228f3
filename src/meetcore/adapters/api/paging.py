"""Lists: their filters, `limit`, an opaque `cursor`, and the refusal of anything else in the query.

A cursor names its list and the last item seen, so that one of another list is refused. It does not contain
the filters: the position in the order is the same under any filter.
"""

import base64
import binascii
import re
from collections.abc import Callable, Container, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, TypeVar
from uuid import UUID

import attrs
from attrs import field, frozen

from meetcore.adapters.api.answers import ApiResponse, render_record
from meetcore.domain.errors import InvalidRequest, NotFound
from meetcore.domain.fields import FieldInfo
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.schedule import read_instant
from meetcore.domain.records import accounts, meetings, notes, payments, webhooks

_INSTANT = "RFC 3339 with an offset, or YYYY-MM-DD for 00:00 WIB of that day."


@frozen
class Filter:
    """A parameter that narrows a list, or chooses how something is done.

    `read` turns its text into a value and raises ValueError with the problem. `schema` and `description`
    document it for callers, `in_url` explains its encoding in a URL.
    """

    read: Callable[[str], object]
    schema: Mapping[str, object]
    description: str
    in_url: str = ""


def one_of(values: Mapping[str, str], description: str) -> Filter:
    """Create a parameter that takes one of some values, by their names in the API."""

    def read(text: str) -> str:
        if text not in values:
            raise ValueError(f"must be one of {', '.join(values)}")
        return values[text]

    return Filter(read, {"type": "string", "enum": list(values)}, description)


def flag(description: str) -> Filter:
    """Create a boolean parameter, `true` or `false`."""

    def read(text: str) -> bool:
        if text not in ("true", "false"):
            raise ValueError("must be true or false")
        return text == "true"

    return Filter(read, {"type": "boolean"}, description)


def whole_number(least: int, most: int, description: str) -> Filter:
    """Create a parameter for a whole number within bounds."""

    def read(text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
        if not (is_number and least <= int(text) <= most):
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(text)

    return Filter(read, {"type": "integer", "minimum": least, "maximum": most}, description)


def record_id(description: str) -> Filter:
    """Create a parameter for a record id; a text that is no id matches nothing."""

    def read(text: str) -> UUID:
        if not text:
            raise ValueError("must be an id")
        try:
            return parse_id(text, "record")
        except NotFound:
            return UUID(int=0)

    return Filter(read, {"type": "string", "minLength": 1}, description)


def instant(description: str) -> Filter:
    """Create a parameter for an instant, or for a day, which means its beginning in WIB."""
    forms = [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]
    return Filter(read_instant, {"anyOf": forms}, f"{description} {_INSTANT}", "Write + as %2B.")


DEFAULT_LIMIT = 20
MAX_LIMIT = 100
_BAD_CURSOR = "must be a next_cursor that this list gave"
_IN_LIST = " "  # no place has it
_NUMBER = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)  # fits the database's integers

Item = TypeVar("Item")

Query = Mapping[str, Sequence[str]]
"""The values of each parameter of a request, by its name."""


class Named(Enum):
    """The kind of id that the items of a list have, and so a cursor holds."""

    UUID = "uuid"
    NUMBER = "number"
    SLUG = "slug"


@frozen
class Listing:
    """The filters of a list by their names, and `ranges`: pairs of them, the first not after the second."""

    filters: Mapping[str, Filter] = field(factory=dict)
    ranges: Sequence[tuple[str, str]] = ()
    named_by: Named = Named.UUID


@frozen
class Page:
    """The requested part of the list `of`, after the last item seen, if any, by the given filters."""

    of: str = ""
    limit: int = DEFAULT_LIMIT
    after: str | None = None
    filters: Mapping[str, Any] = field(factory=dict)

    @property
    def before(self) -> UUID | None:
        """The id to continue below, in a list that is sorted by UUID with the newest first."""
        return None if self.after is None else UUID(self.after)


def read_page(query: Query, listing: Listing, of: str) -> Page:
    """Read the query of a list, which has a unique name, such as its path.

    Raises `InvalidRequest` for an unknown parameter, one given twice, a limit out of range, a cursor that
    another list gave, a filter by a value that it does not know, a range that ends before it begins.
    """
    given, problems = _given(query, ("limit", "cursor", *listing.filters), "list")
    limit = given.get("limit", str(DEFAULT_LIMIT))
    is_number = limit.isascii() and limit.isdigit() and len(limit) <= len(str(MAX_LIMIT))
    if not (is_number and 1 <= int(limit) <= MAX_LIMIT):
        problems.setdefault("limit", [f"must be a whole number from 1 to {MAX_LIMIT}"])
    after = None
    if "cursor" in given:
        after = _read_cursor(given["cursor"], listing, of)
        if after is None:
            problems.setdefault("cursor", [_BAD_CURSOR])
    filters = _read_filters(given, listing, problems)
    if problems:
        raise InvalidRequest(problems)
    return Page(of, int(limit), after, filters)


def read_options(query: Query, options: Mapping[str, Filter]) -> dict[str, Any]:
    """Read the query of an operation that is no list: the values of the options that were given.

    Raises `InvalidRequest` for an unknown parameter, one given twice, or a value that an option does not
    know.
    """
    given, problems = _given(query, options, "operation")
    found = _read_known(given, options, problems)
    if problems:
        raise InvalidRequest(problems)
    return found


def _given(query: Query, known: Container[str], of: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the last value of each parameter, and the problems of those that are unknown or given twice."""
    problems: dict[str, list[str]] = {}
    for name in query:
        if name not in known:
            problems[name[:100]] = [f"is not a parameter of this {of}"]
        elif len(query[name]) > 1:
            problems[name] = ["must be given once"]
    return {name: values[-1] for name, values in query.items()}, problems


def _read_known(
    given: Mapping[str, str], known: Mapping[str, Filter], problems: dict[str, list[str]]
) -> dict[str, Any]:
    """Return the values of the valid parameters; the problems of the others go to `problems`."""
    found: dict[str, Any] = {}
    for name, each in known.items():
        if name in given:
            try:
                found[name] = each.read(given[name])
            except ValueError as error:
                problems.setdefault(name, [str(error)])
    return found


def _read_filters(
    given: Mapping[str, str], listing: Listing, problems: dict[str, list[str]]
) -> dict[str, Any]:
    found = _read_known(given, listing.filters, problems)
    for first, last in listing.ranges:
        if first in found and last in found and found[first] > found[last]:
            problems.setdefault(first, [f"must not be after {last}"])
    return found


def _read_cursor(text: str, listing: Listing, of: str) -> str | None:
    try:
        named, _, after = base64.b64decode(text, altchars=b"-_", validate=True).decode().partition(_IN_LIST)
        if named != of:
            return None
        return _checked(after, listing.named_by)
    except (binascii.Error, ValueError, NotFound):
        return None


def _checked(after: str, named_by: Named) -> str:
    if named_by is Named.UUID:
        return str(parse_id(after, "item"))
    if named_by is Named.NUMBER and not _NUMBER.fullmatch(after):
        raise ValueError("no number")
    return after


def cursor_after(page: Page, id_: str) -> str:
    """Return the cursor of the page that begins after an item."""
    return base64.urlsafe_b64encode(f"{page.of}{_IN_LIST}{id_}".encode()).decode()


def slice_page(
    items: Sequence[Item], page: Page, id_of: Callable[[Item], object]
) -> tuple[Sequence[Item], str | None]:
    """Split items from a cursor on, one more than the limit, into the page and the next cursor, if any."""
    shown = items[: page.limit]
    return shown, cursor_after(page, str(id_of(shown[-1]))) if len(items) > page.limit else None


def render_list(
    found: Sequence[Item], page: Page, id_of: Callable[[Item], object], to_record: Callable[[Item], object]
) -> ApiResponse:
    """Answer with the records of a page of items; see `slice_page`."""
    shown, cursor = slice_page(found, page, id_of)
    return render_record(200, {"data": [to_record(each) for each in shown], "next_cursor": cursor})


def page_of(
    items: Sequence[Item], page: Page, id_of: Callable[[Item], str]
) -> tuple[Sequence[Item], str | None]:
    """Take a page out of a whole list; raise `InvalidRequest` where the cursor names nothing in it."""
    start = 0
    if page.after is not None:
        places = [place for place, item in enumerate(items) if id_of(item) == page.after]
        if not places:
            raise InvalidRequest({"cursor": [_BAD_CURSOR]})
        start = places[0] + 1
    return slice_page(items[start : start + page.limit + 1], page, id_of)


_Cursor: Any = Annotated[
    str | None, FieldInfo("What to give as `cursor` for the next page; null on the last.")
]


def _list_of(record: type, about: str) -> type:
    fields = {
        "data": attrs.field(type=tuple[record, ...]),  # type: ignore[valid-type]
        "next_cursor": attrs.field(type=_Cursor),
    }
    return attrs.make_class(f"{record.__name__}List", fields, class_body={"__doc__": about}, frozen=True)


MeetingList = _list_of(meetings.Meeting, "The account's meetings, the newest first.")
TransactionList = _list_of(accounts.Transaction, "The account's transactions, the newest first.")
WebhookList = _list_of(webhooks.Webhook, "The account's webhooks, the newest first.")
DeliveryList = _list_of(webhooks.Delivery, "The deliveries to a webhook, the newest first.")
EventList = _list_of(webhooks.Event, "What happened in the account, the newest first.")
TierList = _list_of(accounts.Tier, "The tiers on sale.")
PackageList = _list_of(payments.CreditPackage, "The packages of credits on sale.")
TopupList = _list_of(payments.Topup, "The account's payments for credits, the newest first.")
RecordingList = _list_of(notes.Recording, "The account's recordings, the newest first.")
NoteList = _list_of(notes.Note, "The account's notes, the newest first.")
