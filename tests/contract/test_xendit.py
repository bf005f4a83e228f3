"""Xendit: its documented answers, and money that a session does not show."""

import json
from typing import Any

import pytest
from attrs import evolve

from meetcore.adapters.xendit import xendit_notifications
from meetcore.domain.payments.payments import GatewayStatus, PaymentStatus
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
from tests.support.gateways import (
    FACT_ID,
    NOW,
    Xendit,
    assert_has_fields_of,
    canned,
    fact,
    fact_payment,
    xendit_at_hand,
)

PENDING, PAID, FAILED, EXPIRED, REVERSED = GatewayStatus
SESSION = fact("xendit.session.active")["payment_session_id"]
CARD = ("2222XXXXXXXX8888", "John", "john.doe", "+62812", "1234567890", "61f632879e9e27001a8165b9")


@pytest.fixture
async def xendit():
    async with xendit_at_hand() as at_hand:
        yield at_hand


# Sessions


async def test_a_request_has_documented_fields_and_none_of_the_customer(xendit: Xendit):
    order = order_for(xendit.rig)
    await xendit.gateway.open_checkout(order)
    sent = xendit.stand_in.requests[-1]
    known = {**fact("xendit.session.request"), "expires_at": "", "allow_save_payment_method": ""}
    assert_has_fields_of(sent.json, known)
    assert sent.json["reference_id"] == str(order.payment_id)
    assert sent.json["expires_at"] == "2026-12-02T02:00:00Z"
    assert order.customer_email.encode() not in sent.body
    assert order.customer_name.encode() not in sent.body


@pytest.mark.parametrize(
    ("currency", "amount", "sent"),
    [("IDR", 110_000, "110000"), ("VND", 99, "99"), ("PHP", 12_345, "123.45"), ("MYR", 100, "1.00")],
)
async def test_amounts_are_sent_in_the_currency_itself(xendit: Xendit, currency: str, amount: int, sent: str):
    await xendit.gateway.open_checkout(evolve(order_for(xendit.rig, amount), currency=currency))
    assert f'"amount":{sent},'.encode() in xendit.stand_in.requests[-1].body


async def test_addresses_that_xendit_refuses_are_not_sent(xendit: Xendit):
    order = evolve(order_for(xendit.rig), return_url="http://127.0.0.1:8000/dashboard/credits")
    await xendit.gateway.open_checkout(order)
    assert "success_return_url" not in xendit.stand_in.requests[-1].json


@pytest.mark.parametrize("currency", ["USD", "EUR", "idr"])
async def test_currencies_without_one_country_are_not_asked_for(xendit: Xendit, currency: str):
    with pytest.raises(GatewayRefused):
        await xendit.gateway.open_checkout(evolve(order_for(xendit.rig), currency=currency))
    assert xendit.stand_in.calls["open"] == 0


@pytest.mark.parametrize("changes", [{"payment_link_url": None}, {"reference_id": "another"}])
async def test_a_session_without_our_page_is_unknown(xendit: Xendit, changes: dict[str, Any]):
    xendit.stand_in.faults.plan(canned("xendit.session.active", "open", **changes))
    with pytest.raises(GatewayUnknown):
        await xendit.gateway.open_checkout(order_for(xendit.rig))


# What it says


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ("ACTIVE", PENDING),
        ("EXPIRED", EXPIRED),
        ("CANCELED", FAILED),
        ("COMPLETED", PENDING),
        ("NEW", PENDING),
    ],
)  # fmt: skip
async def test_documented_sessions_without_a_payment(xendit: Xendit, status: str, found: GatewayStatus):
    xendit.stand_in.faults.plan(canned("xendit.session.active", status=status))
    answer = await found_answer(xendit.rig, fact_payment(SESSION))
    assert (answer.status, answer.amount, answer.currency) == (found, 0, "IDR")


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ("SUCCEEDED", PAID), ("PENDING", PENDING), ("AUTHORIZED", PENDING), ("FAILED", FAILED),
        ("CANCELED", FAILED), ("EXPIRED", EXPIRED),
    ],
)  # fmt: skip
async def test_documented_payments(xendit: Xendit, status: str, found: GatewayStatus):
    completed = fact("xendit.notification.session_completed")["data"]
    card = {**fact("xendit.payment.card"), "status": status, "currency": "PHP"}
    for body in (completed, card):
        xendit.stand_in.faults.plan(Fault("canned", "find", body=json.dumps(body)))
    record = await xendit.gateway.find(fact_payment(SESSION, "PHP"))
    assert record is not None
    said = record.answer
    assert (said.status, said.amount, said.currency, said.method) == (found, 199_901, "PHP", "CARDS")
    assert not [text for text in CARD if text in record.body]
    assert str(FACT_ID) in record.body
    assert len(record.body.splitlines()) == 3


