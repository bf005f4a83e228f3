"""The health of the service as operators see it, and its prices as they are in force."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from attrs import define, field, frozen

from meetcore.domain.meetings.hosts import tiers_without_host
from meetcore.domain.members.roles import OperatorAction, check_operator_allowed
from meetcore.domain.money.pricing import PricingTier, TierCatalogue
from meetcore.ports.console_queries import ConsoleQueries
from meetcore.ports.health import CheckHealth, HealthCheck, HealthStatus, Queue, QueueName, Queues
from meetcore.ports.member_queries import SignedInOperator
from meetcore.ports.registry import Registry
from meetcore.ports.video_provider import VideoProvider
from meetcore.usecases.runtime import Runtime

LATE_AFTER: Final[Mapping[QueueName, timedelta]] = {
    QueueName.DELIVERIES: timedelta(seconds=30),
    QueueName.MAILS: timedelta(seconds=60),
    QueueName.NOTES: timedelta(minutes=5),
    QueueName.RECORDINGS: timedelta(minutes=5),
    QueueName.PROVIDER_EVENTS: timedelta(seconds=30),
    QueueName.MEETINGS: timedelta(minutes=1),
    QueueName.REMOVALS: timedelta(minutes=5),
}
"""How long work may be due before a worker is missing or too slow."""
MAX_CLOCK_DIFFERENCE = timedelta(seconds=2)
OLD_TRANSACTION = timedelta(minutes=5)
"""How long a transaction may be open before it keeps dead rows from being cleared away."""
CHECKED_FOR = timedelta(seconds=15)
"""How long the outcome of the checks is shown before they are run again."""


@frozen
class QueueHealth:
    """A queue with how long the longest of it has waited."""

    queue: Queue
    waited: timedelta

    @property
    def is_late(self) -> bool:
        """Whether it has waited for longer than it should."""
        return self.waited > LATE_AFTER[self.queue.name]


@frozen
class Health:
    """Everything that the page shows. `clock_difference` is the store's clock less this process's."""

    checks: Sequence[HealthCheck]
    checked_at: datetime
    queues: Sequence[QueueHealth]
    schema: int
    clock_difference: timedelta
    oldest_transaction: timedelta | None

    @property
    def has_clock_difference(self) -> bool:
        """Whether the clocks are too far apart."""
        return abs(self.clock_difference) > MAX_CLOCK_DIFFERENCE

    @property
    def has_old_transaction(self) -> bool:
        """Whether a transaction is open for too long."""
        return self.oldest_transaction is not None and self.oldest_transaction > OLD_TRANSACTION

    @property
    def is_well(self) -> bool:
        """Whether nothing needs an operator."""
        return (
            all(check.status is not HealthStatus.FAILED for check in self.checks)
            and not any(each.is_late for each in self.queues)
            and not self.has_clock_difference
            and not self.has_old_transaction
        )


@define
class ConsoleHealth:
    """The health of the service. Checks ask other servers: one round at a time, and kept for some seconds."""

    queries: ConsoleQueries
    check_health: CheckHealth
    runtime: Runtime
    _checked: tuple[datetime, Sequence[HealthCheck]] | None = field(default=None, init=False)
    _lock: asyncio.Lock = field(factory=asyncio.Lock, init=False, repr=False)

    async def look(self, who: SignedInOperator) -> Health:
        """Look at the queues, and at the outcome of the latest checks.

        Raises:
            ActionNotAllowed: the role may not see it.
        """
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_HEALTH)
        found = await self.queries.find_queues()
        difference = found.now - self.runtime.now()
        checked_at, checks = await self._checks()
        oldest = found.oldest_transaction_at
        return Health(
            checks, checked_at, [_waited(each, found) for each in found.queues], found.schema, difference,
            None if oldest is None else max(timedelta(0), found.now - oldest),
        )  # fmt: skip

    async def _checks(self) -> tuple[datetime, Sequence[HealthCheck]]:
        async with self._lock:
            now = self.runtime.now()
            if self._checked is None or now - self._checked[0] >= CHECKED_FOR:
                self._checked = now, await self.check_health()
            return self._checked


@frozen
class Prices:
    """The tiers in the catalogue's order, those that no host can carry now, and the price of notes."""

    tiers: Sequence[PricingTier]
    without_host: frozenset[str]
    notulen_credits_per_minute: int


@frozen
class ConsolePrices:
    """The prices as they are in force in this process."""

    catalogue: TierCatalogue
    provider: VideoProvider
    registry: Registry

    async def list_prices(self, who: SignedInOperator) -> Prices:
        """Every tier, retired ones included.

        Raises:
            ActionNotAllowed: the role may not see it.
        """
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_PRICES)
        lacking: frozenset[str] = frozenset()
        if self.provider.abilities.has_hosts:
            hosts = await self.registry.list_hosts()
            lacking = frozenset(tier.id for tier in tiers_without_host(self.catalogue.on_sale(), hosts))
        tiers = tuple(self.catalogue.tiers.values())
        return Prices(tiers, lacking, self.catalogue.notulen_credits_per_minute)


def _waited(queue: Queue, found: Queues) -> QueueHealth:
    since = queue.oldest_due_at
    return QueueHealth(queue, timedelta(0) if since is None else max(timedelta(0), found.now - since))
