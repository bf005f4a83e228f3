"""The log of an account's requests, and the trace that a request belongs to.

Owns which requests are kept, for how long, and which of their fields: no bodies and no query strings; the
path is the operation's, without ids; of a refusal's details the names, and of a field the texts of the rules
that it breaks, in which a quoted value is left out.
Owns the form of W3C's `traceparent`; `tracestate`, which holds data of other vendors, is neither read nor
passed on.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import frozen

from meetcore.domain.texts import printable

REQUESTS_KEPT: Final = timedelta(days=7)
"""How long a request is kept."""
ALL_OF_MINUTE: Final = 120
"""Successes of an account that are all kept in one minute."""
ONE_OF: Final = 10
"""Beyond those, one of so many is kept."""
MOST_OF_MINUTE: Final = 300
"""Successes of an account that are kept in one minute at most."""
MOST_ERRORS_OF_MINUTE: Final = 300
"""Refusals and faults of an account that are kept in one minute at most, beside the successes."""
FIRST_ERROR_STATUS: Final = 400
"""From this one on a request was refused or failed."""


MAX_MESSAGE: Final = 500
"""Characters of a refusal's message that are kept."""
MAX_DETAILS: Final = 20
"""Details of a refusal that are kept."""
MAX_DETAIL: Final = 100
"""Characters of the name of a detail that are kept."""
MAX_RULES: Final = 300
"""Characters of the texts of a field's rules that are kept."""
_QUOTED: Final = re.compile(r"""(['"]).*\1""", re.DOTALL)


@frozen
class LoggedRequest:
    """A request of an account's key and its result.

    `method` is that of HTTP, or the name of an agent's tool; `path` is the operation's, with the names of its
    ids, and empty for one that does not exist. `subject_id` is the record that the request made or named in
    its path. `code`, `message` and `details` are those of a refusal; see `kept_message` and `kept_details`.
    """

    id: UUID
    account_id: UUID
    api_key_id: UUID
    at: datetime
    method: str
    path: str
    status: int
    duration_ms: int
    code: str | None = None
    subject_id: UUID | None = None
    client_address: str | None = None
    message: str | None = None
    details: tuple[str, ...] = ()


def kept_message(message: str) -> str:
    """Return the part of a refusal's message that is kept."""
    return printable(message, MAX_MESSAGE)


def kept_details(details: Mapping[str, object]) -> tuple[str, ...]:
    """Return what is kept of a refusal's details: their names, without values.

    A field that breaks a rule is `fields.NAME`, with `: ` and the texts of its rules where it has any.
    """
    fields = details.get("fields")
    own: list[tuple[str, Iterable[str]]] = [(name, ()) for name in details if name != "fields"]
    of_fields = (
        [(f"fields.{name}", texts) for name, texts in fields.items()] if isinstance(fields, Mapping) else []
    )
    return tuple(_kept_detail(*each) for each in (*of_fields, *own)[:MAX_DETAILS])


def _kept_detail(name: str, rules: Iterable[str]) -> str:
    # A rule's text repeats what it was given in quotes only.
    texts = printable(_QUOTED.sub("…", "; ".join(rules)), MAX_RULES)
    return printable(name, MAX_DETAIL) + (f": {texts}" if texts else "")


def is_error(status: int) -> bool:
    """Return whether a request with this status was refused or failed."""
    return status >= FIRST_ERROR_STATUS


@frozen
class MinuteSample:
    """The number of an account's requests in a minute, and how many of them are kept."""

    successes: int = 0
    kept_successes: int = 0
    kept_errors: int = 0


def sample(so_far: MinuteSample, *, is_error: bool) -> tuple[MinuteSample, bool]:
    """Count a request, and decide whether it is kept. Successes never use the room of errors."""
    if is_error:
        is_kept = so_far.kept_errors < MOST_ERRORS_OF_MINUTE
        kept = so_far.kept_errors + is_kept
        return MinuteSample(so_far.successes, so_far.kept_successes, kept), is_kept
    is_chosen = so_far.successes < ALL_OF_MINUTE or so_far.successes % ONE_OF == 0
    is_kept = is_chosen and so_far.kept_successes < MOST_OF_MINUTE
    kept = so_far.kept_successes + is_kept
    return MinuteSample(so_far.successes + 1, kept, so_far.kept_errors), is_kept


TRACEPARENT = "traceparent"

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_SAMPLED = 1


@frozen
class TraceContext:
    """A place in a trace: its id and a span's, in lower-case hex; a sampled span may have been recorded."""

    trace_id: str
    span_id: str
    is_sampled: bool

    def __str__(self) -> str:
        """Return the header's value, in version 00."""
        return f"00-{self.trace_id}-{self.span_id}-{int(self.is_sampled):02x}"


def parse_traceparent(text: str) -> TraceContext | None:
    """Read the header's value, of a later version the parts of 00; `None` for an invalid one."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    is_of_its_version = version != "ff" and (version != "00" or more is None)
    if not is_of_its_version or not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))


def sole_traceparent(headers: Iterable[tuple[bytes, bytes]]) -> TraceContext | None:
    """Read it from headers, names in lower case; `None` where it is missing, invalid or repeated."""
    values = [value for name, value in headers if name == b"traceparent"]
    return parse_traceparent(values[0].decode("latin-1").strip(" \t")) if len(values) == 1 else None
