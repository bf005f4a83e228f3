"""Authentication and rate limits at `/mcp`, and their refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from attrs import evolve

from meetcore.adapters.api.operations import OPERATIONS
from meetcore.adapters.mcp.tools import FOR_BOOKING
from meetcore.app import Service
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import Quotas
from meetcore.testing.clock import ManualClock
from tests.agents.clients import ERAS, Agent, ToolResult, line_to, mcp_on
from tests.support.api_harness import BASE_URL, ApiHarness, Customer, settings_for
from tests.support.relay import relay_to

CHALLENGE = (
    'scope="meetings:read meetings:write notulen:read notulen:write recordings:read", '
    'resource_metadata="https://meetcore.test/.well-known/oauth-protected-resource/mcp"'
)
READ, TOOL = 3, 2
WAIT = {"window_seconds": 60, "retry_after_seconds": 50}


@asynccontextmanager
async def strict(harness: ApiHarness) -> AsyncIterator[Agent]:
    """An agent of an application with small quotas, on a clock stopped at second 10 of a minute."""
    minute = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=5)
    clock = ManualClock(minute + timedelta(seconds=10))
    key = (await harness.customer()).key.text
    async with mcp_on(harness.application, quotas=Quotas(read=READ, tool=TOOL), clock=clock) as line:
        yield Agent(line, key)


def remaining(answer: httpx.Response) -> tuple[str, int]:
    """Return the counted class, and the rest of its quota."""
    counted = answer.headers["RateLimit-Policy"].split(";")[0].strip('"')
    return counted, int(answer.headers["X-RateLimit-Remaining"])


def refusal_of(answer: httpx.Response) -> dict[str, Any]:
    """Return the error of spec 7 of a request that no tool answers."""
    body = answer.json()
    assert body["jsonrpc"] == "2.0"
    error = dict(body["error"]["data"])
    assert body["error"]["message"] == error["message"]
    assert error["request_id"] == answer.headers["X-Request-Id"]
    assert error.keys() == {"code", "message", "docs_url", "request_id", "details"}
    return error


@pytest.mark.spec("5/1", "5/3", "7/401", "7/envelope")
@pytest.mark.parametrize("method", ["initialize", "tools/call"])
@pytest.mark.parametrize("key", [None, "mk_live_short", f"mk_live_{'x' * 43}"])
async def test_without_a_valid_key_nothing_is_returned(
    line: httpx.AsyncClient, era: str, method: str, key: str | None
) -> None:
    answer = await Agent(line, key, era).ask(method, name="get_me", arguments={})
    error = "" if key is None else 'error="invalid_token", '
    challenge = f'Bearer realm="meetcore", {error}{CHALLENGE}'
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, challenge)
    assert refusal_of(answer)["code"] == "invalid_api_key"


async def test_the_instructions_are_sent_on_initialize(agent: Agent) -> None:
    answer = await agent.greet()
    result = answer.json()["result"]
    assert "tools" in result["capabilities"]
    assert "estimate_credits" in result["instructions"]
    assert "idempotency_key" in result["instructions"]


@pytest.mark.spec("1/op/agent-tools", "5/5", "7/403")
@pytest.mark.parametrize("scope", list(Scope))
async def test_a_tool_is_listed_to_those_who_may_call_it(
    harness: ApiHarness, line: httpx.AsyncClient, era: str, scope: Scope
) -> None:
    few = await harness.customer(scopes=[scope])
    agent = Agent(line, few.key.text, era)
    listed = await agent.tools()
    assert listed.keys() == {each.name for each in OPERATIONS if not each.scopes or scope in each.scopes}
    hidden = next(each for each in OPERATIONS if each.scopes and scope not in each.scopes)
    refused = await agent.call(hidden.name)
    assert refused.error["code"] == "insufficient_scope"
    assert refused.error["details"] == {"required": [each.value for each in hidden.scopes]}


@pytest.mark.spec("1/op/agent-tools", "8/3", "8/6")
async def test_a_tool_call_counts_as_one_and_as_nothing_else(harness: ApiHarness) -> None:
    async with strict(harness) as agent:
        assert remaining((await agent.call("get_me")).http) == ("tool", TOOL - 1)
        assert remaining(await agent.ask("tools/list")) == ("read", READ - 1)
        made = await agent.call("create_meeting", **harness.body(), idempotency_key="one")
        assert made.value["status"] == "scheduled"
        assert remaining(made.http) == ("tool", TOOL - 2)
        assert remaining(await agent.ask("tools/list")) == ("read", READ - 2)


@pytest.mark.spec("1/op/agent-tools", "8/4", "8/5", "8/7", "7/429")
async def test_beyond_the_quota_the_tool_returns_how_long_to_wait(harness: ApiHarness, era: str) -> None:
    async with strict(harness) as anyone:
        agent = evolve(anyone, era=era)
        for _ in range(TOOL):
            assert not (await agent.call("list_pricing_tiers")).is_error
        body = harness.body(title="Beyond the quota")
        for _ in range(2):
            refused = await agent.call("create_meeting", **body, idempotency_key="late")
            assert refused.http.headers["X-RateLimit-Remaining"] == "0"
            assert refused.http.headers["X-RateLimit-Limit"] == str(TOOL)
            assert refused.error["code"] == "rate_limited"
            assert refused.error["details"] == WAIT | {"limit": TOOL}
        assert (await agent.ask("tools/list")).status_code == 200  # its own quota is whole
    rows = await harness.query("SELECT count(*) AS found FROM meetings WHERE title = %s", body["title"])
    assert rows[0]["found"] == 0


@pytest.mark.spec("8/6")
async def test_any_other_request_counts_as_a_read(harness: ApiHarness, era: str) -> None:
    async with strict(harness) as anyone:
        agent = evolve(anyone, era=era)
        left = [
            remaining(await agent.greet()),
            remaining(await agent.post({"jsonrpc": "2.0", "method": "notifications/initialized"})),
            remaining(await agent.ask("tools/list")),
        ]
        assert left == [("read", READ - 1 - spent) for spent in range(READ)]
        refused = await agent.ask("tools/list")
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "50")
        assert refusal_of(refused)["details"] == WAIT | {"limit": READ}
        assert not (await agent.call("get_me")).is_error


async def test_the_origin_of_a_request_is_checked(agent: Agent) -> None:
    for origin, status in (
        (BASE_URL, 200), (BASE_URL.upper(), 200), ("https://evil.test", 403),
        (f"{BASE_URL}.evil.test", 403), ("null", 403),
    ):  # fmt: skip
        answer = await evolve(agent, origin=origin).ask("tools/list")
        assert answer.status_code == status, origin
        if status != 200:
            assert refusal_of(answer)["details"]["fields"].keys() == {"Origin"}, origin


async def test_only_post_is_known(agent: Agent) -> None:
    for method in ("GET", "DELETE", "PUT"):
        answer = await agent.line.request(method, "/mcp", headers=agent.headers())
        assert (answer.status_code, answer.headers["Allow"]) == (405, "POST"), method
        assert refusal_of(answer)["code"] == "invalid_request", method


async def test_a_malformed_message_is_refused_before_the_protocol(agent: Agent) -> None:
    for content, media, status in (
        (b"[]", "application/json", 400),
        (b'[{"jsonrpc":"2.0","id":1,"method":"tools/call"}]', "application/json", 400),
        (b"no json", "application/json", 400),
        (b"{}", "text/plain", 415),
        (b'{"a":"' + b"x" * 65_536 + b'"}', "application/json", 413),
    ):
        headers = agent.headers() | {"Content-Type": media}
        answer = await agent.line.post("/mcp", content=content, headers=headers)
        assert answer.status_code == status, content
        assert refusal_of(answer)["code"] == "invalid_request", content
        assert remaining(answer)[0] == "read", content


async def test_an_unknown_message_is_an_error_of_the_protocol(agent: Agent) -> None:
    cases: tuple[dict[str, Any], ...] = (
        {},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 7}},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_me", "arguments": [1]}},
        {"jsonrpc": "2.0", "id": 1, "method": "prompts/list"},
        {"jsonrpc": "1.0", "id": 1, "method": 5, "params": "x"},
        {"id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": None, "method": "ping"},
        {"jsonrpc": "2.0", "id": True, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "result": 5},
        {"jsonrpc": "2.0", "id": 1, "error": []},
    )
    for message in cases:
        answer = await agent.post(message)
        assert 200 <= answer.status_code < 500, message
        error = answer.json()["error"]
        assert isinstance(error["code"], int), message
        assert "pydantic" not in answer.text, message
        assert "validation error" not in answer.text, message
        if message.get("method") != "prompts/list":
            fields = refusal_of(answer)["details"]["fields"]
            assert fields, message
            assert all(
                name.split(".")[0] in ("jsonrpc", "id", "method", "params", "result", "error")
                for name in fields
            ), message
            known = message.get("id") if type(message.get("id")) is int else None
            assert answer.json()["id"] == known, message


@pytest.mark.spec("5/1", "7/401")
@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
async def test_two_authorization_headers_are_none(agent: Agent, method: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "get_me", "arguments": {}}}
    headers = [*agent.headers().items(), ("Authorization", f"Bearer {agent.key}")]
    answer = await agent.line.post("/mcp", json=message, headers=headers)
    assert (answer.status_code, refusal_of(answer)["code"]) == (401, "invalid_api_key")


async def test_an_answer_to_nothing_is_accepted(line: httpx.AsyncClient, customer: Customer) -> None:
    agent = Agent(line, customer.key.text)
    assert (await agent.post({"jsonrpc": "2.0", "id": 1, "result": {}})).status_code == 202


async def test_any_client_is_answered_with_json(line: httpx.AsyncClient, customer: Customer) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = Agent(line, customer.key.text).headers()
    for accept in (None, "", "text/html", "text/event-stream", "application/json"):
        request = line.build_request("POST", "/mcp", json=message, headers=headers)
        del request.headers["Accept"]
        if accept is not None:
            request.headers["Accept"] = accept
        answer = await line.send(request)
        assert (answer.status_code, answer.json()["result"]) == (200, {}), accept
        assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("asked", "spoken"),
    [
        ("2024-11-05", "2024-11-05"), ("2025-03-26", "2025-06-18"), ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"), ("2031-01-01", "2025-11-25"),
    ],
)  # fmt: skip
async def test_a_revision_is_agreed_on_that_is_spoken(
    line: httpx.AsyncClient, customer: Customer, asked: str, spoken: str
) -> None:
    """Only 2025-03-26 obliges a server to take batches."""
    params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    answer = await Agent(line, customer.key.text).ask("initialize", **params)
    assert answer.json()["result"]["protocolVersion"] == spoken


async def test_an_unknown_revision_is_refused(line: httpx.AsyncClient, customer: Customer) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    answer = await Agent(line, customer.key.text, "garbage").post(message)
    assert answer.status_code == 400
    [problem] = refusal_of(answer)["details"]["fields"]["MCP-Protocol-Version"]
    assert "2025-11-25" in problem


async def test_an_unknown_tool_is_reported_as_the_protocol_defines(agent: Agent) -> None:
    answer = await agent.ask("tools/call", name="drop_tables", arguments={})
    assert answer.json()["error"]["code"] == -32602
    assert remaining(answer)[0] == "tool"


async def test_every_answer_has_an_id_of_its_own(agent: Agent) -> None:
    answers: list[ToolResult] = [await agent.call("get_me") for _ in range(2)]
    ids = [answer.http.headers["X-Request-Id"] for answer in answers]
    assert [answer.meta["meetcore/request_id"] for answer in answers] == ids
    assert len(set(ids)) == 2
    assert answers[0].http.headers["Cache-Control"] == "no-store"


@pytest.mark.spec("7/503")
async def test_while_the_database_is_unavailable_the_tool_reports_it(
    migrated_url: str, harness: ApiHarness
) -> None:
    key = (await harness.customer()).key.text
    async with relay_to(migrated_url) as (_, url), line_to(Service(settings_for(url))) as line:
        agents = [Agent(line, key, era) for era in ERAS]  # together, as each waits for a connection
        calls = asyncio.gather(*(agent.call("get_me") for agent in agents))
        listings = asyncio.gather(*(agent.ask("tools/list") for agent in agents))
        for refused in await calls:
            assert refused.error["code"] == "service_unavailable"
            assert refused.error["details"] == {"retry_after_seconds": 5}
        for listing in await listings:
            assert (listing.status_code, listing.headers["Retry-After"]) == (503, "5")


async def test_switched_off_the_path_does_not_exist(migrated_url: str, harness: ApiHarness) -> None:
    key = (await harness.customer()).key.text
    async with line_to(Service(settings_for(migrated_url, mcp="off"))) as line:
        assert (await Agent(line, key).ask("tools/list")).status_code == 404


async def test_only_what_is_for_booking_can_be_served(migrated_url: str, harness: ApiHarness) -> None:
    key = (await harness.customer()).key.text
    async with line_to(Service(settings_for(migrated_url, mcp="booking"))) as line:
        agent = Agent(line, key)
        assert (await agent.tools()).keys() == FOR_BOOKING
        refused = await agent.ask("tools/call", name="list_webhooks", arguments={})
        assert "no such tool" in refused.json()["error"]["message"]


async def test_the_first_agents_wait_for_one_application(
    migrated_url: str, harness: ApiHarness, era: str
) -> None:
    key = (await harness.customer()).key.text
    async with line_to(Service(settings_for(migrated_url))) as line:
        agent = Agent(line, key, era)
        answers = await asyncio.gather(*(agent.call("get_me") for _ in range(5)))
    assert len({answer.meta["meetcore/request_id"] for answer in answers}) == 5
    assert all(answer.value["credits"] == {"balance": 1000} for answer in answers)
