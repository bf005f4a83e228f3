"""The composition root: settings → adapters → use cases → the ASGI application and the worker.

`uvicorn meetcore.app:app` serves the API. Importing this builds nothing: settings are read and
connections made when a server starts the application.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from meetcore.adapters.http.calls import API_ROOT
from meetcore.adapters.http.docs import docs_routes
from meetcore.adapters.http.gate import Gate
from meetcore.adapters.http.openapi import openapi_document
from meetcore.adapters.http.operations import operations
from meetcore.adapters.http.provider_events import provider_event_routes
from meetcore.adapters.postgres.housekeeping import PostgresHousekeeping
from meetcore.adapters.postgres.rate_counters import PostgresRateCounters
from meetcore.adapters.queue.worker import WakeUpWorker
from meetcore.adapters.settings import Settings, load_settings
from meetcore.adapters.system import configure_logs
from meetcore.adapters.webhook_sender import AiohttpWebhookSender
from meetcore.adapters.worker.pump import Chore, Pump
from meetcore.domain.hosts import tiers_without_host
from meetcore.domain.idempotency import REMEMBERED_HOURS
from meetcore.ports.rate_counters import RateStoreAway
from meetcore.ports.store import StoreAway
from meetcore.providers import notice_readers, sandbox_pages
from meetcore.usecases.deliver_webhooks import DeliverWebhooks
from meetcore.wiring import Network, Wiring, admission, check_schema, wire

__all__ = ["Service", "app", "working"]

RATE_WINDOWS_KEPT_S = 600
SWEEP_EVERY_S = 2.0
PROVIDER_EVENTS_EVERY_S = 1.0
PROVIDER_EVENTS_KEPT = timedelta(days=7)
PURGE_EVERY_S = 60.0

log = structlog.get_logger("meetcore")


@asynccontextmanager
async def working(wiring: Wiring, threads: int = 1) -> AsyncIterator[Pump]:
    """A worker on this event loop, woken by the broker's messages."""
    settings, world = wiring.settings, wiring.world
    sender = AiohttpWebhookSender(
        wiring.network.resolver,
        settings.allowed_networks,
        ca_file=settings.webhook_ca_file or None,
        dial_overrides=wiring.network.dial_overrides,
        # As many as the pump keeps in flight, or posts to hanging receivers would keep all others waiting.
        max_connections=settings.webhook_posts_in_flight,
    )
    deliver = DeliverWebhooks(
        wiring.store,
        sender,
        settings.retry_schedule,
        world,
        lease_s=settings.webhook_lease_s,
        per_endpoint=settings.webhook_posts_per_endpoint,
        per_account=max(settings.webhook_posts_per_endpoint, settings.webhook_posts_in_flight // 4),
    )
    chores = (Chore("sweep", deliver.sweep, SWEEP_EVERY_S), *_chores(wiring))
    pump = Pump(deliver, chores, max_in_flight=settings.webhook_posts_in_flight)
    loop = asyncio.get_running_loop()
    bell = WakeUpWorker(wiring.broker, lambda: loop.call_soon_threadsafe(pump.wake), log, threads=threads)
    await sender.start()
    bell.start()
    task = asyncio.create_task(pump.run())
    try:
        yield pump
    finally:
        pump.stop()
        await task
        await asyncio.to_thread(bell.stop)
        await sender.close()


def _chores(wiring: Wiring) -> tuple[Chore, ...]:
    return (
        Chore("reconcile", wiring.reconcile.sweep, SWEEP_EVERY_S),
        Chore("keep time", wiring.keep_time.sweep, SWEEP_EVERY_S),
        Chore("host keys", wiring.replace_host_keys, SWEEP_EVERY_S),
        Chore("provider events", wiring.handle_provider_events, PROVIDER_EVENTS_EVERY_S, is_rung=True),
        Chore("purge", _purge(wiring), PURGE_EVERY_S),
    )


def _purge(wiring: Wiring) -> Callable[[], Awaitable[None]]:
    broom, counters = PostgresHousekeeping(wiring.pool), PostgresRateCounters(wiring.pool)

    async def purge() -> None:
        await broom.purge_idempotency(timedelta(hours=REMEMBERED_HOURS).total_seconds())
        await broom.purge_provider_events(PROVIDER_EVENTS_KEPT.total_seconds())
        with suppress(RateStoreAway):  # the next round is soon enough
            await counters.purge(int(wiring.world.now().timestamp()) - RATE_WINDOWS_KEPT_S)

    return purge


class Service:
    """The ASGI application: the API's gate, and beside it the pages that need no key.

    Args:
        settings: read from the environment when none are given, at start.
        network: how webhooks reach the world.
        extra_routes: further pages, outside the API.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        network: Network | None = None,
        extra_routes: Callable[[Wiring], Iterable[BaseRoute]] = lambda _: (),
    ) -> None:
        self._settings = settings
        self._network = network
        self._extra_routes = extra_routes
        self._gate: Gate | None = None
        self._pages = Starlette(lifespan=self._lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or run the lifespan."""
        if scope["type"] == "http" and self._gate is not None and _is_of_the_api(scope["path"]):
            await self._gate(scope, receive, send)
        else:
            await self._pages(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            settings = self._settings or load_settings()
            if not structlog.is_configured():
                configure_logs(settings.log_level)
            is_there = await _is_ready(settings)
            wiring = await stack.enter_async_context(wire(settings, self._network))
            if is_there:
                await _tell_of_tiers_without_host(wiring)
            admit = await stack.enter_async_context(admission(wiring))
            base_url = wiring.settings.base_url
            table = operations(wiring.use_cases)
            document = openapi_document(table, base_url)
            self._gate = Gate(table, admit, wiring.world, base_url, document)
            self._pages.router.routes[:] = [
                *_health_routes(wiring),
                *docs_routes(table),
                *sandbox_pages(wiring.video, wiring.queries, wiring.track, wiring.world),
                *provider_event_routes(
                    notice_readers(settings), wiring.receive_provider_event, wiring.world, base_url
                ),
                *self._extra_routes(wiring),
            ]
            if not str(wiring.settings.broker_url):
                await stack.enter_async_context(working(wiring))
            yield
            self._gate = None


async def _is_ready(settings: Settings) -> bool:
    """Whether the database is there and has the schema; while it is away, the service answers 503."""
    try:
        await asyncio.to_thread(check_schema, settings)
    except StoreAway:
        return False
    return True


async def _tell_of_tiers_without_host(wiring: Wiring) -> None:
    """They stay on sale, as hosts may be added any time; nobody else would notice before a customer does."""
    if not wiring.provider.abilities.has_hosts:
        return
    with suppress(StoreAway):
        hosts = await wiring.registry.list_hosts()
        lacking = tiers_without_host(wiring.settings.catalogue.on_sale(), hosts)
        if lacking:
            log.warning("tiers that no host can carry", tiers=[tier.id for tier in lacking])


def _is_of_the_api(path: str) -> bool:
    return path == API_ROOT or path.startswith(f"{API_ROOT}/")


def _health_routes(wiring: Wiring) -> list[Route]:
    async def live(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(_: Request) -> Response:
        try:
            await wiring.queries.ping()
        except StoreAway:
            return PlainTextResponse("the database does not answer\n", 503, {"Retry-After": "5"})
        return PlainTextResponse("ok\n")

    return [Route("/healthz", live), Route("/readyz", ready)]


app = Service()
