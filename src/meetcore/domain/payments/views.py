"""What the store reads of payments."""

from collections.abc import Sequence
from datetime import date, datetime
from enum import StrEnum

from attrs import field, frozen

from meetcore.domain.payments.payments import Payment
from meetcore.domain.payments.receipts import Receipt
from meetcore.domain.payments.refunds import Refund


@frozen
class PaymentPapers:
    """A payment of an account, its receipt once it was paid, and its refund."""

    payment: Payment
    receipt: Receipt | None = None
    refund: Refund | None = None

    @property
    def standing_refund(self) -> Refund | None:
        """Its refund, unless that failed."""
        return None if self.refund is None or self.refund.failed_at is not None else self.refund

    @property
    def is_partly_refunded(self) -> bool:
        """Whether fewer credits than it was for were taken back."""
        refund = self.standing_refund
        return refund is not None and refund.credits < self.payment.credits


@frozen(kw_only=True)
class PaymentLine(PaymentPapers):
    """A payment in the operators' list, with the name of its account."""

    account_name: str


class MessageSource(StrEnum):
    """The occasion on which a gateway said something."""

    CHECKOUT = "checkout"
    NOTIFICATION = "notification"
    LOOK = "look"
    REFUND = "refund"


@frozen
class GatewayMessage:
    """What a gateway said of a payment."""

    at: datetime
    source: MessageSource
    body: str = field(repr=False)


@frozen(kw_only=True)
class PaymentPage(PaymentLine):
    """A payment as operators see it, its gateway's messages the latest first.

    `closed_by` is the operator who settled its latest doubt, `closing_reason` the reason that was given;
    `begun_by` the member who began the payment.
    """

    messages: Sequence[GatewayMessage]
    closed_by: str | None = None
    closing_reason: str | None = None
    begun_by: str | None = None


@frozen
class MonthIncome:
    """The money of payments in a month (WIB, its first day), in units of the currency.

    `received` includes the tax; `refunded` is by the month of the refund.
    """

    month: date
    currency: str
    received: int
    tax: int
    refunded: int
    payments: int
