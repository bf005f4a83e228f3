"""The pages of meetings: who made one, its invitation, its file for calendars, and the order of the list."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta

from meetcore.domain.meetings.schedule import cap_day, cap_day_ends_at
from tests.support.api_harness import Customer
from tests.support.pages import form_fields
from tests.support.texts import assert_contains
from tests.support.visitors import Visitors


def unfolded(file: str) -> list[str]:
    return file.replace("\r\n ", "").splitlines()


async def test_a_meeting_has_its_id_its_maker_and_an_invitation(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    body = customer.body(title="Rapat <1>", description="Agenda:\nBudget & plan")
    by_key = (await customer.post("/meetings", body)).json()
    page = (await browser.get(f"/dashboard/meetings/{by_key['id']}")).text
    assert_contains(
        page, by_key["id"], customer.key.key.name, f"…{customer.key.key.last_four}", 'data-copy="invitation"',
        "Rapat &lt;1&gt;\n", "Agenda:\nBudget &amp; plan\n", f"Password: {by_key['password']}",
    )  # fmt: skip
    fields = {name: str(body[name]) for name in ("title", "date", "start_time", "pricing_tier_id")}
    fields["start_time"] = "21:00"
    made = await browser.post("/dashboard/meetings", **fields | {"seen_credits": "10", "form_key": "by hand"})
    assert customer.email in (await browser.get(made.headers["location"])).text.partition("<main")[2]


async def test_a_meeting_is_downloaded_for_calendars(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id)
    meeting = (
        await customer.post("/meetings", customer.body(title="Rapat; tim", description="Agenda,\nBudget"))
    ).json()
    path = f"/dashboard/meetings/{meeting['id']}"
    answer = await browser.get(f"{path}.ics")
    assert answer.headers["content-type"] == "text/calendar; charset=utf-8"
    assert f'filename="meeting-{meeting["id"]}.ics"' in answer.headers["content-disposition"]
    start = meeting["start_at"].replace("-", "").replace(":", "")
    assert_contains(
        unfolded(answer.text), r"SUMMARY:Rapat\; tim", f"DTSTART:{start}", f"URL:{meeting['join_url']}",
        f"UID:{meeting['id']}", "STATUS:CONFIRMED",
    )  # fmt: skip
    await browser.post(f"{path}/cancel", form_key="a", confirmed="yes")
    lines = unfolded((await browser.get(f"{path}.ics")).text)
    assert_contains(lines, "STATUS:CANCELLED", r"DESCRIPTION:Agenda\,\nBudget")
    assert meeting["join_url"] not in "".join(lines)
    assert "data-copy" not in (await browser.get(path)).text


async def test_an_operator_gets_no_way_into_a_meeting(customer: Customer, visitors: Visitors) -> None:
    meeting = (await customer.post("/meetings", customer.body(title="Rapat"))).json()
    operator = await visitors.operator()
    await operator.post(f"/console/accounts/{customer.account_id}/view")
    path = f"/dashboard/meetings/{meeting['id']}"
    for text in ((await operator.get(path)).text, (await operator.get(f"{path}.ics")).text):
        assert meeting["id"] in text
        assert meeting["password"] not in text
        assert meeting["join_url"] not in text
    assert form_fields((await operator.get(path)).text, f"{path}/cancel") == {}


TITLE = re.compile(r'href="/dashboard/meetings/[0-9a-f-]{36}">([^<]+)<')


async def starts_in(customer: Customer, days: int, title: str) -> str:
    """Make a meeting that starts at 23:00 WIB, so many days from today."""
    made = (await customer.post("/meetings", customer.body(title=title))).json()
    start = cap_day_ends_at(cap_day(datetime.now(UTC))) + timedelta(days=days, hours=-1)
    await customer.query(
        "UPDATE meetings SET start_at = %s, end_at = %s WHERE account_id = %s AND id = %s RETURNING id",
        start, start + timedelta(hours=1), customer.account_id, made["id"],
    )  # fmt: skip
    return str(made["id"])


async def test_meetings_come_by_their_starts_todays_first(customer: Customer, visitors: Visitors) -> None:
    browser, last = await visitors.member(customer.account_id), ""
    days = {"Next week": 7, "Last week": -7, "Tomorrow": 1, "Yesterday": -1, "Today": 0}
    for title, days_from_now in days.items():
        last = await starts_in(customer, days_from_now, title)

    async def titles(query: str) -> list[str]:
        return TITLE.findall((await browser.get(f"/dashboard/meetings?{query}")).text)

    assert await titles("") == ["Today", "Tomorrow", "Next week", "Yesterday", "Last week"]
    assert TITLE.findall((await browser.get("/dashboard")).text) == ["Today", "Tomorrow", "Next week"]
    assert await titles("when=past") == ["Yesterday", "Last week"]
    assert await titles("when=upcoming&status=scheduled")
    today = cap_day(datetime.now(UTC))
    ranged = await titles(f"from={today - timedelta(days=1)}&to={today + timedelta(days=1)}")
    assert ranged == ["Today", "Tomorrow", "Yesterday"]
    assert await titles("search=week") == ["Last week", "Next week"], "the latest made first"
    for before in ("x", "2026-01-01T00:00:00_x", f"2026-01-01T00:00:00_{last}"):
        assert await titles(f"when=past&before={before}") == ["Yesterday", "Last week"]


async def test_the_next_page_goes_on_by_start_with_the_filters(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    for number in range(27):
        await starts_in(customer, number + 1, f"No. {number:02}")
    first = (await browser.get("/dashboard/meetings?status=scheduled&from=2020-01-01")).text
    assert TITLE.findall(first) == [f"No. {number:02}" for number in range(25)]
    [link] = re.findall(r'href="([^"]+)" rel="next">Later<', first)
    assert_contains(link, "status=scheduled", "from=2020-01-01", "when=upcoming")
    assert TITLE.findall((await browser.get(html.unescape(link))).text) == ["No. 25", "No. 26"]
