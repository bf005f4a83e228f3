"""Sending mails that are due: claim under a lease, send without a transaction, record.

A worker that dies between claim and record leaves a mail that is due again when the lease runs out: it may
arrive twice, with one `Message-ID`, and never not at all.
"""

from collections.abc import Callable
from functools import partial

from attrs import field, frozen

from meetcore.domain.mails.mails import MAIL_DELAYS_S, Mail, expire, record_failure, record_sent
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.ports.lease import Lease
from meetcore.ports.mail_texts import MailTexts
from meetcore.ports.mailer import Mailer, MailRefused, MailUnavailable, OutgoingMail
from meetcore.ports.mails import ClaimedMail, MailView
from meetcore.ports.store import Store
from meetcore.usecases.concurrency import gather_all
from meetcore.usecases.repeat import repeated_when_lost
from meetcore.usecases.runtime import Runtime

FAULT = "fault"
"""The error of a mail that could not be written: a defect of ours, which the log has."""


def _ignore(_: object) -> None:
    return None


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
    on_failed: Callable[[Mail], object] = _ignore
    on_expired_lease: Callable[[ClaimedMail], object] = _ignore
    lease_s: float = 30.0
    in_flight: int = 8

    async def __call__(self) -> bool:
        """Send one batch; whether there may be more.

        Raises:
            StoreUnavailable: the database does not answer; what was not recorded is due after the lease.
            ExceptionGroup: faults in writing mails; each is recorded as a failed attempt.
        """
        lease = Lease(self.runtime.new_id(self.runtime.now()), self.lease_s)
        async with self.store.at_once() as tx:
            claimed = await tx.mails.claim_due(self.in_flight, lease)
        for one in claimed:
            if one.had_expired_lease:
                self.on_expired_lease(one)
        await gather_all(self._handle(one) for one in claimed)
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
        assert mail.content is not None  # what is due is not over
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
