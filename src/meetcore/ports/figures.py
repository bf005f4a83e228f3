"""What an operator watches of a store: a few counts and ages, cheap to read however much is in it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from attrs import field, frozen

__all__ = ["MOST_COUNTED", "FigureReader", "Figures"]

MOST_COUNTED = 100_000
"""Rows of one state are counted up to here."""


@frozen
class Figures:
    """The figures of one moment.

    Ages are in seconds and 0 where there is nothing: how long the oldest has been due. What failed and waits
    to be tried again is not due: `notes_oldest_failing_s` and `mails_oldest_failing_s` are the ages of the
    oldest of that, and `notes_oldest_s` those of the oldest notes in progress. A count stops at
    `MOST_COUNTED`. `retention_rounds_s` is for how long the present round of each removal has run. Where the
    ledger was never verified whole, `ledger_verified_at` is `None` and `ledger_is_sound` true.
    `partitions_ahead` are those of events and deliveries that begin in the future. `credits_today` are what
    the accounts' balances gained by each kind of transfer since 00:00 WIB, negative where they lost.
    `standbys_streaming` follow the server, and the one that is furthest behind lacks `replication_lag_bytes`.
    These two, `oldest_transaction_s` and `replication_lag_s` are `None` where the service may not see them.
    """

    deliveries_oldest_due_s: float = 0.0
    deliveries: Mapping[str, int] = field(factory=dict)
    endpoints: Mapping[str, int] = field(factory=dict)
    provider_events_oldest_due_s: float = 0.0
    mails_oldest_due_s: float = 0.0
    mails_oldest_failing_s: float = 0.0
    meetings_oldest_in_progress_s: float = 0.0
    notes_oldest_due_s: Mapping[str, float] = field(factory=dict)
    notes_oldest_failing_s: Mapping[str, float] = field(factory=dict)
    notes_oldest_s: Mapping[str, float] = field(factory=dict)
    hosts: Mapping[str, int] = field(factory=dict)
    ledger_verified_at: datetime | None = None
    ledger_is_sound: bool = True
    retention_rounds_s: Mapping[str, float] = field(factory=dict)
    oldest_transaction_s: float | None = 0.0
    replication_lag_s: float | None = 0.0
    schema_version: int = 0
    partitions_ahead: int = 0
    credits_today: Mapping[str, int] = field(factory=dict)
    standbys_streaming: int | None = None
    replication_lag_bytes: float | None = None


class FigureReader(Protocol):
    """Reads them."""

    async def read(self) -> Figures:
        """Read the present figures.

        Raises:
            StoreUnavailable: the store does not answer in good time.
        """
