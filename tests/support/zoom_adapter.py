"""Zoom's adapter on a stand-in, with a log that keeps its lines."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from attrs import frozen

from meetcore.adapters.zoom import ZoomAccess, ZoomProvider
from meetcore.testing.clock import ManualClock
from meetcore.testing.zoom_server import Terms, ZoomStandIn, zoom_stand_in
from tests.support.kept_log import KeptLog

NOW = datetime(2026, 11, 24, 2, 30, tzinfo=UTC)
SECRET = "stand-in-secret"


def access_to(zoom: ZoomStandIn, secret: str = SECRET) -> ZoomAccess:
    known = zoom.credentials
    return ZoomAccess(known.account_id, known.client_id, secret, zoom.api_url, zoom.oauth_url)


@frozen
class Zoom:
    """An adapter and its peer."""

    provider: ZoomProvider
    stand_in: ZoomStandIn
    log: KeptLog
    clock: ManualClock

    @property
    def made(self) -> list[str]:
        return [str(each.number) for each in self.stand_in.meetings]

    def calls(self, call: str) -> int:
        return self.stand_in.counts[call]


@asynccontextmanager
async def zoom_at_hand(
    terms: Terms | None = None, *, budget_s: float = 8.0, secret: str = SECRET
) -> AsyncIterator[Zoom]:
    async with zoom_stand_in(terms) as stand_in:
        log, clock = KeptLog(), ManualClock(NOW)
        provider = ZoomProvider(access_to(stand_in, secret), log, now=clock.now, budget_s=budget_s)
        try:
            yield Zoom(provider, stand_in, log, clock)
        finally:
            await provider.aclose()
