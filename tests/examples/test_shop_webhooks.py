"""The webhooks of a shop: stored with their change, claimed by one process, retried, held, posted."""

from __future__ import annotations

import asyncio
import json
import ssl
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from attrs import define, field
from sqlalchemy import Connection, Engine, func, select

from examples.shop.credits import Credits, ShopKind
from examples.shop.webhooks import (
    CLAIMED_FOR,
    Claim,
    HttpsPoster,
    ShopEvent,
    Webhooks,
    delivery_rows,
    endpoint_rows,
    event_rows,
)
from meetcore.domain.errors import InvalidRequest
from meetcore.domain.money.ledger import ChainKey, Entry
from meetcore.domain.webhooks.deliveries import Attempt
from meetcore.domain.webhooks.endpoints import DISABLE_AFTER_FAILURES, Endpoint
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.domain.webhooks.signature import verify
from meetcore.testing.receiver import Authority, answering, dripping, receiving

NOW = datetime(2026, 12, 1, 2, 0, tzinfo=UTC)
ACCOUNT = UUID(int=1)
URL = "https://shop.example.com/hook?a=1"


@define
class Receiver:
    """Answers posts by a list of statuses; the last one stays."""

    statuses: list[int] = field(factory=lambda: [204])
    claims: list[Claim] = field(factory=list)

    def __call__(self, claim: Claim, now: datetime) -> Attempt:
        self.claims.append(claim)
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return Attempt(now, 5, status, None if status < 300 else f"status_{status}")


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def shop(engine: Engine, receiver: Receiver) -> Webhooks:
    return Webhooks(engine, receiver, RetrySchedule((5, 30)))


def publish(shop: Webhooks, *orders: str, kind: ShopEvent = ShopEvent.ORDER_PAID, at: datetime = NOW) -> None:
    with shop.engine.begin() as connection:
        for order in orders:
            shop.publish(connection, ACCOUNT, kind, {"order": order}, at)


def endpoint_is(shop: Webhooks) -> tuple[str, int]:
    with shop.engine.begin() as connection:
        row = connection.execute(select(endpoint_rows.c.state, endpoint_rows.c.consecutive_failures)).one()
        return row.state, row.consecutive_failures


def statuses(shop: Webhooks) -> list[str]:
    with shop.engine.begin() as connection:
        found = select(delivery_rows.c.status).order_by(delivery_rows.c.id)
        return list(connection.execute(found).scalars())


def test_an_event_goes_to_those_who_asked_for_its_kind_once(shop: Webhooks, receiver: Receiver) -> None:
    endpoint = shop.register(ACCOUNT, URL, [ShopEvent.ORDER_PAID], NOW)
    shop.register(uuid4(), URL, [ShopEvent.ORDER_PAID], NOW)
    publish(shop, "o-1")
    publish(shop, "o-2", kind=ShopEvent.ORDER_RETURNED)
    assert [shop.deliver_next(NOW) for _ in range(2)] == [True, False]
    (claim,) = receiver.claims
    assert claim.endpoint == endpoint
    assert claim.delivery.event_kind is ShopEvent.ORDER_PAID
    event = json.loads(claim.payload)
    assert (event["type"], event["data"]) == ("order.paid", {"order": "o-1"})
    assert UUID(event["id"]) == claim.delivery.event_id
    assert statuses(shop) == ["succeeded"]


def test_an_event_of_a_change_that_is_undone_is_never_sent(shop: Webhooks) -> None:
    shop.register(ACCOUNT, URL, [ShopEvent.ORDER_PAID], NOW)
    with shop.engine.connect() as connection:
        shop.publish(connection, ACCOUNT, ShopEvent.ORDER_PAID, {}, NOW)
        connection.rollback()
    assert not shop.deliver_next(NOW)
    with shop.engine.begin() as connection:
        assert connection.execute(select(func.count()).select_from(event_rows)).scalar_one() == 0


