"""The request rate by an answer. Owns the reading of its headers; counts nothing itself."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from attrs import frozen

__all__ = ["RateLimit", "read_rate_limit"]

_NUMBER = re.compile(r"[0-9]{1,11}")  # up to the year 5138
_POLICY = re.compile(r'"([a-z]+)"')


@frozen
class RateLimit:
    """How many requests of a class this minute takes, how many are left, and when the next one begins.

    `operation_class` is `read`, `write`, `credit` or `tool`; None where the answer does not name it.
    """

    limit: int
    remaining: int
    resets_at: datetime
    operation_class: str | None = None


def read_rate_limit(headers: Mapping[str, str]) -> RateLimit | None:
    """The rate state of an answer, by its headers in lower case; None where it has none."""
    values = [headers.get(f"x-ratelimit-{name}", "") for name in ("limit", "remaining", "reset")]
    if not all(map(_NUMBER.fullmatch, values)):
        return None
    limit, remaining, reset = map(int, values)
    named = _POLICY.match(headers.get("ratelimit-policy", ""))
    return RateLimit(limit, remaining, datetime.fromtimestamp(reset, UTC), named[1] if named else None)
