"""The pages against other accounts, other sites and crafted links, for every route that there is."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urljoin, urlsplit
from uuid import uuid4

import httpx
import pytest
from attrs import evolve, frozen

from meetcore.adapters.settings import Settings
from meetcore.adapters.web.console.routes import PAGES as CONSOLE_PAGES
from meetcore.adapters.web.routes import PAGES
from meetcore.app import Service
from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.requests.request_log import LoggedRequest
from tests.support.api_harness import ALL_SCOPES, BASE_URL, ApiHarness, Customer
from tests.support.mailed_service import MailedService, mailed_service
from tests.support.names import Names
from tests.support.pages import TOKEN, Browser
from tests.support.sandbox_recordings import a_note
from tests.support.texts import assert_contains
from tests.support.visitors import BY_TOKEN, SESSIONS, Visitors, root_of

FIELDS = {
    "amount": "5", "confirmed": "yes", "daily_cap": "5", "date": "2030-01-01",
    "email": "someone@example.com", "form_key": "a", "is_active": "no", "kind:credit.low": "on",
    "language": "id", "low_threshold": "5", "name": "CI", "overlap_h": "0",
    "pricing_tier_id": "standard-100", "reason": "a slip", "role": "viewer", "scope:meetings:read": "on",
    "since": "2026-01-01T00:00", "start_time": "09:00", "title": "Rapat", "url": "https://hooks.test/a",
}  # fmt: skip
"""Fields that the forms of all pages take; each reads its own."""


def path_of(route: str, ids: Mapping[str, str]) -> str:
    """A path of a route, with an id of each kind; one that nothing has for a kind that is missing."""
    return re.sub(r"/([a-z-]+)/\{\w+\}", lambda found: f"/{found[1]}/{ids.get(found[1], uuid4())}", route)


async def a_passkey(customer: Customer) -> str:
    """A passkey of the owner of an account."""
    statement = (
        "INSERT INTO passkeys (id, user_id, credential, public_key, sign_count, name, created_at)"
        " SELECT %s, user_id, %s, 'x', 0, 'Laptop', now() FROM memberships WHERE account_id = %s RETURNING id"
    )
    id_ = uuid4()
    [row] = await customer.query(statement, id_, id_.bytes, customer.account_id)
    return str(row["id"])


async def ids_of(customer: Customer, browser: Browser) -> Mapping[str, str]:
    """An id of each kind in an account, by the part of the path before it."""
    note = await a_note(customer, title="Of the other account")
    webhook = await customer.make_webhook()
    await customer.post(f"/webhooks/{webhook['id']}/test", {})
    topup = (await customer.post("/credits/topups", {"package_id": "credits-500"})).json()
    called = LoggedRequest(
        uuid4(), customer.account_id, customer.key.key.id, datetime.now(UTC), "GET", "/me", 200, 1
    )
    await customer.application.ports.request_log.save([called])
    await browser.post("/dashboard/team/invitations", email=f"{uuid4().hex}@example.com", role="viewer")

    async def one(table: str, column: str = "id") -> str:
        statement = f"SELECT {column} AS id FROM {table} WHERE account_id = %s LIMIT 1"
        [row] = await customer.query(statement, customer.account_id)
        return str(row["id"])

    return {
        "accounts": str(customer.account_id), "meetings": note["meeting_id"],
        "notes": note["id"], "webhooks": webhook["id"],
        "deliveries": await one("deliveries"), "requests": str(called.id), "keys": await one("api_keys"),
        "sessions": await one("sessions"), "team": await one("memberships", "user_id"),
        "invitations": await one("invitations"), "credits": topup["id"],
        "passkeys": await a_passkey(customer), "playground": "get_me",
        "connect": str(uuid4()),  # a request of a program is of no account until it is answered
    }  # fmt: skip


async def state_of(customer: Customer) -> list[Any]:
    """What a change in an account would leave a trace in, apart from the pages that were looked at."""
    counted = ("audit_log", "meetings", "webhook_endpoints", "deliveries", "invitations", "ledger_entries")
    statements = [f"SELECT count(*) FROM {table} WHERE account_id = %s" for table in counted]
    statements.append("SELECT id, revoked_at, expires_at, daily_cap FROM api_keys WHERE account_id = %s")
    statements.append("SELECT id, ended_at FROM sessions WHERE account_id = %s ORDER BY id")
    statements.append("SELECT role FROM memberships WHERE account_id = %s")
    statements.append("SELECT name FROM passkeys JOIN memberships USING (user_id) WHERE account_id = %s")
    return [await customer.query(each, customer.account_id) for each in statements]


@frozen
class Filled:
    """An account with something of each kind, an owner's browser, and the ids of `ids_of`."""

    customer: Customer
    browser: Browser
    ids: Mapping[str, str]


