"""What the processes of a part repeat, and how often."""

from collections.abc import Mapping, Sequence

from meetcore.composition.policy import Policy, Reports
from meetcore.composition.ports import Part, Ports
from meetcore.composition.work import Work
from meetcore.usecases.mail_queue import MailQueue
from meetcore.usecases.mail_statements import MailStatements
from meetcore.usecases.maintain_partitions import MaintainPartitions
from meetcore.usecases.periodic_task import PeriodicTask
from meetcore.usecases.purge import Purge
from meetcore.usecases.remove_past_retention import RemovePastRetention
from meetcore.usecases.report_overdue_notes import ReportOverdueNotes
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.send_mails import SendMails
from meetcore.usecases.verify_ledger import VerifyLedger
from meetcore.usecases.verify_periodically import VerifyPeriodically

__all__ = ["periodic_tasks"]


def periodic_tasks(
    ports: Ports, policy: Policy, reports: Reports, runtime: Runtime, work: Work
) -> Mapping[Part, Sequence[PeriodicTask]]:
    """The tasks of each part of the work that a process with these ports can do."""
    return {
        Part.API: (
            PeriodicTask("key uses", work.admit.uses, policy.periods.key_uses_s),
            PeriodicTask("requests", work.admit.requests, policy.periods.requests_s),
        ),
        Part.WEBHOOKS: (
            *_webhook_tasks(ports, policy, runtime, work),
            *_mail_tasks(ports, policy, reports, runtime, work.mail_queue),
            *_retention_tasks(ports, policy, runtime),
            *_overdue_tasks(ports, policy, reports),
            *_partition_tasks(ports, policy, reports, runtime),
            *_verification_tasks(ports, policy, reports, runtime, work.verify_ledger),
        ),
        Part.NOTES: _note_tasks(policy, work),
    }


def _webhook_tasks(ports: Ports, policy: Policy, runtime: Runtime, work: Work) -> tuple[PeriodicTask, ...]:
    if work.deliver is None:
        return ()
    every, meetings = policy.periods, work.meetings

    async def maintain() -> None:
        await ports.maintain(runtime.now())

    return (
        PeriodicTask("sweep", work.deliver.sweep, every.sweep_s),
        PeriodicTask("reconcile", meetings.reconcile.sweep, every.sweep_s),
        PeriodicTask("orphans", meetings.remove_orphans.sweep, every.sweep_s),
        PeriodicTask("keep time", meetings.end_due.sweep, every.sweep_s),
        PeriodicTask("host keys", meetings.replace_host_keys, every.sweep_s),
        PeriodicTask("provider events", meetings.handle_events, every.provider_events_s, runs_on_notify=True),
        PeriodicTask("purge", Purge(ports.housekeeping, runtime), every.purge_s),
        PeriodicTask("sign-ins", work.sessions.purge, every.purge_s),
        PeriodicTask("erasures", work.account_data.erase.sweep, every.purge_s),
        PeriodicTask("maintenance", maintain, every.purge_s),
    )


def _retention_tasks(ports: Ports, policy: Policy, runtime: Runtime) -> tuple[PeriodicTask, ...]:
    if ports.sender is None or not policy.retention.is_limited:
        return ()
    work = RemovePastRetention(ports.retention, policy.retention, runtime)
    return (PeriodicTask("retention", work, policy.periods.retention_s),)


def _verification_tasks(
    ports: Ports, policy: Policy, reports: Reports, runtime: Runtime, verify: VerifyLedger
) -> tuple[PeriodicTask, ...]:
    if ports.sender is None or ports.verification_log is None or not policy.verify_every_s:
        return ()
    work = VerifyPeriodically(
        verify, ports.verification_log, runtime, policy.verify_every_s, reports.verified_ledger
    )
    return (PeriodicTask("verify ledger", work, policy.periods.verify_s),)


def _mail_tasks(
    ports: Ports, policy: Policy, reports: Reports, runtime: Runtime, queue: MailQueue
) -> tuple[PeriodicTask, ...]:
    if ports.mails is None:
        return ()
    send = SendMails(
        ports.store, ports.mails.mailer, ports.mails.texts, runtime, policy.mail_schedule,
        reports.failed_mail, reports.expired_mail,
    )  # fmt: skip
    statements = MailStatements(ports.store, ports.queries, queue, ports.notifier, runtime)
    return (
        PeriodicTask("mails", send, policy.periods.mails_s, runs_on_notify=True),
        PeriodicTask("statement mails", statements, policy.periods.purge_s),
    )


def _overdue_tasks(ports: Ports, policy: Policy, reports: Reports) -> tuple[PeriodicTask, ...]:
    if not ports.lacks_notes:
        return ()
    report = ReportOverdueNotes(ports.store, reports.overdue_notes)
    return (PeriodicTask("overdue notes", report, policy.periods.overdue_notes_s),)


def _partition_tasks(
    ports: Ports, policy: Policy, reports: Reports, runtime: Runtime
) -> tuple[PeriodicTask, ...]:
    if ports.sender is None or ports.partitions is None:
        return ()
    work = MaintainPartitions(
        ports.partitions,
        runtime,
        policy.partition_rules,
        reports.maintained_partitions,
        reports.refused_partitions,
    )
    return (PeriodicTask("partitions", work, policy.periods.partitions_s),)


def _note_tasks(policy: Policy, work: Work) -> tuple[PeriodicTask, ...]:
    if work.notes is None:
        return ()
    every = policy.periods
    return (
        PeriodicTask("recordings", work.notes.work_on_recordings, every.recordings_s, runs_on_notify=True),
        PeriodicTask("expiry", work.recordings.expire, every.expiry_s),
    )
