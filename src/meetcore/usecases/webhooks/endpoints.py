"""Webhook endpoints (spec 4.3, 4.4): register, change, remove, rotate secrets; send to one on request.

A refusal is NotFound without such an endpoint. A test event, a repeated delivery and a recovery are refused
with Conflict where the endpoint is inactive: nothing is kept to be sent later.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.errors import Conflict, Gone, NotFound, require_record
from meetcore.domain.fields import in_utc
from meetcore.domain.members.audit import ActionOrigin
from meetcore.domain.records.webhooks import Recovery, delivery_record, endpoint_record
from meetcore.domain.webhooks import addresses, deliveries, endpoints, urls
from meetcore.domain.webhooks.events import EVENTS_KEPT, Event, EventKind, is_past_retention
from meetcore.domain.webhooks.signature import SECRET_BYTES, new_secret
from meetcore.domain.webhooks.views import NewDeliveryView
from meetcore.ports.queries import Caller
from meetcore.ports.runtime import WorkerNotifier
from meetcore.ports.store import Store, Transaction
from meetcore.ports.webhook_sender import Resolver
from meetcore.usecases.members.audit import record_action, record_by_hand
from meetcore.usecases.requests.erasure import lock_unerased
from meetcore.usecases.requests.idempotency import IdempotentRequest, Outcome, run_once
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.webhooks.events import events_of


@frozen
class Registration:
    """A requested endpoint: its URL and event types."""

    url: urls.WebhookUrl
    event_types: tuple[EventKind, ...]
    description: str | None = None


async def add_endpoint(tx: Transaction, endpoint: endpoints.Endpoint, most: int) -> endpoints.Endpoint:
    """Add an endpoint unless its URL is registered; return the one that is. `Unprocessable` beyond `most`.

    Raises `Conflict` for an account that was erased, as it can be while the host is looked up.
    """
    await lock_unerased(tx, endpoint.account_id)
    known = await tx.endpoints.find_by_url(endpoint.account_id, endpoint.url_key)
    if known is None:
        endpoints.check_room(await tx.endpoints.count(endpoint.account_id), most)
        await tx.endpoints.add(endpoint)
    return known or endpoint


async def _load(tx: Transaction, caller: Caller, endpoint_id: UUID) -> endpoints.Endpoint:
    await tx.lock_account(caller.account.id)
    return require_record(await tx.endpoints.load_locked(caller.account.id, endpoint_id), "webhook")


@frozen
class WebhookAdministration:
    """Changes of endpoints of any account, as `origin` asks for them."""

    store: Store
    notifier: WorkerNotifier = field(repr=False)
    runtime: Runtime
    origin: ActionOrigin

    async def list_disabled(self, since: datetime) -> Sequence[endpoints.Endpoint]:
        """List the endpoints that failures disabled at an instant or later, the first disabled first."""
        async with self.store.begin() as tx:
            return await tx.endpoints.list_disabled(since)

    async def enable(self, since: datetime) -> Sequence[endpoints.Endpoint]:
        """Make them active again, each in a transaction, and release what is held; return them."""
        enabled = [await self._enable(one, since) for one in await self.list_disabled(since)]
        return [one for one in enabled if one is not None]

    async def _enable(self, found: endpoints.Endpoint, since: datetime) -> endpoints.Endpoint | None:
        """Enable one; `None` where it is not disabled any more."""
        account_id, now = found.account_id, self.runtime.now()
        async with self.store.begin() as tx:
            await tx.lock_account(account_id)
            endpoint = await tx.endpoints.load_locked(account_id, found.id)
            if endpoint is None or endpoint.disabled_at is None or endpoint.disabled_at < since:
                return None
            changed = endpoints.resume(endpoint)
            await tx.endpoints.save(changed)
            await record_action(
                tx, self.runtime, now, self.origin, "webhook.changed", account_id, changed.id,
                state=changed.state.value,
            )  # fmt: skip
            due = await tx.deliveries.release_held(account_id, changed.id, deliveries.RELEASE_PACE)
        if due:
            self.notifier.notify()
        return changed


async def add_event_for_endpoint(
    tx: Transaction, runtime: Runtime, view: NewDeliveryView, event: Event, now: datetime
) -> deliveries.Delivery:
    """Write an event and its delivery to the endpoint, held where that is inactive."""
    delivery = _opened(runtime, view, event.id, event.kind, now)
    await tx.endpoints.add_event_for_endpoint(event, delivery)
    return delivery


async def redeliver(
    tx: Transaction, runtime: Runtime, view: NewDeliveryView, earlier: deliveries.Delivery, now: datetime
) -> deliveries.Delivery | None:
    """Write another delivery of an event; `None` when the event is past its retention."""
    delivery = _opened(runtime, view, earlier.event_id, earlier.event_kind, now)
    return delivery if await tx.endpoints.redeliver(delivery) else None


def _opened(
    runtime: Runtime, view: NewDeliveryView, event_id: UUID, kind: StrEnum, now: datetime
) -> deliveries.Delivery:
    return deliveries.open_delivery(
        id=runtime.new_id(now), endpoint=view.endpoint, event_id=event_id, event_kind=kind,
        created_at=now, now=view.now,
    )  # fmt: skip


@frozen
class Webhooks:
    """The use cases of an account's endpoints. A URL is registered after looking at where it points.

    `kept` is how long events are kept.
    """

    store: Store
    resolver: Resolver
    notifier: WorkerNotifier = field(repr=False)
    runtime: Runtime
    allowed_networks: tuple[addresses.Network, ...] = ()
    denied_networks: tuple[addresses.Network, ...] = ()
    kept: timedelta = EVENTS_KEPT

    async def register(
        self, caller: Caller, wanted: Registration, request: IdempotentRequest, now: datetime
    ) -> Outcome:
        """Register an endpoint with a new secret.

        A refusal is Unprocessable when the host is or resolves to an address that must not be sent to (rule
        4.3/1), or the account has as many endpoints as it may; Conflict when the URL is registered already
        (rule 4.3/2). Raises `HostUnresolved`: the name did not resolve within 3 s, or too many look-ups are
        under way.
        """

        async def look() -> None:
            address = wanted.url.address
            host, account_id = wanted.url.host, caller.account.id
            found = (address,) if address is not None else await self.resolver.resolve(host, account_id)
            addresses.vet(found, self.allowed_networks, self.denied_networks)

        async def work(tx: Transaction) -> Outcome:
            endpoint = self._new(caller, wanted, now)
            registered = await add_endpoint(tx, endpoint, endpoints.ENDPOINTS_PER_ACCOUNT)
            if registered is not endpoint:
                raise Conflict("This URL is registered already.", registered.id)
            await record_by_hand(
                tx, self.runtime, now, caller, "webhook.registered", endpoint.id, host=wanted.url.host
            )
            return Outcome(endpoint_record(endpoint, with_secret=True))

        return await run_once(self.store, caller.account.id, request, work, look)

    def _new(self, caller: Caller, wanted: Registration, now: datetime) -> endpoints.Endpoint:
        return endpoints.register(
            id=self.runtime.new_id(now),
            account_id=caller.account.id,
            url=wanted.url,
            description=wanted.description,
            event_types=wanted.event_types,
            created_by=str(caller.actor_id),
            created_at=now,
            secret=new_secret(self.runtime.entropy.token_bytes(SECRET_BYTES)),
        )

    async def update(
        self,
        caller: Caller,
        endpoint_id: UUID,
        changes: endpoints.EndpointChanges,
        request: IdempotentRequest,
    ) -> Outcome:
        """Change an endpoint, and return it; one that becomes active gets its held deliveries."""

        async def work(tx: Transaction) -> Outcome:
            endpoint = await _load(tx, caller, endpoint_id)
            changed = endpoints.update(endpoint, changes)
            await tx.endpoints.save(changed)
            if changed != endpoint:
                await record_by_hand(
                    tx, self.runtime, self.runtime.now(), caller, "webhook.changed", endpoint_id,
                    state=changed.state.value,
                )  # fmt: skip
            due = await tx.deliveries.release_held(changed.account_id, changed.id, deliveries.RELEASE_PACE)
            return Outcome(endpoint_record(changed, with_secret=False), due=due)

        return await run_once(self.store, caller.account.id, request, work, notifier=self.notifier)

    async def rotate_secret(
        self, caller: Caller, endpoint_id: UUID, request: IdempotentRequest, now: datetime,
        overlap: timedelta = endpoints.SECRET_OVERLAP,
    ) -> Outcome:  # fmt: skip
        """Give an endpoint another secret, which also signs pending deliveries (rule 4.3/3).

        For the overlap the old one signs beside it, where a header holds several.
        """
        secret = new_secret(self.runtime.entropy.token_bytes(SECRET_BYTES))

        async def work(tx: Transaction) -> Outcome:
            endpoint = await _load(tx, caller, endpoint_id)
            changed = endpoints.rotate_secret(endpoint, secret, now, overlap)
            await tx.endpoints.save(changed)
            await record_by_hand(tx, self.runtime, now, caller, "webhook.secret_rotated", endpoint_id)
            return Outcome(endpoint_record(changed, with_secret=True))

        return await run_once(self.store, caller.account.id, request, work)

    async def remove(self, caller: Caller, endpoint_id: UUID, request: IdempotentRequest) -> Outcome:
        """Remove an endpoint with its pending deliveries; a post in flight is its last.

        The URL can be registered again at once.
        """

        async def work(tx: Transaction) -> Outcome:
            await tx.lock_account(caller.account.id)
            if not await tx.endpoints.remove(caller.account.id, endpoint_id):
                raise NotFound("No webhook with this id.")
            await record_by_hand(tx, self.runtime, self.runtime.now(), caller, "webhook.removed", endpoint_id)
            return Outcome()

        return await run_once(self.store, caller.account.id, request, work)

    async def send_test(
        self, caller: Caller, endpoint_id: UUID, request: IdempotentRequest, now: datetime
    ) -> Outcome:
        """Send `webhook.test` to one endpoint, whether or not it subscribed; return the delivery."""

        async def work(tx: Transaction) -> Outcome:
            await tx.lock_account(caller.account.id)
            view = require_record(
                await tx.endpoints.load_for_posting(caller.account.id, endpoint_id), "webhook"
            )
            (event,) = events_of(self.runtime, now, endpoints.request_test(view.endpoint))
            delivery = await add_event_for_endpoint(tx, self.runtime, view, event, now)
            await record_by_hand(tx, self.runtime, now, caller, "webhook.test_sent", endpoint_id)
            return Outcome(delivery_record(delivery, ()), due=1)

        return await run_once(self.store, caller.account.id, request, work, notifier=self.notifier)

    async def resend(
        self, caller: Caller, endpoint_id: UUID, delivery_id: UUID, request: IdempotentRequest, now: datetime
    ) -> Outcome:
        """Send an earlier delivery's event again, if still `kept`: the same bytes under the same event id.

        The delivery is a new one; Gone when the earlier one or its event is past its retention.
        """

        async def work(tx: Transaction) -> Outcome:
            if is_past_retention(delivery_id, now, self.kept, caller.account.id):
                raise Gone("This delivery is past its retention.")
            await tx.lock_account(caller.account.id)
            view = await tx.endpoints.load_for_posting(caller.account.id, endpoint_id, delivery_id)
            if view is None or view.earlier is None:
                raise NotFound("No delivery with this id.")
            endpoints.require_active(view.endpoint)
            is_past = is_past_retention(view.earlier.event_id, now, self.kept)
            delivery = None if is_past else await redeliver(tx, self.runtime, view, view.earlier, now)
            if delivery is None:
                raise Gone("The event of this delivery is past its retention.")
            await record_by_hand(
                tx, self.runtime, now, caller, "webhook.delivery_resent", delivery_id,
                webhook_id=str(endpoint_id), event_id=str(delivery.event_id),
            )  # fmt: skip
            return Outcome(delivery_record(delivery, ()), due=1)

        return await run_once(self.store, caller.account.id, request, work, notifier=self.notifier)

    async def recover(
        self, caller: Caller, endpoint_id: UUID, since: datetime, request: IdempotentRequest, now: datetime
    ) -> Outcome:
        """Send failed and expired deliveries of an endpoint again, once its receiver is mended.

        Those that failed or expired since an instant are held, and their first portion is released.

        The outcome is how many are sent again; it is Unprocessable, too, when the instant is in the future or
        longer ago than events are kept.
        """

        async def work(tx: Transaction) -> Outcome:
            endpoint = await _load(tx, caller, endpoint_id)
            endpoints.require_active(endpoint)
            start = deliveries.recovery_start(since, now, self.kept)
            found = await tx.deliveries.recover(
                caller.account.id, endpoint_id, start, deliveries.RECOVERED_AT_ONCE
            )
            due = await tx.deliveries.release_held(caller.account.id, endpoint_id, deliveries.RELEASE_PACE)
            await record_by_hand(
                tx, self.runtime, now, caller, "webhook.deliveries_recovered", endpoint_id,
                since=in_utc(since).isoformat(), deliveries=found,
            )  # fmt: skip
            recovery = Recovery(
                webhook_id=str(endpoint_id),
                since=in_utc(since),
                deliveries=found,
                has_more=found == deliveries.RECOVERED_AT_ONCE,
            )
            return Outcome(recovery, due=due)

        return await run_once(self.store, caller.account.id, request, work, notifier=self.notifier)
