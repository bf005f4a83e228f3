"""The liability report over HTTP: the page and its CSV agree with the ledger."""

from __future__ import annotations

import csv
import io

from meetcore.composition.application import Application
from meetcore.domain.members.roles import OperatorRole
from tests.support.api_harness import ApiHarness, Customer
from tests.support.console_pages import SignIn

ROOT = "/console/liability"

_MOVED = """
SELECT to_char(e.at AT TIME ZONE 'Asia/Jakarta', 'YYYY-MM') AS month, t.kind, sum(e.amount)::bigint AS credits
FROM ledger_entries e JOIN ledger_transfers t ON t.account_id = e.account_id AND t.id = e.transfer_id
WHERE e.book = 'customer' GROUP BY 1, 2
"""


async def test_the_report_agrees_with_the_ledger(
    application: Application, customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    browser = await sign_in(OperatorRole.FINANCE)
    meeting = await customer.make_meeting()
    await customer.make_meeting()
    await customer.delete(f"/meetings/{meeting['id']}")
    await application.administration.adjust(customer.account_id, -7, "a slip")
    answer = await browser.get(f"{ROOT}.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"].startswith('attachment; filename="liability-')
    months = list(csv.DictReader(io.StringIO(answer.text)))
    by_month: dict[str, dict[str, int]] = {}
    for row in await harness.query(_MOVED):
        by_month.setdefault(row["month"], {})[row["kind"]] = row["credits"]
    assert [each["month"] for each in months] == sorted(by_month, reverse=True)
    for each in months:
        moved = by_month[each["month"]]
        assert int(each["sold"]) == moved.get("topup", 0)
        assert int(each["charged"]) == -moved.get("meeting_charge", 0) - moved.get("notulen_charge", 0)
        assert int(each["refunded"]) == moved.get("meeting_refund", 0)
        assert int(each["adjusted"]) == moved.get("adjustment", 0)
    [owed] = await harness.query("SELECT sum(balance)::bigint AS balance FROM accounts")
    assert int(months[0]["owed_at_end"]) == owed["balance"]
    page = (await browser.get(ROOT)).text
    assert f"{owed['balance']:,}" in page
    assert "do not come to the sum" not in page


async def test_a_ledger_that_was_tampered_with_is_pointed_out(
    customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    browser = await sign_in()
    change = "UPDATE accounts SET balance = balance + %s WHERE id = %s RETURNING id"
    await harness.query(change, 1, customer.account_id)
    try:
        assert "do not come to the sum" in (await browser.get(ROOT)).text
    finally:
        await harness.query(change, -1, customer.account_id)
    assert "do not come to the sum" not in (await browser.get(ROOT)).text


async def test_support_sees_no_liability(sign_in: SignIn) -> None:
    browser = await sign_in(OperatorRole.SUPPORT)
    for path in (ROOT, f"{ROOT}.csv"):
        assert (await browser.get(path)).status_code == 403
    assert f'href="{ROOT}"' not in (await browser.get("/console/accounts")).text
