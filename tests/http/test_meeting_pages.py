"""The pages of meetings: who made one, its invitation, its file for calendars, and the order of the list."""

from __future__ import annotations

import asyncio
import html
import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from meetcore.adapters.sandbox.recording_files import SandboxRecordingFiles
from meetcore.adapters.web.formats import format_instant
from meetcore.adapters.web.pages import meeting_lists
from meetcore.domain.meetings.schedule import cap_day, cap_day_ends_at
from meetcore.domain.notes.notes import Language
from tests.support.api_harness import BASE_URL, Customer, until
from tests.support.pages import form_fields
from tests.support.sandbox_recordings import press
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
        page, f'<code id="meeting-id">{by_key["id"]}</code>', 'data-copy="meeting-id"',
        customer.key.key.name, f"…{customer.key.key.last_four}", 'data-copy="invitation"',
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
    assert 'data-copy="invitation"' not in (await browser.get(path)).text


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


async def starts_in(customer: Customer, days: int, title: str, hour: int = 23) -> str:
    """Make a meeting that starts at this hour (WIB), so many days from today."""
    made = (await customer.post("/meetings", customer.body(title=title))).json()
    start = cap_day_ends_at(cap_day(datetime.now(UTC))) + timedelta(days=days - 1, hours=hour)
    await customer.query(
        "UPDATE meetings SET start_at = %s, end_at = %s WHERE account_id = %s AND id = %s RETURNING id",
        start, start + timedelta(hours=1), customer.account_id, made["id"],
    )  # fmt: skip
    return str(made["id"])


async def test_the_overview_has_the_next_meetings_behind_many_that_are_not_to_come(
    customer: Customer, visitors: Visitors
) -> None:
    meeting = await customer.make_meeting(title="Next")
    await customer.query(
        """INSERT INTO meetings SELECT cancelled.* FROM meetings m, generate_series(1, 60) AS n,
            jsonb_populate_record(m, jsonb_build_object(
                'id', gen_random_uuid(), 'title', 'Not to come', 'status', 'cancelled', 'duration', n,
                'start_at', now() + interval '1 minute', 'password', NULL, 'join_url', NULL)) AS cancelled
        WHERE m.id = %s RETURNING id""",
        meeting["id"],
    )
    page = (await (await visitors.member(customer.account_id)).get("/dashboard")).text
    assert_contains(page, f"/dashboard/meetings/{meeting['id']}", absent=("Not to come",))


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


