"""Stripe: its currencies, one session for one key, and what a session and its charge say."""

import json
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl

import pytest
import stripe as library
from attrs import evolve

from meetcore.adapters.stripe import stripe_notifications
from meetcore.adapters.stripe.client import from_stripe, to_stripe
from meetcore.domain.payments.payments import GatewayStatus
from meetcore.domain.payments.refunds import RefundState
from meetcore.ports.payments import GatewayRefused, GatewayUnknown, NotificationInvalid, NotificationMalformed
from meetcore.testing.contracts.payments import (
    answer_of,
    found_answer,
    order_for,
    paid_payment,
    payment_of,
    refund_of,
)
from meetcore.testing.gateway_stand_in import Fault
from tests.support.gateways import FACT_ID, NOW, Stripe, canned, fact, fact_payment, stripe_at_hand

PENDING, PAID, FAILED, EXPIRED, REVERSED = GatewayStatus
SESSION = fact("stripe.session.paid")["id"]


@pytest.fixture
async def stripe():
    async with stripe_at_hand() as at_hand:
        yield at_hand


# Currencies


@pytest.mark.parametrize(
    ("currency", "amount", "theirs"),
    [
        ("IDR", 110_000, 11_000_000), ("USD", 110, 110), ("EUR", 1, 1), ("JPY", 500, 500), ("VND", 1, 1),
        ("KRW", 9, 9), ("ISK", 5, 500), ("UGX", 5, 500), ("HUF", 1_045, 1_045), ("TWD", 800, 800),
        ("MGA", 500, 5), ("KWD", 5_120, 5_120), ("BHD", 10, 10), ("XOF", 7, 7),
    ],
)  # fmt: skip
def test_amounts_in_stripes_unit(currency: str, amount: int, theirs: int):
    assert to_stripe(amount, currency) == theirs
    assert from_stripe(theirs, currency) == amount


@pytest.mark.parametrize(("currency", "amount"), [("MGA", 501), ("KWD", 5_124), ("TND", 1)])
def test_amounts_that_stripe_does_not_take(currency: str, amount: int):
    with pytest.raises(GatewayRefused):
        to_stripe(amount, currency)


@pytest.mark.parametrize(
    ("currency", "theirs"), [("IDR", 11_000_050), ("ISK", 501), ("USD", -1), ("IDR", 10**400)]
)
def test_amounts_that_are_none_of_ours(currency: str, theirs: int):
    with pytest.raises(GatewayUnknown):
        from_stripe(theirs, currency)


# Sessions


async def test_a_session_names_the_payment_and_converts_no_currency(stripe: Stripe):
    order = order_for(stripe.rig)
    await stripe.gateway.open_checkout(order)
    sent = stripe.stand_in.requests[-1]
    form = dict(parse_qsl(sent.body.decode()))
    assert form["adaptive_pricing[enabled]"] == "false"
    assert int(form["expires_at"]) == int((order.expires_at - timedelta(minutes=2)).timestamp())
    assert form["client_reference_id"] == str(order.payment_id)
    assert form["locale"] == "id"
    assert form["line_items[0][price_data][unit_amount]"] == "11000000"
    assert set(sent.headers) - {"host", "accept", "accept-encoding", "connection", "user-agent"} == {
        "authorization", "content-type", "content-length", "idempotency-key", "stripe-version",
    }  # fmt: skip


async def test_an_earlier_request_that_differs_is_unknown(stripe: Stripe):
    order = order_for(stripe.rig)
    await stripe.gateway.open_checkout(order)
    with pytest.raises(GatewayUnknown, match="another one"):
        await stripe.gateway.open_checkout(evolve(order, customer_email="siti@example.com"))
    assert len(stripe.stand_in.sessions) == 1


async def test_a_key_in_use_is_unknown(stripe: Stripe):
    stripe.stand_in.faults.plan(Fault("409", "open"))
    with pytest.raises(GatewayUnknown):
        await stripe.gateway.open_checkout(order_for(stripe.rig))


async def test_it_is_too_late_for_a_page(stripe: Stripe):
    order = evolve(order_for(stripe.rig), expires_at=NOW + timedelta(minutes=10))
    with pytest.raises(GatewayRefused):
        await stripe.gateway.open_checkout(order)


# What it says


def paid(**changes: Any) -> dict[str, Any]:
    intent = fact("stripe.session.paid")["payment_intent"]
    charge = {**intent["latest_charge"], **changes.pop("charge", {})}
    return {**intent, "latest_charge": charge, **changes}


