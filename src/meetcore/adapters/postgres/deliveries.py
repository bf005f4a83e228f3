"""Deliveries in PostgreSQL: claimed by pushing their due time past the lease, recorded behind a fence."""

from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from meetcore.adapters.postgres import rows
from meetcore.adapters.postgres.claims import claim_due
from meetcore.adapters.postgres.endpoints import ENDPOINT_COLUMNS
from meetcore.adapters.postgres.pool import Connection
from meetcore.adapters.postgres.sweeping import release_held, sweep
from meetcore.domain.webhooks.deliveries import Attempt, Delivery, ReleasePace
from meetcore.domain.webhooks.destinations import HostFailures
from meetcore.domain.webhooks.endpoints import (
    DISABLE_AFTER_FAILURES,
    TRANSITIONS,
    Endpoint,
    EndpointEvent,
    EndpointState,
)
from meetcore.ports.cipher import Cipher
from meetcore.ports.deliveries import Claimed, ClaimedView, ClaimLimits, Recorded, RecordedHost, Saved
from meetcore.ports.lease import Lease

__all__ = ["PostgresDeliveryRepository"]

# Claimed deliveries with their hosts and endpoints, all locked: the hosts first, then the endpoints, each in one order,
# so that no two batches wait for each other crosswise. A host that fails changes endpoints that are not in the batch:
# no other transaction records an attempt at them meanwhile.
_LOAD = f"""
WITH claim AS (
    SELECT * FROM jsonb_to_recordset(%(claimed)s::jsonb) AS c (account_id uuid, id uuid, token uuid)
), posted_to AS MATERIALIZED (
    SELECT DISTINCT w.account_id, w.id, w.host
    FROM claim JOIN deliveries d USING (account_id, id)
    JOIN webhook_endpoints w ON w.account_id = d.account_id AND w.id = d.endpoint_id
    WHERE d.lease_token = claim.token
), host AS MATERIALIZED (
    SELECT h.account_id, h.host, h.consecutive_failures FROM webhook_account_hosts h
    WHERE (h.account_id, h.host) IN (SELECT account_id, host FROM posted_to)
    ORDER BY h.account_id, h.host FOR NO KEY UPDATE
), endpoint AS MATERIALIZED (
    SELECT {ENDPOINT_COLUMNS}, host.consecutive_failures AS host_failures
    FROM webhook_endpoints w JOIN host USING (account_id, host)
    WHERE (w.account_id, w.id) IN (SELECT account_id, id FROM posted_to)
    ORDER BY w.account_id, w.id FOR NO KEY UPDATE OF w
)
SELECT endpoint.*, d.id AS delivery_id, d.event_id, d.event_kind, d.status AS delivery_status, d.attempts_made,
       d.due_at, d.held_at, d.created_at AS delivery_created_at, clock_timestamp() AS now
FROM claim
JOIN deliveries d ON d.account_id = claim.account_id AND d.id = claim.id AND d.lease_token = claim.token
JOIN endpoint ON endpoint.account_id = d.account_id AND endpoint.endpoint_id = d.endpoint_id
FOR UPDATE OF d
"""

# Records attempts and what became of their deliveries.
_SAVE_DELIVERIES = """
WITH made AS (
    SELECT * FROM jsonb_to_recordset(%(made)s::jsonb) AS m (account_id uuid, id uuid, status text, number int,
        due_at timestamptz, held_at timestamptz, at timestamptz, duration_ms int, status_code int, error text,
        response_excerpt text, address text)
), attempt AS (
    INSERT INTO delivery_attempts (account_id, delivery_id, number, at, duration_ms, status_code, error,
        response_excerpt, address)
    SELECT account_id, id, number, at, duration_ms, status_code, error, response_excerpt, address FROM made
    ON CONFLICT DO NOTHING
)
UPDATE deliveries d SET status = made.status, attempts_made = made.number, due_at = made.due_at,
    held_at = made.held_at, lease_token = NULL, lease_host = NULL
FROM made WHERE d.account_id = made.account_id AND d.id = made.id
"""

