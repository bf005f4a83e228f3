"""Listing meetings, the newest first, by their status and start; and their records."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from meetcore.adapters.memory.clock import ManualClock
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.requests.keys import Scope
from meetcore.ports.lease import Lease
from tests.http.test_webhook_operations import pages
from tests.support.api_contract import Contract
from tests.support.api_harness import ApiHarness, Customer, api_on, client_of, code_of, fields_of

Meeting = dict[str, Any]
MINUTE = timedelta(minutes=1)


async def listed(customer: Customer, **query: object) -> list[Meeting]:
    """The one page of a list."""
    answer = await customer.get(f"/meetings?{urlencode(query)}")
    assert answer.status_code == 200, answer.text
    page = answer.json()
    assert page["next_cursor"] is None
    return list(page["data"])


async def titles(customer: Customer, **query: object) -> list[str]:
    return [meeting["title"] for meeting in await listed(customer, **query)]


def start_of(meeting: Meeting) -> datetime:
    return datetime.fromisoformat(meeting["start_at"])


@pytest.mark.spec("1/meetings", "5/8", "2.1/fields")
async def test_an_accounts_meetings_are_listed_newest_first_as_they_are_read(
    harness: ApiHarness, customer: Customer
) -> None:
    assert (await customer.get("/meetings")).json() == {"data": [], "next_cursor": None}
    made = [await customer.make_meeting(title=f"{number}") for number in range(3)]
    await (await harness.customer()).make_meeting()
    await customer.post("/meetings", harness.body(title="[sandbox:refuse]"))
    assert await listed(customer) == made[::-1]
    for scope in (Scope.MEETINGS_READ, Scope.MEETINGS_WRITE):
        assert await listed(await harness.another_key(customer, [scope])) == made[::-1]


@pytest.mark.spec("1/meetings")
async def test_meetings_come_in_pages_under_any_filter(customer: Customer) -> None:
    made = [await customer.make_meeting() for _ in range(5)][::-1]
    assert await pages(customer, "/meetings?limit=2") == [made[:2], made[2:4], made[4:]]
    await customer.delete(f"/meetings/{made[1]['id']}")
    remaining = [made[0], *made[2:]]
    assert await pages(customer, "/meetings?limit=2&status=scheduled") == [remaining[:2], remaining[2:]]
    early = f"/meetings?limit=1&to={made[2]['start_at']}"
    assert await pages(customer, early) == [made[3:4], made[4:]]


@pytest.mark.spec("3/cancel-shape", "2.1/fields")
async def test_the_status_is_what_is_shown_at_that_moment(harness: ApiHarness, contract: Contract) -> None:
    customer = await harness.customer()
    cancelled, meeting = [await customer.make_meeting(title=title) for title in ("cancelled", "kept")]
    await customer.delete(f"/meetings/{cancelled['id']}")
    start = start_of(meeting)
    for at, shown in (
        (start - MINUTE, "scheduled"),
        (start, "started"),
        (start + 59 * MINUTE, "started"),
        (start + 60 * MINUTE, "ended"),
    ):
        clock = ManualClock(at)
        async with api_on(harness.application, clock=clock) as api, client_of(api, contract) as http:
            there = customer.at(http)
            for status in ("scheduled", "started", "ended", "cancelled"):
                expected = ["kept"] * (status == shown) + ["cancelled"] * (status == "cancelled")
                assert await titles(there, status=status) == expected, (at, status)
            assert [one["status"] for one in await listed(there)] == [shown, "cancelled"]


@pytest.mark.spec("1/meetings", "4.1/date")
async def test_a_range_of_starts_has_its_beginning_and_not_its_end(
    harness: ApiHarness, customer: Customer
) -> None:
    # One at noon in WIB, one at midnight after it.
    noon = harness.slots.take().replace(hour=12) + timedelta(days=150)
    midnight = noon.replace(hour=0) + timedelta(days=1)
    for title, start in (("noon", noon), ("midnight", midnight)):
        body = harness.body(title=title, date=f"{start:%Y-%m-%d}", start_time=f"{start:%H:%M}")
        assert (await customer.post("/meetings", body)).status_code == 201
    day, next_day = f"{noon:%Y-%m-%d}", f"{midnight:%Y-%m-%d}"
    assert await titles(customer, **{"from": day, "to": next_day}) == ["noon"]
    assert await titles(customer, **{"from": next_day}) == ["midnight"]
    assert await titles(customer, to=day) == []
    assert await titles(customer, **{"from": day, "to": day}) == []
    for at in (midnight.isoformat(), midnight.astimezone(UTC).isoformat().replace("+00:00", "Z")):
        assert await titles(customer, **{"from": at}) == ["midnight"]
        assert await titles(customer, to=at) == ["noon"]
    later = (midnight.astimezone(WIB) + timedelta(microseconds=1)).isoformat()
    assert await titles(customer, **{"from": later}) == []
    assert await titles(customer, to=later) == ["midnight", "noon"]


@pytest.mark.spec("7/400")
@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("status=SCHEDULED", {"status"}),
        ("status=provisioning", {"status"}),
        ("status=abandoned", {"status"}),
        ("status=", {"status"}),
        ("status=ended&status=ended", {"status"}),
        ("from=2026-02-30", {"from"}),
        ("from=yesterday", {"from"}),
        ("from=2026-12-01T09:00:00", {"from"}),
        ("from=2026-12-01T09:00:00+07:00", {"from"}),
        ("to=2026-12-01T24:00:00Z", {"to"}),
        ("to=2026-12-01T09:00Z", {"to"}),
        ("to=", {"to"}),
        ("from=2026-12-02&to=2026-12-01", {"from"}),
        ("from=2026-12-02&to=2026-12-01&limit=0", {"from", "limit"}),
        ("from=2026-12-02&from=2026-12-03", {"from"}),
        ("state=ended&from=x&to=y&cursor=z", {"state", "from", "to", "cursor"}),
    ],
)
async def test_all_problems_of_a_query(customer: Customer, query: str, named: set[str]) -> None:
    assert set(fields_of(await customer.get(f"/meetings?{query}"))) == named


async def test_a_problem_describes_what_to_do(customer: Customer) -> None:
    problems = fields_of(await customer.get("/meetings?status=x&from=2026-12-01T09:00:00+07:00"))
    assert problems["status"] == ["must be one of scheduled, started, ended, cancelled"]
    assert "%2B" in problems["from"][0]
    problems = fields_of(await customer.get("/meetings?from=2026-12-02&to=2026-12-01"))
    assert problems == {"from": ["must not be after to"]}


@pytest.mark.spec("7/400")
async def test_a_cursor_belongs_to_its_list(customer: Customer) -> None:
    for _ in range(2):
        await customer.make_meeting()
    hooks = [await customer.make_webhook() for _ in range(2)]
    for hook in hooks:
        for _ in range(2):
            await customer.post(f"/webhooks/{hook['id']}/test", None)
    lists = ["/meetings", "/webhooks", *(f"/webhooks/{hook['id']}/deliveries" for hook in hooks)]
    lists.append("/pricing-tiers")
    cursors = [(await customer.get(f"{path}?limit=1")).json()["next_cursor"] for path in lists]
    assert None not in cursors
    for path in lists:
        for other, cursor in zip(lists, cursors, strict=True):
            answer = await customer.get(f"{path}?cursor={cursor}")
            if path == other:
                assert answer.status_code == 200
            else:
                assert set(fields_of(answer)) == {"cursor"}, (path, other)


@pytest.mark.spec("7/400")
async def test_a_cursor_is_refused_whatever_is_in_it(customer: Customer) -> None:
    meeting = await customer.make_meeting()
    for inside in (meeting["id"], f" {meeting['id']}", "/api/v1/meetings", "/api/v1/meetings x", "\x00", "é"):
        cursor = quote(base64.urlsafe_b64encode(inside.encode()).decode())
        assert set(fields_of(await customer.get(f"/meetings?cursor={cursor}"))) == {"cursor"}


@pytest.mark.spec("9/3")
async def test_the_filters_are_documented(contract: Contract) -> None:
    parameters = contract.document["paths"]["/meetings"]["get"]["parameters"]
    by_name = {each["name"]: each for each in parameters}
    assert list(by_name) == ["limit", "cursor", "status", "from", "to"]
    assert by_name["status"]["schema"]["enum"] == ["scheduled", "started", "ended", "cancelled"]
    for name in ("from", "to"):
        assert [form["format"] for form in by_name[name]["schema"]["anyOf"]] == ["date-time", "date"]
        assert "WIB" in by_name[name]["description"]


@pytest.mark.spec("4.1/3", "7/503")
async def test_a_refusal_has_the_time_at_which_a_host_is_free_next(
    harness: ApiHarness, customer: Customer
) -> None:
    start = harness.slots.take()
    body = harness.body(date=f"{start:%Y-%m-%d}", start_time=f"{start:%H:%M}")
    for _ in range(2):
        assert (await customer.post("/meetings", body)).status_code == 201
    answer = await customer.post("/meetings", body, idem="next")
    assert code_of(answer) == (503, "service_unavailable")
    free = start + timedelta(hours=1)
    expected = f"{free.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    assert answer.json()["error"]["details"] == {"next_available_at": expected}
    again = body | {"date": f"{free:%Y-%m-%d}", "start_time": f"{free:%H:%M}"}
    assert (await customer.post("/meetings", again)).status_code == 201


@pytest.mark.spec("4.1/3", "7/503")
async def test_a_refusal_has_no_time_where_no_host_is_large_enough(
    harness: ApiHarness, contract: Contract
) -> None:
    customer = await harness.customer()
    await harness.query("UPDATE hosts SET capacity = capacity / 2")
    try:
        answer = await customer.post("/meetings", harness.body(pricing_tier_id="event-1000"))
    finally:
        await harness.query("UPDATE hosts SET capacity = capacity * 2")
    assert code_of(answer) == (503, "service_unavailable")
    assert answer.json()["error"]["details"] == {}


@pytest.mark.spec("2.1/fields")
async def test_the_host_key_is_returned_near_the_meeting_only(
    harness: ApiHarness, contract: Contract
) -> None:
    customer = await harness.customer()
    # A host without other meetings: the best fit for this tier, as long as it exists.
    host = await harness.application.administration.hosts.add("keys@example.test", 500)
    async with harness.application.ports.store.begin() as tx:
        for due in await tx.host_keys.claim_due(
            100, Lease(harness.application.runtime.new_id(datetime.now(UTC)), 60)
        ):
            assert await tx.host_keys.save(due.host_id, due.token, f"key of {due.host_id}")
    meeting = await customer.make_meeting(pricing_tier_id="large-500")
    assert meeting["host_key"] is None
    await harness.application.administration.hosts.disable(host.id)
    start, path = start_of(meeting), f"/meetings/{parse_id(meeting['id'], 'meeting')}"
    key = f"key of {host.id}"
    for minutes, expected in {-16: None, -15: key, 0: key, 239: key, 240: None}.items():
        clock = ManualClock(start + minutes * MINUTE)
        async with api_on(harness.application, clock=clock) as api, client_of(api, contract) as http:
            there = customer.at(http)
            assert (await there.get(path)).json()["host_key"] == expected, minutes
            assert [one["host_key"] for one in await listed(there)] == [expected], minutes
