"""The fields of a request that a log line may hold."""

from typing import Final

MAX_PATH_CHARS: Final = 200
"""Characters of a path in a log line; a client may send one of some kilobytes."""


def loggable_path(path: str) -> str:
    """Return the path of a request, cut at `MAX_PATH_CHARS`."""
    return path if len(path) <= MAX_PATH_CHARS else f"{path[:MAX_PATH_CHARS]}…"
