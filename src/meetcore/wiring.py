"""The wiring: settings → adapters → use cases, for one process.

Owns which adapter fills which port. Serving and working are up to `app` and the command line.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import dramatiq
import structlog
from attrs import field, frozen

from meetcore.adapters.api.operation import UseCases
from meetcore.adapters.memory.rate_counters import MemoryRateCounters
from meetcore.adapters.postgres.audit import PostgresLedgerAudit
from meetcore.adapters.postgres.migrate import MigrationRefused, missing
from meetcore.adapters.postgres.pool import Pool, make_pool
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.postgres.rate_counters import PostgresRateCounters
from meetcore.adapters.postgres.registry import PostgresRegistry
from meetcore.adapters.postgres.store import PostgresStore
from meetcore.adapters.queue.broker import NOTES_QUEUE, broker_from_url
from meetcore.adapters.queue.worker_notifier import DramatiqWorkerNotifier
from meetcore.adapters.rate_fallback import FallbackRateCounters
from meetcore.adapters.secrets import AesGcmCipher, derive, keys_from_text
from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.adapters.system import SystemClock, SystemEntropy
from meetcore.adapters.webhook_sender import LookupLimits, SystemResolver
from meetcore.domain.meetings.provider_events import EventOutcome
from meetcore.domain.money.chain_keys import ChainKey
from meetcore.operation_logs import log_failed_note, log_takeover
from meetcore.ports.host_keys import DueHostKey
from meetcore.ports.provider_events import ClaimedEvent
from meetcore.ports.recording_files import RecordingFiles
from meetcore.ports.resolver import Resolver
from meetcore.ports.video_provider import ProviderRefused, VideoProvider
from meetcore.providers import chosen_provider, files_of
from meetcore.usecases.administration import Administration
from meetcore.usecases.admit import Admit
from meetcore.usecases.bounded_provider import BoundedProvider
from meetcore.usecases.cancel_meeting import CancelMeeting
from meetcore.usecases.cancellation import Cancellation
from meetcore.usecases.collect_recording_files import CollectRecordingFiles
from meetcore.usecases.create_meeting import CapacityRefusal, CreateMeeting
from meetcore.usecases.create_note import CreateNote, NoteQueue
from meetcore.usecases.download_recording import DownloadRecording
from meetcore.usecases.duplicates import DuplicateLimit
from meetcore.usecases.end_due_meetings import EndDueMeetings
from meetcore.usecases.estimate import Estimate
from meetcore.usecases.expire_recordings import DeleteRecording
from meetcore.usecases.key_lookups import DigestMemory, KeyLookups
from meetcore.usecases.post_webhooks import ResendDelivery, SendTestEvent
from meetcore.usecases.provider_events import HandleProviderEvents, ReceiveProviderEvent
from meetcore.usecases.provision import Provisioner
from meetcore.usecases.reconcile_meetings import ReconcileMeetings
from meetcore.usecases.remove_orphans import OrphanReport, RemoveOrphans
from meetcore.usecases.replace_host_keys import ReplaceHostKeys
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.seal_ledger import SealLedger
from meetcore.usecases.sync_recording_files import SyncRecordingFiles
from meetcore.usecases.track_meeting import TrackMeeting
from meetcore.usecases.verify_ledger import VerifyLedger
from meetcore.usecases.webhooks import RegisterWebhook, RemoveWebhook, RotateSecret, UpdateWebhook

__all__ = ["Network", "Wiring", "admission", "check_schema", "check_secrets", "system_network", "wire"]

NOTIFICATION_SPACING_S = 0.02

log = structlog.get_logger("meetcore")


@frozen
class Network:
    """How webhooks reach their receivers; `meetcore dev` puts its inbox here.

    `dial_overrides` sends a made-up host to an address and port of this machine.
    """

    resolver: Resolver = field(factory=SystemResolver)
    dial_overrides: Mapping[str, tuple[str, int]] = field(factory=dict)


def system_network(settings: Settings) -> Network:
    """The network as the system knows it, with the limits on look-ups that are set."""
    limits = LookupLimits(settings.webhook_lookups_per_account, settings.webhook_lookups_per_domain)
    return Network(SystemResolver(limits=limits))


@frozen
class Wiring:
    """The adapters of one process and the use cases on them.

    `video` is the provider as it is; `provider` bounds its calls. `notifier` wakes the delivery workers,
    `notes_notifier` the note workers. `link_keys` are for download links, `chain_keys` for the ledger.
    """

    settings: Settings
    pool: Pool
    broker: dramatiq.Broker
    notifier: DramatiqWorkerNotifier
    notes_notifier: DramatiqWorkerNotifier
    runtime: Runtime
    store: PostgresStore
    queries: PostgresQueries
    registry: PostgresRegistry
    video: VideoProvider
    files: RecordingFiles
    link_keys: tuple[bytes, ...] = field(repr=False)
    network: Network
    chain_keys: tuple[ChainKey, ...] = field(default=(), repr=False)

    @property
    def provider(self) -> VideoProvider:
        """The provider, each call within its time limit."""
        return BoundedProvider(self.video)

    @property
    def provisioner(self) -> Provisioner:
        """Finishes or undoes a meeting in progress."""
        return Provisioner(self.store, self.runtime)

    @property
    def cancellation(self) -> Cancellation:
        """Completes a cancellation."""
        return Cancellation(self.store, self.provider, self.runtime)

    @property
    def reconcile(self) -> ReconcileMeetings:
        """Recovers work of dead processes."""
        return ReconcileMeetings(
            self.store, self.provider, self.provisioner, self.cancellation, self.notifier, self.runtime,
            lease_s=self.settings.meeting_lease_s, on_takeover=log_takeover,
            orphan_window_s=self.settings.orphan_window_s,
        )  # fmt: skip

    @property
    def remove_orphans(self) -> RemoveOrphans:
        """Removes meetings that exist only at the provider."""
        return RemoveOrphans(
            self.store, self.provider, self.runtime, self.settings.orphan_window_s, _log_orphan
        )

    @property
    def end_due_meetings(self) -> EndDueMeetings:
        """Ends the meetings whose time is over."""
        return EndDueMeetings(
            self.store, self.provider, self.sync_recording_files, self.notifier, self.runtime,
            again_s=self.settings.meeting_lease_s,
        )  # fmt: skip

    @property
    def replace_host_keys(self) -> ReplaceHostKeys:
        """Gives hosts another key."""
        return ReplaceHostKeys(
            self.store, self.provider, self.runtime, _log_kept_key, self.settings.meeting_lease_s
        )

    @property
    def track(self) -> TrackMeeting:
        """Applies the provider's lifecycle events to meetings."""
        return TrackMeeting(self.store, self.notifier, self.runtime)

    @property
    def receive_provider_event(self) -> ReceiveProviderEvent:
        """Stores events of providers."""
        return ReceiveProviderEvent(self.store, self.notifier, self.runtime)

    @property
    def handle_provider_events(self) -> HandleProviderEvents:
        """Handles stored events of providers."""
        return HandleProviderEvents(self.store, self.track, self.record, self.runtime, _log_handled_event)

    @property
    def record(self) -> CollectRecordingFiles:
        """Gathers a meeting's files."""
        return CollectRecordingFiles(
            self.store, self.notes_notifier, self.runtime, self.settings.recording_retention
        )

    @property
    def sync_recording_files(self) -> SyncRecordingFiles:
        """Looks up the files of a recording at the provider."""
        return SyncRecordingFiles(self.store, self.files, self.record, self.runtime)

    @property
    def download_recording(self) -> DownloadRecording:
        """Makes and resolves download links."""
        return DownloadRecording(self.queries, self.link_keys)

    @property
    def note_queue(self) -> NoteQueue:
        """Queues notes for the workers."""
        return NoteQueue(self.settings.catalogue, self.runtime, log_failed_note)

    @property
    def administration(self) -> Administration:
        """The operator's use cases."""
        return Administration(
            self.store, self.registry, self.notifier, self.runtime, self.settings.key_prefix
        )

    @property
    def verify_ledger(self) -> VerifyLedger:
        """Proves the ledger."""
        return VerifyLedger(PostgresLedgerAudit(self.pool), self.chain_keys)

    @property
    def seal_ledger(self) -> SealLedger:
        """Fixes what was written before entries were chained under a key."""
        return SealLedger(PostgresLedgerAudit(self.pool), self.chain_keys, self.runtime)

    @property
    def use_cases(self) -> UseCases:
        """The use cases of the API."""
        store, notifier, runtime, queries = self.store, self.notifier, self.runtime, self.queries
        catalogue = self.settings.catalogue
        settings, lease_s = self.settings, self.settings.meeting_lease_s
        return UseCases(
            CreateMeeting(
                store, queries, self.provider, self.provisioner, self.reconcile, catalogue, notifier, runtime,
                lease_s=lease_s, share_percent=self.settings.account_creations_percent,
                report=_log_shortage, orphan_window_s=self.settings.orphan_window_s,
            ),
            CancelMeeting(
                store, queries, self.provider, self.cancellation, self.reconcile, notifier, runtime,
                lease_s=lease_s, limit=DuplicateLimit(self.settings.duplicates_waiting),
            ),
            RegisterWebhook(
                store, self.network.resolver, settings.allowed_networks, runtime,
                denied_networks=settings.denied_networks, most=settings.webhook_endpoints_per_account,
            ),
            UpdateWebhook(store, notifier),
            RemoveWebhook(store),
            RotateSecret(store, notifier, runtime),
            SendTestEvent(store, notifier, runtime),
            ResendDelivery(store, notifier, runtime),
            self.download_recording,
            DeleteRecording(store, notifier, self.notes_notifier, runtime),
            CreateNote(store, self.note_queue, self.notes_notifier),
            Estimate(catalogue, self.provider.abilities),
            queries,
            catalogue,
            self.settings.base_url,
        )  # fmt: skip