# What the attempts did to their endpoints and hosts. At one that is inactive now whatever waits is held, but for the posts
# in flight, which are judged when they end; at an active one as many as were recorded come of the throttled are released, the
# longest due first. Tells how many may be claimed at once.
_SAVE_ENDPOINTS = """
WITH seen AS (
    SELECT * FROM jsonb_to_recordset(%(seen)s::jsonb)
    AS s (account_id uuid, id uuid, state text, failures int, disabled_at timestamptz, recorded int)
), endpoint AS (
    UPDATE webhook_endpoints w
    SET state = seen.state, consecutive_failures = seen.failures, disabled_at = seen.disabled_at
    FROM seen WHERE w.account_id = seen.account_id AND w.id = seen.id
        AND (w.state, w.consecutive_failures) IS DISTINCT FROM (seen.state, seen.failures)
), host AS (
    UPDATE webhook_account_hosts h SET consecutive_failures = s.failures
    FROM jsonb_to_recordset(%(hosts)s::jsonb) AS s (account_id uuid, host text, failures int)
    WHERE h.account_id = s.account_id AND h.host = s.host AND h.consecutive_failures <> s.failures
), held AS (
    UPDATE deliveries d
    SET status = 'held', held_at = clock_timestamp(), due_at = NULL, is_throttled = false, lease_token = NULL
    FROM seen WHERE seen.state <> 'active' AND d.account_id = seen.account_id AND d.endpoint_id = seen.id
        AND d.status = 'pending' AND (d.lease_token IS NULL OR d.due_at <= statement_timestamp())
), released AS (
    UPDATE deliveries d SET is_throttled = false
    FROM seen CROSS JOIN LATERAL (
        SELECT p.id FROM deliveries p
        WHERE p.account_id = seen.account_id AND p.endpoint_id = seen.id AND p.is_throttled
        ORDER BY p.due_at LIMIT seen.recorded) AS next
    WHERE seen.state = 'active' AND d.account_id = seen.account_id AND d.id = next.id
    RETURNING 1
)
SELECT (SELECT count(*) FROM released) AS due
"""

# Disables what fails at hosts that have failed too often in a row, and holds what waits there; returns which endpoints
# those are. The endpoints of the batch have been saved before.
_DISABLE_AT_HOSTS = f"""
WITH failing AS (
    SELECT * FROM jsonb_to_recordset(%(hosts)s::jsonb) AS f (account_id uuid, host text)
), disabled AS (
    UPDATE webhook_endpoints w
    SET state = %(disabled)s, consecutive_failures = %(failures)s, disabled_at = clock_timestamp()
    FROM failing WHERE w.account_id = failing.account_id AND w.host = failing.host
        AND w.state = %(active)s AND w.consecutive_failures > 0
    RETURNING {ENDPOINT_COLUMNS}
), held AS (
    UPDATE deliveries d
    SET status = 'held', held_at = clock_timestamp(), due_at = NULL, is_throttled = false, lease_token = NULL
    FROM disabled WHERE d.account_id = disabled.account_id AND d.endpoint_id = disabled.endpoint_id
        AND d.status = 'pending' AND (d.lease_token IS NULL OR d.due_at <= statement_timestamp())
)
SELECT * FROM disabled
"""

# `domain.endpoints.disable_with_host`, for many rows at once.
_DISABLING = {
    "active": EndpointState.ACTIVE.value,
    "disabled": TRANSITIONS[EndpointState.ACTIVE, EndpointEvent.DISABLE].value,
    "failures": DISABLE_AFTER_FAILURES,
}


