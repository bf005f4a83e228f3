"""Proposals to move many credits: one operator proposes, another one decides.

A proposal moves nothing. It is decided once, within three days, and never by its proposer. A pending or
approved one holds its reference; after a rejected or expired one the reference can be proposed again.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import Conflict, Gone, Unprocessable
from meetcore.domain.requests.accounts import email_key

PROPOSED_FOR: Final = timedelta(days=3)


ALONE_WINDOW: Final = timedelta(days=1)
"""The time over which the credits that are moved without a proposal are summed."""


class NeedsSecondOperator(Exception):
    """So many credits are moved by two operators only."""


class ProposalKind(StrEnum):
    """The way in which the credits are moved."""

    TOPUP = "topup"
    ADJUSTMENT = "adjustment"
    REFUND = "topup_refund"


@frozen
class Proposal:
    """Credits to be moved. `amount` is signed; `reference` names the transfer in the ledger.

    `proposed_by` and `decided_by` are operators, `proposer` and `decider` their e-mail addresses.
    `is_approved` is `None` until the decision. `is_replaced`: it expired, and another one has taken its
    reference.
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
    """Return whether two operators are needed: for more credits than `above`, given or taken."""
    return above is not None and abs(amount) > above


def check_alone(moved: int, above: int | None) -> None:
    """Raise `NeedsSecondOperator` where an operator, or an account, has moved too many credits in a day.

    `moved` are the credits, given or taken, that were moved without a proposal, the present ones included:
    else one large amount would be many small ones.
    """
    if above is not None and moved > above:
        raise NeedsSecondOperator


def has_expired(proposal: Proposal, now: datetime) -> bool:
    """Return whether a proposal was not decided in time, so that another one may take its reference."""
    # A replaced one stays expired for a process whose clock is behind.
    return proposal.is_approved is None and (proposal.is_replaced or now >= proposal.expires_at)


def check_same(known: Proposal, wanted: Proposal) -> None:
    """Raise `Conflict` where the proposal known by a reference is another one, or was decided."""
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
    if has_expired(proposal, now):
        raise Gone("This proposal has expired. Make another one.")
    # One who was removed and added again has another id, and is the same person.
    is_same_person = email_key(name) == email_key(proposal.proposer)
    if operator_id == proposal.proposed_by or is_same_person:
        raise Unprocessable("Another operator has to decide: you made this proposal.")
    return evolve(proposal, is_approved=is_approved, decided_by=operator_id, decider=name, decided_at=now)
