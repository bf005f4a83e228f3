"""Packages and payments as the API shows them."""

from __future__ import annotations

from datetime import date

import pytest
from attrs import evolve

from meetcore.domain.payments.packages import CreditOrder, CreditPackage
from meetcore.domain.payments.payments import Doubt, PaymentStatus
from meetcore.domain.payments.refunds import Refund
from meetcore.domain.payments.views import PaymentPapers
from meetcore.domain.records.payments import TopupRefund, package_record, payment_record
from tests.unit.domain.payments.test_payments import AT, LATER, PENDING


def test_a_package_is_shown_with_what_is_to_be_paid() -> None:
    package = CreditPackage("starter", 500, 500_000, "IDR", date(2026, 12, 31))
    shown = package_record(package, CreditOrder(500, 500_000, 55_000, "IDR", "starter"))
    assert (shown.id, shown.credits, shown.amount, shown.tax) == ("starter", 500, 555_000, 55_000)
    assert (shown.currency, shown.valid_until) == ("IDR", date(2026, 12, 31))
    assert shown.name == "starter", "the id where none is given"
    named = package_record(
        evolve(package, name="Paket awal"), CreditOrder(500, 500_000, 55_000, "IDR", "starter")
    )
    assert named.name == "Paket awal"


def test_a_payment_shows_its_page_while_it_can_be_paid() -> None:
    shown = payment_record(PaymentPapers(PENDING))
    assert (shown.id, shown.status, shown.amount) == (str(PENDING.id), "pending", 555_000)
    assert (shown.payment_url, shown.paid_at, shown.ended_at) == ("https://pay.example/1", None, None)
    paid = payment_record(PaymentPapers(evolve(PENDING, status=PaymentStatus.PAID, ended_at=AT)))
    assert (paid.status, paid.payment_url, paid.paid_at, paid.ended_at) == ("paid", None, AT, AT)
    failed = payment_record(PaymentPapers(evolve(PENDING, status=PaymentStatus.FAILED, ended_at=AT)))
    assert (failed.paid_at, failed.ended_at) == (None, AT)
    doubtful = payment_record(PaymentPapers(evolve(PENDING, doubt=Doubt.WRONG_AMOUNT)))
    assert (doubtful.status, doubtful.payment_url) == ("pending", None)  # its money is there
    assert (shown.refund, paid.refund) == (None, None)


@pytest.mark.parametrize(("credits", "is_partial"), [(200, True), (500, False)])
def test_a_payment_shows_its_refund_unless_it_failed(credits: int, is_partial: bool) -> None:
    refund = Refund(
        payment_id=PENDING.id, account_id=PENDING.account_id, credits=credits, amount=222_000, reason="x",
        created_at=AT,
    )  # fmt: skip
    papers = PaymentPapers(evolve(PENDING, status=PaymentStatus.REFUNDED, ended_at=AT), refund=refund)
    assert payment_record(papers).refund == TopupRefund(credits=credits, amount=222_000, at=None)
    assert papers.is_partly_refunded is is_partial
    sent = evolve(papers, refund=evolve(refund, paid_back_at=LATER))
    assert payment_record(sent).refund == TopupRefund(credits=credits, amount=222_000, at=LATER)
    failed = evolve(sent, refund=evolve(refund, paid_back_at=LATER, failed_at=LATER))
    assert (payment_record(failed).refund, failed.is_partly_refunded) == (None, False)
