"""Where use cases and adapters report what they do as spans of a trace.

A trace begins with a request that is recorded, or with work that such a request caused; everything else costs
next to nothing. The port owns the names of what is reported; whether, how and where spans are kept is its
adapter's business. No call waits, fails or decides anything. Nothing that is reported holds a title, a
password, an address, a path, a statement's parameters or the text of an error: names, ids of records, codes
and counts.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol
from uuid import UUID

__all__ = ["NO_TRACING", "Detail", "NoTracing", "Tracing"]

Detail = str | int | float | bool | UUID | None
"""What a span says under a name; `None` says nothing. The detail `error`, a code, marks it as failed."""

RawHeaders = Iterable[tuple[bytes, bytes]]


class Tracing(Protocol):
    """Keeps spans of one process. A span is open in the task that opened it, and in those that it starts."""

    def request(self, headers: RawHeaders) -> AbstractContextManager[object]:
        """Take in a request while the context lasts: record it, pass on its caller's trace, or neither.

        Args:
            headers: as they came, names in lower case. A bad `traceparent` counts as none.
        """

    def span(self, name: str, **details: Detail) -> AbstractContextManager[object]:
        """Record what is done while the context lasts, inside the span that is open; nothing without one.

        An exception that leaves the context marks the span as failed, by the exception's type.
        """

    def caused(self, name: str, cause: str | None, **details: Detail) -> AbstractContextManager[object]:
        """Record work that an earlier span caused, as a trace of its own with a link to it.

        Args:
            cause: what `cause` returned then; with `None` nothing is recorded.
        """

    def resumed(self, place: str | None) -> AbstractContextManager[object]:
        """Let the log lines of the context belong to the trace of a span that is over.

        Args:
            place: what `cause` returned in that span.
        """

    def describe(self, name: str | None = None, **details: Detail) -> None:
        """Add details to the span that is open, if any, and replace its name where one is given."""

    def headers(self) -> Mapping[str, str]:
        """Return the headers by which what is called now can continue the trace; empty without one."""

    def cause(self) -> str | None:
        """Return the span that is open, to be kept with what it causes; `None` without one."""


class NoTracing:
    """Keeps nothing. Fills `Tracing`."""

    def request(self, headers: RawHeaders) -> AbstractContextManager[object]:
        """Do nothing."""
        return NOT_RECORDED

    def span(self, name: str, **details: Detail) -> AbstractContextManager[object]:
        """Do nothing."""
        return NOT_RECORDED

    def caused(self, name: str, cause: str | None, **details: Detail) -> AbstractContextManager[object]:
        """Do nothing."""
        return NOT_RECORDED

    def resumed(self, place: str | None) -> AbstractContextManager[object]:
        """Do nothing."""
        return NOT_RECORDED

    def describe(self, name: str | None = None, **details: Detail) -> None:
        """Do nothing."""

    def headers(self) -> Mapping[str, str]:
        """Return nothing."""
        return NO_HEADERS

    def cause(self) -> str | None:
        """Return nothing."""
        return None


NO_HEADERS: Final[Mapping[str, str]] = {}
NOT_RECORDED: Final[AbstractContextManager[object]] = nullcontext()
"""The context of what is not recorded; it may be entered any number of times."""

NO_TRACING: Tracing = NoTracing()
"""For a process whose spans nobody reads."""
