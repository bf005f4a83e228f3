"""Where use cases and adapters report facts that an operator watches: counts, durations, states.

The port owns the names of the facts; how they are kept and read is its adapter's business. No call waits,
fails or decides anything. What a fact names comes from a closed set, never from a caller: no ids, addresses
or paths.
"""

from enum import StrEnum
from typing import Protocol

from attrs import frozen

from meetcore.domain.money.transfers import TransferKind

__all__ = ["NO_METRICS", "ListSource", "Metrics", "NoMetrics", "PoolState", "ServedRequest"]


@frozen
class ServedRequest:
    """A request that was answered.

    `operation` is the declared one, such as `POST /meetings`, or a name for what is none. `code` is that of a
    refusal, empty for a success.
    """

    operation: str
    rate_class: str
    status: int
    code: str
    duration_s: float


@frozen
class PoolState:
    """The connections of one process to a server of the store.

    `waiting` are requests for a connection that wait now. `waits` and `waited_s` are totals since the start.
    `pool` is `primary`, or `lists` for the standby that lists are read from.
    """

    size: int
    idle: int
    waiting: int
    waits: int
    waited_s: float
    pool: str = "primary"


class ListSource(StrEnum):
    """Where a list was read: from the standby, or from the primary for this reason."""

    STANDBY = "standby"
    OWN_WRITE = "own_write"
    BEHIND = "behind"
    GIVEN_UP = "given_up"
    AWAY = "away"


class Metrics(Protocol):
    """Keeps counts and durations of one process."""

    def begin_request(self) -> None:
        """Count a request as in progress."""

    def end_request(self) -> None:
        """Count a request as no longer in progress, whatever became of it."""

    def served(self, request: ServedRequest) -> None:
        """Count an answer, and its duration."""

    def store_unavailable(self, kind: str, pool: str) -> None:
        """Count a transaction or read that the store was unavailable for, by the pool that it asked."""

    def pool_state(self, state: PoolState) -> None:
        """Replace the state of a pool."""

    def attempted(self, result: str, duration_s: float) -> None:
        """Count an attempt at a delivery, and its duration."""

    def delivery_failed(self, reason: str) -> None:
        """Count a delivery that ended without success."""

    def endpoint_disabled(self) -> None:
        """Count an endpoint that failures disabled."""

    def lease_expired(self, subject: str) -> None:
        """Count work that was taken over because its lease expired."""

    def reconciled(self, outcome: str) -> None:
        """Count a meeting in progress that was taken over, by what became of it."""

    def provider_called(self, call: str, result: str, duration_s: float) -> None:
        """Count a call of the video provider, and its duration."""

    def no_host(self, seats: int) -> None:
        """Count a meeting of so many seats that was refused for want of hosts."""

    def note_failed(self, reason: str) -> None:
        """Count a note that was given up."""

    def credits_moved(self, kind: TransferKind, credits: int) -> None:
        """Count the credits of a transfer that was kept; negative ones were taken by an adjustment."""

    def rate_store(self, *, is_away: bool) -> None:
        """Remember whether this process counts requests by itself, because the shared store is away."""

    def list_read(self, source: ListSource) -> None:
        """Count a list of a process that may read them from a standby."""


class NoMetrics:
    """Keeps nothing. Fills `Metrics`."""

    def begin_request(self) -> None:
        """Do nothing."""

    def end_request(self) -> None:
        """Do nothing."""

    def served(self, request: ServedRequest) -> None:
        """Do nothing."""

    def store_unavailable(self, kind: str, pool: str) -> None:
        """Do nothing."""

    def pool_state(self, state: PoolState) -> None:
        """Do nothing."""

    def attempted(self, result: str, duration_s: float) -> None:
        """Do nothing."""

    def delivery_failed(self, reason: str) -> None:
        """Do nothing."""

    def endpoint_disabled(self) -> None:
        """Do nothing."""

    def lease_expired(self, subject: str) -> None:
        """Do nothing."""

    def reconciled(self, outcome: str) -> None:
        """Do nothing."""

    def provider_called(self, call: str, result: str, duration_s: float) -> None:
        """Do nothing."""

    def no_host(self, seats: int) -> None:
        """Do nothing."""

    def note_failed(self, reason: str) -> None:
        """Do nothing."""

    def credits_moved(self, kind: TransferKind, credits: int) -> None:
        """Do nothing."""

    def rate_store(self, *, is_away: bool) -> None:
        """Do nothing."""

    def list_read(self, source: ListSource) -> None:
        """Do nothing."""


NO_METRICS: Metrics = NoMetrics()
"""For a process whose figures nobody reads."""
