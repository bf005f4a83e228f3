"""Midtrans: its documented answers, one order that is paid once, and what ends on Snap's page."""

import asyncio
import json
from datetime import timedelta
from uuid import uuid4

import pytest
from attrs import evolve

from meetcore.adapters.midtrans import MidtransAccess, midtrans_notifications
from meetcore.domain.payments.payments import GatewayStatus, PaymentStatus
from meetcore.domain.payments.refunds import RefundState
from meetcore.ports.payments import GatewayRefused, GatewayUnknown, NotificationInvalid
from meetcore.testing.contracts.payments import (
    answer_of,
    found_answer,
    order_for,
    paid_payment,
    payment_of,
    refund_of,
)
from meetcore.testing.gateway_stand_in import Fault, Notice
from tests.support.gateways import (
    FACT_ID,
    LATER,
    NOW,
    Midtrans,
    assert_has_fields_of,
    canned,
    fact,
    fact_payment,
    midtrans_at_hand,
)

PENDING, PAID, FAILED, EXPIRED, REVERSED = GatewayStatus


@pytest.fixture
async def midtrans():
    async with midtrans_at_hand() as at_hand:
        yield at_hand


@pytest.mark.parametrize(
    ("origin", "api", "snap"),
    [
        ("", "https://api.midtrans.com", "https://app.midtrans.com"),
        (
            "https://api.sandbox.midtrans.com", "https://api.sandbox.midtrans.com",
            "https://app.sandbox.midtrans.com",
        ),
        ("http://127.0.0.1:8702", "http://127.0.0.1:8702", "http://127.0.0.1:8702"),
    ],
)  # fmt: skip
def test_snap_is_beside_the_core_api(origin: str, api: str, snap: str):
    access = MidtransAccess.at("key", origin)
    assert (access.api_url, access.snap_url) == (api, snap)
    assert "key" not in repr(access).replace("server_key", "")


# Snap


async def test_a_request_has_documented_fields_and_the_page_ends_with_the_payment(midtrans: Midtrans):
    order = evolve(order_for(midtrans.rig), description="1000 | credits", customer_name="Budi " * 20)
    await midtrans.gateway.open_checkout(order)
    sent = midtrans.stand_in.requests[-1].json
    assert_has_fields_of(sent, fact("midtrans.snap.request"))
    assert sent["transaction_details"] == {"order_id": str(order.payment_id), "gross_amount": 110_000}
    assert sent["item_details"][0]["name"] == "1000   credits"
    assert len(sent["customer_details"]["first_name"]) == 30
    assert sent["expiry"] == {"start_time": "2026-12-01 09:00:00 +0700", "unit": "minutes", "duration": 1440}
    assert "dana" not in sent["enabled_payments"]
    assert sent["page_expiry"] == {"unit": "minutes", "duration": 1440}


@pytest.mark.parametrize(
    ("email", "sent"), [("Budi@Example.com", "budi@example.com"), ("büdi@example.com", None), ("x", None)]
)
async def test_only_an_address_that_every_method_takes_is_sent(
    midtrans: Midtrans, email: str, sent: str | None
):
    await midtrans.gateway.open_checkout(evolve(order_for(midtrans.rig), customer_email=email))
    assert midtrans.stand_in.requests[-1].json["customer_details"].get("email") == sent


async def test_a_documented_page_is_handed_out(midtrans: Midtrans):
    midtrans.stand_in.faults.plan(canned("midtrans.snap.answer", "open"))
    page = await midtrans.gateway.open_checkout(order_for(midtrans.rig))
    assert page.url == fact("midtrans.snap.answer")["redirect_url"]


async def test_other_currencies_are_not_asked_for(midtrans: Midtrans):
    with pytest.raises(GatewayRefused):
        await midtrans.gateway.open_checkout(evolve(order_for(midtrans.rig), currency="USD"))
    assert midtrans.stand_in.calls["open"] == 0


@pytest.mark.parametrize(("left", "is_made"), [(timedelta(minutes=5), True), (timedelta(seconds=299), False)])
async def test_a_page_is_open_for_five_minutes_at_least(midtrans: Midtrans, left: timedelta, is_made: bool):
    order = evolve(order_for(midtrans.rig), expires_at=NOW + left)
    if is_made:
        await midtrans.gateway.open_checkout(order)
        return
    with pytest.raises(GatewayRefused):
        await midtrans.gateway.open_checkout(order)
    assert midtrans.stand_in.calls["open"] == 0


async def test_one_order_is_paid_once_on_whichever_of_its_pages(midtrans: Midtrans):
    order = order_for(midtrans.rig)
    for _ in range(3):
        await midtrans.gateway.open_checkout(order)
        midtrans.stand_in.forget_keys()
    assert len(midtrans.stand_in.orders[str(order.payment_id)].pages) == 3
    assert midtrans.stand_in.pay_everywhere(order.payment_id) == 1
    with pytest.raises(GatewayUnknown, match="taken"):
        await midtrans.gateway.open_checkout(order)


