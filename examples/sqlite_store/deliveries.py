"""Deliveries in SQLite: claimed by pushing their due time past the lease, recorded behind a fence."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from meetcore.domain.webhooks.deliveries import HELD_FOR, Delivery, ReleasePace
from meetcore.domain.webhooks.destinations import HostFailures
from meetcore.domain.webhooks.endpoints import Endpoint, disable_with_host
from meetcore.ports.clock import Clock
from meetcore.ports.deliveries import Claimed, ClaimedView, ClaimLimits, Recorded, RecordedHost, Saved
from meetcore.ports.lease import Lease

from . import rows
from .connection import Connection
from .endpoints import load_endpoint
from .outbox import hold_waiting

__all__ = ["SqliteDeliveryRepository"]

_A_SECOND = timedelta(seconds=1)

# What is due at active endpoints and has room there and in its account, the account with the least in flight
# first. One writer at a time, so the room stays free meanwhile. `over_share` and `over_room` say by how
# many places a delivery is too late for its account's share of its host's room, and for that room; below one,
# there is a place.
_DUE = """
WITH in_flight AS (
    SELECT d.account_id, d.endpoint_id, w.host, count(*) AS posts
    FROM deliveries d JOIN endpoints w ON w.account_id = d.account_id AND w.id = d.endpoint_id
    WHERE d.status = 'pending' AND d.lease_token IS NOT NULL AND d.next_attempt_at > :now
    GROUP BY d.account_id, d.endpoint_id
), waiting AS (
    SELECT d.account_id, d.id, d.next_attempt_at, w.host, row_number() OVER (
        PARTITION BY d.account_id, d.endpoint_id ORDER BY d.next_attempt_at, d.id
    ) + coalesce((SELECT posts FROM in_flight f
        WHERE f.account_id = d.account_id AND f.endpoint_id = d.endpoint_id), 0) AS seat
    FROM deliveries d JOIN endpoints w ON w.account_id = d.account_id AND w.id = d.endpoint_id
    WHERE d.status = 'pending' AND d.next_attempt_at <= :now AND w.state = 'active'
), seated AS (
    SELECT waiting.*, row_number() OVER (
        PARTITION BY account_id ORDER BY next_attempt_at, id
    ) + coalesce((SELECT sum(posts) FROM in_flight f WHERE f.account_id = waiting.account_id), 0) AS turn
    FROM waiting WHERE seat <= :per_endpoint
), shared AS (
    SELECT seated.*, row_number() OVER (PARTITION BY host, account_id ORDER BY turn) - :per_host_of_account
        + coalesce((SELECT sum(posts) FROM in_flight f
            WHERE f.host = seated.host AND f.account_id = seated.account_id), 0) AS over_share
    FROM seated WHERE turn <= :per_account
)
SELECT account_id, id AS delivery_id, next_attempt_at, over_share, row_number() OVER (
        PARTITION BY host, over_share > 0 ORDER BY turn, next_attempt_at, id
    ) - min(
        :per_host - coalesce((SELECT sum(posts) FROM in_flight f WHERE f.host = shared.host), 0),
        :per_host_per_s - (SELECT count(*) FROM host_claims c WHERE c.host = shared.host AND c.at > :lately)
    ) AS over_room
FROM shared ORDER BY turn, next_attempt_at, id
"""

# Makes one due later: there is no room for it at its host.
_DELAY = """
UPDATE deliveries SET next_attempt_at = :until, lease_token = NULL
WHERE account_id = :account_id AND id = :delivery_id
"""

# Claims one: it is not due until the lease ends.
_CLAIM = """
UPDATE deliveries SET lease_token = :token, next_attempt_at = :until
WHERE account_id = :account_id AND id = :delivery_id
"""

# All that a post needs.
_POST = """
SELECT d.account_id, d.id AS delivery_id, d.event_id, d.event_kind, w.url, w.secret, w.host, e.payload AS body
FROM deliveries d
JOIN endpoints w ON w.account_id = d.account_id AND w.id = d.endpoint_id
JOIN events e ON e.account_id = d.account_id AND e.id = d.event_id
WHERE d.account_id = :account_id AND d.id = :delivery_id
"""

# What was claimed for a host, for as long as it counts.
_NOTE_CLAIM = "INSERT INTO host_claims (host, at) VALUES (:host, :now)"
_DELETE_CLAIMS = "DELETE FROM host_claims WHERE at <= :lately"

# Failures in a row at a host.
_HOST_FAILURES = """
SELECT consecutive_failures FROM host_failures WHERE account_id = :account_id AND host = :host
"""
_WRITE_HOST_FAILURES = """
INSERT INTO host_failures (account_id, host, consecutive_failures)
VALUES (:account_id, :host, :consecutive_failures)
ON CONFLICT DO UPDATE SET consecutive_failures = excluded.consecutive_failures
"""
_AT_HOST = "SELECT * FROM endpoints WHERE account_id = :account_id AND host = :host"

# A delivery, for the holder of its claim only.
_LOAD_CLAIMED = """
SELECT * FROM deliveries WHERE account_id = :account_id AND id = :id AND lease_token = :token
"""

# An attempt, kept once under its number.
_WRITE_ATTEMPT = """
INSERT INTO delivery_attempts (account_id, delivery_id, number, at, duration_ms, status_code, error,
    response_excerpt, address)
