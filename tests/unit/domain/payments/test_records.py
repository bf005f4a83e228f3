"""Packages and payments as the API shows them."""

from __future__ import annotations

from datetime import date

from attrs import evolve

from meetcore.domain.payments.packages import CreditOrder, CreditPackage
from meetcore.domain.payments.payments import PaymentStatus
from meetcore.domain.records.payments import package_record, payment_record
from tests.unit.domain.payments.test_payments import AT, PENDING


def test_a_package_is_shown_with_what_is_to_be_paid() -> None:
    package = CreditPackage("starter", 500, 500_000, "IDR", date(2026, 12, 31))
    shown = package_record(package, CreditOrder(500, 500_000, 55_000, "IDR", "starter"))
    assert (shown.id, shown.credits, shown.amount, shown.tax) == ("starter", 500, 555_000, 55_000)
    assert (shown.currency, shown.valid_until) == ("IDR", date(2026, 12, 31))


def test_a_payment_shows_its_page_while_it_can_be_paid() -> None:
    shown = payment_record(PENDING)
    assert (shown.id, shown.status, shown.amount) == (str(PENDING.id), "pending", 555_000)
    assert (shown.payment_url, shown.ended_at) == ("https://pay.example/1", None)
    paid = payment_record(evolve(PENDING, status=PaymentStatus.PAID, ended_at=AT))
    assert (paid.status, paid.payment_url, paid.ended_at) == ("paid", None, AT)
