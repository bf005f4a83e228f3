"""Build the application: every use case once, on the ports of a process. Imports no technology.

Tests build it on the memory adapters, a process on what `infrastructure` opens.
"""

from collections.abc import Mapping, Sequence

from attrs import evolve, field, frozen

from meetcore.composition.access import Access, build_access
from meetcore.composition.counted_reports import counted
from meetcore.composition.dashboard import build_console, build_dashboard
from meetcore.composition.periodic_tasks import periodic_tasks
from meetcore.composition.policy import Policy, Reports
from meetcore.composition.ports import NotePorts, Part, Ports
from meetcore.composition.work import Meetings, Notes, Recordings, Work
from meetcore.domain.members.audit import ActionOrigin
from meetcore.usecases.account_data import AccountData
from meetcore.usecases.account_turns import AccountTurns
from meetcore.usecases.administration import Administration
from meetcore.usecases.admit import Admit
from meetcore.usecases.api import UseCases
from meetcore.usecases.bounded_provider import BoundedProvider
from meetcore.usecases.cancel_meeting import CancelMeeting
from meetcore.usecases.cancellation import Cancellation
from meetcore.usecases.collect_recording_files import CollectRecordingFiles
from meetcore.usecases.collect_requests import CollectRequests
from meetcore.usecases.console import ConsoleUseCases
from meetcore.usecases.create_meeting import CreateMeeting
from meetcore.usecases.create_note import CreateNote, NoteQueue
from meetcore.usecases.credit_postings import CreditPostings
from meetcore.usecases.dashboard import DashboardUseCases
from meetcore.usecases.deliver_webhooks import DeliverWebhooks
from meetcore.usecases.download_recording import DownloadRecording
from meetcore.usecases.duplicates import DuplicateLimit
from meetcore.usecases.end_due_meetings import EndDueMeetings
from meetcore.usecases.erase_account import EraseAccount
from meetcore.usecases.estimate import Estimate
from meetcore.usecases.expire_recordings import DeleteRecording, ExpireRecordings
from meetcore.usecases.export_account import ExportAccount
from meetcore.usecases.finalize_note import FinalizeNote
from meetcore.usecases.key_lookups import DigestMemory, KeyLookups
from meetcore.usecases.mail_queue import MailQueue
from meetcore.usecases.measured_files import MeasuredFiles
from meetcore.usecases.meeting_memos import MeetingMemos
from meetcore.usecases.periodic_task import PeriodicTask
from meetcore.usecases.post_webhooks import RecoverDeliveries, ResendDelivery, SendTestEvent
from meetcore.usecases.provider_events import HandleProviderEvents, ReceiveProviderEvent
from meetcore.usecases.provision import Provisioner
from meetcore.usecases.reconcile_meetings import ReconcileMeetings
from meetcore.usecases.reconcile_restore import ReconcileRestore
from meetcore.usecases.remove_orphans import RemoveOrphans
from meetcore.usecases.replace_host_keys import ReplaceHostKeys
from meetcore.usecases.restores import Restores
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.seal_ledger import SealLedger
from meetcore.usecases.sync_recording_files import SyncRecordingFiles
from meetcore.usecases.track_key_use import TrackKeyUse
from meetcore.usecases.track_meeting import TrackMeeting
from meetcore.usecases.transcribe_recording import TranscribeRecording
from meetcore.usecases.verify_by_hand import VerifyByHand
from meetcore.usecases.verify_ledger import VerifyLedger
from meetcore.usecases.webhooks import RegisterWebhook, RemoveWebhook, RotateSecret, UpdateWebhook
from meetcore.usecases.work_on_recordings import WorkOnRecordings
from meetcore.usecases.write_notes import WriteNotes


@frozen
class Restore:
    """The use cases of an operator after a restore of the store."""

    fence: Restores
    reconcile: ReconcileRestore

    def acting_as(self, origin: ActionOrigin) -> "Restore":
        """Return the same use cases for a user of the system."""
        return Restore(self.fence.acting_as(origin), self.reconcile.acting_as(origin))


@frozen
class Application:
    """The use cases of a process, and what its workers repeat.

    `deliver`, `notes` and `restore` are there where the process has the ports for them. `periodic_tasks` are
    those of each part of the work that it can do.
    """

    ports: Ports
    policy: Policy
    runtime: Runtime
    api: UseCases
    admit: Admit
    administration: Administration
    access: Access
    account_data: AccountData
    restore: Restore | None
    dashboard: DashboardUseCases
    console: ConsoleUseCases
    verify_ledger: VerifyByHand
    seal_ledger: SealLedger
    meetings: Meetings
    recordings: Recordings
    note_queue: NoteQueue
    mail_queue: MailQueue
    deliver: DeliverWebhooks | None
    notes: Notes | None
    periodic_tasks: Mapping[Part, Sequence[PeriodicTask]] = field(repr=False)


