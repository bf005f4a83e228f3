"""The ports of a process, and the application on them: every use case once. Imports no technology.

Each group of use cases is imported and built on first use: a command needs few of them, and importing them
takes longer than it runs. A service builds all at its start. A process builds the application on the ports
that `infrastructure` opens, tests with fakes of the outside.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from meetcore.composition.policy import Policy, Reports, counted
from meetcore.domain.members.audit import SERVICE, ActionOrigin
from meetcore.ports.observability import NO_HOST, NO_METRICS, NO_TRACING
from meetcore.usecases.notes.downloads import MeasuredFiles
from meetcore.usecases.runtime import Runtime

if TYPE_CHECKING:
    from meetcore.composition.use_cases import Access, Meetings, Notes, Payments, Recordings
    from meetcore.ports.ai import AudioEditor, NoteWriter, Transcriber
    from meetcore.ports.figures import CheckHealth, CheckResult
    from meetcore.ports.identity import IdentityProvider, PasskeyVerifier
    from meetcore.ports.mails import Mailer, MailTexts
    from meetcore.ports.maintenance import Housekeeping, Partitions, RetentionStore
    from meetcore.ports.money import LedgerAudit, VerificationLog
    from meetcore.ports.observability import Metrics, Tracing
    from meetcore.ports.payments import PaymentGateway
    from meetcore.ports.queries import Lists, Queries
    from meetcore.ports.recording_files import RecordingFiles
    from meetcore.ports.requests import KeyUses, RateCounters, Registry, RequestLog
    from meetcore.ports.runtime import Clock, DocumentPrinter, Entropy, HolidayCalendar, WorkerNotifier
    from meetcore.ports.store import Store
    from meetcore.ports.video_provider import VideoProvider
    from meetcore.ports.webhook_sender import DocumentFetcher, Resolver, WebhookSender
    from meetcore.usecases.api import UseCases
    from meetcore.usecases.mails import MailQueue
    from meetcore.usecases.meetings.reconcile_provider import ReconcileProvider
    from meetcore.usecases.members.dashboard import ConsoleUseCases, DashboardUseCases
    from meetcore.usecases.money.verify_ledger import VerifyByHand, VerifyLedger
    from meetcore.usecases.notes.note_charges import NoteQueue
    from meetcore.usecases.requests.administration import Administration
    from meetcore.usecases.requests.admit import Admit
    from meetcore.usecases.requests.export import AccountData
    from meetcore.usecases.requests.grants import Grants
    from meetcore.usecases.runtime import PeriodicTask
    from meetcore.usecases.webhooks.deliver import DeliverWebhooks


class Part(StrEnum):
    """A part of the work of a process. A command that changes one record has none."""

    API = "api"
    WEBHOOKS = "webhooks"
    NOTES = "notes"


OpenVerifier = Callable[[], "PasskeyVerifier"]
"""Opens the verifier of passkeys, once."""
Listen = Callable[[Mapping[Part, Callable[[], object]], int], AbstractAsyncContextManager[object]]


def _receive_nothing(
    on_notify: Mapping[Part, Callable[[], object]], threads: int
) -> AbstractAsyncContextManager[object]:
    return nullcontext()


async def _need_nothing(now: datetime) -> None:
    """Leave the adapters as they are."""


async def _check_nothing() -> Mapping[str, CheckResult]:
    """Check nothing."""
    return {}


@frozen
class NotePorts:
    """The ports of a process that writes notes; without transcriber, of recordings with a transcript."""

    editor: AudioEditor
    transcriber: Transcriber | None
    note_writer: NoteWriter
    calendar: HolidayCalendar


@frozen
class MailPorts:
    """The ports of a process that sends mails."""

    mailer: Mailer
    texts: MailTexts


@frozen
class Ports:
    """Every port of a process; `sender` and `notes` are `None` where it does not do that part of the work.

    `identities` identify members and `console_identities` operators, where a provider is set. `passkeys` are
    there where browsers accept them for the address of the service. A process that sends webhooks sends
    `mails`, where a mail server is named.

    Without a `gateway` no credits are sold, without `documents` those of OAuth clients are not fetched.

    `notifier` wakes the workers that send webhooks, `notes_notifier` those that write notes. `listen` calls
    a function for each notification of a part, by a number of threads, while its context lasts. `maintain`
    is the periodic upkeep of the adapters. A process that `lacks_notes` should write notes and cannot: it
    reports those that stay due. Without `verification_log` the ledger is verified by hand only; without
    `partitions` the store has none. `lists` may read a standby; without them `queries` are the lists.
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
    gateway: PaymentGateway | None = None
    documents: DocumentFetcher | None = None
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


def build(
    ports: Ports, policy: Policy, reports: Reports | None = None, origin: ActionOrigin = SERVICE
) -> Application:
    """Build the application of a process; changes by administration or access have the `origin`."""
    reports = counted(reports or Reports(), ports.metrics)
    for tier in policy.catalogue.on_sale():
        ports.metrics.count(NO_HOST, tier.capacity, by=0)
    ports = evolve(ports, files=MeasuredFiles(ports.files, ports.metrics, ports.tracing))
    chain_key = policy.chain_keys[0] if policy.chain_keys else None
    runtime = Runtime(ports.clock, ports.entropy, chain_key, ports.metrics, ports.tracing)
    if policy.sends_mails:
        from meetcore.usecases.mails import CreditMails, MailQueue

        queue = MailQueue(runtime, policy.base_url, policy.sends_mails)
        runtime = evolve(runtime, low_mails=CreditMails(queue).low)
    return Application(ports, policy, reports, runtime, origin)


