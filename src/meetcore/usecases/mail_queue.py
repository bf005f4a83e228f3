"""Putting mails into the outbox, in the transaction of the change that they are about.

Where the operator has named no mail server nothing is put there: a mail that nobody sends would only expire.
"""

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.mails.contents import EndpointDisabled, MailContent
from meetcore.domain.mails.mails import Mail, MailLimits, Recipient, open_mail
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.ports.store import Transaction
from meetcore.usecases.runtime import Runtime

WEBHOOKS_PAGE = "/dashboard/webhooks"


@frozen
class MailQueue:
    """Adds mails. A mail server is named where it `is_on`; `base_url` is where its links lead."""

    runtime: Runtime
    base_url: str
    is_on: bool = False
    limits: MailLimits = field(factory=MailLimits)

    async def add(
        self,
        tx: Transaction,
        recipients: Sequence[Recipient],
        content: MailContent,
        account_id: UUID | None = None,
    ) -> int:
        """Add one mail for each recipient. Notify the workers of webhooks once the transaction has ended.

        To be called once in a transaction, for the order of the locks.

        Args:
            tx: of the change.
            recipients: who gets it.
            content: what it is about.
            account_id: the account that it is about and counted for, if any.

        Returns:
            How many were added: none without a mail server, and none beyond the limits.

        Raises:
            InvalidEmail: an address cannot be one.
        """
        mails = self._opened(recipients, content, account_id) if self.is_on else []
        return await tx.mails.add(*mails, limits=self.limits) if mails else 0

    async def add_disabled(self, tx: Transaction, endpoints: Sequence[Endpoint]) -> int:
        """Mail the accounts of endpoints that failures have just disabled, once for all of an account's."""
        of_account = defaultdict(list)
        for endpoint in endpoints if self.is_on else ():
            of_account[endpoint.account_id].append(endpoint)
        mails: list[Mail] = []
        for account_id, disabled in of_account.items():
            recipients = await tx.mails.find_recipients(account_id)
            mails += self._opened(recipients, self._disabled(disabled), account_id)
        return await tx.mails.add(*mails, limits=self.limits) if mails else 0

    def _opened(
        self, recipients: Sequence[Recipient], content: MailContent, account_id: UUID | None
    ) -> list[Mail]:
        now = self.runtime.now()
        return [
            open_mail(
                id=self.runtime.new_id(now), account_id=account_id, recipient=one, content=content,
                created_at=now,
            )
            for one in recipients
        ]  # fmt: skip

    def _disabled(self, endpoints: Sequence[Endpoint]) -> EndpointDisabled:
        return EndpointDisabled(
            urls=tuple(endpoint.url.partition("?")[0] for endpoint in endpoints),
            failures=max(endpoint.consecutive_failures for endpoint in endpoints),
            disabled_at=self.runtime.now(),
            page_url=self.base_url + WEBHOOKS_PAGE,
        )
