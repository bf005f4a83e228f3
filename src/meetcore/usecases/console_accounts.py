"""Accounts as operators see and change them: each use case checks the operator's role first."""

import asyncio
from collections.abc import Sequence
from enum import Enum
from uuid import UUID

from attrs import frozen

from meetcore.domain.errors import NotFound
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.members.roles import OperatorAction, check_operator_allowed
from meetcore.domain.money.ledger import check_reason, check_reference
from meetcore.domain.money.proposals import ProposalKind
from meetcore.domain.requests.request_log import LoggedRequest
from meetcore.ports.console_queries import AccountPage
from meetcore.ports.member_queries import SignedInOperator
from meetcore.ports.queries import MeetingFilter, Queries
from meetcore.ports.registry import StoredAccount
from meetcore.usecases.account_search import read_search
from meetcore.usecases.administration import Administration
from meetcore.usecases.proposals import Proposals
from meetcore.usecases.runtime import Runtime

MAX_FOUND = 100
"""Accounts in a list."""
MAX_KEYS = 50
"""Keys of an account that are shown with it."""
LAST = 10
"""Entries, meetings and deliveries of an account that are shown with it."""


class Movement(Enum):
    """What became of credits that an operator asked to move."""

    POSTED = "posted"
    """They are in the ledger."""
    REPEATED = "repeated"
    """The same amount is in the ledger under that reference already: nothing was moved."""
    PROPOSED = "proposed"
    """So many credits need another operator."""


@frozen
class AccountDetails:
    """An account with what belongs to it, and its last meetings, the newest first."""

    page: AccountPage
    meetings: Sequence[Meeting]


@frozen
class ConsoleAccounts:
    """The use cases of accounts. Each raises `ActionNotAllowed` where the role does not allow it."""

    administration: Administration
    queries: Queries
    runtime: Runtime
    proposals: Proposals

    async def search(self, who: SignedInOperator, text: str) -> Sequence[StoredAccount]:
        """The accounts that `read_search` finds by a text; the newest ones for no text."""
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_ACCOUNTS)
        if not text.strip():
            return await self.administration.registry.list_accounts(None, MAX_FOUND)
        wanted = read_search(text, self.administration.key_prefix)
        return await self.queries.search_accounts(wanted, MAX_FOUND)

    async def find(self, who: SignedInOperator, account_id: UUID) -> AccountDetails:
        """One account.

        Raises:
            NotFound: no such account.
        """
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_ACCOUNTS)
        page, meetings = await asyncio.gather(
            self.queries.find_account_page(account_id, MAX_KEYS, LAST),
            self.queries.list_meetings(account_id, MeetingFilter(self.runtime.now()), LAST, None),
        )
        if page is None:
            raise NotFound("No account with this id.")
        return AccountDetails(page, meetings)

    async def find_request(self, who: SignedInOperator, request_id: UUID) -> LoggedRequest | None:
        """A request of any account, if it is kept."""
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_ACCOUNTS)
        return await self.queries.find_request_of_any(request_id)

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
    ) -> Movement:  # fmt: skip
        """Add credits, once for each reference; the reason stands in the audit log.

        Raises:
            InvalidReason, InvalidReference: see `ledger`.
            InvalidAmount, NotFound, Conflict: see `Administration.top_up`.
        """
        acting = self._acting(who, client_address, OperatorAction.MOVE_CREDITS)
        if self.proposals.needs_two(amount):
            moved = (ProposalKind.TOPUP, amount, reason, reference)
            await self.proposals.propose(who, client_address, account_id, *moved)
            return Movement.PROPOSED
        done = await acting.top_up(account_id, amount, check_reference(reference), check_reason(reason))
        return Movement.POSTED if done.is_new else Movement.REPEATED

    async def adjust(
        self, who: SignedInOperator, client_address: str | None, account_id: UUID, amount: int, reason: str,
        reference: str,
    ) -> Movement:  # fmt: skip
        """Correct the balance, once for each reference.

        Raises:
            InvalidReference: see `ledger.check_reference`.
            InvalidReason, InvalidAmount, InsufficientCredits, NotFound, Conflict:
                see `Administration.adjust`.
        """
        acting = self._acting(who, client_address, OperatorAction.MOVE_CREDITS)
        if self.proposals.needs_two(amount):
            moved = (ProposalKind.ADJUSTMENT, amount, reason, reference)
            await self.proposals.propose(who, client_address, account_id, *moved)
            return Movement.PROPOSED
        done = await acting.adjust(account_id, amount, reason, check_reference(reference))
        return Movement.POSTED if done.is_new else Movement.REPEATED

    def _acting(
        self, who: SignedInOperator, client_address: str | None, action: OperatorAction
    ) -> Administration:
        check_operator_allowed(who.operator.role, action)
        return self.administration.acting_as(who.origin(client_address))
