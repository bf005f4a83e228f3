"""How the deliveries to webhook endpoints go, in memory."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from meetcore.adapters.memory.state import MemoryState
from meetcore.domain.ids import first_id
from meetcore.domain.webhooks.deliveries import Attempt
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.ports.endpoint_health import HEALTH_SAMPLE, MAX_ATTEMPTS_READ, EndpointHealth, percentile_95


class MemoryEndpointHealth:
    """Reads of endpoints with their health."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def list_endpoint_health(self, account_id: UUID, since: datetime) -> Sequence[EndpointHealth]:
        endpoints = self._state.committed.endpoints.values()
        own = [each for each in endpoints if each.account_id == account_id]
        return [self._health(each, since) for each in sorted(own, key=lambda each: each.id, reverse=True)]

    async def find_endpoint_health(
        self, account_id: UUID, endpoint_id: UUID, since: datetime
    ) -> EndpointHealth | None:
        endpoint = self._state.committed.endpoints.get((account_id, endpoint_id))
        return None if endpoint is None else self._health(endpoint, since)

    def _health(self, endpoint: Endpoint, since: datetime) -> EndpointHealth:
        attempts = self._attempts(endpoint, since)
        failures = [each for each in attempts if each.error is not None]
        last = max(failures, key=lambda each: each.at, default=None)
        return EndpointHealth(
            endpoint,
            len(attempts),
            len(attempts) - len(failures),
            percentile_95([each.duration_ms for each in attempts]),
            None if last is None else last.at,
            None if last is None else last.error,
        )

    def _attempts(self, endpoint: Endpoint, since: datetime) -> list[Attempt]:
        tables = self._state.committed
        ids = [
            id_
            for (account_id, id_), stored in tables.deliveries.items()
            if account_id == endpoint.account_id
            and stored.delivery.endpoint_id == endpoint.id
            and id_ >= first_id(since)
        ]
        wanted = set(sorted(ids, reverse=True)[:HEALTH_SAMPLE])
        return [
            attempt
            for (account_id, id_, number), attempt in tables.attempts.items()
            if account_id == endpoint.account_id and id_ in wanted and number <= MAX_ATTEMPTS_READ
        ]
