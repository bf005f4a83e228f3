"""Credits that two operators move: what is proposed, decided and booked; many approvals book once."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import (
    ActionNotAllowed,
    Conflict,
    Gone,
    InsufficientCredits,
    NotFound,
    Unprocessable,
)
from meetcore.domain.members.roles import OPERATORS_ALLOWED, OperatorAction, OperatorRole
from meetcore.domain.money.ledger import MAX_CREDITS, InvalidAmount, InvalidReason, InvalidReference
from meetcore.domain.money.proposals import PROPOSED_FOR, Proposal, ProposalKind
from meetcore.ports.member_queries import SignedInOperator
from meetcore.usecases.proposals import Proposals
from tests.unit.usecases.application import ApplicationHarness
from tests.unit.usecases.test_resolve_doubts import WHERE, operator


def named(number: int, role: OperatorRole = OperatorRole.FINANCE) -> SignedInOperator:
    who = operator(role)
    one = evolve(who.operator, id=UUID(int=number), email=f"{number}@example.com")
    return evolve(who, operator=one)


MAKER, OTHERS = named(1), [named(number) for number in range(2, 8)]


async def started() -> tuple[ApplicationHarness, Proposals]:
    harness = await ApplicationHarness().start()
    return harness, harness.process(four_eyes_above=50).console.proposals


async def proposed(
    harness: ApplicationHarness, use: Proposals, amount: int = 60, kind: ProposalKind = ProposalKind.TOPUP,
    reference: str = "INV-7",
) -> Proposal:  # fmt: skip
    return await use.propose(MAKER, WHERE, harness.caller.account.id, kind, amount, "paid", reference)


def actions(harness: ApplicationHarness) -> list[str]:
    entries = harness.state.committed.audit_log.values()
    return [entry.action for entry in entries if entry.actor.kind == "operator"]


@pytest.mark.parametrize(("kind", "amount"), [(ProposalKind.TOPUP, 60), (ProposalKind.ADJUSTMENT, -60)])
async def test_of_many_approvals_and_rejections_one_decides_and_books_once(
    kind: ProposalKind, amount: int
) -> None:
    harness, use = await started()
    proposal = await proposed(harness, use, amount, kind)
    assert harness.funds().balance == 100
    outcomes = await asyncio.gather(
        *(use.approve(who, WHERE, proposal.id) for who in OTHERS),
        *(use.reject(who, WHERE, proposal.id) for who in OTHERS),
        use.approve(MAKER, WHERE, proposal.id),
        return_exceptions=True,
    )
    decided = [each for each in outcomes if isinstance(each, Proposal)]
    assert len(decided) == 1
    assert {type(each) for each in outcomes} <= {Proposal, Conflict, Unprocessable}
    assert harness.funds().balance == 100 + (amount if decided[0].is_approved else 0)
    harness.prove()
    assert await use.list_pending(MAKER) == []


@pytest.mark.parametrize(("kind", "amount"), [(ProposalKind.TOPUP, 60), (ProposalKind.ADJUSTMENT, -60)])
async def test_an_approval_books_and_is_logged(kind: ProposalKind, amount: int) -> None:
    harness, use = await started()
    proposal = await proposed(harness, use, amount, kind)
    [line] = await use.list_pending(OTHERS[0])
    assert (line.proposal, line.account_name) == (proposal, "A")
    decided = await use.approve(OTHERS[0], WHERE, proposal.id)
    assert (decided.is_approved, decided.decider) == (True, "2@example.com")
    assert [entry.amount for entry in harness.entries()] == [100, amount]
    moved = "credits.topped_up" if kind is ProposalKind.TOPUP else "credits.adjusted"
    assert actions(harness) == ["credits.proposed", moved, "credits.proposal_approved"]
    with pytest.raises(Conflict):
        await use.reject(OTHERS[1], WHERE, proposal.id)


async def test_a_rejection_moves_nothing() -> None:
    harness, use = await started()
    proposal = await proposed(harness, use)
    with pytest.raises(Unprocessable):
        await use.reject(MAKER, WHERE, proposal.id)
    assert (await use.reject(OTHERS[0], WHERE, proposal.id)).is_approved is False
    with pytest.raises(Conflict):
        await use.approve(OTHERS[1], WHERE, proposal.id)
    assert harness.funds().balance == 100
    assert actions(harness) == ["credits.proposed", "credits.proposal_rejected"]


async def test_the_same_form_proposes_once() -> None:
    harness, use = await started()
    made = await asyncio.gather(*(proposed(harness, use) for _ in range(5)))
    assert {each.id for each in made} == {made[0].id}
    with pytest.raises(Conflict):
        await proposed(harness, use, 61)
    assert (await proposed(harness, use, 60, ProposalKind.ADJUSTMENT)).id != made[0].id
    assert actions(harness).count("credits.proposed") == 2


async def test_a_proposal_expires() -> None:
    harness, use = await started()
    proposal = await proposed(harness, use)
    harness.clock.advance(PROPOSED_FOR.total_seconds())
    with pytest.raises(Gone):
        await use.approve(OTHERS[0], WHERE, proposal.id)
    assert await use.list_pending(OTHERS[0]) == []
    assert harness.funds().balance == 100


@pytest.mark.parametrize("is_rejected", [True, False])
async def test_a_reference_is_proposed_again_after_a_rejection_or_an_expiry(is_rejected: bool) -> None:
    harness, use = await started()
    first = await proposed(harness, use)
    if is_rejected:
        await use.reject(OTHERS[0], WHERE, first.id)
    else:
        harness.clock.advance(PROPOSED_FOR.total_seconds())
    second = await proposed(harness, use, 61)
    assert second.id != first.id
    assert [line.proposal for line in await use.list_pending(OTHERS[0])] == [second]
    with pytest.raises(Conflict if is_rejected else Gone):
        await use.approve(OTHERS[0], WHERE, first.id)
    await use.approve(OTHERS[0], WHERE, second.id)
    with pytest.raises(Conflict):
        await proposed(harness, use, 61)
    await use.administration.top_up(harness.caller.account.id, 61, "INV-7")
    assert harness.funds().balance == 161, "one reference, one top-up"


async def test_of_two_new_proposals_after_an_expired_one_one_is_made() -> None:
    harness, use = await started()
    await proposed(harness, use)
    harness.clock.advance(PROPOSED_FOR.total_seconds())
    outcomes = await asyncio.gather(
        *(proposed(harness, use, amount) for amount in (61, 62)), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in outcomes) == ["Conflict", "Proposal"]
    assert len(await use.list_pending(OTHERS[0])) == 1


async def test_what_cannot_be_taken_stays_proposed() -> None:
    harness, use = await started()
    proposal = await proposed(harness, use, -101, ProposalKind.ADJUSTMENT)
    with pytest.raises(InsufficientCredits):
        await use.approve(OTHERS[0], WHERE, proposal.id)
    assert len(await use.list_pending(OTHERS[0])) == 1
    assert actions(harness) == ["credits.proposed"]
    with pytest.raises(NotFound):
        await use.approve(OTHERS[0], WHERE, UUID(int=99))


async def test_wrong_fields_are_refused_when_it_is_proposed() -> None:
    harness, use = await started()
    account_id = harness.caller.account.id
    for kind, amount, reason, reference, error in (
        (ProposalKind.TOPUP, -60, "paid", "a", InvalidAmount),
        (ProposalKind.TOPUP, MAX_CREDITS + 1, "paid", "a", InvalidAmount),
        (ProposalKind.ADJUSTMENT, -MAX_CREDITS - 1, "paid", "a", InvalidAmount),
        (ProposalKind.ADJUSTMENT, 0, "paid", "a", InvalidAmount),
        (ProposalKind.TOPUP, 60, " ", "a", InvalidReason),
        (ProposalKind.ADJUSTMENT, 60, "", "a", InvalidReason),
        (ProposalKind.TOPUP, 60, "paid", "", InvalidReference),
    ):
        with pytest.raises(error):
            await use.propose(MAKER, WHERE, account_id, kind, amount, reason, reference)
    with pytest.raises(NotFound):
        await use.propose(MAKER, WHERE, UUID(int=99), ProposalKind.TOPUP, 60, "paid", "a")


@pytest.mark.parametrize("role", OperatorRole)
async def test_the_use_cases_check_the_role(role: OperatorRole) -> None:
    harness, use = await started()
    proposal, who = await proposed(harness, use), named(9, role)
    account_id = harness.caller.account.id
    calls = [
        (OperatorAction.APPROVE_CREDITS, use.list_pending(who)),
        (
            OperatorAction.MOVE_CREDITS,
            use.propose(who, WHERE, account_id, ProposalKind.TOPUP, 60, "paid", "b"),
        ),
        (OperatorAction.APPROVE_CREDITS, use.approve(who, WHERE, proposal.id)),
        (OperatorAction.APPROVE_CREDITS, use.reject(who, WHERE, proposal.id)),
    ]
    for action, call in calls:
        if action not in OPERATORS_ALLOWED[role]:
            with pytest.raises(ActionNotAllowed):
                await call
        else:
            try:
                await call
            except Conflict:
                assert action is OperatorAction.APPROVE_CREDITS
