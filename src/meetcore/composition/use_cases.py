"""Build use cases, each once for an application, and the periodic tasks of its workers."""

from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve, frozen

from meetcore.composition.application import Application, Part
from meetcore.usecases.api import UseCases
from meetcore.usecases.mails import SendMails
from meetcore.usecases.meetings import cancel_meeting, create_meeting, provider_events, resolve_doubts
from meetcore.usecases.meetings.bounded_provider import BoundedProvider
from meetcore.usecases.meetings.cancellation import Cancellation
from meetcore.usecases.meetings.creation import Provisioner
from meetcore.usecases.meetings.end_due_meetings import EndDueMeetings
from meetcore.usecases.meetings.hosts import ReplaceHostKeys
from meetcore.usecases.meetings.reconcile_meetings import ReconcileMeetings
from meetcore.usecases.meetings.remove_orphans import RemoveOrphans
from meetcore.usecases.members import dashboard
from meetcore.usecases.members.audit import BoundedAuditLog
from meetcore.usecases.members.members import MemberKeys, Members
from meetcore.usecases.members.operators import Operators, OperatorTokens
from meetcore.usecases.members.passkeys import Passkeys
from meetcore.usecases.members.playground import Playground
from meetcore.usecases.members.portal_links import Impersonate, MakePortalLink
from meetcore.usecases.members.reads import AccountSettings, MemberReads
from meetcore.usecases.members.refused_sign_ins import RefusedSignIns
from meetcore.usecases.members.sessions import Sessions, SignInWithPasskey
from meetcore.usecases.members.sign_in_links import RedeemSignInLink, RequestSignInLink
from meetcore.usecases.members.sign_up import SignUpForAccount
from meetcore.usecases.members.single_sign_on import (
    CONSOLE_CALLBACK,
    DASHBOARD_CALLBACK,
    ForgetIdentities,
    SignInWithIdentity,
)
from meetcore.usecases.money import turns, verify_ledger
from meetcore.usecases.money.proposals import Proposals
from meetcore.usecases.money.statements import (
    ConsoleLiability,
    ConsolePrices,
    Estimate,
    MailStatements,
    Statements,
)
from meetcore.usecases.notes import downloads, note_charges, write_notes
from meetcore.usecases.notes.edit_note import EditNote
from meetcore.usecases.notes.recordings import (
    CollectRecordingFiles,
    DeleteRecording,
    ExpireRecordings,
    SyncRecordingFiles,
    WorkOnRecordings,
)
from meetcore.usecases.notes.sold_recordings import ConcludeRecording
from meetcore.usecases.payments.refunds import refund_within
from meetcore.usecases.requests import admit, console, erasure, idempotency
from meetcore.usecases.runtime import PeriodicTask
from meetcore.usecases.webhooks import deliver, endpoints


@frozen
class Meetings:
    """The use cases that keep meetings in step with their provider."""

    provider: BoundedProvider
    provisioner: Provisioner
    cancellation: Cancellation
    reconcile: ReconcileMeetings
    remove_orphans: RemoveOrphans
    end_due: EndDueMeetings
    replace_host_keys: ReplaceHostKeys
    track: provider_events.TrackMeeting
    receive_event: provider_events.ReceiveProviderEvent
    handle_events: provider_events.HandleProviderEvents


@frozen
class Recordings:
    """The use cases that keep recordings in step with their files."""

    collect_files: CollectRecordingFiles
    sync_files: SyncRecordingFiles
    expire: ExpireRecordings


@frozen
class Notes:
    """The use cases of a worker that measures recordings and writes notes."""

    work_on_recordings: WorkOnRecordings
    write: write_notes.WriteNotes