async def test_a_fraction_of_a_rupiah_is_unknown(xendit: Xendit):
    completed = fact("xendit.notification.session_completed")["data"]
    for body in (completed, fact("xendit.payment.card")):
        xendit.stand_in.faults.plan(Fault("canned", "find", body=json.dumps(body)))
    with pytest.raises(GatewayUnknown, match="fraction"):
        await xendit.gateway.find(fact_payment(SESSION))


async def test_a_documented_transaction_is_money_whose_session_was_lost(xendit: Xendit):
    xendit.stand_in.faults.plan(canned("xendit.transactions"))
    record = await xendit.gateway.find(fact_payment())
    assert record is not None
    assert record.answer.status is PAID
    assert (record.answer.amount, record.answer.currency) == (100_000, "IDR")
    assert record.answer.method == "ID_SHOPEEPAY"


async def test_money_in_an_earlier_session_is_found(xendit: Xendit):
    order = order_for(xendit.rig)
    await xendit.gateway.open_checkout(order)
    lost = xendit.stand_in.sessions[-1]
    page = await xendit.gateway.open_checkout(order)
    payment = payment_of(order, page)
    xendit.stand_in._pay(lost)
    answer = await found_answer(xendit.rig, payment)
    assert (answer.status, answer.amount) == (PAID, order.amount)
    await xendit.gateway.refund(payment, refund_of(payment, 10_000))
    assert xendit.stand_in.sent_back(order.payment_id) == 10_000


async def test_money_of_two_sessions_is_summed_and_another_currency_shown_first(xendit: Xendit):
    order = order_for(xendit.rig)
    await xendit.gateway.open_checkout(order)
    page = await xendit.gateway.open_checkout(order)
    xendit.stand_in.pay_everywhere(order.payment_id)
    answer = await found_answer(xendit.rig, payment_of(order, page))
    assert (answer.amount, answer.currency) == (2 * order.amount, "IDR")
    xendit.stand_in.payments[1].currency = "PHP"
    answer = await found_answer(xendit.rig, payment_of(order, page))
    assert (answer.amount, answer.currency) == (order.amount * 100, "PHP")


@pytest.mark.parametrize(
    ("kind", "status", "found"),
    [
        ("PAYMENT", "VOIDED", REVERSED), ("PAYMENT", "REVERSED", REVERSED), ("REFUND", "SUCCESS", REVERSED),
        ("REFUND", "PENDING", REVERSED), ("CHARGEBACK", "SUCCESS", REVERSED),
        ("CHARGEBACK", "PENDING", REVERSED), ("REFUND", "FAILED", None), ("CHARGEBACK", "FAILED", None),
        ("PAYMENT", "PENDING", None), ("PAYMENT", "FAILED", None), ("WITHDRAWAL", "SUCCESS", None),
    ],
)  # fmt: skip
async def test_which_transactions_take_money_back(xendit: Xendit, kind: str, status: str, found):
    (one,) = fact("xendit.transactions")["data"]
    xendit.stand_in.faults.plan(canned("xendit.transactions", data=[{**one, "type": kind, "status": status}]))
    answer = await answer_of(xendit.rig, fact_payment())
    assert (None if answer is None else answer.status) is found


async def test_a_session_of_another_payment_is_unknown(xendit: Xendit):
    one, other = order_for(xendit.rig), order_for(xendit.rig)
    page = await xendit.gateway.open_checkout(one)
    with pytest.raises(GatewayUnknown, match="another"):
        await xendit.gateway.find(payment_of(other, page))


async def test_a_reference_of_another_kind_reaches_no_path(xendit: Xendit):
    payment = evolve(fact_payment(), reference="../balance?x=1")
    assert await xendit.gateway.find(payment) is None
    assert [each.segments for each in xendit.stand_in.requests] == [("transactions",)]