@pytest.fixture(scope="module")
async def filled(harness: ApiHarness, service: Service) -> AsyncIterator[Filled]:
    customer, visitors = await harness.customer(scopes=ALL_SCOPES), Visitors(service, harness.application)
    browser = await visitors.guest(customer.account_id)
    yield Filled(customer, browser, await ids_of(customer, browser))
    await browser.http.aclose()


async def test_nothing_of_another_account_is_found_by_its_id(
    filled: Filled, customer: Customer, visitors: Visitors
) -> None:
    other, ids = filled.customer, filled.ids
    before, browser = await state_of(other), await visitors.member(customer.account_id)
    own_webhook = await customer.make_webhook()
    for page in (each for each in PAGES if "{id}" in each.path):
        kinds = {*re.findall(r"/([a-z-]+)/\{", page.path)}
        assert kinds <= {*ids}, f"ids_of has no id for {page.path}"
        whole = path_of(page.path, ids)
        paths = {whole, whole.replace(ids["webhooks"], own_webhook["id"])} if "{d" in page.path else {whole}
        for path in paths:
            sent = FIELDS | {"form_key": uuid4().hex}
            answer = await (browser.get(path) if page.method == "GET" else browser.post(path, **sent))
            assert answer.status_code == 404, f"{page.method} {path}"
            assert "Of the other account" not in answer.text
    assert await state_of(other) == before


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        pytest.param({"Origin": BASE_URL}, "wrong", id="wrong token"),
        pytest.param({"Origin": "https://evil.example"}, "right", id="foreign origin"),
        pytest.param({"Origin": BASE_URL, "Sec-Fetch-Site": "cross-site"}, "right", id="cross-site"),
        pytest.param({}, "right", id="no header"),
    ],
)
async def test_no_form_is_taken_from_another_site(
    headers: dict[str, str], token: str, customer: Customer, visitors: Visitors
) -> None:
    browsers = {
        "/dashboard": await visitors.member(customer.account_id),
        "/console": await visitors.operator(),
    }
    tokens = {root: await form_token(each) for root, each in browsers.items()}
    [key] = await customer.query("SELECT id FROM api_keys WHERE account_id = %s", customer.account_id)
    ids = {"accounts": str(customer.account_id), "keys": str(key["id"])}
    before = await state_of(customer)
    for route in visitors.routes():
        if "POST" not in (route.methods or ()):
            continue
        root = root_of(route.path)
        path = path_of(route.path, ids)
        sent = FIELDS | {"form_token": {"right": tokens[root]}.get(token, token)}
        answer = await browsers[root].http.post(path, data=sent, headers=headers)
        if not (route.path.endswith("/language") and token != "right"):
            assert answer.status_code == 403, route.path
    assert await state_of(customer) == before
    for root, browser in browsers.items():
        answer = await browser.get(root)
        assert answer.status_code in (200, 303)
        assert "/sign-in" not in answer.headers.get("location", ""), "still signed in"


GOES_ON = {
    "/dashboard/accounts/{id}/enter", "/dashboard/settings/sessions/{id}/end",
    "/dashboard/settings/sessions/end-others", "/dashboard/settings/export", "/dashboard/settings/erase",
    "/dashboard/settings/language", "/dashboard/settings/mails",
    "/dashboard/passkeys", "/dashboard/passkeys/options", "/dashboard/passkeys/{id}/remove",
}  # fmt: skip
"""Forms that members of a suspended account may still send."""


async def test_no_form_of_a_suspended_account_starts_anything(filled: Filled) -> None:
    customer, browser, ids = filled.customer, filled.browser, filled.ids
    administration = customer.application.administration
    await administration.suspend_account(customer.account_id)
    before = await state_of(customer)
    for page in (each for each in PAGES if each.method == "POST" and each.path not in GOES_ON):
        answer = await browser.post(path_of(page.path, ids), **FIELDS | {"form_key": uuid4().hex})
        assert answer.status_code in (409, 422), page.path
        assert "The account is suspended." in html.unescape(answer.text), page.path
    assert await state_of(customer) == before
    await administration.resume_account(customer.account_id)


