"""Payments from the order to the credits: once, whatever comes twice, late, out of order or never."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import IdempotencyKeyReused, InvalidApiKey, NotFound, Unprocessable, UpstreamError
from meetcore.domain.payments.payments import ASKED_FOR, MAX_PENDING, Doubt, GatewayStatus, PaymentStatus
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.payments import GatewayRefused, GatewayUnknown, Notification
from tests.support.kept_log import capture_own_logs
from tests.unit.usecases.application import SimulatedCrash, crash_points
from tests.unit.usecases.payments.gateway import PACKAGES, PaymentHarness


@pytest.fixture
async def shop() -> PaymentHarness:
    return await PaymentHarness().start()


async def test_a_paid_payment_is_posted_once_however_often_it_is_notified(shop: PaymentHarness) -> None:
    payment_id = await shop.bought()
    await shop.pay(payment_id, notify=3)
    await asyncio.gather(*(shop.follow() for _ in range(4)))
    await shop.notify(payment_id)
    await shop.follow()
    payment = await shop.payment(payment_id)
    assert (payment.status, payment.ended_at, payment.next_look_at) == (PaymentStatus.PAID, shop.now(), None)
    assert payment.method == "sandbox"
    (entry,) = shop.harness.entries()
    assert (entry.amount, entry.transfer.operation) == (500, f"topup:payment:{payment_id}")
    assert [
        event["transaction"]["amount"] for event in shop.harness.events_of(EventKind.CREDIT_TOPUP_SUCCEEDED)
    ] == [500]
    assert shop.receipts() == [(2026, 1)]
    shop.harness.prove()


async def test_a_payment_that_is_never_notified_is_found(shop: PaymentHarness) -> None:
    payment_id = await shop.bought()
    await shop.pay(payment_id, notify=0)
    await shop.follow()
    assert shop.harness.funds().balance == 0
    shop.harness.clock.advance(121)
    await shop.follow()
    assert shop.harness.funds().balance == 500


async def test_the_gateway_decides_whatever_a_notification_says(shop: PaymentHarness) -> None:
    payment_id = await shop.bought()
    receive = shop.process().payments.receive_notification
    assert await receive(Notification(payment_id, '{"status": "paid"}'))
    await shop.follow()
    assert (await shop.payment(payment_id)).status is PaymentStatus.PENDING
    assert shop.harness.entries() == []
    assert not await receive(Notification(UUID(int=1), "{}"))


@pytest.mark.parametrize(("end", "status"), [
    (GatewayStatus.FAILED, PaymentStatus.FAILED), (GatewayStatus.EXPIRED, PaymentStatus.EXPIRED),
])  # fmt: skip
async def test_a_late_payment_is_in_doubt(
    shop: PaymentHarness, end: GatewayStatus, status: PaymentStatus
) -> None:
    payment_id = await shop.bought()
    await shop.payments.end(payment_id, end)
    await shop.notify(payment_id)
    await shop.follow()
    assert (await shop.payment(payment_id)).status is status
    await shop.pay(payment_id)
    await shop.follow()
    late = await shop.payment(payment_id)
    assert (late.status, late.doubt, shop.harness.entries()) == (status, Doubt.PAID_AFTER_END, [])


async def test_money_for_an_erased_account_is_in_doubt(shop: PaymentHarness) -> None:
    payment_id = await shop.bought()
    account_id = shop.harness.caller.account.id
    await shop.harness.process().account_data.erase(account_id)
    assert (await shop.payment(payment_id)).payment_url is None
    await shop.pay(payment_id)
    await shop.follow()
    assert (await shop.payment(payment_id)).doubt is Doubt.ACCOUNT_ERASED
    assert shop.harness.entries() == []


async def test_a_refused_payment_fails_and_its_key_starts_another(shop: PaymentHarness) -> None:
    shop.faults.plan("open", GatewayRefused("no"))
    with pytest.raises(UpstreamError, match="refused the payment"):
        await shop.buy("k")
    outcome = await shop.buy("k")
    assert outcome.record is not None
    rows = shop.harness.read("SELECT id, status, next_look_at FROM payments ORDER BY id")
    assert [row["status"] for row in rows] == ["failed", "pending"]
    assert str(rows[1]["id"]) == outcome.record["id"]


@pytest.mark.spec("4/idem-replay")
@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_retry_gets_the_payment_though_its_package_is_sold_no_more(
    shop: PaymentHarness, is_lost: bool
) -> None:
    if is_lost:
        shop.faults.plan("answer of open", GatewayUnknown("lost"))
    with suppress(UpstreamError):
        await shop.buy("k")
    shop.packages = evolve(PACKAGES, packages={})
    outcome = await shop.buy("k")
    assert outcome.record is not None
    assert list(map(str, shop.payments.kept)) == [outcome.record["id"]]


@pytest.mark.spec("4/idem-replay")
async def test_a_retry_of_a_refused_order_gets_the_refusal_whatever_is_sold_by_then(
    shop: PaymentHarness,
) -> None:
    shop.packages = evolve(PACKAGES, packages={})
    first = await shop.buy("k")
    assert first.refusal is not None
    assert first.refusal.code == "not_found"
    shop.packages = PACKAGES
    again = await shop.buy("k")
    assert (again.refusal, again.is_replay) == (first.refusal, True)
    assert shop.harness.count("payments") == 0
    assert (await shop.buy("another")).record is not None


@pytest.mark.parametrize("call", ["open", "answer of open"])
async def test_a_retry_gets_the_payment_whose_answer_was_lost(shop: PaymentHarness, call: str) -> None:
    shop.faults.plan(call, GatewayUnknown("lost"))
    with pytest.raises(UpstreamError, match="a retry with the same Idempotency-Key gets the link"):
        await shop.buy("k")
    outcome = await shop.buy("k")
    assert outcome.record is not None
    assert list(map(str, shop.payments.kept)) == [outcome.record["id"]]
    assert shop.harness.count("payments") == 1


async def test_a_retry_at_another_gateway_is_another_payment(shop: PaymentHarness) -> None:
    shop.faults.plan("open", GatewayUnknown("away"))
    with suppress(UpstreamError):
        await shop.buy("k")
    shop.harness.write("UPDATE payments SET gateway = 'midtrans'")  # which the operator replaces
    outcome = await shop.buy("k")
    assert outcome.record is not None
    rows = shop.harness.read("SELECT id::text, gateway, status FROM payments ORDER BY id")
    assert [(row["gateway"], row["status"]) for row in rows] == [
        ("midtrans", "failed"),
        ("sandbox", "pending"),
    ]
    assert outcome.record["id"] == rows[1]["id"]


async def test_a_payment_whose_page_nobody_has_fails(shop: PaymentHarness) -> None:
    shop.faults.plan("open", GatewayUnknown("lost"))
    with pytest.raises(UpstreamError, match="did not answer"):
        await shop.buy()
    shop.harness.clock.advance(121)
    await shop.follow()
    (row,) = shop.harness.read("SELECT status FROM payments")
    assert row["status"] == "failed"


async def test_a_payment_without_a_page_at_a_gateway_that_was_replaced_fails(shop: PaymentHarness) -> None:
    shop.faults.plan("open", GatewayUnknown("away"))
    with suppress(UpstreamError):
        await shop.buy()
    await shop.bought()
    shop.harness.write("UPDATE payments SET gateway = 'midtrans'")
    shop.harness.clock.advance(121)
    await shop.follow()
    rows = shop.harness.read("SELECT status FROM payments ORDER BY id")
    assert [row["status"] for row in rows] == ["failed", "pending"]  # the other one may be paid there


async def test_a_payment_that_ended_while_its_page_was_made_is_not_handed_out(shop: PaymentHarness) -> None:
    async def fail() -> None:
        shop.harness.write("UPDATE payments SET status = 'failed', ended_at = created_at")

    shop.faults.at_next("answer of open", fail)
    with pytest.raises(UpstreamError, match="took too long"):
        await shop.buy("k")
    assert (await shop.buy("k")).record is not None


async def test_an_account_has_a_limit_of_pending_payments(shop: PaymentHarness) -> None:
    for number in range(MAX_PENDING):
        await shop.buy(f"k{number}")
    with pytest.raises(Unprocessable, match="20 payments wait to be paid"):
        await shop.buy("one more")
    assert shop.harness.count("payments") == MAX_PENDING
    shop.harness.write("UPDATE payments SET status = 'expired', ended_at = created_at")
    assert (await shop.buy("one more")).record is not None  # a retry when they are over gets its payment


async def test_an_account_that_is_erased_while_its_page_is_made_gets_none(shop: PaymentHarness) -> None:
    async def erase() -> None:
        await shop.harness.process().account_data.erase(shop.harness.caller.account.id)

    shop.faults.at_next("answer of open", erase)
    with pytest.raises(InvalidApiKey, match="was erased"):
        await shop.buy("k")
    (row,) = shop.harness.read("SELECT payment_url FROM payments")
    assert row["payment_url"] is None


async def test_without_a_gateway_nothing_is_sold(shop: PaymentHarness) -> None:
    start, now = shop.harness.process().payments.start, shop.now()
    order = partial(start.order, "starter", None, now)
    caller, key = shop.harness.caller, shop.harness.request_key("k")
    first = await start(caller, order, key, now)
    assert first.refusal is not None
    assert (first.refusal.code, first.refusal.message.split(".")[0]) == (
        Unprocessable.code, "Credits are not sold here",
    )  # fmt: skip
    assert await start(caller, order, key, now) == evolve(first, is_replay=True)
    with pytest.raises(IdempotencyKeyReused):
        await start(caller, order, shop.harness.request_key("k", "other"), now)
    with pytest.raises(NotFound):
        start.order("starter", None, now)


async def test_a_gateway_that_was_taken_away_leaves_the_first_outcome(shop: PaymentHarness) -> None:
    first = await shop.buy("k")
    closed = evolve(shop.harness.process().payments.start, gateway=None)
    request = shop.harness.request_key("k", "starter")
    again = await closed(shop.harness.caller, pytest.fail, request, shop.now())
    assert again == evolve(first, is_replay=True)


async def test_an_unanswered_gateway_is_asked_until_the_operator_is(shop: PaymentHarness) -> None:
    payment_id = await shop.bought()
    shop.faults.plan("find", *[GatewayUnknown("away")] * 200)
    for _ in range(200):
        due = (await shop.payment(payment_id)).next_look_at
        if due is None:
            break
        shop.harness.clock.advance((due - shop.now()).total_seconds() + 1)
        await shop.follow()
    payment = await shop.payment(payment_id)
    assert (payment.status, payment.doubt) == (PaymentStatus.PENDING, Doubt.UNANSWERED)
    assert shop.now() - payment.expires_at < ASKED_FOR + timedelta(hours=2)


async def test_a_late_payment_is_asked_about_until_the_gateway_answers(shop: PaymentHarness) -> None:
    payment_id = await shop.bought()
    await shop.payments.end(payment_id, GatewayStatus.EXPIRED)
    await shop.notify(payment_id)
    await shop.follow()
    await shop.pay(payment_id)
    shop.faults.plan("find", GatewayUnknown("away"), GatewayRefused("away"))
    for _ in range(3):
        await shop.follow()
        shop.harness.clock.advance(1_000)
    assert (await shop.payment(payment_id)).doubt is Doubt.PAID_AFTER_END


async def test_operators_read_of_gateways_that_fail_and_of_doubts_in_the_log(shop: PaymentHarness) -> None:
    payment_id = await shop.bought()
    await shop.pay(payment_id, 1)
    shop.faults.plan("find", GatewayUnknown("away"), GatewayRefused("wrong key"))
    with capture_own_logs() as logged:
        for _ in range(4):
            await shop.follow()
            shop.harness.clock.advance(1_000)
    lines = [line for line in logged if line["event"].startswith("payment")]
    assert {(line["payment_id"], line["log_level"]) for line in lines} == {(str(payment_id), "warning")}
    assert [(line["event"], line.get("cause") or line["doubt"]) for line in lines] == [
        ("payment gateway failed", "away"),
        ("payment gateway failed", "wrong key"),
        ("payment in doubt", "wrong_amount"),
    ]


@pytest.mark.parametrize("fault", [GatewayRefused("wrong key"), GatewayUnknown("away")])
async def test_operators_read_of_payments_that_cannot_begin_in_the_log(
    shop: PaymentHarness, fault: Exception
) -> None:
    shop.faults.plan("open", fault)
    with capture_own_logs() as logged, suppress(UpstreamError):
        await shop.buy()
    [line] = [line for line in logged if line["event"] == "payment gateway failed"]
    assert (line["fault"], line["cause"]) == (type(fault).__name__, str(fault))


async def test_a_notification_while_the_gateway_is_asked_has_it_asked_again(shop: PaymentHarness) -> None:
    payment_id = await shop.bought()
    shop.harness.clock.advance(121)
    shop.faults.at_next("answer of find", partial(shop.pay, payment_id))
    await shop.follow()
    await shop.follow()
    assert (await shop.payment(payment_id)).status is PaymentStatus.PAID


async def test_a_death_at_any_line_leaves_one_payment_one_top_up_and_one_receipt() -> None:
    for point in crash_points():
        shop = await PaymentHarness().start()
        with suppress(SimulatedCrash):
            await shop.buy("k", point)
        outcome = await shop.buy("k")
        assert outcome.record is not None
        payment_id = UUID(str(outcome.record["id"]))
        await shop.pay(payment_id)
        with suppress(SimulatedCrash):
            await shop.follow(point)
        shop.harness.clock.advance(31)
        await shop.follow()
        assert (await shop.payment(payment_id)).status is PaymentStatus.PAID
        assert [entry.amount for entry in shop.harness.entries()] == [500]
        assert shop.receipts() == [(2026, 1)]
        assert len(shop.payments.kept) == 1
        shop.harness.prove()


async def test_receipts_of_many_payments_have_no_gap(shop: PaymentHarness) -> None:
    ids = [await shop.bought() for _ in range(12)]
    for payment_id in ids[::2]:
        await shop.pay(payment_id, notify=2)
    for payment_id in ids[1::2]:
        await shop.pay(payment_id, 1)
    await asyncio.gather(*(shop.follow() for _ in range(3)))
    assert shop.receipts() == [(2026, number) for number in range(1, 7)]
    assert shop.harness.funds().balance == 6 * 500
    shop.harness.prove()
