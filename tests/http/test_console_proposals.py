"""The console's pages of proposals over HTTP, and their races in the database."""

from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

import pytest
from attrs import evolve

from meetcore.composition.application import Application
from meetcore.domain.errors import Conflict, Unprocessable
from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.money.ledger import MAX_CREDITS
from meetcore.domain.money.proposals import Proposal, ProposalKind
from meetcore.usecases.console_accounts import Movement
from tests.support.api_harness import ApiHarness, Customer
from tests.support.console_pages import SignIn, logged, who_is
from tests.support.pages import Browser

ROOT = "/console/proposals"


async def proposed(
    application: Application, customer: Customer, browser: Browser, amount: int = 5000
) -> Proposal:
    who = await who_is(application, browser)
    return await application.console.proposals.propose(
        who, None, customer.account_id, ProposalKind.TOPUP, amount, "<b>paid</b>", f"INV-{uuid4().hex}"
    )


async def test_another_operator_approves_and_the_credits_move(
    application: Application, customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    maker, other = [await sign_in(OperatorRole.FINANCE) for _ in range(2)]
    proposal = await proposed(application, customer, maker)
    path = f"{ROOT}/{proposal.id}"
    own = (await maker.get(ROOT)).text
    assert "another operator has to decide" in own
    assert f"{path}/approve" not in own
    refused = await maker.post(f"{path}/approve")
    assert refused.status_code == 409
    assert "Another operator has to decide" in refused.text
    page = (await other.get(ROOT)).text
    assert f'action="{path}/approve"' in page
    assert "&lt;b&gt;paid" in page
    assert "<b>paid" not in page
    assert (await other.post(f"{path}/approve")).headers["location"] == f"{ROOT}?done=proposal_approved"
    assert await customer.balance() == 6000
    for change in ("approve", "reject"):
        assert (await other.post(f"{path}/{change}")).status_code == 409
    assert await customer.balance() == 6000
    [entry] = [
        each
        for each in await logged(harness, "credits.proposal_approved")
        if each["account_id"] == customer.account_id
    ]
    assert entry["details"] == {"amount": 5000, "proposed_by": proposal.proposer}


async def test_a_rejected_proposal_moves_nothing(
    application: Application, customer: Customer, sign_in: SignIn
) -> None:
    proposal = await proposed(application, customer, await sign_in(OperatorRole.ADMIN))
    other = await sign_in(OperatorRole.ADMIN)
    answer = await other.post(f"{ROOT}/{proposal.id}/reject")
    assert answer.headers["location"] == f"{ROOT}?done=proposal_rejected"
    assert str(proposal.id) not in (await other.get(ROOT)).text
    assert await customer.balance() == 1000
    for id in (uuid4(), "x"):
        assert (await other.post(f"{ROOT}/{id}/approve")).status_code == 404


async def test_a_balance_beyond_the_range_is_explained_and_the_proposal_stays(
    application: Application, customer: Customer, sign_in: SignIn
) -> None:
    maker, other = [await sign_in(OperatorRole.FINANCE) for _ in range(2)]
    proposal = await proposed(application, customer, maker, MAX_CREDITS)
    refused = await other.post(f"{ROOT}/{proposal.id}/approve")
    assert refused.status_code == 409
    assert "The balance would leave the range of credits." in refused.text
    assert f'action="{ROOT}/{proposal.id}/reject"' in refused.text
    assert await customer.balance() == 1000


async def test_many_approvals_at_once_book_once(
    application: Application, customer: Customer, sign_in: SignIn
) -> None:
    proposal = await proposed(application, customer, await sign_in())
    operators = [await who_is(application, await sign_in()) for _ in range(6)]
    use = application.console.proposals
    outcomes = await asyncio.gather(
        *(use.approve(who, None, proposal.id) for who in operators),
        *(use.reject(who, None, proposal.id) for who in operators[:2]),
        return_exceptions=True,
    )
    decided = [each for each in outcomes if isinstance(each, Proposal)]
    assert len(decided) == 1
    assert {type(each) for each in outcomes} <= {Proposal, Conflict, Unprocessable}
    assert await customer.balance() == (6000 if decided[0].is_approved else 1000)


async def test_of_two_new_proposals_after_an_expired_one_one_is_made(
    application: Application, customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    maker = await sign_in()
    expired, who = await proposed(application, customer, maker), await who_is(application, maker)
    await harness.query(
        "UPDATE credit_proposals SET expires_at = now() WHERE id = %s RETURNING id", expired.id
    )
    use = application.console.proposals
    named = (customer.account_id, ProposalKind.TOPUP)
    outcomes = await asyncio.gather(
        *(use.propose(who, None, *named, amount, "paid", expired.reference) for amount in (5001, 5002)),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in outcomes) == ["Conflict", "Proposal"]
    found = await use.list_pending(who)
    own = [each.proposal for each in found if each.proposal.account_id == customer.account_id]
    assert own == [each for each in outcomes if isinstance(each, Proposal)]


@pytest.mark.parametrize(("change", "sign"), [("top_up", 1), ("adjust", -1)])
async def test_a_form_above_the_limit_proposes_and_one_below_moves(
    change: str, sign: int, application: Application, customer: Customer, sign_in: SignIn
) -> None:
    who = await who_is(application, await sign_in())
    use = evolve(application.console.accounts, proposals=evolve(application.console.proposals, above=100))
    move = getattr(use, change)
    reference = uuid4().hex
    for _ in range(2):
        assert await move(who, None, customer.account_id, sign * 101, "paid", reference) is Movement.PROPOSED
    assert await customer.balance() == 1000
    found = await application.console.proposals.list_pending(who)
    own = [each.proposal.amount for each in found if each.proposal.account_id == customer.account_id]
    assert own == [sign * 101]
    reference = uuid4().hex
    for expected in (Movement.POSTED, Movement.REPEATED):
        assert await move(who, None, customer.account_id, sign * 100, "paid", reference) is expected
    assert await customer.balance() == 1000 + sign * 100


async def test_support_decides_nothing(sign_in: SignIn) -> None:
    browser = await sign_in(OperatorRole.SUPPORT)
    assert (await browser.get(ROOT)).status_code == 403
    assert (await browser.post(f"{ROOT}/{UUID(int=1)}/approve")).status_code == 403