async def test_without_a_session_every_page_leads_to_the_sign_in(visitors: Visitors) -> None:
    stranger = visitors.stranger()
    pages = [(page.method, page.path) for page in PAGES]
    for method, route in pages + [(page.method, page.path) for page in CONSOLE_PAGES]:
        path = re.sub(r"\{\w+\}", str(uuid4()), route)
        answer = await stranger.http.request(method, path, headers={"Origin": BASE_URL})
        assert answer.status_code == 303, f"{method} {route}"
        root = root_of(path)
        assert answer.headers["location"].startswith(f"{root}/sign-in?next={root}"), f"{method} {route}"


async def test_a_session_is_nothing_where_a_token_is_asked_for(visitors: Visitors) -> None:
    operator = await visitors.operator()
    for path in BY_TOKEN:
        answer = await operator.post(path, **FIELDS)
        assert (answer.status_code, answer.headers["cache-control"]) == (401, "no-store"), path


async def form_token(browser: Browser) -> str:
    found = TOKEN.search((await browser.get(browser.home)).text)
    assert found is not None
    return found[1]


async def test_a_token_of_one_session_is_none_of_another(customer: Customer, visitors: Visitors) -> None:
    one, other = [await visitors.member(customer.account_id) for _ in range(2)]
    sent = {"low_threshold": "7", "form_token": await form_token(other)}
    answer = await one.http.post("/dashboard/settings/threshold", data=sent, headers={"Origin": BASE_URL})
    assert answer.status_code == 403


AFTER = "__Host-meetcore-after"
ELSEWHERE = (
    "https://evil.example", "//evil.example", "/\\evil.example", "/dashboardx", "/console", "",
    "/dashboard/\r\nSet-Cookie: a=b", "/dashboard/" + "a" * 2000,
)  # fmt: skip
"""One of each class; `tests/unit/adapters/web/test_same_origin.py` has the others."""


@pytest.mark.parametrize("after", ELSEWHERE)
async def test_no_parameter_leads_elsewhere(after: str, customer: Customer, visitors: Visitors) -> None:
    signed_in, stranger = await visitors.member(customer.account_id), visitors.stranger()
    asked = await signed_in.get(f"/dashboard/sign-in?next={quote(after)}")
    switched = await signed_in.post("/dashboard/language", language="en", next=after)
    link = await visitors.application.access.portal_links.for_guest(customer.account_id)
    path = link.url.removeprefix(BASE_URL)
    token = TOKEN.search((await stranger.get(path)).text)
    assert token is not None
    # As a cookie that a page of another name of this site planted.
    cookies = [f"{name}={value}" for name, value in stranger.http.cookies.items()]
    planted = "; ".join([*cookies, f"{AFTER}={quote(after)}"])
    entered = await stranger.http.post(
        path, data={"form_token": token[1]}, headers={"Origin": BASE_URL, "Cookie": planted}
    )
    for answer in (asked, switched, entered):
        assert answer.status_code == 303
        leads_to = urlsplit(urljoin(f"{BASE_URL}/dashboard/sign-in", answer.headers["location"]))
        assert f"{leads_to.scheme}://{leads_to.netloc}" == BASE_URL
        assert f"{leads_to.path}/".startswith("/dashboard/")
        assert "console" not in leads_to.path
        assert "set-cookie" not in answer.headers or "a=b" not in answer.headers["set-cookie"]


async def test_a_mailed_link_leads_nowhere_else_either(visitors: Visitors) -> None:
    for after in (ELSEWHERE[0], "/dashboard/keys"):
        sent = await visitors.stranger().post("/dashboard/sign-in", email="someone@example.com", next=after)
        kept = "/dashboard" if after == ELSEWHERE[0] else after
        assert f"{AFTER}={kept};" in sent.headers["set-cookie"].replace('"', "")


async def test_what_leads_on_within_the_dashboard_does(customer: Customer, visitors: Visitors) -> None:
    browser, path = await visitors.member(customer.account_id), "/dashboard/meetings?status=ended"
    assert (await browser.get(f"/dashboard/sign-in?next={quote(path)}")).headers["location"] == path


def check_headers(answer: httpx.Response) -> None:
    """Check what keeps an answer from being framed, sniffed, cached or scripted."""
    where, headers = f"{answer.request.method} {answer.request.url.path}", answer.headers
    policy = {name: values for name, *values in map(str.split, headers["content-security-policy"].split(";"))}
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == ["'none'"], where
    assert policy["script-src"] == policy["style-src"] == ["'self'"], where
    assert policy["form-action"] == ["'self'"], where
    assert headers["x-frame-options"] == "DENY", where
    assert headers["x-content-type-options"] == "nosniff", where
    assert headers["cache-control"] == "no-store", where
    assert headers["referrer-policy"] == "same-origin", where
    assert headers["cross-origin-opener-policy"] == "same-origin", where


