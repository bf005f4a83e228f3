"""Hosts as operators see and change them."""

from collections.abc import Sequence
from uuid import UUID

from attrs import frozen

from meetcore.domain.meetings.hosts import Host
from meetcore.domain.members.roles import OperatorAction, check_operator_allowed
from meetcore.ports.member_queries import SignedInOperator
from meetcore.usecases.administration import Administration


@frozen
class ConsoleHosts:
    """The use cases of hosts. Each raises `ActionNotAllowed` where the role does not allow it."""

    administration: Administration

    async def list_hosts(self, who: SignedInOperator) -> Sequence[Host]:
        """Every host, the smallest first."""
        check_operator_allowed(who.operator.role, OperatorAction.VIEW_HOSTS)
        return await self.administration.registry.list_hosts()

    async def enable(self, who: SignedInOperator, client_address: str | None, host_id: UUID) -> None:
        """Give a host meetings again; see `Administration.enable_host`."""
        check_operator_allowed(who.operator.role, OperatorAction.MANAGE_HOSTS)
        await self.administration.acting_as(who.origin(client_address)).enable_host(host_id)

    async def disable(self, who: SignedInOperator, client_address: str | None, host_id: UUID) -> None:
        """Give a host no new meetings; see `Administration.disable_host`."""
        check_operator_allowed(who.operator.role, OperatorAction.MANAGE_HOSTS)
        await self.administration.acting_as(who.origin(client_address)).disable_host(host_id)