@frozen(slots=False, eq=False)
class Application:
    """The use cases of a process, and the periodic tasks of its workers."""

    ports: Ports
    policy: Policy
    reports: Reports
    runtime: Runtime
    origin: ActionOrigin = SERVICE

    @cached_property
    def administration(self) -> Administration:
        """Administration of accounts, keys, credits and hosts."""
        from meetcore.usecases.money.credit_postings import CreditPostings
        from meetcore.usecases.requests.administration import Administration

        ports = self.ports
        return Administration(
            ports.store, ports.registry, ports.notifier, self.runtime, self.policy.key_prefix, self.origin,
            postings=CreditPostings(ports.store, self.reports.failed_batch, self.runtime.low_mails),
            mails=self.mail_queue if self.policy.sends_mails else None,
        )  # fmt: skip

    @cached_property
    def account_data(self) -> AccountData:
        """The export and the erasure of an account."""
        from meetcore.usecases.requests.erasure import EraseAccount
        from meetcore.usecases.requests.export import AccountData, ExportAccount

        ports, kept = self.ports, self.policy.events_kept
        return AccountData(
            ExportAccount(ports.store, ports.queries, ports.registry, self.runtime, kept, self.origin),
            EraseAccount(ports.store, ports.queries, ports.notes_notifier, self.runtime, self.origin),
        )

    @cached_property
    def access(self) -> Access:
        """The use cases of sign-in and of people."""
        from meetcore.composition.use_cases import Access

        return Access(self)

    @cached_property
    def dashboard(self) -> DashboardUseCases:
        """The use cases of the dashboard."""
        from meetcore.composition.use_cases import build_dashboard

        return build_dashboard(self)

    @cached_property
    def console(self) -> ConsoleUseCases:
        """The use cases of the console."""
        from meetcore.composition.use_cases import build_console

        return build_console(self)

    @cached_property
    def mail_queue(self) -> MailQueue:
        """Puts mails into the outbox."""
        from meetcore.usecases.mails import MailQueue

        return MailQueue(self.runtime, self.policy.base_url, self.policy.sends_mails)

    @cached_property
    def ledger(self) -> VerifyLedger:
        """Verifies the ledger, a portion at a time."""
        from meetcore.usecases.money.verify_ledger import VerifyLedger

        return VerifyLedger(self.ports.audit, self.policy.chain_keys)

    @cached_property
    def verify_ledger(self) -> VerifyByHand:
        """Verifies the whole ledger."""
        from meetcore.usecases.money.verify_ledger import VerifyByHand

        return VerifyByHand(self.ledger, self.ports.verification_log, self.runtime)

    @cached_property
    def admit(self) -> Admit:
        """Admits requests."""
        from meetcore.composition.use_cases import build_admit

        return build_admit(self)

    @cached_property
    def api(self) -> UseCases:
        """The use cases of the API."""
        from meetcore.composition.use_cases import build_api

        return build_api(self)

    @cached_property
    def grants(self) -> Grants:
        """Grants of OAuth clients."""
        from meetcore.usecases.requests.grants import Grants, OAuthClients

        ports, policy = self.ports, self.policy
        clients = OAuthClients(ports.store, ports.counters, self.runtime, ports.documents)
        return Grants(ports.store, clients, self.runtime, policy.key_prefix, policy.base_url)

    @cached_property
    def meetings(self) -> Meetings:
        """The use cases that keep meetings in step with their provider."""
        from meetcore.composition.use_cases import Meetings

        return Meetings(self)

    @cached_property
    def payments(self) -> Payments:
        """The use cases of payments."""
        from meetcore.composition.use_cases import Payments

        return Payments(self)

    @cached_property
    def reconcile(self) -> ReconcileProvider:
        """Compares the database with the provider after a restore."""
        from meetcore.usecases.meetings.reconcile_provider import ReconcileProvider

        ports, meetings = self.ports, self.meetings
        return ReconcileProvider(
            ports.store, ports.registry, meetings.provider, meetings.cancellation, self.policy.catalogue,
            self.runtime, self.origin,
        )  # fmt: skip

    @cached_property
    def recordings(self) -> Recordings:
        """The use cases that keep recordings in step with their files."""
        from meetcore.composition.use_cases import Recordings

        return Recordings(self)

    @cached_property
    def note_queue(self) -> NoteQueue:
        """Queues notes."""
        from meetcore.usecases.notes.note_charges import NoteQueue

        policy = self.policy
        return NoteQueue(policy.catalogue, self.runtime, policy.note_writer, self.reports.failed_note)

    @cached_property
    def deliver(self) -> DeliverWebhooks | None:
        """Sends webhooks, where the process has the ports for it."""
        from meetcore.composition.use_cases import build_deliver

        return build_deliver(self)

    @cached_property
    def notes(self) -> Notes | None:
        """The use cases of a worker that writes notes, where the process has the ports for them."""
        from meetcore.composition.use_cases import Notes

        return None if self.ports.notes is None else Notes(self, self.ports.notes)

    @cached_property
    def periodic_tasks(self) -> Mapping[Part, Sequence[PeriodicTask]]:
        """The periodic tasks of each part of the work that the process can do."""
        from meetcore.composition.use_cases import periodic_tasks

        return periodic_tasks(self)
