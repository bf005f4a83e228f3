"""Open the ports of a process: the adapters that its settings name.

What only some processes need is imported where it is opened: a command starts in half a second.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial

import dramatiq
import structlog
from attrs import evolve, field, frozen

from meetcore.adapters.memory.rate_counters import MemoryRateCounters
from meetcore.adapters.pdf import PdfPrinter
from meetcore.adapters.postgres.fence import PostgresFence
from meetcore.adapters.postgres.housekeeping import PostgresHousekeeping
from meetcore.adapters.postgres.key_uses import PostgresKeyUses
from meetcore.adapters.postgres.ledger.audit import PostgresLedgerAudit
from meetcore.adapters.postgres.ledger.verification import PostgresVerificationLog
from meetcore.adapters.postgres.migrate import needed
from meetcore.adapters.postgres.migration_steps import MigrationRefused
from meetcore.adapters.postgres.partitions.maintenance import PostgresPartitions
from meetcore.adapters.postgres.pool import Pool, make_pool
from meetcore.adapters.postgres.pooler import MissingSettings, check_role_settings, check_sent_settings
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.postgres.rate_counters import PostgresRateCounters
from meetcore.adapters.postgres.registry import PostgresRegistry
from meetcore.adapters.postgres.request_log import PostgresRequestLog
from meetcore.adapters.postgres.retention import PostgresRetention
from meetcore.adapters.postgres.standby import Standby, StandbyLists
from meetcore.adapters.postgres.store import PostgresStore
from meetcore.adapters.queue.broker import NOTES_QUEUE, QUEUE, broker_from_url, queue_named
from meetcore.adapters.queue.worker_notifier import DramatiqWorkerNotifier
from meetcore.adapters.rate_fallback import FallbackRateCounters
from meetcore.adapters.secrets import AesGcmCipher, derive
from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.adapters.system import SystemClock, SystemEntropy, cores
from meetcore.adapters.webhook_sender import LookupLimits, SystemResolver
from meetcore.composition.application import Application, build
from meetcore.composition.health import health_checks
from meetcore.composition.identities import open_identities
from meetcore.composition.mails import mail_ports, sends_mails
from meetcore.composition.metrics import process_metrics, sample_pool
from meetcore.composition.notes_extra import can_make_notes
from meetcore.composition.operation_logs import LOGGED
from meetcore.composition.passkeys import passkey_verifier
from meetcore.composition.policy import Policy
from meetcore.composition.ports import NotePorts, Part, Ports
from meetcore.composition.providers import open_provider
from meetcore.composition.secret_keys import LINK_PURPOSE, chain_secrets, check_secrets
from meetcore.composition.tracing import open_tracing
from meetcore.domain.members.sign_ups import SignUpMode
from meetcore.domain.money.chain_keys import ChainKey
from meetcore.ports.cipher import Cipher
from meetcore.ports.deliveries import ClaimLimits
from meetcore.ports.lists import Lists
from meetcore.ports.mailer import Mailer
from meetcore.ports.metrics import NO_METRICS, Metrics
from meetcore.ports.rate_counters import RateCounters, RateStoreUnavailable
from meetcore.ports.resolver import Resolver
from meetcore.ports.tracing import Tracing
from meetcore.ports.webhook_sender import WebhookSender

NOTIFICATION_SPACING_S = 0.02
RATE_WINDOWS_KEPT_S = 600
STANDBY_DEADLINE_S = 3
"""Seconds for which a connection to a standby is lent; the standby ends a statement 2 s earlier."""
COMMAND = "command"
"""The role of a process that does one thing that an operator asked for."""
_QUEUES = {Part.WEBHOOKS: QUEUE, Part.NOTES: NOTES_QUEUE}

log = structlog.get_logger("meetcore")


@frozen
class Network:
    """How webhooks and mails reach their receivers; `meetcore dev` puts its inboxes here.

    `dial_overrides` sends a made-up host to an address and port of this machine. A `mailer` takes mails
    instead of the server that the settings name.
    """

    resolver: Resolver = field(factory=SystemResolver)
    dial_overrides: Mapping[str, tuple[str, int]] = field(factory=dict)
    mailer: Mailer | None = None


def system_network(settings: Settings) -> Network:
    """The network as the system knows it, with the limits on look-ups that are set."""
    limits = LookupLimits(settings.webhook_lookups_per_account, settings.webhook_lookups_per_domain)
    return Network(SystemResolver(limits=limits))


def check_schema(settings: Settings) -> None:
    """Make sure that this release runs on the schema of the database, and that sessions have what they need.

    Raises:
        SettingsRefused: it lacks a migration that this release needs, or has one that needs a newer
            release; or there is a pooler, and the role lacks settings that each session needs, or it was not
            declared and drops them.
        StoreUnavailable: it does not answer.
    """
    url = settings.require_database()
    try:
        lacking = needed(url)
        check_settings = check_role_settings if settings.is_pooled else check_sent_settings
        check_settings(url, settings.database_timeout_s)
    except (MigrationRefused, MissingSettings) as error:
        raise SettingsRefused(str(error)) from None
    if lacking:
        raise SettingsRefused("the schema is not up to date: run `meetcore migrate` first")


def policy_of(settings: Settings) -> Policy:
    """Read the policy of an application from the settings.

    Raises:
        SettingsRefused: the secrets key is not set, or malformed.
    """
    keys = check_secrets(settings)
    in_flight = settings.webhook_posts_in_flight
    return Policy(
        catalogue=settings.catalogue,
        base_url=settings.base_url,
        key_prefix=settings.key_prefix,
        four_eyes_above=settings.four_eyes_above or None,
        quotas=settings.quotas,
        duplicates_waiting=settings.duplicates_waiting,
        unknown_keys_at_once=max(1, settings.database_pool_size * settings.unknown_keys_pool_percent // 100),
        unknown_key_remembered=timedelta(seconds=settings.unknown_key_remembered_s),
        meeting_lease_s=settings.meeting_lease_s,
        partition_rules=settings.partition_rules,
        orphan_window_s=settings.orphan_window_s,
        account_creations_percent=settings.account_creations_percent,
        allowed_networks=settings.allowed_networks,
        denied_networks=settings.denied_networks,
        endpoints_per_account=settings.webhook_endpoints_per_account,
        retry_schedule=settings.retry_schedule,
        webhook_lease_s=settings.webhook_lease_s,
        claim_limits=ClaimLimits(
            total=in_flight,
            per_endpoint=settings.webhook_posts_per_endpoint,
            per_account=max(settings.webhook_posts_per_endpoint, in_flight // 4),
            per_host=settings.webhook_posts_per_host,
            per_host_per_s=settings.webhook_posts_per_host_per_s,
        ),
        recording_retention=settings.recording_retention,
        retention=settings.retention,
        note_schedule=settings.note_schedule,
        note_lease_s=settings.note_lease_s,
        notes_in_flight=settings.notes_in_flight,
        transcript_wait_s=settings.transcript_wait_s,
        verify_every_s=settings.verify_every_s,
        mail_limits=settings.mail_limits,
        sign_up=SignUpMode(settings.sign_up),
        link_keys=tuple(derive(key, LINK_PURPOSE) for key in keys),
        chain_keys=tuple(ChainKey.of(secret) for secret in chain_secrets(settings, keys)),
    )


@asynccontextmanager
async def open_application(
    settings: Settings, network: Network | None = None, parts: Collection[Part] = ()
) -> AsyncIterator[Application]:
    """Build the application on the ports that the settings name, and close them at the end.

    Raises:
        SettingsRefused: see `open_ports`.
    """
    network = network or system_network(settings)
    policy = evolve(policy_of(settings), sends_mails=sends_mails(settings, network.mailer))
    async with open_ports(settings, network, parts) as ports:
        yield build(ports, policy, LOGGED)


@asynccontextmanager
async def open_ports(
    settings: Settings, network: Network | None = None, parts: Collection[Part] = ()
) -> AsyncIterator[Ports]:
    """Open the ports of one process and close them at the end.

    A process starts without a reachable database: it answers 503 meanwhile.

    Args:
        settings: which adapters, and how they are reached.
        network: how webhooks reach their receivers; by the system if `None`.
        parts: the parts of the work that it does.

    Raises:
        SettingsRefused: the database, the secrets key or what the provider needs is not set, or the key
            is malformed.
    """
    keys = check_secrets(settings)
    cipher = AesGcmCipher(keys)
    network = network or system_network(settings)
    async with AsyncExitStack() as stack:
        metrics = process_metrics()
        tracing = await stack.enter_async_context(open_tracing(settings, role_of(parts)))
        pool = await stack.enter_async_context(_open_pool(settings, metrics, tracing, role_of(parts)))
        broker = broker_from_url(str(settings.broker_url) or None, is_quorum=settings.has_quorum_queues)
        queues = {
            part: queue_named(name, is_quorum=settings.has_quorum_queues) for part, name in _QUEUES.items()
        }
        notifier, notes_notifier = [
            _open_notifier(stack, broker, queues[part]) for part in (Part.WEBHOOKS, Part.NOTES)
        ]
        provider, files = await stack.enter_async_context(open_provider(settings, pool, keys, tracing))
        store = PostgresStore(pool, cipher)
        ports = Ports(
            SystemClock(), SystemEntropy(), store, PostgresQueries(pool, cipher),
            PostgresRegistry(pool, cipher), PostgresLedgerAudit(pool), PostgresHousekeeping(pool),
            PostgresKeyUses(pool), PostgresRequestLog(pool), PostgresRetention(pool),
            MemoryRateCounters(), notifier, notes_notifier, network.resolver,
            PdfPrinter(settings.font_files), provider, files,
            listen=partial(_listening, broker, queues),
            maintain=_maintenance(store, PostgresRateCounters(pool)),
            metrics=metrics, tracing=tracing,
            lists=await stack.enter_async_context(_open_lists(settings, pool, cipher, metrics, parts)),
            verification_log=PostgresVerificationLog(pool), partitions=_partitions(settings),
            memo_cipher=cipher, fence=PostgresFence(pool),
        )  # fmt: skip
        if Part.API in parts:
            checks = health_checks(settings, has_inbox=network.mailer is not None)
            members, operators = await stack.enter_async_context(open_identities(settings))
            ports = evolve(
                ports, passkeys=passkey_verifier(settings.base_url), check_health=checks, identities=members,
                console_identities=operators,
            )  # fmt: skip
            ports = evolve(ports, counters=_open_counters(stack, settings, pool, metrics))
        if Part.WEBHOOKS in parts:
            sender = await stack.enter_async_context(_open_sender(settings, network))
            ports = evolve(ports, sender=sender, mails=mail_ports(settings, network.mailer))
        if Part.NOTES in parts:
            own = None
            if can_make_notes():
                own = await stack.enter_async_context(_open_notes(settings, tracing))
            ports = evolve(ports, notes=own, lacks_notes=own is None)
        yield ports


def role_of(parts: Collection[Part]) -> str:
    """Return what a process with these parts of the work is: `serve`, `worker` or `command`."""
    if Part.API in parts:
        return "serve"
    return "worker" if parts else COMMAND


@asynccontextmanager
async def _open_pool(
    settings: Settings, metrics: Metrics, tracing: Tracing, role: str
) -> AsyncIterator[Pool]:
    pool = make_pool(
        settings.require_database(),
        # A command may hold one connection for all its time: `Fence.alone`.
        max_size=max(2, settings.database_pool_size) if role == COMMAND else settings.database_pool_size,
        deadline_s=settings.database_timeout_s,
        is_pooled=settings.is_pooled,
        role=role,
        metrics=metrics,
        passes_fence=role == COMMAND,
    )
    pool.tracing = tracing
    async with _opened(pool):
        yield pool


@asynccontextmanager
async def _opened(pool: Pool) -> AsyncIterator[None]:
    """Open a pool whose server need not be there, and report its state where something keeps it."""
    await pool.open(wait=False)
    sampling = None if pool.metrics is NO_METRICS else asyncio.create_task(sample_pool(pool, pool.metrics))
    try:
        yield
    finally:
        if sampling is not None:
            sampling.cancel()
        await pool.close()


@asynccontextmanager
async def _open_lists(
    settings: Settings, primary: Pool, cipher: Cipher, metrics: Metrics, parts: Collection[Part]
) -> AsyncIterator[Lists | None]:
    """Open the standby that lists are read from, where one is named; it need not be there."""
    url = str(settings.database_read_url)
    if not url or Part.API not in parts:
        yield None
        return
    pool = make_pool(
        url,
        max_size=settings.database_read_pool_size,
        deadline_s=min(settings.database_timeout_s, STANDBY_DEADLINE_S),
        is_pooled=settings.is_pooled,
        role=f"{role_of(parts)} lists",
        metrics=metrics,
        serves="lists",
    )
    pool.tracing = primary.tracing
    async with _opened(pool):
        yield StandbyLists(Standby(pool, settings.database_read_lag_s, metrics), primary, cipher)


def _partitions(settings: Settings) -> PostgresPartitions | None:
    """Those of the database, where it is reached without a pooler."""
    url = settings.direct_database
    return None if url is None else PostgresPartitions(url)


def _open_notifier(stack: AsyncExitStack, broker: dramatiq.Broker, queue: str) -> DramatiqWorkerNotifier:
    notifier = DramatiqWorkerNotifier(broker, log, queue=queue, spacing_s=NOTIFICATION_SPACING_S)
    stack.push_async_callback(asyncio.to_thread, notifier.close)
    return notifier


def _open_counters(stack: AsyncExitStack, settings: Settings, pool: Pool, metrics: Metrics) -> RateCounters:
    """Open the configured rate store, with memory as its fallback."""
    shared: RateCounters = PostgresRateCounters(pool)
    if url := str(settings.rate_store_url):
        from meetcore.adapters.redis.rate_counters import RedisRateCounters  # an extra

        shared = redis = RedisRateCounters(url)
        stack.push_async_callback(redis.aclose)
    return FallbackRateCounters(shared, MemoryRateCounters(), log, metrics=metrics)


@asynccontextmanager
async def _open_sender(settings: Settings, network: Network) -> AsyncIterator[WebhookSender]:
    from meetcore.adapters.webhook_sender import AsyncioWebhookSender

    sender = AsyncioWebhookSender(
        network.resolver,
        settings.allowed_networks,
        denied_networks=settings.denied_networks,
        ca_file=settings.webhook_ca_file or None,
        dial_overrides=network.dial_overrides,
        # As many as the delivery worker keeps in flight: posts to hanging receivers must not delay others.
        max_connections=settings.webhook_posts_in_flight,
    )
    await sender.start()
    try:
        yield sender
    finally:
        await sender.close()


@asynccontextmanager
async def _open_notes(settings: Settings, tracing: Tracing) -> AsyncIterator[NotePorts]:
    from meetcore.adapters.media import AvAudioEditor
    from meetcore.composition.ai import open_ai

    editor = AvAudioEditor(
        settings.scratch_directory or None, processors=cores(), share=settings.media_cpu_percent / 100 or None
    )
    async with open_ai(settings, tracing) as (transcriber, note_writer):
        yield NotePorts(editor, transcriber, note_writer)


@asynccontextmanager
async def _listening(
    broker: dramatiq.Broker,
    queues: Mapping[Part, str],
    on_notify: Mapping[Part, Callable[[], object]],
    threads: int,
) -> AsyncIterator[None]:
    from meetcore.adapters.queue.worker import NotificationConsumer

    on_wake = {queues[part]: wake for part, wake in on_notify.items()}
    consumer = NotificationConsumer(broker, on_wake, log, threads=threads)
    consumer.start()
    try:
        yield
    finally:
        await asyncio.to_thread(consumer.stop)


def _maintenance(
    store: PostgresStore, counters: PostgresRateCounters
) -> Callable[[datetime], Awaitable[None]]:
    async def maintain(now: datetime) -> None:
        if sealed := await store.seal_join_urls():
            log.info("join links sealed", count=sealed)
        with suppress(RateStoreUnavailable):  # the next round is soon enough
            await counters.purge(int(now.timestamp()) - RATE_WINDOWS_KEPT_S)

    return maintain
