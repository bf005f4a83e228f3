"""Mail owners and finance of accounts that asked for it when the statement of a month is there, once."""

from datetime import date
from typing import Final
from uuid import UUID

from attrs import frozen

from meetcore.domain.mails.contents import StatementReady
from meetcore.domain.members.roles import Role
from meetcore.domain.money.statements import last_closed, month_of
from meetcore.ports.queries import Queries
from meetcore.ports.store import Store
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.mail_queue import MailQueue
from meetcore.usecases.runtime import Runtime

LEDGER_PAGE: Final = "/dashboard/ledger"
AT_ONCE: Final = 100
"""Accounts that one round looks at; a second round does the others."""


@frozen
class MailStatements:
    """The use case; workers repeat it."""

    store: Store
    queries: Queries
    mails: MailQueue
    notifier: WorkerNotifier
    runtime: Runtime

    async def __call__(self) -> None:
        """Put the mails of the last closed month into the outbox, for accounts that have none of it yet."""
        month = last_closed(self.runtime.now())
        async with self.store.at_once() as tx:
            due = await tx.registry.find_statements_due(month.first_day, AT_ONCE)
        for account_id in due:
            first_at = await self.queries.find_first_entry_at(account_id)
            has_statement = first_at is not None and month_of(first_at) <= month
            if await self._mail(account_id, month.first_day, has_statement=has_statement):
                self.notifier.notify()

    async def _mail(self, account_id: UUID, month: date, *, has_statement: bool) -> int:
        async with self.store.begin() as tx:
            account = await tx.registry.load_account(account_id)
            if account.statements_mailed is None or account.statements_mailed >= month:
                return 0  # another worker was first, or nobody asks for it any more
            await tx.registry.set_statements_mailed(account_id, month)
            if not has_statement or account.suspended_at is not None:
                return 0
            recipients = await tx.mails.find_recipients(account_id, (Role.OWNER, Role.FINANCE))
            content = StatementReady(month, account.full_name, self.mails.base_url + LEDGER_PAGE)
            return await self.mails.add(tx, recipients, content, account_id)