def _log_kept_key(due: DueHostKey, refusal: ProviderRefused) -> None:
    log.warning("host key not replaced", host=due.provider_user_id, cause=str(refusal))


def _log_orphan(report: OrphanReport) -> None:
    check = report.check
    named: dict[str, object] = {"meeting_id": str(check.meeting.id), "host": check.provider_user_id}
    if report.provider_meeting_id is not None:
        named["provider_meeting_id"] = report.provider_meeting_id
    if report.error is None:
        log.warning("orphan removed", **named)
    elif report.provider_meeting_id is not None:
        log.error("orphan not removed", cause=str(report.error), failures=check.failures + 1, **named)
    else:
        log.warning("orphans not looked for", cause=str(report.error), failures=check.failures + 1, **named)


def _log_shortage(report: CapacityRefusal) -> None:
    details = dict(report.refusal.details)
    if report.account_id is not None:
        details["account_id"] = str(report.account_id)
    log.warning(
        "no host for a meeting", reason=type(report.refusal).__name__, seats=report.seats,
        start_at=report.start_at.isoformat(), **details,
    )  # fmt: skip


def _log_handled_event(claimed: ClaimedEvent, outcome: EventOutcome) -> None:
    event = claimed.event
    log.info(
        "provider event handled", provider=event.provider, kind=event.kind.value,
        provider_meeting_id=event.provider_meeting_id, outcome=outcome.name.lower(), tries=claimed.tries,
    )  # fmt: skip


