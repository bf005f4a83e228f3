"""The pages of a note: search of its transcript, what is added by hand, and the way back to the list."""

from __future__ import annotations

import re
from html import unescape

import pytest

from meetcore.domain.members.roles import Role
from tests.support.api_harness import BASE_URL, Customer
from tests.support.pages import Browser, form_fields
from tests.support.sandbox_recordings import a_note, a_recording, note_in
from tests.support.texts import assert_contains
from tests.support.visitors import Visitors


async def found(browser: Browser, path: str, words: str) -> tuple[list[str], list[str]]:
    """Search a transcript; return the utterances that are shown, and the marked words."""
    browser.http.params = {"q": words}
    page = (await browser.get(path)).text
    browser.http.params = {}
    lines = page.partition('<ol class="transcript"')[2].partition("</ol>")[0].split("<li>")[1:]
    marks = [unescape(mark) for mark in re.findall("<mark>(.*?)</mark>", "".join(lines))]
    hits = re.findall(r">(\d+) hits? ", page)
    assert hits == ([str(len(marks))] if words else [])
    return lines, marks


async def test_words_that_are_looked_for_are_counted_and_marked(
    customer: Customer, visitors: Visitors
) -> None:
    made = (await a_note(customer))["id"]
    spoken = (await customer.get(f"/notes/{made}")).json()["transcript"]
    browser, path = await visitors.member(customer.account_id), f"/dashboard/notes/{made}"
    lines, marks = await found(browser, path, "")
    assert (len(lines), marks) == (len(spoken), [])
    speaker = spoken[0]["speaker"]
    lines, marks = await found(browser, path, speaker.upper())
    assert marks.count(speaker) >= len([one for one in spoken if one["speaker"] == speaker])
    word = spoken[0]["text"].split()[0]
    times = sum(one["text"].lower().count(word.lower()) for one in spoken)
    lines, marks = await found(browser, path, f" {word.swapcase()} ")
    assert len(marks) >= times >= 1
    assert all("<mark>" in line for line in lines)
    for none in ("<b>", "zzz", "mark>", "&amp;", "(", "\\"):
        assert await found(browser, path, none) == ([], []), none
    assert "0 hits" in (await browser.get(f"{path}?q=zzz")).text


async def test_a_decision_and_a_task_are_added_by_hand(customer: Customer, visitors: Visitors) -> None:
    made = (await a_note(customer))["id"]
    before = (await customer.get(f"/notes/{made}")).json()
    browser, path = await visitors.member(customer.account_id), f"/dashboard/notes/{made}"
    sent = form_fields((await browser.get(f"{path}/edit")).text, f"{path}/edit")
    added = {
        "decision-new": "Bayar <besok>", "task-new": "Kirim RAB", "owner-new": "Ani", "due-new": "",
        "due_on-new": "2026-12-04",
    }  # fmt: skip
    assert added.keys() < sent.keys()
    for wrong, field in (
        ({"task-new": ""}, "task-new"),
        ({"due_on-new": "soon"}, "due_on-new"),
        ({"decision-new": "a" * 1001}, "decision-new"),
    ):
        refused = await browser.post(f"{path}/edit", **sent | added | wrong | {"form_key": field})
        assert refused.status_code == 422
        assert_contains(refused.text, f'href="#f-{field}"', f'id="f-{field}-error"')
    assert (await browser.post(f"{path}/edit", **sent | added)).status_code == 303
    note = (await customer.get(f"/notes/{made}")).json()
    assert note["decisions"] == [*before["decisions"], {"text": "Bayar <besok>", "quote": "", "at": 0}]
    assert note["action_items"][-1] == {
        "task": "Kirim RAB", "owner": "Ani", "due": None, "due_on": "2026-12-04", "quote": "", "at": 0,
    }  # fmt: skip
    page = (await browser.get(path)).text
    assert_contains(page, "Bayar &lt;besok&gt; <small>(added by hand)</small>")
    assert page.count("added by hand") == 2
    again = form_fields((await browser.get(f"{path}/edit")).text, f"{path}/edit")
    assert (again["decision-new"], again[f"decision-{len(before['decisions'])}"]) == ("", "Bayar <besok>")
    unchanged = await browser.post(f"{path}/edit", **again)
    assert unchanged.status_code == 303
    assert (await customer.get(f"/notes/{made}")).json() == note


