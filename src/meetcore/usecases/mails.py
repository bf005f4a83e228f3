"""The outbox of mails: queued in the transaction of a change, sent by workers.

A mail is written in the transaction of the change that it is about; where no mail server is set, nothing is
written. A worker claims due mails under a lease, sends each without a transaction, and records the outcome.
After a crash between sending and recording a mail may arrive twice, with one `Message-ID`; none is lost.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.mails import contents
from meetcore.domain.mails.mails import (
    MAIL_DELAYS_S,
    Mail,
    MailLimits,
    Recipient,
    expire,
    open_mail,
    record_failure,
    record_sent,
)
from meetcore.domain.mails.topics import MailTopic
from meetcore.domain.mails.views import ClaimedMail, MailView, OutgoingMail
from meetcore.domain.money.ledger import CreditsFellLow
from meetcore.domain.payments.payments import Payment, PaymentStatus
from meetcore.domain.payments.receipts import Receipt
from meetcore.domain.payments.refunds import Refund
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.ports.mails import Mailer, MailRefused, MailTexts, MailUnavailable
from meetcore.ports.runtime import Lease
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.runtime import Runtime, carried_through, gather_all, ignore, repeated_when_lost

WEBHOOKS_PAGE = "/dashboard/webhooks"
CREDITS_PAGE = "/dashboard/credits"
"""The page on which people buy credits, and come back to from the gateway."""


@frozen
class MailQueue:
    """Adds mails. A mail server is named where it `is_on`; `base_url` is where its links lead."""

    runtime: Runtime
    base_url: str
    is_on: bool = False
    limits: MailLimits = field(factory=MailLimits)

    async def add(
        self, tx: Transaction, recipients: Sequence[Recipient], content: contents.MailContent,
        account_id: UUID | None = None, counted_as: str = "",
    ) -> int:  # fmt: skip
        """Add one mail for each recipient; return how many: none without a server or beyond the limits.

        To be called once in a transaction, for the order of the locks; notify the workers of webhooks once it
        has ended. `account_id` is the account that the mails are about and counted for, if any, `counted_as`
        the part of their kind that they count for. Raises `InvalidEmail`: an address cannot be one.
        """
        mails = self._opened(recipients, content, account_id, counted_as) if self.is_on else []
        return await tx.mails.add(*mails, limits=self.limits) if mails else 0

    async def add_disabled(self, tx: Transaction, endpoints: Sequence[Endpoint]) -> int:
        """Mail the accounts of endpoints that failures have just disabled, once for all of an account's."""
        of_account = defaultdict(list)
        for endpoint in endpoints if self.is_on else ():
            of_account[endpoint.account_id].append(endpoint)
        mails: list[Mail] = []
        for account_id, disabled in of_account.items():
            recipients = await tx.mails.find_recipients(account_id)
            content = self._disabled(disabled, await tx.mails.account_name(account_id))
            mails += self._opened(recipients, content, account_id, str(account_id))
        return await tx.mails.add(*mails, limits=self.limits) if mails else 0

    def _opened(
        self, recipients: Sequence[Recipient], content: contents.MailContent, account_id: UUID | None,
        counted_as: str = "",
    ) -> list[Mail]:  # fmt: skip
        now = self.runtime.now()
        return [
            open_mail(
                id=self.runtime.new_id(now), account_id=account_id, recipient=one, content=content,
                created_at=now, counted_as=counted_as,
            )
            for one in recipients
        ]  # fmt: skip

    def _disabled(self, endpoints: Sequence[Endpoint], account_name: str) -> contents.EndpointDisabled:
        return contents.EndpointDisabled(
            urls=tuple(endpoint.url.partition("?")[0] for endpoint in endpoints),
            failures=max(endpoint.consecutive_failures for endpoint in endpoints),
            disabled_at=self.runtime.now(),
            account_name=account_name,
            page_url=self.base_url + WEBHOOKS_PAGE,
        )


FAULT = "fault"
"""The error of a mail that could not be written: a defect of ours, which the log has."""

UNREADABLE = "unreadable"
"""The error of a mail whose content does not open: under a key that was removed, it may be given again."""


