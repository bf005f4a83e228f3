"""Proposals to move many credits, which another operator approves or rejects."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from uuid import UUID

from starlette.responses import Response

from meetcore.adapters.web.console.page import ConsolePage, ConsoleVisit
from meetcore.adapters.web.problems import FORM, explain
from meetcore.adapters.web.texts import TRANSFER_KINDS, _
from meetcore.adapters.web.visit import see_other
from meetcore.domain.errors import Conflict, Gone, Unprocessable
from meetcore.domain.ids import parse_id
from meetcore.domain.members.roles import OperatorAction
from meetcore.domain.money.ledger import InvalidAmount
from meetcore.domain.money.proposals import Proposal
from meetcore.domain.money.transfers import TransferKind
from meetcore.ports.member_queries import SignedInOperator

ROOT: Final = "/console/proposals"
_TOO_MANY: Final = _(
    "The balance would leave the range of credits. Reject this proposal and make a smaller one."
)

Decide = Callable[[SignedInOperator, str | None, UUID], Awaitable[Proposal]]


@ConsolePage("GET", ROOT, OperatorAction.APPROVE_CREDITS)
async def list_proposals(visit: ConsoleVisit) -> Response:
    """What waits for a decision."""
    return await _list(visit, {})


@ConsolePage("POST", f"{ROOT}/{{proposal_id}}/approve", OperatorAction.APPROVE_CREDITS, needs_fresh=True)
async def approve(visit: ConsoleVisit) -> Response:
    """Move the credits."""
    return await _decide(visit, visit.use.proposals.approve, "proposal_approved")


@ConsolePage("POST", f"{ROOT}/{{proposal_id}}/reject", OperatorAction.APPROVE_CREDITS, needs_fresh=True)
async def reject(visit: ConsoleVisit) -> Response:
    """Move nothing."""
    return await _decide(visit, visit.use.proposals.reject, "proposal_rejected")


async def _decide(visit: ConsoleVisit, decide: Decide, done: str) -> Response:
    proposal_id = parse_id(visit.request.path_params["proposal_id"], "proposal")
    try:
        await decide(visit.signed_in, visit.client_address, proposal_id)
    except (Conflict, Gone, Unprocessable) as refusal:
        return await _list(visit, explain(visit.look, refusal), 409)
    except InvalidAmount:
        return await _list(visit, {FORM: visit.text(_TOO_MANY)}, 409)
    return see_other(f"{ROOT}?done={done}")


async def _list(visit: ConsoleVisit, errors: Mapping[str, str], status: int = 200) -> Response:
    found = await visit.use.proposals.list_pending(visit.signed_in)
    shown = [(each, visit.text(TRANSFER_KINDS[TransferKind(each.proposal.kind.value)])) for each in found]
    own_id = visit.signed_in.operator.id
    return visit.page(
        "console/proposals.html", status, proposals=shown, own_id=own_id, errors=errors,
        above=visit.use.proposals.above,
    )  # fmt: skip
