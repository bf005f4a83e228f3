"""The ports of a process: the adapters that its settings name.

Adapters that only some processes need are imported where they are opened: a command starts in half a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, TypeVar, cast

import structlog
from attrs import evolve, field, frozen

from meetcore.adapters.in_process import FallbackRateCounters, InProcessRateCounters
from meetcore.adapters.postgres.pool import Pool, make_pool
from meetcore.adapters.postgres.requests.registry import PostgresRegistry
from meetcore.adapters.postgres.store import PostgresStore, load_repositories
from meetcore.adapters.secrets import AesGcmCipher
from meetcore.adapters.settings import Settings
from meetcore.adapters.settings.plugins import RATE_COUNTERS, SENDERS
from meetcore.adapters.system import SystemClock, SystemEntropy, cores
from meetcore.composition.application import Application, NotePorts, Part, Ports, build
from meetcore.composition.configuration import check_secrets, policy_of
from meetcore.composition.gateways import open_gateway
from meetcore.composition.observability import LOGGED, open_tracing, process_metrics, sample_pool
from meetcore.composition.plugins import OwnPorts, ServiceParts, open_documents, open_named
from meetcore.composition.providers import can_make_notes, mail_ports, open_ai, open_provider, sends_mails
from meetcore.domain.members.audit import SERVICE, ActionOrigin
from meetcore.ports.observability import NO_METRICS
from meetcore.ports.recording_files import NoRecordingFiles
from meetcore.ports.requests import RateStoreUnavailable

if TYPE_CHECKING:
    from meetcore.adapters.postgres.requests.sealed_values import PostgresSealedValues
    from meetcore.ports import mails, maintenance, queries, runtime, video_provider, webhook_sender
    from meetcore.ports.observability import Metrics, Tracing
    from meetcore.ports.recording_files import RecordingFiles

NOTIFICATION_SPACING_S = 0.02
RATE_WINDOWS_KEPT_S = 600
STANDBY_DEADLINE_S = 3
"""Seconds for which a connection to a standby is lent; the standby ends a statement 2 s earlier."""
COMMAND = "command"
"""The role of a process that runs one command of an operator."""

T = TypeVar("T")

log = structlog.get_logger("meetcore")


def _system_resolver() -> webhook_sender.Resolver:
    from meetcore.adapters.webhook_sender import SystemResolver

    return SystemResolver()


@frozen
class Network:
    """The way of webhooks and mails to their receivers, where `meetcore dev` puts its inboxes.

    `dial_overrides` maps a made-up host to an address and port of this machine. A `mailer` takes mails
    instead of the server that the settings name.
    """

    resolver: webhook_sender.Resolver = field(factory=_system_resolver)
    dial_overrides: Mapping[str, tuple[str, int]] = field(factory=dict)
    mailer: mails.Mailer | None = None


@asynccontextmanager
async def open_application(
    settings: Settings,
    network: Network | None = None,
    parts: Collection[Part] = (),
    origin: ActionOrigin = SERVICE,
    own: OwnPorts | None = None,
) -> AsyncIterator[Application]:
    """Build the application, with `origin` as of `application.build`, on the ports of `open_ports`."""
    mailer = _mailer(network, own or OwnPorts())
    policy = evolve(policy_of(settings), sends_mails=sends_mails(settings, mailer))
    if own is not None and own.note_writer is not None:
        policy = evolve(policy, note_writer=own.note_writer.name)
    async with open_ports(settings, network, parts, own) as ports:
        yield build(ports, policy, LOGGED, origin)


def _mailer(network: Network | None, own: OwnPorts) -> mails.Mailer | None:
    return own.mailer or (None if network is None else network.mailer)


@asynccontextmanager
async def open_ports(
    settings: Settings,
    network: Network | None = None,
    parts: Collection[Part] = (),
    own: OwnPorts | None = None,
) -> AsyncIterator[Ports]:
    """Open the ports of one process for parts of the work, but for its `own`, on a network; close them.

    A process starts without a reachable database: it answers 503 meanwhile. Raises `SettingsRefused` where
    the database, the secrets key or a setting of an adapter is missing or malformed.
    """
    keys = check_secrets(settings)
    cipher = AesGcmCipher(keys)
    made, own = _at_once if parts else _on_demand, own or OwnPorts()
    async with AsyncExitStack() as stack:
        metrics = process_metrics()
        tracing = await stack.enter_async_context(open_tracing(settings, role_of(parts)))
        pool = await stack.enter_async_context(_open_pool(settings, metrics, tracing, role_of(parts)))
        postgres, queue = (
            cache(partial(_Postgres, pool, cipher)),
            cache(partial(_Queue, settings, stack, metrics)),
        )
        there = cache(lambda: network or Network())
        service = ServiceParts(settings, keys, pool)
        opened = cache(partial(_open_provider, own, service, stack, tracing))
        has_gateway = own.gateway is not None or settings.payment_gateway != "none"
        store = PostgresStore(pool, cipher)
        ports = Ports(
            SystemClock(), SystemEntropy(), store, made(lambda: postgres().queries),
            PostgresRegistry(pool, cipher), made(lambda: postgres().audit),
            made(lambda: postgres().housekeeping), made(lambda: postgres().key_uses),
            made(lambda: postgres().request_log), made(lambda: postgres().retention), InProcessRateCounters(),
            made(lambda: queue().notifier), made(lambda: queue().notes_notifier),
            made(lambda: there().resolver), made(lambda: _printer(settings)),
            made(lambda: opened()[0]), made(lambda: opened()[1]),
            made(lambda: own.gateway or open_gateway(service, stack)) if has_gateway else None,
            listen=lambda on_notify, threads: _listening(queue(), on_notify, threads),
            metrics=metrics, tracing=tracing,
            lists=await stack.enter_async_context(_open_lists(settings, pool, cipher, metrics, parts)),
            verification_log=made(lambda: postgres().verification_log),
            partitions=made(lambda: _partitions(settings)),
        )  # fmt: skip
        if parts:
            load_repositories()
            ports = evolve(ports, maintain=_maintenance(pool))
        outbound = cache(
            lambda: evolve(service, resolver=there().resolver, dial_overrides=there().dial_overrides)
        )
        if Part.API in parts:
            from meetcore.composition.doctor import health_checks
            from meetcore.composition.providers import open_identities, passkey_verifier

            members, operators = await stack.enter_async_context(open_identities(settings))
            name = settings.counters_name
            shared = own.counters or open_named(RATE_COUNTERS, name, service, stack, tracing)
            ports = evolve(
                ports, counters=FallbackRateCounters(shared, InProcessRateCounters(), log, metrics=metrics),
                identities=members, console_identities=operators,
                passkeys=passkey_verifier(settings.base_url),
                check_health=health_checks(settings, has_inbox=there().mailer is not None),
                documents=open_documents(outbound(), stack),
            )  # fmt: skip
        if Part.WEBHOOKS in parts:
            sender = own.sender or open_named(SENDERS, settings.sender, outbound(), stack, tracing)
            ports = evolve(ports, sender=sender, mails=mail_ports(service, stack, _mailer(network, own)))
        if Part.NOTES in parts:
            notes = _open_notes(own, service, stack, tracing) if can_make_notes() else None
            ports = evolve(ports, notes=notes, lacks_notes=notes is None)
        yield ports


@asynccontextmanager
async def open_sealed_values(settings: Settings) -> AsyncIterator[PostgresSealedValues]:
    """Open the sealed values of the database, on connections of their own; raises `SettingsRefused`."""
    from meetcore.adapters.postgres.requests.sealed_values import PostgresSealedValues

    pool = make_pool(
        settings.require_database(),
        max_size=2,
        deadline_s=settings.database_timeout_s,
        is_pooled=settings.is_pooled,
    )
    await pool.open(wait=False)
    try:
        yield PostgresSealedValues(pool, AesGcmCipher(check_secrets(settings)))
    finally:
        await pool.close()


def _at_once(make: Callable[[], T]) -> T:
    return make()


def _on_demand(make: Callable[[], T]) -> T:
    """Return a proxy of an adapter, which imports and makes it on first use: for commands."""
    return cast(T, _OnDemand(make))


class _OnDemand:
    def __init__(self, make: Callable[[], object]) -> None:
        self._made = cache(make)

    def __getattr__(self, name: str) -> object:
        return getattr(self._made(), name)


def served_parts(settings: Settings) -> tuple[Part, ...]:
    """Return the parts of a process of the API: all of them where no broker is named."""
    return (Part.API,) if str(settings.broker_url) else tuple(Part)


def role_of(parts: Collection[Part]) -> str:
    """Return the role of a process with these parts: `serve`, `worker` or `command`."""
    if Part.API in parts:
        return "serve"
    return "worker" if parts else COMMAND


@asynccontextmanager
async def _open_pool(
    settings: Settings, metrics: Metrics, tracing: Tracing, role: str
) -> AsyncIterator[Pool]:
    pool = make_pool(
        settings.require_database(),
        max_size=settings.database_pool_size,
        deadline_s=settings.database_timeout_s,
        is_pooled=settings.is_pooled,
        role=role,
        metrics=metrics,
    )
    pool.tracing = tracing
    async with _opened(pool):
        yield pool


@asynccontextmanager
async def _opened(pool: Pool) -> AsyncIterator[None]:
    """Open a pool, with or without its server, and report its state to metrics."""
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
    settings: Settings, primary: Pool, cipher: runtime.Cipher, metrics: Metrics, parts: Collection[Part]
) -> AsyncIterator[queries.Lists | None]:
    """Open the standby that lists are read from, where one is named, with or without its server."""
    url = str(settings.database_read_url)
    if not url or Part.API not in parts:
        yield None
        return
    from meetcore.adapters.postgres.standby import MOST_LAG_S, Standby, StandbyLists

    pool = make_pool(
        url,
        # Lists are a part of the reads: half as many connections as to the primary.
        max_size=max(1, settings.database_pool_size // 2),
        deadline_s=min(settings.database_timeout_s, STANDBY_DEADLINE_S),
        is_pooled=settings.is_pooled,
        role=f"{role_of(parts)} lists",
        metrics=metrics,
        serves="lists",
    )
    pool.tracing = primary.tracing
    async with _opened(pool):
        yield StandbyLists(Standby(pool, MOST_LAG_S, metrics), primary, cipher)


class _Postgres:
    """The adapters of the database that most commands do not need."""

    def __init__(self, pool: Pool, cipher: AesGcmCipher) -> None:
        from meetcore.adapters.postgres.money.verification import PostgresLedgerAudit, PostgresVerificationLog
        from meetcore.adapters.postgres.queries import PostgresQueries
        from meetcore.adapters.postgres.requests.request_log import PostgresKeyUses, PostgresRequestLog
        from meetcore.adapters.postgres.requests.retention import PostgresHousekeeping, PostgresRetention

        self.queries = PostgresQueries(pool, cipher)
        self.audit = PostgresLedgerAudit(pool)
        self.housekeeping = PostgresHousekeeping(pool)
        self.key_uses = PostgresKeyUses(pool)
        self.request_log = PostgresRequestLog(pool)
        self.retention = PostgresRetention(pool)
        self.verification_log = PostgresVerificationLog(pool)


class _Queue:
    """The broker that the settings name, and its notifiers of the workers of each part."""

    def __init__(self, settings: Settings, stack: AsyncExitStack, metrics: Metrics) -> None:
        from meetcore.adapters.queue import (
            NOTES_QUEUE,
            QUEUE,
            DramatiqWorkerNotifier,
            broker_from_url,
            queue_named,
        )

        self.metrics = metrics
        is_quorum = settings.has_quorum_queues
        self.broker = broker_from_url(str(settings.broker_url) or None, is_quorum=is_quorum)
        self.names = {
            Part.WEBHOOKS: queue_named(QUEUE, is_quorum=is_quorum),
            Part.NOTES: queue_named(NOTES_QUEUE, is_quorum=is_quorum),
        }
        self.notifier, self.notes_notifier = [
            DramatiqWorkerNotifier(
                self.broker, log, queue=name, spacing_s=NOTIFICATION_SPACING_S, metrics=metrics
            )
            for name in self.names.values()
        ]
        for each in (self.notifier, self.notes_notifier):
            stack.push_async_callback(asyncio.to_thread, each.close)


def _printer(settings: Settings) -> runtime.DocumentPrinter:
    from meetcore.adapters.pdf import PdfPrinter

    return PdfPrinter(settings.font_files)


def _partitions(settings: Settings) -> maintenance.Partitions:
    from meetcore.adapters.postgres.partitions import PostgresPartitions

    return PostgresPartitions(settings.direct_database or settings.require_database())


def _open_provider(
    own: OwnPorts, service: ServiceParts, stack: AsyncExitStack, tracing: Tracing
) -> tuple[video_provider.VideoProvider, RecordingFiles]:
    if own.provider is None:
        return open_provider(service, stack, tracing)
    return own.provider, own.files or NoRecordingFiles(own.provider.abilities.name)


def _open_notes(own: OwnPorts, service: ServiceParts, stack: AsyncExitStack, tracing: Tracing) -> NotePorts:
    from meetcore.adapters.media import AvAudioEditor
    from meetcore.adapters.public_holidays import HolidaysCalendar

    settings = service.settings
    editor = AvAudioEditor(
        settings.scratch_directory or None, processors=cores(), share=settings.media_cpu_percent / 100 or None
    )
    transcriber, note_writer = open_ai(service, stack, tracing, own)
    return NotePorts(editor, transcriber, note_writer, HolidaysCalendar())


@asynccontextmanager
async def _listening(
    queue: _Queue, on_notify: Mapping[Part, Callable[[], object]], threads: int
) -> AsyncIterator[None]:
    from meetcore.adapters.queue import NotificationConsumer

    on_wake = {queue.names[part]: wake for part, wake in on_notify.items()}
    consumer = NotificationConsumer(queue.broker, on_wake, log, threads=threads, metrics=queue.metrics)
    consumer.start()
    try:
        yield
    finally:
        await asyncio.to_thread(consumer.stop)


def _maintenance(pool: Pool) -> Callable[[datetime], Awaitable[None]]:
    from meetcore.adapters.postgres.requests.rate_counters import PostgresRateCounters

    counters = PostgresRateCounters(pool)

    async def maintain(now: datetime) -> None:
        with suppress(RateStoreUnavailable):  # the next round is soon enough
            await counters.purge(int(now.timestamp()) - RATE_WINDOWS_KEPT_S)

    return maintain