@pytest.mark.parametrize(("came_from", "back"), [
    ("/dashboard/notes?before=01a1fde1-9c79-7f87-a745-919389bf998d", None), ("/dashboard/notes", None),
    ("/dashboard/meetings?before=1", "/dashboard/notes"),
])  # fmt: skip
async def test_a_note_leads_back_to_its_page_of_the_list(
    customer: Customer, visitors: Visitors, came_from: str, back: str | None
) -> None:
    browser, made = await visitors.member(customer.account_id), (await a_note(customer))["id"]
    browser.http.headers["Referer"] = f"{BASE_URL}{came_from}"
    page = (await browser.get(f"/dashboard/notes/{made}")).text.partition("<main")[2]
    assert f'<p><a href="{back or came_from}">Notes</a></p>' in page


async def test_notes_are_asked_for_by_hand_in_a_language(customer: Customer, visitors: Visitors) -> None:
    recording = await a_recording(customer)
    meeting = f"/dashboard/meetings/{recording['meeting_id']}"
    browser = await visitors.member(customer.account_id)
    viewer = await visitors.member(customer.account_id, Role.VIEWER)
    button = '<button class="second" name="language" value="{}">{}: 1 credit</button>'
    english, indonesian = button.format("en", "English"), button.format("id", "Bahasa Indonesia")
    assert_contains((await browser.get(meeting)).text, "Have notes written", english, indonesian)
    assert english not in (await viewer.get(meeting)).text
    sent = form_fields((await browser.get(meeting)).text, f"{meeting}/notes") | {"language": "en"}
    made = [await browser.post(f"{meeting}/notes", **sent) for _ in range(2)]
    [location] = {each.headers["location"] for each in made}
    note = await note_in(customer, location.rpartition("/")[2], "completed")
    assert (note["language"], note["recording_id"]) == ("en", recording["id"])
    page = (await browser.get(location)).text
    assert_contains(page, '<dt>Language</dt><dd lang="en">English</dd>', f'<a href="{meeting}">')
    assert_contains((await browser.get(f"{location}/edit")).text, "These notes are in English.")
    page = (await browser.get(meeting)).text
    assert_contains(page, f'<a href="{location}">Notes in English</a>', indonesian, absent=[english])
    for wrong, status in (({"language": "fr"}, 422), ({"recording_id": "x"}, 404)):
        answer = await browser.post(f"{meeting}/notes", **sent | wrong | {"form_key": str(wrong)})
        assert answer.status_code == status
    again = await browser.post(f"{meeting}/notes", **sent | {"form_key": "again"})
    assert (again.status_code, "There is a problem" in again.text) == (422, True)


async def test_no_notes_are_offered_of_a_recording_that_is_gone(
    customer: Customer, visitors: Visitors
) -> None:
    recording = await a_recording(customer)
    browser, meeting = (
        await visitors.member(customer.account_id),
        f"/dashboard/meetings/{recording['meeting_id']}",
    )
    assert "Have notes written" in (await browser.get(meeting)).text
    await customer.query(
        "UPDATE recordings SET expires_at = now() - interval '1 second' WHERE id = %s RETURNING id",
        recording["id"],
    )
    assert (await customer.post("/notes", {"recording_id": recording["id"]})).status_code == 410
    assert "Have notes written" not in (await browser.get(meeting)).text


async def test_a_recording_can_be_played_without_scripts_while_its_notes_are_awaited(
    customer: Customer, visitors: Visitors
) -> None:
    recording = await a_recording(customer)
    await customer.query(
        "UPDATE meetings SET auto_notulen = true WHERE id = %s RETURNING id", recording["meeting_id"]
    )
    browser = await visitors.member(customer.account_id)
    page = (await browser.get(f"/dashboard/meetings/{recording['meeting_id']}")).text
    assert_contains(
        page, "The notes are being prepared.", "<audio", 'data-refresh-s="5"',
        absent=["http-equiv", "This page renews itself."],
    )  # fmt: skip
