"""Notes as resources: in Markdown, under the scope of the operation that reads them."""

from __future__ import annotations

from uuid import uuid4

import httpx

from meetcore.domain.requests.keys import Scope
from tests.agents.clients import Agent
from tests.support.api_harness import ApiHarness, Customer
from tests.support.sandbox_recordings import a_recording, note_in


async def test_a_note_is_a_resource_in_markdown(agent: Agent, customer: Customer) -> None:
    recording = await a_recording(customer)
    made = await agent.call("create_note", recording_id=recording["id"], idempotency_key=str(uuid4()))
    note = await note_in(customer, made.value["id"], "completed")
    [template] = (await agent.ask("resources/templates/list")).json()["result"]["resourceTemplates"]
    uri = template["uriTemplate"].format(id=note["id"])
    [content] = (await agent.ask("resources/read", uri=uri)).json()["result"]["contents"]
    over_http = await customer.get(f"/notes/{note['id']}?format=markdown")
    assert content == {"uri": uri, "mimeType": "text/markdown", "text": over_http.text}
    assert content["text"].startswith("# ")


async def test_what_is_no_note_of_the_key_s_is_refused_as_over_http(agent: Agent) -> None:
    for uri in (
        f"meetcore://notes/{uuid4()}",
        "meetcore://notes/x",
        "meetcore://meetings/x",
        "file:///etc/hosts",
    ):
        error = (await agent.ask("resources/read", uri=uri)).json()["error"]
        assert error["data"]["code"] == "not_found", uri


async def test_a_key_that_may_not_read_notes_reads_none(
    harness: ApiHarness, line: httpx.AsyncClient, era: str
) -> None:
    few = await harness.customer(scopes=[Scope.MEETINGS_READ])
    answer = await Agent(line, few.key.text, era).ask("resources/read", uri=f"meetcore://notes/{uuid4()}")
    assert answer.json()["error"]["data"]["code"] == "insufficient_scope"
