"""The fields of a request that a log line may hold."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from structlog.contextvars import bind_contextvars, reset_contextvars, unbind_contextvars

MAX_PATH_CHARS: Final = 200
"""Characters of a path in a log line; a client may send one of some kilobytes."""


def loggable_path(path: str) -> str:
    """Return the path of a request, cut at `MAX_PATH_CHARS`."""
    return path if len(path) <= MAX_PATH_CHARS else f"{path[:MAX_PATH_CHARS]}…"


@contextmanager
def fields_of_request(request_id: str) -> Iterator[None]:
    """Put the id of a request on every line that is logged of it, and its account once that is known."""
    tokens = bind_contextvars(request_id=request_id)
    try:
        yield
    finally:
        unbind_contextvars("account_id")
        reset_contextvars(**tokens)
