"""The rate window: how many requests a key may make in one wall-clock minute (rules 8/2, 8/4, 8/5, 8/6).

::

    :00                                            :00
     |  1 2 3 … limit | limit+1 … refused, counted   |  1 2 3 …
     ^ window_start                                  ^ reset

A store counts, because many processes share a key's window; `decide` turns its count into a verdict.
Credits are unrelated (rule 8/7).
One instant per request decides everything: pass the same aware `now` to `window_start` (to count) and to
`decide` (to judge), or a request that straddles second 00 is counted in one window and judged in another.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from attrs import field, frozen

from meetcore.domain.checks import whole

__all__ = [
    "WINDOW_SECONDS", "OperationClass", "Quotas", "RateVerdict", "decide", "full_verdict", "window_start",
]  # fmt: skip

WINDOW_SECONDS = 60

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_SECONDS = 86_400


class OperationClass(StrEnum):
    """The class of a request for its quota (rule 8/6); the values are names of counters and do not change."""

    READ = "read"
    WRITE = "write"
    CREDIT = "credit"
    TOOL = "tool"


_POSITIVE: Final = {"range": (1, None)}


@frozen
class Quotas:
    """Requests per key, class and minute, whole numbers from 1: reads the loosest, credits the strictest."""

    read: int = field(default=300, validator=whole, metadata=_POSITIVE)
    write: int = field(default=60, validator=whole, metadata=_POSITIVE)
    credit: int = field(default=20, validator=whole, metadata=_POSITIVE)
    tool: int = field(default=60, validator=whole, metadata=_POSITIVE)

    def of(self, operation_class: OperationClass) -> int:
        """Return the requests that one key may make in one minute in this class."""
        # Asked twice in a request: a dict of them would be made and hashed each time.
        match operation_class:
            case OperationClass.READ:
                return self.read
            case OperationClass.WRITE:
                return self.write
            case OperationClass.CREDIT:
                return self.credit
            case _:  # OperationClass.TOOL
                return self.tool


@frozen
class RateVerdict:
    """The state of the window for one request; `reset` and `window_start` are unix seconds.

    `remaining` counts the requests still admitted after this one. A caller that waits `retry_after_s`, at
    least 1 after a refusal, arrives in the next window and not before it; 0 when admitted.
    """

    limit: int
    remaining: int
    reset: int
    is_allowed: bool
    retry_after_s: int
    window_start: int


def window_start(now: datetime) -> int:
    """Return the unix second at which the minute around `now` started (rule 8/2)."""
    second = _unix_second(now)
    return second - second % WINDOW_SECONDS


def decide(limit: int, hits_including_this: int, now: datetime) -> RateVerdict:
    """Judge one request by its place in the window of `now`; a refused one waits for the next (rule 8/4).

    `hits_including_this` counts refused attempts, too (rule 8/5), and may exceed the limit; at least 1.
    """
    _check_limit(limit)
    if type(hits_including_this) is not int or hits_including_this < 1:
        raise ValueError("Count the request before judging it: there is at least one hit.")
    second = _unix_second(now)
    into = second % WINDOW_SECONDS
    # The fraction of a second that `into` drops is what makes the whole seconds land in the next
    # window: from 59.9 one second leads to 00.9, from 00.0 sixty lead to 00.0.
    left = WINDOW_SECONDS - into
    if hits_including_this > limit:
        return RateVerdict(limit, 0, second + left, False, left, second - into)
    return RateVerdict(limit, limit - hits_including_this, second + left, True, 0, second - into)


def full_verdict(limit: int, now: datetime) -> RateVerdict:
    """Return the window of a request that was not counted, such as one without a valid key."""
    _check_limit(limit)
    start = window_start(now)
    return RateVerdict(limit, limit, start + WINDOW_SECONDS, True, 0, start)


def _check_limit(limit: int) -> None:
    if type(limit) is not int or limit < 1:
        raise ValueError(f"The limit is a whole number of at least 1, not {limit!r}.")


def _unix_second(now: datetime) -> int:
    # Not int(now.timestamp()): a float rounds 59.999999 up to the next minute in far years, and a
    # naive datetime would be read in the machine's own time zone instead of being refused.
    since = now - _EPOCH
    return since.days * _DAY_SECONDS + since.seconds
