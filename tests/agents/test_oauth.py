"""Grants of agents by OAuth at a real service: the way through, and attacks on each of its steps."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from starlette.applications import Starlette

from meetcore.adapters.api.http_common import RequestLimits
from meetcore.adapters.mcp.oauth_routes import oauth_routes
from meetcore.domain.members.members import Membership, User
from meetcore.domain.members.roles import Role
from meetcore.domain.requests.keys import KEYS_PER_ACCOUNT
from meetcore.ports.store import StoreUnavailable
from tests.agents.clients import Agent, line_to
from tests.agents.oauth import BOOKING, CALLBACK, RESOURCE, Program, allow, answered
from tests.support.api_harness import BASE_URL, ApiHarness, Customer, rebuilt
from tests.support.pages import Browser
from tests.support.texts import assert_contains
from tests.support.visitors import Visitors


@pytest.fixture
async def owner(visitors: Visitors, customer: Customer) -> Browser:
    return await visitors.member(customer.account_id)


@pytest.fixture
async def program(no_attempts: None, line: httpx.AsyncClient) -> Program:
    program = Program(line)
    assert (await program.register()).status_code == 201
    return program


async def works(line: httpx.AsyncClient, token: str) -> bool:
    """Return whether a token is accepted; 401 is the only other answer."""
    answer = await Agent(line, token).ask("tools/list")
    assert answer.status_code in (200, 401), answer.text
    return answer.status_code == 200


async def audit(harness: ApiHarness, customer: Customer) -> list[str]:
    rows = await harness.query(
        "SELECT action FROM audit_log WHERE account_id = %s AND action LIKE 'grant.%%' ORDER BY id",
        customer.account_id,
    )
    return [row["action"] for row in rows]


def refused(answer: httpx.Response, error: str, status: int = 400) -> None:
    assert (answer.status_code, answer.json()["error"]) == (status, error), answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    assert "Location" not in answer.headers


# The documents


async def test_the_documents_lead_from_the_address_to_the_endpoints(line: httpx.AsyncClient) -> None:
    for path in ("", "/mcp"):
        resource = (await line.get(f"/.well-known/oauth-protected-resource{path}")).json()
        assert resource["resource"] == RESOURCE
        assert resource["authorization_servers"] == [BASE_URL]
        server = (await line.get(f"/.well-known/oauth-authorization-server{path}")).json()
        assert server["issuer"] == BASE_URL
        assert server["authorization_endpoint"] == f"{BASE_URL}/oauth/authorize"
        assert server["code_challenge_methods_supported"] == ["S256"]
        assert server["token_endpoint_auth_methods_supported"] == ["none"]
        assert server["client_id_metadata_document_supported"] is True
        assert server["authorization_response_iss_parameter_supported"] is True


# The way through


async def test_a_member_connects_a_program_that_books_within_its_cap(
    harness: ApiHarness, line: httpx.AsyncClient, program: Program, owner: Browser, customer: Customer
) -> None:
    path = await program.question()
    page = await owner.get(path)
    assert "<strong>agent.example</strong>" in page.text
    assert "<strong>Agent of a test</strong>" in page.text
    back = answered(await allow(owner, path, daily_cap="20"))
    assert (back["state"], back["iss"]) == ("s t&=1", BASE_URL)
    answer = await program.exchange(back["code"])
    tokens = answer.json()
    assert (tokens["token_type"], tokens["expires_in"]) == ("Bearer", 3600)
    assert tokens["scope"] == "meetings:read meetings:write"
    assert answer.headers["Cache-Control"] == "no-store"

    agent = Agent(line, tokens["access_token"])
    assert "create_meeting" in await agent.tools()
    body = harness.body(auto_notulen=True)
    assert not (await agent.call("create_meeting", **body, idempotency_key="first")).is_error
    beyond = await agent.call("create_meeting", **body, idempotency_key="second")
    assert beyond.error["code"] == "credit_cap_exceeded"
    [key] = await harness.query("SELECT * FROM api_keys WHERE client_id = %s", program.client_id)
    assert key["name"] == "Agent of a test"
    assert key["daily_cap"] == 20
    assert tokens["access_token"] not in str(key)
    shown = (await owner.get("/dashboard/keys")).text
    assert "Agent of a test" in shown
    assert f"/dashboard/keys/{key['id']}/roll" not in shown
    assert await audit(harness, customer) == ["grant.given"]


async def test_a_revoked_grant_is_refused_and_refreshes_nothing(
    harness: ApiHarness, line: httpx.AsyncClient, program: Program, owner: Browser, customer: Customer
) -> None:
    tokens = await program.connect(owner)
    [key] = await harness.query("SELECT id FROM api_keys WHERE client_id = %s", program.client_id)
    assert await works(line, tokens["access_token"])
    path = f"/dashboard/keys/{key['id']}/revoke"
    assert "Revoke the access now" in (await owner.get("/dashboard/keys")).text
    asked = (await owner.post(path, "/dashboard/keys")).text
    assert_contains(
        asked, "Revoke the access of Agent of a test?", "refused from its next call on", absent=["gap"]
    )
    done = await owner.post(path, "/dashboard/keys", confirmed="yes")
    assert "The access is revoked." in (await owner.get(done.headers["location"])).text
    answer = await Agent(line, tokens["access_token"]).ask("tools/list")
    message = "The access was revoked or has ended. Connect the program again."
    assert (answer.status_code, answer.json()["error"]["message"]) == (401, message)
    refused(await program.refresh(tokens["refresh_token"]), "invalid_grant")
    assert await audit(harness, customer) == ["grant.given", "grant.revoked"]


async def test_a_refreshed_token_replaces_the_earlier_one(
    line: httpx.AsyncClient, program: Program, owner: Browser
) -> None:
    tokens = await program.connect(owner)
    again = (await program.refresh(tokens["refresh_token"])).json()
    assert not await works(line, tokens["access_token"])
    assert await works(line, again["access_token"])
    refused(await program.refresh(again["refresh_token"], scope="meetings:read"), "invalid_scope")
    assert (await program.refresh(again["refresh_token"])).status_code == 200


async def test_a_refusal_reaches_the_program_and_leaves_nothing(
    harness: ApiHarness, program: Program, owner: Browser, customer: Customer
) -> None:
    path = await program.question()
    back = answered(await owner.post(path, path, answer="refuse"))
    assert back == {"error": "access_denied", "state": "s t&=1", "iss": BASE_URL}
    assert (await owner.get(path)).status_code == 404
    assert await harness.query("SELECT id FROM api_keys WHERE client_id = %s", program.client_id) == []
    assert await audit(harness, customer) == ["grant.refused"]


async def test_a_tool_beyond_the_grant_names_the_scope_to_ask_for(
    line: httpx.AsyncClient, program: Program, owner: Browser
) -> None:
    tokens = await program.connect(owner)
    answer = await Agent(line, tokens["access_token"]).ask("tools/call", name="list_notes", arguments={})
    assert answer.status_code == 403
    challenge = answer.headers["WWW-Authenticate"]
    assert 'error="insufficient_scope", scope="notulen:read", resource_metadata="https://' in challenge


async def test_a_stranger_signs_in_first_and_comes_back(program: Program, visitors: Visitors) -> None:
    path = await program.question()
    answer = await visitors.stranger().get(path)
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/dashboard/sign-in?next={path}")


async def test_a_form_with_errors_is_shown_again_with_what_was_chosen(
    program: Program, owner: Browser
) -> None:
    path = await program.question()
    page = await owner.post(path, path, **{"answer": "allow", "daily_cap": "x", "scope:credits:read": "on"})
    assert page.status_code == 422
    assert 'name="scope:credits:read" checked' in page.text
    assert (await owner.post(path, path, answer="allow")).status_code == 422
    assert (await allow(owner, path, expires_in_days="0")).status_code == 303


# Attacks


@pytest.mark.parametrize(
    "uri", ["https://evil.example/callback", f"{CALLBACK}/x", "javascript:alert(1)", None]
)
async def test_a_foreign_redirect_uri_is_answered_here(program: Program, uri: str | None) -> None:
    refused(await program.authorize(redirect_uri=uri), "invalid_request")


@pytest.mark.parametrize("uri", ["http://agent.example/callback", "javascript:alert(1)", "agent:/cb"])
async def test_an_unsafe_redirect_uri_cannot_be_registered(program: Program, uri: str) -> None:
    answer = await program.register(redirect_uris=[CALLBACK, uri])
    assert answer.status_code == 400
    assert answer.json()["error"] in ("invalid_redirect_uri", "invalid_client_metadata")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"resource": f"{BASE_URL}/api/v1"}, "invalid_target"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"client_id": "unknown"}, "invalid_request"),
        ({"state": "x" * 2001}, "invalid_request"),
        ({"state": "\0"}, "invalid_request"),
        ({"client_id": "\0"}, "invalid_request"),
    ],
)
async def test_a_wrong_request_reaches_no_page_and_no_program(
    program: Program, changes: dict[str, str | None], error: str
) -> None:
    refused(await program.authorize(**changes), error)


async def test_a_code_needs_its_verifier_client_address_and_resource(
    program: Program, owner: Browser, line: httpx.AsyncClient
) -> None:
    code = await program.code(owner)
    other = Program(line)
    await other.register()
    refused(await program.exchange(code, code_verifier="x" * 43), "invalid_grant")
    refused(await program.exchange(code, code_verifier=None), "invalid_request")
    refused(await program.exchange(code, client_id=other.client_id), "invalid_grant")
    refused(await program.exchange(code, client_id="unknown"), "invalid_client", 401)
    refused(await program.exchange(code, redirect_uri=f"{CALLBACK}/x"), "invalid_request")
    refused(await program.exchange(code, resource=f"{BASE_URL}/api/v1"), "invalid_target")
    assert (await program.exchange(code)).status_code == 200


async def test_a_code_that_comes_twice_ends_its_grant(
    harness: ApiHarness, line: httpx.AsyncClient, program: Program, owner: Browser, customer: Customer
) -> None:
    code = await program.code(owner)
    tokens = (await program.exchange(code)).json()
    refused(await program.exchange(code, code_verifier="x" * 43), "invalid_grant")
    assert not await works(line, tokens["access_token"])
    refused(await program.refresh(tokens["refresh_token"]), "invalid_grant")
    assert await audit(harness, customer) == ["grant.given", "grant.revoked"]


async def test_of_two_exchanges_at_once_neither_keeps_a_grant(
    line: httpx.AsyncClient, program: Program, owner: Browser
) -> None:
    code = await program.code(owner)
    answers = await asyncio.gather(*(program.exchange(code) for _ in range(2)))
    assert sorted(each.status_code for each in answers) == [200, 400]
    [tokens] = [each.json() for each in answers if each.status_code == 200]
    assert not await works(line, tokens["access_token"])


async def test_a_refresh_token_that_comes_twice_ends_its_grant(
    line: httpx.AsyncClient, program: Program, owner: Browser
) -> None:
    stolen = await program.connect(owner)
    fresh = (await program.refresh(stolen["refresh_token"])).json()
    refused(await program.refresh(stolen["refresh_token"]), "invalid_grant")
    assert not await works(line, fresh["access_token"])
    refused(await program.refresh(fresh["refresh_token"]), "invalid_grant")


async def test_a_refresh_token_of_another_program_does_nothing(
    line: httpx.AsyncClient, program: Program, owner: Browser
) -> None:
    tokens = await program.connect(owner)
    other = Program(line)
    await other.register()
    refused(await other.refresh(tokens["refresh_token"]), "invalid_grant")
    assert await works(line, tokens["access_token"])


async def test_tokens_open_the_agent_interface_alone(
    line: httpx.AsyncClient, program: Program, owner: Browser
) -> None:
    tokens = await program.connect(owner)
    for token in (tokens["access_token"], tokens["refresh_token"]):
        answer = await line.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401
    assert not await works(line, tokens["refresh_token"])


async def test_codes_and_tokens_expire(
    harness: ApiHarness, line: httpx.AsyncClient, program: Program, owner: Browser
) -> None:
    code = await program.code(owner)
    past = timedelta(seconds=1)
    await harness.query(
        "UPDATE oauth_authorizations SET expires_at = now() - %s WHERE client_id = %s RETURNING id",
        past, program.client_id,
    )  # fmt: skip
    refused(await program.exchange(code), "invalid_grant")
    tokens = await program.connect(owner)
    ended = "UPDATE api_keys SET {} = now() - %s WHERE client_id = %s RETURNING id"
    await harness.query(ended.format("token_expires_at"), past, program.client_id)
    assert not await works(line, tokens["access_token"])
    again = (await program.refresh(tokens["refresh_token"])).json()
    assert await works(line, again["access_token"])
    await harness.query(ended.format("expires_at"), past, program.client_id)
    assert not await works(line, again["access_token"])
    refused(await program.refresh(again["refresh_token"]), "invalid_grant")


async def test_a_suspended_account_gets_no_tokens_and_gives_no_grants(
    harness: ApiHarness, line: httpx.AsyncClient, program: Program, owner: Browser, customer: Customer
) -> None:
    tokens = await program.connect(owner)
    code, path = await program.code(owner), await program.question()
    await harness.administration.suspend_account(customer.account_id)
    assert not await works(line, tokens["access_token"])
    refused(await program.refresh(tokens["refresh_token"]), "invalid_grant")
    refused(await program.exchange(code), "invalid_grant")
    assert (await owner.get(path)).status_code == 409
    await harness.administration.resume_account(customer.account_id)
    again = await program.refresh(tokens["refresh_token"])
    assert again.status_code == 200, "a token that was refused was not used"
    assert await works(line, again.json()["access_token"])


async def test_an_account_with_all_its_keys_gives_no_grant_until_one_is_revoked(
    program: Program, owner: Browser, customer: Customer
) -> None:
    administration, path = customer.application.administration.keys, await program.question()
    made = [await administration.create(customer.account_id, ()) for _ in range(KEYS_PER_ACCOUNT - 1)]
    refused = await allow(owner, path)
    assert refused.status_code == 409
    assert "200 working API keys and connected programs" in refused.text
    await administration.revoke(made[0].key.id)
    assert (await program.exchange(answered(await allow(owner, path))["code"])).status_code == 200


@pytest.mark.parametrize("change", ["remove", "role"])
async def test_grants_end_where_who_gave_them_may_give_none(
    harness: ApiHarness, line: httpx.AsyncClient, program: Program, owner: Browser, customer: Customer,
    visitors: Visitors, change: str,
) -> None:  # fmt: skip
    now, email = harness.application.runtime.now(), f"{uuid4().hex}@example.com"
    async with harness.application.ports.store.begin() as tx:
        user = await tx.members.ensure_user(User(uuid4(), email, "A. Developer", now))
        await tx.members.add_membership(Membership(customer.account_id, user.id, Role.DEVELOPER, now))
    link = await harness.application.access.portal_links.for_member(customer.account_id, email)
    developer = await visitors.entered(link.url, "/dashboard")
    tokens, code, kept = await program.connect(developer), await program.code(developer), Program(line)
    await kept.register()
    others = await kept.connect(owner)
    path = f"/dashboard/team/{user.id}/{change}"
    assert (await owner.post(path, "/dashboard/team", confirmed="", role="viewer")).status_code == 303
    assert not await works(line, tokens["access_token"])
    refused(await program.refresh(tokens["refresh_token"]), "invalid_grant")
    refused(await program.exchange(code), "invalid_grant")
    assert await works(line, others["access_token"])
    assert (await audit(harness, customer)).count("grant.revoked") == 2


async def test_an_erased_account_keeps_no_grant(
    harness: ApiHarness, line: httpx.AsyncClient, program: Program, owner: Browser, customer: Customer
) -> None:
    tokens = await program.connect(owner)
    await harness.application.account_data.erase(customer.account_id)
    assert not await works(line, tokens["access_token"])
    for table in ("oauth_refresh_tokens", "oauth_authorizations"):
        left = f"SELECT key_id FROM {table} t JOIN api_keys k ON k.id = t.key_id WHERE k.account_id = %s"
        assert await harness.query(left, customer.account_id) == []


async def test_a_desktop_program_gets_its_code_under_its_own_scheme(
    line: httpx.AsyncClient, program: Program, owner: Browser
) -> None:
    """Cursor registers these three together; one that is refused would refuse all."""
    program.redirect_uri = "cursor://anysphere.cursor-mcp/oauth/callback"
    uris = [
        program.redirect_uri,
        "https://www.cursor.com/agents/mcp/oauth/callback",
        "http://localhost:8787/callback",
    ]
    answer = await program.register(redirect_uris=uris, client_name="Cursor")
    assert answer.json()["redirect_uris"] == uris
    path = await program.question()
    page = await owner.get(path)
    assert "<strong>cursor</strong>" in page.text
    assert "a program on your own computer" in page.text
    assert "form-action 'self' cursor:;" in page.headers["Content-Security-Policy"]
    sent = await allow(owner, path)
    tokens = (await program.exchange(answered(sent, program.redirect_uri)["code"])).json()
    assert await works(line, tokens["access_token"])


async def test_consent_is_given_by_our_form_in_our_page_alone(
    program: Program, owner: Browser, visitors: Visitors, customer: Customer
) -> None:
    path = await program.question()
    page = await owner.get(path)
    assert page.headers["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    assert "form-action 'self' https://agent.example;" in page.headers["Content-Security-Policy"]
    fields = BOOKING | {"answer": "allow"}
    forged = await owner.http.post(path, data=fields, headers={"Origin": "https://evil.example"})
    assert forged.status_code == 403
    untokened = await owner.http.post(path, data=fields, headers={"Origin": BASE_URL})
    assert untokened.status_code == 403
    for role in (Role.VIEWER, Role.FINANCE):
        guest = await visitors.member(customer.account_id, role)
        assert (await guest.get(path)).status_code == 403
        assert (await guest.post(path, "/dashboard", **fields)).status_code == 403
    assert (await allow(owner, path)).status_code == 303
    over = await owner.get(path)
    assert (over.status_code, "Connect the program again." in over.text) == (410, True)
    assert (await owner.post(path, "/dashboard", **fields)).status_code == 410


async def test_a_flood_of_registrations_is_stopped_and_leaves_nothing_for_long(
    harness: ApiHarness, program: Program
) -> None:
    answers = [await program.register() for _ in range(30)]
    assert [each.status_code for each in answers].count(201) == 29
    refused(answers[-1], "temporarily_unavailable", 429)
    assert int(answers[-1].headers["Retry-After"]) <= 300
    await harness.query("UPDATE oauth_clients SET created_at = created_at - interval '2 days' RETURNING id")
    await harness.application.grants.purge()
    assert await harness.query("SELECT id FROM oauth_clients WHERE used_at IS NULL") == []


async def test_bytes_that_are_no_text_are_refused_everywhere(
    program: Program, line: httpx.AsyncClient, owner: Browser
) -> None:
    code = await program.code(owner)
    refused(await program.exchange(code, client_id="\0"), "invalid_client", 401)
    refused(await program.exchange("\0"), "invalid_grant")
    refused(await program.exchange(code, code_verifier="\0"), "invalid_grant")
    refused(await program.refresh("\0"), "invalid_grant")
    refused(await line.post("/oauth/token", content=b"\xff\0"), "invalid_client", 401)
    assert (await program.register(client_name="\0\ud7ff", scope="\0", contacts=["\0"])).status_code == 201
    refused(
        await line.post("/oauth/register", content=b'{"client_name": "\\ud800"'), "invalid_client_metadata"
    )


async def test_a_store_that_is_away_is_no_fault_of_the_request(harness: ApiHarness, program: Program) -> None:
    await program.register()

    class Away:
        """The store as it is while the database does not answer."""

        def at_once(self) -> Any:
            raise StoreUnavailable("away")

    changed = rebuilt(harness.application, store=Away())
    app = Starlette(routes=oauth_routes(changed.grants, BASE_URL, RequestLimits()))
    async with line_to(app) as line:
        elsewhere = Program(line, program.client_id)
        refused(await elsewhere.authorize(), "temporarily_unavailable", 503)
        refused(await elsewhere.exchange("code"), "temporarily_unavailable", 503)
        refused(await elsewhere.register(), "temporarily_unavailable", 503)


async def test_what_is_past_its_time_is_forgotten_and_does_nothing(
    harness: ApiHarness, line: httpx.AsyncClient, program: Program, owner: Browser
) -> None:
    code = await program.code(owner)
    first = (await program.exchange(code)).json()
    second = (await program.refresh(first["refresh_token"])).json()
    await harness.query("UPDATE oauth_authorizations SET expires_at = expires_at - interval '2 days'")
    await harness.query("UPDATE oauth_refresh_tokens SET used_at = used_at - interval '8 days'")
    await harness.query("UPDATE oauth_clients SET created_at = created_at - interval '200 days'")
    await harness.query("UPDATE oauth_clients SET used_at = used_at - interval '200 days'")
    await harness.application.grants.purge()
    refused(await program.exchange(code), "invalid_grant")
    refused(await program.refresh(first["refresh_token"]), "invalid_grant")
    assert await works(line, second["access_token"])
    assert (await program.refresh(second["refresh_token"])).status_code == 200, "its client is kept for it"


async def test_what_is_no_registration_is_refused(program: Program, line: httpx.AsyncClient) -> None:
    refused(await line.post("/oauth/register", content=b"[]"), "invalid_client_metadata")
    refused(await line.post("/oauth/register", content=b"x" * 70_000), "invalid_request", 413)
    refused(await program.register(redirect_uris=[CALLBACK] * 11), "invalid_redirect_uri")
    answer = (await program.register(token_endpoint_auth_method="client_secret_basic")).json()
    assert answer["token_endpoint_auth_method"] == "none"
    assert "client_secret" not in answer
