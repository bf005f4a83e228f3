"""`meetcore restore`: what an operator does after a restore of the database (docs/restore.md)."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

from attrs import frozen
from cyclopts import App, Parameter

from meetcore.cli.inputs import InputRefused, Json, read_time
from meetcore.cli.operator_log import log_action
from meetcore.cli.output import ExitCode, complain, print_message, show
from meetcore.cli.runner import guarded, with_application
from meetcore.composition.application import Application, Restore
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.requests import restores
from meetcore.ports.restores import OpenMeeting
from meetcore.ports.video_provider import ProviderRefused, ProviderUnknown
from meetcore.usecases.lost_events import ReceivedEvent, lost_events, received_events
from meetcore.usecases.reconcile_restore import ManyCancelled, NoHostKnown
from meetcore.usecases.restore_findings import Action, Finding, Survey

restore = App(
    name="restore", help="After a restore of the database: fence, reconcile with the provider, release."
)

_UNKNOWABLE: Final = (
    "Top-ups, adjustments, keys, hosts, webhooks and accounts of the lost time are in no list: compare your "
    "payments, and enter what is missing with its reference (`meetcore credits topup`).",
    "What was taken away in the lost time is back. Repeat before the release: revoked keys and tokens, "
    "suspensions, removed operators, lowered caps, disabled hosts and erasures. Owners of accounts repeat "
    "their own changes, such as removed members, right after it: tell them.",
    "Notes of the lost time are made again when they are asked for; their charges are lost, too.",
)
_NO_LIST: Final = (
    "This provider keeps no list of meetings: what was sold in the lost time cannot be known. Links that "
    "were given out may go on working."
)
_NOT_FENCED: Final = "--apply works on a fenced database only: run `meetcore restore fence` first"


@frozen
class Report:
    """What was found, and done where it was applied."""

    epoch: int | None
    since: datetime
    survey: Survey
    done: Sequence[Finding]
    events: Sequence[ReceivedEvent]
    is_applied: bool

    @property
    def left(self) -> int:
        """Findings that are still to be resolved, by `--apply` or by the operator."""
        found = self.done if self.is_applied else self.survey.findings
        return sum(
            each.needs_operator or (each.action is not Action.LEAVE and not self.is_applied) for each in found
        )


@restore.command
def fence(*, to: Annotated[str, Parameter(name="--to")], json: Json = False) -> None:
    """Refuse every write of the service until `release`. As the owner of the tables.

    Parameters
    ----------
    to:
        The moment that the database was restored to, such as 2026-12-31T17:00:00Z.
    """
    moment = guarded(lambda: _time(to, "--to"), as_json=json)

    async def work(application: Application) -> Mapping[str, object]:
        fenced = await _use_cases(application).fence.put_up(moment)
        log_action("restore fence", {"id": fenced.epoch})
        return _record(fenced)

    show(with_application(work, as_json=json), as_json=json)


@restore.command
def status(*, json: Json = False) -> None:
    """Show the last restore, and whether it is released."""

    async def work(application: Application) -> Mapping[str, object]:
        latest = await _use_cases(application).fence.latest()
        return {"epoch": None, "is_fenced": False} if latest is None else _record(latest)

    show(with_application(work, as_json=json), as_json=json)


@restore.command
def release(*, json: Json = False) -> None:
    """Let the service sell and post again. As the owner of the tables."""

    async def work(application: Application) -> Mapping[str, object]:
        released = await _use_cases(application).fence.release()
        log_action("restore release", {"id": released.epoch})
        return _record(released)

    show(with_application(work, as_json=json), as_json=json)


@restore.command
def reconcile(
    *,
    since: str | None = None,
    apply: Annotated[bool, Parameter(negative="")] = False,
    remove: Annotated[bool, Parameter(negative="")] = False,
    cancel_many: Annotated[bool, Parameter(negative="")] = False,
    log: Path | None = None,
    json: Json = False,
) -> None:
    """Compare the database with the provider. Ends with 1 if something is left after --apply.

    Parameters
    ----------
    since:
        What was committed later may be lost; the moment of `restore fence` when not given.
    apply:
        Adopt or remove lost meetings, and cancel those that are gone at the provider.
    remove:
        Adopt none: remove all lost meetings at the provider.
    cancel_many:
        Cancel and refund even where more than five and a fifth of the open meetings are gone at the provider.
    log:
        A file with the service's log lines: events in it that customers took and that are gone are listed.
    """
    moment = None if since is None else guarded(lambda: _time(since, "--since"), as_json=json)
    guarded(lambda: _check_log(log), as_json=json)

    async def work(application: Application) -> Report:
        wanted = Wanted(moment, log, applies=apply, adopts=not remove, cancels_many=cancel_many)
        return await _reconcile(application, wanted)

    try:
        report = with_application(work, as_json=json)
    except (ProviderRefused, ProviderUnknown, ExceptionGroup) as error:
        complain("provider", f"the provider's lists cannot be read: {error}", as_json=json)
        raise SystemExit(ExitCode.REFUSED) from None
    except NoHostKnown as error:
        complain("provider", str(error), as_json=json)
        raise SystemExit(ExitCode.REFUSED) from None
    except ManyCancelled as error:
        complain("cancels_many", f"{error}; if they are, give --cancel-many", as_json=json)
        raise SystemExit(ExitCode.REFUSED) from None
    except NotFenced as error:
        complain("not_fenced", str(error), as_json=json)
        raise SystemExit(ExitCode.REFUSED) from None
    _show(report, as_json=json)
    if report.is_applied and report.left:
        raise SystemExit(ExitCode.REFUSED)


class NotFenced(Exception):
    """The database is not fenced; the message says what to do."""


@frozen
class Wanted:
    """What the operator asked for."""

    since: datetime | None
    log: Path | None
    applies: bool
    adopts: bool
    cancels_many: bool


async def _reconcile(application: Application, wanted: Wanted) -> Report:
    use_cases, applies = _use_cases(application), wanted.applies
    async with use_cases.fence.alone() if applies else nullcontext():
        latest = await use_cases.fence.latest()
        if applies and (latest is None or not latest.is_fenced):
            raise NotFenced(_NOT_FENCED)
        moment = wanted.since or (latest.restored_to if latest is not None else None)
        if moment is None:
            raise NotFenced("the database was never fenced: give --since")
        survey = await use_cases.reconcile.survey(moment, adopts=wanted.adopts)
        done: Sequence[Finding] = ()
        if applies:
            done = await use_cases.reconcile.apply_all(survey, cancels_many=wanted.cancels_many)
    events: Sequence[ReceivedEvent] = ()
    if wanted.log is not None:
        with wanted.log.open(encoding="utf-8", errors="replace") as lines:
            events = await lost_events(application.ports.store, received_events(lines, moment))
    epoch = None if latest is None else latest.epoch
    if applies:
        log_action("restore reconcile", {"id": epoch})
    return Report(epoch, moment, survey, done, events, applies)


def _use_cases(application: Application) -> Restore:
    assert application.restore is not None  # a command has every port of the store
    return application.restore


def _time(text: str, what: str) -> datetime:
    at = read_time(text, what)
    assert at is not None
    return at


def _check_log(log: Path | None) -> None:
    if log is not None and not log.is_file():
        raise InputRefused(f"--log must be a file: {log}")


def _record(found: restores.Restore) -> Mapping[str, object]:
    return {
        "epoch": found.epoch,
        "is_fenced": found.is_fenced,
        "restored_to": utc_text(found.restored_to),
        "fenced_at": utc_text(found.fenced_at),
        "released_at": None if found.released_at is None else utc_text(found.released_at),
    }


def _show(report: Report, *, as_json: bool) -> None:
    shown = report.done or report.survey.findings
    findings = [_finding(each) for each in shown]
    events = [_event(each) for each in report.events]
    notices = [*_UNKNOWABLE] if report.survey.lists else [_NO_LIST, *_UNKNOWABLE]
    summary = {
        "epoch": report.epoch,
        "since": utc_text(report.since),
        "is_applied": report.is_applied,
        "lost_meetings": sum(not isinstance(each.subject, OpenMeeting) for each in report.survey.findings),
        "gone_meetings": sum(isinstance(each.subject, OpenMeeting) for each in report.survey.findings),
        "open_meetings": report.survey.open_meetings,
        "lost_events": len(events),
        "left": report.left,
    }
    if as_json:
        show(summary | {"meetings": findings, "events": events, "notices": notices}, as_json=True)
        return
    show(summary, as_json=False)
    for records in (findings, events):
        if records:
            show(records, as_json=False)
    for notice in notices:
        print_message(notice)


def _finding(found: Finding) -> dict[str, object]:
    subject = found.subject
    common: dict[str, object] = {"action": found.action.value, "reason": found.reason}
    if isinstance(subject, OpenMeeting):
        meeting = subject.meeting
        return common | {
            "kind": "gone", "meeting_id": str(meeting.id), "account_id": str(meeting.account_id),
            "provider_meeting_id": meeting.provider_meeting_id, "host": subject.provider_user_id,
            "start_at": utc_text(meeting.start_at), "credits": meeting.credits,
        }  # fmt: skip
    memo = subject.sold
    return common | {
        "kind": "lost", "meeting_id": str(subject.meeting_id),
        "account_id": None if memo is None else str(memo.account_id),
        "provider_meeting_id": subject.listed.provider_meeting_id, "host": subject.host.provider_user_id,
        "start_at": None if memo is None else utc_text(memo.start_at),
        "credits": None if memo is None else memo.credits,
    }  # fmt: skip


def _event(event: ReceivedEvent) -> dict[str, object]:
    return {
        "at": utc_text(event.at), "account_id": str(event.account_id), "event_id": str(event.event_id),
        "event_type": event.kind, "webhook_id": event.webhook_id,
    }  # fmt: skip
