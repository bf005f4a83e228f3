"""Creating a meeting (spec 4.1): what is taken, what it makes, what it costs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from uuid import UUID

import pytest

from meetcore.adapters.memory.clock import ManualClock
from meetcore.domain.meetings.schedule import WIB
from tests.support.api_contract import Contract
from tests.support.api_harness import (
    BASE_URL,
    RECORDING_CREDITS,
    TIER_CREDITS,
    ApiHarness,
    Customer,
    Funds,
    api_on,
    client_of,
    code_of,
)

FIELDS = {
    "id",
    "title",
    "status",
    "start_at",
    "start_at_wib",
    "end_at",
    "duration",
    "duration_unit",
    "capacity",
    "join_url",
    "password",
    "host_key",
    "provider_meeting_id",
    "auto_notulen",
    "created_at",
    "with_recording",
    "credits_deducted",
}
"""Spec 2.1."""


@pytest.mark.spec("2.1/fields", "4.1/4", "1/meetings", "4.1/date", "4.1/start_time")
async def test_the_meeting_record(harness: ApiHarness, customer: Customer) -> None:
    body = harness.body(title="Rapat 🎉 “mingguan”")
    before = datetime.now(UTC).replace(microsecond=0)
    answer = await customer.post("/meetings", body)
    assert answer.status_code == 201
    record = answer.json()
    assert set(record) == FIELDS
    start = datetime.fromisoformat(f"{body['date']}T{body['start_time']}:00+07:00")
    assert UUID(record["id"]).version == 7
    assert answer.headers["Location"] == f"{BASE_URL}/api/v1/meetings/{record['id']}"
    assert record["title"] == body["title"]
    assert record["status"] == "scheduled"
    assert record["start_at"] == f"{start.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    assert record["start_at_wib"] == f"{start:%Y-%m-%dT%H:%M:%S}+07:00"
    assert record["end_at"] == f"{start.astimezone(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    assert (record["duration"], record["duration_unit"]) == (60, "minutes")
    assert record["capacity"] == 100
    assert record["join_url"].startswith(f"{BASE_URL}/")
    assert 4 <= len(record["password"]) <= 10, "one is generated"
    assert record["host_key"] is None
    assert record["provider_meeting_id"]
    assert record["auto_notulen"] is record["with_recording"] is False
    assert before <= datetime.fromisoformat(record["created_at"]) <= datetime.now(UTC)
    assert record["credits_deducted"] == TIER_CREDITS
    assert (await customer.get(f"/meetings/{record['id']}")).json() == record
    assert await customer.funds() == Funds(1000 - TIER_CREDITS, 0, 2)
    assert await customer.balance() == 1000 - TIER_CREDITS


@pytest.mark.spec("4.1/flags", "4.1/1", "4.1/2", "2.1/with_recording")
@pytest.mark.parametrize(("recording", "notes"), list(product([None, False, True], repeat=2)))
async def test_recording_is_coerced(customer: Customer, recording: bool | None, notes: bool | None) -> None:
    flags = {"with_recording": recording, "auto_notulen": notes}
    sent = {name: ... if value is None else value for name, value in flags.items()}
    record = await customer.make_meeting(**sent)
    is_effective = bool(recording or notes)
    assert record["with_recording"] is is_effective
    assert record["auto_notulen"] is bool(notes)
    price = TIER_CREDITS + (RECORDING_CREDITS if is_effective else 0)
    assert record["credits_deducted"] == price
    assert await customer.balance() == 1000 - price


@pytest.mark.spec("4.1/title", "4.1/description", "4.1/password")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", "a"),
        ("title", "a" * 200),
        ("title", "🎉" * 200),
        ("title", " "),
        ("description", ""),
        ("description", "é" * 1000),
        ("description", "one\ntwo\tthree\r\n"),
        ("password", "abcd"),
        ("password", "aB3@-_*xyz"),
    ],
)
async def test_values_at_the_edge_that_are_taken(customer: Customer, field: str, value: str) -> None:
    record = await customer.make_meeting(**{field: value})
    if field in record:
        assert record[field] == value


@pytest.mark.spec("4.1/tier", "7/404", "4.1/errors")
@pytest.mark.parametrize("tier", ["standard-101", "STANDARD-100", "' OR 1=1", "🎉", "a" * 5000])
async def test_a_tier_that_is_not_on_sale(harness: ApiHarness, customer: Customer, tier: str) -> None:
    answer = await customer.post("/meetings", harness.body(pricing_tier_id=tier))
    assert code_of(answer) == (404, "not_found")
    assert await customer.funds() == Funds(1000, 0, 1)


@pytest.mark.spec("7/422", "4.1/password", "4.1/errors")
async def test_a_password_that_the_provider_cannot_take(harness: ApiHarness, customer: Customer) -> None:
    for password in ("abc def", "pässword", "ab#cd"):
        answer = await customer.post("/meetings", harness.body(password=password))
        assert code_of(answer) == (422, "unprocessable_entity")
        assert "@-_*" in answer.json()["error"]["message"]
    assert await customer.funds() == Funds(1000, 0, 1)
    assert await customer.meeting_statuses() == []


@pytest.mark.spec("4.1/password")
async def test_generated_passwords_differ(customer: Customer) -> None:
    passwords = {(await customer.make_meeting())["password"] for _ in range(3)}
    assert len(passwords) == 3


@pytest.mark.spec("4.1/date", "4.1/start_time", "7/422")
async def test_the_edges_of_the_year(harness: ApiHarness, contract: Contract) -> None:
    now = datetime.now(WIB).replace(second=0, microsecond=0) + timedelta(minutes=1)
    clock = ManualClock(now.astimezone(UTC))
    customer = await harness.customer()
    async with api_on(harness.application, clock=clock) as api, client_of(api, contract) as http:
        there = customer.at(http)
        for start, status in [
            (now, 201),
            (now - timedelta(minutes=1), 422),
            (now - timedelta(days=400), 422),
            (now + timedelta(days=365), 201),
            (now + timedelta(days=365, minutes=1), 422),
            (now.replace(year=9999), 422),
            (now.replace(year=1, month=1, day=1, hour=0), 422),
        ]:
            body = harness.body(date=f"{start:%Y-%m-%d}".rjust(10, "0"), start_time=f"{start:%H:%M}")
            answer = await there.post("/meetings", body)
            assert answer.status_code == status, (start, answer.text)
    assert await customer.funds() == Funds(980, 0, 3)


@pytest.mark.spec("4.1/date", "4.1/start_time", "2.1/fields")
@pytest.mark.parametrize(
    ("time", "day_before"), [("00:00", True), ("06:59", True), ("07:00", False), ("23:59", False)]
)
async def test_wib_is_seven_hours_ahead(harness: ApiHarness, time: str, day_before: bool) -> None:
    customer = await harness.customer()
    day = (datetime.now(WIB) + timedelta(days=364)).date()
    record = await customer.make_meeting(date=f"{day:%Y-%m-%d}", start_time=time)
    utc_day = day - timedelta(days=1) if day_before else day
    hour, minute = divmod((int(time[:2]) * 60 + int(time[3:]) - 7 * 60) % 1440, 60)
    assert record["start_at"] == f"{utc_day:%Y-%m-%d}T{hour:02}:{minute:02}:00Z"
    assert record["start_at_wib"] == f"{day:%Y-%m-%d}T{time}:00+07:00"


@pytest.mark.spec("4.1/3", "7/503", "4.1/errors")
async def test_no_host_is_free(harness: ApiHarness, customer: Customer) -> None:
    body = harness.body()
    for _ in range(2):
        assert (await customer.post("/meetings", body)).status_code == 201
    before = await customer.funds()
    answer = await customer.post("/meetings", body)
    assert code_of(answer) == (503, "service_unavailable")
    assert int(answer.headers["Retry-After"]) >= 1
    assert await customer.funds() == before
    assert await customer.hosts_taken() == 2


@pytest.mark.spec("4.1/3")
async def test_a_meeting_may_begin_when_another_ends(harness: ApiHarness, customer: Customer) -> None:
    start = harness.slots.take()
    for hour, is_free in [(0, True), (0, True), (1, True), (1, True), (0.5, False), (1.5, False)]:
        at = start + timedelta(hours=hour)
        answer = await customer.post(
            "/meetings", harness.body(date=f"{at:%Y-%m-%d}", start_time=f"{at:%H:%M}")
        )
        assert answer.status_code == (201 if is_free else 503), (hour, answer.text)


@pytest.mark.spec("4.1/3", "1/meetings")
async def test_many_at_the_same_time_share_two_hosts(harness: ApiHarness, customer: Customer) -> None:
    body = harness.body()
    answers = await asyncio.gather(*(customer.post("/meetings", body) for _ in range(12)))
    assert sorted(answer.status_code for answer in answers) == [201] * 2 + [503] * 10
    assert await customer.funds() == Funds(980, 0, 3)
    assert await customer.hosts_taken() == 2


@pytest.mark.spec("7/502", "4.1/errors")
async def test_a_provider_that_refuses_leaves_nothing_behind(harness: ApiHarness, customer: Customer) -> None:
    body = harness.body(title="Rapat [sandbox:refuse]")
    assert code_of(await customer.post("/meetings", body)) == (502, "upstream_error")
    assert await customer.funds() == Funds(1000, 0, 1)
    assert await customer.hosts_taken() == 0
    assert await customer.meeting_statuses() == ["abandoned"]
    for _ in range(2):
        assert (await customer.post("/meetings", body | {"title": "Rapat"})).status_code == 201


@pytest.mark.spec("7/502")
async def test_an_abandoned_meeting_is_not_visible(harness: ApiHarness, customer: Customer) -> None:
    await customer.post("/meetings", harness.body(title="[sandbox:refuse]"))
    [row] = await harness.query("SELECT id FROM meetings WHERE account_id = %s", customer.account_id)
    assert code_of(await customer.get(f"/meetings/{row['id']}")) == (404, "not_found")
    assert code_of(await customer.delete(f"/meetings/{row['id']}")) == (404, "not_found")


@pytest.mark.spec("7/other", "4.1/errors", "1/credits")
async def test_credits_that_do_not_suffice(harness: ApiHarness) -> None:
    customer = await harness.customer(credits=14)
    answer = await customer.post("/meetings", harness.body(auto_notulen=True))
    assert code_of(answer) == (422, "insufficient_credits")
    assert answer.json()["error"]["details"] == {"required": 15, "available": 14}
    assert await customer.funds() == Funds(14, 0, 1)
    assert await customer.hosts_taken() == 0
    assert (await customer.post("/meetings", harness.body())).status_code == 201
    assert await customer.balance() == 4


@pytest.mark.spec("5/7", "7/other", "1/credits")
async def test_the_daily_cap_of_a_key(harness: ApiHarness) -> None:
    customer = await harness.customer(daily_cap=25)
    meetings = [await customer.make_meeting() for _ in range(2)]
    answer = await customer.post("/meetings", harness.body())
    assert code_of(answer) == (422, "credit_cap_exceeded")
    details = answer.json()["error"]["details"]
    resets_at = datetime.fromisoformat(details.pop("resets_at"))
    assert details == {"cap": 25, "spent": 20, "required": 10}
    assert resets_at.astimezone(WIB).strftime("%H:%M:%S") == "00:00:00"
    assert timedelta() < resets_at - datetime.now(UTC) <= timedelta(days=1)
    assert await customer.funds() == Funds(980, 0, 3)
    another_key = await harness.another_key(customer)
    await another_key.make_meeting()  # the cap is the key's, not the account's
    await customer.delete(f"/meetings/{meetings[0]['id']}")
    await customer.make_meeting()  # what was refunded does not count


@pytest.mark.spec("1/credits", "5/7")
async def test_racing_for_the_last_credits(harness: ApiHarness) -> None:
    uncovered = await harness.customer(credits=35)
    capped = await harness.customer(daily_cap=35)
    for customer, code in ((uncovered, "insufficient_credits"), (capped, "credit_cap_exceeded")):
        answers = await asyncio.gather(*(customer.post("/meetings", harness.body()) for _ in range(8)))
        assert [answer.status_code for answer in answers].count(201) == 3
        assert {code_of(answer)[1] for answer in answers if answer.is_error} == {code}
    assert await uncovered.funds() == Funds(5, 0, 4)
    assert await capped.funds() == Funds(970, 0, 4)


@pytest.mark.spec("2.1/fields")
async def test_ids_grow_with_time(customer: Customer) -> None:
    ids = [(await customer.make_meeting())["id"] for _ in range(3)]
    assert all(one[:8] <= other[:8] for one, other in pairwise(ids))
