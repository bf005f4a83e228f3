"""Attempts at claimed deliveries, recorded for the holder of the claim only."""

from collections import Counter
from collections.abc import Sequence

import msgspec
from attrs import asdict

from meetcore.adapters.postgres.columns import Row, utc
from meetcore.adapters.postgres.deliveries.rows import DELIVERY, HOLD, PENDING
from meetcore.adapters.postgres.endpoints.rows import ENDPOINT
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.webhooks.deliveries import Attempt, Delivery
from meetcore.domain.webhooks.destinations import HostFailures
from meetcore.domain.webhooks.endpoints import (
    DISABLE_AFTER_FAILURES,
    TRANSITIONS,
    Endpoint,
    EndpointEvent,
    EndpointState,
)
from meetcore.ports.deliveries import Claimed, ClaimedView, Recorded, RecordedHost, Saved

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
    SELECT {ENDPOINT.select}, host.consecutive_failures AS host_failures
    FROM webhook_endpoints w JOIN host USING (account_id, host)
    WHERE (w.account_id, w.id) IN (SELECT account_id, id FROM posted_to)
    ORDER BY w.account_id, w.id FOR NO KEY UPDATE OF w
)
SELECT endpoint.*, {DELIVERY.select}, clock_timestamp() AS now
FROM claim
JOIN deliveries d ON d.account_id = claim.account_id AND d.id = claim.id AND d.lease_token = claim.token
JOIN endpoint ON endpoint.account_id = d.account_id AND endpoint.endpoint_id = d.endpoint_id
FOR UPDATE OF d
"""

# Records attempts and what became of their deliveries.
_SAVE_DELIVERIES = """
WITH made AS (
    SELECT * FROM jsonb_to_recordset(%(made)s::jsonb)
    AS m (account_id uuid, id uuid, status text, number int, due_at timestamptz, held_at timestamptz,
        failed_at timestamptz)
), attempt AS (
    INSERT INTO delivery_attempts
    SELECT * FROM jsonb_populate_recordset(NULL::delivery_attempts, %(attempts)s::jsonb)
    ON CONFLICT DO NOTHING
)
UPDATE deliveries d SET status = made.status, attempts_made = made.number, due_at = made.due_at,
    held_at = made.held_at, failed_at = made.failed_at, lease_token = NULL, lease_host = NULL
FROM made WHERE d.account_id = made.account_id AND d.id = made.id
"""

# What the attempts did to their endpoints and hosts. At one that is inactive now all that waits is held, but for the posts
# in flight, which are judged when they end; at an active one as many as were recorded come of the throttled are released, the
# longest due first. Tells how many may be claimed at once.
_SAVE_ENDPOINTS = f"""
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
    SET {HOLD}
    FROM seen WHERE seen.state <> 'active' AND d.account_id = seen.account_id AND d.endpoint_id = seen.id
        AND d.status = '{PENDING}' AND (d.lease_token IS NULL OR d.due_at <= statement_timestamp())
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
    RETURNING {ENDPOINT.select}
), held AS (
    UPDATE deliveries d
    SET {HOLD}
    FROM disabled WHERE d.account_id = disabled.account_id AND d.endpoint_id = disabled.endpoint_id
        AND d.status = '{PENDING}' AND (d.lease_token IS NULL OR d.due_at <= statement_timestamp())
)
SELECT * FROM disabled
"""

# `domain.webhooks.endpoints.disable_with_host`, for many rows at once.
_DISABLING = {
    "active": EndpointState.ACTIVE.value,
    "disabled": TRANSITIONS[EndpointState.ACTIVE, EndpointEvent.DISABLE].value,
    "failures": DISABLE_AFTER_FAILURES,
}


class AttemptRecords(Repository):
    """What became of claimed deliveries."""

    async def load_claimed(self, claimed: Sequence[Claimed]) -> Sequence[ClaimedView]:
        named = [{"account_id": one.account_id, "id": one.delivery_id, "token": one.token} for one in claimed]
        found = await self._all(_LOAD, {"claimed": _json(named)})
        endpoints: dict[object, Endpoint] = {}
        for row in found:
            if row["endpoint_id"] not in endpoints:
                endpoints[row["endpoint_id"]] = ENDPOINT.read(row, self._cipher)
        return [_view(row, endpoints[row["endpoint_id"]]) for row in found]

    async def save_attempts(
        self, recorded: Sequence[Recorded], endpoints: Sequence[Endpoint], hosts: Sequence[RecordedHost]
    ) -> Saved:
        saved = {
            "made": _json([_made(one.delivery) for one in recorded]),
            "attempts": _json([_attempt(one.delivery, one.attempt) for one in recorded]),
        }
        await self._connection.execute(_SAVE_DELIVERIES, saved)
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
        due = await self._due(_SAVE_ENDPOINTS, parameters)
        return Saved(due, await self._disable_at([_counted(one) for one in hosts if one.is_failing]))

    async def _disable_at(self, failing: Sequence[Row]) -> Sequence[Endpoint]:
        if not failing:
            return ()
        found = await self._all(_DISABLE_AT_HOSTS, _DISABLING | {"hosts": _json(failing)})
        return [ENDPOINT.read(row, self._cipher) for row in found]


def _view(row: Row, endpoint: Endpoint) -> ClaimedView:
    failures = HostFailures(endpoint.account_id, endpoint.host, row["host_failures"])
    return ClaimedView(DELIVERY.read(row), endpoint, failures, utc(row["now"]))


def _counted(host: RecordedHost) -> Row:
    failures = host.failures
    return {
        "account_id": failures.account_id,
        "host": failures.host,
        "failures": failures.consecutive_failures,
    }


def _made(delivery: Delivery) -> Row:
    return {
        "account_id": delivery.account_id,
        "id": delivery.id,
        "status": delivery.status,
        "number": delivery.attempts_made,
        "due_at": delivery.next_attempt_at,
        "held_at": delivery.held_at,
        "failed_at": delivery.failed_at,
    }


def _attempt(delivery: Delivery, attempt: Attempt) -> Row:
    named = {"account_id": delivery.account_id, "delivery_id": delivery.id, "number": delivery.attempts_made}
    return named | asdict(attempt)


def _json(records: Sequence[Row]) -> str:
    # One text for a whole batch: the driver writes an array element by element, which costs ten times as much.
    return msgspec.json.encode(records).decode()