def test_a_shipped_order_is_reported_in_the_transaction_of_its_charge(
    shop: Webhooks, receiver: Receiver
) -> None:
    def report(connection: Connection, entry: Entry) -> None:
        if entry.transfer.kind is ShopKind.ORDER:
            shop.publish(
                connection, ACCOUNT, ShopEvent.ORDER_PAID, {"order": entry.transfer.reference.id}, NOW
            )
        if entry.transfer.reference.id == "o-2":
            raise OSError("the disk is full")

    credits = Credits(shop.engine, ChainKey.of(bytes(32)), report)
    shop.register(ACCOUNT, URL, [ShopEvent.ORDER_PAID], NOW)
    credits.open_account(ACCOUNT)
    credits.top_up(ACCOUNT, "INV-1", 100, NOW)
    for order in ("o-1", "o-2"):
        credits.reserve(ACCOUNT, order, 10, NOW)
    for _ in range(2):
        credits.ship(ACCOUNT, "o-1", 10, NOW)
    with pytest.raises(OSError, match="disk"):
        credits.ship(ACCOUNT, "o-2", 10, NOW)
    assert [shop.deliver_next(NOW) for _ in range(2)] == [True, False]
    assert json.loads(receiver.claims[0].payload)["data"] == {"order": "o-1"}
    assert credits.cancel(ACCOUNT, "o-2").balance == 90


def test_a_failed_delivery_is_retried_by_the_schedule_and_then_fails(
    shop: Webhooks, receiver: Receiver
) -> None:
    receiver.statuses = [500]
    shop.register(ACCOUNT, URL, [ShopEvent.ORDER_PAID], NOW)
    publish(shop, "o-1")
    assert shop.deliver_next(NOW)
    assert not shop.deliver_next(NOW + timedelta(seconds=4))
    assert shop.deliver_next(NOW + timedelta(seconds=7))
    assert shop.deliver_next(NOW + timedelta(seconds=60))
    assert not shop.deliver_next(NOW + timedelta(days=9))
    assert (statuses(shop), endpoint_is(shop)) == (["failed"], ("active", 3))


def test_an_endpoint_that_fails_is_disabled_and_gets_what_was_held_when_it_is_resumed(
    shop: Webhooks, receiver: Receiver
) -> None:
    receiver.statuses = [500] * DISABLE_AFTER_FAILURES + [204]
    endpoint = shop.register(ACCOUNT, URL, [ShopEvent.ORDER_PAID], NOW)
    publish(shop, *(f"o-{number}" for number in range(DISABLE_AFTER_FAILURES + 1)))
    while shop.deliver_next(NOW):
        pass
    assert endpoint_is(shop) == ("disabled", DISABLE_AFTER_FAILURES)
    publish(shop, "later")
    assert set(statuses(shop)) == {"held"}
    shop.resume(endpoint.id, NOW)
    while shop.deliver_next(NOW):
        pass
    assert set(statuses(shop)) == {"succeeded"}
    assert endpoint_is(shop) == ("active", 0)


def test_each_delivery_is_claimed_by_one_process_at_a_time(shop: Webhooks) -> None:
    shop.register(ACCOUNT, URL, [ShopEvent.ORDER_PAID], NOW)
    publish(shop, *(f"o-{number}" for number in range(8)))
    with ThreadPoolExecutor(4) as pool:
        claims = [claim for claim in pool.map(lambda _: shop.claim(NOW), range(12)) if claim is not None]
    ids = [claim.delivery.id for claim in claims]
    assert len(ids) == len(set(ids))
    while (claim := shop.claim(NOW)) is not None:
        ids.append(claim.delivery.id)
    assert (len(ids), len(set(ids))) == (8, 8)


