"""The account (spec 2.2, 4.2), the tiers on sale, and the recommended flow as far as it is there."""

from __future__ import annotations

from uuid import UUID

import pytest

from meetcore.domain.money.pricing import DEFAULT_TIERS
from tests.support.api_harness import RECORDING_CREDITS, TIER, TIER_CREDITS, ApiHarness, Customer


@pytest.mark.spec("2.2/fields", "4.2/1", "5/6", "1/credits", "1/base")
async def test_the_account_record(customer: Customer) -> None:
    answer = await customer.get("/me")
    assert answer.status_code == 200
    record = answer.json()
    assert set(record) == {"user", "credits", "api_key"}
    assert record["user"] == {
        "id": str(customer.user_id),
        "email": customer.email,
        "full_name": "Sari Dewi",
    }
    assert str(UUID(record["user"]["id"])) == record["user"]["id"]
    assert record["credits"] == {"balance": 1000}
    assert set(record["api_key"]) == {"id", "scopes", "daily_credit_cap"}
    assert record["api_key"]["daily_credit_cap"] is None


@pytest.mark.spec("2.2/fields")
async def test_text_comes_back_as_it_was_given(harness: ApiHarness) -> None:
    account = await harness.application.administration.create_account(
        "o'mega+1@example.test", 'Sari "Ω" 🎉 </script>', 0
    )
    key = await harness.application.administration.create_key(account.id, [])
    answer = await harness.http.get("/me", headers={"Authorization": f"Bearer {key.text}"})
    assert answer.json()["user"]["full_name"] == 'Sari "Ω" 🎉 </script>'
    assert answer.json()["credits"]["balance"] == 0


@pytest.mark.spec("1/credits", "2.2/fields")
async def test_two_keys_see_one_balance_and_their_own_caps(harness: ApiHarness, customer: Customer) -> None:
    another_key = await harness.another_key(customer, daily_cap=0)
    await customer.make_meeting()
    assert await another_key.balance() == await customer.balance() == 1000 - TIER_CREDITS
    assert (await another_key.get("/me")).json()["api_key"]["daily_credit_cap"] == 0


@pytest.mark.spec("1/credits")
async def test_a_top_up_shows_at_once(harness: ApiHarness, customer: Customer) -> None:
    await harness.application.administration.top_up(customer.account_id, 50)
    assert await customer.balance() == 1050


@pytest.mark.spec("4.2/errors")
async def test_me_takes_no_body(customer: Customer) -> None:
    assert (await customer.send("GET", "/me", raw=b"{broken")).status_code == 200


@pytest.mark.spec("1/op/pricing-tiers")
async def test_the_tiers_on_sale(customer: Customer) -> None:
    answer = await customer.get("/pricing-tiers")
    assert answer.status_code == 200
    assert answer.json()["next_cursor"] is None
    tiers = {tier["id"]: tier for tier in answer.json()["data"]}
    assert list(tiers) == ["standard-100", "standard-100-long", "plus-300", "large-500", "event-1000"]
    assert tiers["plus-300"] == {
        "id": "plus-300",
        "name": DEFAULT_TIERS.find("plus-300").name,
        "capacity": 300,
        "max_duration": 180,
        "duration_unit": "minutes",
        "credits": 40,
        "recording_credits": 15,
    }


@pytest.mark.spec("1/op/pricing-tiers", "4.2/scope")
async def test_the_tiers_need_no_scope(harness: ApiHarness) -> None:
    assert (await (await harness.customer(scopes=[])).get("/pricing-tiers")).status_code == 200


@pytest.mark.spec("4.1/tier", "2.1/capacity", "1/meetings", "1/op/pricing-tiers")
async def test_a_meeting_costs_what_its_tier_says(harness: ApiHarness) -> None:
    customer = await harness.customer(credits=10_000)
    balance = 10_000
    for tier in (await customer.get("/pricing-tiers")).json()["data"]:
        for recording in (False, True):
            meeting = await customer.make_meeting(pricing_tier_id=tier["id"], with_recording=recording)
            price = tier["credits"] + (tier["recording_credits"] if recording else 0)
            assert meeting["credits_deducted"] == price
            assert meeting["capacity"] == tier["capacity"]
            assert meeting["duration"] == tier["max_duration"]
            balance -= price
            assert await customer.balance() == balance


@pytest.mark.spec("1/op/pricing-tiers", "1/meetings")
async def test_the_flow_from_tier_to_join_link(harness: ApiHarness, customer: Customer) -> None:
    tiers = (await customer.get("/pricing-tiers")).json()["data"]
    cheapest = min(tiers, key=lambda tier: int(tier["credits"]))
    assert cheapest["id"] == TIER
    meeting = await customer.make_meeting(pricing_tier_id=cheapest["id"], auto_notulen=True)
    assert meeting["credits_deducted"] == TIER_CREDITS + RECORDING_CREDITS
    page = await harness.http.get(meeting["join_url"])
    assert page.status_code == 200
    assert meeting["title"] in page.text