def build_recordings(app: Application) -> Recordings:
    """Build the use cases."""
    ports, policy, reports, runtime = app.ports, app.policy, app.reports, app.runtime
    collect = CollectRecordingFiles(ports.store, ports.notes_notifier, runtime, policy.recording_retention)
    return Recordings(
        collect,
        SyncRecordingFiles(ports.store, ports.files, collect, runtime),
        ExpireRecordings(ports.store, ports.notifier, ports.notes_notifier, runtime, reports.failed_note),
    )


def build_meetings(app: Application) -> Meetings:
    """Build the use cases."""
    ports, policy, reports, runtime = app.ports, app.policy, app.reports, app.runtime
    store, notifier, lease_s = ports.store, ports.notifier, policy.meeting_lease_s
    provider = BoundedProvider(ports.provider, metrics=ports.metrics, tracing=ports.tracing)
    provisioner = Provisioner(store, runtime, turns.AccountTurns(store, reports.failed_batch))
    cancellation = Cancellation(store, provider, runtime)
    track = provider_events.TrackMeeting(store, notifier, runtime, policy.empty_for)
    return Meetings(
        provider,
        provisioner,
        cancellation,
        ReconcileMeetings(
            store, provider, provisioner, cancellation, notifier, runtime, lease_s,
            on_takeover=reports.expired_lease, on_left=reports.left_meeting,
            orphan_window_s=policy.orphan_window_s,
        ),
        RemoveOrphans(store, provider, runtime, policy.orphan_window_s, reports.orphan),
        EndDueMeetings(
            store, provider, app.recordings.sync_files, ConcludeRecording(app.note_queue, runtime), notifier,
            runtime, lease_s, empty_for=policy.empty_for,
        ),
        ReplaceHostKeys(store, provider, runtime, reports.kept_host_key, lease_s),
        track,
        provider_events.ReceiveProviderEvent(store, notifier, runtime),
        provider_events.HandleProviderEvents(
            store, track, app.recordings.collect_files, runtime, reports.handled_event, reports.expired_event
        ),
    )  # fmt: skip


def build_api(app: Application) -> UseCases:
    """Build the use cases."""
    ports, policy, reports, runtime = app.ports, app.policy, app.reports, app.runtime
    meetings, queue = app.meetings, app.note_queue
    store, queries, notifier = ports.store, ports.queries, ports.notifier
    provider, lease_s, kept = meetings.provider, policy.meeting_lease_s, policy.events_kept
    return UseCases(
        create_meeting.CreateMeeting(
            store, queries, provider, meetings.provisioner, meetings.reconcile, policy.catalogue, notifier,
            runtime, lease_s, share_percent=policy.account_creations_percent, report=reports.no_capacity,
            orphan_window_s=policy.orphan_window_s,
        ),
        cancel_meeting.CancelMeeting(
            store, queries, provider, meetings.cancellation, meetings.reconcile, notifier, runtime, lease_s,
            limit=idempotency.DuplicateLimit(policy.duplicates_waiting),
        ),
        endpoints.RegisterWebhook(
            store, ports.resolver, policy.allowed_networks, runtime,
            denied_networks=policy.denied_networks, most=policy.endpoints_per_account,
        ),
        endpoints.UpdateWebhook(store, notifier, runtime),
        endpoints.RemoveWebhook(store, runtime),
        endpoints.RotateSecret(store, runtime),
        endpoints.SendTestEvent(store, notifier, runtime),
        endpoints.ResendDelivery(store, notifier, runtime, kept),
        endpoints.RecoverDeliveries(store, notifier, runtime, kept=kept),
        downloads.DownloadRecording(queries, policy.link_keys),
        DeleteRecording(store, notifier, ports.notes_notifier, runtime, reports.failed_note),
        note_charges.CreateNote(store, queue, ports.notes_notifier),
        Estimate(policy.catalogue, provider.abilities, policy.note_writer),
        app.payments.start,
        queries,
        ports.lists or queries,
        policy.catalogue,
        policy.base_url,
        kept,
    )  # fmt: skip


