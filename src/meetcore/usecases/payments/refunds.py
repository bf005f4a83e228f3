"""Refunds and doubts of payments: what operators decide.

A refund of more than the limit of one operator goes through a proposal (`money.proposals`). Its credits leave
the account at once; `FollowPayments` then has the money sent back.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from attrs import frozen

from meetcore.domain.errors import Conflict
from meetcore.domain.members.audit import ActionOrigin
from meetcore.domain.members.roles import OperatorAction, check_operator_allowed
from meetcore.domain.members.views import SignedInOperator
from meetcore.domain.money.ledger import Funds, Posting, check_reason
from meetcore.domain.money.transfers import Transfer, TransferKind
from meetcore.domain.payments import payments, views
from meetcore.domain.payments.payments import Payment
from meetcore.domain.payments.refunds import Refund, doubt_of, refund_operation, refund_payment
from meetcore.ports.observability import count_credits
from meetcore.ports.payments import PaymentQueries
from meetcore.ports.runtime import WorkerNotifier
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.members.audit import record_action
from meetcore.usecases.money.credit_postings import Posted, PostingRequest, describing, post_within
from meetcore.usecases.payments.follow_payments import SettlePayment
from meetcore.usecases.runtime import Runtime


def can_be_refunded(payment: Payment) -> bool:
    """Return whether a payment's own money arrived, and none of it went back at the gateway or is disputed.

    The gateway would refuse the refund, and that asks for the money another way, once more; or a refund that
    was made there would pass for this one. Of a payment that was accepted with another amount or currency
    the refund would be of the amount that was asked for. After a dispute the gateway says which of these
    is so.
    """
    is_open = payment.is_doubtful or payment.next_look_at is not None
    is_disputed = is_open and payment.doubt is payments.Doubt.DISPUTED
    return not is_disputed and payment.doubt not in _OTHER_MONEY


_OTHER_MONEY: Final = frozenset(
    {payments.Doubt.REVERSED, payments.Doubt.WRONG_AMOUNT, payments.Doubt.WRONG_CURRENCY}
)


async def refund_within(
    tx: Transaction, runtime: Runtime, origin: ActionOrigin, now: datetime, payment_id: UUID, credits: int,
    reason: str, *, gateway: str | None = None,
) -> Posted:  # fmt: skip
    """Take unspent credits of a payment back, in a transaction of the caller's; see `refund_payment`.

    The money is due to be sent back from then on. Raises `NotFound` for a payment that is not there;
    `Conflict`, too, for one of another than the `gateway`, if given: nothing could send its money; and
    where it cannot be refunded from here.
    """
    payment, _ = await tx.payments.load_locked(payment_id)
    if gateway is not None and payment.gateway != gateway:
        raise Conflict(
            f"It was paid by {payment.gateway}, which is not the gateway that is set. Send the money back "
            "there, and take the credits by an adjustment.",
            payment.id,
        )
    if not can_be_refunded(payment):
        raise Conflict(
            "Money of it went back at the gateway, or is disputed, or another amount was paid. Send what is "
            "left back there, and take the credits by an adjustment.",
            payment.id,
        )
    earlier = await tx.payments.load_refund(payment_id)
    transfer_id = runtime.new_id(now)
    decided: list[tuple[Payment, Refund]] = []

    def decide(funds: Funds, _: Transfer | None) -> Posting:
        after, refund, posting = refund_payment(
            payment, funds, transfer_id, credits, reason, now, runtime.chain_key, earlier
        )
        decided.append((after, refund))
        return posting

    describe = describing(
        runtime, now, origin, "credits.refunded", payment.account_id, transfer_id, payment=str(payment.id),
        reason=reason,
    )  # fmt: skip
    request = PostingRequest(payment.account_id, refund_operation(payment.id), transfer_id, decide, describe)
    posted = await post_within(tx, runtime, request)
    after, refund = decided[-1]
    await tx.payments.add_refund(refund)
    await tx.payments.save(after)
    return posted


@frozen
class ConsolePayments:
    """The payments in the console: lists, one payment, and the doubts that operators settle."""

    store: Store
    queries: PaymentQueries
    settle: SettlePayment
    notifier: WorkerNotifier
    runtime: Runtime

    async def list_payments(
        self, who: SignedInOperator, limit: int, before: UUID | None, *, in_doubt: bool
    ) -> Sequence[views.PaymentLine]:
        """List payments of every account, the newest first; of those in doubt only where asked for."""
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_PAYMENTS)
        return await self.queries.list_all_payments(limit, before, in_doubt=in_doubt)

    async def find(self, who: SignedInOperator, payment_id: UUID) -> views.PaymentPage | None:
        """Return a payment with everything that its gateway said."""
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_PAYMENTS)
        return await self.queries.find_payment_page(payment_id)

    async def list_income(self, who: SignedInOperator) -> Sequence[views.MonthIncome]:
        """Sum the money of payments by month and currency."""
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_LIABILITY)
        return await self.queries.list_income()

    async def accept(self, who: SignedInOperator, client_address: str | None, payment_id: UUID) -> Payment:
        """Give the account the credits of a payment in doubt whose money has arrived; see `payments.accept`.

        One operator is enough: the gateway says that the money is there.
        """
        check_operator_allowed(who.operator.role, OperatorAction.APPROVE_CREDITS)
        now = self.runtime.now()
        async with self.store.begin() as tx:
            before, is_erased = await tx.payments.load_locked(payment_id)
            after = payments.accept(before, now, is_erased=is_erased)
            posted = await self.settle(tx, after, now)
            await tx.payments.save(after)
            await self._record(tx, who, client_address, now, "payment.accepted", before)
        if posted.is_new:
            count_credits(self.runtime.metrics, TransferKind.TOPUP, after.credits)
        self.notifier.notify()  # the gateway is asked at once
        return after

    async def dismiss(
        self, who: SignedInOperator, client_address: str | None, payment_id: UUID, reason: str
    ) -> Payment:
        """Close a doubt that was settled elsewhere, such as by a refund at the gateway.

        A refused or failed refund of a payment that was disputed is in doubt from then on.
        Raises what `payments.dismiss` does, and `InvalidReason`.
        """
        check_operator_allowed(who.operator.role, OperatorAction.APPROVE_CREDITS)
        check_reason(reason)
        now = self.runtime.now()
        async with self.store.begin() as tx:
            before, _ = await tx.payments.load_locked(payment_id)
            refund = await tx.payments.load_refund(payment_id)
            after = payments.dismiss(before, now, behind=doubt_of(refund))
            await tx.payments.save(after)
            await self._record(tx, who, client_address, now, "payment.dismissed", before, reason=reason)
            mailed = 0 if after.status is before.status else await self.settle.mails.ended(tx, after)
        if mailed:
            self.notifier.notify()
        return after

    async def _record(
        self, tx: Transaction, who: SignedInOperator, client_address: str | None, now: datetime, action: str,
        payment: Payment, **details: str,
    ) -> None:  # fmt: skip
        await record_action(
            tx, self.runtime, now, who.origin(client_address), action, payment.account_id, payment.id,
            doubt=payment.doubt, **details,
        )  # fmt: skip
