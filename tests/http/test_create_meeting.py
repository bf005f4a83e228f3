"""Creating a meeting (spec 4.1): what is taken, what it makes, what it costs, and bodies that are refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from meetcore.domain.meetings.schedule import WIB
from tests.support.api_harness import (
    BASE_URL,
    TIER_CREDITS,
    ApiHarness,
    Customer,
    Funds,
    code_of,
    fields_of,
)

FIELDS = {
    "id", "title", "status", "start_at", "start_at_wib", "end_at", "duration", "duration_unit", "capacity",
    "join_url", "password", "host_key", "provider_meeting_id", "auto_notulen", "created_at",
    "with_recording", "credits_deducted",
}  # fmt: skip
"""Spec 2.1."""


@pytest.mark.spec("2.1/fields", "4.1/4", "1/meetings", "4.1/date", "4.1/start_time")
async def test_the_meeting_record(customer: Customer) -> None:
    body = customer.body(title="Rapat 🎉 “mingguan”")
    before = datetime.now(UTC).replace(microsecond=0)
    answer = await customer.post("/meetings", body)
    assert answer.status_code == 201
    record = answer.json()
    assert set(record) == FIELDS
    start = datetime.fromisoformat(f"{body['date']}T{body['start_time']}:00+07:00")
    assert UUID(record["id"]).version == 7
    assert answer.headers["Location"] == f"{BASE_URL}/api/v1/meetings/{record['id']}"
    assert (record["title"], record["status"]) == (body["title"], "scheduled")
    assert record["start_at"] == f"{start.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    assert record["start_at_wib"] == f"{start:%Y-%m-%dT%H:%M:%S}+07:00"
    assert record["end_at"] == f"{start.astimezone(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    assert (record["duration"], record["duration_unit"], record["capacity"]) == (60, "minutes", 100)
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


@pytest.mark.spec("4.1/3", "7/503", "4.1/errors")
async def test_no_host_is_free(customer: Customer) -> None:
    body = customer.body()
    for _ in range(2):
        assert (await customer.post("/meetings", body)).status_code == 201
    before = await customer.funds()
    answer = await customer.post("/meetings", body)
    assert code_of(answer) == (503, "service_unavailable")
    assert int(answer.headers["Retry-After"]) >= 1
    assert await customer.funds() == before
    assert await customer.hosts_taken() == 2


@pytest.mark.spec("7/502", "4.1/errors")
async def test_a_provider_that_refuses_leaves_nothing_behind(customer: Customer) -> None:
    body = customer.body(title="Rapat [sandbox:refuse]")
    assert code_of(await customer.post("/meetings", body)) == (502, "upstream_error")
    assert await customer.funds() == Funds(1000, 0, 1)
    assert await customer.hosts_taken() == 0
    [row] = await customer.query("SELECT id, status FROM meetings WHERE account_id = %s", customer.account_id)
    assert row["status"] == "abandoned"
    assert code_of(await customer.get(f"/meetings/{row['id']}")) == (404, "not_found")
    assert code_of(await customer.delete(f"/meetings/{row['id']}")) == (404, "not_found")
    for _ in range(2):
        assert (await customer.post("/meetings", body | {"title": "Rapat"})).status_code == 201


@pytest.mark.spec("7/other", "4.1/errors", "1/credits")
async def test_credits_that_do_not_suffice(harness: ApiHarness) -> None:
    customer = await harness.customer(credits=14)
    answer = await customer.post("/meetings", harness.body(auto_notulen=True))
    assert code_of(answer) == (422, "insufficient_credits")
    assert answer.json()["error"]["details"] == {
        "required": 15, "available": 14, "topup_url": f"{BASE_URL}/dashboard/credits",
    }  # fmt: skip
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
    another_key = await customer.another_key()
    await another_key.make_meeting()  # the cap is the key's, not the account's
    await customer.delete(f"/meetings/{meetings[0]['id']}")
    await customer.make_meeting()  # what was refunded does not count


FLAGS = ("with_recording", "auto_notulen", "must_login", "mic_off", "email_notification")
REFUSED = [
    *(("title", value) for value in ("", "a" * 201, " ", "a\x00b", None, 5, ["a"], ...)),
    *(("description", value) for value in ("a" * 1001, "a\x7f", None, 5)),
    *(("password", value) for value in ("abc", "a" * 11, None, 1234)),
    *(("pricing_tier_id", value) for value in ("", None, ...)),
    *(("date", value) for value in ("2026-02-30", "20261201", "2026-12-01\n", None, 20261201, ...)),
    *(("start_time", value) for value in ("24:00", "9:00", "09:00\n", None, 900, ...)),
]  # fmt: skip
"""A value of each class; the domain's tests have the others."""


