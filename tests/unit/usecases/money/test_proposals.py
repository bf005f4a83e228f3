"""Credits that two operators move: proposed, decided, and booked once by any mix of ways."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from itertools import count
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from meetcore.domain.errors import (
    ActionNotAllowed,
    Conflict,
    DomainError,
    Gone,
    InsufficientCredits,
    NotFound,
    Unprocessable,
)
from meetcore.domain.members.roles import OPERATORS_ALLOWED, OperatorAction, OperatorRole
from meetcore.domain.members.views import SignedInOperator
from meetcore.domain.money.ledger import MAX_CREDITS, InvalidAmount, InvalidReason, InvalidReference
from meetcore.domain.money.proposals import PROPOSED_FOR, Proposal, ProposalKind
from meetcore.usecases.money.proposals import Proposals
from meetcore.usecases.requests.console import Movement
from tests.support.postgres_rig import PostgresRig, rig_on_its_loop
from tests.unit.usecases.access_harness import WHERE, operator
from tests.unit.usecases.application import ApplicationHarness


def named(number: int, role: OperatorRole = OperatorRole.FINANCE) -> SignedInOperator:
    who = operator(role)
    one = evolve(who.operator, id=UUID(int=number), email=f"{number}@example.com")
    return evolve(who, operator=one)


NUMBERS = count(1)
MAKER, OTHERS = named(1), [named(number) for number in range(2, 8)]


async def started() -> tuple[ApplicationHarness, Proposals]:
    harness = await ApplicationHarness().start()
    async with harness.store.begin() as tx:
        for who in (MAKER, *OTHERS):
            await tx.operators.add(who.operator)
    return harness, harness.process(four_eyes_above=50).console.proposals


async def proposed(
    harness: ApplicationHarness, use: Proposals, amount: int = 60, kind: ProposalKind = ProposalKind.TOPUP,
    reference: str = "INV-7",
) -> Proposal:  # fmt: skip
    return await use.propose(MAKER, WHERE, harness.caller.account.id, kind, amount, "paid", reference)


def actions(harness: ApplicationHarness) -> list[str]:
    entries = harness.audit_log()
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


async def test_who_was_removed_and_added_again_does_not_approve() -> None:
    harness, use = await started()
    proposal = await proposed(harness, use)
    async with harness.store.begin() as tx:
        await tx.operators.remove(MAKER.operator.id, harness.now())
        again = evolve(named(8), operator=evolve(named(8).operator, email=MAKER.operator.email.upper()))
        await tx.operators.add(again.operator)
    for decide in (use.approve, use.reject):
        with pytest.raises(Unprocessable):
            await decide(again, WHERE, proposal.id)
    assert harness.funds().balance == 100


async def moved(
    harness: ApplicationHarness, who: SignedInOperator, amount: int, account_id: UUID | None = None
) -> Movement:
    use, kind = harness.process(four_eyes_above=50).console.accounts, ProposalKind.ADJUSTMENT
    to = account_id or harness.caller.account.id
    return await use.move_credits(who, WHERE, to, kind, amount, "goodwill", f"T-{next(NUMBERS)}")


async def test_an_operator_alone_moves_no_more_in_a_day_by_many_small_amounts() -> None:
    harness, _ = await started()
    create = harness.administration.create_account
    other, third = [(await create(f"{name}@example.com", name, 100)).id for name in "xy"]
    steps = [(30, None), (-20, other), (1, third), (-1, other), (1, None)]
    done = [await moved(harness, MAKER, amount, account) for amount, account in steps]
    assert done == [Movement.POSTED] * 2 + [Movement.PROPOSED] * 3, "the sum over all accounts"
    assert harness.funds().balance == 130
    assert await moved(harness, OTHERS[0], 10, third) is Movement.POSTED, "another operator's day"
    harness.clock.advance(24 * 3600 + 1)
    assert await moved(harness, MAKER, 50) is Movement.POSTED, "another day"


async def test_operators_in_turn_move_no_more_for_an_account_than_one() -> None:
    harness, use = await started()
    done = [await moved(harness, who, 20) for who in (MAKER, *OTHERS[:3])]
    assert done == [Movement.POSTED] * 2 + [Movement.PROPOSED] * 2
    for line in await use.list_pending(OTHERS[5]):
        await use.approve(OTHERS[5], WHERE, line.proposal.id)
    assert harness.funds().balance == 180
    assert await moved(harness, OTHERS[5], 10) is Movement.POSTED, "what two have moved does not count"


async def test_of_many_movements_at_once_no_more_are_made_than_one_may_make() -> None:
    harness, _ = await started()
    done = await asyncio.gather(*(moved(harness, MAKER, 20) for _ in range(6)))
    assert done.count(Movement.POSTED) == 2
    assert harness.funds().balance == 140


async def test_the_same_form_proposes_once() -> None:
    harness, use = await started()
    made = await asyncio.gather(*(proposed(harness, use) for _ in range(5)))
    assert {each.id for each in made} == {made[0].id}
    with pytest.raises(Conflict):
        await proposed(harness, use, 61)
    assert (await proposed(harness, use, 60, ProposalKind.ADJUSTMENT)).id != made[0].id
    other = (await harness.another_caller()).account.id
    elsewhere = await use.propose(MAKER, WHERE, other, ProposalKind.TOPUP, 60, "paid", "INV-7")
    assert elsewhere.id != made[0].id
    assert actions(harness).count("credits.proposed") == 3


async def test_a_proposal_expires() -> None:
    harness, use = await started()
    proposal = await proposed(harness, use)
    harness.clock.advance(60)
    later = await proposed(harness, use, reference="INV-8")
    assert [line.proposal for line in await use.list_pending(OTHERS[0])] == [proposal, later]
    harness.clock.advance(PROPOSED_FOR.total_seconds() - 60)
    with pytest.raises(Gone):
        await use.approve(OTHERS[0], WHERE, proposal.id)
    assert [line.proposal for line in await use.list_pending(OTHERS[0])] == [later]
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
    async with harness.store.begin() as tx:
        await tx.operators.add(who.operator)
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


REFERENCE = "INV-7"
ABOVE = 50
AMOUNTS = (ABOVE, ABOVE + 10)
STEPS = ("command line", "console", "propose", "approve", "reject", "expire")


async def _tried(work: Awaitable[object]) -> None:
    try:
        await work
    except DomainError:  # a refusal moves nothing, and the next step is tried
        return


async def _booked(rounds: Sequence[Sequence[tuple[str, int]]]) -> ApplicationHarness:
    """An account after rounds of steps under one reference; the steps of a round run at once."""
    harness, proposals = await started()
    console, account_id = harness.process(four_eyes_above=ABOVE).console.accounts, harness.caller.account.id
    kind, administration = ProposalKind.TOPUP, proposals.administration
    for steps in rounds:
        found = [line.proposal.id for line in await proposals.list_pending(MAKER)]
        works: list[Awaitable[object]] = []
        for step, amount in steps:
            if step == "command line":
                works.append(administration.top_up(account_id, amount, REFERENCE))
            elif step == "console":
                works.append(console.move_credits(MAKER, WHERE, account_id, kind, amount, "paid", REFERENCE))
            elif step == "propose":
                works.append(proposals.propose(MAKER, WHERE, account_id, kind, amount, "paid", REFERENCE))
            elif step == "expire":
                harness.clock.advance(PROPOSED_FOR.total_seconds())
            elif found:
                decide = proposals.approve if step == "approve" else proposals.reject
                works.append(decide(OTHERS[0], WHERE, found[0]))
        await asyncio.gather(*(_tried(work) for work in works))
        assert len(await proposals.list_pending(MAKER)) <= 1
    harness.prove()
    return harness


@pytest.mark.hypothesis
def test_no_mix_of_ways_books_a_reference_twice(use_case_store: PostgresRig) -> None:
    step = st.tuples(st.sampled_from(STEPS), st.sampled_from(AMOUNTS))

    @settings(max_examples=60, deadline=None)
    @given(rounds=st.lists(st.lists(step, min_size=1, max_size=4), min_size=1, max_size=8))
    def mix(rounds: list[list[tuple[str, int]]]) -> None:
        _check(runner.run(_booked(rounds)))

    with rig_on_its_loop(use_case_store) as runner:
        mix()


def _check(harness: ApplicationHarness) -> None:
    own = [entry for entry in harness.entries() if entry.transfer.operation == f"topup:{REFERENCE}"]
    assert len(own) <= 1
    assert harness.funds().balance == 100 + sum(entry.amount for entry in own)


@pytest.mark.parametrize("is_topped_up_first", [True, False])
async def test_a_payment_that_is_proposed_and_topped_up_by_hand_is_booked_once(
    is_topped_up_first: bool,
) -> None:
    steps = [[("propose", 60)], [("reject", 60)], [("propose", 60)], [("expire", 60)], [("propose", 60)]]
    last = [[("command line", 60)], [("approve", 60)]]
    harness = await _booked(steps + (last if is_topped_up_first else last[::-1]))
    assert harness.funds().balance == 160
