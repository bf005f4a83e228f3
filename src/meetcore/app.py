"""The composition root: settings → adapters → use cases → the ASGI application and the worker.

`uvicorn meetcore.app:app` serves the API. Importing this builds nothing: settings are read and
connections made when a server starts the application.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta

import dramatiq
import structlog
from attrs import field, frozen
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from meetcore.adapters.http.calls import API_ROOT, UseCases
from meetcore.adapters.http.docs import docs_routes
from meetcore.adapters.http.gate import Gate
from meetcore.adapters.http.openapi import openapi_document
from meetcore.adapters.http.operations import operations
from meetcore.adapters.http.provider_events import provider_event_routes
from meetcore.adapters.memory.rate_counters import MemoryRateCounters
from meetcore.adapters.postgres.audit import PostgresLedgerAudit
from meetcore.adapters.postgres.housekeeping import PostgresHousekeeping
from meetcore.adapters.postgres.migrate import MigrationRefused, missing
from meetcore.adapters.postgres.pool import Pool, make_pool
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.postgres.rate_counters import PostgresRateCounters
from meetcore.adapters.postgres.registry import PostgresRegistry
from meetcore.adapters.postgres.store import PostgresStore
from meetcore.adapters.queue.broker import broker_from_url
from meetcore.adapters.queue.doorbell import DramatiqDoorbell
from meetcore.adapters.queue.worker import WakeUpWorker
from meetcore.adapters.rate_fallback import FallbackRateCounters
from meetcore.adapters.secrets import AesGcmCipher, keys_from_text
from meetcore.adapters.settings import Settings, SettingsRefused, load_settings
from meetcore.adapters.system import SystemClock, SystemEntropy, configure_logs
from meetcore.adapters.webhook_sender import AiohttpWebhookSender, SystemResolver
from meetcore.adapters.worker.pump import Chore, Pump
from meetcore.domain.idempotency import REMEMBERED_HOURS
from meetcore.ports.rate_counters import RateStoreAway
from meetcore.ports.resolver import Resolver
from meetcore.ports.store import StoreAway
from meetcore.ports.video_provider import VideoProvider
from meetcore.providers import chosen_provider, notice_readers, sandbox_pages
from meetcore.usecases.admit import Admit
from meetcore.usecases.bounded_provider import BoundedProvider
from meetcore.usecases.cancel_meeting import CancelMeeting
from meetcore.usecases.cancellation import Cancellation
from meetcore.usecases.create_meeting import CreateMeeting
from meetcore.usecases.deliver_webhooks import DeliverWebhooks
from meetcore.usecases.keep_time import KeepTime
from meetcore.usecases.operate import Operate
from meetcore.usecases.post_webhooks import ResendDelivery, SendTestEvent
from meetcore.usecases.provider_events import HandleProviderEvents, ReceiveProviderEvent
from meetcore.usecases.provision import Provisioner
from meetcore.usecases.reconcile_meetings import ReconcileMeetings
from meetcore.usecases.record_recording import RecordRecording
from meetcore.usecases.track_meeting import TrackMeeting
from meetcore.usecases.verify_ledger import VerifyLedger
from meetcore.usecases.webhooks import RegisterWebhook, RemoveWebhook, RotateSecret, UpdateWebhook
from meetcore.usecases.world import World

__all__ = ["Network", "Service", "Wiring", "app", "check_schema", "check_secrets", "wire", "working"]

RATE_WINDOWS_KEPT_S = 600
DOORBELL_SPACING_S = 0.02
SWEEP_EVERY_S = 2.0
PROVIDER_EVENTS_EVERY_S = 1.0
PROVIDER_EVENTS_KEPT = timedelta(days=7)
PURGE_EVERY_S = 60.0

log = structlog.get_logger("meetcore")


@frozen
class Network:
    """How webhooks reach the world; `meetcore dev` puts its inbox here.

    `dial_overrides` sends a made-up host to an address and port of this machine.
    """

    resolver: Resolver = field(factory=SystemResolver)
    dial_overrides: Mapping[str, tuple[str, int]] = field(factory=dict)


@frozen
class Wiring:
    """The adapters of one process and the use cases on them.

    `video` is the provider as it is; `provider` bounds its calls.
    """

    settings: Settings
    pool: Pool
    broker: dramatiq.Broker
    doorbell: DramatiqDoorbell
    world: World
    store: PostgresStore
    queries: PostgresQueries
    registry: PostgresRegistry
    video: VideoProvider
    network: Network

    @property
    def provider(self) -> VideoProvider:
        """The provider, each call within its time limit."""
        return BoundedProvider(self.video)

    @property
    def provisioner(self) -> Provisioner:
        """Finishes or undoes a meeting in progress."""
        return Provisioner(self.store, self.world)

    @property
    def cancellation(self) -> Cancellation:
        """Carries a cancellation to its end."""
        return Cancellation(self.store, self.provider, self.world)

    @property
    def reconcile(self) -> ReconcileMeetings:
        """Sees to what dead processes left."""
        return ReconcileMeetings(
            self.store, self.provider, self.provisioner, self.cancellation, self.doorbell, self.world,
            lease_s=self.settings.meeting_lease_s,
        )  # fmt: skip

    @property
    def keep_time(self) -> KeepTime:
        """Ends the meetings whose time is over."""
        return KeepTime(
            self.store, self.provider, self.doorbell, self.world, again_s=self.settings.meeting_lease_s
        )

    @property
    def track(self) -> TrackMeeting:
        """Told what a provider says of its meetings."""
        return TrackMeeting(self.store, self.doorbell, self.world)

    @property
    def receive_provider_event(self) -> ReceiveProviderEvent:
        """Takes in what a provider tells."""
        return ReceiveProviderEvent(self.store, self.doorbell, self.world)

    @property
    def handle_provider_events(self) -> HandleProviderEvents:
        """Works on what providers told."""
        record = RecordRecording(self.store, self.world)
        return HandleProviderEvents(self.store, self.track, record, self.world)

    @property
    def operate(self) -> Operate:
        """The operator's use cases."""
        return Operate(self.store, self.registry, self.doorbell, self.world, self.settings.key_prefix)

    @property
    def verify_ledger(self) -> VerifyLedger:
        """Proves the ledger."""
        return VerifyLedger(PostgresLedgerAudit(self.pool))

    @property
    def use_cases(self) -> UseCases:
        """What the API calls."""
        store, doorbell, world, queries = self.store, self.doorbell, self.world, self.queries
        catalogue = self.settings.catalogue
        networks, lease_s = self.settings.allowed_networks, self.settings.meeting_lease_s
        return UseCases(
            CreateMeeting(
                store, queries, self.provider, self.provisioner, self.reconcile, catalogue, doorbell, world,
                lease_s=lease_s,
            ),
            CancelMeeting(
                store, queries, self.provider, self.cancellation, self.reconcile, doorbell, world,
                lease_s=lease_s,
            ),
            RegisterWebhook(store, self.network.resolver, networks, world),
            UpdateWebhook(store, doorbell),
            RemoveWebhook(store),
            RotateSecret(store, doorbell, world),
            SendTestEvent(store, doorbell, world),
            ResendDelivery(store, doorbell, world),
            queries,
            catalogue,
        )  # fmt: skip


