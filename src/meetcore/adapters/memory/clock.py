"""A clock that stands still until it is moved."""

from datetime import datetime, timedelta


class ManualClock:
    """Time under the test's control.

    Args:
        start: the first instant, aware, in UTC.
    """

    def __init__(self, start: datetime) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move by so many seconds; a negative number sets it back."""
        self._now += timedelta(seconds=seconds)

    def set(self, at: datetime) -> None:
        """Jump to an instant, aware, in UTC."""
        self._now = at
