"""The playground: requests that the dashboard sends to the API with a key that lasts an hour."""

from __future__ import annotations

import html
import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from starlette.applications import Starlette

from meetcore.adapters.api.operations import OPERATIONS
from meetcore.domain.members.roles import Role
from meetcore.domain.requests.keys import Scope
from tests.http.test_safe_forms import STALE
from tests.support.api_harness import Customer, rebuilt, until
from tests.support.pages import Browser, form_fields
from tests.support.texts import assert_contains
from tests.support.visitors import Visitors, web_routes

ROOT = "/dashboard/playground"
COOKIE = "__Secure-meetcore-playground"
KEY = re.compile(r"mk_live_[A-Za-z0-9_-]{43}")


async def send(browser: Browser, operation: str, **typed: str) -> httpx.Response:
    """Fill in the form of an operation and press its button."""
    page = await browser.get(f"{ROOT}/{operation}")
    action = re.findall(r'<form method="post" action="(/dashboard/playground/[^"]+)"', page.text)[0]
    fields = form_fields(page.text, action) | typed
    fields.pop("form_token")
    return await browser.post(action, page=f"{ROOT}/{operation}", **fields)


def answer_of(page: httpx.Response) -> Any:
    """Return the body of the answer that a page shows."""
    return json.loads(html.unescape(re.findall(r"<pre[^>]*>(.*?)</pre>", page.text, re.DOTALL)[0]))


async def keys_of(customer: Customer) -> list[dict[str, Any]]:
    return await customer.query(
        "SELECT id, name, scopes, created_at, expires_at, revoked_at, created_by FROM api_keys"
        " WHERE account_id = %s AND name = 'Playground' ORDER BY created_at",
        customer.account_id,
    )


@pytest.fixture
async def owner(customer: Customer, visitors: Visitors) -> Browser:
    return await visitors.member(customer.account_id)


async def test_the_first_request_makes_a_key_that_ends_within_the_hour(
    customer: Customer, owner: Browser
) -> None:
    page = await send(owner, "get_me")
    assert_contains(page.text, "Answer", ">200<", "X-RateLimit-Remaining", "curl -sS", "$MEETCORE_API_KEY")
    [key] = await keys_of(customer)
    assert answer_of(page)["api_key"]["id"] == str(key["id"])
    assert (key["expires_at"] - key["created_at"]).total_seconds() <= 3600
    [member] = await customer.application.ports.queries.list_members(customer.account_id)
    assert key["created_by"] == member.user.id
    assert "Playground" in (await owner.get("/dashboard/keys")).text
    log = await customer.application.ports.queries.list_audit_entries(customer.account_id, 10, None)
    assert ("key.created", str(key["id"])) in {(entry.action, entry.target_id) for entry in log}


async def test_the_text_of_the_key_is_in_a_cookie_of_the_playground_alone(owner: Browser) -> None:
    page = await send(owner, "get_me")
    cookie = page.headers["set-cookie"]
    [text] = KEY.findall(cookie)
    for attribute in ("HttpOnly", "SameSite=strict", "Secure", f"Path={ROOT}", "Max-Age=3600"):
        assert attribute in cookie
    again = await send(owner, "get_me")
    for seen in (page.text, again.text, (await owner.get("/dashboard/keys")).text):
        assert text[-20:] not in seen


async def test_further_requests_use_the_same_key(customer: Customer, owner: Browser) -> None:
    await send(owner, "get_me")
    page = await send(owner, "list_meetings", limit="1", status="scheduled")
    assert (answer_of(page)["data"], "limit=1&amp;status=scheduled" in page.text) == ([], True)
    assert len(await keys_of(customer)) == 1


async def test_a_meeting_is_made_once_for_each_idempotency_key(customer: Customer, owner: Browser) -> None:
    body = json.dumps(customer.body(title="Dicoba <b>"))
    made = await send(owner, "create_meeting", body=body, idempotency_key="order-1")
    meeting = answer_of(made)
    assert meeting["title"] == "Dicoba <b>"
    following = form_fields(made.text, f"{ROOT}/create_meeting")
    assert following["idempotency_key"] not in ("", "order-1"), "what is sent next is another intent"
    assert "<b>" not in made.text.partition('id="answer"')[2].partition("<form")[0]
    replayed = await send(owner, "create_meeting", body=body, idempotency_key="order-1")
    assert (answer_of(replayed)["id"], "Idempotent-Replayed" in replayed.text) == (meeting["id"], True)
    further = await owner.get(f"{ROOT}/get_meeting?id={meeting['id']}")
    assert f"{ROOT}/get_meeting?id={meeting['id']}" in made.text
    assert f'value="{meeting["id"]}"' in further.text
    assert answer_of(await send(owner, "cancel_meeting", id=meeting["id"]))["status"] == "cancelled"


async def test_a_request_is_refused_as_by_the_api_and_logged_like_any_other(
    customer: Customer, owner: Browser
) -> None:
    page = await send(owner, "create_meeting", body='{"titel": "x"')
    error = answer_of(page)["error"]
    assert (error["code"], ">400<" in page.text) == ("invalid_request", True)
    logged = f"/dashboard/requests/{error['request_id']}"

    async def is_there() -> bool:
        return (await owner.get(logged)).status_code == 200

    await until(is_there)
    assert_contains((await owner.get(logged)).text, "POST /meetings", "Playground")
    assert f"/dashboard/requests/{error['request_id']}" in page.text


