"""Settings of an account as its members see and change them, and its audit log."""

from collections.abc import Sequence
from uuid import UUID

from attrs import frozen

from meetcore.domain.members.audit import AuditEntry
from meetcore.domain.members.roles import Action, check_allowed
from meetcore.ports.member_queries import SignedIn
from meetcore.ports.queries import Queries
from meetcore.ports.registry import StoredAccount
from meetcore.usecases.administration import Administration


@frozen
class AccountSettings:
    """The use cases of the settings. Each raises `ActionNotAllowed` where the role does not allow it."""

    administration: Administration
    queries: Queries

    async def find(self, who: SignedIn) -> StoredAccount:
        """The account."""
        check_allowed(who.role, Action.VIEW_SETTINGS)
        return await self.administration.registry.find_account(who.account.id)

    async def set_low_threshold(self, who: SignedIn, client_address: str | None, credits: int) -> None:
        """Change the balance, in credits, below which `credit.low` is sent."""
        check_allowed(who.role, Action.MANAGE_SETTINGS)
        acting = self.administration.acting_as(who.origin(client_address))
        await acting.set_low_threshold(who.account.id, credits)

    async def set_statement_mails(self, who: SignedIn, client_address: str | None, *, is_on: bool) -> None:
        """Mail owners and finance when the statement of a month is there, or stop."""
        check_allowed(who.role, Action.MANAGE_SETTINGS)
        acting = self.administration.acting_as(who.origin(client_address))
        await acting.set_statement_mails(who.account.id, is_on=is_on)

    async def list_audit_entries(
        self, who: SignedIn, limit: int, before: UUID | None
    ) -> Sequence[AuditEntry]:
        """What was changed, the newest first; see `Queries.list_audit_entries`."""
        check_allowed(who.role, Action.VIEW_AUDIT)
        return await self.queries.list_audit_entries(who.account.id, limit, before)