async def test_no_answer_can_be_framed_cached_or_sniffed(filled: Filled, visitors: Visitors) -> None:
    for home, browser in (("/dashboard", filled.browser), ("/console", await visitors.operator())):
        stranger = visitors.stranger(f"{home}/sign-in")
        for route in visitors.routes():
            if root_of(route.path) != home or "/assets/" in route.path:
                continue
            path = path_of(route.path, filled.ids)
            if "GET" in (route.methods or ()):
                for each in (browser, stranger):
                    check_headers(await each.get(path))
                check_headers(await browser.get(re.sub(r"\{\w+\}", "nothing", route.path)))
            else:
                check_headers(await stranger.http.post(path))


async def test_no_page_is_framed_by_a_page_of_ours_either(customer: Customer, visitors: Visitors) -> None:
    text = (await (await visitors.member(customer.account_id)).get("/dashboard")).text
    assert not re.search(r"<(iframe|object|embed|base)\b", text)


@pytest.mark.parametrize("area", SESSIONS)
async def test_a_session_that_was_planted_is_never_taken(
    area: str, customer: Customer, visitors: Visitors
) -> None:
    """Session fixation: the token of a session is made at the sign-in, and never one that was there."""
    links = customer.application.access.portal_links
    if area == "/dashboard":
        url = (await links.for_guest(customer.account_id)).url
    else:
        operator = await customer.application.access.operators.add(
            f"{uuid4().hex}@example.com", OperatorRole.SUPPORT
        )
        url = (await links.for_operator(operator.id)).url
    planted, browser = "P" * 43, visitors.stranger(f"{area}/sign-in")
    browser.http.cookies.set(SESSIONS[area], planted, domain="meetcore.test")
    path = url.removeprefix(BASE_URL)
    entered = await browser.post(path, page=path)
    assert entered.status_code == 303
    assert entered.cookies[SESSIONS[area]] != planted
    attacker = visitors.stranger()
    attacker.http.cookies.set(SESSIONS[area], planted, domain="meetcore.test")
    assert "/sign-in" in (await attacker.get(area)).headers["location"]


@pytest.fixture
async def few_pages(service_settings: Settings, names: Names) -> AsyncIterator[MailedService]:
    async with mailed_service(evolve(service_settings, quota_page=6), names) as site:
        yield site


async def test_a_session_has_a_quota_of_pages_and_others_have_theirs(
    few_pages: MailedService, customer: Customer
) -> None:
    links, browsers = customer.application.access.portal_links, []
    for _ in range(2):
        browsers.append(await few_pages.browser())
        path = (await links.for_guest(customer.account_id)).url.removeprefix(BASE_URL)
        assert (await browsers[-1].post(path, page=path)).status_code == 303
    answers = [await browsers[0].get("/dashboard/ledger") for _ in range(14)]
    assert [answer.status_code for answer in answers].count(429) >= 2, "at most two windows of six"
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert_contains(refused.text, "Too many requests", "Wait a moment")
    assert (await browsers[1].get("/dashboard/ledger")).status_code == 200
    assert (await browsers[0].get("/dashboard/sign-in?reason=fresh")).status_code == 200


async def test_a_form_that_cannot_be_read_is_refused(visitors: Visitors, customer: Customer) -> None:
    browser = await visitors.member(customer.account_id)
    bodies = {b"\xff": 403, b"a=&" * 2001: 403, b"a" * (64 * 1024 + 1): 413}
    for path in (
        "/dashboard/language",
        "/dashboard/sign-out",
        "/dashboard/sign-in",
        "/dashboard/settings/name",
    ):
        for body, status in bodies.items():
            answer = await browser.http.post(path, content=body, headers={"Origin": BASE_URL})
            assert answer.status_code == status, path


@pytest.mark.parametrize("path", ["/dashboard/sign-in", "/dashboard/language", "/console/portal-links"])
async def test_a_client_that_leaves_while_it_sends_is_no_fault(visitors: Visitors, path: str) -> None:
    token = await visitors.application.access.operator_tokens.create(OperatorRole.ADMIN, "tests", 1)
    headers = {
        "origin": BASE_URL,
        "content-type": "application/json",
        "authorization": f"Bearer {token.text}",
    }
    scope = {
        "type": "http", "method": "POST", "path": path, "query_string": b"", "client": None, "server": None,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()], "scheme": "https",
        "http_version": "1.1",
    }  # fmt: skip
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        statuses.append(message.get("status", 0))

    await visitors.service(scope, receive, send)
    assert statuses[0] in (400, 403)
