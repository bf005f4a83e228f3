"""The machine of a payment: each answer of the gateway in each state, and what operators settle."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.errors import Conflict
from meetcore.domain.payments import payments
from meetcore.domain.payments.payments import (
    ASKED_FOR,
    TRANSITIONS,
    Doubt,
    GatewayAnswer,
    GatewayStatus,
    Payment,
    PaymentEvent,
    PaymentStatus,
)

AT = datetime(2026, 12, 1, tzinfo=UTC)
PENDING = Payment(
    id=UUID(int=1), account_id=UUID(int=2), gateway="sandbox", credits=500, price=500_000, tax=55_000,
    currency="IDR", created_at=AT, expires_at=AT + payments.PAYABLE_FOR, reference="ref",
    payment_url="https://pay.example/1", next_look_at=AT + payments.FIRST_LOOK,
)  # fmt: skip
LATER = AT + timedelta(hours=1)


def said(
    status: GatewayStatus = GatewayStatus.PAID, amount: int = 555_000, currency: str = "IDR"
) -> GatewayAnswer:
    return GatewayAnswer(status, amount, currency, "qris")


def in_state(status: PaymentStatus) -> Payment:
    ended_at = None if status is PaymentStatus.PENDING else AT
    return evolve(PENDING, status=status, ended_at=ended_at, next_look_at=None)


def test_the_amount_is_price_and_tax() -> None:
    assert PENDING.amount == 555_000
    assert payments.topup_reference(PENDING.id) == f"payment:{PENDING.id}"


@pytest.mark.parametrize(("answer", "status"), [
    (GatewayStatus.PAID, PaymentStatus.PAID),
    (GatewayStatus.FAILED, PaymentStatus.FAILED),
    (GatewayStatus.EXPIRED, PaymentStatus.EXPIRED),
])  # fmt: skip
def test_a_pending_payment_ends_as_the_gateway_says(answer: GatewayStatus, status: PaymentStatus) -> None:
    after = payments.follow(PENDING, said(answer), LATER)
    method = "qris" if answer is GatewayStatus.PAID else ""
    assert after == evolve(PENDING, status=status, ended_at=LATER, next_look_at=None, method=method)


def test_a_payment_that_the_gateway_calls_pending_is_asked_about_again() -> None:
    after = payments.follow(PENDING, said(GatewayStatus.PENDING), LATER)
    assert after == evolve(PENDING, looks=1, next_look_at=LATER + timedelta(minutes=4))


def test_looks_come_less_and_less_often() -> None:
    waits, payment = [], PENDING
    for _ in range(8):
        payment = payments.looked(payment, AT)
        assert payment.next_look_at is not None
        waits.append((payment.next_look_at - AT) // timedelta(minutes=1))
    assert waits == [4, 8, 16, 32, 60, 60, 60, 60]
    assert payments.looked(evolve(PENDING, looks=5_000), AT).next_look_at == AT + timedelta(hours=1)


def test_a_payment_without_an_answer_long_after_its_expiry_is_in_doubt() -> None:
    late = PENDING.expires_at + ASKED_FOR
    assert not payments.looked(PENDING, late - timedelta(microseconds=1)).is_doubtful
    after = payments.looked(PENDING, late)
    assert (after.doubt, after.next_look_at, after.status) == (Doubt.UNANSWERED, None, PaymentStatus.PENDING)
    paid = payments.follow(after, said(), late)
    assert (paid.status, paid.is_doubtful) == (PaymentStatus.PAID, False)
    expired = payments.follow(after, said(GatewayStatus.EXPIRED), late)
    assert (expired.status, expired.is_doubtful) == (PaymentStatus.EXPIRED, False)


@pytest.mark.parametrize("status", [PaymentStatus.PAID, PaymentStatus.REFUNDED])
def test_a_payment_is_paid_once(status: PaymentStatus) -> None:
    before = in_state(status)
    for answer in (said(), said(amount=1)):
        assert payments.follow(evolve(before, next_look_at=AT), answer, LATER) == before


@pytest.mark.parametrize("status", [PaymentStatus.FAILED, PaymentStatus.EXPIRED])
def test_money_for_a_payment_that_had_ended_is_in_doubt(status: PaymentStatus) -> None:
    after = payments.follow(in_state(status), said(), LATER)
    assert (after.status, after.doubt, after.is_doubtful) == (status, Doubt.PAID_AFTER_END, True)


@pytest.mark.parametrize(("answer", "is_erased", "doubt"), [
    (said(amount=554_999), False, Doubt.WRONG_AMOUNT),
    (said(currency="USD"), False, Doubt.WRONG_CURRENCY),
    (said(currency="USD", amount=1), True, Doubt.WRONG_CURRENCY),
    (said(), True, Doubt.ACCOUNT_ERASED),
])  # fmt: skip
def test_money_that_does_not_fit_is_in_doubt(answer: GatewayAnswer, is_erased: bool, doubt: Doubt) -> None:
    after = payments.follow(PENDING, answer, LATER, is_erased=is_erased)
    assert after == evolve(PENDING, doubt=doubt, method="qris", next_look_at=None)
    again = payments.follow(evolve(after, next_look_at=LATER), answer, LATER, is_erased=is_erased)
    assert again == after
    corrected = payments.follow(after, said(), LATER)
    assert (corrected.status, corrected.is_doubtful) == (PaymentStatus.PAID, False)
    # The money has arrived: that it expired afterwards settles nothing.
    assert payments.follow(after, said(GatewayStatus.EXPIRED), LATER).is_doubtful


def test_money_that_went_back_is_in_doubt() -> None:
    after = payments.follow(in_state(PaymentStatus.PAID), said(GatewayStatus.REVERSED), LATER)
    assert (after.status, after.doubt) == (PaymentStatus.PAID, Doubt.REVERSED)
    for status in (PaymentStatus.REFUNDED, PaymentStatus.FAILED, PaymentStatus.EXPIRED):
        before = in_state(status)
        assert payments.follow(before, said(GatewayStatus.REVERSED), LATER) == before


def test_money_that_went_back_before_the_first_look_is_in_doubt() -> None:
    after = payments.follow(PENDING, said(GatewayStatus.REVERSED), LATER)
    assert after == evolve(PENDING, doubt=Doubt.REVERSED, next_look_at=None)
    closed = payments.dismiss(after, LATER)
    assert (closed.status, closed.is_doubtful) == (PaymentStatus.FAILED, False)


@pytest.mark.parametrize("doubt", sorted(payments.ACCEPTABLE))
@pytest.mark.parametrize("status", [PaymentStatus.PENDING, PaymentStatus.FAILED, PaymentStatus.EXPIRED])
@pytest.mark.parametrize("answer", [GatewayStatus.REVERSED, GatewayStatus.FAILED, GatewayStatus.EXPIRED])
def test_money_in_doubt_that_went_back_is_not_accepted(
    answer: GatewayStatus, doubt: Doubt, status: PaymentStatus
) -> None:
    after = payments.follow(evolve(in_state(status), doubt=doubt), said(answer), LATER)
    assert (after.status, after.doubt, after.is_doubtful) == (status, Doubt.REVERSED, True)
    with pytest.raises(Conflict):
        payments.accept(after, LATER)
    # What an operator had closed stays closed.
    closed = evolve(in_state(PaymentStatus.EXPIRED), doubt=doubt, doubt_closed_at=AT)
    assert payments.follow(closed, said(answer), LATER) == closed


@pytest.mark.parametrize("answer", [GatewayStatus.PENDING, GatewayStatus.FAILED, GatewayStatus.EXPIRED])
@pytest.mark.parametrize("status", [each for each in PaymentStatus if each is not PaymentStatus.PENDING])
def test_late_news_changes_no_payment_that_has_ended(status: PaymentStatus, answer: GatewayStatus) -> None:
    before = evolve(in_state(status), next_look_at=AT)
    assert payments.follow(before, said(answer), LATER) == evolve(before, next_look_at=None)


def test_a_payment_without_a_page_that_the_gateway_does_not_know_fails() -> None:
    lost = evolve(PENDING, payment_url=None, reference=None)
    assert payments.unknown(lost, LATER) == evolve(
        lost, status=PaymentStatus.FAILED, ended_at=LATER, next_look_at=None
    )
    assert payments.unknown(PENDING, LATER) == payments.looked(PENDING, LATER)
    assert payments.unknown(evolve(lost, status=PaymentStatus.EXPIRED), LATER).status is PaymentStatus.EXPIRED


def test_a_payment_of_an_erased_account_is_asked_about_while_its_page_is_open() -> None:
    erased = evolve(PENDING, payment_url=None)
    assert payments.unknown(erased, LATER) == payments.looked(erased, LATER)


def test_a_payment_gets_its_page() -> None:
    bare = evolve(PENDING, reference=None, payment_url=None, next_look_at=AT)
    assert payments.opened(bare, "ref", "https://pay.example/1", AT) == PENDING


@pytest.mark.parametrize("doubt", [Doubt.WRONG_AMOUNT, Doubt.WRONG_CURRENCY, Doubt.PAID_AFTER_END])
@pytest.mark.parametrize("status", [PaymentStatus.PENDING, PaymentStatus.FAILED, PaymentStatus.EXPIRED])
def test_an_operator_accepts_money_in_doubt(doubt: Doubt, status: PaymentStatus) -> None:
    after = payments.accept(evolve(in_state(status), doubt=doubt), LATER)
    assert (after.status, after.ended_at, after.doubt_closed_at) == (PaymentStatus.PAID, LATER, LATER)
    assert after.next_look_at == LATER  # the money may have gone back since


def test_an_erased_account_gets_no_credits() -> None:
    before = evolve(PENDING, doubt=Doubt.WRONG_AMOUNT)
    with pytest.raises(Conflict, match=r"^The account was erased") as refusal:
        payments.accept(before, LATER, is_erased=True)
    assert refusal.value.details == {"id": str(before.id)}


@pytest.mark.parametrize("before", [
    PENDING,
    evolve(PENDING, doubt=Doubt.WRONG_AMOUNT, doubt_closed_at=AT),
    evolve(PENDING, doubt=Doubt.UNANSWERED),
    evolve(in_state(PaymentStatus.PAID), doubt=Doubt.REVERSED),
    evolve(PENDING, doubt=Doubt.ACCOUNT_ERASED),
])  # fmt: skip
def test_only_money_in_doubt_is_accepted(before: Payment) -> None:
    message = "^Only a payment whose money arrived, and that is in doubt, can be accepted"
    with pytest.raises(Conflict, match=message) as refusal:
        payments.accept(before, LATER)
    assert refusal.value.details == {"id": str(before.id)}


def test_a_dismissed_doubt_is_not_opened_by_the_same_news() -> None:
    doubtful = payments.follow(in_state(PaymentStatus.EXPIRED), said(), LATER)
    closed = payments.dismiss(doubtful, LATER)
    assert (closed.status, closed.is_doubtful) == (PaymentStatus.EXPIRED, False)
    assert not payments.follow(closed, said(), LATER).is_doubtful
    other = payments.follow(closed, said(amount=1), LATER)
    assert (other.doubt, other.is_doubtful) == (Doubt.WRONG_AMOUNT, True)
    with pytest.raises(Conflict, match=r"^This payment is not in doubt\.$") as refusal:
        payments.dismiss(closed, LATER)
    assert refusal.value.details == {"id": str(closed.id)}


def test_a_pending_payment_whose_doubt_is_dismissed_fails() -> None:
    closed = payments.dismiss(evolve(PENDING, doubt=Doubt.WRONG_AMOUNT), LATER)
    assert (closed.status, closed.ended_at, closed.doubt_closed_at) == (PaymentStatus.FAILED, LATER, LATER)


def test_a_doubt_of_a_refunded_payment_is_closed_and_its_gateway_asked_again() -> None:
    refunded = evolve(in_state(PaymentStatus.REFUNDED), next_look_at=AT, doubt=Doubt.REFUND_REFUSED)
    assert payments.dismiss(refunded, LATER) == evolve(refunded, doubt_closed_at=LATER)
    assert payments.asked_again(refunded, AT).next_look_at == AT + timedelta(minutes=4)


@pytest.mark.parametrize("status", PaymentStatus)
def test_a_dispute_is_a_doubt_and_changes_no_state(status: PaymentStatus) -> None:
    for before in (
        evolve(in_state(status), next_look_at=AT),
        evolve(in_state(status), doubt=Doubt.REVERSED, doubt_closed_at=AT),
    ):
        after = payments.disputed(before)
        assert after == evolve(before, doubt=Doubt.DISPUTED, doubt_closed_at=None)
        closed = payments.dismiss(after, LATER)
        assert not payments.disputed(closed).is_doubtful  # a later message of the same dispute


def test_a_dispute_that_is_open_stays_one_when_the_money_goes_back() -> None:
    disputed = payments.disputed(in_state(PaymentStatus.PAID))
    assert payments.follow(disputed, said(GatewayStatus.REVERSED), LATER) == disputed
    closed = payments.dismiss(disputed, LATER)
    assert closed.next_look_at == LATER, "the gateway is asked whether it did"
    again = payments.follow(closed, said(GatewayStatus.REVERSED), LATER)
    assert (again.doubt, again.is_doubtful) == (Doubt.REVERSED, True)
    reversed_ = payments.follow(in_state(PaymentStatus.PAID), said(GatewayStatus.REVERSED), LATER)
    assert payments.follow(reversed_, said(GatewayStatus.REVERSED), LATER).doubt is Doubt.REVERSED


def test_a_dispute_that_comes_before_the_payment_is_known_to_be_paid_stays_open() -> None:
    paid = payments.follow(payments.disputed(PENDING), said(), LATER)
    assert (paid.status, paid.doubt, paid.is_doubtful) == (PaymentStatus.PAID, Doubt.DISPUTED, True)


@pytest.mark.parametrize("answer", [said(amount=1), said(currency="USD")])
@pytest.mark.parametrize("status", [PaymentStatus.PENDING, PaymentStatus.EXPIRED])
def test_disputed_money_that_does_not_fit_is_not_accepted(
    status: PaymentStatus, answer: GatewayAnswer
) -> None:
    after = payments.follow(payments.disputed(in_state(status)), answer, LATER)
    assert (after.status, after.doubt, after.is_doubtful) == (status, Doubt.DISPUTED, True)
    with pytest.raises(Conflict):
        payments.accept(after, LATER)


@pytest.mark.parametrize(
    ("answer", "doubt"),
    [
        (said(amount=1), Doubt.WRONG_AMOUNT),
        (said(currency="USD"), Doubt.WRONG_CURRENCY),
        (said(), Doubt.DISPUTED),
    ],
)
def test_a_closed_dispute_gives_way_to_the_doubt_in_which_the_payment_was_accepted(
    answer: GatewayAnswer, doubt: Doubt
) -> None:
    disputed = payments.disputed(in_state(PaymentStatus.PAID))
    assert payments.follow(disputed, answer, LATER) == disputed, "while it is open"
    after = payments.follow(payments.dismiss(disputed, LATER), answer, LATER)
    assert (after.doubt, after.is_doubtful, after.next_look_at) == (doubt, False, None)
    plain = in_state(PaymentStatus.PAID)
    assert payments.follow(plain, answer, LATER) == plain
    reversed_ = evolve(plain, doubt=Doubt.REVERSED, doubt_closed_at=AT)
    assert payments.follow(reversed_, answer, LATER) == reversed_


def test_a_refund_at_a_gateway_that_was_replaced_is_a_doubt() -> None:
    refunded = evolve(in_state(PaymentStatus.REFUNDED), next_look_at=AT)
    after = payments.of_another_gateway(refunded, LATER)
    assert after == evolve(refunded, doubt=Doubt.UNANSWERED, next_look_at=None)
    disputed = payments.disputed(refunded)
    assert payments.of_another_gateway(disputed, LATER) == evolve(disputed, next_look_at=None)


def test_a_disputed_payment_without_an_answer_long_after_its_expiry_stays_disputed() -> None:
    after = payments.looked(payments.disputed(PENDING), PENDING.expires_at + ASKED_FOR)
    assert (after.doubt, after.is_doubtful, after.next_look_at) == (Doubt.DISPUTED, True, None)


def test_a_paid_payment_keeps_the_gateways_id_of_its_transaction() -> None:
    paid = payments.follow(PENDING, evolve(said(), transaction_id="pi_1"), LATER)
    assert (paid.status, paid.transaction_id) == (PaymentStatus.PAID, "pi_1")


@pytest.mark.parametrize("status", PaymentStatus)
@pytest.mark.parametrize("event", PaymentEvent)
def test_each_step_leads_where_the_drawing_says(status: PaymentStatus, event: PaymentEvent) -> None:
    legal = {
        ("pending", "pay"): "paid", ("pending", "fail"): "failed", ("pending", "expire"): "expired",
        ("pending", "accept"): "paid", ("failed", "accept"): "paid", ("expired", "accept"): "paid",
        ("paid", "refund"): "refunded", ("refunded", "return"): "paid",
    }  # fmt: skip
    assert TRANSITIONS.get((status, event)) == legal.get((status.value, event.value))


ANSWERS = st.builds(
    GatewayAnswer,
    st.sampled_from(GatewayStatus),
    st.sampled_from([555_000, 1]),
    st.sampled_from(["IDR", "USD"]),
)


@given(st.lists(st.tuples(ANSWERS, st.booleans()), max_size=12))
def test_whatever_the_gateway_says_in_any_order_a_payment_is_paid_at_most_once(
    answers: list[tuple[GatewayAnswer, bool]],
) -> None:
    payment, times_paid = PENDING, 0
    for answer, is_erased in answers:
        after = payments.follow(payment, answer, LATER, is_erased=is_erased)
        if after.status is PaymentStatus.PAID and payment.status is not PaymentStatus.PAID:
            times_paid += 1
            assert (answer.status, answer.amount, answer.currency, is_erased) == (
                GatewayStatus.PAID, 555_000, "IDR", False,
            )  # fmt: skip
        payment = after
    assert times_paid <= 1
    has_money = any(answer.status is GatewayStatus.PAID for answer, _ in answers)
    if has_money:  # never lost
        assert payment.status is PaymentStatus.PAID or payment.is_doubtful
    assert (payment.ended_at is None) == (payment.status is PaymentStatus.PENDING)