def build_admit(app: Application) -> admit.Admit:
    """Build the use case, once."""
    ports, policy, reports = app.ports, app.policy, app.reports
    lookups = admit.KeyLookups(policy.unknown_keys_at_once, admit.DigestMemory(policy.unknown_key_remembered))
    duplicates = idempotency.DuplicateLimit(policy.duplicates_waiting)
    return admit.Admit(
        ports.queries, ports.counters, policy.quotas, policy.key_prefix, admit.TrackKeyUse(ports.key_uses),
        admit.CollectRequests(ports.request_log, reports.dropped_requests), duplicates, lookups,
    )  # fmt: skip


def build_deliver(app: Application) -> deliver.DeliverWebhooks | None:
    """Build the use case, where the process has the ports for it."""
    ports, policy, reports, runtime = app.ports, app.policy, app.reports, app.runtime
    if ports.sender is None:
        return None
    return deliver.DeliverWebhooks(
        ports.store, ports.sender, policy.retry_schedule, runtime, policy.webhook_lease_s,
        policy.claim_limits, mails=app.mail_queue, events_kept=policy.events_kept,
        on_failed=reports.failed_delivery, on_delivered=reports.delivered,
        on_disabled=reports.disabled_endpoint, on_expired_lease=reports.expired_delivery,
        on_given_up=reports.given_up_delivery, on_sender_fault=reports.sender_fault,
        on_sender_fault_over=reports.sender_fault_over,
    )  # fmt: skip


def build_notes(app: Application) -> Notes | None:
    """Build the use cases, where the process has the ports for them."""
    ports, policy, reports, runtime = app.ports, app.policy, app.reports, app.runtime
    own, queue, recordings = ports.notes, app.note_queue, app.recordings
    if own is None:
        return None
    store, notifier, lease_s = ports.store, ports.notifier, policy.note_lease_s
    return Notes(
        WorkOnRecordings(
            store, ports.files, own.editor, queue, notifier, ports.notes_notifier, runtime,
            lease_s=lease_s, report=reports.failed_recording, on_expired_lease=reports.expired_recording,
        ),
        write_notes.WriteNotes(
            store, recordings.sync_files,
            write_notes.TranscribeRecording(store, ports.files, own.editor, own.transcriber),
            own.note_writer, own.calendar,
            note_charges.FinalizeNote(store, policy.catalogue, notifier, runtime, reports.failed_note),
            runtime, policy.note_schedule, policy.notes_in_flight, lease_s, policy.transcript_wait_s,
            reports.expired_note,
        ),
    )  # fmt: skip


@frozen
class Access:
    """The use cases of sign-in and of people."""

    request_link: RequestSignInLink
    redeem_link: RedeemSignInLink
    portal_links: MakePortalLink
    sign_up: SignUpForAccount
    sessions: Sessions
    members: Members
    operators: Operators
    passkeys: Passkeys
    member_passkeys: SignInWithPasskey
    operator_passkeys: SignInWithPasskey
    member_identities: SignInWithIdentity
    operator_identities: SignInWithIdentity
    operator_tokens: OperatorTokens
    forget_identities: ForgetIdentities


