"""Webhooks of a shop: an event is stored with the change that it reports, and posted until it arrives.

`publish` belongs into the transaction of the change. A process of its own calls `deliver_next` in a loop: any
number of them may, for a delivery is claimed by one at a time, and by another when its process died. A
module to import; its tests use all of it::

    make .venv/.dev.stamp && .venv/bin/pytest tests/examples/test_shop_webhooks.py
"""

import os
import random
import socket
import ssl
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from http.client import HTTPException, HTTPSConnection
from ipaddress import ip_address
from threading import Timer
from typing import Any
from uuid import UUID

from attrs import asdict, field, frozen
from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Integer,
    LargeBinary,
    String,
    Table,
    UniqueConstraint,
    Uuid,
    insert,
    or_,
    select,
    update,
)

from examples.shop.tables import Instant, metadata
from meetcore.domain.errors import Unprocessable
from meetcore.domain.ids import uuid7
from meetcore.domain.webhooks import addresses, deliveries, endpoints, signature, urls
from meetcore.domain.webhooks.events import Event, encode_event
from meetcore.domain.webhooks.retry_schedule import RetrySchedule

__all__ = ["HttpsPoster", "ShopEvent", "Webhooks"]

CLAIMED_FOR = timedelta(seconds=60)
TIMEOUT_S = 10


class ShopEvent(StrEnum):
    """What this shop reports."""

    ORDER_PAID = "order.paid"
    ORDER_RETURNED = "order.returned"


