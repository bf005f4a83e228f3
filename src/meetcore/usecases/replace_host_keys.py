"""Replace host keys: the key shown for one meeting must not work for the next one on that host.

Claim under a lease, set the key at the provider without a transaction, keep it. A provider that does not
answer may have set it or not: the host is due again when the lease runs out, and its key is not shown
until then.
"""

from collections.abc import Callable

from attrs import field, frozen

from meetcore.domain.meetings.passwords import PASSWORD_RANDOM_BYTES, generate_host_key
from meetcore.ports.host_keys import DueHostKey
from meetcore.ports.lease import Lease
from meetcore.ports.store import Store
from meetcore.ports.video_provider import ProviderRefused, ProviderUnknown, VideoProvider
from meetcore.usecases.concurrency import gather_all
from meetcore.usecases.runtime import Runtime

REFUSED_FOR_S = 3600.0


@frozen
class ReplaceHostKeys:
    """Replaces the keys that are due, `at_once` of them at a time.

    `lease_s` must exceed the provider's time limit. `on_refusal` gets each host whose key the provider
    would not replace, for the log; it is tried again after an hour.
    """

    store: Store
    provider: VideoProvider
    runtime: Runtime
    on_refusal: Callable[[DueHostKey, ProviderRefused], None] = field(repr=False)
    lease_s: float = 20.0
    at_once: int = 8

    async def __call__(self, limit: int = 64) -> int:
        """Replace up to `limit` keys; returns how many are in place by it.

        Raises:
            StoreUnavailable: the database does not answer; what was set is due again after its lease.
            ExceptionGroup: the failures of single hosts; the others were processed.
        """
        digits = self.provider.abilities.host_key_digits
        if digits is None:
            return 0
        replaced = 0
        for left in range(limit, 0, -self.at_once):
            wanted = min(self.at_once, left)
            async with self.store.begin() as tx:
                claimed = await tx.host_keys.claim_due(wanted, self._lease())
            replaced += sum(await gather_all(self._replace(due, digits) for due in claimed))
            if len(claimed) < wanted:
                break
        return replaced

    def _lease(self) -> Lease:
        return Lease(self.runtime.new_id(self.runtime.now()), self.lease_s)

    async def _replace(self, due: DueHostKey, digits: int) -> bool:
        host_key = generate_host_key(digits, self.runtime.entropy.token_bytes(PASSWORD_RANDOM_BYTES))
        try:
            await self.provider.set_host_key(due.provider_user_id, host_key)
        except ProviderRefused as error:
            self.on_refusal(due, error)
            async with self.store.begin() as tx:
                await tx.host_keys.postpone(due.host_id, due.token, REFUSED_FOR_S)
            return False
        except ProviderUnknown:
            return False
        async with self.store.begin() as tx:
            return await tx.host_keys.save(due.host_id, due.token, host_key)