def build_access(app: Application) -> Access:
    """Build the use cases."""
    ports, policy, runtime, mails, reports = app.ports, app.policy, app.runtime, app.mail_queue, app.reports
    lookups = admit.KeyLookups(policy.unknown_keys_at_once, admit.DigestMemory(policy.unknown_key_remembered))
    store, queries, base_url = ports.store, ports.queries, policy.base_url
    refused = RefusedSignIns(BoundedAuditLog(store, ports.counters, runtime))
    access = Access(
        RequestSignInLink(store, ports.counters, mails, ports.notifier, runtime, base_url),
        RedeemSignInLink(store, runtime, refused),
        MakePortalLink(store, queries, runtime, base_url),
        SignUpForAccount(store, ports.counters, mails, ports.notifier, runtime, base_url, policy.sign_up),
        Sessions(store, queries, ports.counters, runtime, policy.pages_per_minute),
        Members(store, queries, mails, ports.notifier, runtime, base_url),
        Operators(store, queries, runtime),
        Passkeys(store, queries, ports.counters, mails, ports.notifier, runtime, base_url, ports.passkeys),
        SignInWithPasskey(store, ports.counters, runtime, refused, ports.passkeys),
        SignInWithPasskey(store, ports.counters, runtime, refused, ports.passkeys, is_operators=True),
        SignInWithIdentity(
            store, ports.counters, runtime, refused, ports.identities, base_url + DASHBOARD_CALLBACK,
            sign_up=policy.sign_up, report=reports.failed_sign_on,
        ),
        SignInWithIdentity(
            store, ports.counters, runtime, refused, ports.console_identities, base_url + CONSOLE_CALLBACK,
            is_operators=True, report=reports.failed_sign_on,
        ),
        OperatorTokens(store, queries, ports.counters, runtime, policy.key_prefix, lookups),
        ForgetIdentities(store, runtime),
    )  # fmt: skip
    if app.origin is None:
        return access
    return evolve(
        access,
        portal_links=access.portal_links.acting_as(app.origin),
        operators=access.operators.acting_as(app.origin),
        operator_tokens=access.operator_tokens.acting_as(app.origin),
        forget_identities=evolve(access.forget_identities, origin=app.origin),
    )


def build_dashboard(app: Application) -> dashboard.DashboardUseCases:
    """Build the use cases of the dashboard, once."""
    ports, runtime, api, access = app.ports, app.runtime, app.api, app.access
    administration, account_data, policy = app.administration, app.account_data, app.policy
    log = BoundedAuditLog(ports.store, ports.counters, runtime)
    by_hand = dashboard.WorkByHand(api, EditNote(ports.store, runtime))
    return dashboard.DashboardUseCases(
        access.sessions, access.request_link, access.redeem_link, access.sign_up, access.passkeys,
        access.member_passkeys, access.member_identities, access.members, MemberReads(ports.queries, log),
        MemberKeys(administration, ports.queries, runtime),
        Playground(administration, runtime, policy.is_sandbox), app.grants, by_hand,
        dashboard.WebhooksByHand(api, ports.store, runtime), AccountSettings(administration, ports.queries),
        dashboard.CreditsByHand(app.payments.start, ports.store, ports.queries, runtime),
        Statements(ports.queries), ports.printer, account_data, administration, runtime, policy.sends_mails,
        policy.support_contact,
    )  # fmt: skip


def build_console(app: Application) -> dashboard.ConsoleUseCases:
    """Build the use cases of the console, once."""
    ports, policy, runtime, access = app.ports, app.policy, app.runtime, app.access
    administration, provider = app.administration, app.meetings.provider
    proposals = Proposals(administration, ports.queries, refund_within, policy.four_eyes_above)
    log = BoundedAuditLog(ports.store, ports.counters, runtime)
    return dashboard.ConsoleUseCases(
        access.sessions, access.request_link, access.redeem_link, access.passkeys, access.operator_passkeys,
        access.operator_identities, access.portal_links, access.operator_tokens,
        console.ConsoleAccounts(administration, ports.queries, runtime, proposals, log),
        console.ConsoleHosts(administration, ports.queries),
        resolve_doubts.ResolveDoubts(ports.store, ports.queries, provider, ports.notifier, runtime),
        app.payments.console, ConsoleLiability(ports.queries),
        console.ConsoleHealth(ports.queries, ports.check_health, runtime),
        ConsolePrices(policy.catalogue, provider, ports.registry), Impersonate(ports.store, runtime),
        proposals, dashboard.ConsoleAudit(ports.queries), runtime, policy.key_prefix, policy.sends_mails,
        policy.support_contact,
    )  # fmt: skip


