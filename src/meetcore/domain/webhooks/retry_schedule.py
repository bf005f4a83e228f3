"""When something that failed is tried again: a delivery, or a step of a note.

Owns the schedule and its arithmetic. It does not know why an attempt failed (`deliveries` decides
whether there is a next one), read a clock or draw the jitter: both are arguments.
"""

from datetime import datetime, timedelta

from attrs import field, frozen

__all__ = [
    "DEFAULT_DELAYS_S",
    "MAX_JITTER",
    "MAX_RETRY_AFTER_S",
    "NOTE_DELAYS_S",
    "RetrySchedule",
    "next_attempt",
]

_MINUTE = 60
_HOUR = 3600

DEFAULT_DELAYS_S = (
    5, 30, 2 * _MINUTE, 10 * _MINUTE, 30 * _MINUTE,
    _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, 24 * _HOUR,
)  # fmt: skip
"""Seconds between one attempt and the next: eleven attempts in all."""

NOTE_DELAYS_S = (5, 30, 2 * _MINUTE, 10 * _MINUTE, 30 * _MINUTE, _HOUR, 3 * _HOUR, 6 * _HOUR)
"""The same between one try of a note's step and the next: nine tries in half a day."""

MAX_JITTER = 0.2
"""The largest share of a delay that is added to it, so that failures of one moment spread out."""

MAX_RETRY_AFTER_S = 24 * _HOUR
"""Seconds; a receiver may ask for more and gets this."""


@frozen
class RetrySchedule:
    """The delays in seconds after the first, second, ... failed attempt; when they run out, it is over."""

    delays_s: tuple[int, ...] = field(default=DEFAULT_DELAYS_S)

    @delays_s.validator
    def _check_delays(self, _attribute: object, delays_s: tuple[int, ...]) -> None:
        if any(delay_s < 0 for delay_s in delays_s):
            raise ValueError("a delay before a retry cannot be negative")


def next_attempt(
    schedule: RetrySchedule,
    attempts_made: int,
    now: datetime,
    jitter: float,
    retry_after_s: int | None = None,
) -> datetime | None:
    """Return when to retry after an attempt that failed at `now`.

    Args:
        attempts_made: counting the one that just failed; with 0 the delivery is due at once.
        now: when the last attempt ended.
        jitter: drawn from [0, 1); stretches the delay by up to `MAX_JITTER`, never shortens it.
        retry_after_s: the delay the receiver requested, in seconds. It can only make the attempt later, by
            `MAX_RETRY_AFTER_S` at most.

    Returns:
        The due time, or None when the schedule is exhausted and the delivery has failed.

    Raises:
        ValueError: the jitter is outside [0, 1) or the count is negative.
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