def check_secrets(settings: Settings) -> tuple[bytes, ...]:
    """Return the keys that secrets are encrypted with; the first seals, all open.

    Raises:
        SettingsRefused: no key is set, or one is malformed.
    """
    try:
        return keys_from_text(str(settings.secrets_key))
    except ValueError as error:
        raise SettingsRefused(str(error)) from None


def check_schema(settings: Settings) -> None:
    """Make sure that the database has the schema of this release.

    Raises:
        SettingsRefused: it lacks a migration, or has one that this release does not know.
        StoreUnavailable: it does not answer.
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

    A process starts without a reachable database: it answers 503 meanwhile.

    Raises:
        SettingsRefused: the database, the secrets key or what the provider needs is not set, or the key
            is malformed.
    """
    url = settings.require_database()
    keys = check_secrets(settings)
    cipher = AesGcmCipher(keys)
    chain_keys = tuple(ChainKey.of(derive(key, "ledger chain")) for key in keys)
    pool = make_pool(url, max_size=settings.database_pool_size, deadline_s=settings.database_timeout_s)
    broker = broker_from_url(str(settings.broker_url) or None)
    notifier = DramatiqWorkerNotifier(broker, log, spacing_s=NOTIFICATION_SPACING_S)
    notes_notifier = DramatiqWorkerNotifier(broker, log, queue=NOTES_QUEUE, spacing_s=NOTIFICATION_SPACING_S)
    await pool.open(wait=False)
    try:
        async with chosen_provider(settings, pool, keys) as provider:
            yield Wiring(
                settings, pool, broker, notifier, notes_notifier,
                Runtime(SystemClock(), SystemEntropy(), chain_keys[0]),
                PostgresStore(pool, cipher), PostgresQueries(pool, cipher), PostgresRegistry(pool),
                provider, files_of(provider), tuple(derive(key, "download links") for key in keys),
                network or system_network(settings), chain_keys,
            )  # fmt: skip
    finally:
        await asyncio.to_thread(notifier.close)
        await asyncio.to_thread(notes_notifier.close)
        await pool.close()


@asynccontextmanager
async def admission(wiring: Wiring) -> AsyncIterator[Admit]:
    """Build authentication and rate limits, with the configured rate store and memory as its fallback."""
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
        duplicates = DuplicateLimit(settings.duplicates_waiting)
        lookups = KeyLookups(
            max(1, settings.database_pool_size * settings.unknown_keys_pool_percent // 100),
            DigestMemory(timedelta(seconds=settings.unknown_key_remembered_s)),
        )
        yield Admit(wiring.queries, counters, settings.quotas, settings.key_prefix, duplicates, lookups)
