"""Pages of a list: `limit`, an opaque `cursor`, and the refusal of anything else in the query."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

from attrs import frozen
from starlette.datastructures import QueryParams

from meetcore.domain.errors import InvalidRequest

__all__ = ["DEFAULT_LIMIT", "MAX_LIMIT", "Page", "page_of", "read_page"]

DEFAULT_LIMIT = 20
MAX_LIMIT = 100
_BAD_CURSOR = "must be a next_cursor that this list gave"

Item = TypeVar("Item")


@frozen
class Page:
    """What part of a list is asked for. `after` is the id of the last item seen, if any."""

    limit: int = DEFAULT_LIMIT
    after: str | None = None


def read_page(query: QueryParams) -> Page:
    """Read a list's query.

    Raises:
        InvalidRequest: an unknown parameter, one given twice, a limit out of range, a foreign cursor.
    """
    problems: dict[str, list[str]] = {}
    for name in query:
        if name not in ("limit", "cursor"):
            problems[name[:100]] = ["is not a parameter of this list"]
        elif len(query.getlist(name)) > 1:
            problems[name] = ["must be given once"]
    limit = query.get("limit", str(DEFAULT_LIMIT))
    is_number = limit.isascii() and limit.isdigit() and len(limit) <= len(str(MAX_LIMIT))
    if not (is_number and 1 <= int(limit) <= MAX_LIMIT):
        problems.setdefault("limit", [f"must be a whole number from 1 to {MAX_LIMIT}"])
    after = None
    if "cursor" in query:
        try:
            after = base64.b64decode(query["cursor"], altchars=b"-_", validate=True).decode()
        except (binascii.Error, ValueError):
            problems.setdefault("cursor", [_BAD_CURSOR])
    if problems:
        raise InvalidRequest(problems)
    return Page(int(limit), after)


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
    cut = items[start : start + page.limit]
    is_more = start + page.limit < len(items)
    return cut, base64.urlsafe_b64encode(id_of(cut[-1]).encode()).decode() if is_more else None