async def test_a_request_without_a_final_answer_keeps_its_idempotency_key(
    customer: Customer, owner: Browser
) -> None:
    failing = json.dumps(customer.body(title="[sandbox:refuse]"))
    page = await send(owner, "create_meeting", body=failing, idempotency_key="order-2")
    assert answer_of(page)["error"]["code"] == "upstream_error"
    assert form_fields(page.text, f"{ROOT}/create_meeting")["idempotency_key"] == "order-2"


@pytest.mark.parametrize("typed", ["", " ", "a/deliveries", "../meetings"])
async def test_an_id_leads_to_no_other_operation(customer: Customer, owner: Browser, typed: str) -> None:
    for _ in range(2):  # without a key and with one
        page = await send(owner, "get_webhook", id=typed)
        assert page.status_code == 422
        assert_contains(page.text, "Write an id.", absent=['id="answer"'])
        await send(owner, "get_me")
    assert (await owner.get(f"{ROOT}/no_operation")).status_code == 404


async def test_a_member_has_one_key_at_a_time(customer: Customer, owner: Browser, visitors: Visitors) -> None:
    await send(owner, "get_me")
    elsewhere = await visitors.member(customer.account_id)
    await send(elsewhere, "get_me")
    first, second = await keys_of(customer)
    assert (first["revoked_at"] is None, second["revoked_at"]) == (False, None)
    page = await owner.get(f"{ROOT}/get_me")
    assert "Make a key and send" in page.text
    lost = await owner.post(f"{ROOT}/get_me", page=f"{ROOT}/get_me")
    assert_contains(lost.text, "The key of the playground has ended", absent=['id="answer"'])


async def test_the_key_of_another_member_is_not_used(
    customer: Customer, owner: Browser, visitors: Visitors
) -> None:
    await send(owner, "get_me")
    guest = await visitors.member(customer.account_id, Role.DEVELOPER)
    guest.http.cookies.set(COOKIE, owner.http.cookies[COOKIE], domain="meetcore.test", path=ROOT)
    assert "Make a key and send" in (await guest.get(f"{ROOT}/get_me")).text
    stranger = await customer.harness.customer()
    other = await visitors.member(stranger.account_id)
    other.http.cookies.set(COOKIE, owner.http.cookies[COOKIE], domain="meetcore.test", path=ROOT)
    assert "has ended" in (await other.post(f"{ROOT}/get_me", page=f"{ROOT}/get_me")).text


async def test_making_a_key_asks_for_a_fresh_sign_in_and_keeps_what_was_typed(
    customer: Customer, owner: Browser
) -> None:
    await customer.query(STALE)
    sent = await send(owner, "get_meeting", id="typed-before")
    back = parse_qs(urlsplit(sent.headers["location"]).query)
    assert back == {"next": [f"{ROOT}/get_meeting"], "reason": ["fresh"]}
    assert await keys_of(customer) == []
    await customer.query("UPDATE sessions SET authenticated_at = now()")
    assert 'value="typed-before"' in (await owner.get(f"{ROOT}/get_meeting")).text
    await send(owner, "get_me")
    await customer.query(STALE)
    assert 'id="answer"' in (await send(owner, "get_me")).text, "the key is there"


@pytest.mark.parametrize("role", [Role.OWNER, Role.DEVELOPER])
async def test_a_key_may_do_what_its_member_may(customer: Customer, visitors: Visitors, role: Role) -> None:
    browser = await visitors.member(customer.account_id, role)
    await send(browser, "get_me")
    [key] = await keys_of(customer)
    lacking = set(Scope) - set(key["scopes"])
    assert lacking == (set() if role is Role.OWNER else {Scope.CREDITS_WRITE})
    listed = set(re.findall(rf'"{ROOT}/(\w+)"', (await browser.get(ROOT)).text))
    assert {one.name for one in OPERATIONS} - listed == (set() if role is Role.OWNER else {"start_topup"})


async def test_with_a_real_provider_a_key_only_reads(customer: Customer) -> None:
    application = rebuilt(customer.application, is_sandbox=False)
    visitors = Visitors(Starlette(routes=list(web_routes(application))), application)  # type: ignore[arg-type]
    browser = await visitors.member(customer.account_id)
    listed = set(re.findall(rf'"{ROOT}/(\w+)"', (await browser.get(ROOT)).text))
    assert {one.name for one in OPERATIONS if not one.is_mutating} == listed
    page = await browser.get(f"{ROOT}/create_meeting")
    assert_contains(page.text, "may not call this here", "Meetings here are real")
    before = await customer.balance()
    refused = await send(browser, "create_meeting", body=json.dumps(customer.body()))
    assert answer_of(refused)["error"]["code"] == "insufficient_scope"
    assert await customer.balance() == before
    estimate = await send(browser, "estimate_credits")
    assert answer_of(estimate)["sufficient"] is True
    for each in visitors.opened:
        await each.aclose()


async def test_the_pages_that_lead_there(owner: Browser, http: httpx.AsyncClient) -> None:
    assert f'href="{ROOT}"' in (await owner.get("/dashboard/keys")).text
    reference = await http.get("https://meetcore.test/docs/api/create_meeting")
    assert 'href="../../dashboard/playground/create_meeting"' in reference.text
