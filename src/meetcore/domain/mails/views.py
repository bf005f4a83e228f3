"""Views of mails that the store and a mail server handle."""

from datetime import datetime
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.mails import contents, mails
from meetcore.domain.notes.notes import Language


@frozen
class OutgoingMail:
    """A mail as it is sent. Each attempt at one mail has the same `id` and `created_at`.

    `text` and `html` have the same content; `language` is an ISO 639-1 code.
    """

    id: UUID
    recipient: str = field(repr=False)
    subject: str = field(repr=False)
    text: str = field(repr=False)
    html: str = field(repr=False)
    language: str
    created_at: datetime


@frozen
class MailText:
    """The text of a mail: a subject of one line, and the same content as plain text and as HTML."""

    subject: str = field(repr=False)
    text: str = field(repr=False)
    html: str = field(repr=False)


@frozen
class ClaimedMail:
    """A mail to send now. `had_expired_lease` where an earlier claim was never recorded."""

    mail: mails.Mail
    token: UUID = field(repr=False)
    had_expired_lease: bool = False


@frozen
class MailView:
    """A claimed mail, locked; `now` is the store's time."""

    mail: mails.Mail
    now: datetime


@frozen
class MailSummary:
    """A mail without its text, as its account reads it."""

    id: UUID
    recipient: str = field(repr=False)
    kind: contents.MailKind
    language: Language
    created_at: datetime
    attempts_made: int = 0
    sent_at: datetime | None = None
    failed_at: datetime | None = None
    last_error: str | None = None
