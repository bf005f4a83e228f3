"""Operators of the console: added and removed by other operators, and at the command line."""

from collections.abc import Sequence
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.members.audit import SERVICE, ActionOrigin
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.roles import OperatorAction, OperatorRole, check_operator_allowed
from meetcore.domain.requests.accounts import check_email
from meetcore.ports.member_queries import MemberQueries, SignedInOperator
from meetcore.ports.store import Store
from meetcore.usecases.audit import record_action
from meetcore.usecases.runtime import Runtime


@frozen
class Operators:
    """Changes of operators as `origin` asks for them: an operator of `role`, or the system without one."""

    store: Store
    queries: MemberQueries
    runtime: Runtime
    origin: ActionOrigin = SERVICE
    role: OperatorRole | None = None

    def acting_as(self, origin: ActionOrigin) -> "Operators":
        """Return the same use cases for a user of the system, who may do everything."""
        return evolve(self, origin=origin, role=None)

    def by(self, signed_in: SignedInOperator, client_address: str | None) -> "Operators":
        """Return the same use cases for an operator, who may do what the role says."""
        return evolve(self, origin=signed_in.origin(client_address), role=signed_in.operator.role)

    async def list_operators(self) -> Sequence[Operator]:
        """The operators, the oldest first.

        Raises:
            ActionNotAllowed: the operator's role may not see them.
        """
        self._check()
        return await self.queries.list_operators()

    async def add(self, email: str, role: OperatorRole) -> Operator:
        """Add an operator.

        Raises:
            ActionNotAllowed: the operator's role may not.
            InvalidEmail: it cannot be an address.
            Conflict: an operator has it already.
        """
        self._check()
        check_email(email)
        now = self.runtime.now()
        operator = Operator(self.runtime.new_id(now), email, role, now)
        async with self.store.begin() as tx:
            await tx.operators.add(operator)
            await record_action(
                tx,
                self.runtime,
                now,
                self.origin,
                "operator.added",
                None,
                operator.id,
                email=email,
                role=role,
            )
        return operator

    async def remove(self, operator_id: UUID) -> Operator:
        """Remove an operator; every session of theirs ends.

        Raises:
            ActionNotAllowed: the operator's role may not.
            NotFound: no such operator.
        """
        self._check()
        now = self.runtime.now()
        async with self.store.begin() as tx:
            operator = await tx.operators.remove(operator_id, now)
            if operator.removed_at == now:
                await record_action(
                    tx,
                    self.runtime,
                    now,
                    self.origin,
                    "operator.removed",
                    None,
                    operator_id,
                    email=operator.email,
                )
        return operator

    def _check(self) -> None:
        if self.role is not None:
            check_operator_allowed(self.role, OperatorAction.MANAGE_OPERATORS)
