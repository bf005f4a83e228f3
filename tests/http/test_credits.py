"""Credits over HTTP (rules 1/credits and 4.1/5): the balance, the cap, the ledger and estimates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from meetcore.domain.meetings.schedule import WIB, utc_text
from meetcore.domain.money.pricing import PricingTier, TierCatalogue
from meetcore.domain.requests.keys import Scope
from tests.support.api_contract import Contract
from tests.support.api_harness import (
    RECORDING_CREDITS,
    TIER,
    TIER_CREDITS,
    ApiHarness,
    Customer,
    code_of,
    fields_of,
)

FLAGS = ("with_recording", "auto_notulen", "must_login", "mic_off", "email_notification")


async def credits_of(customer: Customer) -> dict[str, Any]:
    answer = await customer.get("/credits")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def transactions(customer: Customer, query: str = "") -> list[dict[str, Any]]:
    answer = await customer.get(f"/credits/transactions{query}")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])


async def estimate(customer: Customer, **body: Any) -> dict[str, Any]:
    answer = await customer.post("/credits/estimate", {"type": "meeting", "pricing_tier_id": TIER} | body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.spec("1/credits", "1/op/credits")
async def test_the_credits_of_a_key_without_a_cap(harness: ApiHarness) -> None:
    customer = await harness.customer(scopes=[])
    assert await credits_of(customer) == {
        "balance": 1000, "held": 0, "available": 1000, "daily_cap": None,
    }  # fmt: skip


@pytest.mark.spec("1/credits", "5/7", "3/cancel-before")
async def test_the_cap_has_what_is_left_until_midnight_wib(customer: Customer) -> None:
    capped = await customer.another_key(daily_cap=15)
    before = datetime.now(WIB)
    meeting = await capped.make_meeting()
    record = await credits_of(capped)
    midnight = (before + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    later = midnight + timedelta(days=1)  # if the day turned meanwhile
    assert record["daily_cap"].pop("resets_at") in (utc_text(midnight), utc_text(later))
    assert record["daily_cap"] == {"cap": 15, "spent": TIER_CREDITS, "remaining": 5}
    assert record["balance"] == 990
    await customer.harness.administration.keys.set_daily_cap(capped.key.key.id, 4)
    assert (await credits_of(capped))["daily_cap"]["remaining"] == 0
    assert (await credits_of(customer))["daily_cap"] is None
    await customer.delete(f"/meetings/{meeting['id']}")
    record = (await credits_of(capped))["daily_cap"]
    assert (record["spent"], record["remaining"]) == (0, 4)


@pytest.mark.spec("1/credits")
async def test_what_work_in_progress_holds_is_not_available(customer: Customer) -> None:
    capped = await customer.another_key(daily_cap=100)
    assert (await capped.post("/meetings", customer.body(title="Rapat [sandbox:drop]"))).status_code == 502
    record = await credits_of(capped)
    assert (record["balance"], record["held"], record["available"]) == (1000, TIER_CREDITS, 990)
    assert record["daily_cap"]["spent"] == TIER_CREDITS


@pytest.mark.spec("1/credits", "3/cancel-before", "1/meetings")
async def test_the_ledger_has_what_moved_credits(customer: Customer) -> None:
    await customer.harness.administration.top_up(customer.account_id, 50, "INV-7")
    meeting = await customer.make_meeting(with_recording=True)
    await customer.delete(f"/meetings/{meeting['id']}")
    refund, charge, top_up, opening = await transactions(customer)
    price, key_id = TIER_CREDITS + RECORDING_CREDITS, str(customer.key.key.id)
    about = {"type": "meeting", "id": meeting["id"]}
    for each in (refund, charge, top_up, opening):
        assert abs(datetime.now(UTC) - datetime.fromisoformat(each.pop("created_at"))) < timedelta(minutes=1)
    assert charge | {"id": ""} == {
        "id": "", "kind": "meeting_charge", "amount": -price, "balance_after": 1050 - price,
        "reference": about, "reverses": None, "api_key_id": key_id,
    }  # fmt: skip
    assert refund | {"id": ""} == {
        "id": "", "kind": "meeting_refund", "amount": price, "balance_after": 1050,
        "reference": about, "reverses": charge["id"], "api_key_id": key_id,
    }  # fmt: skip
    assert top_up | {"id": ""} == {
        "id": "", "kind": "topup", "amount": 50, "balance_after": 1050,
        "reference": {"type": "topup", "id": "INV-7"}, "reverses": None, "api_key_id": None,
    }  # fmt: skip
    assert (opening["kind"], opening["amount"]) == ("topup", 1000)


@pytest.mark.spec("1/credits")
async def test_one_kind_of_the_ledger(customer: Customer) -> None:
    meetings = [await customer.make_meeting() for _ in range(3)]
    await customer.delete(f"/meetings/{meetings[-1]['id']}")
    whole = await transactions(customer)
    for kind in ("topup", "meeting_charge", "meeting_refund", "notulen_charge", "adjustment"):
        expected = [each for each in whole if each["kind"] == kind]
        assert await transactions(customer, f"?kind={kind}") == expected
        page = (await customer.get(f"/credits/transactions?kind={kind}&limit=1")).json()
        assert page["data"] == expected[:1]
        if page["next_cursor"] is not None:
            assert await transactions(customer, f"?kind={kind}&cursor={page['next_cursor']}") == expected[1:]
    problems = fields_of(await customer.get("/credits/transactions?kind=gift&limit=0&from=x&until=y"))
    assert set(problems) == {"kind", "limit", "from", "until"}


@pytest.mark.spec("1/credits")
async def test_a_range_of_the_ledger(customer: Customer) -> None:
    """Days of WIB, or instants; what is made at `to` is outside."""
    await customer.make_meeting()
    whole = await transactions(customer)
    first, last = (datetime.fromisoformat(each["created_at"]) for each in (whole[-1], whole[0]))
    days = [(at.astimezone(WIB) + timedelta(days=n)).date() for at, n in ((first, 0), (last, 1), (first, -1))]
    today, tomorrow, yesterday = days
    assert await transactions(customer, f"?from={today}&to={tomorrow}") == whole
    assert await transactions(customer, f"?from={yesterday}") == whole
    assert await transactions(customer, f"?from={tomorrow}") == []
    assert await transactions(customer, f"?from={yesterday}&to={today}") == []
    assert await transactions(customer, f"?kind=meeting_charge&from={today}&to={tomorrow}") == whole[:1]
    midnight = datetime(today.year, today.month, today.day, tzinfo=WIB)
    assert await transactions(customer, f"?from={utc_text(midnight)}") == whole
    assert await transactions(customer, f"?to={utc_text(midnight)}") == []
    assert await transactions(customer, f"?from={utc_text(last + timedelta(seconds=1))}") == []
    page = (await customer.get(f"/credits/transactions?from={today}&limit=1")).json()
    assert page["data"] == whole[:1]
    assert await transactions(customer, f"?from={today}&cursor={page['next_cursor']}") == whole[1:]
    reverse = await customer.get(f"/credits/transactions?from={tomorrow}&to={today}")
    assert fields_of(reverse) == {"from": ["must not be after to"]}


@pytest.mark.spec("5/5", "7/403")
async def test_only_the_ledger_needs_a_scope(harness: ApiHarness) -> None:
    customer = await harness.customer(scopes=[scope for scope in Scope if scope is not Scope.CREDITS_READ])
    answer = await customer.get("/credits/transactions")
    assert code_of(answer) == (403, "insufficient_scope")
    assert answer.json()["error"]["details"] == {"required": ["credits:read"]}
    assert (await customer.get("/credits")).status_code == 200
    assert (await estimate(customer))["credits"] == TIER_CREDITS
    assert len(await transactions(await customer.another_key([Scope.CREDITS_READ]))) == 1


@pytest.mark.spec(
    "1/op/estimate", "4.1/5", "4.1/1", "4.1/2", "4.1/tier", "2.1/capacity", "1/op/pricing-tiers"
)
async def test_what_is_estimated_is_what_is_charged(customer: Customer) -> None:
    """Every tier with every combination of flags that are priced, beside the others off and on.

    Each meeting is cancelled, and its host takes the next.
    """
    body = customer.body()
    tiers = (await customer.get("/pricing-tiers")).json()["data"]
    for tier, recording, notes, others in product(tiers, *[(False, True)] * 3):
        switches = recording, notes, *[others] * (len(FLAGS) - 2)
        wanted = {"pricing_tier_id": tier["id"]} | dict(zip(FLAGS, switches, strict=True))
        priced = await estimate(customer, **wanted)
        made = await customer.post("/meetings", body | wanted)
        assert made.status_code == 201, made.text
        [charge] = await transactions(customer, "?limit=1")
        meeting, is_recorded = made.json(), recording or notes
        price = tier["credits"] + is_recorded * tier["recording_credits"]
        assert price == priced["credits"] == meeting["credits_deducted"] == -charge["amount"]
        assert price == sum(item["credits"] for item in priced["items"])
        assert priced["with_recording"] == meeting["with_recording"] == is_recorded
        assert (meeting["capacity"], meeting["duration"]) == (tier["capacity"], tier["max_duration"])
        assert (priced["type"], priced["balance"], priced["sufficient"]) == ("meeting", 1000, True)
        assert charge["reference"] == {"type": "meeting", "id": meeting["id"]}
        assert (await customer.delete(f"/meetings/{meeting['id']}")).status_code == 200


async def test_a_whole_number_may_be_written_with_a_fraction_of_nothing(customer: Customer) -> None:
    """As the schema says: JSON Schema 2020-12, 6.1.1."""
    written = await customer.send("POST", "/credits/estimate", raw=b'{"type":"notulen","duration":90.0}')
    plain = await customer.post("/credits/estimate", {"type": "notulen", "duration": 90})
    assert written.status_code == 200, written.text
    assert written.json() == plain.json()


@pytest.mark.spec("1/op/estimate")
async def test_the_lines_of_an_estimate(customer: Customer) -> None:
    assert await estimate(customer, auto_notulen=True) == {
        "type": "meeting", "credits": 15, "with_recording": True, "balance": 1000, "sufficient": True,
        "items": [{"name": "meeting", "credits": 10}, {"name": "recording", "credits": 5}],
    }  # fmt: skip
    answer = await customer.post("/credits/estimate", {"type": "notulen", "duration": 90})
    assert answer.json() == {
        "type": "notulen", "credits": 90, "with_recording": True, "balance": 1000, "sufficient": True,
        "items": [{"name": "notulen", "credits": 90}],
    }  # fmt: skip


@pytest.mark.spec("1/op/estimate", "5/7", "7/other")
@pytest.mark.parametrize("credits", [9, 10, 15])
@pytest.mark.parametrize("cap", [None, 9, 15])
async def test_sufficient_is_what_the_creation_would_decide(
    harness: ApiHarness, credits: int, cap: int | None
) -> None:
    customer = await harness.customer(credits, daily_cap=cap)
    body = harness.body()
    for wanted in ({"with_recording": True}, {}):
        priced = await estimate(customer, **wanted)
        made = await customer.post("/meetings", body | wanted)
        assert priced["sufficient"] == (made.status_code == 201), made.text
        if made.status_code == 201:
            body = harness.body()
        else:
            assert made.json()["error"]["code"] in ("insufficient_credits", "credit_cap_exceeded")


@pytest.mark.spec("1/op/estimate")
async def test_what_is_held_is_not_sufficient_twice(harness: ApiHarness) -> None:
    customer = await harness.customer(15)
    await customer.post("/meetings", harness.body(title="Rapat [sandbox:drop]"))
    priced = await estimate(customer)
    assert (priced["balance"], priced["sufficient"]) == (15, False)


@pytest.mark.spec("1/op/estimate", "7/400")
async def test_an_estimate_names_every_problem(customer: Customer, contract: Contract) -> None:
    for body, named in (
        ({}, {"type"}),
        ({"type": "webinar"}, {"type"}),
        ({"type": None, "tier": 1}, {"type", "tier"}),
        ({"type": 5, "duration": 0}, {"type"}),
        ({"type": "meeting"}, {"pricing_tier_id"}),
        ({"type": "meeting", "pricing_tier_id": 7, "mic_off": "yes", "duration": 5},
         {"pricing_tier_id", "mic_off", "duration"}),
        ({"type": "meeting", "pricing_tier_id": TIER, "title": "Rapat"}, {"title"}),
        ({"type": "notulen", "pricing_tier_id": TIER}, {"duration", "pricing_tier_id"}),
        ({"type": "notulen", "duration": 0}, {"duration"}),
        ({"type": "notulen", "duration": True}, {"duration"}),
        ({"type": "notulen", "duration": "60"}, {"duration"}),
        ({"type": "notulen", "duration": 1.5}, {"duration"}),
        ({"type": "notulen", "duration": -0.0}, {"duration"}),
        ({"type": "notulen", "duration": 1e300}, {"duration"}),
        ({"type": "notulen", "duration": 525_601}, {"duration"}),
        ([], {"body"}),
    ):  # fmt: skip
        assert set(fields_of(await customer.post("/credits/estimate", body))) == named, body
        operation = contract.document["paths"]["/credits/estimate"]["post"]
        assert contract.problems(operation["requestBody"]["content"]["application/json"]["schema"], body), (
            body
        )


@pytest.mark.spec("1/op/estimate", "8/6")
async def test_an_estimate_is_a_read_and_takes_no_key(customer: Customer) -> None:
    """An operation that changes nothing ignores idempotency keys."""
    answers = [
        await customer.post("/credits/estimate", {"type": "notulen", "duration": minutes}, idem=key)
        for minutes, key in ((1, "k"), (2, "k"), (3, "too long" * 40))
    ]
    assert [answer.json()["credits"] for answer in answers] == [1, 2, 3]
    assert all("Idempotent-Replayed" not in answer.headers for answer in answers)
    assert answers[0].headers["RateLimit-Policy"].startswith('"read"')
    assert await customer.key_rows() == []


async def test_tiers_whose_ids_have_blanks_are_paged(customer: Customer) -> None:
    tiers = [PricingTier(f"Rapat besar {number}", "Rapat", 100, 60, 10, 5) for number in range(2)]
    async with customer.on(catalogue=TierCatalogue.of(tiers)) as there:
        first = (await there.get("/pricing-tiers?limit=1")).json()
        answer = await there.get(f"/pricing-tiers?limit=1&cursor={first['next_cursor']}")
    assert answer.status_code == 200, answer.text
    assert [each["id"] for each in answer.json()["data"]] == [tiers[1].id]
