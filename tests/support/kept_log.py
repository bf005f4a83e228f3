"""A log that keeps its lines, and the lines of a test."""

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import structlog
from attrs import field, frozen
from structlog.testing import capture_logs

_LOGGED_BY: ContextVar[object] = ContextVar("logged_by", default=None)


@contextmanager
def capture_own_logs() -> Iterator[list[MutableMapping[str, Any]]]:
    """Capture what the calling test logs, also in tasks and threads that it starts; other tasks log, too."""
    test = object()

    def drop_others(_: object, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if _LOGGED_BY.get() is not test:
            raise structlog.DropEvent
        return line

    token = _LOGGED_BY.set(test)
    try:
        with capture_logs(processors=[drop_others]) as lines:
            yield lines
    finally:
        _LOGGED_BY.reset(token)


@frozen
class KeptLog:
    """Fills every port of a log that tests give to an adapter."""

    lines: list[tuple[str, dict[str, object]]] = field(factory=list)

    def warning(self, event: str, /, **fields: object) -> None:
        self.lines.append((event, fields))

    info = error = exception = warning

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.lines]
