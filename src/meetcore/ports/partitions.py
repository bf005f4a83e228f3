"""Events, deliveries and attempts in partitions by time: made ahead, and dropped past their retention."""

from datetime import UTC, datetime, timedelta
from typing import Protocol

from attrs import frozen

from meetcore.domain.webhooks.events import EVENTS_KEPT

__all__ = ["FEW_AHEAD", "Maintained", "PartitionRules", "Partitions", "PartitionsRefused"]

FEW_AHEAD = 2
"""With fewer partitions ahead an operator is alarmed: those that are wanted were not made for weeks."""

_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)


class PartitionsRefused(Exception):
    """The partitions cannot be looked after from here; the message says why and what to do."""


@frozen
class PartitionRules:
    """How long a partition is, how many there are ahead, and how long what is in one is kept."""

    kept: timedelta = EVENTS_KEPT
    length: timedelta = timedelta(days=7)
    ahead: int = 4

    def begin_of(self, at: datetime) -> datetime:
        """Return when the partition of an instant begins; those of a week begin on Mondays, 00:00 UTC."""
        return at - (at - _MONDAY) % self.length


@frozen
class Maintained:
    """What was done, or would be.

    Attributes:
        made: partitions that were made.
        dropped: partitions that were dropped.
        waiting: partitions that are past their retention and were kept: something in them is unfinished, or
            they were in use.
        ahead: partitions that begin in the future, of the table that has the fewest; the open one at the end
            is not counted.
        is_busy: another process was at it, or a table was in use all the time; nothing or not all was done.
        is_fenced: a restore is not released yet; nothing was done.
        problems: what keeps partitions of a table from being made or dropped until an operator acts.
    """

    made: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    ahead: int = 0
    is_busy: bool = False
    is_fenced: bool = False
    problems: tuple[str, ...] = ()

    @property
    def needs_attention(self) -> bool:
        """Whether an operator has to look after it."""
        return bool(self.problems) or self.ahead < FEW_AHEAD


class Partitions(Protocol):
    """Where events, deliveries and attempts are kept."""

    async def plan(self, now: datetime, rules: PartitionRules) -> Maintained:
        """Say what `maintain` would do, and change nothing.

        Raises:
            StoreUnavailable: the store does not answer.
        """

    async def maintain(self, now: datetime, rules: PartitionRules) -> Maintained:
        """Make the partitions that are to come, and drop those that are past their retention as a whole.

        An event goes with its partition: what waits of it fails when its turn comes. A partition of
        deliveries stays while one of them is unfinished, and one of attempts while there are deliveries of
        its time. Any number of processes may call it at once: one works. While a restore is fenced none does.

        Raises:
            PartitionsRefused: it cannot be done from here.
            StoreUnavailable: the store does not answer.
        """
