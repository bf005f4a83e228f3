"""The bookings of a month: purchases, refunds, and refunds that failed."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from attrs import evolve

from meetcore.domain.payments.bookings import Booking, BookingKind, bookings_of, sum_by_currency
from meetcore.domain.payments.packages import Seller
from meetcore.domain.payments.receipts import Buyer, Receipt
from meetcore.domain.payments.refunds import Refund
from meetcore.domain.payments.views import PaymentPapers
from tests.unit.domain.payments.test_payments import AT, PENDING

END = AT + timedelta(days=31)
RECEIPT = Receipt(
    payment_id=PENDING.id, account_id=PENDING.account_id, year=2026, number=7, issued_at=AT, seller=Seller(),
    buyer=Buyer("A"),
)  # fmt: skip
REFUND = Refund(
    payment_id=PENDING.id, account_id=PENDING.account_id, credits=100, amount=111_001, reason="asked for",
    created_at=AT + timedelta(days=1),
)  # fmt: skip
PURCHASE = Booking(AT, BookingKind.PURCHASE, "2026-000007", PENDING.id, 500, 500_000, 55_000, "IDR")


def test_a_purchase_is_booked_when_its_receipt_is_issued() -> None:
    papers = [PaymentPapers(PENDING, RECEIPT)]
    assert bookings_of(papers, AT, END) == [PURCHASE]
    assert PURCHASE.amount == 555_000
    assert bookings_of(papers, AT + timedelta(microseconds=1), END) == []
    assert bookings_of(papers, AT - timedelta(days=1), AT) == []
    assert bookings_of([PaymentPapers(PENDING, None, REFUND)], AT, END) == []


def test_a_refund_is_booked_with_its_share_of_the_tax_and_back_when_it_failed() -> None:
    papers = PaymentPapers(PENDING, RECEIPT, REFUND)
    back = evolve(
        PURCHASE, at=REFUND.created_at, kind=BookingKind.REFUND, credits=-100, price=-100_001, tax=-11_000
    )
    assert bookings_of([papers], AT, END) == [PURCHASE, back]
    assert back.amount == -111_001
    failed = evolve(papers, refund=evolve(REFUND, failed_at=END))
    assert bookings_of([failed], AT, END) == [PURCHASE, back]
    again = evolve(back, at=END, kind=BookingKind.REFUND_FAILED, credits=100, price=100_001, tax=11_000)
    assert bookings_of([failed], END, END + timedelta(days=1)) == [again]


def test_bookings_are_in_order_of_time_and_summed_by_currency() -> None:
    other = PaymentPapers(
        evolve(PENDING, id=UUID(int=7), currency="USD", price=1_000, tax=0),
        evolve(RECEIPT, number=6, issued_at=AT + timedelta(hours=1)),
    )
    booked = bookings_of([other, PaymentPapers(PENDING, RECEIPT, REFUND)], AT, END)
    assert [each.kind.value for each in booked] == ["purchase", "purchase", "refund"]
    assert [each.receipt for each in booked] == ["2026-000007", "2026-000006", "2026-000007"]
    assert list(sum_by_currency(booked).items()) == [
        ("IDR", (400, 399_999, 44_000)),
        ("USD", (500, 1_000, 0)),
    ]
    assert sum_by_currency([]) == {}
