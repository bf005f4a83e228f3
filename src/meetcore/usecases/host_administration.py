"""Changes of hosts, each with its audit entry in the same transaction."""

from datetime import datetime
from uuid import UUID

from attrs import frozen

from meetcore.domain.meetings.hosts import Host
from meetcore.domain.members.audit import ActionOrigin, Detail
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.audit import record_action
from meetcore.usecases.runtime import Runtime


@frozen
class HostAdministration:
    """Changes as `origin` asks for them."""

    store: Store
    runtime: Runtime
    origin: ActionOrigin

    async def add(self, provider_user_id: str, capacity: int, max_concurrent: int = 1) -> Host:
        """Add a licensed host.

        Raises:
            Conflict: the provider's user is a host already.
        """
        now = self.runtime.now()
        host = Host(self.runtime.new_id(now), provider_user_id, capacity, max_concurrent)
        async with self.store.begin() as tx:
            await tx.registry.add_host(host, now)
            await self._record(tx, now, "host.added", host.id, provider_user_id=provider_user_id)
        return host

    async def disable(self, host_id: UUID) -> Host:
        """Give a host no new meetings; those it has stay.

        Raises:
            NotFound: no such host.
        """
        now = self.runtime.now()
        async with self.store.begin() as tx:
            before = await tx.registry.load_host(host_id)
            host = await tx.registry.disable_host(host_id)
            if host != before:
                await self._record(tx, now, "host.disabled", host_id, provider_user_id=host.provider_user_id)
        return host

    async def enable(self, host_id: UUID) -> Host:
        """Give a host meetings again.

        Raises:
            NotFound: no such host.
        """
        now = self.runtime.now()
        async with self.store.begin() as tx:
            before = await tx.registry.load_host(host_id)
            host = await tx.registry.enable_host(host_id)
            if host != before:
                await self._record(tx, now, "host.enabled", host_id, provider_user_id=host.provider_user_id)
        return host

    async def _record(
        self, tx: Transaction, now: datetime, action: str, host_id: UUID, **details: Detail
    ) -> None:
        await record_action(tx, self.runtime, now, self.origin, action, None, host_id, **details)
