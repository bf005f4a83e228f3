"""The audit log of everything: who changed what, from where and when."""

from typing import Final

from starlette.responses import Response

from meetcore.adapters.web.audit_texts import audit_rows
from meetcore.adapters.web.console.page import ConsolePage, ConsoleVisit
from meetcore.adapters.web.filters import PAGE_SIZE, read_before
from meetcore.domain.members.roles import OperatorAction

ROOT: Final = "/console/audit"


@ConsolePage("GET", ROOT, OperatorAction.VIEW_AUDIT)
async def show_audit_log(visit: ConsoleVisit) -> Response:
    """A page of the log, the newest first."""
    found = await visit.use.audit.list_entries(visit.signed_in, PAGE_SIZE + 1, read_before(visit))
    shown = found[:PAGE_SIZE]
    return visit.page(
        "audit.html",
        rows=audit_rows(visit, shown),
        older=f"{ROOT}?before={shown[-1].id}" if len(found) > PAGE_SIZE else "",
    )