async def test_a_page_whose_address_is_lost_is_unknown_not_refused(midtrans: Midtrans):
    midtrans.stand_in.refuses_second_page = True
    order = order_for(midtrans.rig)
    await midtrans.gateway.open_checkout(order)
    midtrans.stand_in.forget_keys()
    with pytest.raises(GatewayUnknown, match="taken"):
        await midtrans.gateway.open_checkout(order)


async def test_the_same_request_under_way_is_unknown(midtrans: Midtrans):
    for call in ("open", "refund"):
        midtrans.stand_in.faults.plan(Fault("202", call))
    payment = await _refunded_payment(midtrans)
    with pytest.raises(GatewayUnknown):
        await midtrans.gateway.refund(payment, refund_of(payment, 1))


async def _refunded_payment(midtrans: Midtrans):
    order = order_for(midtrans.rig)
    with pytest.raises(GatewayUnknown, match="under way"):
        await midtrans.gateway.open_checkout(order)
    page = await midtrans.gateway.open_checkout(order)
    midtrans.stand_in.pay(order.payment_id)
    return payment_of(order, page)


# What it says


@pytest.mark.parametrize(
    ("name", "status", "amount", "method"),
    [
        ("midtrans.status.capture", PAID, 30_000, "credit_card"),
        ("midtrans.status.partial_refund", REVERSED, 30_000, "credit_card"),
        ("midtrans.status.pending", PENDING, 30_000, "ovo"),
        ("midtrans.status.dana_pending", PENDING, 238_429, "dana"),
        ("midtrans.status.expire", PENDING, 10_000, "echannel"),
    ],
)
async def test_documented_states(midtrans: Midtrans, name: str, status, amount: int, method: str):
    midtrans.stand_in.faults.plan(canned(name))
    record = await midtrans.gateway.find(fact_payment())
    assert record is not None
    said = record.answer
    assert (said.status, said.amount, said.currency, said.method) == (status, amount, "IDR", method)
    for personal in ("48111111-1114", "1424936374393", "081111111111", "m.dana.id", "bni"):
        assert personal not in record.body
    assert json.loads(record.body)["order_id"] == str(FACT_ID)


@pytest.mark.parametrize(
    ("status", "fraud", "open_now", "afterwards", "once_paid"),
    [
        ("settlement", "accept", PAID, PAID, PAID),
        ("capture", "accept", PAID, PAID, PAID),
        ("capture", "challenge", PENDING, PENDING, PENDING),
        ("capture", "deny", PENDING, PENDING, PENDING),
        ("pending", "accept", PENDING, PENDING, PENDING),
        ("authorize", "accept", PENDING, PENDING, PENDING),
        ("deny", "accept", PENDING, FAILED, REVERSED),
        ("failure", "accept", PENDING, FAILED, REVERSED),
        ("cancel", "accept", PENDING, FAILED, REVERSED),
        ("expire", "accept", PENDING, EXPIRED, REVERSED),
        ("refund", "accept", REVERSED, REVERSED, REVERSED),
        ("partial_refund", "accept", REVERSED, REVERSED, REVERSED),
        ("chargeback", "accept", REVERSED, REVERSED, REVERSED),
        ("partial_chargeback", "accept", REVERSED, REVERSED, REVERSED),
        ("new_word", "accept", PENDING, PENDING, PENDING),
    ],
)
async def test_an_attempt_ends_the_payment_when_the_page_is_over(
    midtrans: Midtrans, status: str, fraud: str, open_now, afterwards, once_paid
):
    order = order_for(midtrans.rig)
    payment = payment_of(order, await midtrans.gateway.open_checkout(order))
    midtrans.stand_in.attempt(order.payment_id, status, fraud)

    async def said(of=payment):
        return (await found_answer(midtrans.rig, of)).status

    assert await said() is open_now
    assert await said(evolve(payment, status=PaymentStatus.PAID)) is once_paid
    midtrans.clock.set(NOW + LATER)
    assert await said() is afterwards


async def test_a_page_that_was_never_used_expires_by_its_time_alone(midtrans: Midtrans):
    order = order_for(midtrans.rig)
    payment = payment_of(order, await midtrans.gateway.open_checkout(order))
    assert await answer_of(midtrans.rig, payment) is None
    midtrans.clock.set(payment.expires_at + timedelta(minutes=4))
    assert await answer_of(midtrans.rig, payment) is None
    midtrans.clock.set(payment.expires_at + timedelta(minutes=5))
    for each in (payment, evolve(payment, payment_url=None)):  # of an account that was erased
        assert (await found_answer(midtrans.rig, each)).status is EXPIRED
    assert await answer_of(midtrans.rig, payment_of(order, None)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"gross_amount": "30000.50"}, {"gross_amount": "NaN"}, {"gross_amount": None}, {"gross_amount": ""},
        {"order_id": str(uuid4())}, {"order_id": None}, {"transaction_status": ""},
        {"transaction_status": "", "status_code": "500"}, {"gross_amount": "1e400"},
    ],
)  # fmt: skip
async def test_an_answer_that_is_not_about_this_money_is_unknown(midtrans: Midtrans, changes):
    midtrans.stand_in.faults.plan(canned("midtrans.status.capture", **changes))
    with pytest.raises(GatewayUnknown):
        await midtrans.gateway.find(fact_payment())


