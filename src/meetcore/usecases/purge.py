"""Purge what is kept for a limited time."""

from datetime import UTC, timedelta

from attrs import frozen

from meetcore.domain.mails.mails import MAILS_KEPT
from meetcore.domain.requests.idempotency import KEY_RETENTION_HOURS
from meetcore.domain.requests.request_log import requests_kept_since
from meetcore.ports.housekeeping import Housekeeping
from meetcore.usecases.runtime import Runtime

PROVIDER_EVENTS_KEPT = timedelta(days=7)


@frozen
class Purge:
    """Delete keys of requests, counts of creations, mails, secrets and requests past their time."""

    housekeeping: Housekeeping
    runtime: Runtime

    async def __call__(self) -> None:
        """Delete all that is past its time, in portions that block no other work."""
        await self.housekeeping.purge_idempotency(timedelta(hours=KEY_RETENTION_HOURS).total_seconds())
        await self.housekeeping.purge_provider_events(PROVIDER_EVENTS_KEPT.total_seconds())
        now = self.runtime.now()
        await self.housekeeping.purge_creations(now.astimezone(UTC).date() - timedelta(days=1))
        await self.housekeeping.purge_mails(MAILS_KEPT.total_seconds())
        await self.housekeeping.purge_previous_secrets(now)
        await self.housekeeping.purge_requests(requests_kept_since(now))
