"""Sending what is due (spec part 6): claim under a lease, post without a transaction, record.

A worker that dies between claim and record leaves a delivery that is due again when the lease runs
out: the receiver may see the same event id twice, and never not at all.
"""

from collections.abc import Sequence

from attrs import frozen

from meetcore.domain.deliveries import record_attempt
from meetcore.domain.retry_schedule import RetrySchedule
from meetcore.domain.signature import signing_headers
from meetcore.domain.webhook_urls import parse_webhook_url
from meetcore.ports.deliveries import Claimed
from meetcore.ports.lease import Lease
from meetcore.ports.store import Store
from meetcore.ports.webhook_sender import OutgoingPost, WebhookSender
from meetcore.usecases.world import World

__all__ = ["ClaimedBatch", "DeliverWebhooks"]

USER_AGENT = "meetcore-webhooks/1"


@frozen
class ClaimedBatch:
    """Deliveries to post now, and the lease they were taken under."""

    lease: Lease
    deliveries: Sequence[Claimed]


@frozen
class DeliverWebhooks:
    """Posts due deliveries. `lease_s` must exceed the sender's time limit."""

    store: Store
    sender: WebhookSender
    schedule: RetrySchedule
    world: World
    lease_s: float = 30.0

    async def claim(self, limit: int) -> ClaimedBatch:
        """Take up to `limit` deliveries that are due."""
        lease = Lease(self.world.new_id(self.world.now()), self.lease_s)
        async with self.store.begin() as tx:
            return ClaimedBatch(lease, await tx.deliveries.claim_due(limit, lease))

    async def deliver(self, claimed: Claimed, lease: Lease) -> bool:
        """Post one delivery and record what came of it; false when the claim was lost meanwhile."""
        signed_at = int(self.world.now().timestamp())
        headers = signing_headers(claimed.secret, str(claimed.event_id), claimed.body, signed_at)
        headers |= {
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
            "X-Service-Event": claimed.event_kind,
            "X-Service-Delivery": str(claimed.delivery_id),
        }
        post = OutgoingPost(parse_webhook_url(claimed.url), headers, claimed.body)
        attempt = await self.sender.post(post)
        async with self.store.begin() as tx:
            view = await tx.deliveries.load_claimed(claimed.account_id, claimed.delivery_id, lease.token)
            if view is None:
                return False
            delivery, endpoint = record_attempt(
                view.delivery, view.endpoint, attempt, self.schedule, self.world.jitter(), view.now
            )
            await tx.deliveries.save_attempt(delivery, endpoint, attempt)
        return True

    async def sweep(self) -> int:
        """Mend held deliveries; returns how many became due."""
        async with self.store.begin() as tx:
            return await tx.deliveries.sweep_held()
