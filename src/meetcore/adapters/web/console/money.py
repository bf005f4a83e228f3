"""The liability report, and proposals to move many credits, which another operator approves or rejects."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from starlette.responses import Response

from meetcore.adapters.web.forms import FORM, explain, send_csv
from meetcore.adapters.web.texts import TRANSFER_KINDS, _
from meetcore.adapters.web.visit import ConsolePage, ConsoleVisit, see_other
from meetcore.domain.errors import Conflict, Gone, Unprocessable, require_record
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.members.roles import OperatorAction
from meetcore.domain.members.views import SignedInOperator
from meetcore.domain.money import ledger, proposals
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.payments.payments import Payment, payment_of
from meetcore.domain.payments.refunds import refund_amount

LIABILITY: Final = "/console/liability"
_COLUMNS: Final = ("month", "sold", "paid_back", "charged", "refunded", "adjusted", "owed_at_end", "entries")
_INCOME_COLUMNS: Final = ("month", "currency", "received", "tax", "refunded", "payments")


@ConsolePage("GET", LIABILITY, OperatorAction.VIEW_LIABILITY)
async def show_liability(visit: ConsoleVisit) -> Response:
    report = await visit.use.liability.report(visit.signed_in)
    income = await visit.use.payments.list_income(visit.signed_in)
    return visit.page("console/liability.html", report=report, income=income)


@ConsolePage("GET", f"{LIABILITY}.csv", OperatorAction.VIEW_LIABILITY)
async def download_liability(visit: ConsoleVisit) -> Response:
    """Send every month as CSV (RFC 4180), the newest first."""
    report = await visit.use.liability.report(visit.signed_in)
    rows = [
        (
            f"{each.month:%Y-%m}", each.sold, each.paid_back, each.charged, each.refunded, each.adjusted,
            each.owed, each.entries,
        )
        for each in report.months
    ]  # fmt: skip
    return _send_csv(visit, "liability", (_COLUMNS, *rows))


@ConsolePage("GET", "/console/income.csv", OperatorAction.VIEW_LIABILITY)
async def download_income(visit: ConsoleVisit) -> Response:
    """Send the money of payments by month and currency as CSV, in units of the currency."""
    income = await visit.use.payments.list_income(visit.signed_in)
    rows = [
        (f"{each.month:%Y-%m}", each.currency, each.received, each.tax, each.refunded, each.payments)
        for each in income
    ]
    return _send_csv(visit, "income", (_INCOME_COLUMNS, *rows))


def _send_csv(visit: ConsoleVisit, name: str, rows: Iterable[Sequence[object]]) -> Response:
    return send_csv(rows, f"{name}-{cap_day(visit.now)}.csv")


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


async def _find_refunded(visit: ConsoleVisit, proposal: proposals.Proposal) -> tuple[Payment, int] | None:
    """Return the payment that a proposal refunds and the money that goes back; `None` for other proposals."""
    if proposal.kind is not proposals.ProposalKind.REFUND:
        return None
    found = await visit.use.payments.find(visit.signed_in, payment_of(proposal.reference))
    payment = require_record(found, "payment").payment
    return payment, refund_amount(payment, -proposal.amount)


async def _list(visit: ConsoleVisit, errors: Mapping[str, str], status: int = 200) -> Response:
    found = await visit.use.proposals.list_pending(visit.signed_in)
    shown = [
        (
            each,
            visit.text(TRANSFER_KINDS[TransferKind(each.proposal.kind.value)]),
            await _find_refunded(visit, each.proposal),
        )
        for each in found
    ]
    own_id = visit.signed_in.operator.id
    return visit.page(
        "console/proposals.html", status, proposals=shown, own_id=own_id, errors=errors,
        above=visit.use.proposals.above,
    )  # fmt: skip
