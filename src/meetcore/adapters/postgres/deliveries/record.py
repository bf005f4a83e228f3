"""Attempts at claimed deliveries, recorded for the holder of the claim only."""

from collections import Counter
from collections.abc import Collection, Sequence
from operator import attrgetter
from uuid import UUID

import msgspec
from attrs import fields

from meetcore.adapters.postgres.columns import Row, utc
from meetcore.adapters.postgres.deliveries.rows import DELIVERY, hold_at
from meetcore.adapters.postgres.endpoints.rows import ENDPOINT_WITHOUT_SECRETS as ENDPOINT
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.webhooks.deliveries import Attempt
from meetcore.domain.webhooks.destinations import HostFailures
from meetcore.domain.webhooks.endpoints import (
    DISABLE_AFTER_FAILURES,
    TRANSITIONS,
    Endpoint,
    EndpointEvent,
    EndpointState,
)
from meetcore.ports.deliveries import Claimed, ClaimedView, Recorded, RecordedHost, Saved

# Endpoints with the failures at their hosts, all locked: the hosts first, then the endpoints, each in one order, so that no
# two batches wait for each other crosswise. A host that fails changes endpoints that are not in the batch: no other
# transaction records an attempt at them meanwhile. OFFSET keeps the planner, which takes ids of a text for few, from joining
# by account alone.
_LOCK_ENDPOINTS = f"""
WITH posted_to AS MATERIALIZED (
    SELECT p.account_id, p.id, w.host
    FROM json_to_recordset(%(endpoints)s::json) AS p (account_id uuid, id uuid)
    CROSS JOIN LATERAL (
        SELECT w.host FROM webhook_endpoints w WHERE w.account_id = p.account_id AND w.id = p.id OFFSET 0) AS w
), host AS MATERIALIZED (
    SELECT h.account_id, h.host, h.consecutive_failures
    FROM (SELECT DISTINCT account_id, host FROM posted_to) AS p JOIN webhook_account_hosts h USING (account_id, host)
    ORDER BY h.account_id, h.host FOR NO KEY UPDATE OF h
)
SELECT {ENDPOINT.select}, p.failures AS host_failures
FROM (
    SELECT p.account_id, p.id, p.host, host.consecutive_failures AS failures
    FROM posted_to p JOIN host USING (account_id, host) OFFSET 0) AS p
JOIN webhook_endpoints w ON w.account_id = p.account_id AND w.id = p.id AND w.host = p.host
ORDER BY w.account_id, w.id FOR NO KEY UPDATE OF w
"""

# Deliveries that are still claimed with their tokens. Its snapshot is taken under the locks of their endpoints, which a
# claim and a change of an endpoint take, too: nobody ends a claim from here on, and no lock of a row is needed.
_FIND_CLAIMED = f"""
SELECT d.*, clock_timestamp() AS now
FROM json_to_recordset(%(claimed)s::json) AS c (account_id uuid, id uuid, token uuid)
CROSS JOIN LATERAL (
    SELECT {DELIVERY.select} FROM deliveries d
    WHERE d.account_id = c.account_id AND d.id = c.id AND d.lease_token = c.token OFFSET 0) AS d
"""

# Records attempts and what became of their deliveries. A delivery may be erased meanwhile: then it has no attempt, either.
_SAVE_DELIVERIES = """
WITH changed AS (
    UPDATE deliveries d SET status = made.status, attempts_made = made.number, due_at = made.due_at,
        held_at = made.held_at, failed_at = made.failed_at, lease_token = NULL, lease_host = NULL
    FROM json_to_recordset(%(made)s::json) AS made (account_id uuid, delivery_id uuid, status text, number int,
        due_at timestamptz, held_at timestamptz, failed_at timestamptz)
    WHERE d.account_id = made.account_id AND d.id = made.delivery_id
    RETURNING d.account_id, d.id
)
INSERT INTO delivery_attempts
SELECT made.* FROM json_populate_recordset(NULL::delivery_attempts, %(made)s::json) AS made
JOIN changed ON changed.account_id = made.account_id AND changed.id = made.delivery_id
ON CONFLICT DO NOTHING
"""

