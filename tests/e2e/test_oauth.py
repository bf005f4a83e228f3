"""The official client connects by OAuth, knowing the URL of the agent interface and nothing else."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.customers import CREDITS, enrol, meeting_body
from tests.e2e.oauth import member
from tests.e2e.test_agents import Conversation, conversation
from tests.support.program import Site


def read(agent: Conversation) -> dict[str, Any]:
    assert agent.process.stdout is not None
    return dict(json.loads(agent.process.stdout.readline()))


def write(agent: Conversation, message: dict[str, Any]) -> None:
    assert agent.process.stdin is not None
    agent.process.stdin.write(json.dumps(message) + "\n")
    agent.process.stdin.flush()


def test_an_agent_connects_by_its_url_alone_and_is_refused_once_it_is_revoked(site: Site) -> None:
    account_id, *_ = enrol(site, 1000)
    with site.serve() as api:
        link = site.cli("portal", "link", "--account", account_id, "--role", "developer")["url"]
        with member(link, api.url) as who, conversation(url=f"{api.url}/mcp") as agent:
            write(agent, {"back": who.answer(read(agent)["authorize"])})
            assert "create_meeting" in agent.look()["tools"]
            made = agent.call("create_meeting", **meeting_body(idempotency_key="by-oauth"))
            assert made["credits_deducted"] == CREDITS
            keys = site.cli("key", "list", "--account", account_id)["data"]
            [grant] = [key for key in keys if key["client_id"] is not None]
            assert (grant["name"], grant["key"]) == ("Agent in Python", "mk_oauth_…")
            who.revoke_all()
            write(agent, {"call": "get_me", "arguments": {}})
            write(agent, {"back": who.answer(read(agent)["authorize"], allow=False)})
            assert "access_denied" in read(agent)["refused"]
