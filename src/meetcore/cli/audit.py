"""`meetcore audit list`: who changed what, when and from where."""

from json import dumps
from uuid import UUID

from cyclopts import App

from meetcore.cli.inputs import Json, Whole, check_counts, read_id
from meetcore.cli.output import print_message, show
from meetcore.cli.runner import guarded, with_application
from meetcore.composition.application import Application
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.members.audit import AuditEntry
from meetcore.ports.queries import MAX_PAGE

DEFAULT_LIMIT = 100
MAX_LIMIT = 100_000

audit = App(name="audit", help="The audit log: who changed what.")


@audit.command(name="list")
def list_entries(
    *,
    account: str | None = None,
    limit: Whole = DEFAULT_LIMIT,
    json: Json = False,
) -> None:
    """List changes of accounts, keys, credits and hosts, newest first.

    Parameters
    ----------
    account:
        Only those of this account.
    limit:
        So many at most.
    """
    account_id = None if account is None else guarded(lambda: read_id(account, "--account"), as_json=json)
    guarded(lambda: check_counts(1, MAX_LIMIT, limit=limit), as_json=json)

    async def work(application: Application) -> list[dict[str, object]]:
        found = await _read(application, account_id, limit + 1)
        return [_record(entry, as_json=json) for entry in found]

    records = with_application(work, as_json=json)
    show(records[:limit], as_json=json)
    if len(records) > limit:
        print_message(f"There are more than {limit}: see them with --limit.", as_json=True)


async def _read(application: Application, account_id: UUID | None, limit: int) -> list[AuditEntry]:
    found: list[AuditEntry] = []
    while (wanted := min(limit - len(found), MAX_PAGE)) > 0:
        before = found[-1].id if found else None
        page = await application.ports.queries.list_audit_entries(account_id, wanted, before)
        found += page
        if len(page) < wanted:
            break
    return found


def _record(entry: AuditEntry, *, as_json: bool) -> dict[str, object]:
    actor, details = entry.actor, dict(entry.details)
    return {
        "id": str(entry.id),
        "at": utc_text(entry.at),
        "account_id": None if entry.account_id is None else str(entry.account_id),
        "actor": actor.name,
        "actor_kind": actor.kind.value,
        "actor_id": None if actor.id is None else str(actor.id),
        "action": entry.action,
        "target_id": entry.target_id,
        "details": details if as_json else dumps(details, ensure_ascii=False),
        "client_address": entry.client_address,
        "is_impersonated": entry.is_impersonated,
    }