def unpaid(status: str) -> dict[str, Any]:
    return {"payment_intent": paid(status=status), "payment_status": "unpaid"}


@pytest.mark.parametrize(
    ("changes", "status", "amount"),
    [
        ({}, PAID, 25_000),
        ({"payment_intent": None}, PAID, 25_000),
        ({"payment_intent": "pi_1DtBRV2eZvKYlo2CkhVFQQ9K"}, PAID, 25_000),
        ({"payment_intent": paid(amount_received=24_999)}, PAID, 24_999),
        ({"payment_intent": paid(charge={"refunded": True, "amount_refunded": 25_000})}, REVERSED, 25_000),
        ({"payment_intent": paid(charge={"amount_refunded": 1})}, REVERSED, 25_000),
        ({"payment_intent": paid(charge={"disputed": True})}, REVERSED, 25_000),
        ({"payment_intent": None, "payment_status": "no_payment_required", "amount_total": 0}, PAID, 0),
        ({"payment_intent": None, "payment_status": "unpaid", "status": "open"}, PENDING, 25_000),
        ({"payment_intent": None, "payment_status": "unpaid", "status": "expired"}, EXPIRED, 25_000),
        (unpaid("processing"), PENDING, 25_000),
        (unpaid("requires_payment_method"), FAILED, 25_000),
        (unpaid("canceled"), FAILED, 25_000),
        ({**unpaid("requires_action"), "status": "open"}, PENDING, 25_000),
    ],
)  # fmt: skip
async def test_documented_sessions(stripe: Stripe, changes: dict[str, Any], status, amount: int):
    stripe.stand_in.faults.plan(canned("stripe.session.paid", **changes))
    record = await stripe.gateway.find(fact_payment(SESSION, "USD"))
    assert record is not None
    assert (record.answer.status, record.answer.amount, record.answer.currency) == (status, amount, "USD")
    for personal in ("example@example.com", "Jenny", "4242", "Xt5EWLLDS7FJjR1c", "visa", "2030"):
        assert personal not in record.body
    assert json.loads(record.body)["client_reference_id"] == str(FACT_ID)


@pytest.mark.parametrize(
    "changes",
    [
        {"client_reference_id": "another"}, {"amount_total": "many", "payment_intent": None},
        {"status": None}, {"payment_intent": paid(amount_received=None)}, {"currency": None},
    ],
)  # fmt: skip
async def test_an_answer_that_is_not_about_this_money_is_unknown(stripe: Stripe, changes: dict[str, Any]):
    stripe.stand_in.faults.plan(canned("stripe.session.paid", **changes))
    with pytest.raises(GatewayUnknown):
        await stripe.gateway.find(fact_payment(SESSION))


@pytest.mark.parametrize("body", ["[]", "1", "null", '"x"', "{}", '{"object": "list"}'])
async def test_json_that_is_no_object_of_stripes_is_unknown(stripe: Stripe, body: str):
    payment = await paid_payment(stripe.rig)
    for call in ("open", "find", "refund"):
        stripe.stand_in.faults.plan(Fault("canned", call, body=body))
    with pytest.raises(GatewayUnknown):
        await stripe.gateway.open_checkout(order_for(stripe.rig))
    with pytest.raises(GatewayUnknown):
        await stripe.gateway.find(payment)
    with pytest.raises(GatewayUnknown):
        await stripe.gateway.refund(payment, refund_of(payment, 5_000))
    assert stripe.stand_in.faults.planned == ()


async def test_a_session_that_is_not_there_is_looked_for_by_the_payment(stripe: Stripe):
    payment = await paid_payment(stripe.rig)
    assert (await found_answer(stripe.rig, evolve(payment, reference="cs_test_gone"))).status is PAID
    assert await answer_of(stripe.rig, evolve(fact_payment(), reference="cs_test_gone")) is None


async def test_a_transfer_that_fails_later(stripe: Stripe):
    order = order_for(stripe.rig)
    page = await stripe.gateway.open_checkout(order)
    for status, found in (("processing", PENDING), ("requires_payment_method", FAILED)):
        stripe.stand_in.attempt(order.payment_id, status)
        for payment in (payment_of(order, page), payment_of(order, None)):
            answer = await found_answer(stripe.rig, payment)
            assert (answer.status, answer.amount) == (found, order.amount)


# Refunds


async def test_money_of_a_lost_session_is_refunded(stripe: Stripe):
    payment = await paid_payment(stripe.rig)
    await stripe.gateway.refund(evolve(payment, reference=None), refund_of(payment, 5_000))
    assert stripe.stand_in.sent_back(payment.id) == 5_000


