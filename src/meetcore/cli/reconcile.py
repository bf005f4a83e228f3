"""`meetcore reconcile`: compare database and provider after a restore (docs/deploying.md, restore)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

from attrs import frozen
from cyclopts import Parameter

from meetcore.cli import inputs, output, runner
from meetcore.composition.application import Application
from meetcore.domain.errors import DomainError
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.meetings.views import FoundMeeting
from meetcore.ports.video_provider import ProviderRefused, ProviderUnknown
from meetcore.usecases.meetings.reconcile_provider import (
    CannotCompare,
    Finding,
    LostMeeting,
    NotReconciled,
    ReconcileProvider,
)

Ids = Annotated[list[str], Parameter(consume_multiple=True, negative="")]
Record = dict[str, object]

_NAMES: Final = ("kind", "meeting_id", "provider_meeting_id")
"""The fields by which an operator names findings."""


@frozen
class Wanted:
    """The findings to adopt, for an account and at a tier, and those to remove."""

    since: datetime
    adopt: Sequence[str]
    account_id: UUID
    tier: str
    remove: Sequence[str]


def reconcile(
    *, since: str, adopt: Ids | None = None, account: str | None = None, tier: str | None = None,
    remove: Ids | None = None, json: inputs.Json = False,
) -> None:  # fmt: skip
    """List the meetings that only the provider or only the database has. Ends with 1 if a change was refused.

    Parameters
    ----------
    since:
        The moment of the restore: lost meetings were made after it, and gone ones begin after it.
    adopt:
        Lost meetings to charge to --account at the present price of --tier: their ids, or lost for all.
    account:
        The account that pays for what is adopted.
    tier:
        The tier that was sold; its length must be that of the meeting.
    remove:
        Lost meetings to remove at the provider, gone ones to cancel and refund: ids; lost or gone for all.
    """
    wanted = _read(since, adopt or [], account, tier, remove or [])

    async def work(application: Application) -> list[Record]:
        return await _reconcile(application.reconcile, wanted)

    try:
        found = runner.with_application(work, as_json=json)
    except (CannotCompare, ProviderRefused, ProviderUnknown, ExceptionGroup) as error:
        output.complain("provider", f"nothing can be compared: {error}", as_json=json)
        raise SystemExit(output.ExitCode.REFUSED) from None
    output.show(found, as_json=json)
    if any(each["result"] not in ("-", "done") for each in found):
        raise SystemExit(output.ExitCode.REFUSED)


def _read(
    since: str, adopt: Sequence[str], account: str | None, tier: str | None, remove: Sequence[str]
) -> Wanted:
    at = inputs.read_time(since, "--since")
    assert at is not None
    if adopt and (account is None or tier is None):
        raise inputs.InputRefused("--adopt needs --account and --tier")
    payer = UUID(int=0) if account is None else inputs.read_id(account, "--account")
    return Wanted(at, adopt, payer, tier or "", remove)


async def _reconcile(use_case: ReconcileProvider, wanted: Wanted) -> list[Record]:
    """Survey, then adopt and remove; return a record of each finding."""
    survey = await use_case.survey(wanted.since)
    findings: list[tuple[Finding, Record]] = [
        *((lost, _record("lost", lost.meeting_id, lost.name, None, lost.found)) for lost in survey.lost),
        *(
            (gone, _record("gone", gone.id, gone.provider_meeting_id, gone.account_id, gone))
            for gone in survey.gone
        ),
    ]
    known = {"lost", "gone"}.union(*(_names_of(record) for _, record in findings))
    if unknown := {*wanted.adopt, *wanted.remove} - known:
        raise inputs.InputRefused(f"not among what was found: {', '.join(sorted(unknown))}")
    for _, record in findings:
        if all(_names_of(record) & {*named} for named in (wanted.adopt, wanted.remove)):
            raise inputs.InputRefused(f"--adopt and --remove both name {record['meeting_id']}")
    return [record | {"result": await _resolve(use_case, wanted, each, record)} for each, record in findings]


async def _resolve(use_case: ReconcileProvider, wanted: Wanted, finding: Finding, record: Record) -> str:
    names = _names_of(record)
    try:
        if names & {*wanted.remove}:
            await use_case.remove(finding)
        elif not names & {*wanted.adopt}:
            return "-"
        elif isinstance(finding, LostMeeting):
            await use_case.adopt(finding, wanted.account_id, wanted.tier)
        else:
            return "the provider does not have it"
    except (NotReconciled, DomainError, ProviderRefused, ProviderUnknown) as error:
        return str(error)
    runner.log_action("reconcile", {"id": record["meeting_id"]})
    return "done"


def _names_of(record: Record) -> set[str]:
    return {str(record[name]) for name in _NAMES}


def _record(
    kind: str, id_: UUID, name: str | None, account_id: UUID | None, shown: FoundMeeting | Meeting
) -> Record:
    return {
        "kind": kind, "meeting_id": str(id_), "provider_meeting_id": name, "title": shown.title,
        "start_at": None if shown.start_at is None else utc_text(shown.start_at), "minutes": shown.duration,
        "account_id": None if account_id is None else str(account_id),
    }  # fmt: skip
