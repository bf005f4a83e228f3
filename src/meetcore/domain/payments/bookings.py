"""The purchases and refunds of a month, as a statement has them for the books.

A refund is booked when its credits leave, and once more, the other way, when its gateway failed to send the
money: what was booked in a month does not change later.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.payments.views import PaymentPapers


class BookingKind(StrEnum):
    """The occasion of a booking."""

    PURCHASE = "purchase"
    REFUND = "refund"
    REFUND_FAILED = "refund_failed"


@frozen
class Booking:
    """Money and credits of a payment, negative where they went back; `price` is without tax.

    Money is in units of the currency. `receipt` is the number of the payment's receipt.
    """

    at: datetime
    kind: BookingKind
    receipt: str
    payment_id: UUID
    credits: int
    price: int
    tax: int
    currency: str

    @property
    def amount(self) -> int:
        """The money with its tax."""
        return self.price + self.tax


def bookings_of(papers: Iterable[PaymentPapers], begins_at: datetime, ends_at: datetime) -> Sequence[Booking]:
    """Return what is booked from one instant until before another, in order of time."""
    booked = (each for one in papers for each in _book(one))
    return sorted((each for each in booked if begins_at <= each.at < ends_at), key=lambda each: each.at)


def _book(papers: PaymentPapers) -> Iterable[Booking]:
    """Book a payment; the tax of a refund is its share of the payment's, rounded down."""
    payment, receipt, refund = papers.payment, papers.receipt, papers.refund
    if receipt is None:
        return
    purchase = Booking(
        receipt.issued_at, BookingKind.PURCHASE, receipt.text, payment.id, payment.credits, payment.price,
        payment.tax, payment.currency,
    )  # fmt: skip
    yield purchase
    if refund is None:
        return
    tax = payment.tax * refund.amount // payment.amount
    price = refund.amount - tax
    for at, kind, sign in (
        (refund.created_at, BookingKind.REFUND, -1), (refund.failed_at, BookingKind.REFUND_FAILED, 1),
    ):  # fmt: skip
        if at is not None:
            yield evolve(
                purchase, at=at, kind=kind, credits=sign * refund.credits, price=sign * price, tax=sign * tax
            )


def sum_by_currency(bookings: Iterable[Booking]) -> Mapping[str, tuple[int, int, int]]:
    """Return credits, price and tax of each currency, in the order in which they occur."""
    sums: dict[str, tuple[int, int, int]] = {}
    for each in bookings:
        credits, price, tax = sums.get(each.currency, (0, 0, 0))
        sums[each.currency] = (credits + each.credits, price + each.price, tax + each.tax)
    return sums
