"""Reads of the dashboard: what a page shows beside the lists of the API, in one statement each."""

from collections.abc import Sequence
from datetime import date
from typing import Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.requests.keys import ApiKey

__all__ = ["DashboardQueries", "DaySpending", "KeyUse", "TroubledEndpoint"]


@frozen
class KeyUse:
    """A key and the credits that count against its cap on a day, those that are held included."""

    key: ApiKey
    spent: int


@frozen
class DaySpending:
    """Credits that were charged on a day (WIB) for meetings and for notes, refunds of that day taken off."""

    day: date
    meetings: int
    notes: int


@frozen
class TroubledEndpoint:
    """A webhook endpoint that was disabled by failures, or whose last deliveries failed."""

    id: UUID
    url: str
    consecutive_failures: int
    is_disabled: bool


class DashboardQueries(Protocol):
    """Reads of an account's pages."""

    async def list_key_use(self, account_id: UUID, day: date) -> Sequence[KeyUse]:
        """An account's keys, the newest first, with their use on a day; keys of one roll share theirs."""
        ...

    async def list_spending(self, account_id: UUID, first_day: date) -> Sequence[DaySpending]:
        """The days from the first one on that have charges or refunds, the oldest first."""
        ...

    async def list_troubled_endpoints(self, account_id: UUID) -> Sequence[TroubledEndpoint]:
        """An account's webhook endpoints that do not receive what they should, the oldest first."""
        ...
