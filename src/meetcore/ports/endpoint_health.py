"""How the deliveries to webhook endpoints go, from a bounded number of the latest ones."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from attrs import frozen

from meetcore.domain.webhooks.endpoints import Endpoint

__all__ = ["HEALTH_SAMPLE", "MAX_ATTEMPTS_READ", "EndpointHealth", "EndpointHealthQueries", "percentile_95"]

HEALTH_SAMPLE: Final = 200
"""The latest deliveries to an endpoint of which its health is taken."""
MAX_ATTEMPTS_READ: Final = 50
"""Attempts at one delivery that are looked at."""


@frozen
class EndpointHealth:
    """An endpoint, and the attempts at its latest deliveries.

    `p95_ms` is the duration in milliseconds that 95 in 100 attempts stay within; `last_error` is the code of
    the last attempt that failed, at `last_failure_at`.
    """

    endpoint: Endpoint
    attempts: int = 0
    successes: int = 0
    p95_ms: int | None = None
    last_failure_at: datetime | None = None
    last_error: str | None = None

    @property
    def success_rate(self) -> float | None:
        """The share of attempts that succeeded, from 0 to 1; none without attempts."""
        return self.successes / self.attempts if self.attempts else None


class EndpointHealthQueries(Protocol):
    """Reads of endpoints with their health.

    It is that of the attempts at the latest `HEALTH_SAMPLE` deliveries made since an instant.
    """

    async def list_endpoint_health(self, account_id: UUID, since: datetime) -> Sequence[EndpointHealth]:
        """An account's endpoints, the newest first, up to `queries.MAX_PAGE`."""
        ...

    async def find_endpoint_health(
        self, account_id: UUID, endpoint_id: UUID, since: datetime
    ) -> EndpointHealth | None:
        """An account's endpoint."""
        ...


def percentile_95(durations_ms: Sequence[int]) -> int | None:
    """The least of some durations that 95 in 100 of them stay within, as SQL's `percentile_disc` has it."""
    ordered = sorted(durations_ms)
    return ordered[-(-len(ordered) * 95 // 100) - 1] if ordered else None