def build(ports: Ports, policy: Policy, reports: Reports | None = None) -> Application:
    """Build the use cases, once.

    Args:
        policy: its limits, periods and keys.
        reports: where events for operators go; nowhere if `None`.
    """
    reports = counted(reports or Reports(), ports.metrics)
    ports = evolve(ports, files=MeasuredFiles(ports.files, ports.metrics, ports.tracing))
    chain_key = policy.chain_keys[0] if policy.chain_keys else None
    runtime = Runtime(ports.clock, ports.entropy, chain_key, ports.metrics, ports.tracing)
    recordings = _recordings(ports, policy, reports, runtime)
    meetings = _meetings(ports, policy, reports, runtime, recordings)
    queue = NoteQueue(policy.catalogue, runtime, reports.failed_note)
    mail_queue = MailQueue(runtime, policy.base_url, policy.sends_mails, policy.mail_limits)
    deliver = _deliver(ports, policy, reports, runtime, mail_queue)
    admit = _admit(ports, policy, reports)
    notes = None
    access = build_access(ports, policy, runtime, mail_queue, reports)
    if ports.notes is not None:
        notes = _notes(ports, ports.notes, policy, reports, runtime, queue, recordings)
    api = _api(ports, policy, reports, runtime, meetings, queue)
    administration = Administration(
        ports.store, ports.registry, ports.notifier, runtime, policy.key_prefix,
        postings=CreditPostings(ports.store, reports.failed_batch),
    )  # fmt: skip
    account_data = AccountData(
        ExportAccount(ports.store, ports.queries, ports.registry, runtime, policy.partition_rules.kept),
        EraseAccount(ports.store, ports.queries, ports.notes_notifier, runtime),
    )
    verify_ledger = VerifyLedger(ports.audit, policy.chain_keys)
    work = Work(
        admit, meetings, recordings, mail_queue, deliver, notes, access.sessions, account_data, verify_ledger
    )
    return Application(
        ports, policy, runtime, api, admit, administration, access, account_data,
        _restore(ports, runtime, meetings),
        build_dashboard(ports, policy, runtime, api, administration, access, account_data),
        build_console(ports, policy, runtime, administration, access, meetings.provider),
        VerifyByHand(verify_ledger, ports.verification_log, runtime),
        SealLedger(ports.audit, policy.chain_keys, runtime),
        meetings, recordings, queue, mail_queue, deliver, notes,
        periodic_tasks(ports, policy, reports, runtime, work),
    )  # fmt: skip


def _recordings(ports: Ports, policy: Policy, reports: Reports, runtime: Runtime) -> Recordings:
    collect = CollectRecordingFiles(ports.store, ports.notes_notifier, runtime, policy.recording_retention)
    return Recordings(
        collect,
        SyncRecordingFiles(ports.store, ports.files, collect, runtime),
        ExpireRecordings(ports.store, ports.notifier, ports.notes_notifier, runtime, reports.failed_note),
    )


def _meetings(
    ports: Ports, policy: Policy, reports: Reports, runtime: Runtime, recordings: Recordings
) -> Meetings:
    store, notifier, lease_s = ports.store, ports.notifier, policy.meeting_lease_s
    provider = BoundedProvider(ports.provider, metrics=ports.metrics, tracing=ports.tracing)
    provisioner = Provisioner(store, runtime, AccountTurns(store, reports.failed_batch))
    cancellation = Cancellation(store, provider, runtime)
    track = TrackMeeting(store, notifier, runtime)
    return Meetings(
        provider,
        provisioner,
        cancellation,
        ReconcileMeetings(
            store, provider, provisioner, cancellation, notifier, runtime, lease_s,
            on_takeover=reports.expired_lease, orphan_window_s=policy.orphan_window_s,
        ),
        RemoveOrphans(store, provider, runtime, policy.orphan_window_s, reports.orphan),
        EndDueMeetings(store, provider, recordings.sync_files, notifier, runtime, lease_s),
        ReplaceHostKeys(store, provider, runtime, reports.kept_host_key, lease_s),
        track,
        ReceiveProviderEvent(store, notifier, runtime),
        HandleProviderEvents(
            store, track, recordings.collect_files, runtime, reports.handled_event, reports.expired_event
        ),
    )  # fmt: skip


