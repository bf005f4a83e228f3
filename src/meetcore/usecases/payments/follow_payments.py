"""Follow payments at their gateway: a notification makes a payment due, a worker asks the gateway.

The gateway's answer decides, whatever a notification says. Pending payments are asked about without any, less
and less often. A payment that becomes paid is posted, and has its receipt and its mail, in one transaction.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from attrs import evolve, frozen

from meetcore.domain.errors import NotFound
from meetcore.domain.members.audit import SERVICE
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.payments import payments
from meetcore.domain.payments.packages import Seller
from meetcore.domain.payments.payments import Payment, PaymentStatus
from meetcore.domain.payments.receipts import Receipt, receipt_year
from meetcore.domain.payments.views import MessageSource
from meetcore.ports.observability import count_credits
from meetcore.ports.payments import (
    GatewayRecord,
    GatewayRefused,
    GatewayUnknown,
    Notification,
    PaymentGateway,
)
from meetcore.ports.runtime import WorkerNotifier
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.money.credit_postings import Posted, post_within, top_up_request
from meetcore.usecases.payments.credit_mails import CreditMails
from meetcore.usecases.runtime import Runtime, gather_all, repeated_when_lost

_UNPAID: Final = frozenset({PaymentStatus.FAILED, PaymentStatus.EXPIRED})
LEASE_S: Final = 30.0
"""How long a look may take: longer than the time limits of a gateway's calls."""


@frozen
class PaymentReport:
    """For an operator: a payment that is in doubt now, or a look that failed."""

    payment: Payment
    error: Exception | None = None


def no_report(report: PaymentReport) -> None:
    """Report nothing."""


@frozen
class ReceiveNotification:
    """Makes the payment of a verified notification due, and keeps its body for operators."""

    store: Store
    notifier: WorkerNotifier
    runtime: Runtime

    async def __call__(self, notification: Notification) -> bool:
        """Return whether the payment is known; a worker asks its gateway at once."""
        now = self.runtime.now()
        async with self.store.begin() as tx:
            try:
                payment, _ = await tx.payments.load_locked(notification.payment_id)
            except NotFound:
                return False
            await tx.payments.add_message(payment.id, now, MessageSource.NOTIFICATION, notification.body)
            await tx.payments.save(evolve(payment, next_look_at=now))
        self.notifier.notify()
        return True


@frozen
class SettlePayment:
    """Writes what follows from a gateway's answer, in a transaction of the caller's."""

    runtime: Runtime
    seller: Seller
    mails: CreditMails

    async def __call__(self, tx: Transaction, payment: Payment, now: datetime) -> Posted:
        """Post the credits of a payment that has just become paid, write its receipt, and queue its mail."""
        request = top_up_request(
            self.runtime, SERVICE, now, payment.account_id, payment.credits,
            payments.topup_reference(payment.id), None,
        )  # fmt: skip
        posted = await post_within(tx, self.runtime, request)
        buyer = await tx.payments.find_buyer(payment.account_id)
        receipt = Receipt(
            payment_id=payment.id, account_id=payment.account_id, year=receipt_year(now), number=0,
            issued_at=now, seller=self.seller, buyer=buyer,
        )  # fmt: skip
        numbered = await tx.payments.add_receipt(receipt)
        mailed = await self.mails.received(tx, payment, numbered)
        return evolve(posted, due=posted.due + mailed)


