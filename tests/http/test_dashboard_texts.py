"""What pages of meetings and notes say: numbers with their plurals, refunds taken off, titles, summaries."""

from __future__ import annotations

import re
from uuid import UUID

import pytest

from tests.support.api_harness import ApiHarness, Customer
from tests.support.dashboard_fixtures import SignIn, browsers, sign_in

__all__ = ["browsers", "sign_in"]  # fixtures


@pytest.mark.parametrize(
    ("language", "one", "many"), [("en", "1 credit<", "10 credits<"), ("id", "1 kredit<", "10 kredit<")]
)
async def test_a_price_has_its_plural(
    harness: ApiHarness, customer: Customer, sign_in: SignIn, language: str, one: str, many: str
) -> None:
    meeting = await customer.make_meeting()
    browser, page = await sign_in(customer.account_id), f"/dashboard/meetings/{meeting['id']}"
    browser.http.headers["Accept-Language"] = language
    assert many in (await browser.get(page)).text
    await harness.query("UPDATE meetings SET credits = 1 WHERE id = %s RETURNING id", UUID(meeting["id"]))
    assert one in (await browser.get(page)).text


async def test_a_list_has_what_a_meeting_cost_less_its_refund(customer: Customer, sign_in: SignIn) -> None:
    kept, cancelled = await customer.make_meeting(title="Kept"), await customer.make_meeting(title="Off")
    assert (await customer.delete(f"/meetings/{cancelled['id']}")).status_code == 200
    page = (await (await sign_in(customer.account_id)).get("/dashboard/meetings")).text
    cells = re.findall(r'<td class="number" data-is="Credits">([^<]*)</td>', page)
    assert cells == ["0", str(kept["credits_deducted"])]