def _restore(ports: Ports, runtime: Runtime, meetings: Meetings) -> Restore | None:
    if ports.fence is None or ports.memo_cipher is None:
        return None
    memos = MeetingMemos(ports.memo_cipher)
    return Restore(
        Restores(ports.store, ports.fence, runtime),
        ReconcileRestore(
            ports.store, ports.registry, meetings.provider, memos, meetings.cancellation, runtime
        ),
    )  # fmt: skip


def _api(
    ports: Ports, policy: Policy, reports: Reports, runtime: Runtime, meetings: Meetings, queue: NoteQueue
) -> UseCases:
    store, queries, notifier = ports.store, ports.queries, ports.notifier
    provider, lease_s = meetings.provider, policy.meeting_lease_s
    kept = policy.partition_rules.kept
    return UseCases(
        CreateMeeting(
            store, queries, provider, meetings.provisioner, meetings.reconcile, policy.catalogue, notifier,
            runtime, lease_s, share_percent=policy.account_creations_percent, report=reports.no_capacity,
            orphan_window_s=policy.orphan_window_s,
            memos=None if ports.memo_cipher is None else MeetingMemos(ports.memo_cipher),
        ),
        CancelMeeting(
            store, queries, provider, meetings.cancellation, meetings.reconcile, notifier, runtime, lease_s,
            limit=DuplicateLimit(policy.duplicates_waiting),
        ),
        RegisterWebhook(
            store, ports.resolver, policy.allowed_networks, runtime,
            denied_networks=policy.denied_networks, most=policy.endpoints_per_account,
        ),
        UpdateWebhook(store, notifier, runtime),
        RemoveWebhook(store, runtime),
        RotateSecret(store, runtime),
        SendTestEvent(store, notifier, runtime),
        ResendDelivery(store, notifier, runtime, kept),
        RecoverDeliveries(store, notifier, runtime, kept=kept),
        DownloadRecording(queries, policy.link_keys),
        DeleteRecording(store, notifier, ports.notes_notifier, runtime, reports.failed_note),
        CreateNote(store, queue, ports.notes_notifier),
        Estimate(policy.catalogue, provider.abilities),
        queries,
        ports.lists or queries,
        policy.catalogue,
        policy.base_url,
        kept,
    )  # fmt: skip


def _admit(ports: Ports, policy: Policy, reports: Reports) -> Admit:
    lookups = KeyLookups(policy.unknown_keys_at_once, DigestMemory(policy.unknown_key_remembered))
    duplicates = DuplicateLimit(policy.duplicates_waiting)
    return Admit(
        ports.queries, ports.counters, policy.quotas, policy.key_prefix, TrackKeyUse(ports.key_uses),
        CollectRequests(ports.request_log, reports.dropped_requests), duplicates, lookups,
    )  # fmt: skip


def _deliver(
    ports: Ports, policy: Policy, reports: Reports, runtime: Runtime, mails: MailQueue
) -> DeliverWebhooks | None:
    if ports.sender is None:
        return None
    return DeliverWebhooks(
        ports.store, ports.sender, policy.retry_schedule, runtime, policy.webhook_lease_s,
        policy.claim_limits, mails=mails, events_kept=policy.partition_rules.kept,
        on_failed=reports.failed_delivery, on_delivered=reports.delivered,
        on_disabled=reports.disabled_endpoint, on_expired_lease=reports.expired_delivery,
        on_given_up=reports.given_up_delivery,
    )  # fmt: skip


def _notes(
    ports: Ports, own: NotePorts, policy: Policy, reports: Reports, runtime: Runtime, queue: NoteQueue,
    recordings: Recordings,
) -> Notes:  # fmt: skip
    store, notifier, lease_s = ports.store, ports.notifier, policy.note_lease_s
    return Notes(
        WorkOnRecordings(
            store, ports.files, own.editor, queue, notifier, ports.notes_notifier, runtime,
            lease_s=lease_s, report=reports.failed_recording, on_expired_lease=reports.expired_recording,
        ),
        WriteNotes(
            store,
            recordings.sync_files,
            TranscribeRecording(store, ports.files, own.editor, own.transcriber),
            own.note_writer,
            FinalizeNote(store, policy.catalogue, notifier, runtime, reports.failed_note),
            runtime, policy.note_schedule, policy.notes_in_flight, lease_s, policy.transcript_wait_s,
            reports.expired_note,
        ),
    )  # fmt: skip
