"""Proposals to move credits: when one is needed, and who decides it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import Conflict, DomainError, Gone, Unprocessable
from meetcore.domain.money import proposals

AT = datetime(2026, 12, 1, tzinfo=UTC)
MAKER, OTHER = UUID(int=1), UUID(int=2)
PROPOSAL = proposals.Proposal(
    UUID(int=3), UUID(int=4), proposals.ProposalKind.TOPUP, 5000, "paid", "INV-7", MAKER, "a@example.com", AT,
    AT + proposals.PROPOSED_FOR,
)  # fmt: skip


@contextmanager
def refused(kind: type[DomainError], message: str, **details: str) -> Iterator[None]:
    with pytest.raises(kind) as refusal:
        yield
    assert (refusal.value.message, refusal.value.details) == (message, details)


@pytest.mark.parametrize(("amount", "above", "is_needed"), [
    (10, None, False), (10, 10, False), (11, 10, True), (-10, 10, False), (-11, 10, True), (1, 0, True),
])  # fmt: skip
def test_what_is_above_the_limit_needs_two(amount: int, above: int | None, is_needed: bool) -> None:
    assert proposals.needs_second_operator(amount, above) is is_needed


@pytest.mark.parametrize(("moved", "above"), [(0, 0), (10, 10), (11, None)])
def test_an_operator_moves_up_to_the_limit_alone(moved: int, above: int | None) -> None:
    proposals.check_alone(moved, above)


def test_an_operator_moves_no_more_than_the_limit_alone() -> None:
    with pytest.raises(proposals.NeedsSecondOperator):
        proposals.check_alone(11, 10)


@pytest.mark.parametrize("is_approved", [True, False])
def test_another_operator_decides_once_and_in_time(is_approved: bool) -> None:
    last = PROPOSAL.expires_at - timedelta(microseconds=1)
    decided = proposals.decide_proposal(PROPOSAL, OTHER, "b@example.com", last, is_approved=is_approved)
    assert decided == evolve(
        PROPOSAL, is_approved=is_approved, decided_by=OTHER, decider="b@example.com", decided_at=last
    )
    with refused(Conflict, "This proposal was decided before.", id=str(PROPOSAL.id)):
        proposals.decide_proposal(decided, OTHER, "b@example.com", AT, is_approved=not is_approved)
    with refused(Gone, "This proposal has expired. Make another one."):
        proposals.decide_proposal(
            PROPOSAL, OTHER, "b@example.com", PROPOSAL.expires_at, is_approved=is_approved
        )
    # One who was removed and added again has another id; another address may be of the same id.
    for operator, name in ((MAKER, "a@example.com"), (MAKER, "b@example.com"), (OTHER, "A@example.com")):
        with refused(Unprocessable, "Another operator has to decide: you made this proposal."):
            proposals.decide_proposal(PROPOSAL, operator, name, AT, is_approved=is_approved)


def test_the_same_proposal_again_is_the_pending_one() -> None:
    proposals.check_same(PROPOSAL, evolve(PROPOSAL, id=UUID(int=9)))
    for wanted in (evolve(PROPOSAL, amount=1), evolve(PROPOSAL, reason="other")):
        message = "The reference belongs to a proposal of another amount or reason."
        with refused(Conflict, message, id=str(PROPOSAL.id)):
            proposals.check_same(PROPOSAL, wanted)
    with refused(Conflict, "A proposal of this reference was decided before.", id=str(PROPOSAL.id)):
        proposals.check_same(evolve(PROPOSAL, is_approved=True), PROPOSAL)


def test_a_proposal_expires_with_its_time_or_when_it_is_replaced() -> None:
    assert not proposals.has_expired(PROPOSAL, PROPOSAL.expires_at - timedelta(microseconds=1))
    assert proposals.has_expired(PROPOSAL, PROPOSAL.expires_at)
    replaced = evolve(PROPOSAL, is_replaced=True)
    assert proposals.has_expired(replaced, AT), "whatever the time is where another process asks"
    with refused(Gone, "This proposal has expired. Make another one."):
        proposals.decide_proposal(replaced, OTHER, "b@example.com", AT, is_approved=True)
    for is_approved in (True, False):
        assert not proposals.has_expired(evolve(PROPOSAL, is_approved=is_approved), PROPOSAL.expires_at)
