"""An operator looks at a customer's dashboard: as a viewer, for half an hour, in the customer's audit log."""

from uuid import UUID

from attrs import frozen

from meetcore.domain.members.roles import OperatorAction, Role, check_operator_allowed
from meetcore.domain.members.sessions import VIEW_LIMIT
from meetcore.ports.member_queries import SignedInOperator
from meetcore.ports.store import Store
from meetcore.usecases.audit import record_action
from meetcore.usecases.redeem_sign_in_link import Browser, NewSession, start_session
from meetcore.usecases.runtime import Runtime


@frozen
class Impersonate:
    """Begins views of accounts."""

    store: Store
    runtime: Runtime

    async def begin(self, who: SignedInOperator, account_id: UUID, browser: Browser) -> NewSession:
        """Begin a session in which an operator sees an account and changes nothing of it.

        Raises:
            ActionNotAllowed: the role may not.
            NotFound: no such account.
        """
        check_operator_allowed(who.operator.role, OperatorAction.IMPERSONATE)
        now = self.runtime.now()
        origin = who.origin(browser.client_address, is_impersonated=True)
        async with self.store.begin() as tx:
            await tx.registry.load_account(account_id)
            begun = await start_session(
                tx, self.runtime, now, account_id, None, browser, Role.VIEWER,
                impersonated_by=who.operator.id,
            )  # fmt: skip
            await record_action(
                tx, self.runtime, now, origin, "account.viewed", account_id, account_id,
                minutes=int(VIEW_LIMIT.total_seconds()) // 60,
            )  # fmt: skip
        return begun
