"""The dashboard over HTTP: who gets in, what a role may do, what no other site or account can do."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from meetcore.adapters.web.page import Page
from meetcore.adapters.web.routes import PAGES
from meetcore.composition.application import Application
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.members.roles import Role, is_allowed
from meetcore.domain.webhooks.events import EventKind
from tests.support.api_harness import BASE_URL, ApiHarness, Customer
from tests.support.dashboard_fixtures import SignIn, browsers, sign_in
from tests.support.pages import FORM_KEY, TOKEN, Browser

SESSION = "__Host-meetcore"


__all__ = ["SignIn", "browsers", "sign_in"]  # fixtures, for other suites, too


def path_of(page: Page, id: object) -> str:
    return page.path.replace("{id}", str(id)).replace("{delivery_id}", str(uuid4()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.method} {page.path}")
async def test_without_a_session_every_page_leads_to_the_sign_in(
    page: Page, browsers: Callable[[], Browser]
) -> None:
    answer = await browsers().http.request(page.method, path_of(page, uuid4()), headers={"Origin": BASE_URL})
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/dashboard/sign-in?next=/dashboard")


@pytest.mark.parametrize("role", Role)
async def test_a_page_is_open_to_the_roles_of_its_action(
    role: Role, customer: Customer, sign_in: SignIn
) -> None:
    browser = await sign_in(customer.account_id, role)
    for page in PAGES:
        path = path_of(page, uuid4())
        answer = await (browser.get(path) if page.method == "GET" else browser.post(path))
        is_open = is_allowed(role, page.action)
        assert (answer.status_code != 403) is is_open, f"{role} {page.method} {page.path}"
        if is_open and "{id}" in page.path and page.method == "GET":
            assert answer.status_code == 404, page.path


async def test_another_accounts_records_are_not_found(
    harness: ApiHarness, customer: Customer, sign_in: SignIn
) -> None:
    other = await harness.customer()
    meeting, webhook = await other.make_meeting(), await other.make_webhook()
    key = (await harness.query("SELECT id FROM api_keys WHERE account_id = %s", other.account_id))[0]
    browser = await sign_in(customer.account_id)
    ids = {"/meetings/": meeting["id"], "/webhooks/": webhook["id"], "/keys/": key["id"]}
    for page in PAGES:
        for part, id_ in ids.items():
            if page.path.startswith(f"/dashboard{part}{{id}}"):
                path = path_of(page, id_)
                fields = {"overlap_h": "0", "is_active": "no"}
                answer = await (browser.get(path) if page.method == "GET" else browser.post(path, **fields))
                assert answer.status_code in (404, 422), f"{page.method} {page.path}"
                assert meeting["title"] not in answer.text
    unchanged = await harness.query("SELECT revoked_at, daily_cap FROM api_keys WHERE id = %s", key["id"])
    assert unchanged == [{"revoked_at": None, "daily_cap": None}]
    assert (await other.get(f"/webhooks/{webhook['id']}")).json()["is_active"]
    assert (await other.get(f"/meetings/{meeting['id']}")).json()["status"] == "scheduled"


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({"Origin": BASE_URL}, "wrong"),
        ({"Origin": BASE_URL}, None),
        ({"Origin": "https://evil.example"}, "right"),
        ({"Origin": BASE_URL, "Sec-Fetch-Site": "cross-site"}, "right"),
        ({}, "right"),
    ],
)
async def test_a_form_of_another_site_changes_nothing(
    headers: dict[str, str], token: str | None, customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    browser = await sign_in(customer.account_id)
    key = (await harness.query("SELECT id FROM api_keys WHERE account_id = %s", customer.account_id))[0]
    right = TOKEN.search((await browser.get("/dashboard/keys")).text)
    assert right is not None
    sent = {} if token is None else {"form_token": right[1] if token == "right" else token}
    answer = await browser.http.post(f"/dashboard/keys/{key['id']}/revoke", data=sent, headers=headers)
    assert answer.status_code == 403
    assert (await customer.get("/me")).status_code == 200


async def test_a_link_signs_in_once_and_never_into_the_session_that_was_there(
    application: Application, customer: Customer, browsers: Callable[[], Browser]
) -> None:
    link = await application.access.portal_links.for_guest(customer.account_id)
    path, browser = link.url.removeprefix(BASE_URL), browsers()
    browser.http.cookies.set(SESSION, "A" * 43, domain="meetcore.test")
    assert (await browser.get(path)).status_code == 200, "looking at the page uses nothing up"
    entered = await browser.post(path, page=path)
    assert entered.status_code == 303
    cookie = entered.headers["set-cookie"]
    assert "A" * 43 not in cookie
    assert all(part in cookie for part in ("HttpOnly", "Secure", "SameSite=lax", "Path=/"))
    assert "domain" not in cookie.lower()
    again = await browsers().post(path, page=path)
    assert again.status_code == 410
    left = await browser.post("/dashboard/sign-out")
    assert left.status_code == 303
    browser.http.cookies.set(SESSION, entered.cookies[SESSION], domain="meetcore.test")
    assert (await browser.get("/dashboard")).status_code == 303, "the session is over, not only its cookie"


async def test_another_sign_in_ends_the_session_that_the_browser_had(
    application: Application, customer: Customer, sign_in: SignIn
) -> None:
    browser = await sign_in(customer.account_id)
    earlier = browser.http.cookies[SESSION]
    link = await application.access.portal_links.for_guest(customer.account_id, Role.VIEWER)
    path = link.url.removeprefix(BASE_URL)
    assert (await browser.post(path, page=path)).status_code == 303
    assert browser.http.cookies[SESSION] != earlier
    browser.http.cookies.set(SESSION, earlier, domain="meetcore.test")
    assert (await browser.get("/dashboard")).status_code == 303


async def test_members_of_a_suspended_account_may_look_and_start_nothing(
    application: Application, customer: Customer, sign_in: SignIn
) -> None:
    webhook = await customer.make_webhook()
    browser = await sign_in(customer.account_id)
    await application.administration.suspend_account(customer.account_id)
    assert (await browser.get(f"/dashboard/webhooks/{webhook['id']}")).status_code == 200
    answer = await browser.post(f"/dashboard/webhooks/{webhook['id']}/remove", form_key="a")
    assert answer.status_code == 422
    assert "suspended" in answer.text
    assert (await browser.get(f"/dashboard/webhooks/{webhook['id']}")).status_code == 200


async def test_pages_cannot_be_framed_cached_or_scripted(customer: Customer, sign_in: SignIn) -> None:
    title = "<script>alert(1)</script>\"'&"
    meeting = await customer.make_meeting(title=title)
    browser = await sign_in(customer.account_id)
    for path in ("/dashboard", "/dashboard/meetings", f"/dashboard/meetings/{meeting['id']}"):
        answer = await browser.get(path)
        policy = answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert "<script>alert" not in answer.text
        assert "&lt;script&gt;alert" in answer.text
        assert " onclick" not in answer.text
        assert " style=" not in answer.text


async def test_the_overview_has_the_parts_that_the_role_sees(
    customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    await customer.make_meeting(title="Of the overview")
    webhook = await customer.make_webhook()
    await harness.query("UPDATE webhook_endpoints SET consecutive_failures = 3 WHERE id = %s", webhook["id"])
    await harness.query(
        "UPDATE api_keys SET daily_cap = 1000, name = 'Capped' WHERE account_id = %s", customer.account_id
    )
    for role, sees_work in ((Role.OWNER, True), (Role.VIEWER, True), (Role.FINANCE, False)):
        text = (await (await sign_in(customer.account_id, role)).get("/dashboard")).text
        assert "Capped" in text
        assert f"meetings {1000 - await customer.balance()}, notes 0" in text
        assert ("Of the overview" in text) is sees_work
        assert (f"/dashboard/webhooks/{webhook['id']}" in text) is sees_work


async def test_a_key_is_shown_once_and_works(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id, Role.DEVELOPER)
    fields = {"name": "<b>CI</b>", "scope:meetings:read": "on", "daily_cap": "50"}
    made = await browser.post("/dashboard/keys", **fields)
    assert made.status_code == 200
    found = re.search(r'value="(mk_live_[^"]{43})"', made.text)
    assert found is not None
    assert "&lt;b&gt;CI&lt;/b&gt;" in made.text
    authorization = {"Authorization": f"Bearer {found[1]}"}
    me = (await customer.http.get("/me", headers=authorization)).json()
    assert me["api_key"]["scopes"] == ["meetings:read"]
    assert me["api_key"]["daily_credit_cap"] == 50
    assert found[1] not in (await browser.get("/dashboard/keys")).text
    refused = await browser.post("/dashboard/keys", name="", daily_cap="x")
    assert refused.status_code == 422


async def test_a_form_that_is_sent_again_makes_no_second_key(
    customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    browser = await sign_in(customer.account_id)
    form = FORM_KEY.search((await browser.get("/dashboard/keys/new")).text)
    assert form is not None
    fields = {"form_key": form[1], "name": "CI", "scope:meetings:read": "on"}
    answers = [await browser.post("/dashboard/keys", **fields) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 422]
    assert "sent before" in answers[1].text
    keys = await harness.query("SELECT id FROM api_keys WHERE account_id = %s", customer.account_id)
    assert len(keys) == 2
    page = (await browser.get("/dashboard/keys")).text
    form = FORM_KEY.search(page)
    assert form is not None
    roll = f"/dashboard/keys/{form_id(answers[0].text)}/roll"
    rolled = [await browser.post(roll, form_key=form[1], overlap_h="24") for _ in range(2)]
    assert [each.status_code for each in rolled] == [200, 422]
    keys = await harness.query("SELECT id FROM api_keys WHERE account_id = %s", customer.account_id)
    assert len(keys) == 3


def form_id(page: str) -> str:
    """The id of the first key of the list."""
    found = re.search(r"/dashboard/keys/([0-9a-f-]{36})/roll", page)
    assert found is not None
    return found[1]


async def test_a_meeting_is_made_when_its_price_was_seen_and_once(
    customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    browser = await sign_in(customer.account_id)
    form = FORM_KEY.search((await browser.get("/dashboard/meetings/new")).text)
    assert form is not None
    body = harness.body(title="By hand")
    fields = {name: str(body[name]) for name in ("title", "date", "start_time", "pricing_tier_id")}
    fields |= {"form_key": form[1]}
    priced = await browser.post("/dashboard/meetings", **fields)
    seen = re.search(r'name="seen_credits" value="(\d+)"', priced.text)
    assert seen is not None
    assert await customer.balance() == 1000
    fields |= {"seen_credits": seen[1]}
    made = [await browser.post("/dashboard/meetings", **fields) for _ in range(2)]
    assert {each.headers["location"] for each in made} == {made[0].headers["location"]}
    assert await customer.balance() == 1000 - int(seen[1])
    page = made[0].headers["location"].partition("?")[0]
    assert "By hand" in (await browser.get(page)).text
    transactions = (await customer.get("/credits/transactions")).json()["data"]
    assert transactions[0]["api_key_id"] is None
    form = FORM_KEY.search((await browser.get(page)).text)
    assert form is not None
    cancelled = await browser.post(f"{page}/cancel", page=page, form_key=form[1])
    assert cancelled.status_code == 303
    assert await customer.balance() == 1000


async def test_what_is_done_by_hand_is_in_the_audit_log_with_the_address(
    customer: Customer, sign_in: SignIn
) -> None:
    browser = await sign_in(customer.account_id)
    webhook, meeting = await customer.make_webhook(), await customer.make_meeting(title="By a key")
    page = f"/dashboard/webhooks/{webhook['id']}"
    form = FORM_KEY.search((await browser.get(page)).text)
    assert form is not None
    for path in ("secret", "rotate", "test", "test"):
        answer = await browser.post(f"{page}/{path}", page=page, form_key=form[1] + path)
        assert answer.status_code in (200, 303), answer.text
    await browser.post(f"/dashboard/meetings/{meeting['id']}/cancel", form_key="a")
    log = (await browser.get("/dashboard/audit")).text
    actions = re.findall(r"<code>((?:webhook|meeting)\.[a-z_]+)</code>", log)
    assert actions[::-1] == [
        "webhook.secret_shown", "webhook.secret_rotated", "webhook.test_sent", "meeting.cancelled",
    ]  # fmt: skip
    assert "By a key" in log
    assert "whsec_" not in log
    assert "127.0.0.1" in log
    assert "secret of a webhook rotated" in log
    browser.http.headers["Accept-Language"] = "id"
    translated = (await browser.get("/dashboard/audit")).text
    assert "rahasia webhook diganti" in translated
    assert re.search(r"\((anggota|tamu)\)", translated)
    assert re.findall(r"<code>((?:webhook|meeting)\.[a-z_]+)</code>", translated) == actions


async def test_what_failed_at_a_webhook_is_sent_again_from_its_page(
    customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    webhook = await customer.make_webhook()
    browser, page = await sign_in(customer.account_id), f"/dashboard/webhooks/{webhook['id']}"
    tested = await browser.post(f"{page}/test", form_key="test")
    failed = await harness.query(
        "UPDATE deliveries SET status = 'failed', due_at = NULL, failed_at = now()"
        " WHERE endpoint_id = %s RETURNING id",
        webhook["id"],
    )
    assert len(failed) == 1, tested.text
    since = (datetime.now(WIB) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M")
    for _ in range(2):
        sent = await browser.post(f"{page}/recover", since=since, form_key="recover")
        assert sent.status_code == 200, sent.text
        assert "Deliveries that are sent again: 1." in sent.text
    again = await browser.post(f"{page}/recover", since=since, form_key="another")
    assert "Deliveries that are sent again: 0." in again.text
    for text in ("", "yesterday", "0001-01-01T00:00", "9999-12-31T23:59"):
        assert (await browser.post(f"{page}/recover", since=text)).status_code == 422, text


async def test_the_page_of_a_delivery_shows_the_payload_escaped(
    customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    webhook = await customer.make_webhook()
    await customer.make_meeting(title="<b>Rapat</b> \u00e9")
    (delivery,) = await harness.query("SELECT id FROM deliveries WHERE endpoint_id = %s", webhook["id"])
    browser = await sign_in(customer.account_id)
    page = (await browser.get(f"/dashboard/webhooks/{webhook['id']}/deliveries/{delivery['id']}")).text
    assert "&#34;title&#34;: &#34;&lt;b&gt;Rapat&lt;/b&gt; \u00e9&#34;" in page
    assert "X-Service-Signature" in page
    assert "<b>Rapat" not in page


async def test_the_form_of_a_webhook_shows_an_example_of_each_kind(
    customer: Customer, sign_in: SignIn
) -> None:
    page = (await (await sign_in(customer.account_id)).get("/dashboard/webhooks/new")).text
    examples = re.findall(r"<pre tabindex=\"0\">(.*?)</pre>", page, re.DOTALL)
    kinds = {json.loads(html.unescape(each))["type"] for each in examples}
    assert kinds == {kind.value for kind in EventKind} - {"webhook.test"}


async def test_the_ledger_comes_as_a_file_of_every_entry(customer: Customer, sign_in: SignIn) -> None:
    await customer.make_meeting()
    browser = await sign_in(customer.account_id, Role.FINANCE)
    answer = await browser.get("/dashboard/ledger.csv?kind=meeting_charge")
    assert answer.headers["content-disposition"].startswith("attachment")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["kind"] for row in rows] == ["meeting_charge"]
    whole = list(csv.DictReader(io.StringIO((await browser.get("/dashboard/ledger.csv")).text)))
    assert [int(row["number"]) for row in whole] == [2, 1]
    assert int(whole[0]["balance_after"]) == await customer.balance()


async def test_a_form_that_is_too_large_is_refused(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id)
    answer = await browser.post("/dashboard/settings/threshold", low_threshold="1" * 70_000)
    assert answer.status_code == 413


async def test_the_language_is_the_browsers_and_can_be_switched(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id)
    browser.http.headers["Accept-Language"] = "id-ID,id;q=0.9"
    assert '<html lang="id">' in (await browser.get("/dashboard")).text
    switched = await browser.post("/dashboard/language", language="en", next="/dashboard/keys")
    assert switched.headers["location"] == "/dashboard/keys"
    assert '<html lang="en">' in (await browser.get("/dashboard")).text
    elsewhere = await browser.post("/dashboard/language", language="en", next="https://evil.example")
    assert elsewhere.headers["location"] == "/dashboard"


async def test_assets_are_kept_by_their_content(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id)
    page = (await browser.get("/dashboard")).text
    paths = re.findall(r'"(/dashboard/assets/[^"]+)"', page)
    assert len(set(paths)) == 3
    for path in set(paths):
        asset = await browser.get(path)
        assert asset.status_code == 200
        assert "immutable" in asset.headers["cache-control"]
        assert len(asset.content) < 15_000
    assert (await browser.get("/dashboard/assets/000000000000/style.css")).status_code == 404
    assert (await browser.get("/dashboard/assets/000000000000/..%2Fvisit.py")).status_code == 404
