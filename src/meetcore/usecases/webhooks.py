"""Registering, changing and removing webhook endpoints (spec 4.3, 4.4), and giving them new secrets."""

from datetime import datetime, timedelta
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.records.webhooks import endpoint_record
from meetcore.domain.webhooks.addresses import Network, vet
from meetcore.domain.webhooks.deliveries import RELEASE_PACE, ReleasePace
from meetcore.domain.webhooks.endpoints import (
    ENDPOINTS_PER_ACCOUNT,
    SECRET_OVERLAP,
    Endpoint,
    EndpointChanges,
    check_room,
    register,
    rotate_secret,
    update,
)
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.signature import SECRET_BYTES, new_secret
from meetcore.domain.webhooks.urls import WebhookUrl
from meetcore.ports.queries import Caller
from meetcore.ports.resolver import Resolver
from meetcore.ports.store import Store, Transaction
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.audit import record_by_hand
from meetcore.usecases.idempotency import IdempotentRequest, Outcome, run_once
from meetcore.usecases.runtime import Runtime


@frozen
class Registration:
    """A requested endpoint: its URL and event types."""

    url: WebhookUrl
    event_types: tuple[EventKind, ...]
    description: str | None = None


async def add_endpoint(tx: Transaction, endpoint: Endpoint, most: int) -> Endpoint:
    """Add an endpoint unless its URL is registered; return the one that is.

    Raises:
        Unprocessable: the account has `most` endpoints already.
    """
    await tx.lock_account(endpoint.account_id)
    known = await tx.endpoints.find_by_url(endpoint.account_id, endpoint.url_key)
    if known is None:
        check_room(await tx.endpoints.count(endpoint.account_id), most)
        await tx.endpoints.add(endpoint)
    return known or endpoint


@frozen
class RegisterWebhook:
    """Registers a URL, once for each account, after looking at where it points.

    `most` is how many endpoints an account may have.
    """

    store: Store
    resolver: Resolver
    allowed_networks: tuple[Network, ...]
    runtime: Runtime
    denied_networks: tuple[Network, ...] = ()
    most: int = ENDPOINTS_PER_ACCOUNT

    async def __call__(
        self, caller: Caller, wanted: Registration, request: IdempotentRequest, now: datetime
    ) -> Outcome:
        """Register an endpoint with a new secret.

        Returns:
            The endpoint with its secret. Or a refusal: Unprocessable when the host is or resolves to an
            address that must not be sent to, or the account has as many endpoints as it may; Conflict when
            the URL is registered already.

        Raises:
            HostUnresolved: the name did not resolve within 3 s, or too many look-ups are under way.
        """

        async def look() -> None:
            address = wanted.url.address
            host, account_id = wanted.url.host, caller.account.id
            found = (address,) if address is not None else await self.resolver.resolve(host, account_id)
            vet(found, self.allowed_networks, self.denied_networks)

        async def work(tx: Transaction) -> Outcome:
            endpoint = self._new(caller, wanted, now)
            registered = await add_endpoint(tx, endpoint, self.most)
            if registered is not endpoint:
                raise Conflict("This URL is registered already.", registered.id)
            await record_by_hand(
                tx, self.runtime, now, caller, "webhook.registered", endpoint.id, host=wanted.url.host
            )
            return Outcome(endpoint_record(endpoint, with_secret=True))

        return await run_once(self.store, caller.account.id, request, work, look)

    def _new(self, caller: Caller, wanted: Registration, now: datetime) -> Endpoint:
        return register(
            id=self.runtime.new_id(now),
            account_id=caller.account.id,
            url=wanted.url,
            description=wanted.description,
            event_types=wanted.event_types,
            created_by=str(caller.actor_id),
            created_at=now,
            secret=new_secret(self.runtime.entropy.token_bytes(SECRET_BYTES)),
        )


@frozen
class UpdateWebhook:
    """Changes an endpoint; one that becomes active gets what waited for it."""

    store: Store
    notifier: WorkerNotifier = field(repr=False)
    runtime: Runtime
    pace: ReleasePace = RELEASE_PACE

    async def __call__(
        self, caller: Caller, endpoint_id: UUID, changes: EndpointChanges, request: IdempotentRequest
    ) -> Outcome:
        """Carry out a change.

        Returns:
            The endpoint, or a refusal: NotFound.
        """

        async def work(tx: Transaction) -> Outcome:
            await tx.lock_account(caller.account.id)
            endpoint = await tx.endpoints.load_locked(caller.account.id, endpoint_id)
            if endpoint is None:
                raise NotFound("No webhook with this id.")
            changed = update(endpoint, changes)
            await tx.endpoints.save(changed)
            if changed != endpoint:
                await record_by_hand(
                    tx, self.runtime, self.runtime.now(), caller, "webhook.changed", endpoint_id,
                    state=changed.state.value,
                )  # fmt: skip
            due = await tx.deliveries.release_held(changed.account_id, changed.id, self.pace)
            return Outcome(endpoint_record(changed, with_secret=False), due=due)

        outcome = await run_once(self.store, caller.account.id, request, work)
        if outcome.due:
            self.notifier.notify()
        return outcome


@frozen
class RotateSecret:
    """Gives an endpoint another secret, with which what waits is signed too (rule 4.3/3)."""

    store: Store
    runtime: Runtime

    async def __call__(
        self,
        caller: Caller,
        endpoint_id: UUID,
        request: IdempotentRequest,
        now: datetime,
        overlap: timedelta = SECRET_OVERLAP,
    ) -> Outcome:
        """Replace the secret; for the overlap the old one signs beside it, where a header holds several.

        Returns:
            The endpoint with its new secret, or a refusal: NotFound.
        """
        secret = new_secret(self.runtime.entropy.token_bytes(SECRET_BYTES))

        async def work(tx: Transaction) -> Outcome:
            await tx.lock_account(caller.account.id)
            endpoint = await tx.endpoints.load_locked(caller.account.id, endpoint_id)
            if endpoint is None:
                raise NotFound("No webhook with this id.")
            changed = rotate_secret(endpoint, secret, now, overlap)
            await tx.endpoints.save(changed)
            await record_by_hand(tx, self.runtime, now, caller, "webhook.secret_rotated", endpoint_id)
            return Outcome(endpoint_record(changed, with_secret=True))

        return await run_once(self.store, caller.account.id, request, work)


@frozen
class RemoveWebhook:
    """Removes an endpoint, and what waits for it; a post in flight is its last."""

    store: Store
    runtime: Runtime

    async def __call__(self, caller: Caller, endpoint_id: UUID, request: IdempotentRequest) -> Outcome:
        """Carry out a removal. The URL can be registered again at once.

        Returns:
            Nothing, or a refusal: NotFound.
        """

        async def work(tx: Transaction) -> Outcome:
            await tx.lock_account(caller.account.id)
            if not await tx.endpoints.remove(caller.account.id, endpoint_id):
                raise NotFound("No webhook with this id.")
            await record_by_hand(tx, self.runtime, self.runtime.now(), caller, "webhook.removed", endpoint_id)
            return Outcome()

        return await run_once(self.store, caller.account.id, request, work)