VALUES (:account_id, :delivery_id, :number, :at, :duration_ms, :status_code, :error, :response_excerpt,
    :address)
ON CONFLICT DO NOTHING
"""

# What became of the delivery. The claim ends.
_WRITE_DELIVERY = """
UPDATE deliveries SET status = :status, attempts_made = :attempts_made, next_attempt_at = :next_attempt_at,
    held_at = :held_at, lease_token = NULL
WHERE account_id = :account_id AND id = :id
"""

# What became of the endpoint. What its owner may update meanwhile is left alone.
_WRITE_ENDPOINT = """
UPDATE endpoints SET state = :state, consecutive_failures = :consecutive_failures, disabled_at = :disabled_at
WHERE account_id = :account_id AND id = :id
"""

# How many more may be due at an endpoint.
_WAITING_AT = """
SELECT count(*) AS waiting FROM deliveries
WHERE account_id = :account_id AND endpoint_id = :endpoint_id
    AND status = 'pending' AND next_attempt_at <= :now
"""

# Gives up what was held for too long.
_EXPIRE = """
UPDATE deliveries SET status = 'expired', held_at = NULL WHERE status = 'held' AND held_at <= :since
"""

# Endpoints that are active, hold something, and whose last portion is through.
_RELEASABLE = """
SELECT account_id, id FROM endpoints
WHERE state = 'active' AND (released_until IS NULL OR released_until <= :now)
    AND (:endpoint_id IS NULL OR (account_id = :account_id AND id = :endpoint_id))
    AND EXISTS (SELECT 1 FROM deliveries d
        WHERE d.account_id = endpoints.account_id AND d.endpoint_id = endpoints.id AND d.status = 'held')
"""

# The next portion of what an endpoint holds, the oldest first: ids sort by time.
_HELD = """
SELECT account_id, id FROM deliveries
WHERE account_id = :account_id AND endpoint_id = :id AND status = 'held' ORDER BY id LIMIT :portion
"""
_RELEASE = """
UPDATE deliveries SET status = 'pending', held_at = NULL, next_attempt_at = :due
WHERE account_id = :account_id AND id = :id
"""
_RELEASED_UNTIL = "UPDATE endpoints SET released_until = :until WHERE account_id = :account_id AND id = :id"

# Holds what is due at an inactive endpoint. A store with more than one writer needs this: an event and a
# change of its endpoint may miss each other there.
_HOLD = """
UPDATE deliveries SET status = 'held', held_at = :now, next_attempt_at = NULL, lease_token = NULL
WHERE status = 'pending' AND next_attempt_at <= :now AND (account_id, endpoint_id) IN (
    SELECT account_id, id FROM endpoints WHERE state <> 'active')
