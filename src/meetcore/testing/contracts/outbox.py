"""What a worker does with the outbox: claim, post elsewhere, record, sweep.

Each act is one transaction. Owns no expectation: that is the suites' business.
"""

from typing import Any
from uuid import UUID

from meetcore.domain.deliveries import Attempt, record_attempt
from meetcore.domain.endpoints import Endpoint
from meetcore.domain.retry_schedule import RetrySchedule
from meetcore.ports.deliveries import Claimed
from meetcore.ports.lease import Lease
from meetcore.testing.contracts.acts import (
    AT,
    KIND,
    Customer,
    new_endpoint,
    new_id,
    open_customer,
    register,
    top_up,
)
from meetcore.testing.contracts.store_rig import Rig

__all__ = ["BAD", "GOOD", "claim", "outbox", "record", "sweep"]

GOOD = Attempt(AT, 12, status_code=200, response_excerpt="ok", address="203.0.113.7")
BAD = Attempt(AT, 12, status_code=500, error="status_500")


async def outbox(rig: Rig, count: int = 1, **fields: Any) -> tuple[Customer, Endpoint]:
    """An endpoint with so many deliveries that wait."""
    customer = await open_customer(rig)
    endpoint = await register(rig, new_endpoint(customer, **fields))
    for number in range(count):
        await top_up(rig, customer, 5, f"INV-{number}", KIND)
    return customer, endpoint


async def claim(rig: Rig, limit: int = 100, seconds: float = 60.0) -> tuple[list[Claimed], Lease]:
    """Claim what is due for so many seconds; the claims, and the lease they are under."""
    lease = Lease(new_id(), seconds)
    async with rig.store.begin() as tx:
        return list(await tx.deliveries.claim_due(limit, lease)), lease


async def record(rig: Rig, claimed: Claimed, token: UUID, attempt: Attempt) -> bool:
    """What a worker does after its post; false when the claim was lost."""
    async with rig.store.begin() as tx:
        view = await tx.deliveries.load_claimed(claimed.account_id, claimed.delivery_id, token)
        if view is None:
            return False
        delivery, endpoint = record_attempt(
            view.delivery, view.endpoint, attempt, RetrySchedule(), 0.5, view.now
        )
        await tx.deliveries.save_attempt(delivery, endpoint, attempt)
        return True


async def sweep(rig: Rig) -> int:
    """What the sweeper does; how many deliveries became due."""
    async with rig.store.begin() as tx:
        return await tx.deliveries.sweep_held()
