"""Notes and recordings as resources: in Markdown, under the scope of the operation that reads them."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx

from meetcore.domain.requests.keys import Scope
from tests.agents.clients import Agent
from tests.support.api_harness import ApiHarness, Customer
from tests.support.sandbox_recordings import a_recording, note_in, store_recording


async def test_a_note_is_a_resource_in_markdown(agent: Agent, customer: Customer) -> None:
    recording = await a_recording(customer)
    made = await agent.call("create_note", recording_id=recording["id"], idempotency_key=str(uuid4()))
    note = await note_in(customer, made.value["id"], "completed")
    content = await read(agent, "note", note["id"])
    uri = f"meetcore://notes/{note['id']}"
    over_http = await customer.get(f"/notes/{note['id']}?format=markdown")
    assert content == {"uri": uri, "mimeType": "text/markdown", "text": over_http.text}
    assert content["text"].startswith("# ")


async def read(agent: Agent, name: str, id_: str) -> Any:
    """Read a resource by its template."""
    templates = (await agent.ask("resources/templates/list")).json()["result"]["resourceTemplates"]
    [template] = [each for each in templates if each["name"] == name]
    uri = template["uriTemplate"].format(id=id_)
    [content] = (await agent.ask("resources/read", uri=uri)).json()["result"]["contents"]
    assert (content["uri"], content["mimeType"], template["mimeType"]) == (uri, *2 * ("text/markdown",))
    return content


async def test_a_recording_is_a_resource_in_markdown(agent: Agent, customer: Customer) -> None:
    recording = await store_recording(customer)
    content = await read(agent, "recording", recording["id"])
    assert content["text"] == (
        f"# Recording\n\n- Meeting: {recording['meeting_id']}\n- Recorded: {recording['recorded_at']}\n"
        f"- Length: 2 minutes\n- Size: 1000000 bytes\n"
        f"- Status: available\n- Kept until: {recording['expires_at']}\n"
    )


async def test_what_is_no_note_of_the_key_s_is_refused_as_over_http(agent: Agent) -> None:
    for uri in (
        f"meetcore://notes/{uuid4()}",
        "meetcore://notes/x",
        f"meetcore://recordings/{uuid4()}",
        "meetcore://meetings/x",
        "file:///etc/hosts",
    ):
        error = (await agent.ask("resources/read", uri=uri)).json()["error"]
        assert error["data"]["code"] == "not_found", uri


async def test_a_key_that_may_not_read_a_resource_reads_none(
    harness: ApiHarness, line: httpx.AsyncClient, era: str
) -> None:
    few = await harness.customer(scopes=[Scope.MEETINGS_READ])
    for name in ("notes", "recordings"):
        answer = await Agent(line, few.key.text, era).ask(
            "resources/read", uri=f"meetcore://{name}/{uuid4()}"
        )
        assert answer.json()["error"]["data"]["code"] == "insufficient_scope"
