"""Payment gateways, on whose pages customers pay, and the store of payments.

A call of a gateway has three outcomes: done, refused (nothing exists or changed there), and unknown. Every
call ends within its time limit. No data of cards passes through this service.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.payments import views
from meetcore.domain.payments.payments import GatewayAnswer, Payment
from meetcore.domain.payments.receipts import Buyer, Receipt
from meetcore.domain.payments.refunds import Refund, RefundState


class GatewayRefused(Exception):
    """The gateway refused: nothing was made or changed. The text is for the log."""


class GatewayUnknown(Exception):
    """No answer: the gateway may or may not have done it. The text is for the log."""


class NotificationInvalid(Exception):
    """A notification is not signed with the shared secret, or not at about this time."""


class NotificationMalformed(Exception):
    """A notification is signed, but of no documented form."""


@frozen(kw_only=True)
class CheckoutOrder:
    """What is to be paid; `amount` in units of the currency (whole rupiah, else its minor unit, ISO 4217).

    `return_url` is where the customer comes back to, `language` `id` or `en`.
    """

    payment_id: UUID
    amount: int
    currency: str
    description: str
    customer_name: str = field(repr=False)
    customer_email: str = field(repr=False)
    expires_at: datetime
    return_url: str
    language: str


@frozen
class Checkout:
    """A page of the gateway on which a payment is paid, and the gateway's own id of it."""

    reference: str
    url: str = field(repr=False)


@frozen
class GatewayRecord:
    """What the gateway says of a payment, and the body that said so, for operators: without data of cards."""

    answer: GatewayAnswer
    body: str = field(default="", repr=False)


class PaymentGateway(Protocol):
    """Opens, finds and refunds payments. Every call raises `GatewayRefused` and `GatewayUnknown`."""

    @property
    def name(self) -> str:
        """The name of this gateway, which its payments keep."""

    async def open_checkout(self, order: CheckoutOrder) -> Checkout:
        """Make the page of a payment; repeated for the same payment, no second one that can be paid."""

    async def find(self, payment: Payment) -> GatewayRecord | None:
        """Ask for a payment by its reference, or its id without one; `None` where it is unknown."""

    async def refund(self, payment: Payment, refund: Refund) -> RefundState:
        """Send money back, and return how far that is. Repeated for the same payment, it sends nothing again:
        not when the first refund has failed, either.
        """


@frozen
class Notification:
    """A verified notification: the payment that it is about, and its body for operators.

    One about a dispute may name the gateway's `transaction_id` in place of the payment.
    """

    payment_id: UUID | None
    body: str = field(repr=False)
    transaction_id: str = ""
    is_dispute: bool = False


class NotificationParser(Protocol):
    """Verifies and reads the notifications of a gateway."""

    def __call__(self, body: bytes, headers: Mapping[str, str], now: datetime) -> Notification | None:
        """Return what a notification is about; `None` where it is about no payment of ours.

        Header names are compared without regard to case. Raises `NotificationInvalid` and
        `NotificationMalformed`.
        """


class PaymentRepository(Protocol):
    """Payments, written under their account's lock."""

    async def add(self, payment: Payment) -> None: ...
    async def count_pending(self, account_id: UUID) -> int:
        """Count the payments of an account that can still be paid."""

    async def load_locked(self, payment_id: UUID) -> tuple[Payment, bool]:
        """Take the lock of a payment's account; return the payment, and whether the account was erased.

        Raises `NotFound`.
        """

    async def find_by_transaction(self, transaction_id: str) -> UUID | None: ...
    async def save(self, payment: Payment) -> None: ...
    async def add_message(
        self, payment_id: UUID, at: datetime, source: views.MessageSource, body: str
    ) -> None:
        """Keep what the gateway said, for operators: the latest messages, each of bounded length."""

    async def claim_due(self, lease_s: float, limit: int) -> Sequence[Payment]:
        """Return payments that are due, the longest due first; they are due again after so many seconds."""

    async def add_refund(self, refund: Refund) -> None: ...
    async def load_refund(self, payment_id: UUID) -> Refund | None: ...
    async def save_refund(self, refund: Refund) -> None: ...
    async def add_receipt(self, receipt: Receipt) -> Receipt:
        """Write a receipt under the next number of its year, and return it; `number` is not looked at."""

    async def find_buyer(self, account_id: UUID) -> Buyer:
        """Return whom receipts are made out to: the billing details, else the account's name."""

    async def save_buyer(self, account_id: UUID, buyer: Buyer) -> None: ...


class PaymentQueries(Protocol):
    """Reads of payments, the newest first; those of operators are of every account."""

    async def find_payment(self, account_id: UUID, payment_id: UUID) -> views.PaymentPapers | None: ...
    async def list_payments(
        self, account_id: UUID, limit: int, before: UUID | None
    ) -> Sequence[views.PaymentPapers]:
        """List an account's payments with their refunds, without their receipts."""

    async def list_papers(
        self, account_id: UUID, begins_at: datetime, ends_at: datetime
    ) -> Sequence[views.PaymentPapers]:
        """List the account's payments that were paid, or whose refund was made or failed, in a time."""

    async def list_all_payments(
        self, limit: int, before: UUID | None, *, in_doubt: bool = False
    ) -> Sequence[views.PaymentLine]: ...
    async def find_payment_page(self, payment_id: UUID) -> views.PaymentPage | None: ...
    async def list_income(self) -> Sequence[views.MonthIncome]: ...
