"""The current time, as the use cases read it."""

from datetime import datetime
from typing import Protocol

__all__ = ["Clock"]


class Clock(Protocol):
    """The wall clock."""

    def now(self) -> datetime:
        """The present instant, aware, in UTC."""