class PostgresDeliveryRepository:
    """The outbox as the worker sees it, on one open transaction."""

    def __init__(self, connection: Connection, cipher: Cipher) -> None:
        self._connection = connection
        self._cipher = cipher

    async def claim_due(self, limits: ClaimLimits, lease: Lease) -> Sequence[Claimed]:
        """Take deliveries that are due at active endpoints, as many as the limits leave room for."""
        return await claim_due(self._connection, self._cipher, limits, lease)

    async def load_claimed(self, claimed: Sequence[Claimed]) -> Sequence[ClaimedView]:
        """Those deliveries, with their endpoints, whose claim is still held."""
        named = [{"account_id": one.account_id, "id": one.delivery_id, "token": one.token} for one in claimed]
        found = await (await self._connection.execute(_LOAD, {"claimed": _json(named)})).fetchall()
        endpoints: dict[object, Endpoint] = {}
        for row in found:
            if row["endpoint_id"] not in endpoints:
                endpoints[row["endpoint_id"]] = rows.endpoint(row, self._cipher)
        return [_view(row, endpoints[row["endpoint_id"]]) for row in found]

    async def save_attempts(
        self, recorded: Sequence[Recorded], endpoints: Sequence[Endpoint], hosts: Sequence[RecordedHost]
    ) -> Saved:
        """Record attempts, their deliveries, and the endpoints and hosts that they changed."""
        made = [_made(one.delivery, one.attempt) for one in recorded]
        await self._connection.execute(_SAVE_DELIVERIES, {"made": _json(made)})
        of_endpoint = Counter(one.delivery.endpoint_id for one in recorded)
        seen = [
            {
                "account_id": one.account_id,
                "id": one.id,
                "state": one.state,
                "failures": one.consecutive_failures,
                "disabled_at": one.disabled_at,
                "recorded": of_endpoint[one.id],
            }
            for one in endpoints
        ]
        parameters = {"seen": _json(seen), "hosts": _json([_counted(one) for one in hosts])}
        row = await (await self._connection.execute(_SAVE_ENDPOINTS, parameters)).fetchone()
        disabled = await self._disable_at([_counted(one) for one in hosts if one.is_failing])
        return Saved(0 if row is None else int(row["due"]), disabled)

    async def _disable_at(self, failing: Sequence[dict[str, Any]]) -> Sequence[Endpoint]:
        if not failing:
            return ()
        cursor = await self._connection.execute(_DISABLE_AT_HOSTS, _DISABLING | {"hosts": _json(failing)})
        return [rows.endpoint(row, self._cipher) for row in await cursor.fetchall()]

    async def release_held(self, account_id: UUID, endpoint_id: UUID, pace: ReleasePace) -> int:
        """Release the next portion of what an endpoint holds, if it is active and the last one is through."""
        return await release_held(self._connection, account_id, endpoint_id, pace)

    async def sweep(self, pace: ReleasePace) -> int:
        """Repair deliveries that no other process moves on."""
        return await sweep(self._connection, pace)


def _view(row: rows.Row, endpoint: Endpoint) -> ClaimedView:
    failures = HostFailures(endpoint.account_id, endpoint.host, row["host_failures"])
    return ClaimedView(rows.delivery(row), endpoint, failures, row["now"])


def _counted(host: RecordedHost) -> dict[str, Any]:
    failures = host.failures
    return {
        "account_id": failures.account_id,
        "host": failures.host,
        "failures": failures.consecutive_failures,
    }


def _made(delivery: Delivery, attempt: Attempt) -> dict[str, Any]:
    return {
        "account_id": delivery.account_id,
        "id": delivery.id,
        "status": delivery.status,
        "number": delivery.attempts_made,
        "due_at": delivery.next_attempt_at,
        "held_at": delivery.held_at,
        "at": attempt.at,
        "duration_ms": attempt.duration_ms,
        "status_code": attempt.status_code,
        "error": attempt.error,
        "response_excerpt": attempt.response_excerpt,
        "address": attempt.address,
    }


def _json(records: Sequence[dict[str, Any]]) -> str:
    # One text for a whole batch: the driver writes an array element by element, which costs ten times as much.
    return msgspec.json.encode(records).decode()
