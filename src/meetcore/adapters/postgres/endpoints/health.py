"""How the deliveries to webhook endpoints go, in PostgreSQL: a bounded number of the latest ones, in one statement."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from meetcore.adapters.postgres.columns import Row, utc
from meetcore.adapters.postgres.endpoints.rows import ENDPOINT
from meetcore.adapters.postgres.repository import Reads
from meetcore.domain.ids import first_id
from meetcore.ports.endpoint_health import HEALTH_SAMPLE, MAX_ATTEMPTS_READ, EndpointHealth
from meetcore.ports.queries import MAX_PAGE

# The attempts at the latest deliveries to the endpoint `w`. Attempts are looked up for one delivery after another: without
# the limit the planner might join whole tables.
_HEALTH = f"""LATERAL (
        SELECT count(*) AS attempts, count(*) FILTER (WHERE a.error IS NULL) AS successes,
            percentile_disc(0.95) WITHIN GROUP (ORDER BY a.duration_ms) AS p95_ms,
            max(a.at) FILTER (WHERE a.error IS NOT NULL) AS last_failure_at,
            (array_agg(a.error ORDER BY a.at DESC) FILTER (WHERE a.error IS NOT NULL))[1] AS last_error
        FROM (
            SELECT d.id FROM deliveries d
            WHERE d.account_id = w.account_id AND d.endpoint_id = w.id AND d.id >= %(since)s
            ORDER BY d.id DESC LIMIT {HEALTH_SAMPLE}
        ) d CROSS JOIN LATERAL (
            SELECT * FROM delivery_attempts a WHERE a.account_id = w.account_id AND a.delivery_id = d.id
            ORDER BY a.number LIMIT {MAX_ATTEMPTS_READ}
        ) a
    ) h"""

# An account's endpoints with their health.
_LIST_HEALTH = f"""
SELECT {ENDPOINT.select}, h.*
FROM (SELECT * FROM webhook_endpoints WHERE account_id = %(account_id)s ORDER BY id DESC LIMIT {MAX_PAGE}) w
    CROSS JOIN {_HEALTH}
ORDER BY w.id DESC
"""

# One endpoint with its health.
_FIND_HEALTH = f"""
SELECT {ENDPOINT.select}, h.*
FROM webhook_endpoints w CROSS JOIN {_HEALTH}
WHERE w.account_id = %(account_id)s AND w.id = %(id)s
"""


class HealthReads(Reads):
    """Reads of endpoints with their health."""

    async def list_endpoint_health(self, account_id: UUID, since: datetime) -> Sequence[EndpointHealth]:
        rows = await self._all(_LIST_HEALTH, {"account_id": account_id, "since": first_id(since)})
        return [self._health(row) for row in rows]

    async def find_endpoint_health(
        self, account_id: UUID, endpoint_id: UUID, since: datetime
    ) -> EndpointHealth | None:
        wanted = {"account_id": account_id, "id": endpoint_id, "since": first_id(since)}
        row = await self._one(_FIND_HEALTH, wanted)
        return None if row is None else self._health(row)

    def _health(self, row: Row) -> EndpointHealth:
        at = row["last_failure_at"]
        return EndpointHealth(
            ENDPOINT.read(row, self._cipher),
            row["attempts"],
            row["successes"],
            row["p95_ms"],
            None if at is None else utc(at),
            row["last_error"],
        )
