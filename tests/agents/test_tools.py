"""The description of each tool: derived from the operations, without duplication."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest
from attrs import evolve, fields
from openapi_schema_validator import OAS31Validator

from meetcore.adapters.api.bodies import CreateMeetingBody
from meetcore.adapters.api.operations import OPERATIONS
from meetcore.adapters.api.operations.meetings import create_meeting
from meetcore.adapters.api.wire_types import body_fields
from meetcore.adapters.mcp.mcp_app import tool_listing
from meetcore.adapters.mcp.tools import INSTRUCTIONS, Tool, tools_of
from tests.agents.clients import Agent
from tests.support.api_contract import Contract
from tests.support.api_harness import ApiHarness, Customer
from tests.support.program import ROOT
from tests.support.sandbox_recordings import a_recording, note_in


@pytest.fixture(scope="session")
def tools() -> dict[str, Tool]:
    return {tool.name: tool for tool in tools_of(OPERATIONS)}


@pytest.mark.spec("1/op/agent-tools")
def test_every_documented_operation_is_a_tool(contract: Contract, tools: dict[str, Tool]) -> None:
    documented = {
        each["operationId"] for item in contract.document["paths"].values() for each in item.values()
    }
    assert tools.keys() == documented


def test_every_tool_has_its_text() -> None:
    assert all(operation.for_agents for operation in OPERATIONS)


def test_two_arguments_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="title"):
        tools_of([evolve(create_meeting, path="/meetings/{title}")])


async def test_the_list_is_whole_and_plain(agent: Agent, tools: dict[str, Tool]) -> None:
    listed = await agent.tools()
    assert listed.keys() == tools.keys()
    for name, tool in listed.items():
        schema = tool["inputSchema"]
        OAS31Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert not {"$ref", "oneOf", "anyOf", "allOf"} & schema.keys()
        assert "$ref" not in json.dumps(schema)
        described = json.dumps(tool)
        for way in ("GET /", "POST /", "PATCH /", "DELETE /", "Idempotency-Key", "(spec ", "(rule"):
            assert way not in described, (name, way)


def test_the_list_is_short(tools: dict[str, Tool]) -> None:
    """Every session of an agent pays for it."""
    assert sum(len(tool_listing(tool).model_dump_json(exclude_none=True)) for tool in tools.values()) < 30_000


def test_the_page_about_agents_knows_every_tool(tools: dict[str, Tool]) -> None:
    table = (ROOT / "docs" / "agents.md").read_text("utf-8").partition("## The tools")[2].partition("##")[0]
    assert set(re.findall(r"`(\w+)`", table)) >= tools.keys()


@pytest.mark.spec("1/op/agent-tools")
def test_a_tool_that_costs_credits_documents_it_and_takes_a_key(tools: dict[str, Tool]) -> None:
    for tool in tools.values():
        is_paid = "insufficient_credits" in tool.operation.refusals
        key = tool.input_schema["properties"].get("idempotency_key")
        assert ("idempotency_key" in tool.input_schema.get("required", ())) == is_paid
        assert (key is not None) == tool.operation.is_mutating
        assert ("estimate_credits" in tool.description and "Costs credits" in tool.description) == is_paid
        if is_paid:
            assert key is not None
            assert "keep it" in key["description"]
            assert "for each new intent" in key["description"]


HINTS = {
    "create_meeting": (False, False, True, True),
    "cancel_meeting": (False, True, True, True),
    "create_note": (False, False, True, True),
    "register_webhook": (False, False, False, True),
    "update_webhook": (False, True, True, True),
    "remove_webhook": (False, True, True, False),
    "rotate_webhook_secret": (False, True, False, False),
    "test_webhook": (False, False, False, True),
    "resend_delivery": (False, False, False, True),
    "estimate_credits": (True, False, True, False),
    "get_me": (True, False, True, False),
}
"""Read-only, destructive, idempotent, reaching systems of others."""


async def test_the_hints_are_correct(agent: Agent) -> None:
    named = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
    listed = await agent.tools()
    found = {name: tuple(listed[name]["annotations"][hint] for hint in named) for name in HINTS}
    assert found == HINTS


def test_a_read_only_tool_takes_no_idempotency_key(tools: dict[str, Tool]) -> None:
    for tool in tools.values():
        assert tool.is_read_only == (not tool.operation.is_mutating)
        assert not (tool.is_read_only and tool.is_destructive)


def test_the_arguments_of_a_body_are_its_fields(tools: dict[str, Tool]) -> None:
    properties = tools["create_meeting"].input_schema["properties"]
    assert properties.keys() - {"idempotency_key"} == body_fields(CreateMeetingBody).keys()
    assert properties["title"]["maxLength"] == 200
    assert "list_pricing_tiers" in properties["pricing_tier_id"]["description"]


def test_a_choice_of_bodies_is_one_object_without_alternatives(tools: dict[str, Tool]) -> None:
    schema = tools["estimate_credits"].input_schema
    assert (schema["required"], schema["properties"]["type"]["enum"]) == (["type"], ["meeting", "notulen"])
    assert schema["properties"]["duration"]["description"].endswith("Required with type notulen only.")
    for name, tool in tools.items():
        fields = tool.input_schema["properties"]
        assert [field for field in fields if field != "limit" and "default" in fields[field]] == [], name


def test_the_language_of_notes_is_one_of_the_known(tools: dict[str, Tool]) -> None:
    accepted = tools["create_note"].input_schema["properties"]["language"]
    assert (accepted["type"], set(accepted["enum"])) == ("string", {"id", "en"})


@pytest.mark.spec("1/op/agent-tools")
def test_the_way_to_notes_is_described_in_its_order() -> None:
    flow = ("list_recordings", "create_note", "get_note")
    places = [INSTRUCTIONS.index(name) for name in flow]
    assert places == sorted(places)


def test_an_agent_is_told_to_ask_for_few_notes_which_are_long(tools: dict[str, Tool]) -> None:
    assert "Each has its whole transcript: ask for few by limit." in (tools["list_notes"].description or "")


def test_filters_and_pages_are_arguments_of_a_list(tools: dict[str, Tool]) -> None:
    properties = tools["list_meetings"].input_schema["properties"]
    assert properties.keys() == {"limit", "cursor", "status", "from", "to"}
    assert properties["limit"] | {"description": ""} == {
        "type": "integer", "minimum": 1, "maximum": 100, "default": 20, "description": "",
    }  # fmt: skip
    assert "%2B" not in json.dumps(properties)


def test_every_answer_has_a_shape(tools: dict[str, Tool]) -> None:
    for tool in tools.values():
        assert tool.operation.record is not None or tool.operation.success == 204, tool.name


async def test_arguments_match_their_schemas_and_results_their_records(
    harness: ApiHarness, agent: Agent, customer: Customer, tools: dict[str, Tool]
) -> None:
    meeting, webhook = await customer.make_meeting(), await customer.make_webhook()
    sent = await agent.call("test_webhook", id=webhook["id"])
    payment = await agent.call("start_topup", package_id="credits-500")
    recording = await a_recording(customer)
    note_arguments = {"recording_id": recording["id"], "idempotency_key": "n"}
    note = await note_in(
        customer, (await agent.call("create_note", **note_arguments)).value["id"], "completed"
    )
    calls: dict[str, dict[str, Any]] = {
        "list_credit_packages": {}, "list_topups": {}, "get_topup": {"id": payment.value["id"]},
        "start_topup": {"package_id": "team"},
        "get_me": {}, "list_pricing_tiers": {}, "get_credits": {}, "list_transactions": {},
        "list_meetings": {}, "list_webhooks": {}, "list_recordings": {},
        "estimate_credits": {"type": "notulen", "duration": 90},
        "create_meeting": harness.body() | {"idempotency_key": "k"},
        "get_meeting": {"id": meeting["id"]},
        "cancel_meeting": {"id": meeting["id"]},
        "register_webhook": harness.webhook_body(),
        "get_webhook": {"id": webhook["id"]},
        "update_webhook": {"id": webhook["id"], "description": "x"},
        "rotate_webhook_secret": {"id": webhook["id"]},
        "test_webhook": {"id": webhook["id"]},
        "list_deliveries": {"id": webhook["id"]},
        "get_delivery": {"id": webhook["id"], "delivery_id": sent.value["id"]},
        "resend_delivery": {
            "id": webhook["id"], "delivery_id": sent.value["id"], "idempotency_key": "r",
        },
        "recover_deliveries": {"id": webhook["id"], "since": meeting["created_at"]},
        "list_events": {"type": "webhook.test"},
        "get_event": {"id": sent.value["event_id"]},
        "remove_webhook": {"id": webhook["id"]},
        "get_recording": {"id": recording["id"]},
        "get_download_url": {"id": recording["id"]},
        "create_note": note_arguments,
        "list_notes": {"recording_id": recording["id"]},
        "get_note": {"id": note["id"]},
        "delete_recording": {"id": recording["id"]},
    }  # fmt: skip
    listed = await agent.tools()
    assert calls.keys() == listed.keys()
    for name, arguments in calls.items():
        OAS31Validator(listed[name]["inputSchema"]).validate(arguments)
        value = (await agent.call(name, **arguments)).value
        record = tools[name].operation.record
        assert value.keys() == ({each.name for each in fields(record)} if record else set()), name


async def test_the_place_is_answered_where_it_is(line: httpx.AsyncClient, agent: Agent) -> None:
    answer = await agent.ask("tools/list")
    assert not answer.history
    assert answer.url.path == "/mcp"
