"""A tool does what HTTP does, with arguments for its path, query, header and body."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from attrs import evolve

from meetcore.adapters.api.operation import UseCases
from meetcore.adapters.api.operations import OPERATIONS
from meetcore.adapters.http.error_pages import refusals_of
from meetcore.adapters.mcp.tools import Tool, tools_of
from tests.agents.clients import SINGLE, Agent, mcp_on
from tests.support.api_harness import (
    RECORDING_CREDITS,
    TIER_CREDITS,
    ApiHarness,
    Customer,
    new_key,
)

UNKNOWN = "01890000-0000-7000-8000-000000000000"


def tools_named() -> dict[str, Tool]:
    return {tool.name: tool for tool in tools_of(OPERATIONS)}


def without_key(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != "idempotency_key"}


async def test_tool_returns_what_http_returns(agent: Agent, customer: Customer) -> None:
    await customer.make_meeting()
    await customer.make_webhook()
    for tool, path in (
        ("get_me", "/me"), ("list_pricing_tiers", "/pricing-tiers"), ("get_credits", "/credits"),
        ("list_transactions", "/credits/transactions"), ("list_meetings", "/meetings"),
        ("list_webhooks", "/webhooks"), ("list_events", "/events"),
    ):  # fmt: skip
        answer, over_http = await agent.call(tool), await customer.get(path)
        assert answer.value == over_http.json(), tool
        assert answer.result["content"] == [{"type": "text", "text": over_http.text}]


@pytest.mark.spec("1/op/agent-tools", "1/meetings", "1/op/estimate", "4.1/5", "4.1/1")
async def test_an_agent_plans_prices_creates_and_cancels(
    harness: ApiHarness, agent: Agent, customer: Customer
) -> None:
    tier = (await agent.call("list_pricing_tiers", limit=1)).value["data"][0]["id"]
    options: dict[str, Any] = {"pricing_tier_id": tier, "auto_notulen": True}
    price = (await agent.call("estimate_credits", type="meeting", **options)).value
    assert (price["credits"], price["sufficient"]) == (TIER_CREDITS + RECORDING_CREDITS, True)
    booking = harness.body(**options) | {"idempotency_key": new_key()}
    made = (await agent.call("create_meeting", **booking)).value
    assert made["credits_deducted"] == price["credits"]
    assert made == (await customer.get(f"/meetings/{made['id']}")).json()
    assert (await agent.call("get_credits")).value["balance"] == 1000 - price["credits"]
    gone = (await agent.call("cancel_meeting", id=made["id"])).value
    assert gone == {"id": made["id"], "status": "cancelled", "credits_refunded": price["credits"]}
    assert await customer.balance() == 1000


@pytest.mark.spec("4/idem-replay", "4/idem-reused", "1/op/agent-tools")
async def test_a_retry_pays_once_over_either_wire(
    harness: ApiHarness, agent: Agent, customer: Customer
) -> None:
    key, body = new_key(), harness.body()
    first = await agent.call("create_meeting", **body, idempotency_key=key)
    assert "meetcore/idempotent_replayed" not in first.meta
    again = await agent.call("create_meeting", **body, idempotency_key=key)
    assert again.value == first.value
    assert again.meta["meetcore/idempotent_replayed"] is True
    over_http = await customer.post("/meetings", body, idem=key)
    assert (over_http.headers["Idempotent-Replayed"], over_http.json()) == ("true", first.value)
    other = await agent.call("create_meeting", **body | {"title": "Another"}, idempotency_key=key)
    assert other.error["code"] == "idempotency_key_reused"
    assert await customer.balance() == 1000 - TIER_CREDITS


@pytest.mark.spec("7/400", "1/op/agent-tools")
async def test_paid_work_is_refused_without_a_key(
    harness: ApiHarness, agent: Agent, customer: Customer
) -> None:
    refused = await agent.call("create_meeting", **harness.body())
    assert refused.problems == {"idempotency_key": ["is required"]}
    assert await customer.balance() == 1000
    assert await customer.meeting_statuses() == []


@pytest.mark.spec("7/400", "7/envelope")
async def test_every_problem_is_reported_at_once(agent: Agent) -> None:
    wrong = {"title": "", "date": "2026-02-30", "start_time": "9", "idempotency_key": "a b", "seats": 3}
    refused = await agent.call("create_meeting", **wrong)
    assert refused.problems.keys() == {*wrong, "pricing_tier_id"}
    assert refused.error["request_id"] == refused.http.headers["X-Request-Id"]
    assert refused.error["docs_url"].endswith("/docs/errors/invalid_request")


async def test_an_argument_that_does_not_fit_is_named(agent: Agent) -> None:
    cases: tuple[tuple[str, dict[str, Any], dict[str, str]], ...] = (
        ("get_meeting", {}, {"id": "is required"}),
        ("get_meeting", {"id": 7}, {"id": "must be a string of at least one character"}),
        ("get_meeting", {"id": UNKNOWN, "verbose": True}, {"verbose": "is not a field of this operation"}),
        ("get_me", {"idempotency_key": "k"}, {"idempotency_key": "is not a field of this operation"}),
        ("cancel_meeting", {"id": UNKNOWN, "idempotency_key": ""}, {"idempotency_key": "must be 1 to 255"}),
        ("estimate_credits", {"type": "notulen", "duration": None}, {"duration": "is required"}),
        ("delete_recording", {"id": UNKNOWN, "with_notes": "true"}, {"with_notes": "must be a boolean"}),
        ("rotate_webhook_secret", {"id": UNKNOWN, "overlap": 99.0}, {"overlap": "must be a whole number"}),
        ("list_meetings", {"limit": "5"}, {"limit": "must be an integer"}),
        ("list_meetings", {"limit": 0}, {"limit": "must be a whole number from 1 to 100"}),
        ("list_meetings", {"status": 1, "cursor": "x"}, {"status": "must be a string", "cursor": "must be"}),
        ("list_meetings", {"sort": "title"}, {"sort": "is not a parameter of this list"}),
        ("update_webhook", {"id": UNKNOWN, "url": "https://x.test"}, {"url": "cannot be changed"}),
    )  # fmt: skip
    for tool, arguments, fields in cases:
        problems = (await agent.call(tool, **arguments)).problems
        assert problems.keys() == fields.keys(), tool
        for name, beginning in fields.items():
            assert problems[name][0].startswith(beginning), tool


async def test_a_list_goes_on_where_it_stopped(agent: Agent, customer: Customer) -> None:
    made = [(await customer.make_meeting())["id"] for _ in range(3)]
    first = (await agent.call("list_meetings", limit=2)).value
    second = (await agent.call("list_meetings", limit=2, cursor=first["next_cursor"])).value
    assert [each["id"] for each in first["data"] + second["data"]] == made[::-1]
    assert second["next_cursor"] is None
    assert (await customer.get(f"/meetings?cursor={first['next_cursor']}")).json()["data"] == second["data"]
    assert (await agent.call("list_webhooks", cursor=first["next_cursor"])).problems.keys() == {"cursor"}


async def test_null_for_an_optional_argument_is_its_absence(
    harness: ApiHarness, agent: Agent, customer: Customer
) -> None:
    """Frameworks name every argument, and `next_cursor` is null at the end of a list."""
    booking = harness.body() | {"idempotency_key": new_key()}
    unset = dict.fromkeys(tools_named()["create_meeting"].input_schema["properties"])
    made = (await agent.call("create_meeting", **unset | booking)).value
    assert (await agent.call("create_meeting", **booking)).value == made
    over_http = await customer.post("/meetings", without_key(booking), idem=booking["idempotency_key"])
    assert over_http.json() == made
    for tool in tools_named().values():
        needs_one_of_two = tool.name == "start_topup"
        if not tool.input_schema.get("required") and not needs_one_of_two:
            answer = await agent.call(tool.name, **dict.fromkeys(tool.input_schema["properties"]))
            assert answer.value == (await agent.call(tool.name)).value
    webhook = (await agent.call("register_webhook", **harness.webhook_body(description="x"))).value
    unset = {"event_types": None, "is_active": None, "idempotency_key": None}
    kept = (await agent.call("update_webhook", id=webhook["id"], **unset)).value
    assert kept["description"] == "x"
    cleared = (await agent.call("update_webhook", id=webhook["id"], description=None, **unset)).value
    assert cleared == kept | {"description": None}


async def test_an_integer_is_what_json_schema_calls_one(agent: Agent, customer: Customer) -> None:
    webhook = await customer.make_webhook()
    assert len((await agent.call("list_webhooks", limit=10.0)).value["data"]) == 1
    assert (await agent.call("estimate_credits", type="notulen", duration=10.0)).value["credits"] == 10
    assert (await agent.call("rotate_webhook_secret", id=webhook["id"], overlap=1.0)).value["secret"]


async def test_an_agent_keeps_webhooks(harness: ApiHarness, agent: Agent) -> None:
    made = (await agent.call("register_webhook", **harness.webhook_body())).value
    assert made["secret"].startswith("whsec_")
    paused = (await agent.call("update_webhook", id=made["id"], is_active=False, description=None)).value
    assert (paused["is_active"], paused["description"]) == (False, None)
    assert (await agent.call("test_webhook", id=made["id"])).error["code"] == "conflict"
    await agent.call("update_webhook", id=made["id"], is_active=True)
    sent = (await agent.call("test_webhook", id=made["id"])).value
    read = (await agent.call("get_delivery", id=made["id"], delivery_id=sent["id"])).value
    assert read["event_type"] == "webhook.test"
    removed = await agent.call("remove_webhook", id=made["id"])
    assert (removed.value, removed.result["content"][0]["text"]) == ({}, "Deleted. No content.")
    assert (await agent.call("get_webhook", id=made["id"])).error["code"] == "not_found"


@pytest.mark.spec("7/500")
async def test_a_fault_reveals_only_its_request_id(harness: ApiHarness, customer: Customer, era: str) -> None:
    async def broken(*_: object) -> Any:
        raise RuntimeError("SELECT secret FROM vault")

    def with_fault(use: UseCases) -> UseCases:
        return evolve(use, cancel_meeting=broken)  # type: ignore[arg-type]  # it is called and no more

    async with mcp_on(harness.application, with_fault) as line:
        refused = await Agent(line, customer.key.text, era).call("cancel_meeting", id=UNKNOWN)
    assert (refused.error["code"], refused.error["details"]) == ("internal_error", {})
    assert "vault" not in refused.http.text


HOSTILE: tuple[Any, ...] = (
    None, True, -1, 10**30, 1.5, "", "x" * 5_000, "\x00", "../me", "{id}", [None], {},
    ["meeting.created"] * 2,
)  # fmt: skip
"""What a model may come up with."""


async def test_every_call_is_answered_as_documented(
    harness: ApiHarness, line: httpx.AsyncClient, customer: Customer
) -> None:
    agent = Agent(line, customer.key.text, SINGLE)
    booked = harness.body() | {"idempotency_key": "hostile"}
    begins_with = {"create_meeting": booked, "create_note": {"idempotency_key": "hostile"}}
    for tool in tools_of(OPERATIONS):
        known = {refusal.code for refusal in refusals_of(tool.operation)} | {"invalid_request"}
        known -= {"internal_error", "rate_limited"}
        for name in (*tool.input_schema["properties"], "unheard_of"):
            # An unknown argument is refused by its name: one value is as good as another.
            for value in HOSTILE if name in tool.input_schema["properties"] else HOSTILE[:1]:
                answer = await agent.call(tool.name, **begins_with.get(tool.name, {}) | {name: value})
                assert not answer.is_error or answer.error["code"] in known, (
                    tool.name, name, value, answer.result,
                )  # fmt: skip
    # Calls that fit are executed, once for each key that fits, however often they were repeated.
    meetings = (await customer.get("/meetings")).json()["data"]
    assert meetings, "the rest of what was asked fitted"
    assert await customer.balance() == 1000 - sum(one["credits_deducted"] for one in meetings)