async def test_an_ended_meeting_of_today_is_not_among_those_to_come(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    for title, days in {"Early": 0, "To come": 1, "Later": 2, "Past": -1}.items():
        id_ = await starts_in(customer, days, title, hour=0)
        if title in ("Early", "Later"):
            await customer.query(
                "UPDATE meetings SET status = 'ended' WHERE account_id = %s AND id = %s RETURNING id",
                customer.account_id, id_,
            )  # fmt: skip
    page = (await browser.get("/dashboard/meetings")).text
    parts = [each.partition("</h2>") for each in page.split("<h2>")[1:]]
    assert [(heading, TITLE.findall(rows)) for heading, _, rows in parts] == [
        ("Today and later", ["To come"]), ("Over already", ["Later", "Early"]), ("Earlier", ["Past"]),
    ]  # fmt: skip
    page = (await browser.get("/dashboard/meetings?status=ended&when=upcoming")).text
    assert TITLE.findall(page) == ["Later", "Early"]
    assert_contains(page, "<h2>Over already</h2>", absent=["<h2>Today and later</h2>"])


async def test_meetings_to_come_are_behind_a_page_of_those_that_are_over_already(
    customer: Customer, visitors: Visitors
) -> None:
    meeting = await customer.make_meeting(title="Next")
    await customer.query(
        """INSERT INTO meetings SELECT over.* FROM meetings m, generate_series(1, 30) AS n,
            jsonb_populate_record(m, jsonb_build_object(
                'id', gen_random_uuid(), 'title', 'Over', 'status', 'ended', 'due_at', NULL,
                'start_at', %s::timestamptz + n * interval '1 second', 'password', NULL,
                'join_url', NULL)) AS over
        WHERE m.id = %s RETURNING id""",
        cap_day_ends_at(cap_day(datetime.now(UTC))) - timedelta(days=1), meeting["id"],
    )  # fmt: skip
    browser = await visitors.member(customer.account_id)
    first = (await browser.get("/dashboard/meetings")).text
    assert_contains(first, "<h2>Over already</h2>", absent=("No meeting is planned.",))
    [link] = re.findall(r'href="([^"]+)" rel="next">Later<', first)
    later = (await browser.get(html.unescape(link))).text
    assert TITLE.findall(later) == ["Next", *["Over"] * 5]


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


WEEK = "/dashboard/meetings?view=week"


def days_of(page: str) -> list[list[str]]:
    """The titles of each day of a week."""
    days = page.partition('<ol class="week-days">')[2].partition("</ol>")[0].split("<h2>")[1:]
    return [[html.unescape(title) for title in TITLE.findall(day)] for day in days]


def week_name(day: date) -> str:
    return "{}-W{:02}".format(*day.isocalendar())


def links_of(page: str) -> dict[str, str]:
    """The addresses of the links of the list's pages, by their texts."""
    found = re.findall(r'<a href="(/dashboard/meetings\?[^"]+|/dashboard/meetings)"[^>]*>([^<]+)</a>', page)
    return {text: html.unescape(href) for href, text in found}


async def test_a_week_has_its_meetings_by_day_and_time(customer: Customer, visitors: Visitors) -> None:
    browser, today = await visitors.member(customer.account_id), cap_day(datetime.now(UTC))
    until_monday = 7 - today.weekday()
    await starts_in(customer, until_monday, "Monday evening", 20)
    await starts_in(customer, until_monday, "Monday's first minute", 0)
    await starts_in(customer, until_monday + 6, "Sunday <late>")
    await starts_in(customer, until_monday - 1, "The Sunday before")
    await starts_in(customer, until_monday + 7, "The Monday after", 0)
    cancelled = await starts_in(customer, until_monday + 2, "Cancelled", 9)
    await browser.post(f"/dashboard/meetings/{cancelled}/cancel", form_key="a", confirmed="yes")
    monday = today + timedelta(days=until_monday)
    week = f"{WEEK}&week={week_name(monday)}"
    page = (await browser.get(week)).text
    whole = [["Monday's first minute", "Monday evening"], [], ["Cancelled"], [], [], [], ["Sunday <late>"]]
    assert days_of(page) == whole
    heading = f"<h2>{monday:%a} {monday.day} {monday:%b}</h2>"
    assert_contains(page, heading, "00:00\N{EN DASH}01:00", "20:00\N{EN DASH}21:00")
    assert days_of((await browser.get(f"{WEEK}&week={monday + timedelta(days=3)}")).text) == whole
    assert days_of((await browser.get(f"{week}&status=cancelled")).text)[2] == ["Cancelled"]
    assert days_of((await browser.get(f"{week}&search=monday")).text) == [whole[0], *[[]] * 6]
    for text in ("", "x", "2026-W99", "0001-W01", "9999-W52"):
        shown = (await browser.get(f"{WEEK}&week={text}")).text
        assert days_of(shown) == [[], [], [], [], [], [], ["The Sunday before"]], text
        assert 'aria-current="date"' in shown
    assert 'aria-current="date"' not in page


async def test_the_filters_are_kept_from_week_to_week_and_to_the_list(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    await starts_in(customer, 0, "Rapat")
    links = links_of((await browser.get("/dashboard/meetings?search=Rapat&status=scheduled")).text)
    assert links["Week"] == "/dashboard/meetings?search=Rapat&status=scheduled&view=week"
    page = (await browser.get(f"{links['Week']}&week=2026-W48")).text
    links, kept = links_of(page), "search=Rapat&status=scheduled"
    assert links["List"] == f"/dashboard/meetings?{kept}"
    week = f"/dashboard/meetings?{kept}&view=week"
    assert (links["Week before"], links["Week after"]) == (f"{week}&week=2026-W47", f"{week}&week=2026-W49")
    assert links["This week"] == week
    fields = form_fields(page, "/dashboard/meetings")
    assert (fields["view"], fields["week"], fields["search"]) == ("week", "2026-W48", "Rapat")


async def test_a_week_with_more_meetings_than_a_page_says_so(
    customer: Customer, visitors: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = await visitors.member(customer.account_id)
    monkeypatch.setattr(meeting_lists, "MOST_OF_WEEK", 2)
    page = ""
    for number in range(3):
        await starts_in(customer, 0, f"No. {number}", 10 + number)
        page = (await browser.get(WEEK)).text
        assert ("more meetings than are shown" in page) is (number == 2)
    assert [title for day in days_of(page) for title in day] == ["No. 0", "No. 1"]
    assert "No. 2" in (await browser.get(links_of(page)["List them"])).text


async def test_a_meeting_leads_back_to_its_list_with_the_filters(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    meeting = await starts_in(customer, 0, "Rapat")
    lists = "/dashboard/meetings"
    for came_from, back in (
        (filtered := f"{BASE_URL}{lists}?view=week&status=scheduled&search=a%20%22b", filtered),
        (filtered := f"{BASE_URL}{lists}?when=past&before=2026", filtered),
        (f"{BASE_URL}{lists}", lists),
        (f"{BASE_URL}/dashboard", lists),
        (f"{BASE_URL}{lists}?status=\\", lists),
        ("https://[", lists),
        ("", lists),
    ):
        browser.http.headers["Referer"] = came_from
        page = (await browser.get(f"/dashboard/meetings/{meeting}")).text
        assert links_of(page)["Meetings"] == back.removeprefix(BASE_URL), came_from


def renewed_after(page: str) -> str:
    """The seconds after which a page renews itself; empty for one that does not."""
    found = re.search(r'data-refresh-s="(\d+)"', page)
    return "" if found is None else found[1]


async def test_a_page_renews_itself_while_something_of_the_meeting_is_under_way(
    customer: Customer, visitors: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, is_seen = SandboxRecordingFiles.find, asyncio.Event()

    async def find_later(files: SandboxRecordingFiles, *of: Any) -> Any:
        await is_seen.wait()
        return await find(files, *of)

    monkeypatch.setattr(SandboxRecordingFiles, "find", find_later)
    browser = await visitors.member(customer.account_id)
    meeting = await customer.make_meeting(auto_notulen=True)
    path = f"/dashboard/meetings/{meeting['id']}"
    for button, state in (("", "scheduled"), ("start", "started")):
        if button:
            await press(customer, meeting, button)
        page = (await browser.get(path)).text
        assert (renewed_after(page), f">{state}<" in page) == ("15", True)
    await press(customer, meeting, "end")
    assert renewed_after((await browser.get(path)).text) == "5", "its recording and notes are awaited"
    is_seen.set()

    async def is_over() -> bool:
        return renewed_after((await browser.get(path)).text) == ""

    assert await until(is_over, 30.0)
    assert_contains((await browser.get(path)).text, "<audio", "/dashboard/notes/")


@pytest.mark.parametrize(
    ("options", "coming"),
    [
        ({"with_recording": True}, "The recording is being prepared."),
        ({"auto_notulen": True}, "The recording is being prepared; the notes are written after it."),
    ],
)
async def test_an_ended_meeting_waits_for_its_recording_for_an_hour(
    customer: Customer, visitors: Visitors, options: dict[str, bool], coming: str
) -> None:
    browser = await visitors.member(customer.account_id)
    meeting = await customer.make_meeting(**options)
    path = f"/dashboard/meetings/{meeting['id']}"
    made, no_script = "The meeting is made.", '<noscript><meta http-equiv="refresh" content="5"></noscript>'
    page = (await browser.get(f"{path}?done=meeting_created")).text
    assert_contains(page, made, f'href="{path}.ics"', 'data-copy="invitation"', absent=(coming, no_script))
    missing = "There is no recording: none arrived, or it was deleted."
    for minutes, seconds in ((59, "5"), (61, "")):
        await customer.query(
            "UPDATE meetings SET status = 'ended', start_at = now() - interval '3 hours',"
            " end_at = now() - make_interval(mins => %s) WHERE account_id = %s AND id = %s RETURNING id",
            minutes, customer.account_id, meeting["id"],
        )  # fmt: skip
        page = (await browser.get(f"{path}?done=meeting_created")).text
        assert renewed_after(page) == seconds, minutes
        shown, hidden = ((coming, no_script), (missing,)) if seconds else ((missing,), (coming, no_script))
        gone = (made, f'href="{path}.ics"', 'data-copy="invitation"')
        assert_contains(page, *shown, absent=(*hidden, *gone))


async def test_the_form_says_when_a_meeting_can_start_and_what_its_notes_cost(
    customer: Customer, visitors: Visitors
) -> None:
    browser, before = await visitors.member(customer.account_id), datetime.now(UTC)
    page = (await browser.get("/dashboard/meetings/new")).text
    minutes = [before.replace(second=0) + timedelta(minutes=more) for more in (1, 2)]
    hints = [f"At the earliest {format_instant(at, Language.ENGLISH)}," for at in minutes]
    assert any(hint in page.replace("\N{NO-BREAK SPACE}", " ") for hint in hints), hints
    rows = {
        name: page.partition(f'name="{name}"')[2].partition("</label>")[0]
        for name in ("auto_notulen", "with_recording", "pricing_tier_id")
    }
    assert '<span class="price">1 credit a minute</span>' in rows["auto_notulen"]
    assert '<span class="price">5 to 60 credits <small>by size</small></span>' in rows["with_recording"]
    assert_contains(rows["pricing_tier_id"], "10 credits", "15 with recording")
    body = customer.body(title="By hand")
    fields = {name: str(body[name]) for name in ("title", "date", "start_time", "pricing_tier_id")}
    priced = (await browser.post("/dashboard/meetings", **fields, auto_notulen="on")).text
    total = priced.partition('id="price"')[2].partition("</form>")[0]
    assert_contains(
        total, "15 credits will be charged", "<li>Standard 100: 10</li>", "<li>Recording: 5</li>",
        "1,000 credits are available.", '<button class="second" formaction="/dashboard/meetings#price">',
        "Notes are charged later, 1 credit for each started minute of the recording.",
    )  # fmt: skip
    buttons = re.findall(r'<button name="seen_credits" value="(\d+)">([^<]+)<', priced)
    assert buttons == [("15", "Create the meeting")]
    assert (priced.count('<button class="second"'), priced.count("Update the price")) == (1, 1)
    for changed in ({"date": str(cap_day(before) - timedelta(days=1))}, {"date": "2200-01-01"}):
        refused = await browser.post("/dashboard/meetings", **fields | changed)
        assert "The next full minute is the earliest." in refused.text


async def test_a_refused_form_is_corrected_and_sent_again(customer: Customer, visitors: Visitors) -> None:
    poor, path = await customer.harness.customer(credits=0), "/dashboard/meetings"
    browser, body = await visitors.member(poor.account_id), poor.body()
    fields = {name: str(body[name]) for name in ("title", "date", "start_time", "pricing_tier_id")}
    refused = await browser.post(path, **fields, seen_credits="10", form_key="a")
    assert "Credits needed: 10. Available: 0." in refused.text
    await customer.harness.administration.top_up(poor.account_id, 10, None)
    form = form_fields(refused.text, path)["form_key"]
    assert (await browser.post(path, **fields, seen_credits="10", form_key=form)).status_code == 303
