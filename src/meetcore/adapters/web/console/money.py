"""The liability report, and proposals to move many credits, which another operator approves or rejects."""

import csv
import io
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from uuid import UUID

from starlette.responses import Response

from meetcore.adapters.web.forms import CSV_MARK, FORM, explain, send_file
from meetcore.adapters.web.texts import TRANSFER_KINDS, _
from meetcore.adapters.web.visit import ConsolePage, ConsoleVisit, see_other
from meetcore.domain.errors import Conflict, Gone, Unprocessable
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.members.roles import OperatorAction
from meetcore.domain.members.views import SignedInOperator
from meetcore.domain.money import ledger, proposals
from meetcore.domain.money.transfers import TransferKind

LIABILITY: Final = "/console/liability"
_COLUMNS: Final = ("month", "sold", "charged", "refunded", "adjusted", "owed_at_end", "entries")


@ConsolePage("GET", LIABILITY, OperatorAction.VIEW_LIABILITY)
async def show_liability(visit: ConsoleVisit) -> Response:
    report = await visit.use.liability.report(visit.signed_in)
    return visit.page("console/liability.html", report=report)


@ConsolePage("GET", f"{LIABILITY}.csv", OperatorAction.VIEW_LIABILITY)
async def download_liability(visit: ConsoleVisit) -> Response:
    """Send every month as CSV (RFC 4180), the newest first."""
    report = await visit.use.liability.report(visit.signed_in)
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(_COLUMNS)
    for each in report.months:
        month = f"{each.month:%Y-%m}"
        moved = (each.sold, each.charged, each.refunded, each.adjusted)
        rows.writerow((month, *moved, each.owed, each.entries))
    name = f"liability-{cap_day(visit.now)}.csv"
    return send_file((CSV_MARK + out.getvalue()).encode(), name, "text/csv; charset=utf-8")


PROPOSALS: Final = "/console/proposals"
_TOO_MANY: Final = _(
    "The balance would leave the range of credits. Reject this proposal and make a smaller one."
)

Decide = Callable[[SignedInOperator, str | None, UUID], Awaitable[proposals.Proposal]]


@ConsolePage("GET", PROPOSALS, OperatorAction.APPROVE_CREDITS)
async def list_proposals(visit: ConsoleVisit) -> Response:
    return await _list(visit, {})


@ConsolePage("POST", f"{PROPOSALS}/{{proposal_id}}/approve", OperatorAction.APPROVE_CREDITS, needs_fresh=True)
async def approve(visit: ConsoleVisit) -> Response:
    return await _decide(visit, visit.use.proposals.approve, "proposal_approved")


@ConsolePage("POST", f"{PROPOSALS}/{{proposal_id}}/reject", OperatorAction.APPROVE_CREDITS, needs_fresh=True)
async def reject(visit: ConsoleVisit) -> Response:
    return await _decide(visit, visit.use.proposals.reject, "proposal_rejected")


async def _decide(visit: ConsoleVisit, decide: Decide, done: str) -> Response:
    try:
        await decide(visit.signed_in, visit.client_address, visit.path_id("proposal", "proposal_id"))
    except (Conflict, Gone, Unprocessable) as refusal:
        return await _list(visit, explain(visit.look, refusal), 409)
    except ledger.InvalidAmount:
        return await _list(visit, {FORM: visit.text(_TOO_MANY)}, 409)
    return see_other(f"{PROPOSALS}?done={done}")


async def _list(visit: ConsoleVisit, errors: Mapping[str, str], status: int = 200) -> Response:
    found = await visit.use.proposals.list_pending(visit.signed_in)
    shown = [(each, visit.text(TRANSFER_KINDS[TransferKind(each.proposal.kind.value)])) for each in found]
    own_id = visit.signed_in.operator.id
    return visit.page(
        "console/proposals.html", status, proposals=shown, own_id=own_id, errors=errors,
        above=visit.use.proposals.above,
    )  # fmt: skip
