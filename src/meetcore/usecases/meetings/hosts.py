"""Hosts: added and disabled by operators, their keys replaced by workers.

The key shown for one meeting must not work for the next one on that host. A due key is claimed under a lease,
set at the provider without a transaction, and stored. A provider that does not answer may have set it or not:
the host is due again when the lease expires, and its key is not shown until then.
"""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.meetings.hosts import PASSWORD_RANDOM_BYTES, Host, generate_host_key
from meetcore.domain.meetings.views import DueHostKey
from meetcore.domain.members.audit import ActionOrigin, Detail
from meetcore.ports import video_provider
from meetcore.ports.runtime import Lease
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.members.audit import record_action
from meetcore.usecases.runtime import Runtime, gather_all


@frozen
class HostAdministration:
    """Changes as `origin` asks for them."""

    store: Store
    runtime: Runtime
    origin: ActionOrigin

    async def add(self, provider_user_id: str, capacity: int, max_concurrent: int = 1) -> Host:
        """Add a licensed host; raise `Conflict` where the provider's user is a host already."""
        now = self.runtime.now()
        host = Host(self.runtime.new_id(now), provider_user_id, capacity, max_concurrent)
        async with self.store.begin() as tx:
            await tx.registry.add_host(host, now)
            await self._record(tx, now, "host.added", host.id, provider_user_id=provider_user_id)
        return host

    async def disable(self, host_id: UUID) -> Host:
        """Give a host no new meetings; those it has stay."""
        return await self._switch(host_id, is_on=False)

    async def enable(self, host_id: UUID) -> Host:
        """Give a host meetings again."""
        return await self._switch(host_id, is_on=True)

    async def _switch(self, host_id: UUID, *, is_on: bool) -> Host:
        now = self.runtime.now()
        async with self.store.begin() as tx:
            before = await tx.registry.load_host(host_id)
            host = await tx.registry.set_host_active(host_id, is_active=is_on)
            if host != before:
                action = "host.enabled" if is_on else "host.disabled"
                await self._record(tx, now, action, host_id, provider_user_id=host.provider_user_id)
        return host

    async def _record(
        self, tx: Transaction, now: datetime, action: str, host_id: UUID, **details: Detail
    ) -> None:
        await record_action(tx, self.runtime, now, self.origin, action, None, host_id, **details)


REFUSED_FOR_S = 3600.0


@frozen
class ReplaceHostKeys:
    """Replaces the keys that are due, `at_once` at a time; `lease_s` exceeds the provider's time limit.

    `on_refusal` gets each host whose key the provider would not replace; it is tried again after an hour.
    """

    store: Store
    provider: video_provider.VideoProvider
    runtime: Runtime
    on_refusal: Callable[[DueHostKey, video_provider.ProviderRefused], None] = field(repr=False)
    lease_s: float = 20.0
    at_once: int = 8

    async def __call__(self, limit: int = 64) -> int:
        """Replace up to `limit` keys, as a sweep does; return how many are in place by it."""
        digits = self.provider.abilities.host_key_digits
        if digits is None:
            return 0
        replaced = 0
        for left in range(limit, 0, -self.at_once):
            wanted = min(self.at_once, left)
            with video_provider.under_lease(video_provider.lease_time(self.runtime.clock, self.lease_s)):
                async with self.store.begin() as tx:
                    claimed = await tx.host_keys.claim_due(
                        wanted, Lease(self.runtime.new_id(self.runtime.now()), self.lease_s)
                    )
                replaced += sum(await gather_all(self._replace(due, digits) for due in claimed))
            if len(claimed) < wanted:
                break
        return replaced

    async def _replace(self, due: DueHostKey, digits: int) -> bool:
        host_key = generate_host_key(digits, self.runtime.entropy.token_bytes(PASSWORD_RANDOM_BYTES))
        try:
            await self.provider.set_host_key(due.provider_user_id, host_key)
        except video_provider.ProviderRefused as error:
            self.on_refusal(due, error)
            async with self.store.begin() as tx:
                await tx.host_keys.postpone(due.host_id, due.token, REFUSED_FOR_S)
            return False
        except video_provider.ProviderUnknown:
            return False
        async with self.store.begin() as tx:
            return await tx.host_keys.save(due.host_id, due.token, host_key)
