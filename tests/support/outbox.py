"""Transactions of the outbox: claim, record, sweep, release, post."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from attrs import evolve

from meetcore.domain.webhooks.deliveries import Attempt, Delivery, ReleasePace
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import Event, EventKind
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.domain.webhooks.views import Claimed, ClaimLimits, Saved
from meetcore.ports.runtime import Lease
from meetcore.usecases.webhooks import endpoints
from meetcore.usecases.webhooks.deliver import JudgedAttempts
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import (
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

AT_ONCE = ReleasePace(1_000, timedelta(0))
GOOD = Attempt(AT, 12, status_code=200, response_excerpt="ok", address="203.0.113.7")
BAD = Attempt(AT, 12, status_code=500, error="status_500")
SCHEDULE = RetrySchedule((3_600,) * 10)
"""As many attempts as by default, and no other one is due within a test, however slow the machine is."""


async def outbox(rig: PostgresRig, count: int = 1, **fields: Any) -> tuple[Customer, Endpoint]:
    """Return an endpoint with pending deliveries."""
    customer = await open_customer(rig)
    endpoint = await register(rig, new_endpoint(customer, **fields))
    for number in range(count):
        await top_up(rig, customer, 5, f"INV-{number}", KIND)
    return customer, endpoint


async def claim(
    rig: PostgresRig,
    limit: int = 100,
    seconds: float = 60.0,
    per_endpoint: int = 1_000,
    per_account: int = 1_000,
    per_host: int = 2_000,
    per_host_per_s: int = 1_000,
    per_failing: int = 1_000,
) -> tuple[list[Claimed], Lease]:
    """Claim due work; return the claims and their lease."""
    lease = Lease(new_id(), seconds)
    async with rig.store.begin() as tx:
        limits = ClaimLimits(limit, per_endpoint, per_account, per_host, per_host_per_s, per_failing)
        return list((await tx.deliveries.claim_due(limits, lease)).claimed), lease


async def record(
    rig: PostgresRig, claimed: Claimed, token: UUID, attempt: Attempt, schedule: RetrySchedule = SCHEDULE
) -> bool:
    """Record a post; return `False` if the claim was lost."""
    return await record_all(rig, [evolve(claimed, token=token)], attempt, schedule) is not None


async def record_all(
    rig: PostgresRig, claimed: Sequence[Claimed], attempt: Attempt, schedule: RetrySchedule = SCHEDULE
) -> int | None:
    """Record posts with the same result; return how many more may be claimed, `None` without claims."""
    saved = await record_batch(rig, claimed, attempt, schedule)
    return None if saved is None else saved.due


async def record_batch(
    rig: PostgresRig, claimed: Sequence[Claimed], attempt: Attempt | Sequence[Attempt],
    schedule: RetrySchedule = SCHEDULE,
) -> Saved | None:  # fmt: skip
    """Record posts with the same result, or each with its own; `None` if every claim was lost."""
    attempts = [attempt] * len(claimed) if isinstance(attempt, Attempt) else attempt
    async with rig.store.begin() as tx:
        judged = JudgedAttempts(await tx.deliveries.load_claimed(claimed), schedule)
        for one, made in zip(claimed, attempts, strict=True):
            judged.add(one, made, 0.5)
        if not judged.recorded:
            return None
        return await tx.deliveries.save_attempts(
            judged.recorded, judged.endpoints, judged.hosts, judged.recovered
        )


async def sweep(rig: PostgresRig, pace: ReleasePace = AT_ONCE) -> int:
    """Sweep; return how many deliveries became due."""
    return (await rig.alone.deliveries.sweep(pace)).due


async def release(rig: PostgresRig, endpoint: Endpoint, pace: ReleasePace = AT_ONCE) -> int:
    """Release a resumed endpoint's deliveries; return their number."""
    return await rig.alone.deliveries.release_held(endpoint.account_id, endpoint.id, pace)


async def post_test(
    rig: PostgresRig, endpoint: Endpoint, cause: str | None = None, **data: object
) -> Delivery | None:
    """Send `webhook.test`, held for an inactive endpoint; return `None` without the endpoint."""
    event = Event(new_id(), endpoint.account_id, EventKind.WEBHOOK_TEST, AT, data, cause=cause)
    async with rig.store.begin() as tx:
        view = await tx.endpoints.load_for_posting(endpoint.account_id, endpoint.id)
        if view is None:
            return None
        return await endpoints.add_event_for_endpoint(tx, RUNTIME, view, event, AT)


async def redeliver(rig: PostgresRig, endpoint: Endpoint, delivery_id: UUID) -> Delivery | None:
    """Send an earlier event again; return `None` without the delivery or its event."""
    async with rig.store.begin() as tx:
        view = await tx.endpoints.load_for_posting(endpoint.account_id, endpoint.id, delivery_id)
        if view is None or view.earlier is None:
            return None
        return await endpoints.redeliver(tx, RUNTIME, view, view.earlier, AT)
