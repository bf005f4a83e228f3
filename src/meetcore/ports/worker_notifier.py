"""Notify the workers that something is due, so that they check before their next poll.

It carries no data: the database is the truth. A notification may be lost, doubled or late,
and the sweeper's period bounds what that costs.
"""

from typing import Protocol

__all__ = ["WorkerNotifier"]


class WorkerNotifier(Protocol):
    """A way to wake the workers."""

    def notify(self) -> None:
        """Notify the workers that something is due; call it after the commit.

        Takes microseconds, never blocks and never raises, whatever state the queue is in. Calls
        that follow one another closely may arrive as one.
        """