"""


class SqliteDeliveryRepository:
    """The outbox as the worker sees it, on one open transaction."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def claim_due(self, limits: ClaimLimits, lease: Lease) -> Sequence[Claimed]:
        """Take deliveries that are due at active endpoints, as many as the limits leave room for."""
        now = self._clock.now()
        at = {"now": now, "lately": now - _A_SECOND}
        await self._connection.change(_DELETE_CLAIMS, at)
        share = {"per_host_of_account": limits.per_host_of_account}
        due = await self._connection.fetch(_DUE, rows.fields_of(limits) | share | at)
        chosen: list[rows.Row] = []
        for row in due:
            behind = max(row["over_share"], row["over_room"])
            if behind > 0:
                until = now + behind * _A_SECOND / limits.per_host_per_s
                await self._connection.change(_DELAY, row | {"until": until})
            elif len(chosen) < limits.total:
                chosen.append(row)
        chosen.sort(key=lambda row: (row["next_attempt_at"], row["delivery_id"]))
        return [await self._claim(row, lease, now) for row in chosen]

    async def _claim(self, named: rows.Row, lease: Lease, now: datetime) -> Claimed:
        bearer = {"token": lease.token, "until": now + timedelta(seconds=lease.seconds)}
        await self._connection.change(_CLAIM, named | bearer)
        row = await self._connection.fetch_one(_POST, named)
        assert row is not None  # one transaction, one writer
        await self._connection.change(_NOTE_CLAIM, {"host": row["host"], "now": now})
        return rows.record(Claimed, row | {"token": str(lease.token)})

    async def load_claimed(self, claimed: Sequence[Claimed]) -> Sequence[ClaimedView]:
        """Those deliveries, with their endpoints, whose claim is still held."""
        views = []
        for one in claimed:
            bearer = {"account_id": one.account_id, "id": one.delivery_id, "token": one.token}
            row = await self._connection.fetch_one(_LOAD_CLAIMED, bearer)
            if row is not None:
                delivery = rows.record(Delivery, row)
                endpoint = await load_endpoint(self._connection, one.account_id, delivery.endpoint_id)
                if endpoint is not None:
                    host = await self._host_failures(endpoint)
                    views.append(ClaimedView(delivery, endpoint, host, self._clock.now()))
        return views

    async def _host_failures(self, endpoint: Endpoint) -> HostFailures:
        named = {"account_id": endpoint.account_id, "host": endpoint.host}
        row = await self._connection.fetch_one(_HOST_FAILURES, named)
        count = 0 if row is None else int(row["consecutive_failures"])
        return HostFailures(endpoint.account_id, endpoint.host, count)

    async def save_attempts(
        self, recorded: Sequence[Recorded], endpoints: Sequence[Endpoint], hosts: Sequence[RecordedHost]
    ) -> Saved:
        """Record attempts, their deliveries, and the endpoints and hosts that they changed."""
        for one in recorded:
            delivery = one.delivery
            about = {
                "account_id": delivery.account_id,
                "delivery_id": delivery.id,
                "number": delivery.attempts_made,
            }
            await self._connection.change(_WRITE_ATTEMPT, rows.fields_of(one.attempt) | about)
            await self._connection.change(_WRITE_DELIVERY, rows.fields_of(delivery))
        now, due = self._clock.now(), 0
        for endpoint in endpoints:
            await self._save_endpoint(endpoint, now)
            if endpoint.is_active:
                freed = sum(one.delivery.endpoint_id == endpoint.id for one in recorded)
                due += min(freed, await self._waiting_at(endpoint, now))
        disabled = [endpoint for host in hosts for endpoint in await self._save_host(host, now)]
        return Saved(due, disabled)

    async def _save_endpoint(self, endpoint: Endpoint, now: datetime) -> None:
        await self._connection.change(_WRITE_ENDPOINT, rows.fields_of(endpoint))
        if not endpoint.is_active:
            await hold_waiting(self._connection, endpoint.account_id, endpoint.id, now)

    async def _save_host(self, host: RecordedHost, now: datetime) -> list[Endpoint]:
        """Write the count; the endpoints that the host disabled."""
        failures = rows.fields_of(host.failures)
        await self._connection.change(_WRITE_HOST_FAILURES, failures)
        if not host.is_failing:
            return []
        there = [rows.record(Endpoint, row) for row in await self._connection.fetch(_AT_HOST, failures)]
        disabled = [one for one in (disable_with_host(one, now) for one in there) if one not in there]
        for endpoint in disabled:
            await self._save_endpoint(endpoint, now)
        return disabled

    async def _waiting_at(self, endpoint: Endpoint, now: datetime) -> int:
        about = {"account_id": endpoint.account_id, "endpoint_id": endpoint.id, "now": now}
        row = await self._connection.fetch_one(_WAITING_AT, about)
        return 0 if row is None else int(row["waiting"])

    async def release_held(self, account_id: UUID, endpoint_id: UUID, pace: ReleasePace) -> int:
        """Release the next portion of what an endpoint holds, if it is active and the last one is through."""
        return await self._release(pace, account_id, endpoint_id)

    async def sweep(self, pace: ReleasePace) -> int:
        """Expire what was held for too long, hold and release what is not where it belongs."""
        now = self._clock.now()
        await self._connection.change(_EXPIRE, {"since": now - HELD_FOR})
        await self._connection.change(_HOLD, {"now": now})
        return await self._release(pace)

    async def _release(
        self, pace: ReleasePace, account_id: UUID | None = None, endpoint_id: UUID | None = None
    ) -> int:
        now, released = self._clock.now(), 0
        about = {"now": now, "account_id": account_id, "endpoint_id": endpoint_id}
        for endpoint in await self._connection.fetch(_RELEASABLE, about):
            await self._connection.change(_RELEASED_UNTIL, endpoint | {"until": now + pace.lasts})
            held = await self._connection.fetch(_HELD, endpoint | {"portion": pace.portion})
            for place, row in enumerate(held):
                await self._connection.change(_RELEASE, row | {"due": now + place * pace.every})
            released += len(held)
        return released