@frozen
class FollowPayments:
    """Asks the gateway about the payments that are due, `at_once` at a time; sends refunds that are due."""

    store: Store
    gateway: PaymentGateway
    settle: SettlePayment
    notifier: WorkerNotifier
    runtime: Runtime
    report: Callable[[PaymentReport], None] = no_report
    at_once: int = 8

    async def __call__(self) -> bool:
        """Ask about one batch; return whether there may be more."""
        async with self.store.at_once() as tx:
            due = await tx.payments.claim_due(LEASE_S, self.at_once)
        await gather_all(self._look(payment) for payment in due)
        return len(due) == self.at_once

    async def _look(self, payment: Payment) -> None:
        try:
            self._require_own(payment)
            if payment.status is PaymentStatus.REFUNDED:
                await self._pay_back(payment)
            else:
                await self._follow(payment, await self.gateway.find(payment))
        except (GatewayUnknown, GatewayRefused) as error:
            self.report(PaymentReport(payment, error))
            await self._save(payment, payments.looked)

    def _require_own(self, payment: Payment) -> None:
        if payment.gateway != self.gateway.name:
            raise GatewayUnknown(f"it was paid by {payment.gateway}, and {self.gateway.name} is set")

    async def _pay_back(self, payment: Payment) -> None:
        """Send the money of a refund back, once at the gateway however often it is asked.

        One that the gateway refused is the operator's, who may have sent the money another way.
        """
        async with self.store.begin() as tx:
            refund = await tx.payments.load_refund(payment.id)
        assert refund is not None  # written with the status
        if payment.doubt is payments.Doubt.REFUND_REFUSED:
            await self._save(payment, payments.looked)
            return
        if refund.paid_back_at is None:
            try:
                await self.gateway.refund(payment, refund)
            except GatewayRefused as error:
                self.report(PaymentReport(payment, error))
                await self._save(payment, lambda one, _: payments.doubted_refund(one))
                return
            except GatewayUnknown as error:
                self.report(PaymentReport(payment, error))
                await self._save(payment, payments.asked_again)
                return
        async with self.store.begin() as tx:
            found, _ = await tx.payments.load_locked(payment.id)
            if await tx.payments.save_paid_back(payment.id, self.runtime.now()):
                body = f"{refund.amount} {payment.currency} sent back"
                await tx.payments.add_message(payment.id, self.runtime.now(), MessageSource.REFUND, body)
            await tx.payments.save(evolve(found, next_look_at=None))

    @repeated_when_lost
    async def _follow(self, claimed: Payment, record: GatewayRecord | None) -> None:
        """Write what the gateway says; `None` where it does not know the payment."""
        now = self.runtime.now()
        posted: Posted | None = None
        mailed = 0
        async with self.store.begin() as tx:
            before, is_erased = await tx.payments.load_locked(claimed.id)
            if record is None:
                after = payments.unknown(before, now)
            else:
                after = payments.follow(before, record.answer, now, is_erased=is_erased)
                await tx.payments.add_message(before.id, now, MessageSource.LOOK, record.body)
            if after.status is PaymentStatus.PAID and before.status is not PaymentStatus.PAID:
                posted = await self.settle(tx, after, now)
            if after.status in _UNPAID and before.status is PaymentStatus.PENDING:
                mailed = await self.settle.mails.ended(tx, after)
            await tx.payments.save(_kept_due(claimed, before, after, now))
        if posted is not None:
            self._report_posted(after, posted)
        if mailed:
            self.notifier.notify()
        if after.is_doubtful and not before.is_doubtful:
            self.report(PaymentReport(after))

    def _report_posted(self, payment: Payment, posted: Posted) -> None:
        if posted.is_new:
            count_credits(self.runtime.metrics, TransferKind.TOPUP, payment.credits)
        if posted.due:
            self.notifier.notify()

    async def _save(self, claimed: Payment, decide: Callable[[Payment, datetime], Payment]) -> None:
        now = self.runtime.now()
        async with self.store.begin() as tx:
            before, _ = await tx.payments.load_locked(claimed.id)
            await tx.payments.save(_kept_due(claimed, before, decide(before, now), now))


def _kept_due(claimed: Payment, before: Payment, after: Payment, now: datetime) -> Payment:
    """Keep a payment due that a notification made due while the gateway was asked."""
    is_new_hint = before.next_look_at is not None and before.next_look_at != claimed.next_look_at
    return evolve(after, next_look_at=min(before.next_look_at or now, now)) if is_new_hint else after
