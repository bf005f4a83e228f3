"""The schedule of retries: of a delivery, a mail, or a step of a note."""

from datetime import datetime, timedelta

from attrs import field, frozen

__all__ = [
    "DEFAULT_DELAYS_S", "RetrySchedule", "longest_wait", "next_attempt", "wait_after",
]  # fmt: skip

_MINUTE = 60
_HOUR = 3600

DEFAULT_DELAYS_S = (
    5, 30, 2 * _MINUTE, 10 * _MINUTE, 30 * _MINUTE,
    _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, 24 * _HOUR,
)  # fmt: skip
"""Seconds between one attempt and the next: eleven attempts in all."""

NOTE_DELAYS_S = (5, 30, 2 * _MINUTE, 10 * _MINUTE, 30 * _MINUTE, _HOUR, 3 * _HOUR, 6 * _HOUR)
"""The same between one try of a note's step and the next: nine tries in half a day."""

MAX_DELAY_S = 365 * 24 * _HOUR
"""The longest delay of a schedule, a year. One of thousands of years exceeds the dates of Python."""

MAX_JITTER = 0.2
"""The largest share of a delay that is added to it, so that failures of one moment spread out."""

WAITS_FROM_FAILURES = 8
"""Failures in a row from which an endpoint waits between posts: as many as may be in flight at its first."""

MAX_WAIT_S = _HOUR
"""The longest delay between two posts to an endpoint that fails, without its jitter."""

MAX_RETRY_AFTER_S = 24 * _HOUR
"""Seconds; a receiver may ask for more and gets this."""


@frozen
class RetrySchedule:
    """The delays in seconds after the first, second, ... failed attempt; when they run out, it is over."""

    delays_s: tuple[int, ...] = field(default=DEFAULT_DELAYS_S)

    @delays_s.validator
    def _check_delays(self, _attribute: object, delays_s: tuple[int, ...]) -> None:
        if any(type(delay_s) is not int for delay_s in delays_s):
            raise ValueError("a delay before a retry is a whole number of seconds")
        if any(delay_s < 0 for delay_s in delays_s):
            raise ValueError("a delay before a retry cannot be negative")
        if any(delay_s > MAX_DELAY_S for delay_s in delays_s):
            raise ValueError(f"a delay before a retry is at most {MAX_DELAY_S} seconds")


def next_attempt(
    schedule: RetrySchedule,
    attempts_made: int,
    now: datetime,
    jitter: float,
    retry_after_s: int | None = None,
) -> datetime | None:
    """Return when to retry after an attempt that failed at `now`; `None` when the schedule is exhausted.

    `attempts_made` counts the one that just failed; with 0 the delivery is due at once. A jitter in [0, 1)
    stretches the delay by up to `MAX_JITTER`, never shortens it. The receiver's `retry_after_s` can only make
    the attempt later, by `MAX_RETRY_AFTER_S` at most. Raises `ValueError` for another jitter or a negative
    count.
    """
    if not 0 <= jitter < 1:
        raise ValueError(f"jitter is drawn from [0, 1), not {jitter}")
    if attempts_made < 0:
        raise ValueError(f"{attempts_made} attempts cannot have been made")
    if attempts_made == 0:
        return now
    if attempts_made > len(schedule.delays_s):
        return None
    delay_s = schedule.delays_s[attempts_made - 1] * (1 + MAX_JITTER * jitter)
    return now + timedelta(seconds=max(delay_s, min(retry_after_s or 0, MAX_RETRY_AFTER_S)))


def longest_wait(schedule: RetrySchedule) -> timedelta:
    """Return the longest delay between two posts to an endpoint that fails, without its jitter."""
    return timedelta(seconds=min(max(schedule.delays_s, default=0), MAX_WAIT_S))


def wait_after(schedule: RetrySchedule, failures: int, jitter: float) -> timedelta:
    """Return how long an endpoint waits for its next post after so many failures in a row.

    The delays of the schedule, one after another from the failure `WAITS_FROM_FAILURES` on, the last one
    again and again, each up to `MAX_WAIT_S`. A jitter in [0, 1) stretches them as in `next_attempt`.
    """
    if failures < WAITS_FROM_FAILURES or not schedule.delays_s:
        return timedelta()
    delay_s = schedule.delays_s[min(failures - WAITS_FROM_FAILURES, len(schedule.delays_s) - 1)]
    return timedelta(seconds=min(delay_s, MAX_WAIT_S) * (1 + MAX_JITTER * jitter))