def test_a_claim_of_a_process_that_died_ends_and_what_it_says_later_counts_for_nothing(
    shop: Webhooks, receiver: Receiver
) -> None:
    shop.register(ACCOUNT, URL, [ShopEvent.ORDER_PAID], NOW)
    publish(shop, "o-1")
    dead, later = shop.claim(NOW), NOW + CLAIMED_FOR
    assert dead is not None
    assert not shop.deliver_next(later - timedelta(seconds=1))
    assert shop.deliver_next(later)
    shop.record(dead, Attempt(later, 5, 500, "status_500"), later)
    assert (statuses(shop), endpoint_is(shop)) == (["succeeded"], ("active", 0))


def test_a_url_that_webhooks_do_not_go_to_is_refused(shop: Webhooks) -> None:
    with pytest.raises(InvalidRequest):
        shop.register(ACCOUNT, "http://shop.example.com/", [ShopEvent.ORDER_PAID], NOW)


def claim_of(endpoint: Endpoint, shop: Webhooks) -> Claim:
    publish(shop, "o-1")
    claim = shop.claim(NOW)
    assert claim is not None
    return claim


async def test_a_post_is_signed_and_goes_to_the_address_that_was_vetted(
    shop: Webhooks, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    endpoint = shop.register(ACCOUNT, URL, [ShopEvent.ORDER_PAID], NOW)
    claim = claim_of(endpoint, shop)
    tls = ssl.create_default_context(cafile=authority.ca_file)
    answer = answering(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n")
    async with receiving(authority.certified("shop.example.com"), answer) as receiver:
        places = [("127.0.0.1", receiver.port)]
        post = HttpsPoster((ip_network("127.0.0.0/8"),), lambda _: places, tls)
        done = await asyncio.to_thread(post, claim, NOW)
        assert (done.status_code, done.error) == (204, None)
        assert receiver.names == ["shop.example.com"]
        lines = receiver.heads[0].decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        assert lines[0] == "POST /hook?a=1 HTTP/1.1"
        assert endpoint.secret is not None
        at = int(NOW.timestamp())
        verify([endpoint.secret], receiver.bodies[0], headers["X-Service-Signature"], at)
        assert headers["webhook-id"] == str(claim.delivery.event_id)

        refused = await asyncio.to_thread(HttpsPoster((), lambda _: places, tls), claim, NOW)
        assert (refused.status_code, refused.error) == (None, "Unprocessable")
        assert receiver.connections == 1


async def test_a_receiver_with_another_certificate_or_none_gets_nothing(
    shop: Webhooks, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    claim = claim_of(shop.register(ACCOUNT, URL, [ShopEvent.ORDER_PAID], NOW), shop)
    tls = ssl.create_default_context(cafile=authority.ca_file)
    async with receiving(authority.certified("other.example.com"), answering(b"")) as receiver:
        places = [("127.0.0.1", receiver.port)]
        post = HttpsPoster((ip_network("127.0.0.0/8"),), lambda _: places, tls)
        done = await asyncio.to_thread(post, claim, NOW)
        assert (done.status_code, done.error, receiver.bodies) == (None, "SSLCertVerificationError", [])


@pytest.mark.parametrize("beginning", [b"HTTP/1.1 200 OK\r\n", b""])
async def test_a_receiver_that_drips_is_given_up_in_time(
    shop: Webhooks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beginning: bytes
) -> None:
    monkeypatch.setattr("examples.shop.webhooks.TIMEOUT_S", 0.4)
    authority = Authority(tmp_path)
    claim = claim_of(shop.register(ACCOUNT, URL, [ShopEvent.ORDER_PAID], NOW), shop)
    tls = ssl.create_default_context(cafile=authority.ca_file)
    drip = dripping(beginning, b"X-A: b\r\n" if beginning else b"H")
    async with receiving(authority.certified("shop.example.com"), drip) as receiver:
        places = [("127.0.0.1", receiver.port)]
        post = HttpsPoster((ip_network("127.0.0.0/8"),), lambda _: places, tls)
        done = await asyncio.to_thread(post, claim, NOW)
    assert (done.status_code, done.error) == (None, "TimeoutError")
    assert 400 <= done.duration_ms < 3000