# The fields of `Endpoint`. A shop that keeps secrets for others encrypts the two columns.
endpoint_rows = Table(
    "endpoints",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("account_id", Uuid, nullable=False),
    Column("url", String(2048), nullable=False),
    Column("url_key", String(2048), nullable=False),
    Column("description", String(200)),
    Column("event_types", JSON, nullable=False),
    Column("state", String(16), nullable=False),
    Column("consecutive_failures", Integer, nullable=False),
    Column("disabled_at", Instant),
    Column("created_by", String(64), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("secret", String(128), nullable=False),
    Column("previous_secret", String(128)),
    Column("previous_secret_until", Instant),
    Column("next_post_at", Instant),
    UniqueConstraint("account_id", "url_key"),
)

# The bytes of each event are written once: they are what is signed, at every attempt.
event_rows = Table(
    "events",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("payload", LargeBinary, nullable=False),
)

# The fields of `Delivery`, and until when it is claimed.
delivery_rows = Table(
    "deliveries",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("account_id", Uuid, nullable=False),
    Column("endpoint_id", Uuid, ForeignKey(endpoint_rows.c.id), nullable=False),
    Column("event_id", Uuid, ForeignKey(event_rows.c.id), nullable=False),
    Column("event_kind", String(64), nullable=False),
    Column("status", String(16), nullable=False),
    Column("attempts_made", Integer, nullable=False),
    Column("next_attempt_at", Instant, index=True),
    Column("created_at", Instant, nullable=False),
    Column("held_at", Instant),
    Column("failed_at", Instant),
    Column("attempts_before_recovery", Integer, nullable=False),
    Column("claimed_until", Instant),
    UniqueConstraint("endpoint_id", "event_id"),
)


def _endpoint(row: Mapping[Any, Any]) -> endpoints.Endpoint:
    fields: dict[str, Any] = {**row}
    fields["state"] = endpoints.EndpointState(row["state"])
    fields["event_types"] = tuple(ShopEvent(each) for each in row["event_types"])
    return endpoints.Endpoint(**fields)


def _delivery(row: Mapping[Any, Any]) -> deliveries.Delivery:
    fields: dict[str, Any] = {**row}
    del fields["claimed_until"]
    fields["status"] = deliveries.DeliveryStatus(row["status"])
    fields["event_kind"] = ShopEvent(row["event_kind"])
    return deliveries.Delivery(**fields)


@frozen
class Claim:
    """A delivery that this process alone posts, until its claim ends."""

    delivery: deliveries.Delivery
    endpoint: endpoints.Endpoint
    payload: bytes
    until: datetime


Post = Callable[[Claim, datetime], deliveries.Attempt]


@frozen
class Webhooks:
    """The endpoints of a shop's customers, and what is on its way to them."""

    engine: Engine
    post: Post
    schedule: RetrySchedule = field(factory=RetrySchedule)

    def register(
        self, account_id: UUID, url: str, kinds: Collection[ShopEvent], now: datetime
    ) -> endpoints.Endpoint:
        """Register a URL. The secret of the answer is what its owner verifies requests by."""
        endpoint = endpoints.register(
            id=uuid7(now, os.urandom(10)),
            account_id=account_id,
            url=urls.parse_webhook_url(url),
            description=None,
            event_types=tuple(kinds),
            created_by=str(account_id),
            created_at=now,
            secret=signature.new_secret(os.urandom(signature.SECRET_BYTES)),
        )
        with self.engine.begin() as connection:
            connection.execute(insert(endpoint_rows).values(asdict(endpoint)))
        return endpoint

    def publish(
        self,
        connection: Connection,
        account_id: UUID,
        kind: ShopEvent,
        data: Mapping[str, object],
        now: datetime,
    ) -> None:
        """Store an event and its deliveries in the transaction of the change that it reports."""
        event = Event(uuid7(now, os.urandom(10)), account_id, kind, now, data)
        connection.execute(insert(event_rows).values(id=event.id, payload=encode_event(event)))
        found = select(endpoint_rows).filter_by(account_id=account_id).with_for_update()
        for endpoint in map(_endpoint, connection.execute(found).mappings().all()):
            if kind in endpoint.event_types:
                delivery = deliveries.open_delivery(
                    id=uuid7(now, os.urandom(10)), endpoint=endpoint, event_id=event.id, event_kind=kind,
                    created_at=now, now=now,
                )  # fmt: skip
                connection.execute(insert(delivery_rows).values(asdict(delivery)))

    def deliver_next(self, now: datetime) -> bool:
        """Post one delivery that is due; return whether there was one."""
        claim = self.claim(now)
        if claim is None:
            return False
        started = time.monotonic()
        attempt = self.post(claim, now)
        self.record(claim, attempt, now + timedelta(seconds=time.monotonic() - started))
        return True

    def claim(self, now: datetime) -> Claim | None:
        """Claim the delivery that is due the longest and that no living process has claimed."""
        is_free = or_(delivery_rows.c.claimed_until.is_(None), delivery_rows.c.claimed_until <= now)
        due = (
            select(delivery_rows)
            .where(delivery_rows.c.next_attempt_at <= now, is_free)
            .order_by(delivery_rows.c.next_attempt_at)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        with self.engine.begin() as connection:
            row = connection.execute(due).mappings().one_or_none()
            if row is None:
                return None
            until = now + CLAIMED_FOR
            connection.execute(update(delivery_rows).filter_by(id=row["id"]).values(claimed_until=until))
            payload = connection.execute(
                select(event_rows.c.payload).filter_by(id=row["event_id"])
            ).scalar_one()
            found = select(endpoint_rows).filter_by(id=row["endpoint_id"])
            endpoint = _endpoint(connection.execute(found).mappings().one())
            return Claim(_delivery(row), endpoint, payload, until)

    def record(self, claim: Claim, attempt: deliveries.Attempt, now: datetime) -> None:
        """Save the result of a post, unless another process has claimed the delivery since."""
        jitter = random.random()  # noqa: S311 - it spreads retries and keeps no secret
        with self.engine.begin() as connection:
            endpoint = _lock_endpoint(connection, claim.endpoint.id)
            mine = select(delivery_rows).filter_by(id=claim.delivery.id, claimed_until=claim.until)
            row = connection.execute(mine.with_for_update()).mappings().one_or_none()
            if row is None:
                return
            delivery, counted = deliveries.record_attempt(
                _delivery(row), endpoint, attempt, self.schedule, jitter, now
            )
            _save(connection, delivery)
            _save_endpoint(connection, counted)
            if endpoint.is_active and not counted.is_active:
                _move(connection, counted, "pending", partial(deliveries.hold, now=now))

    def resume(self, endpoint_id: UUID, now: datetime) -> None:
        """Send to a disabled endpoint again, and what was held for it."""
        with self.engine.begin() as connection:
            endpoint = endpoints.resume(_lock_endpoint(connection, endpoint_id))
            _save_endpoint(connection, endpoint)
            _move(connection, endpoint, "held", partial(deliveries.release, due=now))


def _lock_endpoint(connection: Connection, endpoint_id: UUID) -> endpoints.Endpoint:
    """Read an endpoint under its lock: two failures must not count as one."""
    found = select(endpoint_rows).filter_by(id=endpoint_id).with_for_update()
    return _endpoint(connection.execute(found).mappings().one())


def _save_endpoint(connection: Connection, endpoint: endpoints.Endpoint) -> None:
    connection.execute(update(endpoint_rows).filter_by(id=endpoint.id).values(asdict(endpoint)))


def _save(connection: Connection, delivery: deliveries.Delivery) -> None:
    saved = {**asdict(delivery), "claimed_until": None}
    connection.execute(update(delivery_rows).filter_by(id=delivery.id).values(saved))


def _move(
    connection: Connection,
    endpoint: endpoints.Endpoint,
    status: str,
    change: Callable[[deliveries.Delivery], deliveries.Delivery],
) -> None:
    found = connection.execute(select(delivery_rows).filter_by(endpoint_id=endpoint.id, status=status))
    for row in found.mappings().all():
        _save(connection, change(_delivery(row)))


def resolve(host: str) -> list[tuple[str, int]]:
    """Return the addresses and ports at which a host is reached by https."""
    found = socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    return [(str(place[0]), 443) for *_, place in found]


class _Pinned(HTTPSConnection):
    """A connection to an address that was vetted. By its name, the host could lead elsewhere by now."""

    def __init__(self, host: str, place: tuple[str, int], context: ssl.SSLContext) -> None:
        super().__init__(host, timeout=TIMEOUT_S, context=context)
        self._place, self._tls, self._name = place, context, host
        self.is_over = False

    def connect(self) -> None:
        """Connect to the address, and verify the certificate of the name."""
        plain = socket.create_connection(self._place, TIMEOUT_S)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self._name, do_handshake_on_connect=False)
        if not self.is_over:
            self.sock.do_handshake()

    def end(self) -> None:
        """End what waits for the receiver, from another thread."""
        self.is_over = True
        if self.sock is not None:
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)


