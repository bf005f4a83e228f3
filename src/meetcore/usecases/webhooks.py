"""Registering and changing webhook endpoints (spec 4.3, 4.4)."""

from datetime import datetime
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.addresses import Network, vet
from meetcore.domain.endpoints import Endpoint, EndpointChanges, register, update
from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.events import EventKind
from meetcore.domain.signature import new_secret
from meetcore.domain.webhook_urls import WebhookUrl
from meetcore.ports.doorbell import Doorbell
from meetcore.ports.queries import Caller
from meetcore.ports.resolver import Resolver
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.intent import Answer, Done, Intent, run_once
from meetcore.usecases.world import World

__all__ = ["RegisterWebhook", "Registration", "UpdateWebhook"]

SECRET_RANDOM_BYTES = 32


@frozen
class Registration:
    """A wish to be told: where and of what."""

    url: WebhookUrl
    event_types: tuple[EventKind, ...]
    description: str | None = None


@frozen
class RegisterWebhook:
    """Registers a URL, once for each account, after looking at where it points."""

    store: Store
    resolver: Resolver
    allowed_networks: tuple[Network, ...]
    world: World

    async def __call__(self, caller: Caller, wanted: Registration, intent: Intent, now: datetime) -> Answer:
        """Register an endpoint with a new secret.

        Raises:
            Unprocessable: the host is or resolves to an address that must not be sent to.
            HostUnresolved: the name did not resolve within 3 s.
            Conflict: the URL is registered already, when no key remembers it.
            IdempotencyKeyReused: the key belongs to another request.
            StoreAway: the database does not answer.
        """

        async def look() -> None:
            address = wanted.url.address
            found = (address,) if address is not None else await self.resolver.resolve(wanted.url.host)
            vet(found, self.allowed_networks)

        async def work(tx: Transaction, _: None) -> Done:
            await tx.endpoints.lock_account(caller.account.id)
            known = await tx.endpoints.find_by_url(caller.account.id, wanted.url.normalized)
            if known is not None:
                raise Conflict("This URL is registered already.", known.id)
            endpoint = self._new(caller, wanted, now)
            await tx.endpoints.add(endpoint)
            return Done(endpoint)

        return await run_once(self.store, caller.account.id, intent, work, look)

    def _new(self, caller: Caller, wanted: Registration, now: datetime) -> Endpoint:
        return register(
            id=self.world.new_id(now),
            account_id=caller.account.id,
            url=wanted.url,
            description=wanted.description,
            event_types=wanted.event_types,
            created_by=str(caller.key.id),
            created_at=now,
            secret=new_secret(self.world.entropy.token_bytes(SECRET_RANDOM_BYTES)),
        )


@frozen
class UpdateWebhook:
    """Changes an endpoint; one that becomes active gets what waited for it."""

    store: Store
    doorbell: Doorbell = field(repr=False)

    async def __call__(
        self, caller: Caller, endpoint_id: UUID, changes: EndpointChanges, intent: Intent
    ) -> Answer:
        """Carry out a change.

        Raises:
            NotFound: no such endpoint, when no key remembers it.
            IdempotencyKeyReused: the key belongs to another request.
            StoreAway: the database does not answer.
        """

        async def nothing() -> None:
            return None

        async def work(tx: Transaction, _: None) -> Done:
            endpoint = await tx.endpoints.load(caller.account.id, endpoint_id)
            if endpoint is None:
                raise NotFound("No webhook with this id.")
            changed = update(endpoint, changes)
            return Done(changed, await tx.endpoints.save(changed))

        answer = await run_once(self.store, caller.account.id, intent, work, nothing)
        if answer.due:
            self.doorbell.ring()
        return answer