def periodic_tasks(app: Application) -> Mapping[Part, Sequence[PeriodicTask]]:
    """Return the tasks of each part of the work that a process with these ports can do."""
    every = app.policy.periods
    return {
        Part.API: (
            PeriodicTask("key uses", app.admit.uses, every.key_uses_s),
            PeriodicTask("requests", app.admit.requests, every.requests_s),
        ),
        Part.WEBHOOKS: (*_webhook_tasks(app), *_mail_tasks(app), *_upkeep_tasks(app)),
        Part.NOTES: ()
        if app.notes is None
        else (
            PeriodicTask("recordings", app.notes.work_on_recordings, every.recordings_s, runs_on_notify=True),
            PeriodicTask("expiry", app.recordings.expire, every.expiry_s),
        ),
    }


def _webhook_tasks(app: Application) -> tuple[PeriodicTask, ...]:
    if app.deliver is None:
        return ()
    every, meetings = app.policy.periods, app.meetings

    async def maintain() -> None:
        await app.ports.maintain(app.runtime.now())

    return (
        PeriodicTask("sweep", app.deliver.sweep, every.sweep_s),
        PeriodicTask("reconcile", meetings.reconcile.sweep, every.sweep_s),
        PeriodicTask("orphans", meetings.remove_orphans.sweep, every.sweep_s),
        PeriodicTask("keep time", meetings.end_due.sweep, every.sweep_s),
        PeriodicTask("host keys", meetings.replace_host_keys, every.sweep_s),
        PeriodicTask("provider events", meetings.handle_events, every.provider_events_s, runs_on_notify=True),
        *(
            ()
            if app.payments.follow is None
            else (PeriodicTask("payments", app.payments.follow, every.payments_s, runs_on_notify=True),)
        ),
        PeriodicTask("purge", erasure.Purge(app.ports.housekeeping, app.runtime), every.purge_s),
        PeriodicTask("sign-ins", app.access.sessions.purge, every.purge_s),
        PeriodicTask("grants", app.grants.purge, every.purge_s),
        PeriodicTask("erasures", app.account_data.erase.sweep, every.purge_s),
        PeriodicTask("maintenance", maintain, every.purge_s),
    )


def _mail_tasks(app: Application) -> tuple[PeriodicTask, ...]:
    ports, policy, runtime, reports = app.ports, app.policy, app.runtime, app.reports
    if ports.mails is None:
        return ()
    send = SendMails(
        ports.store, ports.mails.mailer, ports.mails.texts, runtime, policy.mail_schedule,
        reports.failed_mail, reports.expired_mail,
    )  # fmt: skip
    statements = MailStatements(ports.store, ports.queries, app.mail_queue, ports.notifier, runtime)
    return (
        PeriodicTask("mails", send, policy.periods.mails_s, runs_on_notify=True),
        PeriodicTask("statement mails", statements, policy.periods.purge_s),
    )


def _upkeep_tasks(app: Application) -> Iterator[PeriodicTask]:
    ports, policy, every, now = app.ports, app.policy, app.policy.periods, app.runtime.now
    sends, partitions, log = ports.sender is not None, ports.partitions, ports.verification_log
    if sends and policy.retention.is_limited:
        remove = erasure.RemovePastRetention(ports.retention, policy.retention, app.runtime)
        yield PeriodicTask("retention", remove, every.retention_s)
    if ports.lacks_notes:
        report = write_notes.ReportOverdueNotes(ports.store, app.reports.overdue_notes)
        yield PeriodicTask("overdue notes", report, every.overdue_notes_s)
    if sends and partitions is not None:

        async def maintain() -> None:
            app.reports.maintained_partitions(await partitions.maintain(now(), policy.events_kept))

        yield PeriodicTask("partitions", maintain, every.partitions_s)
    if sends and log is not None and policy.verify_every_s:
        verify = verify_ledger.VerifyPeriodically(
            app.ledger, log, app.runtime, policy.verify_every_s, app.reports.verified_ledger
        )
        yield PeriodicTask("verify ledger", verify, every.verify_s)