@pytest.mark.spec(
    "7/400", "4.1/title", "4.1/date", "4.1/start_time", "4.1/tier", "4.1/description", "4.1/password"
)
async def test_values_that_are_refused(customer: Customer) -> None:
    for field, value in REFUSED:
        fields = fields_of(await customer.post("/meetings", customer.body(**{field: value})))
        assert set(fields) == {field}, (field, value)
        assert all(fields[field]), (field, value)
    assert await customer.funds() == Funds(1000, 0, 1)


@pytest.mark.spec("7/400", "4.1/errors")
async def test_all_problems_at_once(customer: Customer) -> None:
    sent = {
        "title": "a\x00", "date": "2026-02-30", "start_time": "24:00", "password": "abc", "mic_off": "yes",
        "with_recordings": True, "description": None,
    }  # fmt: skip
    for title in (sent["title"], " ", "a" * 201):
        fields = fields_of(await customer.post("/meetings", sent | {"title": title}))
        assert set(fields) == {*sent, "pricing_tier_id"}, title
    fields = fields_of(await customer.post("/meetings", sent | {"title": "\x00" * 201, "password": "\x7f"}))
    assert [len(fields[name]) for name in ("title", "password")] == [2, 2]


@pytest.mark.spec("7/400")
async def test_fields_that_the_operation_does_not_know(customer: Customer) -> None:
    odd = {"with_recordng": True, "": 1, "Title": "x", "__class__": "y", "é\x00": 2, "id": "z"}
    fields = fields_of(await customer.post("/meetings", customer.body(**odd)))
    assert len(fields) == len(odd)
    assert set(fields) >= {"with_recordng", "", "Title", "__class__", "id"}


@pytest.mark.spec("7/400", "1/base")
async def test_bodies_that_are_no_json_object(customer: Customer) -> None:
    for raw in (
        b"", b"{", b"{}}", b'{"title":"a",}', b"{'title':'a'}", b'{"title":NaN}', b'{"title":-Infinity}',
        b'{"title":"a"} // no', b'{"title":"\xff\xfe"}', b'{"title":"\xed\xa0\x80"}', b'{"title":"a\nb"}',
        b"\xef\xbb\xbf{}", b"\x00", b"[]", b"null", b'"text"', b"7", b'{"title":01}', b'{"title":1e999}',
        b'{"title":' + b"[" * 40 + b"]" * 40 + b"}", b"[" * 60_000, b'{"title":' + b"9" * 5000 + b"}",
        b'{"a":' * 9000 + b"1" + b"}" * 9000, '{"title":"a"}'.encode("utf-16"),
    ):  # fmt: skip
        assert fields_of(await customer.send("POST", "/meetings", raw=raw)), raw
    assert await customer.funds() == Funds(1000, 0, 1)


@pytest.mark.spec("4.1/flags")
@pytest.mark.parametrize("flag", FLAGS)
async def test_each_flag_is_a_boolean(customer: Customer, flag: str) -> None:
    for taken in (True, False):
        assert (await customer.post("/meetings", customer.body(**{flag: taken}))).status_code == 201
    wrong: tuple[object, ...] = ("true", 1, 0, None, [], {}, 1.0)
    for value in wrong:
        fields = fields_of(await customer.post("/meetings", customer.body(**{flag: value})))
        assert set(fields) == {flag}, value