@frozen
class HttpsPoster:
    """Posts to public addresses, and to those of `allowed_networks`."""

    allowed_networks: tuple[addresses.Network, ...] = ()
    resolve: Callable[[str], list[tuple[str, int]]] = resolve
    tls: ssl.SSLContext = field(factory=ssl.create_default_context)

    def __call__(self, claim: Claim, now: datetime) -> deliveries.Attempt:
        """Post once, and report the result."""
        url, started = urls.parse_webhook_url(claim.endpoint.url), time.monotonic()
        status, error = None, None
        try:
            places = self.resolve(url.host)
            addresses.vet([ip_address(place[0]) for place in places], self.allowed_networks)
            status = self._post(url, places[0], claim, now)
            error = None if 200 <= status < 300 else f"status_{status}"
        except (OSError, HTTPException, Unprocessable) as problem:
            error = type(problem).__name__
        return deliveries.Attempt(now, int((time.monotonic() - started) * 1000), status, error)

    def _post(self, url: urls.WebhookUrl, place: tuple[str, int], claim: Claim, now: datetime) -> int:
        endpoint = claim.endpoint
        assert endpoint.secret is not None
        headers = signature.signing_headers(
            endpoint.secret, str(claim.delivery.event_id), claim.payload, int(now.timestamp()),
            endpoints.previous_secret(endpoint, now),
        )  # fmt: skip
        connection = _Pinned(url.host, place, self.tls)
        # The time-out of a socket begins anew with each byte: a receiver that drips would hold this process.
        timer = Timer(TIMEOUT_S, connection.end)
        timer.start()
        try:
            connection.request(
                "POST", url.request_target, claim.payload, {"Content-Type": "application/json", **headers}
            )
            return connection.getresponse().status
        finally:
            timer.cancel()
            connection.close()
            if connection.is_over:
                raise TimeoutError
