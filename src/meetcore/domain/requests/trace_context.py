"""The `traceparent` header of W3C Trace Context: which trace a request belongs to, and which span caused it.

Owns its form. Whether a trace is recorded is decided elsewhere. `tracestate`, which holds data of other
vendors, is neither read nor passed on.
"""

import re
from collections.abc import Iterable

from attrs import frozen

__all__ = ["TRACEPARENT", "TraceContext", "parse_traceparent", "sole_traceparent"]

TRACEPARENT = "traceparent"

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_SAMPLED = 1


@frozen
class TraceContext:
    """A place in a trace: its id and that of a span in it, in lower-case hex.

    `is_sampled` says that the maker of the span may have recorded it.
    """

    trace_id: str
    span_id: str
    is_sampled: bool

    def __str__(self) -> str:
        """Return the header's value, in version 00."""
        return f"00-{self.trace_id}-{self.span_id}-{int(self.is_sampled):02x}"


def parse_traceparent(text: str) -> TraceContext | None:
    """Read the header's value; `None` for what is none.

    Of a version later than 00 the parts of 00 are read, as the standard says.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    is_of_its_version = version != "ff" and (version != "00" or more is None)
    if not is_of_its_version or not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))


def sole_traceparent(headers: Iterable[tuple[bytes, bytes]]) -> TraceContext | None:
    """Find it among headers, names in lower case; `None` where it is missing, bad or there twice."""
    values = [value for name, value in headers if name == b"traceparent"]
    return parse_traceparent(values[0].decode("latin-1").strip(" \t")) if len(values) == 1 else None
