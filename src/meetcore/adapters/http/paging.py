"""Pages of a list: `limit`, an opaque `cursor`, filters, and the refusal of anything else in the query."""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from attrs import field, frozen
from starlette.datastructures import QueryParams

from meetcore.domain.errors import InvalidRequest, NotFound
from meetcore.domain.ids import parse_id

__all__ = ["DEFAULT_LIMIT", "MAX_LIMIT", "Listing", "Page", "cut", "page_of", "read_page"]

DEFAULT_LIMIT = 20
MAX_LIMIT = 100
_BAD_CURSOR = "must be a next_cursor that this list gave"

Item = TypeVar("Item")


@frozen
class Listing:
    """What a list takes beside `limit` and `cursor`.

    `filters` names the further parameters and the values that each knows. `has_uuids` tells that its items
    are named by UUIDs, so that a cursor must hold one.
    """

    filters: Mapping[str, Sequence[str]] = field(factory=dict)
    has_uuids: bool = True


@frozen
class Page:
    """What part of a list is asked for. `after` is the id of the last item seen, if any."""

    limit: int = DEFAULT_LIMIT
    after: str | None = None
    filters: Mapping[str, str] = field(factory=dict)

    @property
    def before(self) -> UUID | None:
        """Below which id to go on in a list whose ids are UUIDs and which has the newest first."""
        return None if self.after is None else UUID(self.after)


def read_page(query: QueryParams, listing: Listing) -> Page:
    """Read a list's query.

    Raises:
        InvalidRequest: an unknown parameter, one given twice, a limit out of range, a foreign cursor, a
            filter by a value that it does not know.
    """
    problems: dict[str, list[str]] = {}
    for name in query:
        if name not in ("limit", "cursor", *listing.filters):
            problems[name[:100]] = ["is not a parameter of this list"]
        elif len(query.getlist(name)) > 1:
            problems[name] = ["must be given once"]
    limit = query.get("limit", str(DEFAULT_LIMIT))
    is_number = limit.isascii() and limit.isdigit() and len(limit) <= len(str(MAX_LIMIT))
    if not (is_number and 1 <= int(limit) <= MAX_LIMIT):
        problems.setdefault("limit", [f"must be a whole number from 1 to {MAX_LIMIT}"])
    after = None
    if "cursor" in query:
        after = _read_cursor(query["cursor"], listing)
        if after is None:
            problems.setdefault("cursor", [_BAD_CURSOR])
    filters = {name: query[name] for name in listing.filters if name in query}
    for name, value in filters.items():
        if value not in listing.filters[name]:
            problems.setdefault(name, [f"must be one of {', '.join(listing.filters[name])}"])
    if problems:
        raise InvalidRequest(problems)
    return Page(int(limit), after, filters)


def _read_cursor(text: str, listing: Listing) -> str | None:
    try:
        after = base64.b64decode(text, altchars=b"-_", validate=True).decode()
        return str(parse_id(after, "item")) if listing.has_uuids else after
    except (binascii.Error, ValueError, NotFound):
        return None


def _cursor_after(id_: str) -> str:
    return base64.urlsafe_b64encode(id_.encode()).decode()


def cut(
    items: Sequence[Item], page: Page, id_of: Callable[[Item], object]
) -> tuple[Sequence[Item], str | None]:
    """A page of items that were read from its place on, one more than the limit if there was one.

    Returns:
        The items, and the next cursor if there is more.
    """
    shown = items[: page.limit]
    return shown, _cursor_after(str(id_of(shown[-1]))) if len(items) > page.limit else None


def page_of(
    items: Sequence[Item], page: Page, id_of: Callable[[Item], str]
) -> tuple[Sequence[Item], str | None]:
    """Cut a page out of a short list that is known whole: the items, and the next cursor if there is more.

    Raises:
        InvalidRequest: the cursor names nothing in the list.
    """
    start = 0
    if page.after is not None:
        places = [place for place, item in enumerate(items) if id_of(item) == page.after]
        if not places:
            raise InvalidRequest({"cursor": [_BAD_CURSOR]})
        start = places[0] + 1
    return cut(items[start : start + page.limit + 1], page, id_of)
