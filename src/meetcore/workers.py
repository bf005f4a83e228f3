"""The workers: what runs beside the API, in its own processes or on its event loop.

Two parts that need nothing of each other, each with its queue: one sends webhooks and sees to meetings, one
measures recordings and writes notes. Owns which chores there are and how often they come round. Refuses to
know what they do.
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
from meetcore.adapters.queue.worker import WakeUpWorker
from meetcore.adapters.webhook_sender import AiohttpWebhookSender
from meetcore.adapters.worker.note_pump import NotePump
from meetcore.adapters.worker.pump import Pump
from meetcore.adapters.worker.rounds import Chore
from meetcore.assistants import Assistants, chosen_assistants
from meetcore.domain.idempotency import REMEMBERED_HOURS
from meetcore.operation_logs import log_disabled_endpoint, log_failed_delivery, log_failed_note
from meetcore.ports.audio_editor import AudioEditor
from meetcore.ports.deliveries import ClaimLimits
from meetcore.ports.rate_counters import RateStoreAway
from meetcore.ports.recordings import RecordingTask
from meetcore.provers import cores
from meetcore.usecases.deliver_webhooks import DeliverWebhooks
from meetcore.usecases.end_note import EndNote
from meetcore.usecases.end_recordings import ExpireRecordings
from meetcore.usecases.hear_recording import HearRecording
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
    """What a worker does."""

    WEBHOOKS = "webhooks"
    NOTES = "notes"


@asynccontextmanager
async def working(
    wiring: Wiring, threads: int = 1, parts: tuple[Part, ...] = tuple(Part)
) -> AsyncIterator[None]:
    """A worker on this event loop, woken by the broker's messages.

    Args:
        wiring: the process.
        threads: those that listen to the broker.
        parts: what it does.
    """
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        bells: dict[str, Wake] = {}
        if Part.WEBHOOKS in parts:
            bells[QUEUE] = await stack.enter_async_context(_sending(wiring))
        if Part.NOTES in parts:
            bells[NOTES_QUEUE] = await stack.enter_async_context(_writing(wiring))

        def ringing(wake: Wake) -> Callable[[], object]:
            return lambda: loop.call_soon_threadsafe(wake)

        on_wake: Mapping[str, Callable[[], object]] = {queue: ringing(wake) for queue, wake in bells.items()}
        bell = WakeUpWorker(wiring.broker, on_wake, log, threads=threads)
        bell.start()
        stack.push_async_callback(asyncio.to_thread, bell.stop)
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
        # As many as the pump keeps in flight, or posts to hanging receivers would keep all others waiting.
        max_connections=settings.webhook_posts_in_flight,
    )
    deliver = DeliverWebhooks(
        wiring.store,
        sender,
        settings.retry_schedule,
        wiring.world,
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
    chores = (Chore("sweep", deliver.sweep, SWEEP_EVERY_S), *_chores(wiring))
    pump = Pump(deliver, chores, max_in_flight=settings.webhook_posts_in_flight)
    await sender.start()
    try:
        async with _running(pump):
            yield pump.wake
    finally:
        await sender.close()


@asynccontextmanager
async def _writing(wiring: Wiring) -> AsyncIterator[Wake]:
    settings = wiring.settings
    editor = AvAudioEditor(
        settings.scratch_directory or None, processors=cores(), share=settings.media_cpu_percent / 100 or None
    )
    async with chosen_assistants(settings) as assistants:
        pump = NotePump(_notes(wiring, editor, assistants), _recording_chores(wiring, editor))
        async with _running(pump):
            yield pump.wake


@asynccontextmanager
async def _running(pump: Pump | NotePump) -> AsyncIterator[None]:
    task = asyncio.create_task(pump.run())
    try:
        yield
    finally:
        pump.stop()
        await task


def _notes(wiring: Wiring, editor: AudioEditor, assistants: Assistants) -> WriteNotes:
    settings, store = wiring.settings, wiring.store
    return WriteNotes(
        store,
        wiring.look_for_files,
        HearRecording(store, wiring.files, editor, assistants.transcriber),
        assistants.note_writer,
        EndNote(store, settings.catalogue, wiring.doorbell, wiring.world, log_failed_note),
        wiring.world,
        settings.note_schedule,
        in_flight=settings.notes_in_flight,
        lease_s=settings.note_lease_s,
        transcript_wait_s=settings.transcript_wait_s,
    )


def _chores(wiring: Wiring) -> tuple[Chore, ...]:
    return (
        Chore("reconcile", wiring.reconcile.sweep, SWEEP_EVERY_S),
        Chore("orphans", wiring.remove_orphans.sweep, SWEEP_EVERY_S),
        Chore("keep time", wiring.keep_time.sweep, SWEEP_EVERY_S),
        Chore("host keys", wiring.replace_host_keys, SWEEP_EVERY_S),
        Chore("provider events", wiring.handle_provider_events, PROVIDER_EVENTS_EVERY_S, is_rung=True),
        Chore("purge", _purge(wiring), PURGE_EVERY_S),
    )


def _recording_chores(wiring: Wiring, editor: AudioEditor) -> tuple[Chore, ...]:
    bells = wiring.doorbell, wiring.notes_doorbell
    work = WorkOnRecordings(
        wiring.store, wiring.files, editor, wiring.note_queue, *bells, wiring.world,
        lease_s=wiring.settings.note_lease_s, tell=_tell_of_recording,
    )  # fmt: skip
    expire = ExpireRecordings(wiring.store, *bells, wiring.world)
    return (
        Chore("recordings", work, RECORDINGS_EVERY_S, is_rung=True),
        Chore("expiry", expire, EXPIRY_EVERY_S),
    )


def _tell_of_recording(task: RecordingTask, fault: Exception) -> None:
    recording = task.recording
    log.warning(
        "recording not worked on", recording_id=str(recording.id), status=recording.status.value,
        tries=task.tries, cause=str(fault),
    )  # fmt: skip


def _purge(wiring: Wiring) -> Callable[[], Awaitable[None]]:
    broom, counters = PostgresHousekeeping(wiring.pool), PostgresRateCounters(wiring.pool)

    async def purge() -> None:
        await broom.purge_idempotency(timedelta(hours=REMEMBERED_HOURS).total_seconds())
        await broom.purge_provider_events(PROVIDER_EVENTS_KEPT.total_seconds())
        if sealed := await wiring.store.seal_join_urls():
            log.info("join links sealed", count=sealed)
        await broom.purge_creations(wiring.world.now().astimezone(UTC).date() - timedelta(days=1))
        with suppress(RateStoreAway):  # the next round is soon enough
            await counters.purge(int(wiring.world.now().timestamp()) - RATE_WINDOWS_KEPT_S)

    return purge
