"""Pages of a list: `limit`, an opaque `cursor`, filters, and the refusal of anything else in the query.

A cursor names its list and the last item seen, so that one of another list is refused. It does not contain
the filters: the position in the order is the same under any filter.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar
from uuid import UUID

from attrs import field, frozen

from meetcore.adapters.api.filters import Filter
from meetcore.domain.errors import InvalidRequest, NotFound
from meetcore.domain.ids import parse_id

DEFAULT_LIMIT = 20
MAX_LIMIT = 100
_BAD_CURSOR = "must be a next_cursor that this list gave"
_IN_LIST = " "  # no id has it
_NUMBER = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)  # fits the database's integers

Item = TypeVar("Item")

Query = Mapping[str, Sequence[str]]
"""What a request asks: the values of each parameter, by its name."""


class Named(Enum):
    """The kind of id that the items of a list have, and so a cursor holds."""

    UUID = "uuid"
    NUMBER = "number"
    SLUG = "slug"


@frozen
class Listing:
    """The parameters of a list beside `limit` and `cursor`.

    `filters` are the further parameters by their names, `ranges` pairs of them of which the first must not be
    after the second.
    """

    filters: Mapping[str, Filter] = field(factory=dict)
    ranges: Sequence[tuple[str, str]] = ()
    named_by: Named = Named.UUID


@frozen
class Page:
    """The requested part of a list.

    `of` names the list, `after` is the id of the last item seen, if any; `filters` are the values of those
    that were given.
    """

    of: str = ""
    limit: int = DEFAULT_LIMIT
    after: str | None = None
    filters: Mapping[str, Any] = field(factory=dict)

    @property
    def before(self) -> UUID | None:
        """The id to continue below, in a list that is sorted by UUID with the newest first."""
        return None if self.after is None else UUID(self.after)


def read_page(query: Query, listing: Listing, of: str) -> Page:
    """Read a list's query.

    Args:
        query: the query string of the request.
        of: a unique name of the list, such as its path.

    Raises:
        InvalidRequest: an unknown parameter, one given twice, a limit out of range, a cursor that another
            list gave, a filter by a value that it does not know, a range that ends before it begins.
    """
    problems: dict[str, list[str]] = {}
    for name in query:
        if name not in ("limit", "cursor", *listing.filters):
            problems[name[:100]] = ["is not a parameter of this list"]
        elif len(query[name]) > 1:
            problems[name] = ["must be given once"]
    given = {name: values[-1] for name, values in query.items()}
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

    Raises:
        InvalidRequest: an unknown parameter, one given twice, a value that an option does not know.
    """
    problems: dict[str, list[str]] = {}
    for name in query:
        if name not in options:
            problems[name[:100]] = ["is not a parameter of this operation"]
        elif len(query[name]) > 1:
            problems[name] = ["must be given once"]
    found = _read_known({name: values[-1] for name, values in query.items()}, options, problems)
    if problems:
        raise InvalidRequest(problems)
    return found


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
        named, _, after = base64.b64decode(text, altchars=b"-_", validate=True).decode().rpartition(_IN_LIST)
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
    """A page of items that were read from its place on, one more than the limit if there was one.

    Returns:
        The items, and the next cursor if there is more.
    """
    shown = items[: page.limit]
    return shown, cursor_after(page, str(id_of(shown[-1]))) if len(items) > page.limit else None


def page_of(
    items: Sequence[Item], page: Page, id_of: Callable[[Item], str]
) -> tuple[Sequence[Item], str | None]:
    """Take a page out of a short list that is fully loaded: the items, and the next cursor if there is more.

    Raises:
        InvalidRequest: the cursor names nothing in the list.
    """
    start = 0
    if page.after is not None:
        places = [place for place, item in enumerate(items) if id_of(item) == page.after]
        if not places:
            raise InvalidRequest({"cursor": [_BAD_CURSOR]})
        start = places[0] + 1
    return slice_page(items[start : start + page.limit + 1], page, id_of)
