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
from meetcore.domain.payments.refunds import Refund, RefundState, fail_refund, refuse_refund, return_reference
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
from meetcore.usecases.mails import CreditMails
from meetcore.usecases.money.credit_postings import Posted, post_within, top_up_request
from meetcore.usecases.runtime import Runtime, gather_all, ignore, repeated_when_lost

Report = Callable[[Payment, Exception | None], object]
"""For operators: a payment that is in doubt now, or one whose gateway did not do what it was asked."""

_UNPAID: Final = frozenset({PaymentStatus.FAILED, PaymentStatus.EXPIRED})
LEASE_S: Final = 30.0
"""How long a look may take: longer than the time limits of a gateway's calls."""


@frozen
class ReceiveNotification:
    """Makes the payment of a verified notification due, and keeps its body for operators.

    A dispute is put on the operators' list at once: what the gateway says of a refunded payment is not asked
    for, and no state depends on it. It moves no credits.
    """

    store: Store
    notifier: WorkerNotifier
    runtime: Runtime
    report: Report = ignore

    async def __call__(self, notification: Notification) -> bool:
        """Return whether the payment is known; a worker asks its gateway at once."""
        now = self.runtime.now()
        async with self.store.begin() as tx:
            id_ = notification.payment_id or await tx.payments.find_by_transaction(
                notification.transaction_id
            )
            if id_ is None:
                return False
            try:
                before, _ = await tx.payments.load_locked(id_)
            except NotFound:
                return False
            after = payments.disputed(before) if notification.is_dispute else before
            await tx.payments.add_message(id_, now, MessageSource.NOTIFICATION, notification.body)
            await tx.payments.save(evolve(after, next_look_at=now))
        self.notifier.notify()
        _report_doubt(self.report, before, after)
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
    report: Report = ignore
    at_once: int = 8

    async def __call__(self) -> bool:
        """Ask about one batch; return whether there may be more."""
        async with self.store.at_once() as tx:
            due = await tx.payments.claim_due(LEASE_S, self.at_once)
        await gather_all(self._look(payment) for payment in due)
        return len(due) == self.at_once

    async def _look(self, payment: Payment) -> None:
        try:
            if payment.status is PaymentStatus.REFUNDED:
                await self._pay_back(payment)
            else:
                await self._follow(payment, await self._find(payment))
        except (GatewayUnknown, GatewayRefused) as error:
            self.report(payment, error)
            await self._save(payment, _unanswered)

    async def _find(self, payment: Payment) -> GatewayRecord | None:
        if self._is_own(payment):
            return await self.gateway.find(payment)
        if payment.status is PaymentStatus.PENDING and payment.reference is not None:
            raise GatewayUnknown(f"it is to be paid at {payment.gateway}, and {self.gateway.name} is set")
        return None  # no page of it is open

    def _is_own(self, payment: Payment) -> bool:
        return payment.gateway == self.gateway.name

    async def _pay_back(self, payment: Payment) -> None:
        """Send the money of a refund back, once at the gateway however often it is asked, until it is final.

        One that the gateway refused is the operator's, who may have sent the money another way, and so is an
        unfinished one of a gateway that is not set any more.
        """
        async with self.store.begin() as tx:
            refund = await tx.payments.load_refund(payment.id)
        assert refund is not None  # written with the status
        if refund.refused_at is not None or not self._is_own(payment):
            is_over = refund.refused_at is not None or refund.paid_back_at is not None
            await self._save(payment, payments.looked if is_over else payments.of_another_gateway)
            return
        try:
            state = await self.gateway.refund(payment, refund)
        except GatewayRefused as error:
            self.report(payment, error)
            state = RefundState.REFUSED
        except GatewayUnknown as error:
            self.report(payment, error)
            await self._save(payment, payments.asked_again)
            return
        await self._end_refund(payment, state)

    @repeated_when_lost
    async def _end_refund(self, claimed: Payment, state: RefundState) -> None:
        """Write what became of a refund; the credits of one that failed are given back, once."""
        now, due = self.runtime.now(), 0
        async with self.store.begin() as tx:
            before, _ = await tx.payments.load_locked(claimed.id)
            refund = await tx.payments.load_refund(claimed.id)
            assert refund is not None  # written with the status
            after = payments.looked(before, now)
            match state:
                case RefundState.UNDER_WAY:
                    after = payments.asked_again(before, now)
                case RefundState.SENT if refund.paid_back_at is None:
                    due = await self._note_refund(tx, after, evolve(refund, paid_back_at=now), now)
                case RefundState.REFUSED if refund.paid_back_at is None:  # once sent, it means nothing
                    after, refund = refuse_refund(before, refund, now)
                    await tx.payments.save_refund(refund)
                case RefundState.FAILED if refund.failed_at is None:
                    after, refund = fail_refund(before, refund, now)
                    due = await self._give_back(tx, after, refund, now)
            await tx.payments.save(_kept_due(claimed, before, after, now))
        if due:
            self.notifier.notify()
        _report_doubt(self.report, before, after)

    async def _give_back(self, tx: Transaction, payment: Payment, refund: Refund, now: datetime) -> int:
        request = top_up_request(
            self.runtime, SERVICE, now, payment.account_id, refund.credits, return_reference(payment.id), None
        )
        posted = await post_within(tx, self.runtime, request)
        return posted.due + await self._note_refund(tx, payment, refund, now)

    async def _note_refund(self, tx: Transaction, payment: Payment, refund: Refund, now: datetime) -> int:
        await tx.payments.save_refund(refund)
        outcome = "could not be sent back" if refund.failed_at else "sent back"
        body = f"{refund.amount} {payment.currency} {outcome}"
        await tx.payments.add_message(payment.id, now, MessageSource.REFUND, body)
        return await self.settle.mails.refunded(tx, payment, refund)

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
        _report_doubt(self.report, before, after)

    def _report_posted(self, payment: Payment, posted: Posted) -> None:
        if posted.is_new:
            count_credits(self.runtime.metrics, TransferKind.TOPUP, payment.credits)
        if posted.due:
            self.notifier.notify()

    async def _save(self, claimed: Payment, decide: Callable[[Payment, datetime], Payment]) -> None:
        now = self.runtime.now()
        async with self.store.begin() as tx:
            before, _ = await tx.payments.load_locked(claimed.id)
            after = decide(before, now)
            await tx.payments.save(_kept_due(claimed, before, after, now))
        _report_doubt(self.report, before, after)


def _report_doubt(report: Report, before: Payment, after: Payment) -> None:
    if after.is_doubtful and not (before.is_doubtful and before.doubt is after.doubt):
        report(after, None)


def _unanswered(payment: Payment, now: datetime) -> Payment:
    """Have the gateway asked again; what had ended is due by a notification, or by a refund."""
    is_pending = payment.status is PaymentStatus.PENDING
    return (payments.looked if is_pending else payments.asked_again)(payment, now)


def _kept_due(claimed: Payment, before: Payment, after: Payment, now: datetime) -> Payment:
    """Keep a payment due that a notification made due while the gateway was asked."""
    is_new_hint = before.next_look_at is not None and before.next_look_at != claimed.next_look_at
    return evolve(after, next_look_at=min(before.next_look_at or now, now)) if is_new_hint else after
