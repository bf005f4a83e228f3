"""The records of credit packages and payments (api.md, Credits)."""

from datetime import date
from typing import Annotated

from attrs import frozen

from meetcore.domain.fields import Credits, FieldInfo, Id, Utc, in_utc, record_of
from meetcore.domain.payments import packages, payments
from meetcore.domain.payments.refunds import Refund
from meetcore.domain.payments.views import PaymentPapers

_Money = Annotated[int, FieldInfo("Whole rupiah; of another currency, its minor unit (ISO 4217).")]


@frozen(kw_only=True)
class CreditPackage:
    """A package of credits on sale; `amount` is what is to be paid, `tax` the part of it that is tax."""

    id: str
    name: str
    credits: Credits
    amount: _Money
    tax: _Money
    currency: Annotated[str, FieldInfo("ISO 4217.", examples=("IDR",))]
    valid_until: Annotated[date | None, FieldInfo("The last day (WIB) on which it is sold.")] = None


@frozen(kw_only=True)
class TopupRefund:
    """The refund of a payment, wholly or in part: credits that were taken back, and the money for them."""

    credits: Credits
    amount: _Money
    at: Annotated[Utc | None, FieldInfo("When its money was sent back; null until then.")] = None


@frozen(kw_only=True)
class Topup:
    """A payment for credits. `payment_url` is null when nothing can be paid there any more."""

    id: Id
    status: Annotated[str, FieldInfo(known_values=payments.PaymentStatus)]
    credits: Credits
    amount: _Money
    tax: _Money
    currency: Annotated[str, FieldInfo("ISO 4217.", examples=("IDR",))]
    package_id: str | None = None
    payment_url: Annotated[
        str | None, FieldInfo("The page of the payment gateway; to be opened in a browser.")
    ] = None
    created_at: Utc
    expires_at: Annotated[Utc, FieldInfo("Until then it can be paid.")]
    paid_at: Annotated[Utc | None, FieldInfo("When it was paid; null until then.")] = None
    ended_at: Annotated[Utc | None, FieldInfo("When it was paid, failed or expired.")] = None
    refund: Annotated[
        TopupRefund | None, FieldInfo("Null without one; its `credits` may be a part of the payment's.")
    ] = None


def package_record(package: packages.CreditPackage, order: packages.CreditOrder) -> CreditPackage:
    """Return a package as `GET /credit-packages` shows it, with the price that its order comes to."""
    return record_of(CreditPackage, package, amount=order.amount, tax=order.tax)


def payment_record(papers: PaymentPapers) -> Topup:
    """Return a payment as the API shows it; a refund that failed is not shown."""
    payment, refund = papers.payment, papers.standing_refund
    is_open = payment.status is payments.PaymentStatus.PENDING and not payment.is_doubtful
    is_paid = payment.status in (payments.PaymentStatus.PAID, payments.PaymentStatus.REFUNDED)
    return record_of(
        Topup, payment, payment_url=payment.payment_url if is_open else None,
        paid_at=in_utc(payment.ended_at) if is_paid and payment.ended_at is not None else None,
        refund=None if refund is None else _refund_record(refund),
    )  # fmt: skip


def _refund_record(refund: Refund) -> TopupRefund:
    sent_at = refund.paid_back_at
    return record_of(TopupRefund, refund, at=None if sent_at is None else in_utc(sent_at))
