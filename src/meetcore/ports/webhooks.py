"""The store of webhooks: endpoints, the outbox of deliveries, and the health of endpoints.

Deliveries are claimed under a lease and recorded by the claim's token, both in batches.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from meetcore.domain.webhooks import deliveries, events, views
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.ports.runtime import Lease


class EndpointRepository(Protocol):
    """Webhook endpoints of an account."""

    async def find_by_url(self, account_id: UUID, url_key: str) -> Endpoint | None: ...
    async def count(self, account_id: UUID) -> int:
        """Count the account's endpoints, inactive ones included, under its lock."""

    async def list_disabled(self, since: datetime) -> Sequence[Endpoint]:
        """List endpoints of all accounts that failures disabled since an instant; they have no secrets."""

    async def add(self, endpoint: Endpoint) -> None:
        """Register an endpoint, under the account's lock and after `find_by_url`."""

    async def load_locked(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        """Take the endpoint's lock, which recorded attempts take too, and read it."""

    async def save(self, endpoint: Endpoint) -> None:
        """Write the settings, and hold the waiting deliveries of an inactive endpoint but those in flight."""

    async def remove(self, account_id: UUID, endpoint_id: UUID) -> bool:
        """Delete an endpoint and its unfinished deliveries, under the account's lock; false if there is none.

        The URL is free from now on; final deliveries stay until their retention is over.
        """

    async def load_for_posting(
        self, account_id: UUID, endpoint_id: UUID, delivery_id: UUID | None = None
    ) -> views.NewDeliveryView | None:
        """Lock an endpoint as `load_locked` and read it, with a delivery if named; `None` without either."""

    async def add_event_for_endpoint(self, event: events.Event, delivery: deliveries.Delivery) -> None:
        """Write an event and one delivery of it, whatever the subscriptions."""

    async def redeliver(self, delivery: deliveries.Delivery) -> bool:
        """Write another delivery of a stored event; False when the event is past its retention."""


class DeliveryRepository(Protocol):
    """The outbox of deliveries."""

    async def claim_due(self, limits: views.ClaimLimits, lease: Lease) -> views.ClaimedBatch:
        """Take deliveries that are due at active endpoints, up to the limits.

        The longest due first at one endpoint; among accounts the one with the least in flight first.
        A delivery beyond its endpoint's limit is passed over; one beyond its host's is due again later, by
        its place in the host's queue. No two callers get the same one while the lease lasts. One whose event
        is past its retention is given up, one that no key opens is put off. One whose last claim ended
        without a record, at an endpoint whose latest attempt failed, is due again after the time of a lease.
        """

    async def load_claimed(self, claimed: Sequence[views.Claimed]) -> Sequence[views.ClaimedView]:
        """Read and lock those, in any order, whose lease is not lost; endpoints have no secrets."""

    async def put_off(self, claimed: Sequence[views.Claimed], at_least: timedelta) -> None:
        """End claims without an attempt, under the locks of `load_claimed`.

        Each delivery is due again after that time, or up to half as long again.
        """

    async def save_attempts(
        self, recorded: Sequence[views.Recorded], endpoints: Sequence[Endpoint],
        hosts: Sequence[views.RecordedHost], recovered: Collection[UUID] = (),
    ) -> views.Saved:  # fmt: skip
        """Write attempts, their deliveries, endpoints and hosts, each once, and end the claims.

        At a host that is failing every other endpoint of the account goes through
        `domain.webhooks.endpoints.disable_with_host`. Other waiting deliveries of an endpoint that is
        inactive now are held; posts in flight keep their claim. Waiting deliveries of endpoints that have
        `recovered` from failures are claimable again.
        """

    async def release_held(self, account_id: UUID, endpoint_id: UUID, pace: deliveries.ReleasePace) -> int:
        """Release the next portion of an endpoint's held deliveries, if the last is through; count them."""

    async def recover(self, account_id: UUID, endpoint_id: UUID, since: datetime, most: int) -> int:
        """Hold up to `most` deliveries that failed or expired since an instant, the earliest first.

        They are released as others. Those without an event, and those with
        `deliveries.MAX_ATTEMPTS_RECOVERED`, stay as they are. The caller has locked the endpoint. Returns how
        many were recovered.
        """

    async def sweep(self, pace: deliveries.ReleasePace) -> views.Swept:
        """Release the next portion at every active endpoint, give up expired deliveries, recover claims."""


class EndpointHealthQueries(Protocol):
    """Reads of endpoints with the health of their latest `HEALTH_SAMPLE` deliveries made since an instant."""

    async def list_endpoint_health(self, account_id: UUID, since: datetime) -> Sequence[views.EndpointHealth]:
        """List an account's endpoints, the newest first, up to `queries.MAX_PAGE`."""

    async def find_endpoint_health(
        self, account_id: UUID, endpoint_id: UUID, since: datetime
    ) -> views.EndpointHealth | None: ...
