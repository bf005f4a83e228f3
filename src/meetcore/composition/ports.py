"""Every port of a process, typed by its protocol."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from enum import StrEnum

from attrs import frozen

from meetcore.ports.audio_editor import AudioEditor
from meetcore.ports.audit import LedgerAudit
from meetcore.ports.cipher import KeyedCipher
from meetcore.ports.clock import Clock
from meetcore.ports.document_printer import DocumentPrinter
from meetcore.ports.entropy import Entropy
from meetcore.ports.health import CheckHealth, HealthCheck
from meetcore.ports.housekeeping import Housekeeping
from meetcore.ports.identity_provider import IdentityProvider
from meetcore.ports.key_uses import KeyUses
from meetcore.ports.ledger_verification import VerificationLog
from meetcore.ports.lists import Lists
from meetcore.ports.mail_texts import MailTexts
from meetcore.ports.mailer import Mailer
from meetcore.ports.metrics import NO_METRICS, Metrics
from meetcore.ports.note_writer import NoteWriter
from meetcore.ports.partitions import Partitions
from meetcore.ports.passkey_verifier import PasskeyVerifier
from meetcore.ports.queries import Queries
from meetcore.ports.rate_counters import RateCounters
from meetcore.ports.recording_files import RecordingFiles
from meetcore.ports.registry import Registry
from meetcore.ports.request_log import RequestLog
from meetcore.ports.resolver import Resolver
from meetcore.ports.restores import Fence
from meetcore.ports.retention import RetentionStore
from meetcore.ports.store import Store
from meetcore.ports.tracing import NO_TRACING, Tracing
from meetcore.ports.transcriber import Transcriber
from meetcore.ports.video_provider import VideoProvider
from meetcore.ports.webhook_sender import WebhookSender
from meetcore.ports.worker_notifier import WorkerNotifier


class Part(StrEnum):
    """A part of the work of a process. A command that changes one record does none of them."""

    API = "api"
    WEBHOOKS = "webhooks"
    NOTES = "notes"


OpenVerifier = Callable[[], PasskeyVerifier]
"""Opens the verifier of passkeys, once."""
Listen = Callable[[Mapping[Part, Callable[[], object]], int], AbstractAsyncContextManager[object]]


def _receive_nothing(
    on_notify: Mapping[Part, Callable[[], object]], threads: int
) -> AbstractAsyncContextManager[object]:
    return nullcontext()


async def _need_nothing(now: datetime) -> None:
    """Leave the adapters as they are."""


async def _check_nothing() -> Sequence[HealthCheck]:
    """Check nothing."""
    return ()


@frozen
class NotePorts:
    """The ports of a process that writes notes.

    Without a transcriber, only recordings with a transcript get notes.
    """

    editor: AudioEditor
    transcriber: Transcriber | None
    note_writer: NoteWriter


@frozen
class MailPorts:
    """The ports of a process that sends mails."""

    mailer: Mailer
    texts: MailTexts


@frozen
class Ports:
    """Every port of a process; `sender` and `notes` are `None` where it does not do that part of the work.

    `identities` say who members are, and `console_identities` who operators are, where a provider is set.
    `passkeys` are there where browsers take them for the address of the service.
    `mails` are sent by a process that sends webhooks, where a mail server is named.

    `notifier` wakes the workers that send webhooks, `notes_notifier` those that write notes. `listen` calls
    a function for each notification of a part, by a number of threads, while its context lasts. `maintain`
    does what the adapters themselves need from time to time. A process that `lacks_notes` was to write notes
    and cannot: it reports those that stay due. `metrics` take counts and
    durations, `tracing` spans. Where there is no `verification_log`, the ledger is verified by hand only;
    where there are no `partitions`, those of the database are looked after by hand only. `lists` may read a
    standby, where one is named; without them `queries` are the lists. `memo_cipher` seals what providers keep
    with meetings; without it they keep nothing. `fence` is there where the store can be fenced.
    """

    clock: Clock
    entropy: Entropy
    store: Store
    queries: Queries
    registry: Registry
    audit: LedgerAudit
    housekeeping: Housekeeping
    key_uses: KeyUses
    request_log: RequestLog
    retention: RetentionStore
    counters: RateCounters
    notifier: WorkerNotifier
    notes_notifier: WorkerNotifier
    resolver: Resolver
    printer: DocumentPrinter
    provider: VideoProvider
    files: RecordingFiles
    sender: WebhookSender | None = None
    notes: NotePorts | None = None
    lacks_notes: bool = False
    mails: MailPorts | None = None
    passkeys: OpenVerifier | None = None
    identities: IdentityProvider | None = None
    console_identities: IdentityProvider | None = None
    listen: Listen = _receive_nothing
    maintain: Callable[[datetime], Awaitable[object]] = _need_nothing
    metrics: Metrics = NO_METRICS
    tracing: Tracing = NO_TRACING
    verification_log: VerificationLog | None = None
    lists: Lists | None = None
    partitions: Partitions | None = None
    check_health: CheckHealth = _check_nothing
    memo_cipher: KeyedCipher | None = None
    fence: Fence | None = None