@pytest.mark.parametrize("code", ["401", "402", "410"])
async def test_a_refusal_in_the_body_is_one(midtrans: Midtrans, code: str):
    midtrans.stand_in.faults.plan(Fault("canned", "find", body=json.dumps({"status_code": code})))
    with pytest.raises(GatewayRefused, match=code):
        await midtrans.gateway.find(fact_payment())


# Refunds


async def test_a_documented_refund_is_done(midtrans: Midtrans):
    midtrans.stand_in.faults.plan(canned("midtrans.refund.answer", "refund"))
    state = await midtrans.gateway.refund(fact_payment(), refund_of(fact_payment(), 10_000))
    assert state is RefundState.SENT


@pytest.mark.parametrize("name", ["midtrans.refund.denied", "midtrans.refund.duplicate"])
async def test_a_refund_that_is_refused_and_was_not_made_before_is_refused(midtrans: Midtrans, name: str):
    payment = await paid_payment(midtrans.rig)
    midtrans.stand_in.faults.plan(canned(name, "refund"))
    with pytest.raises(GatewayRefused):
        await midtrans.gateway.refund(payment, refund_of(payment, 5_000))


async def test_a_card_that_is_not_settled_is_refunded_later(midtrans: Midtrans):
    payment = await paid_payment(midtrans.rig)
    midtrans.stand_in.attempt(payment.id, "capture")
    with pytest.raises(GatewayUnknown, match="not settled"):
        await midtrans.gateway.refund(payment, refund_of(payment, 5_000))
    midtrans.stand_in.attempt(payment.id, "settlement")
    refund = refund_of(payment, 5_000)
    await midtrans.gateway.refund(payment, refund)
    assert midtrans.stand_in.sent_back(payment.id) == 5_000
    assert refund.reason not in midtrans.stand_in.requests[-1].body.decode()


async def test_refunds_at_once_send_money_once(midtrans: Midtrans):
    payment = await paid_payment(midtrans.rig)
    await asyncio.gather(*(midtrans.gateway.refund(payment, refund_of(payment, 5_000)) for _ in range(5)))
    assert midtrans.stand_in.sent_back(payment.id) == 5_000


# Notifications


def test_a_notification_of_another_reference_is_about_nothing_of_ours():
    body = fact("midtrans.notification.expire")
    with pytest.raises(NotificationInvalid):
        midtrans_notifications("key")(json.dumps(body).encode(), {}, NOW)
    signed = _signed({**body, "order_id": "payment_notif_test_G123456_1"})
    assert midtrans_notifications("key")(signed.body, signed.headers, NOW) is None


@pytest.mark.parametrize("name", ["order_id", "status_code", "gross_amount"])
def test_the_signature_covers_order_code_and_amount(name: str):
    notice = _signed({**fact("midtrans.notification.expire"), "order_id": str(FACT_ID)})
    parse = midtrans_notifications("key")
    said = parse(notice.body, notice.headers, NOW)
    assert said is not None
    assert said.payment_id == FACT_ID
    assert "8778004890127981" not in said.body
    assert "signature" not in said.body
    changed = {**json.loads(notice.body), name: "1"}
    with pytest.raises(NotificationInvalid):
        parse(json.dumps(changed).encode(), {}, NOW)
    with pytest.raises(NotificationInvalid):
        midtrans_notifications("another key")(notice.body, {}, NOW)


@pytest.mark.parametrize(("status", "is_dispute"), [
    ("chargeback", True), ("partial_chargeback", True), ("refund", False), ("settlement", False),
])  # fmt: skip
def test_a_chargeback_is_a_dispute(status: str, is_dispute: bool):
    """Midtrans is not asked what became of a payment that was refunded, in part."""
    about = {**fact("midtrans.notification.expire"), "order_id": str(FACT_ID), "transaction_status": status}
    notice = _signed(about)
    said = midtrans_notifications("key")(notice.body, notice.headers, NOW)
    assert said is not None
    assert (said.payment_id, said.is_dispute) == (FACT_ID, is_dispute)


def _signed(about: dict[str, str]) -> Notice:
    from hashlib import sha512

    text = about["order_id"] + about["status_code"] + about["gross_amount"] + "key"
    return Notice(json.dumps({**about, "signature_key": sha512(text.encode()).hexdigest()}).encode(), {})


# The check of the settings


async def test_the_check_asks_for_nothing_that_is_there(midtrans: Midtrans):
    await midtrans.gateway.check()
    midtrans.stand_in.server_key = "another"
    with pytest.raises(GatewayRefused, match="401"):
        await midtrans.gateway.check()