@frozen
class SendMails:
    """Sends due mails, `in_flight` at a time.

    `lease_s` must exceed the ten seconds that a mailer may take. `on_failed` is called with a mail as it is
    after an attempt that failed, or when it has expired, and `on_expired_lease` with one that is claimed
    because its lease expired.
    """

    store: Store
    mailer: Mailer
    texts: MailTexts
    runtime: Runtime
    schedule: RetrySchedule = field(factory=lambda: RetrySchedule(MAIL_DELAYS_S))
    on_failed: Callable[[Mail], object] = ignore
    on_expired_lease: Callable[[ClaimedMail], object] = ignore
    lease_s: float = 30.0
    in_flight: int = 8

    async def __call__(self) -> bool:
        """Send one batch; whether there may be more. Unrecorded mails are due again after the lease.

        A cancellation waits for the mails that are being sent: the server may have taken them.

        Raises `ExceptionGroup`: faults in writing mails; each is recorded as a failed attempt.
        """
        lease = Lease(self.runtime.new_id(self.runtime.now()), self.lease_s)
        async with self.store.at_once() as tx:
            claimed = await tx.mails.claim_due(self.in_flight, lease)
        for one in claimed:
            if one.had_expired_lease:
                self.on_expired_lease(one)
        await carried_through(gather_all(self._handle(one) for one in claimed))
        return len(claimed) == self.in_flight

    async def _handle(self, claimed: ClaimedMail) -> None:
        if expire(claimed.mail, self.runtime.now()) != claimed.mail:
            await self._record(claimed, lambda view: expire(view.mail, view.now))
            return
        try:
            await self.mailer.send(self._written(claimed.mail))
        except MailUnavailable as error:
            await self._record(claimed, partial(self._failed, str(error)))
        except MailRefused as error:
            await self._record(claimed, partial(self._failed, str(error), is_final=True))
        except Exception:
            await self._record(claimed, partial(self._failed, FAULT))
            raise
        else:
            await self._record(claimed, lambda view: record_sent(view.mail, view.now))

    def _written(self, mail: Mail) -> OutgoingMail:
        if mail.content is None:
            raise MailUnavailable(UNREADABLE)
        text = self.texts.write(mail.content, mail.language)
        return OutgoingMail(
            mail.id, mail.recipient, text.subject, text.text, text.html, mail.language.value, mail.created_at
        )

    def _failed(self, error: str, view: MailView, *, is_final: bool = False) -> Mail:
        return record_failure(
            view.mail, error, is_final=is_final, schedule=self.schedule, jitter=self.runtime.jitter(),
            now=view.now,
        )  # fmt: skip

    async def _record(self, claimed: ClaimedMail, decide: Callable[[MailView], Mail]) -> None:
        mail = await self._save(claimed, decide)
        if mail is not None and mail.last_error is not None:
            self.on_failed(mail)

    @repeated_when_lost
    async def _save(self, claimed: ClaimedMail, decide: Callable[[MailView], Mail]) -> Mail | None:
        async with self.store.begin() as tx:
            view = await tx.mails.load_claimed(claimed)
            if view is None:
                return None
            mail = decide(view)
            await tx.mails.save(mail)
        return mail


@frozen
class CreditMails:
    """Queues mails in the transaction of the change that each is about, after its other writes.

    Each method returns how many mails were queued: the caller notifies the workers once it has committed.
    """

    mails: MailQueue

    async def received(self, tx: Transaction, payment: Payment, receipt: Receipt) -> int:
        """Queue the mails about a payment that has become paid."""
        content = contents.PaymentReceived(
            receipt.text, payment.credits, payment.amount, payment.currency,
            await self._name(tx, payment.account_id), self._page(payment),
        )  # fmt: skip
        return await self._add(tx, payment, content)

    async def ended(self, tx: Transaction, payment: Payment) -> int:
        """Queue the mails about a payment that failed or expired; none where its page was never shown."""
        if payment.payment_url is None:
            return 0
        is_expired = payment.status is PaymentStatus.EXPIRED
        content = contents.PaymentEnded(
            payment.credits, payment.amount, payment.currency, is_expired,
            await self._name(tx, payment.account_id), self._page(payment),
        )  # fmt: skip
        return await self._add(tx, payment, content)

    async def refunded(self, tx: Transaction, payment: Payment, refund: Refund) -> int:
        """Queue the mails about a refund whose money was sent, or could not be."""
        content = contents.PaymentRefunded(
            refund.credits, refund.amount, payment.currency, refund.failed_at is not None,
            await self._name(tx, payment.account_id), self._page(payment),
        )  # fmt: skip
        return await self._add(tx, payment, content)

    async def low(self, tx: Transaction, low: CreditsFellLow) -> int:
        """Queue the mails about an account whose credits fell below its threshold."""
        name = await self._name(tx, low.account_id)
        content = contents.LowCredits(low.available, low.threshold, name, self.mails.base_url + CREDITS_PAGE)
        recipients = await tx.mails.find_recipients(low.account_id, MailTopic.CREDITS)
        return await self.mails.add(tx, recipients, content, low.account_id, str(low.account_id))

    async def _name(self, tx: Transaction, account_id: UUID) -> str:
        """Return the account's name: a member may belong to several."""
        return await tx.mails.account_name(account_id) if self.mails.is_on else ""

    def _page(self, payment: Payment) -> str:
        return f"{self.mails.base_url}{CREDITS_PAGE}/{payment.id}"

    async def _add(self, tx: Transaction, payment: Payment, content: contents.MailContent) -> int:
        if not self.mails.is_on:
            return 0
        account_id = payment.account_id
        recipients = await tx.mails.find_recipients(account_id, MailTopic.PAYMENTS)
        return await self.mails.add(tx, recipients, content, account_id, str(account_id))
