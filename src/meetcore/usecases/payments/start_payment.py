"""Start a payment: `POST /credits/topups`, and "Buy credits" of the dashboard.

1. `claim`, one transaction: the idempotency key is bound to a pending payment.
2. The gateway makes the payment's page, with no transaction open; for one payment never a second one.
3. `hand_out`, one transaction: the page's address is stored, and the outcome under the key.

A process that dies in between leaves a payment whose page was not handed out. A repeated request takes the
same payment up again; without one, `FollowPayments` finds that nothing can be paid, and the payment fails.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final
from uuid import UUID

from attrs import frozen

from meetcore.domain.errors import DomainError, InvalidApiKey, NotFound, Unprocessable, UpstreamError
from meetcore.domain.payments import payments
from meetcore.domain.payments.packages import CreditOrder, PackageCatalogue
from meetcore.domain.payments.views import MessageSource, PaymentPapers
from meetcore.domain.records.payments import payment_record
from meetcore.domain.texts import count_of
from meetcore.ports.payments import Checkout, CheckoutOrder, GatewayRefused, GatewayUnknown, PaymentGateway
from meetcore.ports.queries import Caller
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.mails import CREDITS_PAGE
from meetcore.usecases.members.audit import record_by_hand
from meetcore.usecases.payments.follow_payments import Report
from meetcore.usecases.requests.idempotency import (
    IdempotentRequest,
    Outcome,
    bind_key,
    check_key,
    refusing,
    run_once,
    store_outcome,
    store_refusal,
)
from meetcore.usecases.runtime import Runtime, ignore

_NOT_SOLD: Final = "Credits are not sold here. Ask the operator of this service for a top-up."
_UNKNOWN: Final = {
    True: "The payment gateway did not answer. Nothing was paid; a retry with the same Idempotency-Key gets "
    "the link.",
    False: "The payment gateway did not answer. Nothing was paid. Try again.",
}


@frozen
class StartPayment:
    """Starts payments at the gateway that the settings name; without one, every request is refused."""

    store: Store
    gateway: PaymentGateway | None
    packages: PackageCatalogue
    runtime: Runtime
    base_url: str
    report: Report = ignore

    def order(self, package_id: str | None, credits: int | None, now: datetime) -> CreditOrder:
        """Price a package, or a number of credits.

        Raises:
            NotFound: the package is unknown, or sold no more.
            Unprocessable: so many credits are not sold.
        """
        if package_id is not None:
            return self.packages.order_package(package_id, now)
        return self.packages.order_credits(credits or 0)

    async def __call__(
        self, caller: Caller, order: Callable[[], CreditOrder], request: IdempotentRequest, now: datetime,
        language: str = "id",
    ) -> Outcome:  # fmt: skip
        """Start a payment, once for each key; the outcome holds the page on which it is paid.

        `order` prices it, and is called for a new payment only: a repeated request gets the first one, though
        the package is sold no more.

        A refusal of the order is the outcome, too, and so is that of a service without a gateway.

        Raises:
            Unprocessable: too many payments of the account are pending.
            UpstreamError: the gateway refused or did not answer.
            InvalidApiKey: the account was erased meanwhile.
        """
        if self.gateway is None:
            return await run_once(self.store, caller.account.id, request, refusing(Unprocessable(_NOT_SOLD)))
        async with self.store.begin() as tx:
            step = await self._claim(tx, caller, order, request, now)
        if isinstance(step, DomainError):
            raise step
        if isinstance(step, Outcome):
            return step
        if step.payment_url is not None:
            return await self._hand_out(caller, step.id, None, request, now)
        try:
            page = await self.gateway.open_checkout(self._checkout(caller, step, language))
        except GatewayRefused as error:
            self.report(step, error)
            await self._give_up(caller.account.id, step.id, request, now)
            raise UpstreamError(
                "The payment gateway refused the payment. Nothing was paid; try again."
            ) from error
        except GatewayUnknown as error:
            self.report(step, error)
            raise UpstreamError(_UNKNOWN[request.key is not None]) from error
        return await self._hand_out(caller, step.id, page, request, now)

    async def _claim(
        self, tx: Transaction, caller: Caller, order: Callable[[], CreditOrder], request: IdempotentRequest,
        now: datetime,
    ) -> Outcome | DomainError | payments.Payment:  # fmt: skip
        """Bind the key to a pending payment: a new one, or the one that an earlier request began.

        Returns a refusal that is temporary, to be raised after the commit.
        """
        account_id, earlier = caller.account.id, None
        if request.key is None:
            await tx.lock_account(account_id)
        else:
            lookup = check_key(await tx.idempotency.load_locked(account_id, request.key), request)
            if lookup.replay is not None:
                return lookup.replay
            earlier = await _find_pending(tx, lookup.subject_id)
        assert self.gateway is not None
        if earlier is not None and self.gateway.name != earlier.gateway and earlier.payment_url is None:
            # Its gateway was replaced: a page opened at this one would never be asked about.
            await tx.payments.save(payments.failed(earlier, now))
        elif earlier is not None:
            return earlier
        try:
            bought = order()
            await _check_pending(tx, account_id)
        except DomainError as refusal:
            return await store_refusal(tx, account_id, request, refusal)
        payment = self._new(caller, bought, now)
        await tx.payments.add(payment)
        await bind_key(tx, account_id, request, payment.id)
        await record_by_hand(
            tx, self.runtime, now, caller, "payment.started", payment.id, credits=payment.credits,
            amount=payment.amount, currency=payment.currency,
        )  # fmt: skip
        return payment

    def _new(self, caller: Caller, bought: CreditOrder, now: datetime) -> payments.Payment:
        assert self.gateway is not None
        return payments.Payment(
            id=self.runtime.new_id(now), account_id=caller.account.id, gateway=self.gateway.name,
            credits=bought.credits, price=bought.price, tax=bought.tax, currency=bought.currency,
            created_at=now, expires_at=now + payments.PAYABLE_FOR, package_id=bought.package_id,
            api_key_id=caller.key.id if caller.origin is None else None,
            next_look_at=now + payments.FIRST_LOOK,
        )  # fmt: skip

    def _checkout(self, caller: Caller, payment: payments.Payment, language: str) -> CheckoutOrder:
        return CheckoutOrder(
            payment_id=payment.id, amount=payment.amount, currency=payment.currency,
            description=count_of(payment.credits, "credit"), customer_name=caller.account.full_name,
            customer_email=caller.account.email, expires_at=payment.expires_at,
            return_url=f"{self.base_url}{CREDITS_PAGE}/{payment.id}?returned=1", language=language,
        )  # fmt: skip

    async def _hand_out(
        self,
        caller: Caller,
        payment_id: UUID,
        page: Checkout | None,
        request: IdempotentRequest,
        now: datetime,
    ) -> Outcome:
        """Store a new page, and the outcome; of a payment that ended meanwhile no page is handed out."""
        async with self.store.begin() as tx:
            payment, is_erased = await tx.payments.load_locked(payment_id)
            if is_erased:
                raise InvalidApiKey("The account of this API key was erased.")
            if payment.status is not payments.PaymentStatus.PENDING:
                raise UpstreamError("The payment gateway took too long. Nothing was paid; try again.")
            if page is not None and payment.payment_url is None:
                payment = payments.opened(payment, page.reference, page.url, now)
                await tx.payments.save(payment)
                await tx.payments.add_message(payment.id, now, MessageSource.CHECKOUT, f"{payment.reference}")
            outcome = Outcome(payment_record(PaymentPapers(payment)))
            return await store_outcome(tx, caller.account.id, request, outcome, payment.id)

    async def _give_up(
        self, account_id: UUID, payment_id: UUID, request: IdempotentRequest, now: datetime
    ) -> None:
        """Let a refused payment fail; the key starts another one."""
        async with self.store.begin() as tx:
            payment, _ = await tx.payments.load_locked(payment_id)
            if payment.status is payments.PaymentStatus.PENDING and payment.payment_url is None:
                await tx.payments.save(payments.failed(payment, now))
                await bind_key(tx, account_id, request)


async def _check_pending(tx: Transaction, account_id: UUID) -> None:
    if await tx.payments.count_pending(account_id) >= payments.MAX_PENDING:
        raise payments.TooManyPending(
            f"{payments.MAX_PENDING} payments wait to be paid. Pay one of them, or let one expire; "
            "GET /credits/topups lists them."
        )


async def _find_pending(tx: Transaction, payment_id: UUID | None) -> payments.Payment | None:
    if payment_id is None:
        return None
    try:
        payment, _ = await tx.payments.load_locked(payment_id)
    except NotFound:
        return None
    return payment if payment.status is payments.PaymentStatus.PENDING else None
