"""One mail on its way to one recipient: its machine, and what an attempt to send it decides.

::

    PENDING --SEND---> SENT
    PENDING --RETRY--> PENDING
    PENDING --FAIL---> FAILED
    PENDING --EXPIRE-> FAILED

A mail that is sent or failed has no content any more: it can have held a one-time link. It is kept for
`MAILS_KEPT`, so that an operator can say what became of it.

Owns the states, the schedule and the limits. Does not render, send, claim or store mails.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.mails.contents import MailContent, MailKind, expiry_of, kind_of
from meetcore.domain.notes.notes import Language
from meetcore.domain.requests.accounts import check_email
from meetcore.domain.webhooks.retry_schedule import RetrySchedule, next_attempt

__all__ = [
    "EXPIRED",
    "LIMIT_WINDOW",
    "MAILS_KEPT",
    "MAIL_DELAYS_S",
    "TRANSITIONS",
    "Mail",
    "MailEvent",
    "MailLimits",
    "MailStatus",
    "Recipient",
    "expire",
    "open_mail",
    "record_failure",
    "record_sent",
]

MAIL_DELAYS_S: Final = (60, 5 * 60, 30 * 60, 2 * 3600, 6 * 3600)
"""Seconds between one attempt and the next: six attempts in some nine hours."""

MAILS_KEPT: Final = timedelta(days=30)
"""How long it is known what became of a mail."""

LIMIT_WINDOW: Final = timedelta(hours=1)
"""The time that `MailLimits` count over: the hour before a mail is added."""

EXPIRED: Final = "expired"
"""The error of a mail that was not sent while its link, or its news, was worth it."""


class MailStatus(StrEnum):
    """Where a mail stands. SENT means that the mail server has it; what it does with it is not known."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"


class MailEvent(Enum):
    """What can happen to a mail. RETRY is a failed attempt that is not the last."""

    SEND = "send"
    RETRY = "retry"
    FAIL = "fail"
    EXPIRE = "expire"


TRANSITIONS: Mapping[tuple[MailStatus, MailEvent], MailStatus] = MappingProxyType(
    {
        (MailStatus.PENDING, MailEvent.SEND): MailStatus.SENT,
        (MailStatus.PENDING, MailEvent.RETRY): MailStatus.PENDING,
        (MailStatus.PENDING, MailEvent.FAIL): MailStatus.FAILED,
        (MailStatus.PENDING, MailEvent.EXPIRE): MailStatus.FAILED,
    }
)
"""A missing key is illegal and changes nothing."""


@frozen
class MailLimits:
    """How many mails an hour are added to one recipient, and for one account; the others are dropped."""

    per_recipient: int = 10
    per_account: int = 100


@frozen
class Recipient:
    """Where mails go, and in which language."""

    email: str = field(repr=False)
    language: Language = Language.INDONESIAN


@frozen
class Mail:
    """A mail. `due_at` and `content` are set exactly while it is PENDING.

    `account_id` is None where it is about no account, as a link for an operator. `last_error` is the code of
    the last failed attempt.
    """

    id: UUID
    account_id: UUID | None
    recipient: str = field(repr=False)
    kind: MailKind
    language: Language
    content: MailContent | None = field(repr=False)
    created_at: datetime
    due_at: datetime | None
    attempts_made: int = 0
    sent_at: datetime | None = None
    failed_at: datetime | None = None
    last_error: str | None = None

    @property
    def status(self) -> MailStatus:
        """Where it stands."""
        if self.sent_at is not None:
            return MailStatus.SENT
        return MailStatus.PENDING if self.failed_at is None else MailStatus.FAILED


def open_mail(
    *, id: UUID, account_id: UUID | None, recipient: Recipient, content: MailContent, created_at: datetime
) -> Mail:
    """Make a mail that is due at once.

    Args:
        id: of the mail; its `Message-ID` is made of it, the same for every attempt.
        account_id: the account that it is about and counted for, if any.
        recipient: who gets it.
        content: what it is about.
        created_at: when it was decided.

    Raises:
        InvalidEmail: the recipient's address cannot be one.
    """
    return Mail(
        id=id,
        account_id=account_id,
        recipient=check_email(recipient.email),
        kind=kind_of(content),
        language=recipient.language,
        content=content,
        created_at=created_at,
        due_at=created_at,
    )


def record_sent(mail: Mail, now: datetime) -> Mail:
    """Take note that the mail server has it; one that is over stays as it is."""
    if (mail.status, MailEvent.SEND) not in TRANSITIONS:
        return mail
    return evolve(
        mail, attempts_made=mail.attempts_made + 1, sent_at=now, due_at=None, content=None, last_error=None
    )


def record_failure(
    mail: Mail, error: str, *, is_final: bool, schedule: RetrySchedule, jitter: float, now: datetime
) -> Mail:
    """Decide what follows from an attempt that failed; a mail that is over stays as it is.

    Args:
        mail: as it is stored now.
        error: a short code, without addresses.
        is_final: it is refused for ever.
        schedule: the delays between attempts.
        jitter: drawn from [0, 1).
        now: when the attempt ended.
    """
    attempts_made = mail.attempts_made + 1
    due_at = None if is_final else next_attempt(schedule, attempts_made, now, jitter)
    event = MailEvent.FAIL if due_at is None else MailEvent.RETRY
    status = TRANSITIONS.get((mail.status, event))
    if status is None:
        return mail
    tried = evolve(mail, attempts_made=attempts_made, due_at=due_at, last_error=error)
    return tried if status is MailStatus.PENDING else evolve(tried, failed_at=now, content=None)


def expire(mail: Mail, now: datetime) -> Mail:
    """Give up a mail that is past `expiry_of` its content; any other stays as it is."""
    is_expired = mail.content is not None and now >= expiry_of(mail.content, mail.created_at)
    if not is_expired or (mail.status, MailEvent.EXPIRE) not in TRANSITIONS:
        return mail
    return evolve(mail, failed_at=now, due_at=None, content=None, last_error=EXPIRED)
