"""The use cases that the console calls."""

from collections.abc import Sequence
from uuid import UUID

from attrs import frozen

from meetcore.domain.members.audit import AuditEntry
from meetcore.domain.members.roles import OperatorAction, check_operator_allowed
from meetcore.ports.member_queries import SignedInOperator
from meetcore.ports.queries import Queries
from meetcore.usecases.console_accounts import ConsoleAccounts
from meetcore.usecases.console_health import ConsoleHealth, ConsolePrices
from meetcore.usecases.console_hosts import ConsoleHosts
from meetcore.usecases.console_liability import ConsoleLiability
from meetcore.usecases.impersonate import Impersonate
from meetcore.usecases.make_portal_link import MakePortalLink
from meetcore.usecases.operator_tokens import OperatorTokens
from meetcore.usecases.passkeys import Passkeys
from meetcore.usecases.proposals import Proposals
from meetcore.usecases.redeem_sign_in_link import RedeemSignInLink
from meetcore.usecases.request_sign_in_link import RequestSignInLink
from meetcore.usecases.resolve_doubts import ResolveDoubts
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.sessions import Sessions
from meetcore.usecases.sign_in_with_identity import SignInWithIdentity
from meetcore.usecases.sign_in_with_passkey import SignInWithPasskey


@frozen
class ConsoleAudit:
    """The audit log of everything."""

    queries: Queries

    async def list_entries(
        self, who: SignedInOperator, limit: int, before: UUID | None
    ) -> Sequence[AuditEntry]:
        """What was changed by anybody, the newest first; see `Queries.list_audit_entries`.

        Raises:
            ActionNotAllowed: the role may not see it.
        """
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_AUDIT)
        return await self.queries.list_audit_entries(None, limit, before)


@frozen
class ConsoleUseCases:
    """What operators do and read, each by their role. `sends_mail` is whether sign-in links can be sent."""

    sessions: Sessions
    request_link: RequestSignInLink
    redeem_link: RedeemSignInLink
    passkeys: Passkeys
    passkey_sign_in: SignInWithPasskey
    identity_sign_in: SignInWithIdentity
    portal_links: MakePortalLink
    tokens: OperatorTokens
    accounts: ConsoleAccounts
    hosts: ConsoleHosts
    doubts: ResolveDoubts
    liability: ConsoleLiability
    health: ConsoleHealth
    prices: ConsolePrices
    impersonate: Impersonate
    proposals: Proposals
    audit: ConsoleAudit
    runtime: Runtime
    key_prefix: str
    sends_mail: bool = False
