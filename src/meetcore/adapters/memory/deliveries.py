"""Deliveries in memory: claimed by pushing their due time past the lease, recorded behind a fence."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.host_room import HostRoom
from meetcore.adapters.memory.outbox import hold_waiting, release_held
from meetcore.adapters.memory.state import StoredDelivery, Tables
from meetcore.domain.ids import first_id
from meetcore.domain.webhooks.deliveries import Delivery, ReleasePace, expire, give_up, hold, recover
from meetcore.domain.webhooks.destinations import HostFailures
from meetcore.domain.webhooks.endpoints import Endpoint, disable_with_host, previous_secret
from meetcore.ports.clock import Clock
from meetcore.ports.deliveries import (
    Claimed,
    ClaimedBatch,
    ClaimedView,
    ClaimLimits,
    GivenUp,
    GiveUpReason,
    Recorded,
    RecordedHost,
    Saved,
    Swept,
)
from meetcore.ports.lease import Lease


class MemoryDeliveryRepository:
    """The outbox as the worker sees it, on one open transaction."""

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    async def claim_due(self, limits: ClaimLimits, lease: Lease) -> ClaimedBatch:
        now = self._clock.now()
        seats = Counter(stored.delivery.endpoint_id for stored in self._in_flight(now))
        turns = Counter(stored.delivery.account_id for stored in self._in_flight(now))
        seated: list[tuple[int, datetime, Delivery]] = []
        for due_at, delivery in self._waiting(now):
            if self._yields(delivery):
                self._delay(delivery, now + timedelta(seconds=lease.seconds))
                continue
            seats[delivery.endpoint_id] += 1
            if seats[delivery.endpoint_id] <= self._room_at(self._endpoint(delivery), limits):
                turns[delivery.account_id] += 1
                if turns[delivery.account_id] <= limits.per_account:
                    seated.append((turns[delivery.account_id], due_at, delivery))
        seated.sort(key=lambda seat: seat[:2])
        room = HostRoom(self._tables, limits, [stored.delivery for stored in self._in_flight(now)], now)
        chosen: list[tuple[datetime, Delivery]] = []
        for _, due_at, delivery in seated:
            if len(chosen) == limits.total:
                break
            wait = room.take(delivery)
            if wait is None:
                chosen.append((due_at, delivery))
            else:
                self._delay(delivery, now + wait)
        chosen.sort(key=lambda pair: pair[0])
        until = now + timedelta(seconds=lease.seconds)
        since = first_id(limits.events_since)
        found = [(one, self._claim(one, lease.token, until, since)) for _, one in chosen]
        purged = [delivery for delivery, claimed in found if claimed is None]
        return ClaimedBatch(
            [claimed for _, claimed in found if claimed is not None],
            [_given_up(delivery, GiveUpReason.PAST_RETENTION) for delivery in purged],
        )

    def _yields(self, delivery: Delivery) -> bool:
        """Whether its last claim ended without a record, at an endpoint that fails: then others go first."""
        had_lease = self._tables.deliveries[delivery.account_id, delivery.id].token is not None
        return had_lease and self._endpoint(delivery).consecutive_failures > 0

    @staticmethod
    def _room_at(endpoint: Endpoint, limits: ClaimLimits) -> int:
        is_failing = endpoint.consecutive_failures > 0
        return min(limits.per_failing, limits.per_endpoint) if is_failing else limits.per_endpoint

    def _delay(self, delivery: Delivery, until: datetime) -> None:
        name = delivery.account_id, delivery.id
        self._tables.deliveries[name] = StoredDelivery(evolve(delivery, next_attempt_at=until))

    def _in_flight(self, now: datetime) -> Iterator[StoredDelivery]:
        return (stored for stored in self._tables.deliveries.values() if stored.is_in_flight(now))

    def _waiting(self, now: datetime) -> list[tuple[datetime, Delivery]]:
        """What is due at active endpoints, the longest due first."""
        waiting = [
            (stored.delivery.next_attempt_at, stored.delivery)
            for stored in self._tables.deliveries.values()
            if stored.delivery.next_attempt_at is not None
            and stored.delivery.next_attempt_at <= now
            and self._endpoint(stored.delivery).is_active
        ]
        waiting.sort(key=lambda pair: (pair[0], pair[1].id))
        return waiting

    def _claim(self, delivery: Delivery, token: UUID, until: datetime, since: UUID) -> Claimed | None:
        """Claim a delivery; fail it where its event is past its retention."""
        name = delivery.account_id, delivery.id
        event = self._tables.events.get((delivery.account_id, delivery.event_id))
        if event is None or delivery.event_id < since:
            self._tables.deliveries[name] = StoredDelivery(give_up(delivery, self._clock.now()))
            return None
        had_expired_lease = self._tables.deliveries[name].token is not None
        self._tables.deliveries[name] = StoredDelivery(evolve(delivery, next_attempt_at=until), token)
        endpoint = self._endpoint(delivery)
        assert endpoint.secret is not None  # nothing is sealed here
        return Claimed(
            delivery.account_id,
            delivery.id,
            delivery.endpoint_id,
            delivery.event_id,
            delivery.event_kind.value,
            endpoint.url,
            endpoint.secret,
            event.payload,
            token,
            had_expired_lease,
            previous_secret(endpoint, self._clock.now()),
            event.cause,
        )

    async def load_claimed(self, claimed: Sequence[Claimed]) -> Sequence[ClaimedView]:
        now = self._clock.now()
        found = []
        for one in claimed:
            stored = self._tables.deliveries.get((one.account_id, one.delivery_id))
            if stored is not None and stored.token == one.token:
                endpoint = evolve(self._endpoint(stored.delivery), secret=None, previous_secret=None)
                failures = self._tables.host_failures.get((endpoint.account_id, endpoint.host), 0)
                host = HostFailures(endpoint.account_id, endpoint.host, failures)
                found.append(ClaimedView(stored.delivery, endpoint, host, now))
        return found

    async def save_attempts(
        self, recorded: Sequence[Recorded], endpoints: Sequence[Endpoint], hosts: Sequence[RecordedHost],
        recovered: Collection[UUID] = (),
    ) -> Saved:  # fmt: skip
        for one in recorded:
            delivery = one.delivery
            name = delivery.account_id, delivery.id
            self._tables.attempts.setdefault((*name, delivery.attempts_made), one.attempt)
            self._tables.deliveries[name] = StoredDelivery(delivery)
        now, freed = self._clock.now(), Counter(one.delivery.endpoint_id for one in recorded)
        due = 0
        for endpoint in endpoints:
            self._save_endpoint(endpoint, now)
            if endpoint.is_active:
                waiting = sum(one.endpoint_id == endpoint.id for _, one in self._waiting(now))
                due += waiting if endpoint.id in recovered else min(waiting, freed[endpoint.id])
        disabled = [endpoint for host in hosts for endpoint in self._save_host(host, now)]
        return Saved(due, disabled)

    def _save_host(self, host: RecordedHost, now: datetime) -> list[Endpoint]:
        """Write the count; the endpoints that the host disabled."""
        name = host.failures.account_id, host.failures.host
        self._tables.host_failures[name] = host.failures.consecutive_failures
        if not host.is_failing:
            return []
        there = [one for one in self._tables.endpoints.values() if (one.account_id, one.host) == name]
        disabled = [one for one in map(partial(disable_with_host, at=now), there) if one not in there]
        for endpoint in disabled:
            self._save_endpoint(endpoint, now)
        return disabled

    def _save_endpoint(self, endpoint: Endpoint, now: datetime) -> None:
        name = endpoint.account_id, endpoint.id
        self._tables.endpoints[name] = evolve(
            self._tables.endpoints[name],
            state=endpoint.state,
            consecutive_failures=endpoint.consecutive_failures,
            disabled_at=endpoint.disabled_at,
        )
        if not endpoint.is_active:
            hold_waiting(self._tables, endpoint, now)

    async def release_held(self, account_id: UUID, endpoint_id: UUID, pace: ReleasePace) -> int:
        endpoint = self._tables.endpoints.get((account_id, endpoint_id))
        return 0 if endpoint is None else release_held(self._tables, endpoint, pace, self._clock.now())

    async def recover(self, account_id: UUID, endpoint_id: UUID, since: datetime, most: int) -> int:
        failed = [
            (one.failed_at, name)
            for name, one in ((name, stored.delivery) for name, stored in self._tables.deliveries.items())
            if (one.account_id, one.endpoint_id) == (account_id, endpoint_id)
            and one.failed_at is not None
            and one.failed_at >= since
            and (account_id, one.event_id) in self._tables.events
        ]
        taken = sorted(failed)[:most]
        for _, name in taken:
            recovered = recover(self._tables.deliveries[name].delivery, self._clock.now())
            self._tables.deliveries[name] = StoredDelivery(recovered)
        return len(taken)

    async def sweep(self, pace: ReleasePace) -> Swept:
        now, expired = self._clock.now(), list[GivenUp]()
        for name, stored in self._tables.deliveries.items():
            delivery = stored.delivery
            if (delivery.account_id, delivery.endpoint_id) not in self._tables.endpoints:
                continue  # final: what waited went with its endpoint
            due = delivery.next_attempt_at
            if due is not None and due <= now and not self._endpoint(delivery).is_active:
                self._tables.deliveries[name] = StoredDelivery(hold(delivery, now))
            else:
                swept = expire(delivery, now)
                self._tables.deliveries[name] = StoredDelivery(swept, stored.token)
                if swept.status is not delivery.status:
                    expired.append(_given_up(delivery, GiveUpReason.HELD_TOO_LONG))
        endpoints = list(self._tables.endpoints.values())
        return Swept(sum(release_held(self._tables, one, pace, now) for one in endpoints), expired)

    def _endpoint(self, delivery: Delivery) -> Endpoint:
        return self._tables.endpoints[delivery.account_id, delivery.endpoint_id]


def _given_up(delivery: Delivery, reason: GiveUpReason) -> GivenUp:
    return GivenUp(delivery.account_id, delivery.id, delivery.endpoint_id, delivery.event_id, reason)
