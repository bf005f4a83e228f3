"""Proposals of operators to move many credits: one operator proposes, another one decides.

A proposal moves nothing. It is decided once, within three days, and never by who made it. One that is pending
or approved holds its reference; after a rejected or expired one the same reference can be proposed again.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import Conflict, Gone, Unprocessable

__all__ = [
    "PROPOSED_FOR",
    "Proposal",
    "ProposalKind",
    "check_same",
    "decide_proposal",
    "has_expired",
    "is_proposal_pending",
    "needs_second_operator",
]

PROPOSED_FOR: Final = timedelta(days=3)


class ProposalKind(StrEnum):
    """How the credits are to be moved."""

    TOPUP = "topup"
    ADJUSTMENT = "adjustment"


@frozen
class Proposal:
    """Credits that are to be moved. `amount` is signed; `reference` is what the ledger counts it under.

    `proposed_by` and `decided_by` are operators, the names their e-mail addresses. `is_approved` is `None`
    until it is decided. `is_replaced` means that it expired and another one has taken its reference.
    """

    id: UUID
    account_id: UUID
    kind: ProposalKind
    amount: int
    reason: str
    reference: str
    proposed_by: UUID
    proposer: str
    created_at: datetime
    expires_at: datetime
    is_approved: bool | None = None
    decided_by: UUID | None = None
    decider: str | None = None
    decided_at: datetime | None = None
    is_replaced: bool = False


def needs_second_operator(amount: int, above: int | None) -> bool:
    """Whether credits are moved by two operators only: more of them than `above`, given or taken."""
    return above is not None and abs(amount) > above


def is_proposal_pending(proposal: Proposal, now: datetime) -> bool:
    """Whether a proposal can be decided."""
    return proposal.is_approved is None and not has_expired(proposal, now)


def has_expired(proposal: Proposal, now: datetime) -> bool:
    """Whether a proposal was not decided in time, so that another one may take its reference."""
    # A replaced one stays expired for a process whose clock is behind.
    return proposal.is_approved is None and (proposal.is_replaced or now >= proposal.expires_at)


def check_same(known: Proposal, wanted: Proposal) -> None:
    """Check that a proposal which is made again under its reference is the one that is known and not decided.

    Raises:
        Conflict: it was another one, or was decided.
    """
    if (known.amount, known.reason) != (wanted.amount, wanted.reason):
        raise Conflict("The reference belongs to a proposal of another amount or reason.", known.id)
    if known.is_approved is not None:
        raise Conflict("A proposal of this reference was decided before.", known.id)


def decide_proposal(
    proposal: Proposal, operator_id: UUID, name: str, now: datetime, *, is_approved: bool
) -> Proposal:
    """Approve or reject a proposal.

    Raises:
        Conflict: it was decided before.
        Gone: it has expired.
        Unprocessable: the operator made it.
    """
    if proposal.is_approved is not None:
        raise Conflict("This proposal was decided before.", proposal.id)
    if not is_proposal_pending(proposal, now):
        raise Gone("This proposal has expired. Make another one.")
    if operator_id == proposal.proposed_by:
        raise Unprocessable("Another operator has to decide: you made this proposal.")
    return evolve(proposal, is_approved=is_approved, decided_by=operator_id, decider=name, decided_at=now)
