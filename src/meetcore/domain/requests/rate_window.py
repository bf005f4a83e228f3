"""The rate window: how many requests a key may make in one wall-clock minute.

It owns the arithmetic of a fixed window (rules 8/2, 8/4, 8/5 and 8/6)::

    :00                                            :00
     |  1 2 3 … limit | limit+1 … refused, counted   |  1 2 3 …
     ^ window_start                                  ^ reset

and leaves the counting to a store, because many processes share a key's window;
`decide` turns its count into a verdict. Header names and formats belong to the adapter that speaks
HTTP. Credits are unrelated (rule 8/7).

One instant per request decides everything: pass the same `now` to `window_start` (to count) and to
`decide` (to judge), or a request that straddles second 00 is counted in one window and judged in
another.
"""

from datetime import UTC, datetime
from enum import StrEnum

from attrs import Attribute, field, frozen

__all__ = [
    "WINDOW_SECONDS",
    "OperationClass",
    "Quotas",
    "RateVerdict",
    "decide",
    "untouched",
    "window_start",
]

WINDOW_SECONDS = 60

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_SECONDS = 86_400


class OperationClass(StrEnum):
    """What a request does, as far as its quota is concerned (rule 8/6).

    The values are stored as part of a counter's name: they do not change.
    """

    READ = "read"
    WRITE = "write"
    CREDIT = "credit"
    TOOL = "tool"


def _positive(_owner: object, attribute: "Attribute[int]", value: object) -> None:
    # bool is an int to Python and a mistake here: `read=True` would be a quota of one.
    if type(value) is not int or value < 1:
        raise ValueError(f"The {attribute.name} quota is a whole number of at least 1, not {value!r}.")


@frozen
class Quotas:
    """Requests per key, class and minute; by default reads the loosest, credits the strictest.

    Raises:
        ValueError: a quota is not a whole number of at least 1.
    """

    read: int = field(default=300, validator=_positive)
    write: int = field(default=60, validator=_positive)
    credit: int = field(default=20, validator=_positive)
    tool: int = field(default=60, validator=_positive)

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
    """The state of the window for one request.

    Attributes:
        limit: requests that the window admits.
        remaining: requests still admitted in the window after this one; never negative.
        reset: unix second at which the next window starts; always on second 00.
        is_allowed: whether this request is admitted.
        retry_after_s: whole seconds to wait, at least 1, after a refusal; 0 when admitted. A caller that
            waits that long lands in the next window and not before it.
        window_start: unix second at which the window started; always on second 00.
    """

    limit: int
    remaining: int
    reset: int
    is_allowed: bool
    retry_after_s: int
    window_start: int


def window_start(now: datetime) -> int:
    """Return the unix second at which the minute around `now` started (rule 8/2).

    Raises:
        TypeError: `now` has no time zone, so that its minute is undefined.
    """
    second = _unix_second(now)
    return second - second % WINDOW_SECONDS


def decide(limit: int, hits_including_this: int, now: datetime) -> RateVerdict:
    """Judge one request by its place in the window; a refused one waits for the next (rule 8/4).

    Args:
        limit: requests that the window admits.
        hits_including_this: attempts in the window so far, this one and the refused ones included
            (rule 8/5), so it may well exceed the limit.
        now: the instant whose window was counted.

    Raises:
        ValueError: fewer than one hit: this request has not been counted.
        TypeError: `now` has no time zone.
    """
    if hits_including_this < 1:
        raise ValueError("Count the request before judging it: there is at least one hit.")
    second = _unix_second(now)
    into = second % WINDOW_SECONDS
    # The fraction of a second that `into` drops is what makes the whole seconds land in the next
    # window: from 59.9 one second leads to 00.9, from 00.0 sixty lead to 00.0.
    left = WINDOW_SECONDS - into
    if hits_including_this > limit:
        return RateVerdict(limit, 0, second + left, False, left, second - into)
    return RateVerdict(limit, limit - hits_including_this, second + left, True, 0, second - into)


def untouched(limit: int, now: datetime) -> RateVerdict:
    """Describe the window for a request that was counted nowhere, such as one without a valid key.

    Raises:
        TypeError: `now` has no time zone.
    """
    start = window_start(now)
    return RateVerdict(limit, limit, start + WINDOW_SECONDS, True, 0, start)


def _unix_second(now: datetime) -> int:
    # Not int(now.timestamp()): a float rounds 59.999999 up to the next minute in far years, and a
    # naive datetime would be read in the machine's own time zone instead of being refused.
    since = now - _EPOCH
    return since.days * _DAY_SECONDS + since.seconds
