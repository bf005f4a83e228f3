"""Forms that charge or destroy: what presses them, what asks first, and what was typed."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
import pytest

from meetcore.domain.members.roles import Role
from tests.support.api_harness import BASE_URL, Customer
from tests.support.pages import TOKEN, Browser, form_fields
from tests.support.sandbox_recordings import press
from tests.support.texts import assert_contains
from tests.support.visitors import SignIn, Visitors


class _FirstButtons(HTMLParser):
    """Collects the first submit button of each form, the one that Enter in a field presses."""

    def __init__(self) -> None:
        super().__init__()
        self._action = ""
        self.found: dict[str, dict[str, str | None]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "form":
            self._action = values.get("action") or ""
        elif tag == "button" and values.get("type", "submit") == "submit":
            self.found.setdefault(self._action, values)


def first_button(page: str, action: str) -> dict[str, str | None]:
    reader = _FirstButtons()
    reader.feed(page)
    return reader.found[action]


async def test_enter_in_a_field_of_a_new_meeting_shows_the_price(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id)
    empty = (await browser.get("/dashboard/meetings/new")).text
    body = customer.body(title="By hand")
    fields = {name: str(body[name]) for name in ("title", "date", "start_time", "pricing_tier_id")}
    priced = (await browser.post("/dashboard/meetings", **fields)).text
    assert 'name="seen_credits"' in priced
    for page in (empty, priced):
        assert "name" not in first_button(page, "/dashboard/meetings")
    again = await browser.post("/dashboard/meetings", **fields | {"title": "Changed after the price"})
    assert 'name="seen_credits"' in again.text
    assert await customer.balance() == 1000


async def test_what_cannot_be_undone_asks_first(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id)
    webhook, meeting = await customer.make_webhook(), await customer.make_meeting(title="By a key")
    host = (await customer.query("SELECT id FROM hosts LIMIT 1"))[0]["id"]
    other = await visitors.member((await customer.harness.customer()).account_id)
    hook = f"/dashboard/webhooks/{webhook['id']}"
    key = f"/dashboard/keys/{customer.key.key.id}"
    cases = (
        (browser, f"{hook}/rotate", "Rotate the signing secret?", hook),
        (browser, f"{hook}/remove", "Remove the webhook?", hook),
        (browser, f"/dashboard/meetings/{meeting['id']}/cancel", "Cancel the meeting?", None),
        (browser, f"{key}/revoke", f"Revoke the key {customer.key.key.name}?", "/dashboard/keys"),
        (await visitors.operator(), f"/console/hosts/{host}/disable", "Disable the host", "/console/hosts"),
    )
    before = await customer.query("SELECT count(*) FROM audit_log")
    for who, path, heading, back in cases:
        asked = await who.post(path, form_key="a")
        assert asked.status_code == 200, path
        assert heading in html.unescape(asked.text).split("<h1>")[1], path
        assert f'href="{back or path.removesuffix("/cancel")}"' in asked.text, path
        if who is browser:
            assert (await other.post(path, form_key="a")).status_code == 404, path
        fields = form_fields(asked.text, path)
        assert fields.pop("form_token")
        assert fields == {"form_key": "a"}, "all that was sent, and no consent"
    assert await customer.query("SELECT count(*) FROM audit_log") == before
    for who, path, _heading, _back in cases:
        done = await who.post(path, form_key="a" + path, confirmed="yes")
        assert done.status_code == (200 if path.endswith("/rotate") else 303), path
    assert (await browser.get(hook)).status_code == 404


@pytest.mark.parametrize(("overlap_h", "is_asked"), [("0", True), ("soon", True), ("1", False)])
async def test_a_key_that_stops_at_once_is_replaced_after_a_question(
    overlap_h: str, is_asked: bool, customer: Customer, visitors: Visitors
) -> None:
    browser, key = await visitors.member(customer.account_id), customer.key.key
    path = f"/dashboard/keys/{key.id}/roll"
    answer = await browser.post(path, form_key="a", overlap_h=overlap_h)
    assert (f"<h1>Replace the key {key.name}?" in html.unescape(answer.text)) is is_asked
    assert (await customer.get("/me")).status_code == 200
    if is_asked:
        fields = form_fields(answer.text, path) | {"confirmed": "yes"}
        done = await browser.post(path, **{name: fields[name] for name in fields if name != "form_token"})
        assert f"Your new key: {key.name}" in html.unescape(done.text)
        assert (await customer.get("/me")).status_code == 401


async def test_a_meeting_that_is_over_is_refused_without_a_question(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    meeting = await customer.make_meeting(title="By a key")
    path = f"/dashboard/meetings/{meeting['id']}/cancel"
    await browser.post(path, form_key="a", confirmed="yes")
    again = await browser.post(path, form_key="b")
    assert "Cancel the meeting?" not in again.text


async def test_a_refund_that_was_agreed_to_is_asked_about_again_once_there_is_none(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    meeting = await customer.make_meeting(title="By a key")
    path = f"/dashboard/meetings/{meeting['id']}/cancel"
    asked = (await browser.post(path, form_key="a")).text
    assert_contains(asked, "Cancel the meeting?", "come back")
    await press(customer, meeting, "start")
    again = (await browser.post(path, form_key="a", confirmed=consent_of(asked))).text
    assert_contains(again, "End the meeting now?", "no credits come back")
    assert (await customer.get(f"/meetings/{meeting['id']}")).json()["status"] == "started"
    done = await browser.post(path, form_key="a", confirmed=consent_of(again))
    assert done.headers["location"].endswith("done=meeting_ended")
    assert await customer.balance() == 990


async def test_a_form_that_ends_after_its_session_did_changes_nothing(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    found = TOKEN.search((await browser.get("/dashboard/settings")).text)
    assert found is not None

    async def parts() -> AsyncIterator[bytes]:
        yield b"low_threshold=5&"
        await customer.query(
            "UPDATE sessions SET ended_at = now() WHERE account_id = %s", customer.account_id
        )
        yield f"form_token={found[1]}".encode()

    headers = {"Origin": BASE_URL, "Content-Type": "application/x-www-form-urlencoded"}
    sent = await browser.http.post("/dashboard/settings/threshold", content=parts(), headers=headers)
    assert sent.headers["location"].startswith("/dashboard/sign-in?")
    account = await customer.application.ports.registry.find_account(customer.account_id)
    assert account.low_threshold == 100


def consent_of(page: str) -> str:
    """Return what the button of a question sends."""
    found = re.search(r'name="confirmed" value="([^"]*)"', page)
    assert found is not None
    return found[1]


STALE = "UPDATE sessions SET authenticated_at = now() - interval '20 minutes'"


async def again(browser: Browser, customer: Customer, sent: httpx.Response) -> httpx.Response:
    """Sign a browser in once more, and open the page that a refused form led back to."""
    assert "reason=fresh" in sent.headers["location"]
    page = parse_qs(urlsplit(sent.headers["location"]).query)["next"][0]
    [owner] = await customer.application.ports.queries.list_members(customer.account_id)
    link = await customer.application.access.portal_links.for_member(customer.account_id, owner.user.email)
    path = link.url.removeprefix(BASE_URL)
    assert (await browser.post(path, page=path)).status_code == 303
    await customer.query("UPDATE sessions SET authenticated_at = now()")
    return await browser.get(page)


async def test_a_form_is_kept_over_a_fresh_sign_in_and_shown_again_once(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    typed = {"name": "Payroll <1>", "scope:credits:read": "on", "daily_cap": "75", "expires_in_days": "90"}
    await customer.query(STALE)
    assert "reason=fresh" in (await browser.get("/dashboard/keys/new")).headers["location"]
    sent = await browser.post("/dashboard/keys", form_key=str(uuid4()), **typed)
    for secret in ("Payroll", "75"):
        assert secret not in sent.headers["location"]
    assert "HttpOnly" in sent.headers["set-cookie"]
    page = await again(browser, customer, sent)
    assert_contains(page.text, 'value="Payroll &lt;1&gt;"', 'value="75"', "Nothing was sent yet")
    assert 'name="scope:credits:read" checked' in page.text
    assert '<option value="90" selected>' in page.text
    fields = form_fields(page.text, "/dashboard/keys")
    assert fields["form_key"]
    assert "Payroll" not in (await browser.get("/dashboard/keys/new")).text, "shown once"
    made = await browser.post("/dashboard/keys", form_key=fields["form_key"], **typed)
    assert "Your new key: Payroll" in made.text


@pytest.mark.parametrize(
    ("path", "typed", "shown"),
    [
        ("/dashboard/webhooks", {"url": "https://hooks.test/kept", "kind:credit.low": "on"}, "test/kept"),
        ("/dashboard/team/invitations", {"email": "new@example.com", "role": "finance"}, "new@example.com"),
        ("/dashboard/keys/{key}/cap", {"daily_cap": "4321"}, 'value="4321"'),
        ("/dashboard/keys/{key}/roll", {"overlap_h": "72"}, '<option value="72" selected>'),
    ],
)  # fmt: skip
async def test_every_form_is_filled_again(
    path: str, typed: dict[str, str], shown: str, customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    await customer.query(STALE)
    sent = await browser.post(path.format(key=customer.key.key.id), **typed)
    page = await again(browser, customer, sent)
    assert (page.status_code, shown in page.text) == (200, True)


async def test_an_operators_form_is_filled_again(customer: Customer, visitors: Visitors) -> None:
    operator = await visitors.operator()
    page = f"/console/accounts/{customer.account_id}"
    await customer.query("UPDATE operator_sessions SET authenticated_at = now() - interval '20 minutes'")
    operator.http.headers["Referer"] = f"{BASE_URL}{page}?done=credits_moved"
    typed = {"amount": "250", "reason": "Bank transfer", "reference": "INV-7", "form_key": "k-1"}
    sent = await operator.post(f"{page}/top-up", **typed)
    assert sent.headers["location"] == f"/console/sign-in?next={page}&reason=fresh"
    await customer.query("UPDATE operator_sessions SET authenticated_at = now()")
    shown = form_fields((await operator.get(page)).text, f"{page}/top-up")
    assert {name: shown[name] for name in typed} == typed
    assert await customer.balance() == 1000


async def test_a_kept_form_is_no_other_members(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id)
    await customer.query(STALE)
    await browser.post("/dashboard/keys", name="Payroll")
    link = await customer.application.access.portal_links.for_guest(customer.account_id, Role.OWNER)
    path = link.url.removeprefix(BASE_URL)
    assert (await browser.post(path, page=path)).status_code == 303
    await customer.query("UPDATE sessions SET authenticated_at = now()")
    assert "Payroll" not in (await browser.get("/dashboard/keys/new")).text
    await browser.post("/dashboard/sign-out")
    assert "__Host-meetcore-form" not in browser.http.cookies


async def test_a_form_names_all_errors_at_once_and_focuses_the_first(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    body = customer.body(title="By hand")
    fields = {name: str(body[name]) for name in ("title", "date", "start_time", "pricing_tier_id")}
    wrong = {"date": "2020-01-01", "password": "ab", "description": "d" * 1001}
    for seen in ({}, {"seen_credits": "10"}):
        answer = await browser.post("/dashboard/meetings", **fields | wrong | seen)
        assert answer.status_code == 422
        assert_contains(
            answer.text, 'href="#f-start_time"', 'href="#f-description"', 'href="#f-password"',
            "<title>Error: Create a meeting", "Write 4 to 10 characters of these",
        )  # fmt: skip
        assert answer.text.count(" autofocus") == 1
        assert " autofocus" in answer.text.split('id="f-start_time"')[1].split(">")[0]
    assert await customer.balance() == 1000
    browser.http.headers["Accept-Language"] = "id"
    page = (await browser.post("/dashboard/meetings", **fields | {"title": "", "date": "x"})).text
    assert_contains(page, "<title>Galat: Buat rapat", "Tulis 1 sampai 200 karakter", "Pilih hari yang ada.")
    assert " autofocus" in page.split('id="f-title"')[1].split(">")[0]


async def test_forms_of_keys_and_webhooks_name_all_errors_at_once(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.member(customer.account_id)
    key = (await browser.post("/dashboard/keys", name=" ", daily_cap="many")).text
    assert_contains(key, 'href="#f-name"', 'href="#f-scopes"', 'href="#f-daily_cap"', "<title>Error:")
    assert " autofocus" in key.split('id="f-name"')[1].split(">")[0]
    cap = (await browser.post(f"/dashboard/keys/{customer.key.key.id}/cap", daily_cap="many")).text
    assert f'href="#f-cap-{customer.key.key.id}"' in cap
    assert_contains(cap, 'value="many"', f'id="f-cap-{customer.key.key.id}-error"')
    hook = (await browser.post("/dashboard/webhooks", url="http://hooks.test", description="d" * 201)).text
    assert_contains(hook, 'href="#f-url"', 'href="#f-event_types"', 'href="#f-description"')


async def test_a_description_is_kept_with_its_lines(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.member(customer.account_id)
    body = customer.body(title="By hand")
    fields = {name: str(body[name]) for name in ("title", "date", "start_time", "pricing_tier_id")}
    fields |= {"description": "\nAgenda <1>\nBudget", "form_key": str(uuid4())}
    priced = await browser.post("/dashboard/meetings", **fields)
    assert form_fields(priced.text, "/dashboard/meetings")["description"] == fields["description"]
    made = await browser.post("/dashboard/meetings", **fields | {"seen_credits": "10"})
    assert "Agenda &lt;1&gt;\nBudget" in (await browser.get(made.headers["location"])).text
    # Browsers send a line break as two characters, and count it as one of the thousand.
    longest = "Agenda\nBudget".ljust(1000, ".")
    another = customer.body()
    fields |= {name: str(another[name]) for name in ("date", "start_time")}
    sent = {"description": longest.replace("\n", "\r\n"), "form_key": str(uuid4()), "seen_credits": "10"}
    made = await browser.post("/dashboard/meetings", **fields | sent)
    assert f'<p class="lines">{longest}</p>' in (await browser.get(made.headers["location"])).text
