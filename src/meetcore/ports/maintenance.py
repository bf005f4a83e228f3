"""Maintenance of the store by workers and operators: removal, resealing, partitions.

Removal goes through all records in the order of their ids, round after round; its progress is stored, and one
process at a time takes the next portion. It takes no account's lock: no decision changes the removed records
any more.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final, Protocol

from attrs import field, frozen


class Housekeeping(Protocol):
    """Deletes expired records. Each call returns how many."""

    async def now(self) -> datetime:
        """Return the time of the store, by which records expire."""

    async def purge_idempotency(self, older_than_s: float) -> int:
        """Delete idempotency keys first seen longer ago, unless work under them still runs."""

    async def purge_provider_events(self, older_than_s: float) -> int:
        """Delete handled events of providers received longer ago."""

    async def purge_creations(self, before: date) -> int: ...
    async def purge_mails(self, older_than_s: float) -> int:
        """Delete finished mails made longer ago."""

    async def purge_requests(self, before: datetime) -> int: ...
    async def purge_previous_secrets(self, before: datetime) -> int:
        """Delete replaced secrets of endpoints that have not signed since an instant."""


PORTION: Final = 200
"""Records that one portion looks at."""

ROUND_EVERY: Final = timedelta(hours=1)
"""From the end of a round to the start of the next one."""


@frozen
class Removal:
    """The result of a portion: how many records were removed, and whether the round is over."""

    removed: int
    is_over: bool


class RetentionStore(Protocol):
    """Removes records past their retention, and keeps the ids of those that a customer could see.

    A call returns `None` where another process has its turn, or no round is due.
    """

    async def now(self) -> datetime:
        """Return the time of the store: a process whose clock is ahead would remove too early, for good."""

    async def remove_notes(self, made_before: datetime, portion: int = PORTION) -> Removal | None:
        """Remove notes made before an instant, of the next `portion`, but those in progress."""

    async def remove_meetings(self, ended_before: datetime, portion: int = PORTION) -> Removal | None:
        """Remove meetings that ended before an instant, of the next `portion`, each with its recording.

        A meeting stays while anything of it is unfinished: a lease, a check for orphans or for its recording,
        a hold, a host, a recording that is not expired or whose files the provider still has, a note.
        """


@frozen
class Resealed:
    """The result of a portion of one column.

    `found` counts the values by the ids of their keys, in hex, as they were; `resealed` were sealed under the
    first key, `changed` were written by others meanwhile, `unreadable` do not open and were left alone.
    The next portion begins after `after`; `None` at the end of the column.
    """

    found: Mapping[str, int] = field(factory=dict)
    resealed: int = 0
    changed: int = 0
    unreadable: int = 0
    after: tuple[object, ...] | None = None


class SealedValues(Protocol):
    """Every column of sealed values, in the order of the rows' ids."""

    @property
    def columns(self) -> Sequence[str]: ...

    @property
    def key_ids(self) -> Sequence[str]:
        """The ids of the given keys, in hex; the first one seals."""

    async def count(self, column: str, after: tuple[object, ...] | None, limit: int) -> Resealed: ...
    async def reseal(self, column: str, after: tuple[object, ...] | None, limit: int) -> Resealed:
        """Seal the next values of a column under the first key, unless changed since they were read."""


FEW_AHEAD: Final = 2
"""With fewer partitions ahead an operator is alarmed: none was made for weeks."""


@frozen
class Maintained:
    """The result of a round, or of a dry run.

    `made` and `dropped` are names of partitions; `waiting` are those past their retention that were kept: a
    delivery in them is unfinished, or their table was in use. `ahead` counts the partitions that begin in the
    future, of the table that has the fewest, without the open one at the end. `is_busy`: a table was in use
    all the time, and not everything was done. `refusal` is why the session's role can do nothing, if so.
    """

    made: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    ahead: int = 0
    is_busy: bool = False
    refusal: str = ""

    @property
    def needs_attention(self) -> bool:
        """Whether an operator has to act."""
        return bool(self.refusal) or self.ahead < FEW_AHEAD


class Partitions(Protocol):
    """The partitions of the store."""

    async def maintain(self, now: datetime | None, kept: timedelta, *, is_dry: bool = False) -> Maintained:
        """Make the coming partitions, and drop those whose rows are all older than `kept`, events first.

        Without `now` it is the time of the store: one whose clock is ahead would drop too early, for good.
        A partition of deliveries stays while one of them is unfinished, and one of attempts while there are
        deliveries of its time. Any number of processes may call it at once. A dry run changes nothing.
        """
