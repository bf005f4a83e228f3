"""What is done with the outbox: workers claim, post elsewhere, record, sweep; customers ask for a post.

Each function is one transaction. Owns no expectation: that is the suites' business.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from attrs import evolve

from meetcore.domain.webhooks.deliveries import Attempt, Delivery, ReleasePace
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import Event, EventKind
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.ports.deliveries import Claimed, ClaimLimits, Saved
from meetcore.ports.lease import Lease
from meetcore.testing.contracts.store_rig import Rig
from meetcore.testing.contracts.transactions import (
    AT,
    KIND,
    RUNTIME,
    Customer,
    new_endpoint,
    new_id,
    open_customer,
    register,
    top_up,
)
from meetcore.usecases import post_webhooks
from meetcore.usecases.judge_attempts import JudgedAttempts

AT_ONCE = ReleasePace(1_000, timedelta(0))
GOOD = Attempt(AT, 12, status_code=200, response_excerpt="ok", address="203.0.113.7")
BAD = Attempt(AT, 12, status_code=500, error="status_500")
SCHEDULE = RetrySchedule()


async def outbox(rig: Rig, count: int = 1, **fields: Any) -> tuple[Customer, Endpoint]:
    """An endpoint with so many deliveries that wait."""
    customer = await open_customer(rig)
    endpoint = await register(rig, new_endpoint(customer, **fields))
    for number in range(count):
        await top_up(rig, customer, 5, f"INV-{number}", KIND)
    return customer, endpoint


async def claim(
    rig: Rig,
    limit: int = 100,
    seconds: float = 60.0,
    per_endpoint: int = 1_000,
    per_account: int = 1_000,
    per_host: int = 2_000,
    per_host_per_s: int = 1_000,
    per_failing: int = 1_000,
) -> tuple[list[Claimed], Lease]:
    """Claim what is due for so many seconds; the claims, and the lease they are under."""
    lease = Lease(new_id(), seconds)
    async with rig.store.begin() as tx:
        limits = ClaimLimits(limit, per_endpoint, per_account, per_host, per_host_per_s, per_failing)
        return list((await tx.deliveries.claim_due(limits, lease)).claimed), lease


async def record(
    rig: Rig, claimed: Claimed, token: UUID, attempt: Attempt, schedule: RetrySchedule = SCHEDULE
) -> bool:
    """Record a post as a worker does; return `False` when the claim was lost."""
    return await record_all(rig, [evolve(claimed, token=token)], attempt, schedule) is not None


async def record_all(
    rig: Rig, claimed: Sequence[Claimed], attempt: Attempt, schedule: RetrySchedule = SCHEDULE
) -> int | None:
    """What a worker does after posts that all ended alike.

    Returns:
        How many may be claimed now that could not be before; none when every claim was lost.
    """
    saved = await record_batch(rig, claimed, attempt, schedule)
    return None if saved is None else saved.due


async def record_batch(
    rig: Rig, claimed: Sequence[Claimed], attempt: Attempt, schedule: RetrySchedule = SCHEDULE
) -> Saved | None:
    """Record posts that all ended alike; `None` when every claim was lost."""
    async with rig.store.begin() as tx:
        judged = JudgedAttempts(await tx.deliveries.load_claimed(claimed), schedule)
        for one in claimed:
            judged.add(one, attempt, 0.5)
        if not judged.recorded:
            return None
        return await tx.deliveries.save_attempts(
            judged.recorded, judged.endpoints, judged.hosts, judged.recovered
        )


async def sweep(rig: Rig, pace: ReleasePace = AT_ONCE) -> int:
    """What the sweeper does; how many deliveries became due."""
    async with rig.store.begin() as tx:
        return (await tx.deliveries.sweep(pace)).due


async def release(rig: Rig, endpoint: Endpoint, pace: ReleasePace = AT_ONCE) -> int:
    """What follows the resuming of an endpoint; how many deliveries were released."""
    async with rig.store.begin() as tx:
        return await tx.deliveries.release_held(endpoint.account_id, endpoint.id, pace)


async def post_test(
    rig: Rig, endpoint: Endpoint, cause: str | None = None, **data: object
) -> Delivery | None:
    """Send `webhook.test` to an endpoint, held where it is inactive; return `None` when it does not exist."""
    event = Event(new_id(), endpoint.account_id, EventKind.WEBHOOK_TEST, AT, data, cause=cause)
    async with rig.store.begin() as tx:
        view = await tx.endpoints.load_for_posting(endpoint.account_id, endpoint.id)
        if view is None:
            return None
        return await post_webhooks.post_event(tx, RUNTIME, view, event, AT)


async def post_again(rig: Rig, endpoint: Endpoint, delivery_id: UUID) -> Delivery | None:
    """Send the event of an earlier delivery again; return `None` when it or its event does not exist."""
    async with rig.store.begin() as tx:
        view = await tx.endpoints.load_for_posting(endpoint.account_id, endpoint.id, delivery_id)
        if view is None or view.earlier is None:
            return None
        return await post_webhooks.post_again(tx, RUNTIME, view, view.earlier, AT)