def check_secrets(settings: Settings) -> tuple[bytes, ...]:
    """The keys that secrets are kept under; the first seals, all open.

    Raises:
        SettingsRefused: there is none, or one is malformed.
    """
    try:
        return keys_from_text(str(settings.secrets_key))
    except ValueError as error:
        raise SettingsRefused(str(error)) from None


def check_schema(settings: Settings) -> None:
    """Make sure that the database has the schema of this release.

    Raises:
        SettingsRefused: it lacks a migration, or knows one that this release does not.
        StoreAway: it does not answer.
    """
    try:
        lacking = missing(settings.require_database())
    except MigrationRefused as error:
        raise SettingsRefused(str(error)) from None
    if lacking:
        raise SettingsRefused("the schema is not up to date: run `meetcore migrate` first")


@asynccontextmanager
async def wire(settings: Settings, network: Network | None = None) -> AsyncIterator[Wiring]:
    """Build the adapters of one process and take them down at the end.

    A database that is away does not keep a process from starting: it answers 503 meanwhile.

    Raises:
        SettingsRefused: the database, the secrets key or what the provider needs is not set, or the key
            is malformed.
    """
    url = settings.require_database()
    keys = check_secrets(settings)
    cipher = AesGcmCipher(keys)
    pool = make_pool(url, max_size=settings.database_pool_size)
    broker = broker_from_url(str(settings.broker_url) or None)
    doorbell = DramatiqDoorbell(broker, log, spacing_s=DOORBELL_SPACING_S)
    await pool.open(wait=False)
    try:
        async with chosen_provider(settings, pool, keys) as provider:
            yield Wiring(
                settings, pool, broker, doorbell, World(SystemClock(), SystemEntropy()),
                PostgresStore(pool, cipher), PostgresQueries(pool, cipher), PostgresRegistry(pool),
                provider, network or Network(),
            )  # fmt: skip
    finally:
        await asyncio.to_thread(doorbell.close)
        await pool.close()


@asynccontextmanager
async def admission(wiring: Wiring) -> AsyncIterator[Admit]:
    """The gate's keeper, with the rate store that is configured and memory behind it."""
    settings = wiring.settings
    url = str(settings.rate_store_url)
    async with AsyncExitStack() as stack:
        if url:
            from meetcore.adapters.redis.rate_counters import RedisRateCounters  # an extra

            redis = RedisRateCounters(url)
            stack.push_async_callback(redis.aclose)
            counters = FallbackRateCounters(redis, MemoryRateCounters(), log)
        else:
            counters = FallbackRateCounters(PostgresRateCounters(wiring.pool), MemoryRateCounters(), log)
        yield Admit(wiring.queries, counters, settings.quotas, settings.key_prefix)


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
            with suppress(StoreAway):  # it answers 503 until the database is back
                await asyncio.to_thread(check_schema, settings)
            wiring = await stack.enter_async_context(wire(settings, self._network))
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