@pytest.mark.parametrize("status", ["failed", "canceled"])
async def test_a_refund_that_failed_at_once_has_failed(stripe: Stripe, status: str):
    payment = await paid_payment(stripe.rig)
    body = {"id": "re_1", "object": "refund", "status": status, "metadata": {}}
    stripe.stand_in.faults.plan(Fault("canned", "refund", body=json.dumps(body)))
    assert await stripe.gateway.refund(payment, refund_of(payment, 5_000)) is RefundState.FAILED


# Notifications


def signed(body: object, secret: str = "whsec_1", seconds: int = 0) -> tuple[bytes, dict[str, str]]:
    text, at = json.dumps(body), int(NOW.timestamp()) + seconds
    header = library.WebhookSignature.generate_signature_header(text, secret, at)
    return text.encode(), {"Stripe-Signature": header}


def read(body: bytes, headers: dict[str, str]):
    return stripe_notifications("whsec_1")(body, headers, NOW)


def test_a_documented_notification():
    event = fact("stripe.notification.session_completed")
    said = read(*signed(event))
    assert said is not None
    assert said.payment_id == FACT_ID
    assert "example@example.com" not in said.body
    assert "cus_" not in said.body
    with pytest.raises(NotificationInvalid):
        read(*signed(event, "whsec_2"))
    body, headers = signed(event)
    with pytest.raises(NotificationInvalid):
        read(body + b" ", headers)


@pytest.mark.parametrize(
    ("seconds", "is_valid"), [(0, True), (300, True), (-300, True), (301, False), (-301, False)]
)
def test_the_time_of_a_signature_is_ours_within_five_minutes(seconds: int, is_valid: bool):
    body, headers = signed(fact("stripe.notification.session_completed"), seconds=seconds)
    if is_valid:
        assert read(body, headers) is not None
        return
    with pytest.raises(NotificationInvalid):
        read(body, headers)


@pytest.mark.parametrize("other", ["{old} ,t={now}", "+{old},t={now}", "{now},t={old}"])
def test_the_time_that_is_compared_is_the_one_that_was_signed(other: str):
    body, headers = signed(fact("stripe.notification.session_completed"), seconds=-86_400)
    old, now = (int(NOW.timestamp()) - seconds for seconds in (86_400, 0))
    header = headers["Stripe-Signature"].replace(f"t={old}", f"t={other.format(old=old, now=now)}")
    with pytest.raises(NotificationInvalid):
        read(body, {"Stripe-Signature": header})


@pytest.mark.parametrize(
    "header",
    ["", "t=,v1=x", "v1=x", "t=1796090400", "t=1796090400,v1=", "t=1796090400,v1=\u00e9", "t=x,v1=x"],
)
def test_no_signature_is_invalid(header: str):
    body, _ = signed({})
    with pytest.raises(NotificationInvalid):
        read(body, {"stripe-signature": header})


def test_a_documented_dispute_names_the_payment_intent():
    said = read(*signed(fact("stripe.notification.dispute_created")))
    assert said is not None
    assert (said.payment_id, said.transaction_id) == (None, "pi_1GszsK2eZvKYlo2CfhZyoZLp")
    assert said.is_dispute
    assert '"reason": "general"' in said.body
    assert "udi" not in said.body


def test_refunds_name_their_payment():
    charge = {
        "object": "charge",
        "metadata": {"payment_id": str(FACT_ID)},
        "receipt_email": "budi@example.com",
    }
    said = read(*signed({"object": "event", "type": "charge.refunded", "data": {"object": charge}}))
    assert said is not None
    assert said.payment_id == FACT_ID
    assert "budi" not in said.body
    others: list[object] = [{"charge": "ch_1"}, {"metadata": []}, {"client_reference_id": "7"}]
    for about in others:
        assert read(*signed({"object": "event", "type": "x", "data": {"object": about}})) is None


@pytest.mark.parametrize(
    "body", [[], {}, None, {"object": "event"}, {"object": "event", "type": "x", "data": []}]
)
def test_other_bodies_are_malformed(body: object):
    with pytest.raises(NotificationMalformed):
        read(*signed(body))


async def test_the_check_lists_one_session(stripe: Stripe):
    await stripe.gateway.check()
    assert stripe.stand_in.requests[-1].query == {"limit": "1"}
    stripe.stand_in.secret_key = "another"
    with pytest.raises(GatewayRefused, match="401"):
        await stripe.gateway.check()
