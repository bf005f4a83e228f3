"""Portal links for a customer's backend, and an operator's read-only view of a dashboard."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
from starlette.applications import Starlette

from meetcore.adapters.api.http_common import RequestLimits
from meetcore.adapters.web.console.routes import console_routes
from meetcore.adapters.web.routes import PAGES
from meetcore.composition.application import Application
from meetcore.domain.members.roles import (
    ALLOWED,
    OPERATORS_ALLOWED,
    Action,
    OperatorAction,
    OperatorRole,
    Role,
)
from meetcore.usecases.members.operators import REQUESTS_PER_MINUTE
from tests.support.api_harness import BASE_URL, ApiHarness, Customer
from tests.support.console_pages import CUSTOMER_SESSION, logged_of, who_is
from tests.support.pages import TOKEN, Browser
from tests.support.sandbox_recordings import a_note
from tests.support.texts import assert_contains
from tests.support.visitors import Visitors

PATH = "/console/portal-links"


async def ask(browser: Browser, token: str, **body: Any) -> httpx.Response:
    return await browser.http.post(PATH, json=body, headers={"Authorization": f"Bearer {token}"})


async def token_of(application: Application, role: OperatorRole = OperatorRole.SUPPORT) -> str:
    return (await application.access.operator_tokens.create(role, "backend")).text


def refusal(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    error: dict[str, Any] = answer.json()["error"]
    assert (error["code"], error["request_id"]) == (code, answer.headers["X-Request-Id"])
    assert answer.headers["Cache-Control"] == "no-store"
    return error


async def test_a_backend_makes_a_link_that_signs_a_guest_in_once(
    customer: Customer, visitors: Visitors, harness: ApiHarness
) -> None:
    minted = await customer.application.access.operator_tokens.create(OperatorRole.SUPPORT, "backend")
    browser = visitors.stranger("/dashboard")
    answer = await ask(browser, minted.text, account_id=str(customer.account_id), role="developer", minutes=5)
    assert answer.status_code == 201
    assert set(answer.json()) == {"url", "expires_at"}
    expires_at = datetime.fromisoformat(answer.json()["expires_at"])
    assert timedelta(minutes=4) < expires_at - datetime.now(UTC) <= timedelta(minutes=5)
    path = answer.json()["url"].removeprefix(BASE_URL)
    assert (await browser.post(path, page=path)).status_code == 303
    assert (await browser.get("/dashboard/keys/new")).status_code == 200, "a developer makes keys"
    assert (await browser.get("/dashboard/team")).status_code == 200
    again = visitors.stranger("/dashboard")
    assert (await again.post(path, page=path)).status_code == 410
    entry = (await logged_of(customer, "portal_link.created"))[-1]
    assert (entry["actor_kind"], entry["actor_name"]) == ("operator", "token backend")
    assert minted.text not in str(await customer.query("SELECT * FROM audit_log"))
    assert minted.text not in str(await customer.query("SELECT * FROM operator_tokens"))


async def test_a_token_that_is_revoked_while_the_body_is_received_makes_no_link(customer: Customer) -> None:
    application = customer.application
    tokens = application.access.operator_tokens
    minted = await tokens.create(OperatorRole.ADMIN, "backend")

    async def parts() -> AsyncIterator[bytes]:
        yield b'{"role": "owner",'
        await tokens.revoke(minted.token.id)
        yield f'"account_id": "{customer.account_id}"}}'.encode()

    site = Starlette(routes=console_routes(application.console, BASE_URL, RequestLimits(recheck_after_s=0)))
    headers = {"Authorization": f"Bearer {minted.text}", "Content-Type": "application/json"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(site), base_url=BASE_URL) as backend:
        refusal(await backend.post(PATH, content=parts(), headers=headers), 401, "invalid_api_key")
    assert await logged_of(customer, "portal_link.created") == []


async def test_a_backend_makes_a_link_for_a_member_by_email(customer: Customer, visitors: Visitors) -> None:
    account = await customer.application.administration.registry.find_account(customer.account_id)
    token, browser = await token_of(customer.application, OperatorRole.ADMIN), visitors.stranger("/dashboard")
    answer = await ask(browser, token, account_id=str(account.id), email=account.email.upper())
    assert answer.status_code == 201
    path = answer.json()["url"].removeprefix(BASE_URL)
    assert (await browser.post(path, page=path)).status_code == 303
    assert (await browser.get("/dashboard/audit")).status_code == 200, "the member is an owner"
    made = await browser.post("/dashboard/keys", page="/dashboard/keys", name="A", form_key="k")
    assert "reason=fresh" in made.headers["location"], "the member has not signed in"


@pytest.mark.parametrize("body", [{"role": "owner"}, {"email": "a@example.com"}])
async def test_support_makes_no_link_of_an_owner_or_a_member(
    body: dict[str, str], customer: Customer, visitors: Visitors
) -> None:
    answer = await ask(
        visitors.stranger(""),
        await token_of(customer.application),
        account_id=str(customer.account_id),
        **body,
    )
    assert refusal(answer, 403, "insufficient_scope")["details"]["role"] == "support"


@pytest.mark.parametrize("role", OperatorRole)
async def test_role_of_the_token_decides(role: OperatorRole, customer: Customer, visitors: Visitors) -> None:
    token = await token_of(customer.application, role)
    answer = await ask(visitors.stranger(""), token, account_id=str(customer.account_id))
    if OperatorAction.MAKE_PORTAL_LINKS in OPERATORS_ALLOWED[role]:
        assert answer.status_code == 201
    else:
        assert refusal(answer, 403, "insufficient_scope")["details"]["role"] == role


async def test_without_a_valid_token_nothing_is_answered(customer: Customer, visitors: Visitors) -> None:
    browser, tokens, id = (
        visitors.stranger(""),
        customer.application.access.operator_tokens,
        str(customer.account_id),
    )
    revoked, expired = [await tokens.create(OperatorRole.ADMIN) for _ in range(2)]
    assert (await ask(browser, revoked.text, account_id=id)).status_code == 201
    await tokens.revoke(revoked.token.id)
    await customer.query(
        "UPDATE operator_tokens SET expires_at = now() WHERE id = %s RETURNING id", expired.token.id
    )
    unknown = "mk_operator_" + "A" * 43
    for token in (revoked.text, expired.text, unknown, unknown, "mk_operator_x", customer.key.text, ""):
        answer = await ask(browser, token, account_id=id)
        refusal(answer, 401, "invalid_api_key")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    refusal(await browser.http.post(PATH, json={}), 401, "invalid_api_key")
    assert {each["action"] for each in await customer.query("SELECT action FROM audit_log")} >= {
        "operator_token.created",
        "operator_token.revoked",
    }


async def test_a_wrong_field_is_named(customer: Customer, visitors: Visitors) -> None:
    browser, token = visitors.stranger(""), await token_of(customer.application)
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "account_id"), ({"account_id": 7}, "account_id"), ({"role": "admin"}, "role"),
        ({"role": "owner", "email": "a@example.com"}, "role"), ({"minutes": 0}, "minutes"),
        ({"minutes": 61}, "minutes"), ({"minutes": "5"}, "minutes"), ({"email": ""}, "email"),
        ({"acount_id": "x"}, "acount_id"),
    )  # fmt: skip
    for body, field in cases:
        sent = {"account_id": str(customer.account_id)} | body if body else {}
        answer = await ask(browser, token, **sent)
        assert field in refusal(answer, 400, "invalid_request")["details"]["fields"], body


async def test_what_is_not_there_and_what_is_no_json(customer: Customer, visitors: Visitors) -> None:
    browser, id = visitors.stranger(""), str(customer.account_id)
    token = await token_of(customer.application, OperatorRole.ADMIN)
    for body in ({"account_id": str(uuid4())}, {"account_id": "x"}):
        refusal(await ask(browser, token, **body), 404, "not_found")
    refusal(await ask(browser, token, account_id=id, email="nobody@example.com"), 404, "not_found")
    headers = {"Authorization": f"Bearer {token}"}
    refusal(await browser.http.post(PATH, data={"account_id": id}, headers=headers), 415, "invalid_request")
    json = headers | {"Content-Type": "application/json"}
    refusal(await browser.http.post(PATH, content=b"{", headers=json), 400, "invalid_request")
    refusal(await browser.http.post(PATH, content=b"x" * 70_000, headers=json), 413, "invalid_request")
    wrong_method = await browser.http.get(PATH, headers=headers)
    refusal(wrong_method, 405, "invalid_request")
    assert wrong_method.headers["Allow"] == "POST"


async def test_a_token_makes_so_many_requests_in_a_minute(customer: Customer, visitors: Visitors) -> None:
    browser, token = visitors.stranger(""), await token_of(customer.application)
    admitted = 0
    # The minute may turn once meanwhile.
    while (answer := await ask(browser, token, account_id=str(uuid4()))).status_code == 404:
        admitted += 1
        assert admitted <= 2 * REQUESTS_PER_MINUTE
    refusal(answer, 429, "rate_limited")
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    assert admitted >= REQUESTS_PER_MINUTE
    other = await token_of(customer.application)
    assert (await ask(browser, other, account_id=str(customer.account_id))).status_code == 201


async def viewing(customer: Customer, browser: Browser) -> Browser:
    """Begin the view in a browser of an operator."""
    answer = await browser.post(f"/console/accounts/{customer.account_id}/view")
    assert answer.headers["location"] == "/dashboard"
    return Browser(browser.http, "/dashboard")


async def test_an_operator_sees_the_dashboard_with_a_banner_and_it_is_logged(
    customer: Customer, visitors: Visitors, harness: ApiHarness
) -> None:
    await customer.make_meeting(title="Shown to support")
    browser = await viewing(customer, await visitors.operator(OperatorRole.SUPPORT))
    for path in ("", "/meetings", "/notes", "/ledger", "/keys", "/webhooks", "/settings"):
        answer = await browser.get(f"/dashboard{path}")
        assert answer.status_code == 200, path
        assert "Read-only view" in answer.text
    assert "Shown to support" in (await browser.get("/dashboard/meetings")).text
    for path in ("/audit", "/team"):
        assert (await browser.get(f"/dashboard{path}")).status_code == 403
    [entry] = await logged_of(customer, "account.viewed")
    assert (entry["actor_kind"], entry["details"]) == ("operator", {"minutes": 30})
    [row] = await customer.query(
        "SELECT is_impersonated FROM audit_log WHERE action = 'account.viewed' AND account_id = %s",
        customer.account_id,
    )
    assert row["is_impersonated"]
    assert (await browser.get("/console/accounts")).status_code == 200, "the console's session goes on"


async def test_page_of_account_leads_to_pages_of_its_dashboard(
    customer: Customer, visitors: Visitors
) -> None:
    meeting, webhook = await customer.make_meeting(title="Named in the ledger"), await customer.make_webhook()
    assert (await customer.post(f"/webhooks/{webhook['id']}/test", {})).status_code == 202
    browser, account = (
        await visitors.operator(OperatorRole.SUPPORT),
        f"/console/accounts/{customer.account_id}",
    )
    page = (await browser.get(account)).text
    found = re.findall(r'name="to" value="([^"]+)"><button class="plain">([^<]*)<', page)
    assert_contains(
        found,
        (f"/dashboard/meetings/{meeting['id']}", "Named in the ledger"),
        (f"/dashboard/webhooks/{webhook['id']}", webhook["url"]),
        (f"/dashboard/requests?key={customer.key.key.id}", customer.key.key.name),
    )
    for path, _ in dict.fromkeys(found):
        answer = await browser.post(f"{account}/view", to=path)
        assert (answer.status_code, answer.headers["location"]) == (303, path)
        assert (await browser.get(path)).status_code == 200, path
    for path in ("https://elsewhere.test/", "//elsewhere.test", "/console/audit", "/dashboard\\x"):
        answer = await browser.post(f"{account}/view", to=path)
        assert answer.headers["location"] == "/dashboard", path


async def test_a_view_ends_with_the_operators_session(customer: Customer, visitors: Visitors) -> None:
    browser = await viewing(customer, await visitors.operator(OperatorRole.SUPPORT))
    assert (await browser.get("/dashboard/ledger")).status_code == 200
    assert (await browser.post("/console/sign-out", page="/console/audit")).status_code == 303
    assert (await browser.get("/dashboard/ledger")).status_code == 303


async def test_a_view_ends_with_the_permission(customer: Customer, visitors: Visitors) -> None:
    browser = await visitors.operator(OperatorRole.SUPPORT)
    who = await who_is(customer.application, browser)
    await viewing(customer, browser)
    for role, status in (("admin", 200), ("finance", 303)):
        await customer.query(
            "UPDATE operators SET role = %s WHERE id = %s RETURNING id", role, who.operator.id
        )
        assert (await browser.get("/dashboard/ledger")).status_code == status


async def test_a_view_shows_nothing_that_opens_a_meeting_or_plays_one(
    customer: Customer, visitors: Visitors
) -> None:
    webhook = await customer.make_webhook()
    meeting = await customer.make_meeting(password="rahasia1")
    [delivery] = await customer.query("SELECT id FROM deliveries WHERE endpoint_id = %s", webhook["id"])
    await customer.query(
        "INSERT INTO delivery_attempts VALUES (%s, %s, 99, now(), 5, 500, NULL, %s, NULL)",
        customer.account_id, delivery["id"], f"taken: {meeting['join_url']}",
    )  # fmt: skip
    note = await a_note(customer)
    meeting_page = f"/dashboard/meetings/{meeting['id']}"
    recorded_page = f"/dashboard/meetings/{note['meeting_id']}"
    note_page = f"/dashboard/notes/{note['id']}"
    delivery_page = f"/dashboard/webhooks/{webhook['id']}/deliveries/{delivery['id']}"
    pages = (meeting_page, recorded_page, note_page, delivery_page)
    member, view = (
        await visitors.member(customer.account_id),
        await viewing(customer, await visitors.operator(OperatorRole.SUPPORT)),
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


async def test_every_change_is_refused_with_a_reason(customer: Customer, visitors: Visitors) -> None:
    browser = await viewing(customer, await visitors.operator())
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
    actions = await customer.query(
        "SELECT action FROM audit_log WHERE account_id = %s AND is_impersonated", customer.account_id
    )
    assert [each["action"] for each in actions] == ["account.viewed"]


def test_a_viewer_may_change_nothing_of_the_account() -> None:
    changes = {action for action in ALLOWED[Role.VIEWER] if not action.endswith(".view")}
    assert changes == {Action.MANAGE_PASSKEYS}, "a user's own, which an operator is not"


async def test_the_view_ends_by_itself_and_with_its_button(customer: Customer, visitors: Visitors) -> None:
    browser = await viewing(customer, await visitors.operator())
    assert (await browser.post("/dashboard/sign-out")).status_code == 303
    assert (await browser.get("/dashboard")).status_code == 303
    browser = await viewing(customer, await visitors.operator())
    await customer.query(
        "UPDATE sessions SET created_at = %s, last_seen_at = now() WHERE account_id = %s RETURNING id",
        datetime.now(UTC) - timedelta(minutes=30),
        customer.account_id,
    )
    assert (await browser.get("/dashboard")).headers["location"].startswith("/dashboard/sign-in")


async def test_a_customers_session_in_the_browser_ends_and_a_removed_operators_view_too(
    customer: Customer, visitors: Visitors
) -> None:
    link = (await customer.application.access.portal_links.for_guest(customer.account_id)).url.removeprefix(
        BASE_URL
    )
    browser = await visitors.operator()
    assert (await browser.post(link, page=link)).status_code == 303
    before = browser.http.cookies[CUSTOMER_SESSION]
    view = await viewing(customer, browser)
    other = visitors.stranger("/dashboard")
    other.http.cookies.set(CUSTOMER_SESSION, before, domain="meetcore.test")
    assert (await other.get("/dashboard")).status_code == 303
    assert (await view.get("/dashboard")).status_code == 200
    await customer.application.access.operators.remove(
        (await who_is(customer.application, browser)).operator.id
    )
    assert (await view.get("/dashboard")).status_code == 303


async def test_an_owner_sees_and_ends_a_view_and_a_guest_under_settings(
    customer: Customer, visitors: Visitors
) -> None:
    view = await viewing(customer, await visitors.operator(OperatorRole.SUPPORT))
    guest, owner = (
        await visitors.member(customer.account_id, Role.VIEWER),
        await visitors.member(customer.account_id),
    )
    page = (await owner.get("/dashboard/settings")).text
    assert_contains(page, "operator, who looks at this account", "guest, by a link of the provider")
    assert "operator, who" not in (await guest.get("/dashboard/settings")).text
    ended = await owner.post("/dashboard/settings/sessions/end-others")
    assert ended.headers["location"] == "/dashboard/settings?done=session_ended"
    for each in (view, guest):
        assert (await each.get("/dashboard")).status_code == 303
    assert (await owner.get("/dashboard")).status_code == 200


async def test_an_operator_ends_the_own_sessions_in_the_console(
    customer: Customer, visitors: Visitors
) -> None:
    browser = await visitors.operator(OperatorRole.FINANCE)
    who = await who_is(customer.application, browser)
    link = await customer.application.access.portal_links.for_operator(who.operator.id)
    other = await visitors.entered(link.url, "/console/audit")
    assert "/console/sessions" in (await browser.get("/console/passkeys")).text
    page = (await browser.get("/console/sessions")).text
    assert page.count("Sign out there") == 1
    ended = await browser.post("/console/sessions/end-others")
    assert ended.headers["location"] == "/console/sessions?done=session_ended"
    assert (await other.get("/console/accounts")).status_code == 303
    assert (await browser.get("/console/accounts")).status_code == 200