# What the attempts did to their endpoints and hosts. At one that is inactive now all that waits is held, but for the posts
# in flight, which are judged when they end. At an active one as many of the throttled are released as posts were recorded, or
# more where it has recovered, the longest due first. Tells how many may be claimed at once.
_SAVE_ENDPOINTS = f"""
WITH seen AS (
    SELECT * FROM jsonb_to_recordset(%(seen)s::jsonb)
    AS s (account_id uuid, id uuid, state text, failures int, disabled_at timestamptz, released int)
), inactive AS (
    SELECT account_id, id AS endpoint_id FROM seen WHERE state <> 'active'
), endpoint AS (
    UPDATE webhook_endpoints w
    SET state = seen.state, consecutive_failures = seen.failures, disabled_at = seen.disabled_at
    FROM seen WHERE w.account_id = seen.account_id AND w.id = seen.id
        AND (w.state, w.consecutive_failures) IS DISTINCT FROM (seen.state, seen.failures)
), host AS (
    UPDATE webhook_account_hosts h SET consecutive_failures = s.failures
    FROM jsonb_to_recordset(%(hosts)s::jsonb) AS s (account_id uuid, host text, failures int)
    WHERE h.account_id = s.account_id AND h.host = s.host AND h.consecutive_failures <> s.failures
), {hold_at("inactive")}, following AS MATERIALIZED (
    SELECT seen.account_id, throttled.id FROM seen CROSS JOIN LATERAL (
        SELECT p.id FROM deliveries p
        WHERE p.account_id = seen.account_id AND p.endpoint_id = seen.id AND p.is_throttled
        ORDER BY p.due_at LIMIT seen.released) AS throttled
    WHERE seen.state = 'active'
), released AS (
    UPDATE deliveries d SET is_throttled = false FROM following f WHERE d.account_id = f.account_id AND d.id = f.id
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
), {hold_at("disabled")}
SELECT * FROM disabled
"""

RELEASED_AT_RECOVERY = 100
"""How many throttled deliveries of an endpoint that has recovered may be claimed: what has no room is throttled again."""

# `domain.webhooks.endpoints.disable_with_host`, for many rows at once.
_DISABLING = {
    "active": EndpointState.ACTIVE.value,
    "disabled": TRANSITIONS[EndpointState.ACTIVE, EndpointEvent.DISABLE].value,
    "failures": DISABLE_AFTER_FAILURES,
}

_ATTEMPT_FIELDS = tuple(field.name for field in fields(Attempt))
_fields_of = attrgetter(*_ATTEMPT_FIELDS)


class AttemptRecords(Repository):
    """What became of claimed deliveries."""

    async def load_claimed(self, claimed: Sequence[Claimed]) -> Sequence[ClaimedView]:
        posted_to = {(one.account_id, one.endpoint_id) for one in claimed}
        named = _json([{"account_id": account_id, "id": id_} for account_id, id_ in posted_to])
        endpoints: dict[UUID, tuple[Endpoint, HostFailures]] = {}
        for row in await self._all(_LOCK_ENDPOINTS, {"endpoints": named}):
            endpoint = ENDPOINT.read(row, secret=None)
            failures = HostFailures(endpoint.account_id, endpoint.host, row["host_failures"])
            endpoints[endpoint.id] = endpoint, failures
        tokens = [
            {"account_id": one.account_id, "id": one.delivery_id, "token": one.token} for one in claimed
        ]
        found = await self._all(_FIND_CLAIMED, {"claimed": _json(tokens)})
        return [
            ClaimedView(DELIVERY.read(row), *endpoints[row["delivery_endpoint_id"]], utc(row["now"]))
            for row in found
            if row["delivery_endpoint_id"] in endpoints
        ]

    async def save_attempts(
        self, recorded: Sequence[Recorded], endpoints: Sequence[Endpoint], hosts: Sequence[RecordedHost],
        recovered: Collection[UUID] = (),
    ) -> Saved:  # fmt: skip
        await self._connection.execute(_SAVE_DELIVERIES, {"made": _json([_made(one) for one in recorded])})
        of_endpoint = Counter(one.delivery.endpoint_id for one in recorded)
        seen = [
            {
                "account_id": one.account_id,
                "id": one.id,
                "state": one.state,
                "failures": one.consecutive_failures,
                "disabled_at": one.disabled_at,
                "released": RELEASED_AT_RECOVERY if one.id in recovered else of_endpoint[one.id],
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
        return [ENDPOINT.read(row, secret=None) for row in found]


def _counted(host: RecordedHost) -> Row:
    failures = host.failures
    return {
        "account_id": failures.account_id,
        "host": failures.host,
        "failures": failures.consecutive_failures,
    }


def _made(recorded: Recorded) -> Row:
    delivery = recorded.delivery
    return {
        "account_id": delivery.account_id,
        "delivery_id": delivery.id,
        "status": delivery.status,
        "number": delivery.attempts_made,
        "due_at": delivery.next_attempt_at,
        "held_at": delivery.held_at,
        "failed_at": delivery.failed_at,
    } | dict(zip(_ATTEMPT_FIELDS, _fields_of(recorded.attempt), strict=True))


def _json(records: Sequence[Row]) -> str:
    # One text for a whole batch: the driver writes an array element by element, which costs ten times as much.
    return msgspec.json.encode(records).decode()
