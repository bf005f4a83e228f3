"""Mails: their outbox in the store, their texts, and the mail server.

A mail is added in the transaction of its cause, claimed under a lease, and recorded by the claim's token.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from meetcore.domain.mails.contents import MailContent
from meetcore.domain.mails.mails import Mail, MailLimits, Recipient
from meetcore.domain.mails.topics import MailTopic
from meetcore.domain.mails.views import ClaimedMail, MailSummary, MailText, MailView, OutgoingMail
from meetcore.domain.notes.notes import Language
from meetcore.domain.requests.views import StoredAccount
from meetcore.ports.runtime import Lease


class MailUnavailable(Exception):
    """The mail was not taken now, or the outcome is unknown: a code such as "timeout", without its text."""


class MailRefused(Exception):
    """The mail server will never take this mail. The message is as of `MailUnavailable`."""


class Mailer(Protocol):
    """Hands mails to a mail server."""

    async def send(self, mail: OutgoingMail) -> None:
        """Send one mail, within ten seconds in all.

        Raises:
            MailUnavailable: no acceptance; the server may have the mail nevertheless.
            MailRefused: refused for good, as is CR or LF in subject or address.
        """


class MailTexts(Protocol):
    """Writes the texts of mails."""

    def write(self, content: MailContent, language: Language) -> MailText:
        """Write a mail. Names and URLs from others are escaped in HTML and break no line of the subject."""


class MailQueries(Protocol):
    """Reads of mails."""

    async def list_mails(self, account_id: UUID, limit: int, before: UUID | None) -> Sequence[MailSummary]:
        """List the mails about an account, the newest first."""

    async def find_settings(
        self, account_id: UUID, user_id: UUID | None
    ) -> tuple[StoredAccount, Mapping[MailTopic, bool]]:
        """Return an account, and the topics of mails that a member has chosen, or chosen not to get."""


class MailRepository(Protocol):
    """The outbox of mails."""

    async def add(self, *mails: Mail, limits: MailLimits) -> int:
        """Write mails that are due at once, drop those beyond the limits, and return how many were written.

        The limits count the hour before, over all transactions. Call it once in a transaction, with every
        mail, so that the locks of the counts are taken in one order.
        """

    async def find_recipients(
        self, account_id: UUID, topic: MailTopic | None = MailTopic.WEBHOOKS
    ) -> Sequence[Recipient]:
        """Return an account's members who get mails of a topic, `None`: its owners; the oldest first."""

    async def account_name(self, account_id: UUID) -> str:
        """Return the name of the account that a mail is about, without a lock: a member may have several."""

    async def save_topics(
        self, account_id: UUID, user_id: UUID, topics: Mapping[MailTopic, bool]
    ) -> None: ...
    async def claim_due(self, limit: int, lease: Lease) -> Sequence[ClaimedMail]: ...
    async def load_claimed(self, claimed: ClaimedMail) -> MailView | None:
        """Read and lock a mail; `None` when the claim is lost."""

    async def save(self, mail: Mail) -> None:
        """Write the result of an attempt on a loaded mail, and end its claim."""
