"""The outbox of mails: added with the change that they are about, claimed under a lease, recorded.

The lease is a due time pushed into the future: a worker that dies leaves a mail that becomes due again.
Recording is fenced by the claim's token.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.mails.contents import MailKind
from meetcore.domain.mails.mails import Mail, MailLimits, Recipient
from meetcore.domain.members.roles import Role
from meetcore.domain.notes.notes import Language
from meetcore.ports.lease import Lease

__all__ = ["ClaimedMail", "MailQueries", "MailRepository", "MailSummary", "MailView"]


@frozen
class ClaimedMail:
    """A mail to send now, under a token; `had_expired_lease` where an earlier claim was never recorded."""

    mail: Mail
    token: UUID = field(repr=False)
    had_expired_lease: bool = False


@frozen
class MailView:
    """A claimed mail as it is now, locked; `now` is the store's time."""

    mail: Mail
    now: datetime


@frozen
class MailSummary:
    """A mail without its text, as its account reads it."""

    id: UUID
    recipient: str = field(repr=False)
    kind: MailKind
    language: Language
    created_at: datetime
    attempts_made: int = 0
    sent_at: datetime | None = None
    failed_at: datetime | None = None
    last_error: str | None = None


class MailQueries(Protocol):
    """Reads of the mails that are kept."""

    async def list_mails(self, account_id: UUID, limit: int, before: UUID | None) -> Sequence[MailSummary]:
        """The mails about an account, the newest first, as the lists of `Queries` give them."""
        ...


class MailRepository(Protocol):
    """Mails, on a transaction as `tx.mails`."""

    async def add(self, *mails: Mail, limits: MailLimits) -> int:
        """Write mails, due at once; those beyond the limits are dropped.

        The hour before is counted, over all transactions. Call it once in a transaction, with every mail: the
        locks that the counts need are taken in one order.

        Returns:
            How many were written.
        """

    async def find_recipients(
        self, account_id: UUID, roles: Sequence[Role] = (Role.OWNER, Role.DEVELOPER)
    ) -> Sequence[Recipient]:
        """Return an account's members of these roles, the oldest first; those of its webhooks by default."""

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[ClaimedMail]:
        """Take mails that are due, the longest due first; each is due again when the lease runs out."""

    async def load_claimed(self, claimed: ClaimedMail) -> MailView | None:
        """Read and lock a mail; None when its claim is not the bearer's any more."""

    async def save(self, mail: Mail) -> None:
        """Write what became of a mail that this transaction has loaded, and end its claim."""
