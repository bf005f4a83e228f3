"""What pages say beside their records: plurals, prices, warnings, health, examples of events."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from attrs import evolve

from meetcore.adapters.postgres.notes.rows import note_parameters
from meetcore.adapters.postgres.store import PostgresStore
from meetcore.adapters.settings import Settings
from meetcore.composition.application import Application
from meetcore.domain.ids import uuid7
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.members.roles import Role
from meetcore.domain.notes.notes import Decision, NoteDraft
from meetcore.domain.webhooks.events import EventKind
from tests.support.api_harness import BASE_URL, ApiHarness, Customer, until
from tests.support.console_pages import logged
from tests.support.mailed_service import mailed_service
from tests.support.names import Names
from tests.support.pages import FORM_KEY, Browser, form_fields
from tests.support.sandbox_recordings import a_note, note_in, press
from tests.support.texts import assert_contains
from tests.support.visitors import SignIn, Visitors

SUSPENDED = "The account is suspended. Ask the operator of the service."


async def price(browser: Browser, harness: ApiHarness, **fields: str) -> tuple[int, str]:
    """Ask for the price of a meeting: the status and the page."""
    body = harness.body(title="By hand")
    sent = {name: str(body[name]) for name in ("title", "date", "start_time", "pricing_tier_id")}
    answer = await browser.post("/dashboard/meetings", **sent | {"form_key": str(uuid4())} | fields)
    return answer.status_code, answer.text


async def test_a_suspended_account_says_so_on_every_page_and_at_the_price(
    harness: ApiHarness, customer: Customer, visitors: Visitors
) -> None:
    browser, operator = await visitors.member(customer.account_id), await visitors.operator()
    assert SUSPENDED not in (await browser.get("/dashboard")).text
    await customer.application.administration.suspend_account(customer.account_id, "Unpaid <bills>")
    assert "Reason: Unpaid &lt;bills&gt;" in (await browser.get("/dashboard")).text
    for path in ("", "/meetings", "/meetings/new", "/notes", "/ledger", "/keys", "/webhooks", "/settings"):
        assert SUSPENDED in (await browser.get(f"/dashboard{path}")).text, path
    status, page = await price(browser, harness)
    assert status == 422
    assert page.count(SUSPENDED) == 2, "in the banner and as the problem"
    assert "seen_credits" not in page
    assert SUSPENDED not in (await operator.get(f"/console/accounts/{customer.account_id}")).text
    browser.http.headers["Accept-Language"] = "id"
    _, page = await price(browser, harness)
    assert page.count("Akun ditangguhkan. Hubungi operator layanan.") == 2


async def test_owners_are_mailed_why_their_account_was_suspended_and_that_it_is_active_again(
    service_settings: Settings, names: Names, customer: Customer, visitors: Visitors
) -> None:
    async with mailed_service(service_settings, names) as site:
        account = f"/console/accounts/{customer.account_id}"
        operator = await site.browser(account)
        operator.http.cookies = (await visitors.operator()).http.cookies
        for _ in range(2):  # the second changes nothing
            await operator.post(f"{account}/suspend", reason="Unpaid bills", confirmed="yes")
        await until(lambda: site.mails_to(customer.email))
        await operator.post(f"{account}/resume")
        await until(lambda: len(site.mails_to(customer.email)) == 2)
        resumed, suspended = site.mails_to(customer.email)
        assert_contains(suspended, "ditangguhkan", "Alasan: Unpaid bills", f"{BASE_URL}/dashboard")
        assert_contains(resumed, "aktif lagi", absent=("Unpaid bills",))


async def test_the_price_is_shown_for_a_start_that_can_be(
    harness: ApiHarness, customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    assert "seen_credits" in (await price(browser, harness))[1]
    for days in (-1, 366):
        day = (datetime.now(WIB) + timedelta(days=days)).date().isoformat()
        status, page = await price(browser, harness, date=day)
        assert status == 422
        assert "seen_credits" not in page
        assert "Choose a start between now and a year from now" in page
        assert 'href="#f-start_time"' in page
        assert "date and start_time" not in page


async def test_an_invitation_is_in_the_language_of_the_page(
    service_settings: Settings, names: Names, customer: Customer
) -> None:
    async with mailed_service(service_settings, names) as site:
        browser = await site.browser()
        await site.enter(browser, customer.email)
        for language, words in (("en", "An invitation to"), ("id", "Undangan ke")):
            browser.http.headers["Accept-Language"] = language
            email = f"{uuid4().hex}@example.com"
            page = "/dashboard/team"
            answer = await browser.post(f"{page}/invitations", page=page, email=email, role="viewer")
            assert answer.status_code == 303, answer.text
            await site.mailed_path(email)
            assert words in site.mails_to(email)[0].partition("\n")[0]


async def test_credits_that_are_counted_already_are_not_said_to_be_added(
    customer: Customer, visitors: Visitors
) -> None:
    operator = await visitors.operator()
    account = f"/console/accounts/{customer.account_id}"
    for kind in ("top-up", "adjust"):
        said = []
        for _ in range(2):
            sent = {"amount": "5", "reason": "paid", "reference": f"INV-{kind}", "form_key": str(uuid4())}
            answer = await operator.post(f"{account}/{kind}", **sent)
            said.append((await operator.get(answer.headers["location"])).text)
        assert "The credits are in the ledger." in said[0]
        assert "Already counted under that reference; nothing was added." in said[1]
        assert "The credits are in the ledger." not in said[1]
    assert await customer.balance() == 1010


async def test_the_audit_log_names_the_host(
    application: Application, harness: ApiHarness, visitors: Visitors
) -> None:
    operator, name = await visitors.operator(), f"host-{uuid4().hex}"
    host = await application.administration.hosts.add(name, 7)
    for change in ("disable", "enable", "disable"):
        await operator.post(f"/console/hosts/{host.id}/{change}", confirmed="yes")
    for action, times in (("host.disabled", 2), ("host.enabled", 1)):
        named = [
            each for each in await logged(harness, action) if each["details"] == {"provider_user_id": name}
        ]
        assert len(named) == times


async def test_a_meeting_that_is_over_shows_no_way_in(customer: Customer, visitors: Visitors) -> None:
    meeting = await customer.make_meeting()
    browser, path = await visitors.member(customer.account_id), f"/dashboard/meetings/{meeting['id']}"
    page = (await browser.get(path)).text
    assert_contains(page, meeting["join_url"], meeting["password"])
    assert re.search(r"You get \d+ credits back\.", page)
    form = FORM_KEY.search(page)
    assert form is not None
    answer = await browser.post(f"{path}/cancel", page=path, form_key=form[1], confirmed="yes")
    page = (await browser.get(answer.headers["location"])).text
    assert_contains(
        page, "The meeting is cancelled.", absent=(meeting["join_url"], f"<code>{meeting['password']}</code>")
    )


async def test_a_meeting_in_progress_is_ended_not_cancelled(customer: Customer, visitors: Visitors) -> None:
    meeting = await customer.make_meeting()
    browser, path = await visitors.member(customer.account_id), f"/dashboard/meetings/{meeting['id']}"
    assert_contains((await browser.get(path)).text, "Cancel the meeting", absent=("End the meeting",))
    await press(customer, meeting, "start")
    page = (await browser.get(path)).text
    assert_contains(page, "End the meeting", "no credits come back", absent=("Cancel the meeting", "You get"))
    form = await browser.form_key(path)
    answer = await browser.post(f"{path}/cancel", page=path, form_key=form, confirmed="yes")
    page = (await browser.get(answer.headers["location"])).text
    assert_contains(page, "The meeting is ended.", absent=("End the meeting",))


async def test_a_session_shows_how_long_it_lasted(customer: Customer, visitors: Visitors) -> None:
    meeting = await customer.make_meeting()
    browser, path = await visitors.member(customer.account_id), f"/dashboard/meetings/{meeting['id']}"
    await press(customer, meeting, "start")
    assert re.search(r"<dt>Took place</dt><dd>[^<]+WIB . now</dd>", (await browser.get(path)).text)
    await press(customer, meeting, "leave")
    await customer.query(
        "UPDATE meeting_sessions SET ended_at = started_at + interval '47 seconds' WHERE meeting_id = %s "
        "RETURNING 1",
        UUID(meeting["id"]),
    )
    assert re.search(
        r"<dt>Took place</dt><dd>[^<]+WIB . [^<]+WIB \(0:47\)</dd>", (await browser.get(path)).text
    )


async def test_an_unknown_address_has_a_page_that_leads_back(customer: Customer, visitors: Visitors) -> None:
    browsers = {"/dashboard": await visitors.member(customer.account_id), "/console": visitors.stranger()}
    for root, browser in browsers.items():
        for path in ("nothing", "meetings/a/b/c", "a//b"):
            answer = await browser.get(f"{root}/{path}")
            assert answer.status_code == 404
            assert answer.headers["content-type"].startswith("text/html")
            assert_contains(answer.text, "There is nothing at this address", f'href="{root}"')
        assert (await browser.get(f"{root}/audit/")).headers["location"] == f"{root}/audit"


async def test_a_quote_is_shown_where_it_says_more_than_its_decision(
    customer: Customer, visitors: Visitors
) -> None:
    made = str((await a_note(customer))["id"])
    store = customer.application.ports.store
    note = await customer.application.ports.queries.find_note(customer.account_id, UUID(made))
    assert isinstance(store, PostgresStore)
    assert note is not None
    decisions = (Decision("The same words", "The same words", 1.0), Decision("A rule", "As it was said", 2.0))
    changed = evolve(note, draft=NoteDraft("In short", decisions, (), ()))
    sealed = note_parameters(changed, store._cipher)["note_content"]
    await customer.query("UPDATE notes SET content = %s WHERE id = %s", sealed, made)
    page = (await (await visitors.member(customer.account_id)).get(f"/dashboard/notes/{made}")).text
    assert page.count("The same words") == 1
    assert page.count("As it was said") == 1


async def test_a_note_is_corrected_by_hand_and_the_original_stays(
    customer: Customer, visitors: Visitors
) -> None:
    before = await a_note(customer)
    made = before["id"]
    assert before["edited_at"] is None
    browser, path = await visitors.member(customer.account_id), f"/dashboard/notes/{made}"
    assert f"{path}/edit" in (await browser.get(path)).text

    sent = form_fields((await browser.get(f"{path}/edit")).text, f"{path}/edit")
    [budi] = [name for name, text in sent.items() if text == "Budi Santoso" and name.startswith("speaker-")]
    changed = {
        "task-0": "Cetak <struk>", "owner-0": "Rina", "due-0": "Jumat", "due_on-0": "2026-12-04",
        budi: "dr. Budi, M.Kom.", "decision-1": "", "summary": "Satu baris.",
    }  # fmt: skip
    assert set(changed) < set(sent)
    answer = await browser.post(f"{path}/edit", **sent | changed)
    assert answer.headers["location"] == f"{path}?done=note_edited"
    note = (await customer.get(f"/notes/{made}")).json()
    assert note["action_items"][0] == before["action_items"][0] | {
        "task": "Cetak <struk>", "owner": "Rina", "due": "Jumat", "due_on": "2026-12-04",
    }  # fmt: skip
    assert (note["summary"], note["decisions"]) == ("Satu baris.", before["decisions"][:1])
    assert {one["speaker"] for one in note["transcript"]} >= {"dr. Budi, M.Kom."}
    assert note["edited_at"] is not None
    assert (note["credits_charged"], note["written_by"]) == (before["credits_charged"], "rules")
    page = (await browser.get(path)).text
    assert_contains(
        page, "Cetak &lt;struk&gt;", "dr. Budi, M.Kom.", f"{path}?original=1", absent=("Budi Santoso",)
    )
    original = (await browser.get(f"{path}?original=1")).text
    assert_contains(original, "Budi Santoso", before["decisions"][1]["text"], absent=("Cetak", "dr. Budi"))
    markdown = (await browser.get(f"{path}.md")).text
    assert_contains(markdown, "*Diperbaiki secara manual pada", "Cetak", absent=("Budi Santoso",))
    log = await customer.application.ports.queries.list_audit_entries(customer.account_id, 10, None)
    changes = [entry for entry in log if entry.action == "note.edited"]
    assert [entry.details for entry in changes] == [{"parts": "summary, decisions, action_items, speakers"}]
    assert {entry.target_id for entry in changes} == {made}


async def test_a_correction_that_cannot_be_made_says_why(customer: Customer, visitors: Visitors) -> None:
    note = await a_note(customer)
    made = note["id"]
    browser, path = await visitors.member(customer.account_id), f"/dashboard/notes/{made}/edit"
    for fields, words in (
        ({"summary": ""}, "must be 1 to 20000 characters long"),
        ({"task-0": "a", "due_on-0": "soon"}, "Write the day as YYYY-MM-DD."),
        ({"task-x": "a"}, "The form cannot be read"),
        ({"seen": "yesterday"}, "The form cannot be read"),
        ({"summary": "a", "seen": "2026-12-01T00:00:00+00:00"}, "changed meanwhile"),
    ):
        answer = await browser.post(path, form_key="", **{"decision-0": "Kept <as> it was typed"} | fields)
        assert answer.status_code == 422
        assert_contains(answer.text, words, "Kept &lt;as&gt; it was typed")
    answer = await browser.post(path, **{"form_key": "", "decision-99": "a"})
    assert answer.status_code == 404
    assert (await customer.get(f"/notes/{made}")).json()["edited_at"] is None
    body = {"recording_id": note["recording_id"], "language": "en"}
    queued = (await customer.post("/notes", body)).json()["id"]
    await note_in(customer, queued, "completed")
    await customer.query("UPDATE notes SET status = 'failed' WHERE id = %s", UUID(queued))
    assert (await browser.get(f"/dashboard/notes/{queued}/edit")).status_code == 404


async def test_a_note_says_who_wrote_it(customer: Customer, visitors: Visitors) -> None:
    made = str((await a_note(customer))["id"])
    browser = await visitors.member(customer.account_id)
    for writer in ("rules", "gpt-4o<b>"):
        await customer.query("UPDATE notes SET written_by = %s WHERE id = %s", writer, UUID(made))
        for language, by_rules, by in (
            ("en", "Draft by rules", "Written by"),
            ("id", "Draf otomatis (tanpa AI)", "Ditulis oleh"),
        ):
            browser.http.headers["Accept-Language"] = language
            page = (await browser.get(f"/dashboard/notes/{made}")).text
            if writer == "rules":
                assert_contains(page, by_rules, absent=(by,))
            else:
                assert_contains(page, by, "gpt-4o&lt;b&gt;", absent=(by_rules,))


async def test_overview_warns_below_threshold_of_the_account(customer: Customer, visitors: Visitors) -> None:
    browser, words = await visitors.member(customer.account_id), "fewer than the threshold of"
    for threshold, is_low in ((1000, False), (1001, True)):
        await customer.application.administration.set_low_threshold(customer.account_id, threshold)
        assert (words in (await browser.get("/dashboard")).text) is is_low
    assert f"1,000 credits are available, {words} 1,001." in (await browser.get("/dashboard")).text


BUY, ASK = (
    '<a href="/dashboard/credits">Buy credits</a>',
    "An owner of the account, or a member with the role",
)


async def test_few_credits_are_one_warning_with_a_way_to_get_more(
    harness: ApiHarness, visitors: Visitors
) -> None:
    poor = await harness.customer(credits=25)
    owner, viewer = [await visitors.member(poor.account_id, role) for role in (Role.OWNER, Role.VIEWER)]
    await poor.application.administration.set_low_threshold(poor.account_id, 20)
    await poor.make_meeting()
    assert_contains(
        (await owner.get("/dashboard")).text, "15 credits are available, fewer than", BUY, absent=[ASK]
    )
    await poor.application.administration.set_low_threshold(poor.account_id, 0)
    await poor.make_meeting()
    page = (await owner.get("/dashboard")).text
    assert_contains(page, "The credits last for less than a week", BUY, absent=["fewer than"])
    page = (await viewer.get("/dashboard")).text
    assert_contains(page, ASK, "less than a week", absent=[BUY])
    assert page.count("notice warn") == 1


async def test_the_form_of_a_meeting_says_how_to_get_credits(harness: ApiHarness, visitors: Visitors) -> None:
    poor, rich = await harness.customer(credits=12), await harness.customer()
    owner, developer = [await visitors.member(poor.account_id, role) for role in (Role.OWNER, Role.DEVELOPER)]
    few, form = "There are too few credits for this meeting.", "/dashboard/meetings/new"
    assert few not in (await owner.get(form)).text
    _, page = await price(owner, harness, with_recording="on")
    # Buying leaves the form, with what was typed, where it is.
    buy = '<a href="/dashboard/credits" target="_blank">Buy credits in a new tab</a>'
    assert_contains(page.partition('id="price"')[2], few, buy, absent=["seen_credits"])
    assert_contains(page, "15 credits would be charged", "12 credits are available.")
    poorest = await visitors.member((await harness.customer(credits=0)).account_id)
    assert few in (await poorest.get(form)).text.partition("<fieldset")[2], "below the prices"
    _, page = await price(developer, harness, with_recording="on", seen_credits="15")
    assert_contains(page, "Credits needed: 15. Available: 12.", few, ASK, absent=["Buy credits"])
    assert few not in (await (await visitors.member(rich.account_id)).get(form)).text


@pytest.mark.parametrize(
    ("language", "one", "many"), [("en", "1 credit<", "10 credits<"), ("id", "1 kredit<", "10 kredit<")]
)
async def test_a_price_has_its_plural(
    customer: Customer, sign_in: SignIn, language: str, one: str, many: str
) -> None:
    meeting = await customer.make_meeting()
    browser, page = await sign_in(customer.account_id), f"/dashboard/meetings/{meeting['id']}"
    browser.http.headers["Accept-Language"] = language
    assert many in (await browser.get(page)).text
    await customer.query("UPDATE meetings SET credits = 1 WHERE id = %s RETURNING id", UUID(meeting["id"]))
    assert one in (await browser.get(page)).text


async def test_a_list_has_what_a_meeting_cost_less_its_refund(customer: Customer, sign_in: SignIn) -> None:
    kept, cancelled = await customer.make_meeting(title="Kept"), await customer.make_meeting(title="Off")
    assert (await customer.delete(f"/meetings/{cancelled['id']}")).status_code == 200
    page = (await (await sign_in(customer.account_id)).get("/dashboard/meetings")).text
    cells = re.findall(r'<td class="number" data-is="Credits">([^<]*)</td>', page)
    assert sorted(cells) == ["0", str(kept["credits_deducted"])], "by their starts"


async def test_an_empty_list_says_what_comes_there_and_a_search_what_to_try(
    harness: ApiHarness, visitors: Visitors
) -> None:
    new, calling = await harness.customer(credits=0), await harness.customer()
    hook = (await calling.make_webhook())["id"]
    quiet, other = [await visitors.member(each.account_id) for each in (new, calling)]
    for browser, path, text in (
        (other, f"/webhooks/{hook}?done=webhook_registered", "Nothing has been delivered yet."),
        (quiet, "/requests?key=", "No requests yet."),
        (quiet, "/ledger?from=&to=", "No entries yet."),
        (quiet, "/meetings", "No meeting is planned."),
    ):
        page = (await browser.get(f"/dashboard{path}")).text
        assert_contains(page, text, absent=["Try other days or filters."])
        searched = f"/dashboard{path.partition('?')[0]}?from=2026-01-01&day=2026-01-01&status=failed"
        assert_contains((await browser.get(searched)).text, "Try other days or filters.", absent=[text])
    page = (await quiet.get("/dashboard/meetings")).text
    assert 'No meeting is planned. <a href="/dashboard/meetings/new">Create a meeting</a>' in page
    assert "No meeting is over yet." in page


_DELIVERY = """
INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, created_at)
VALUES (%s, %s, %s, gen_random_uuid(), 'webhook.test', 'succeeded', now()) RETURNING id
"""
_ATTEMPT = """
INSERT INTO delivery_attempts (account_id, delivery_id, number, at, duration_ms, status_code, error)
SELECT account_id, id, %s, now(), %s, %s, %s FROM deliveries WHERE endpoint_id = %s RETURNING number
"""


async def test_an_endpoint_shows_how_its_attempts_went(customer: Customer, sign_in: SignIn) -> None:
    webhook = await customer.make_webhook()
    browser, page = await sign_in(customer.account_id, Role.VIEWER), f"/dashboard/webhooks/{webhook['id']}"
    assert "of 0" in (await browser.get(page)).text
    id_ = uuid7(datetime.now(UTC), uuid4().bytes)
    await customer.query(_DELIVERY, customer.account_id, id_, webhook["id"])
    for number, (took_ms, status, error) in enumerate(
        [(1200, 500, "http_status"), (40, None, "connect_failed"), (30, 200, None), (20, 200, None)], start=1
    ):
        assert await customer.query(_ATTEMPT, number, took_ms, status, error, webhook["id"])
    for path in (page, "/dashboard/webhooks"):
        text = (await browser.get(path)).text
        assert_contains(text, "50%", "1,200 ms")
        assert "connect_failed" in text or "http_status" in text
    assert "of 4" in (await browser.get(page)).text


async def test_the_catalogue_has_an_example_of_each_event(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id, Role.VIEWER)
    page = html.unescape((await browser.get("/dashboard/webhooks/events")).text)
    for kind in set(EventKind) - {EventKind.WEBHOOK_TEST}:
        assert f'"type": "{kind.value}"' in page
    assert "/dashboard/webhooks/events" in (await browser.get("/dashboard/webhooks")).text
