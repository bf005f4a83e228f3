"""Accounts as operators see and change them: each use case checks the operator's role first."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from attrs import frozen

from meetcore.domain.errors import NotFound
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.members.members import Member
from meetcore.domain.members.roles import OperatorAction, check_operator_allowed
from meetcore.domain.money.ledger import Entry, check_reason, check_reference
from meetcore.domain.requests.accounts import MAX_EMAIL
from meetcore.domain.requests.keys import ApiKey
from meetcore.ports.member_queries import SignedInOperator
from meetcore.ports.queries import MeetingFilter, Queries, TransactionFilter
from meetcore.ports.registry import StoredAccount
from meetcore.usecases.administration import Administration
from meetcore.usecases.runtime import Runtime

MAX_FOUND = 100
"""Accounts in a list."""
LAST = 10
"""Entries and meetings of an account that are shown with it."""


@frozen
class AccountDetails:
    """An account with its members and keys, and its last entries and meetings, the newest first."""

    account: StoredAccount
    members: Sequence[Member]
    keys: Sequence[ApiKey]
    entries: Sequence[Entry]
    meetings: Sequence[Meeting]


@frozen
class ConsoleAccounts:
    """The use cases of accounts. Each raises `ActionNotAllowed` where the role does not allow it."""

    administration: Administration
    queries: Queries
    runtime: Runtime

    async def search(self, who: SignedInOperator, text: str) -> Sequence[StoredAccount]:
        """The account with this id or the ones with this e-mail address; the newest ones for no text."""
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_ACCOUNTS)
        registry = self.administration.registry
        try:
            return [await registry.find_account(parse_id(text, "account"))]
        except NotFound:  # an e-mail address, or an id of nothing
            pass
        if len(text) > MAX_EMAIL or not text.isprintable():
            return []
        return await registry.list_accounts(text or None, MAX_FOUND)

    async def find(self, who: SignedInOperator, account_id: UUID) -> AccountDetails:
        """One account.

        Raises:
            NotFound: no such account.
        """
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_ACCOUNTS)
        registry, queries = self.administration.registry, self.queries
        account = await registry.find_account(account_id)
        members, keys, entries, meetings = await asyncio.gather(
            queries.list_members(account_id),
            registry.list_keys(account_id),
            queries.list_transactions(account_id, TransactionFilter(), LAST, None),
            queries.list_meetings(account_id, MeetingFilter(self.runtime.now()), LAST, None),
        )
        return AccountDetails(account, members, keys, entries, meetings)

    async def suspend(self, who: SignedInOperator, client_address: str | None, account_id: UUID) -> None:
        """Refuse the account's keys; see `Administration.suspend_account`."""
        acting = self._acting(who, client_address, OperatorAction.SUSPEND_ACCOUNTS)
        await acting.suspend_account(account_id)

    async def resume(self, who: SignedInOperator, client_address: str | None, account_id: UUID) -> None:
        """Let the account's keys in again; see `Administration.resume_account`."""
        acting = self._acting(who, client_address, OperatorAction.SUSPEND_ACCOUNTS)
        await acting.resume_account(account_id)

    async def top_up(
        self, who: SignedInOperator, client_address: str | None, account_id: UUID, amount: int, reason: str,
        reference: str,
    ) -> None:  # fmt: skip
        """Add credits, once for each reference; the reason stands in the audit log.

        Raises:
            InvalidReason, InvalidReference: see `ledger`.
            InvalidAmount, NotFound, Conflict: see `Administration.top_up`.
        """
        acting = self._acting(who, client_address, OperatorAction.MOVE_CREDITS)
        await acting.top_up(account_id, amount, check_reference(reference), check_reason(reason))

    async def adjust(
        self, who: SignedInOperator, client_address: str | None, account_id: UUID, amount: int, reason: str,
        reference: str,
    ) -> None:  # fmt: skip
        """Correct the balance, once for each reference.

        Raises:
            InvalidReference: see `ledger.check_reference`.
            InvalidReason, InvalidAmount, InsufficientCredits, NotFound, Conflict:
                see `Administration.adjust`.
        """
        acting = self._acting(who, client_address, OperatorAction.MOVE_CREDITS)
        await acting.adjust(account_id, amount, reason, check_reference(reference))

    def _acting(
        self, who: SignedInOperator, client_address: str | None, action: OperatorAction
    ) -> Administration:
        check_operator_allowed(who.operator.role, action)
        return self.administration.acting_as(who.origin(client_address))