async def test_a_key_that_may_not_read_transactions_is_refused(xendit: Xendit):
    xendit.stand_in.faults.plan(Fault("403", "find"))
    with pytest.raises(GatewayRefused, match="403, AS_PLANNED"):
        await xendit.gateway.find(fact_payment())


# Refunds


async def test_a_refund_has_documented_fields(xendit: Xendit):
    payment = await paid_payment(xendit.rig)
    await xendit.gateway.refund(payment, refund_of(payment, 5_000))
    sent = xendit.stand_in.requests[-1]
    assert_has_fields_of(sent.json, fact("xendit.refund.request"))
    assert sent.headers["idempotency-key"] == f"refund-{payment.id}"


async def test_a_refund_that_another_holds_up_is_asked_for_again(xendit: Xendit):
    payment = await paid_payment(xendit.rig)
    answer = Fault("400", "refund", body=json.dumps(fact("xendit.refund.in_progress")))
    xendit.stand_in.faults.plan(answer)
    with pytest.raises(GatewayUnknown, match="not taken now"):
        await xendit.gateway.refund(payment, refund_of(payment, 5_000))
    await xendit.gateway.refund(payment, refund_of(payment, 5_000))
    assert xendit.stand_in.sent_back(payment.id) == 5_000


async def test_a_refund_that_is_called_a_duplicate_is_refused(xendit: Xendit):
    payment = await paid_payment(xendit.rig)
    failed = fact("xendit.notification.refund_failed")["data"]["data"]
    xendit.stand_in.faults.plan(Fault("canned", "refund", body=json.dumps(failed)))
    with pytest.raises(GatewayRefused, match="DUPLICATE_ERROR"):
        await xendit.gateway.refund(payment, refund_of(payment, 5_000))
    other = {**failed, "failure_code": "INSUFFICIENT_BALANCE"}
    xendit.stand_in.faults.plan(Fault("canned", "refund", body=json.dumps(other)))
    assert await xendit.gateway.refund(payment, refund_of(payment, 5_000)) is RefundState.FAILED


# Notifications


def read(body: object, token: str = "token"):
    return xendit_notifications("token")(json.dumps(body).encode(), {"X-Callback-Token": token}, NOW)


@pytest.mark.parametrize("name", ["session_completed", "session_expired", "payment_capture", "refund_failed"])
def test_documented_notifications(name: str):
    body = fact(f"xendit.notification.{name}")
    said = read(body)
    assert said is not None
    assert said.payment_id == FACT_ID
    assert "cust-" not in said.body
    with pytest.raises(NotificationInvalid):
        read(body, "tokem")


def test_a_documented_dispute_names_the_payment_there():
    said = read(fact("xendit.notification.dispute"))
    assert said is not None
    assert (said.payment_id, said.transaction_id) == (None, "py-1fdaf346-dd2e-4b6c-b938-124c7167a822")
    assert said.is_dispute
    assert '"category": {"name": "fraud"}' in said.body
    assert '"due_date"' in said.body


def test_a_notification_of_another_reference_is_about_nothing_of_ours():
    body = fact("xendit.notification.session_completed")
    assert read({**body, "data": {**body["data"], "reference_id": "order_12345_PAY"}}) is None
    assert read({"event": "payout.succeeded", "data": {}}) is None


@pytest.mark.parametrize("body", [[], {}, "x", {"event": 1, "data": {}}, {"event": "x", "data": []}, None])
def test_other_bodies_are_malformed(body: object):
    with pytest.raises(NotificationMalformed):
        read(body)
    with pytest.raises(NotificationMalformed):
        xendit_notifications("token")(b"\xff", {"x-callback-token": "token"}, NOW)


async def test_the_check_reads_transactions(xendit: Xendit):
    await xendit.gateway.check()
    assert xendit.stand_in.requests[-1].query == {"limit": "1"}
    xendit.stand_in.secret_key = "another"
    with pytest.raises(GatewayRefused, match="401, INVALID_API_KEY"):
        await xendit.gateway.check()


async def test_a_paid_payment_that_was_refunded_is_reversed(xendit: Xendit):
    payment = evolve(await paid_payment(xendit.rig), status=PaymentStatus.PAID)
    await xendit.gateway.refund(payment, refund_of(payment, 5_000))
    assert (await found_answer(xendit.rig, payment)).status is REVERSED
