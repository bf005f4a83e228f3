"""Before credits are spent, a person is asked where the client can: nothing happens without a consent."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from attrs import evolve

from meetcore.domain.requests.keys import Scope
from tests.agents.clients import HANDSHAKE, SINGLE, Agent
from tests.support.api_harness import RECORDING_CREDITS, TIER_CREDITS, ApiHarness, Customer, new_key
from tests.support.sandbox_recordings import store_recording

FORM: dict[str, Any] = {"elicitation": {"form": {}}}


@pytest.fixture
def asking(line: httpx.AsyncClient, customer: Customer) -> Agent:
    """An agent whose client can put a question to a person."""
    return Agent(line, customer.key.text, SINGLE, capabilities=FORM)


async def called(agent: Agent, tool: str, arguments: dict[str, Any], **answers: str) -> dict[str, Any]:
    """Call a tool, with answers to questions by their names; return the result, which may be a question."""
    given = {name: {"action": action, "content": {}} for name, action in answers.items()}
    params = {"name": tool, "arguments": arguments} | ({"inputResponses": given} if given else {})
    answer = await agent.ask("tools/call", **params)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["result"])


def questions(result: dict[str, Any]) -> dict[str, str]:
    """The texts of the questions in a result, by their names."""
    assert result["resultType"] == "input_required", result
    assert result["_meta"]["meetcore/request_id"]
    asked = result["inputRequests"]
    assert all(each["method"] == "elicitation/create" for each in asked.values())
    return {name: each["params"]["message"] for name, each in asked.items()}


@pytest.mark.parametrize("capabilities", [FORM, {"elicitation": {}}])
async def test_a_meeting_is_paid_after_a_consent(
    harness: ApiHarness, customer: Customer, asking: Agent, capabilities: dict[str, Any]
) -> None:
    agent = evolve(asking, capabilities=capabilities)
    booking = harness.body(title="Rapat", auto_notulen=True) | {"idempotency_key": new_key()}
    price = TIER_CREDITS + RECORDING_CREDITS
    asked = questions(await called(agent, "create_meeting", booking))
    [(name, text)] = asked.items()
    assert text == (
        f"Book “Rapat” on {booking['date']} at {booking['start_time']} WIB for {price} credits?"
        " Its notes are charged when they are written."
    )
    assert (await customer.meeting_statuses(), await customer.balance()) == ([], 1000)
    made = await called(agent, "create_meeting", booking, **{name: "accept"})
    assert made["structuredContent"]["credits_deducted"] == price
    again = await called(agent, "create_meeting", booking)  # a retry is a retry: the person is not asked
    assert again["structuredContent"] == made["structuredContent"]
    assert await customer.balance() == 1000 - price


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_nothing_is_done_without_a_consent(
    harness: ApiHarness, customer: Customer, asking: Agent, action: str
) -> None:
    booking = harness.body() | {"idempotency_key": new_key()}
    [name] = questions(await called(asking, "create_meeting", booking))
    result = await called(asking, "create_meeting", booking, **{name: action})
    text = f"The person did not agree to spend {TIER_CREDITS} credits. Nothing was done or charged."
    assert (result["isError"], result["content"]) == (True, [{"type": "text", "text": text}])
    assert (await customer.meeting_statuses(), await customer.balance()) == ([], 1000)
    [again] = questions(await called(asking, "create_meeting", booking))
    assert again == name, "the key was not used up"


async def test_a_consent_counts_for_one_price(harness: ApiHarness, customer: Customer, asking: Agent) -> None:
    cheap = harness.body() | {"idempotency_key": new_key()}
    [name] = questions(await called(asking, "create_meeting", cheap))
    dear = cheap | {"with_recording": True}
    [other] = questions(await called(asking, "create_meeting", dear, **{name: "accept"}))
    assert (name, other) == (
        f"spend_{TIER_CREDITS}_credits",
        f"spend_{TIER_CREDITS + RECORDING_CREDITS}_credits",
    )
    assert await customer.balance() == 1000


async def test_notes_are_queued_after_a_consent(customer: Customer, asking: Agent) -> None:
    recording = await store_recording(customer)
    wanted = {"recording_id": recording["id"], "idempotency_key": new_key()}
    asked = questions(await called(asking, "create_note", wanted))
    assert asked == {"spend_2_credits": "Have notes written of a recording of 2 minutes for 2 credits?"}
    made = await called(asking, "create_note", wanted, spend_2_credits="accept")
    assert made["structuredContent"]["status"] == "queued"


async def test_what_would_be_refused_is_refused_without_a_question(
    harness: ApiHarness, line: httpx.AsyncClient, asking: Agent
) -> None:
    for tool, arguments, code in (
        ("create_meeting", harness.body(title=""), "invalid_request"),
        ("create_meeting", harness.body(pricing_tier_id="none"), "not_found"),
        ("create_note", {"recording_id": "none"}, "not_found"),
    ):
        result = await called(asking, tool, arguments | {"idempotency_key": new_key()})
        assert result["_meta"]["meetcore/error"]["code"] == code
    capped = await harness.customer(scopes=[Scope.MEETINGS_WRITE], daily_cap=1)
    short = Agent(line, capped.key.text, SINGLE, capabilities=FORM)
    result = await called(short, "create_meeting", harness.body() | {"idempotency_key": new_key()})
    assert result["_meta"]["meetcore/error"]["code"] == "credit_cap_exceeded"


@pytest.mark.parametrize(
    ("era", "capabilities"), [(SINGLE, {}), (SINGLE, {"elicitation": {"url": {}}}), (HANDSHAKE, FORM)]
)
async def test_a_client_that_cannot_ask_is_asked_nothing(
    harness: ApiHarness, customer: Customer, asking: Agent, era: str, capabilities: dict[str, Any]
) -> None:
    agent = evolve(asking, era=era, capabilities=capabilities)
    await agent.greet()
    made = await agent.call("create_meeting", **harness.body(), idempotency_key=new_key())
    assert made.value["credits_deducted"] == TIER_CREDITS
    free = await asking.call("get_credits")
    assert free.value["balance"] == 1000 - TIER_CREDITS
