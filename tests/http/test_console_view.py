"""An operator's read-only view of a customer's dashboard, over HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import escape
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from meetcore.adapters.web.routes import PAGES
from meetcore.composition.application import Application
from meetcore.domain.errors import ActionNotAllowed
from meetcore.domain.members.roles import (
    ALLOWED,
    OPERATORS_ALLOWED,
    Action,
    OperatorAction,
    OperatorRole,
    Role,
)
from meetcore.usecases.redeem_sign_in_link import Browser as BrowserIdentity
from tests.support.api_harness import BASE_URL, ApiHarness, Customer
from tests.support.console_pages import CUSTOMER_SESSION, SignIn, logged, who_is
from tests.support.pages import TOKEN, Browser
from tests.support.sandbox_recordings import a_recording, note_in
from tests.support.visitors import Visitors


async def viewing(customer: Customer, browser: Browser) -> Browser:
    """Begin the view in a browser of an operator."""
    answer = await browser.post(f"/console/accounts/{customer.account_id}/view")
    assert answer.headers["location"] == "/dashboard"
    return Browser(browser.http, "/dashboard")


async def test_an_operator_sees_the_dashboard_with_a_banner_and_it_is_logged(
    customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    await customer.make_meeting(title="Shown to support")
    browser = await viewing(customer, await sign_in(OperatorRole.SUPPORT))
    for path in ("", "/meetings", "/notes", "/ledger", "/keys", "/webhooks", "/settings"):
        answer = await browser.get(f"/dashboard{path}")
        assert answer.status_code == 200, path
        assert "Read-only view" in answer.text
    assert "Shown to support" in (await browser.get("/dashboard/meetings")).text
    for path in ("/audit", "/team"):
        assert (await browser.get(f"/dashboard{path}")).status_code == 403
    [entry] = [
        each for each in await logged(harness, "account.viewed") if each["account_id"] == customer.account_id
    ]
    assert (entry["actor_kind"], entry["details"]) == ("operator", {"minutes": 30})
    [row] = await harness.query(
        "SELECT is_impersonated FROM audit_log WHERE action = 'account.viewed' AND account_id = %s",
        customer.account_id,
    )
    assert row["is_impersonated"]
    assert (await browser.get("/console/accounts")).status_code == 200, "the console's session goes on"


async def test_the_page_of_an_account_leads_to_pages_of_its_dashboard(
    customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    meeting, webhook = await customer.make_meeting(title="Named in the ledger"), await customer.make_webhook()
    assert (await customer.post(f"/webhooks/{webhook['id']}/test", {})).status_code == 202
    browser, account = await sign_in(OperatorRole.SUPPORT), f"/console/accounts/{customer.account_id}"
    page = (await browser.get(account)).text
    found = re.findall(r'name="to" value="([^"]+)"><button class="plain">([^<]*)<', page)
    assert (f"/dashboard/meetings/{meeting['id']}", "Named in the ledger") in found
    assert (f"/dashboard/webhooks/{webhook['id']}", webhook["url"]) in found
    assert (f"/dashboard/requests?key={customer.key.key.id}", customer.key.key.name) in found
    for path, _ in dict.fromkeys(found):
        answer = await browser.post(f"{account}/view", to=path)
        assert (answer.status_code, answer.headers["location"]) == (303, path)
        assert (await browser.get(path)).status_code == 200, path
    for path in ("https://elsewhere.test/", "//elsewhere.test", "/console/audit", "/dashboard\\x"):
        answer = await browser.post(f"{account}/view", to=path)
        assert answer.headers["location"] == "/dashboard", path


async def test_a_view_shows_nothing_that_opens_a_meeting_or_plays_one(
    customer: Customer, visitors: Visitors, sign_in: SignIn, harness: ApiHarness
) -> None:
    webhook = await customer.make_webhook()
    meeting = await customer.make_meeting(password="rahasia1")
    [delivery] = await harness.query("SELECT id FROM deliveries WHERE endpoint_id = %s", webhook["id"])
    await harness.query(
        "INSERT INTO delivery_attempts VALUES (%s, %s, 99, now(), 5, 500, NULL, %s, NULL)",
        customer.account_id, delivery["id"], f"taken: {meeting['join_url']}",
    )  # fmt: skip
    recording = await a_recording(customer)
    note = (await customer.post("/notes", {"recording_id": recording["id"]})).json()
    await note_in(customer, note["id"], "completed")
    meeting_page = f"/dashboard/meetings/{meeting['id']}"
    recorded_page = f"/dashboard/meetings/{recording['meeting_id']}"
    note_page = f"/dashboard/notes/{note['id']}"
    delivery_page = f"/dashboard/webhooks/{webhook['id']}/deliveries/{delivery['id']}"
    pages = (meeting_page, recorded_page, note_page, delivery_page)
    member, view = (
        await visitors.member(customer.account_id),
        await viewing(customer, await sign_in(OperatorRole.SUPPORT)),
    )
    secret = re.compile(r"rahasia1|<audio|/downloads/|" + re.escape(escape(meeting["join_url"])))
    for path in pages:
        assert secret.search((await member.get(path)).text), path
        answer = await view.get(path)
        assert answer.status_code == 200, path
        assert secret.search(answer.text) is None, path
        assert urlsplit(meeting["join_url"]).query not in answer.text, path
    assert "hidden from operators" in (await view.get(meeting_page)).text
    assert "not played to operators" in (await view.get(recorded_page)).text
    assert "not played to operators" in (await view.get(note_page)).text
    assert "(hidden)" in (await view.get(delivery_page)).text
    await view.post("/dashboard/language", language="id")
    assert "disembunyikan dari operator" in (await view.get(meeting_page)).text


async def test_every_change_is_refused_with_a_reason(
    customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    browser = await viewing(customer, await sign_in())
    token = TOKEN.search((await browser.get("/dashboard")).text)
    assert token is not None
    changes = [page for page in PAGES if page.method == "POST"]
    assert len(changes) > 10
    for page in changes:
        path = page.path.replace("{id}", str(uuid4())).replace("{delivery_id}", str(uuid4()))
        answer = await browser.http.post(path, data={"form_token": token[1]}, headers={"Origin": BASE_URL})
        assert answer.status_code == 403, path
        assert "You look at this account as an operator" in answer.text
    for path in ("", "/settings", "/keys", "/webhooks"):
        text = (await browser.get(f"/dashboard{path}")).text
        forms = text.count('method="post"') - text.count("/sign-out") - text.count("/dashboard/language")
        assert forms == 0, path
    actions = await harness.query(
        "SELECT action FROM audit_log WHERE account_id = %s AND is_impersonated", customer.account_id
    )
    assert [each["action"] for each in actions] == ["account.viewed"]


def test_a_viewer_may_change_nothing_of_the_account() -> None:
    changes = {action for action in ALLOWED[Role.VIEWER] if not action.endswith(".view")}
    assert changes == {Action.MANAGE_PASSKEYS}, "a user's own, which an operator is not"


async def test_the_view_ends_by_itself_and_with_its_button(
    customer: Customer, sign_in: SignIn, harness: ApiHarness
) -> None:
    browser = await viewing(customer, await sign_in())
    assert (await browser.post("/dashboard/sign-out")).status_code == 303
    assert (await browser.get("/dashboard")).status_code == 303
    browser = await viewing(customer, await sign_in())
    await harness.query(
        "UPDATE sessions SET created_at = %s, last_seen_at = now() WHERE account_id = %s RETURNING id",
        datetime.now(UTC) - timedelta(minutes=30),
        customer.account_id,
    )
    assert (await browser.get("/dashboard")).headers["location"].startswith("/dashboard/sign-in")


async def test_a_customers_session_in_the_browser_ends_and_a_removed_operators_view_too(
    customer: Customer, sign_in: SignIn, application: Application, browsers: Callable[[str], Browser]
) -> None:
    link = (await application.access.portal_links.for_guest(customer.account_id)).url.removeprefix(BASE_URL)
    browser = await sign_in()
    assert (await browser.post(link, page=link)).status_code == 303
    before = browser.http.cookies[CUSTOMER_SESSION]
    view = await viewing(customer, browser)
    other = browsers("/dashboard")
    other.http.cookies.set(CUSTOMER_SESSION, before, domain="meetcore.test")
    assert (await other.get("/dashboard")).status_code == 303
    assert (await view.get("/dashboard")).status_code == 200
    await application.access.operators.remove((await who_is(application, browser)).operator.id)
    assert (await view.get("/dashboard")).status_code == 303


@pytest.mark.parametrize("role", OperatorRole)
async def test_the_role_decides_in_the_use_case(
    role: OperatorRole, customer: Customer, sign_in: SignIn, application: Application
) -> None:
    browser = await sign_in(role)
    who, use = await who_is(application, browser), application.console.impersonate
    if OperatorAction.IMPERSONATE in OPERATORS_ALLOWED[role]:
        assert (await use.begin(who, customer.account_id, BrowserIdentity())).session.impersonated_by
    else:
        with pytest.raises(ActionNotAllowed):
            await use.begin(who, customer.account_id, BrowserIdentity())
