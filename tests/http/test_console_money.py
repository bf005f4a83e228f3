"""The console's proposals and its liability report over HTTP."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.money.ledger import MAX_CREDITS
from meetcore.domain.money.proposals import Proposal, ProposalKind
from tests.support.api_harness import ApiHarness, Customer
from tests.support.console_pages import logged_of, who_is
from tests.support.pages import Browser
from tests.support.texts import assert_contains
from tests.support.visitors import Visitors

PROPOSALS = "/console/proposals"


async def proposed(customer: Customer, browser: Browser, amount: int = 5000) -> Proposal:
    who = await who_is(customer.application, browser)
    return await customer.application.console.proposals.propose(
        who, None, customer.account_id, ProposalKind.TOPUP, amount, "<b>paid</b>", f"INV-{uuid4().hex}"
    )


async def test_another_operator_approves_and_the_credits_move(
    customer: Customer, visitors: Visitors, harness: ApiHarness
) -> None:
    maker, other = [await visitors.operator(OperatorRole.FINANCE) for _ in range(2)]
    proposal = await proposed(customer, maker)
    path = f"{PROPOSALS}/{proposal.id}"
    own = (await maker.get(PROPOSALS)).text
    assert_contains(own, "another operator has to decide", absent=(f"{path}/approve",))
    refused = await maker.post(f"{path}/approve")
    assert refused.status_code == 409
    assert "Another operator has to decide" in refused.text
    page = (await other.get(PROPOSALS)).text
    assert_contains(page, f'action="{path}/approve"', "&lt;b&gt;paid", absent=("<b>paid",))
    assert (await other.post(f"{path}/approve")).headers["location"] == f"{PROPOSALS}?done=proposal_approved"
    assert await customer.balance() == 6000
    for change in ("approve", "reject"):
        assert (await other.post(f"{path}/{change}")).status_code == 409
    assert await customer.balance() == 6000
    [entry] = await logged_of(customer, "credits.proposal_approved")
    assert entry["details"] == {"amount": 5000, "proposed_by": proposal.proposer}


async def test_a_rejected_proposal_moves_nothing(customer: Customer, visitors: Visitors) -> None:
    proposal = await proposed(customer, await visitors.operator(OperatorRole.ADMIN))
    other = await visitors.operator(OperatorRole.ADMIN)
    answer = await other.post(f"{PROPOSALS}/{proposal.id}/reject")
    assert answer.headers["location"] == f"{PROPOSALS}?done=proposal_rejected"
    assert str(proposal.id) not in (await other.get(PROPOSALS)).text
    assert await customer.balance() == 1000
    for id in (uuid4(), "x"):
        assert (await other.post(f"{PROPOSALS}/{id}/approve")).status_code == 404


async def test_a_balance_beyond_the_range_is_explained_and_the_proposal_stays(
    customer: Customer, visitors: Visitors
) -> None:
    maker, other = [await visitors.operator(OperatorRole.FINANCE) for _ in range(2)]
    proposal = await proposed(customer, maker, MAX_CREDITS)
    refused = await other.post(f"{PROPOSALS}/{proposal.id}/approve")
    assert refused.status_code == 409
    assert_contains(
        refused.text,
        "The balance would leave the range of credits.",
        f'action="{PROPOSALS}/{proposal.id}/reject"',
    )
    assert await customer.balance() == 1000


async def test_of_two_new_proposals_after_an_expired_one_one_is_made(
    customer: Customer, visitors: Visitors
) -> None:
    maker = await visitors.operator()
    expired, who = (
        await proposed(customer, maker),
        await who_is(customer.application, maker),
    )
    await customer.query(
        "UPDATE credit_proposals SET expires_at = now() WHERE id = %s RETURNING id", expired.id
    )
    use = customer.application.console.proposals
    named = (customer.account_id, ProposalKind.TOPUP)
    outcomes = await asyncio.gather(
        *(use.propose(who, None, *named, amount, "paid", expired.reference) for amount in (5001, 5002)),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in outcomes) == ["Conflict", "Proposal"]
    found = await use.list_pending(who)
    own = [each.proposal for each in found if each.proposal.account_id == customer.account_id]
    assert own == [each for each in outcomes if isinstance(each, Proposal)]


LIABILITY = "/console/liability"

_MOVED = """
SELECT to_char(e.at AT TIME ZONE 'Asia/Jakarta', 'YYYY-MM') AS month, t.kind, sum(e.amount)::bigint AS credits
FROM ledger_entries e JOIN ledger_transfers t ON t.account_id = e.account_id AND t.id = e.transfer_id
WHERE e.book = 'customer' GROUP BY 1, 2
"""


@asynccontextmanager
async def at_rest(harness: ApiHarness) -> AsyncIterator[None]:
    """Let no credits move meanwhile: the service works on what other tests left."""
    async with harness.pool.connection() as connection, connection.transaction():
        await connection.execute("LOCK TABLE ledger_entries IN SHARE MODE")
        yield


async def test_the_report_agrees_with_the_ledger(
    customer: Customer, visitors: Visitors, harness: ApiHarness
) -> None:
    browser = await visitors.operator(OperatorRole.FINANCE)
    meeting = await customer.make_meeting()
    await customer.make_meeting()
    await customer.delete(f"/meetings/{meeting['id']}")
    await customer.application.administration.adjust(customer.account_id, -7, "a slip")
    async with at_rest(harness):
        await check_report(customer, browser)


async def check_report(customer: Customer, browser: Browser) -> None:
    """The report, as a file and as a page, is what the ledger says."""
    answer = await browser.get(f"{LIABILITY}.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"].startswith('attachment; filename="liability-')
    assert answer.content.startswith(b"\xef\xbb\xbfmonth,")
    months = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
    by_month: dict[str, dict[str, int]] = {}
    for row in await customer.query(_MOVED):
        by_month.setdefault(row["month"], {})[row["kind"]] = row["credits"]
    assert [each["month"] for each in months] == sorted(by_month, reverse=True)
    for each in months:
        moved = by_month[each["month"]]
        assert int(each["sold"]) == moved.get("topup", 0)
        assert int(each["paid_back"]) == -moved.get("topup_refund", 0)
        assert int(each["charged"]) == -moved.get("meeting_charge", 0) - moved.get("notulen_charge", 0)
        assert int(each["refunded"]) == moved.get("meeting_refund", 0)
        assert int(each["adjusted"]) == moved.get("adjustment", 0)
    [owed] = await customer.query("SELECT sum(balance)::bigint AS balance FROM accounts")
    assert int(months[0]["owed_at_end"]) == owed["balance"]
    page = (await browser.get(LIABILITY)).text
    assert_contains(page, f"{owed['balance']:,}", absent=("do not come to the sum",))


async def test_a_ledger_that_was_tampered_with_is_pointed_out(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.operator()
    change = "UPDATE accounts SET balance = balance + %s WHERE id = %s RETURNING id"
    await customer.query(change, 1, customer.account_id)
    try:
        assert "do not come to the sum" in (await browser.get(LIABILITY)).text
    finally:
        await customer.query(change, -1, customer.account_id)
    assert "do not come to the sum" not in (await browser.get(LIABILITY)).text
