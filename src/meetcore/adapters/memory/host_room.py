"""Room at destination hosts in memory: posts in flight, and posts taken in the last second."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from meetcore.adapters.memory.state import Tables
from meetcore.domain.webhooks.deliveries import Delivery
from meetcore.ports.deliveries import ClaimLimits

_A_SECOND = timedelta(seconds=1)


class HostRoom:
    """What is left of the limits of every host during one claim."""

    def __init__(
        self, tables: Tables, limits: ClaimLimits, in_flight: Iterable[Delivery], now: datetime
    ) -> None:
        self._tables = tables
        self._limits = limits
        self._now = now
        self._posts: Counter[str] = Counter()
        self._shares: Counter[tuple[str, UUID]] = Counter()
        self._behind: Counter[tuple[str, bool]] = Counter()
        for delivery in in_flight:
            self._count(self._host_of(delivery), delivery.account_id)

    def take(self, delivery: Delivery) -> timedelta | None:
        """Take a place, or return after how long the delivery may try again."""
        host, limits = self._host_of(delivery), self._limits
        claimed_at = [at for at in self._tables.host_claims.get(host, ()) if at > self._now - _A_SECOND]
        has_room = self._posts[host] < limits.per_host and len(claimed_at) < limits.per_host_per_s
        has_share = self._shares[host, delivery.account_id] < limits.per_host_of_account
        if not (has_room and has_share):
            self._behind[host, has_share] += 1
            return self._behind[host, has_share] * _A_SECOND / limits.per_host_per_s
        self._tables.host_claims[host] = (*claimed_at, self._now)
        self._count(host, delivery.account_id)
        return None

    def _count(self, host: str, account_id: UUID) -> None:
        self._posts[host] += 1
        self._shares[host, account_id] += 1

    def _host_of(self, delivery: Delivery) -> str:
        return self._tables.endpoints[delivery.account_id, delivery.endpoint_id].host
