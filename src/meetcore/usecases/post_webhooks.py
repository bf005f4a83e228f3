"""Deliveries at a customer's request: a test event, an earlier delivery again, what an endpoint missed.

All are refused where nothing would be sent: what is asked for in order to see it arrive is not kept
for later.
"""

from datetime import datetime, timedelta
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.errors import Gone, NotFound
from meetcore.domain.records.fields import in_utc
from meetcore.domain.records.webhooks import Recovery, delivery_record
from meetcore.domain.webhooks.deliveries import (
    RECOVERED_AT_ONCE,
    RELEASE_PACE,
    Delivery,
    ReleasePace,
    open_delivery,
    recovery_start,
)
from meetcore.domain.webhooks.endpoints import request_test, require_active
from meetcore.domain.webhooks.events import EVENTS_KEPT, Event, EventKind, is_past_retention
from meetcore.ports.queries import Caller
from meetcore.ports.store import PostingView, Store, Transaction
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.audit import record_by_hand
from meetcore.usecases.idempotency import IdempotentRequest, Outcome, run_once
from meetcore.usecases.outbox import events_of
from meetcore.usecases.runtime import Runtime


async def post_event(
    tx: Transaction, runtime: Runtime, view: PostingView, event: Event, now: datetime
) -> Delivery:
    """Write an event and its delivery to the endpoint, held where that is inactive."""
    delivery = _opened(runtime, view, event.id, event.kind, now)
    await tx.endpoints.post_event(event, delivery)
    return delivery


async def post_again(
    tx: Transaction, runtime: Runtime, view: PostingView, earlier: Delivery, now: datetime
) -> Delivery | None:
    """Write another delivery of an event; `None` when the event is past its retention."""
    delivery = _opened(runtime, view, earlier.event_id, earlier.event_kind, now)
    return delivery if await tx.endpoints.post_again(delivery) else None


def _opened(runtime: Runtime, view: PostingView, event_id: UUID, kind: EventKind, now: datetime) -> Delivery:
    return open_delivery(
        id=runtime.new_id(now), endpoint=view.endpoint, event_id=event_id, event_kind=kind,
        created_at=now, now=view.now,
    )  # fmt: skip


@frozen
class SendTestEvent:
    """Sends `webhook.test` to one endpoint, whether or not it subscribed."""

    store: Store
    notifier: WorkerNotifier = field(repr=False)
    runtime: Runtime

    async def __call__(
        self, caller: Caller, endpoint_id: UUID, request: IdempotentRequest, now: datetime
    ) -> Outcome:
        """Write the event and its delivery.

        Returns:
            The delivery. Or a refusal: NotFound, Conflict when the endpoint is paused or disabled.
        """

        async def work(tx: Transaction) -> Outcome:
            await tx.lock_account(caller.account.id)
            view = await tx.endpoints.load_for_posting(caller.account.id, endpoint_id)
            if view is None:
                raise NotFound("No webhook with this id.")
            (event,) = events_of(self.runtime, now, request_test(view.endpoint))
            delivery = await post_event(tx, self.runtime, view, event, now)
            await record_by_hand(tx, self.runtime, now, caller, "webhook.test_sent", endpoint_id)
            return Outcome(delivery_record(delivery, ()), due=1)

        outcome = await run_once(self.store, caller.account.id, request, work)
        if outcome.due:
            self.notifier.notify()
        return outcome


@frozen
class ResendDelivery:
    """Sends the event of an earlier delivery again: the same bytes under the same event id.

    `kept` is how long events and deliveries are.
    """

    store: Store
    notifier: WorkerNotifier = field(repr=False)
    runtime: Runtime
    kept: timedelta = EVENTS_KEPT

    async def __call__(
        self,
        caller: Caller,
        endpoint_id: UUID,
        delivery_id: UUID,
        request: IdempotentRequest,
        now: datetime,
    ) -> Outcome:
        """Write a new delivery. The earlier one stays as it is, whatever became of it.

        Returns:
            The delivery. Or a refusal: NotFound, Conflict when the endpoint is paused or disabled, Gone
            when the delivery or its event is past its retention.
        """

        async def work(tx: Transaction) -> Outcome:
            if is_past_retention(delivery_id, now, self.kept, caller.account.id):
                raise Gone("This delivery is past its retention.")
            await tx.lock_account(caller.account.id)
            view = await tx.endpoints.load_for_posting(caller.account.id, endpoint_id, delivery_id)
            if view is None or view.earlier is None:
                raise NotFound("No delivery with this id.")
            require_active(view.endpoint)
            is_past = is_past_retention(view.earlier.event_id, now, self.kept)
            delivery = None if is_past else await post_again(tx, self.runtime, view, view.earlier, now)
            if delivery is None:
                raise Gone("The event of this delivery is past its retention.")
            await record_by_hand(
                tx, self.runtime, now, caller, "webhook.delivery_resent", delivery_id,
                webhook_id=str(endpoint_id), event_id=str(delivery.event_id),
            )  # fmt: skip
            return Outcome(delivery_record(delivery, ()), due=1)

        outcome = await run_once(self.store, caller.account.id, request, work)
        if outcome.due:
            self.notifier.notify()
        return outcome


@frozen
class RecoverDeliveries:
    """Sends what failed or expired at an endpoint again, once its receiver is mended.

    `most` is how many deliveries one request recovers, `kept` how long events are.
    """

    store: Store
    notifier: WorkerNotifier = field(repr=False)
    runtime: Runtime
    pace: ReleasePace = RELEASE_PACE
    most: int = RECOVERED_AT_ONCE
    kept: timedelta = EVENTS_KEPT

    async def __call__(
        self, caller: Caller, endpoint_id: UUID, since: datetime, request: IdempotentRequest, now: datetime
    ) -> Outcome:
        """Hold what failed or expired since an instant, and release the first portion; the sweep goes on.

        Returns:
            How many deliveries are sent again. Or a refusal: NotFound, Conflict when the endpoint is paused
            or disabled, Unprocessable when the instant is in the future or longer ago than events are kept.

        Raises:
            IdempotencyKeyReused: the key belongs to another request.
            StoreUnavailable: the database does not answer.
        """

        async def work(tx: Transaction) -> Outcome:
            await tx.lock_account(caller.account.id)
            endpoint = await tx.endpoints.load_locked(caller.account.id, endpoint_id)
            if endpoint is None:
                raise NotFound("No webhook with this id.")
            require_active(endpoint)
            start = recovery_start(since, now, self.kept)
            found = await tx.deliveries.recover(caller.account.id, endpoint_id, start, self.most)
            due = await tx.deliveries.release_held(caller.account.id, endpoint_id, self.pace)
            await record_by_hand(
                tx, self.runtime, now, caller, "webhook.deliveries_recovered", endpoint_id,
                since=in_utc(since).isoformat(), deliveries=found,
            )  # fmt: skip
            recovery = Recovery(
                webhook_id=str(endpoint_id),
                since=in_utc(since),
                deliveries=found,
                has_more=found == self.most,
            )
            return Outcome(recovery, due=due)

        outcome = await run_once(self.store, caller.account.id, request, work)
        if outcome.due:
            self.notifier.notify()
        return outcome
