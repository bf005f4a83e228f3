"""Mails about credits, by default to owners and finance: payments, and credits that run low."""

from attrs import frozen

from meetcore.domain.mails.contents import (
    LowCredits,
    MailContent,
    PaymentEnded,
    PaymentReceived,
    PaymentRefunded,
)
from meetcore.domain.mails.topics import MailTopic
from meetcore.domain.money.ledger import CreditsFellLow
from meetcore.domain.payments.payments import Payment, PaymentStatus
from meetcore.domain.payments.receipts import Receipt
from meetcore.domain.payments.refunds import Refund
from meetcore.ports.store import Transaction
from meetcore.usecases.mails import MailQueue
from meetcore.usecases.payments.start_payment import CREDITS_PAGE


@frozen
class CreditMails:
    """Queues mails in the transaction of the change that each is about, after its other writes.

    Each method returns how many mails were queued: the caller notifies the workers once it has committed.
    """

    mails: MailQueue

    async def received(self, tx: Transaction, payment: Payment, receipt: Receipt) -> int:
        """Queue the mails about a payment that has become paid."""
        content = PaymentReceived(
            receipt.text, payment.credits, payment.amount, payment.currency, self._page(payment)
        )
        return await self._add(tx, payment, content)

    async def ended(self, tx: Transaction, payment: Payment) -> int:
        """Queue the mails about a payment that failed or expired; none where its page was never shown."""
        if payment.payment_url is None:
            return 0
        is_expired = payment.status is PaymentStatus.EXPIRED
        content = PaymentEnded(
            payment.credits, payment.amount, payment.currency, is_expired, self._page(payment)
        )
        return await self._add(tx, payment, content)

    async def refunded(self, tx: Transaction, payment: Payment, refund: Refund) -> int:
        """Queue the mails about a refund whose money was sent, or could not be."""
        content = PaymentRefunded(
            refund.credits, refund.amount, payment.currency, refund.failed_at is not None, self._page(payment)
        )
        return await self._add(tx, payment, content)

    async def low(self, tx: Transaction, low: CreditsFellLow) -> int:
        """Queue the mails about an account whose credits fell below its threshold."""
        content = LowCredits(low.available, low.threshold, self.mails.base_url + CREDITS_PAGE)
        recipients = await tx.mails.find_recipients(low.account_id, MailTopic.CREDITS)
        return await self.mails.add(tx, recipients, content, low.account_id)

    def _page(self, payment: Payment) -> str:
        return f"{self.mails.base_url}{CREDITS_PAGE}/{payment.id}"

    async def _add(self, tx: Transaction, payment: Payment, content: MailContent) -> int:
        if not self.mails.is_on:
            return 0
        recipients = await tx.mails.find_recipients(payment.account_id, MailTopic.PAYMENTS)
        return await self.mails.add(tx, recipients, content, payment.account_id)
