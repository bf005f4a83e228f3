"""Lists of meetings, their search, and what remains after their retention."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

import pytest

from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.requests.keys import Scope
from meetcore.ports.runtime import Lease
from meetcore.testing.clock import ManualClock
from tests.http.test_webhook_operations import pages
from tests.support.api_contract import Contract
from tests.support.api_harness import ApiHarness, Customer, code_of, fields_of, until
from tests.support.sandbox_recordings import store_recording
from tests.support.visitors import SignIn

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
async def test_an_accounts_meetings_are_listed_newest_first_as_they_are_read(customer: Customer) -> None:
    assert (await customer.get("/meetings")).json() == {"data": [], "next_cursor": None}
    made = [await customer.make_meeting(title=f"{number}") for number in range(3)]
    await (await customer.harness.customer()).make_meeting()
    await customer.post("/meetings", customer.body(title="[sandbox:refuse]"))
    assert await listed(customer) == made[::-1]
    for scope in (Scope.MEETINGS_READ, Scope.MEETINGS_WRITE):
        assert await listed(await customer.another_key([scope])) == made[::-1]


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
        async with customer.on(clock=clock) as there:
            for status in ("scheduled", "started", "ended", "cancelled"):
                expected = ["kept"] * (status == shown) + ["cancelled"] * (status == "cancelled")
                assert await titles(there, status=status) == expected, (at, status)
            assert [one["status"] for one in await listed(there)] == [shown, "cancelled"]


@pytest.mark.spec("1/meetings", "4.1/date")
async def test_a_range_of_starts_has_its_beginning_and_not_its_end(customer: Customer) -> None:
    # One at noon in WIB, one at midnight after it.
    noon = customer.harness.slots.take().replace(hour=12) + timedelta(days=150)
    midnight = noon.replace(hour=0) + timedelta(days=1)
    for title, start in (("noon", noon), ("midnight", midnight)):
        body = customer.body(title=title, date=f"{start:%Y-%m-%d}", start_time=f"{start:%H:%M}")
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
async def test_all_problems_of_a_query(customer: Customer) -> None:
    for query, named in (
        ("status=SCHEDULED", {"status"}), ("status=provisioning", {"status"}),
        ("status=abandoned", {"status"}), ("status=", {"status"}),
        ("status=ended&status=ended", {"status"}), ("from=2026-02-30", {"from"}),
        ("from=yesterday", {"from"}), ("from=2026-12-01T09:00:00", {"from"}),
        ("from=2026-12-01T09:00:00+07:00", {"from"}), ("to=2026-12-01T24:00:00Z", {"to"}),
        ("to=2026-12-01T09:00Z", {"to"}), ("to=", {"to"}), ("from=2026-12-02&to=2026-12-01", {"from"}),
        ("from=2026-12-02&to=2026-12-01&limit=0", {"from", "limit"}),
        ("from=2026-12-02&from=2026-12-03", {"from"}),
        ("state=ended&from=x&to=y&cursor=z", {"state", "from", "to", "cursor"}),
    ):  # fmt: skip
        assert set(fields_of(await customer.get(f"/meetings?{query}"))) == named, query


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
async def test_a_refusal_has_the_time_at_which_a_host_is_free_next(customer: Customer) -> None:
    start = customer.harness.slots.take()
    body = customer.body(date=f"{start:%Y-%m-%d}", start_time=f"{start:%H:%M}")
    for _ in range(2):
        assert (await customer.post("/meetings", body)).status_code == 201
    answer = await customer.post("/meetings", body, idem="next")
    assert code_of(answer) == (503, "service_unavailable")
    free = start + timedelta(hours=1)
    expected = f"{free.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    assert answer.json()["error"]["details"] == {"next_available_at": expected}
    again = body | {"date": f"{free:%Y-%m-%d}", "start_time": f"{free:%H:%M}"}
    assert (await customer.post("/meetings", again)).status_code == 201


@pytest.mark.spec("2.1/fields")
async def test_host_key_is_returned_near_the_meeting_only(harness: ApiHarness, contract: Contract) -> None:
    customer = await harness.customer()
    # A host without other meetings: the best fit for this tier, as long as it exists.
    host = await harness.administration.hosts.add("keys@example.test", 500)

    async def is_given() -> bool:
        """Give the host a key of ours; the service gives it one of its own when it is first."""
        due = "UPDATE hosts SET key_due_at = clock_timestamp() WHERE id = %s AND key_due_at IS NULL"
        await harness.query(due, host.id)
        lease = Lease(harness.application.runtime.new_id(datetime.now(UTC)), 60)
        async with harness.application.ports.store.begin() as tx:
            claimed = await tx.host_keys.claim_due(100, lease)
            for each in claimed:
                assert await tx.host_keys.save(each.host_id, each.token, f"key of {each.host_id}")
        return host.id in {each.host_id for each in claimed}

    await until(is_given)
    meeting = await customer.make_meeting(pricing_tier_id="large-500")
    assert meeting["host_key"] is None
    await harness.administration.hosts.disable(host.id)
    start, path = start_of(meeting), f"/meetings/{parse_id(meeting['id'], 'meeting')}"
    key = f"key of {host.id}"
    for minutes, expected in {-16: None, -15: key, 0: key, 239: key, 240: None}.items():
        clock = ManualClock(start + minutes * MINUTE)
        async with customer.on(clock=clock) as there:
            assert (await there.get(path)).json()["host_key"] == expected, minutes
            assert [one["host_key"] for one in await listed(there)] == [expected], minutes


PAGE = "/dashboard/meetings"


def titles_in(page: str) -> list[str]:
    return re.findall(r'<a href="/dashboard/meetings/[0-9a-f-]{36}">([^<]*)</a>', page)


async def test_meetings_are_found_by_words_of_their_titles(customer: Customer, sign_in: SignIn) -> None:
    for title in ("Rapat Anggaran", "Demo produk", "rapat besar"):
        await customer.make_meeting(title=title)
    browser = await sign_in(customer.account_id)
    assert titles_in((await browser.get(f"{PAGE}?search=RAPAT")).text) == ["rapat besar", "Rapat Anggaran"]
    assert titles_in((await browser.get(f"{PAGE}?search=angg+rap&status=scheduled")).text) == [
        "Rapat Anggaran"
    ]
    assert titles_in((await browser.get(f"{PAGE}?search=rapat&status=cancelled")).text) == []
    assert len(titles_in((await browser.get(f"{PAGE}?search=%27%26%7C")).text)) == 3, "no words: no filter"
    shown = (await browser.get(f"{PAGE}?search=%22%3E%3Cscript%3E")).text
    assert 'value="&#34;&gt;&lt;script&gt;"' in shown


GONE = (410, "gone")
FAR = timedelta(days=2_000)


async def remove(harness: ApiHarness, meeting_id: str) -> None:
    """Remove everything that is over, as if it were long past its retention.

    Rounds follow until the meeting is removed: one passes over what the service's worker holds meanwhile.
    """

    async def is_removed() -> bool:
        await harness.query("UPDATE retention_progress SET due_at = now(), after_id = NULL")
        await harness.query("UPDATE meetings SET due_at = NULL WHERE status IN ('ended', 'cancelled')")
        await harness.query("UPDATE recordings SET due_at = NULL WHERE status = 'expired'")
        await harness.query("DELETE FROM orphan_checks")
        later = harness.application.runtime.now() + FAR
        await harness.application.ports.retention.remove_notes(later, 100_000)
        await harness.application.ports.retention.remove_meetings(later, 100_000)
        return not await harness.query("SELECT FROM meetings WHERE id = %s", meeting_id)

    await until(is_removed)


@pytest.mark.spec("7/410", "5/8")
async def test_a_removed_meeting_is_gone_for_its_account_and_unknown_to_others(
    harness: ApiHarness, customer: Customer
) -> None:
    cancelled = await customer.make_meeting()
    kept = await customer.make_meeting()
    await customer.delete(f"/meetings/{cancelled['id']}")
    before = (await customer.get("/credits/transactions")).json()
    await remove(harness, cancelled["id"])
    path = f"/meetings/{cancelled['id']}"
    assert code_of(await customer.get(path)) == GONE
    assert code_of(await customer.delete(path)) == GONE
    assert [one["id"] for one in (await customer.get("/meetings")).json()["data"]] == [kept["id"]]
    assert (await customer.get(f"/meetings/{kept['id']}")).status_code == 200
    other = await harness.customer()
    assert code_of(await other.get(path)) == code_of(await other.get(f"/meetings/{uuid4()}"))
    assert code_of(await other.get(path)) == (404, "not_found")
    assert (await customer.get("/credits/transactions")).json() == before
    assert cancelled["id"] in {one["reference"]["id"] for one in before["data"]}


@pytest.mark.spec("7/410")
async def test_a_removed_recording_and_its_note_are_gone(harness: ApiHarness, customer: Customer) -> None:
    recording = await store_recording(customer)
    note = (await customer.post("/notes", {"recording_id": recording["id"]})).json()
    await customer.delete(f"/recordings/{recording['id']}")
    await customer.query(
        "DELETE FROM host_reservations WHERE account_id = %s AND meeting_id = %s",
        customer.account_id, recording["meeting_id"],
    )  # fmt: skip
    await customer.query("UPDATE meetings SET status = 'ended' WHERE id = %s", recording["meeting_id"])
    await remove(harness, recording["meeting_id"])
    for path in (
        f"/notes/{note['id']}",
        f"/meetings/{recording['meeting_id']}",
        f"/recordings/{recording['id']}",
        f"/recordings/{recording['id']}/download-url",
    ):
        assert code_of(await customer.get(path)) == GONE, path
    assert code_of(await customer.post("/notes", {"recording_id": recording["id"]})) == GONE
    assert code_of(await customer.delete(f"/recordings/{recording['id']}")) == GONE
    for path in ("/meetings", "/recordings", "/notes"):
        assert (await customer.get(path)).json()["data"] == [], path
