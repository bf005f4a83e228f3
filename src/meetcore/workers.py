"""The workers: background work, in its own processes or on the event loop of the API.

Two independent parts, each with its queue: one sends webhooks and maintains meetings, one measures recordings
and writes notes. Owns the periodic tasks and their intervals.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, timedelta
from enum import StrEnum

import structlog

from meetcore.adapters.media import AvAudioEditor
from meetcore.adapters.postgres.housekeeping import PostgresHousekeeping
from meetcore.adapters.postgres.rate_counters import PostgresRateCounters
from meetcore.adapters.queue.broker import NOTES_QUEUE, QUEUE
from meetcore.adapters.queue.worker import NotificationConsumer
from meetcore.adapters.webhook_sender import AiohttpWebhookSender
from meetcore.adapters.worker.delivery_worker import DeliveryWorker
from meetcore.adapters.worker.note_worker import NoteWorker
from meetcore.adapters.worker.scheduler import PeriodicTask
from meetcore.assistants import Assistants, chosen_assistants
from meetcore.domain.requests.idempotency import KEY_RETENTION_HOURS
from meetcore.operation_logs import log_disabled_endpoint, log_failed_delivery, log_failed_note
from meetcore.ports.audio_editor import AudioEditor
from meetcore.ports.deliveries import ClaimLimits
from meetcore.ports.rate_counters import RateStoreUnavailable
from meetcore.ports.recordings import RecordingTask
from meetcore.provers import cores
from meetcore.usecases.deliver_webhooks import DeliverWebhooks
from meetcore.usecases.expire_recordings import ExpireRecordings
from meetcore.usecases.finalize_note import FinalizeNote
from meetcore.usecases.transcribe_recording import TranscribeRecording
from meetcore.usecases.work_on_recordings import WorkOnRecordings
from meetcore.usecases.write_notes import WriteNotes
from meetcore.wiring import Wiring

__all__ = ["Part", "working"]

RATE_WINDOWS_KEPT_S = 600
SWEEP_EVERY_S = 2.0
PROVIDER_EVENTS_EVERY_S = 1.0
PROVIDER_EVENTS_KEPT = timedelta(days=7)
PURGE_EVERY_S = 60.0
RECORDINGS_EVERY_S = 1.0
EXPIRY_EVERY_S = 30.0

log = structlog.get_logger("meetcore")

Wake = Callable[[], None]


class Part(StrEnum):
    """A part of the work."""

    WEBHOOKS = "webhooks"
    NOTES = "notes"


@asynccontextmanager
async def working(
    wiring: Wiring, threads: int = 1, parts: tuple[Part, ...] = tuple(Part)
) -> AsyncIterator[None]:
    """Run a worker on this event loop, woken by the broker's messages.

    Args:
        wiring: the process.
        threads: the number of threads that listen to the broker.
        parts: the parts of the work it does.
    """
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        wakes: dict[str, Wake] = {}
        if Part.WEBHOOKS in parts:
            wakes[QUEUE] = await stack.enter_async_context(_sending(wiring))
        if Part.NOTES in parts:
            wakes[NOTES_QUEUE] = await stack.enter_async_context(_writing(wiring))

        def waker(wake: Wake) -> Callable[[], object]:
            return lambda: loop.call_soon_threadsafe(wake)

        on_wake: Mapping[str, Callable[[], object]] = {queue: waker(wake) for queue, wake in wakes.items()}
        consumer = NotificationConsumer(wiring.broker, on_wake, log, threads=threads)
        consumer.start()
        stack.push_async_callback(asyncio.to_thread, consumer.stop)
        yield


@asynccontextmanager
async def _sending(wiring: Wiring) -> AsyncIterator[Wake]:
    settings = wiring.settings
    sender = AiohttpWebhookSender(
        wiring.network.resolver,
        settings.allowed_networks,
        denied_networks=settings.denied_networks,
        ca_file=settings.webhook_ca_file or None,
        dial_overrides=wiring.network.dial_overrides,
        # As many as the delivery worker keeps in flight: posts to hanging receivers must not delay others.
        max_connections=settings.webhook_posts_in_flight,
    )
    deliver = DeliverWebhooks(
        wiring.store,
        sender,
        settings.retry_schedule,
        wiring.runtime,
        lease_s=settings.webhook_lease_s,
        limits=ClaimLimits(
            total=settings.webhook_posts_in_flight,
            per_endpoint=settings.webhook_posts_per_endpoint,
            per_account=max(settings.webhook_posts_per_endpoint, settings.webhook_posts_in_flight // 4),
            per_host=settings.webhook_posts_per_host,
            per_host_per_s=settings.webhook_posts_per_host_per_s,
        ),
        on_failed=log_failed_delivery,
        on_disabled=log_disabled_endpoint,
    )
    periodic_tasks = (PeriodicTask("sweep", deliver.sweep, SWEEP_EVERY_S), *_periodic_tasks(wiring))
    worker = DeliveryWorker(deliver, periodic_tasks, max_in_flight=settings.webhook_posts_in_flight)
    await sender.start()
    try:
        async with _running(worker):
            yield worker.wake
    finally:
        await sender.close()


@asynccontextmanager
async def _writing(wiring: Wiring) -> AsyncIterator[Wake]:
    settings = wiring.settings
    editor = AvAudioEditor(
        settings.scratch_directory or None, processors=cores(), share=settings.media_cpu_percent / 100 or None
    )
    async with chosen_assistants(settings) as assistants:
        worker = NoteWorker(_notes(wiring, editor, assistants), _recording_tasks(wiring, editor))
        async with _running(worker):
            yield worker.wake


@asynccontextmanager
async def _running(worker: DeliveryWorker | NoteWorker) -> AsyncIterator[None]:
    task = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await task


def _notes(wiring: Wiring, editor: AudioEditor, assistants: Assistants) -> WriteNotes:
    settings, store = wiring.settings, wiring.store
    return WriteNotes(
        store,
        wiring.sync_recording_files,
        TranscribeRecording(store, wiring.files, editor, assistants.transcriber),
        assistants.note_writer,
        FinalizeNote(store, settings.catalogue, wiring.notifier, wiring.runtime, log_failed_note),
        wiring.runtime,
        settings.note_schedule,
        in_flight=settings.notes_in_flight,
        lease_s=settings.note_lease_s,
        transcript_wait_s=settings.transcript_wait_s,
    )


def _periodic_tasks(wiring: Wiring) -> tuple[PeriodicTask, ...]:
    return (
        PeriodicTask("reconcile", wiring.reconcile.sweep, SWEEP_EVERY_S),
        PeriodicTask("orphans", wiring.remove_orphans.sweep, SWEEP_EVERY_S),
        PeriodicTask("keep time", wiring.end_due_meetings.sweep, SWEEP_EVERY_S),
        PeriodicTask("host keys", wiring.replace_host_keys, SWEEP_EVERY_S),
        PeriodicTask(
            "provider events", wiring.handle_provider_events, PROVIDER_EVENTS_EVERY_S, runs_on_notify=True
        ),
        PeriodicTask("purge", _purge(wiring), PURGE_EVERY_S),
    )


def _recording_tasks(wiring: Wiring, editor: AudioEditor) -> tuple[PeriodicTask, ...]:
    notifiers = wiring.notifier, wiring.notes_notifier
    work = WorkOnRecordings(
        wiring.store, wiring.files, editor, wiring.note_queue, *notifiers, wiring.runtime,
        lease_s=wiring.settings.note_lease_s, report=_log_failed_recording,
    )  # fmt: skip
    expire = ExpireRecordings(wiring.store, *notifiers, wiring.runtime)
    return (
        PeriodicTask("recordings", work, RECORDINGS_EVERY_S, runs_on_notify=True),
        PeriodicTask("expiry", expire, EXPIRY_EVERY_S),
    )


def _log_failed_recording(task: RecordingTask, fault: Exception) -> None:
    recording = task.recording
    log.warning(
        "recording not worked on", recording_id=str(recording.id), status=recording.status.value,
        tries=task.tries, cause=str(fault),
    )  # fmt: skip


def _purge(wiring: Wiring) -> Callable[[], Awaitable[None]]:
    housekeeping, counters = PostgresHousekeeping(wiring.pool), PostgresRateCounters(wiring.pool)

    async def purge() -> None:
        await housekeeping.purge_idempotency(timedelta(hours=KEY_RETENTION_HOURS).total_seconds())
        await housekeeping.purge_provider_events(PROVIDER_EVENTS_KEPT.total_seconds())
        if sealed := await wiring.store.seal_join_urls():
            log.info("join links sealed", count=sealed)
        await housekeeping.purge_creations(wiring.runtime.now().astimezone(UTC).date() - timedelta(days=1))
        with suppress(RateStoreUnavailable):  # the next round is soon enough
            await counters.purge(int(wiring.runtime.now().timestamp()) - RATE_WINDOWS_KEPT_S)

    return purge
