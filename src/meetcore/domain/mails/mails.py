"""One mail on its way to one recipient: its machine, and what an attempt to send it decides.

A mail that is sent or failed has no content any more: it can have held a one-time link. It is kept for
`MAILS_KEPT`, so that an operator can say what became of it.
"""

import re
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Final
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.machine import find_step
from meetcore.domain.mails.contents import MailContent, MailKind, expiry_of, kind_of
from meetcore.domain.notes.notes import Language
from meetcore.domain.requests.accounts import check_email
from meetcore.domain.webhooks.retry_schedule import RetrySchedule, next_attempt

MAIL_DELAYS_S: Final = (60, 5 * 60, 30 * 60, 2 * 3600, 6 * 3600)
"""Seconds between one attempt and the next: six attempts in some nine hours."""

MAILS_KEPT: Final = timedelta(days=30)
"""How long it is known what became of a mail."""

LIMIT_WINDOW: Final = timedelta(hours=1)
"""The time that `MailLimits` count over: the hour before a mail is added."""

EXPIRED: Final = "expired"
"""The error of a mail that was not sent while its link, or its news, was worth it."""


class MailStatus(StrEnum):
    """The state of a mail. SENT: the mail server has accepted it."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"


class MailEvent(Enum):
    """An event of a mail. RETRY is a failed attempt that is not the last."""

    SEND = "send"
    RETRY = "retry"
    FAIL = "fail"
    EXPIRE = "expire"


TRANSITIONS: Final = {
    (MailStatus.PENDING, MailEvent.SEND): MailStatus.SENT,
    (MailStatus.PENDING, MailEvent.RETRY): MailStatus.PENDING,
    (MailStatus.PENDING, MailEvent.FAIL): MailStatus.FAILED,
    (MailStatus.PENDING, MailEvent.EXPIRE): MailStatus.FAILED,
}
"""A missing key is illegal and changes nothing."""


@frozen
class MailLimits:
    """The mails of a kind in an hour to one recipient, and for one account; others are dropped.

    Each kind is counted apart, so that many of one keep none of another back, and links to sign in apart for
    each client that asks for them. Mails of the kinds `NEVER_DROPPED` are always added.
    """

    per_recipient: int = 10
    per_account: int = 100


NEVER_DROPPED: Final = frozenset({MailKind.PASSKEY_CHANGED})
"""Notices of security, which an attacker would have reason to keep back."""


@frozen
class Recipient:
    """The address of a recipient, and the language."""

    email: str = field(repr=False)
    language: Language = Language.INDONESIAN


@frozen
class Mail:
    """A mail; an operator's link has no `account_id`. `last_error` is the code of the last failed attempt.

    `counted_as` is the part of its kind that it counts for among the `MailLimits`.
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
    counted_as: str = ""

    @property
    def status(self) -> MailStatus:
        """Its state."""
        if self.sent_at is not None:
            return MailStatus.SENT
        return MailStatus.PENDING if self.failed_at is None else MailStatus.FAILED


def open_mail(
    *, id: UUID, account_id: UUID | None, recipient: Recipient, content: MailContent, created_at: datetime,
    counted_as: str = "",
) -> Mail:  # fmt: skip
    """Make a mail that is due at once; every attempt has the same `Message-ID`, made of `id`.

    Raises `InvalidEmail` where the recipient's address cannot be one.
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
        counted_as=counted_as,
    )


def record_sent(mail: Mail, now: datetime) -> Mail:
    """Record that the mail server has accepted it; one that is over is unchanged."""
    if find_step(TRANSITIONS, mail.status, MailEvent.SEND) is None:
        return mail
    return evolve(
        mail, attempts_made=mail.attempts_made + 1, sent_at=now, due_at=None, content=None, last_error=None
    )


def record_failure(
    mail: Mail, error: str, *, is_final: bool, schedule: RetrySchedule, jitter: float, now: datetime
) -> Mail:
    """Record an attempt that failed, for good where it `is_final`; a mail that is over is unchanged.

    `error` is a short code without addresses, `jitter` is drawn from [0, 1).
    """
    attempts_made = mail.attempts_made + 1
    due_at = None if is_final else next_attempt(schedule, attempts_made, now, jitter)
    event = MailEvent.FAIL if due_at is None else MailEvent.RETRY
    status = find_step(TRANSITIONS, mail.status, event)
    if status is None:
        return mail
    tried = evolve(mail, attempts_made=attempts_made, due_at=due_at, last_error=error)
    return tried if status is MailStatus.PENDING else evolve(tried, failed_at=now, content=None)


def expire(mail: Mail, now: datetime) -> Mail:
    """Give up a mail that is past `expiry_of` its content; any other is unchanged."""
    is_expired = mail.content is not None and now >= expiry_of(mail.content, mail.created_at)
    if not is_expired or find_step(TRANSITIONS, mail.status, MailEvent.EXPIRE) is None:
        return mail
    return evolve(mail, failed_at=now, due_at=None, content=None, last_error=EXPIRED)


_NAMED = re.compile(r'([^<>"]*)<([^<>]*)>')


@frozen
class Sender:
    """The address in `From`, and a name, which may be empty."""

    email: str
    name: str = ""

    @property
    def domain(self) -> str:
        """The domain of the address."""
        return self.email.rpartition("@")[2]


def parse_sender(text: str) -> Sender:
    """Read `mail@example.com` or `Meetcore <mail@example.com>`; raise `ValueError` for another form."""
    if not text.isprintable():
        raise ValueError("a sender has no control characters")
    named = _NAMED.fullmatch(text.strip())
    name, email = ("", text) if named is None else (named[1].strip(), named[2])
    if "" in check_email(email.strip()).partition("@")[0].split("."):
        raise ValueError("before the @ of a sender no dot is the first, the last, or beside another one")
    return Sender(email.strip(), name)
