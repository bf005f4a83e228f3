"""One reference is booked once, by whatever mix of the command line, the console and proposals it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meetcore.domain.errors import DomainError
from meetcore.domain.money.proposals import PROPOSED_FOR, ProposalKind
from tests.unit.usecases.application import ApplicationHarness
from tests.unit.usecases.test_proposals import MAKER, OTHERS, started
from tests.unit.usecases.test_resolve_doubts import WHERE

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
                works.append(console.top_up(MAKER, WHERE, account_id, amount, "paid", REFERENCE))
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


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(AMOUNTS)), min_size=1, max_size=4),
        min_size=1,
        max_size=8,
    )
)
def test_no_mix_of_ways_books_a_reference_twice(rounds: list[list[tuple[str, int]]]) -> None:
    harness = asyncio.run(_booked(rounds))
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
