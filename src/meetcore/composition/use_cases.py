"""Build use cases, each once for an application, and the periodic tasks of its workers."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from meetcore.composition.application import Application, NotePorts, Part
from meetcore.domain.members.audit import SERVICE
from meetcore.usecases.api import UseCases
from meetcore.usecases.mails import CreditMails, SendMails
from meetcore.usecases.meetings import cancel_meeting, create_meeting, provider_events, resolve_doubts
from meetcore.usecases.meetings.bounded_provider import BoundedProvider
from meetcore.usecases.meetings.cancellation import Cancellation
from meetcore.usecases.meetings.creation import Provisioner
from meetcore.usecases.meetings.end_due_meetings import EndDueMeetings
from meetcore.usecases.meetings.hosts import ReplaceHostKeys
from meetcore.usecases.meetings.reconcile_meetings import ReconcileMeetings, RemoveOrphans
from meetcore.usecases.members import dashboard
from meetcore.usecases.members.audit import BoundedAuditLog, RefusedSignIns
from meetcore.usecases.members.members import MemberKeys, Members, Playground
from meetcore.usecases.members.operators import Impersonate, MakePortalLink, Operators, OperatorTokens
from meetcore.usecases.members.passkeys import Passkeys
from meetcore.usecases.members.reads import AccountSettings, MemberReads
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
from meetcore.usecases.money.prices import ConsolePrices, Estimate
from meetcore.usecases.money.proposals import Proposals
from meetcore.usecases.money.statements import ConsoleLiability, MailStatements, Statements
from meetcore.usecases.notes import downloads, note_charges, recordings, write_notes
from meetcore.usecases.notes.note_charges import ConcludeRecording, EditNote
from meetcore.usecases.payments.counted_gateway import CountedGateway
from meetcore.usecases.payments.follow_payments import FollowPayments, ReceiveNotification, SettlePayment
from meetcore.usecases.payments.refunds import ConsolePayments, refund_within
from meetcore.usecases.payments.start_payment import StartPayment
from meetcore.usecases.requests import admit, console, erasure
from meetcore.usecases.runtime import PeriodicTask
from meetcore.usecases.webhooks import deliver, endpoints


class Recordings:
    """The use cases that keep recordings in step with their files."""

    def __init__(self, app: Application) -> None:
        ports, runtime = app.ports, app.runtime
        self.collect_files = recordings.CollectRecordingFiles(
            ports.store, ports.notes_notifier, runtime, app.policy.recording_retention
        )
        self.sync_files = recordings.SyncRecordingFiles(ports.store, ports.files, self.collect_files, runtime)
        self.expire = recordings.ExpireRecordings(
            ports.store, ports.notifier, ports.notes_notifier, runtime,
            ConcludeRecording(app.note_queue, runtime), app.reports.failed_note,
        )  # fmt: skip


class Meetings:
    """The use cases that keep meetings in step with their provider."""

    def __init__(self, app: Application) -> None:
        ports, policy, reports, runtime = app.ports, app.policy, app.reports, app.runtime
        store, notifier, lease_s = ports.store, ports.notifier, policy.meeting_lease_s
        self.provider = provider = BoundedProvider(
            ports.provider, metrics=ports.metrics, tracing=ports.tracing
        )
        self.provisioner = Provisioner(store, runtime, turns.AccountTurns(store, reports.failed_batch))
        self.cancellation = Cancellation(store, provider, ports.notes_notifier, runtime)
        self.reconcile = ReconcileMeetings(
            store, provider, self.provisioner, self.cancellation, notifier, runtime, lease_s,
            on_takeover=reports.expired_lease, on_left=reports.left_meeting,
            orphan_window_s=policy.orphan_window_s,
        )  # fmt: skip
        self.remove_orphans = RemoveOrphans(store, provider, runtime, policy.orphan_window_s, reports.orphan)
        self.end_due = EndDueMeetings(
            store, provider, app.recordings.sync_files, ConcludeRecording(app.note_queue, runtime), notifier,
            runtime, lease_s, empty_for=policy.empty_for,
        )  # fmt: skip
        self.replace_host_keys = ReplaceHostKeys(store, provider, runtime, reports.kept_host_key, lease_s)
        self.track = provider_events.TrackMeeting(store, notifier, runtime, policy.empty_for)
        self.receive_event = provider_events.ReceiveProviderEvent(store, notifier, runtime)
        self.handle_events = provider_events.HandleProviderEvents(
            store, self.track, app.recordings.collect_files, runtime, reports.handled_event,
            reports.expired_event,
        )  # fmt: skip


class Payments:
    """The use cases of payments; `follow` where a gateway is set."""

    def __init__(self, app: Application) -> None:
        ports, policy, runtime = app.ports, app.policy, app.runtime
        store, notifier, report = ports.store, ports.notifier, app.reports.payment
        gateway = None if ports.gateway is None else CountedGateway(ports.gateway, runtime.metrics)
        self.start = StartPayment(store, gateway, policy.packages, runtime, policy.base_url, report)
        self.receive_notification = ReceiveNotification(store, notifier, runtime, report)
        self.settle = SettlePayment(runtime, policy.packages.seller, CreditMails(app.mail_queue))
        self.follow = None
        if gateway is not None:
            self.follow = FollowPayments(store, gateway, self.settle, notifier, runtime, report)
        self.console = ConsolePayments(store, ports.queries, self.settle, notifier, runtime)


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
            store, queries, provider, meetings.cancellation, meetings.reconcile, notifier, runtime, lease_s
        ),
        endpoints.Webhooks(
            store, ports.resolver, notifier, runtime, policy.allowed_networks, policy.denied_networks,
            kept,
        ),
        downloads.DownloadRecording(queries, policy.link_keys),
        recordings.DeleteRecording(
            store, queue, notifier, ports.notes_notifier, runtime, reports.failed_note
        ),
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
    ports, policy = app.ports, app.policy
    return admit.Admit(
        ports.queries, ports.counters, policy.quotas, policy.key_prefix, admit.TrackKeyUse(ports.key_uses),
        admit.CollectRequests(ports.request_log, app.reports.dropped_requests),
        lookups=admit.KeyLookups(policy.unknown_keys_at_once),
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


class Notes:
    """The use cases of a worker that measures recordings and writes notes, by its own ports."""

    def __init__(self, app: Application, own: NotePorts) -> None:
        ports, policy, reports, runtime = app.ports, app.policy, app.reports, app.runtime
        store, notifier, lease_s = ports.store, ports.notifier, policy.note_lease_s
        self.work_on_recordings = recordings.WorkOnRecordings(
            store, ports.files, own.editor, app.note_queue, notifier, ports.notes_notifier, runtime,
            lease_s=lease_s, report=reports.failed_recording, on_expired_lease=reports.expired_recording,
        )  # fmt: skip
        self.write = write_notes.WriteNotes(
            store, app.recordings.sync_files,
            write_notes.TranscribeRecording(store, ports.files, own.editor, own.transcriber),
            own.note_writer, own.calendar,
            note_charges.FinalizeNote(store, policy.catalogue, notifier, runtime, reports.failed_note),
            runtime, policy.note_schedule, policy.notes_in_flight, lease_s, policy.transcript_wait_s,
            reports.expired_note,
        )  # fmt: skip


class Access:
    """The use cases of sign-in and of people."""

    def __init__(self, app: Application) -> None:
        ports, policy, runtime, mails, origin = (
            app.ports, app.policy, app.runtime, app.mail_queue, app.origin,
        )  # fmt: skip
        store, queries, base_url = ports.store, ports.queries, policy.base_url
        counters, notifier, report = ports.counters, ports.notifier, app.reports.failed_sign_on
        refused = RefusedSignIns(BoundedAuditLog(store, counters, runtime))
        self.request_link = RequestSignInLink(store, counters, mails, notifier, runtime, base_url)
        self.redeem_link = RedeemSignInLink(store, runtime, refused)
        self.portal_links = MakePortalLink(
            store, queries, runtime, base_url, origin, pins=origin is not SERVICE
        )
        self.sign_up = SignUpForAccount(store, counters, mails, notifier, runtime, base_url, policy.sign_up)
        self.sessions = Sessions(store, queries, counters, runtime, policy.pages_per_minute)
        self.members = Members(store, queries, mails, notifier, runtime, base_url)
        self.operators = Operators(store, queries, runtime, origin)
        self.passkeys = Passkeys(store, queries, counters, mails, notifier, runtime, base_url, ports.passkeys)
        self.member_passkeys = SignInWithPasskey(store, counters, runtime, refused, ports.passkeys)
        self.operator_passkeys = SignInWithPasskey(
            store, counters, runtime, refused, ports.passkeys, is_operators=True
        )
        self.member_identities = SignInWithIdentity(
            store, counters, runtime, refused, ports.identities, base_url + DASHBOARD_CALLBACK,
            sign_up=policy.sign_up, report=report,
        )  # fmt: skip
        self.operator_identities = SignInWithIdentity(
            store, counters, runtime, refused, ports.console_identities, base_url + CONSOLE_CALLBACK,
            is_operators=True, report=report,
        )  # fmt: skip
        self.operator_tokens = OperatorTokens(
            store, queries, counters, runtime, policy.key_prefix,
            admit.KeyLookups(policy.unknown_keys_at_once), origin,
        )  # fmt: skip
        self.forget_identities = ForgetIdentities(store, runtime, origin)


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
    refund = partial(refund_within, gateway="" if ports.gateway is None else ports.gateway.name)
    proposals = Proposals(administration, ports.queries, refund, policy.four_eyes_above)
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


RECORDINGS_AT_ONCE: Final = 4
"""Recordings that a process works on at a time, each in a task of its own: a slow file delays no other."""


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
            *(
                PeriodicTask(
                    "recordings", app.notes.work_on_recordings, every.recordings_s, runs_on_notify=True
                )
                for _ in range(RECORDINGS_AT_ONCE)
            ),
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
        PeriodicTask("purge", erasure.Purge(app.ports.housekeeping), every.purge_s),
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
        ports.store, ports.mails.mailer, ports.mails.texts, runtime, on_failed=reports.failed_mail,
        on_expired_lease=reports.expired_mail,
    )  # fmt: skip
    statements = MailStatements(ports.store, ports.queries, app.mail_queue, ports.notifier, runtime)
    return (
        PeriodicTask("mails", send, policy.periods.mails_s, runs_on_notify=True),
        PeriodicTask("statement mails", statements, policy.periods.purge_s),
    )


def _upkeep_tasks(app: Application) -> Iterator[PeriodicTask]:
    ports, policy, every = app.ports, app.policy, app.policy.periods
    sends, partitions, log = ports.sender is not None, ports.partitions, ports.verification_log
    if sends and policy.retention.is_limited:
        remove = erasure.RemovePastRetention(ports.retention, policy.retention)
        yield PeriodicTask("retention", remove, every.retention_s)
    if ports.lacks_notes:
        report = write_notes.ReportOverdueNotes(ports.store, app.reports.overdue_notes)
        yield PeriodicTask("overdue notes", report, every.overdue_notes_s)
    if sends and partitions is not None:

        async def maintain() -> None:
            app.reports.maintained_partitions(await partitions.maintain(None, policy.events_kept))

        yield PeriodicTask("partitions", maintain, every.partitions_s)
    if sends and log is not None and policy.verify_every_s:
        verify = verify_ledger.VerifyPeriodically(
            app.ledger, log, app.runtime, policy.verify_every_s, app.reports.verified_ledger
        )
        yield PeriodicTask("verify ledger", verify, every.verify_s)
