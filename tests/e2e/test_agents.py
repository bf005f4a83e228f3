"""MCP agents against the running program, over HTTP and stdio."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from attrs import frozen

from tests.e2e.customers import CREDITS, enrol, meeting_body
from tests.support.program import ROOT, START_S, Running, Site, environment, free_port, until

BALANCE = 1000
QUOTA = 6
TIMEOUT_S = 60.0


@frozen
class Conversation:
    """A process that speaks for an agent; see `agent.py`."""

    process: subprocess.Popen[str]

    def ask(self, argv: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(argv) + "\n")
        self.process.stdin.flush()
        return dict(json.loads(self.process.stdout.readline()))

    def look(self) -> dict[str, Any]:
        return self.ask({})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must succeed, and return its result."""
        answer = self.ask({"call": tool, "arguments": arguments})
        assert answer.get("is_error") is False, answer
        return dict(answer["value"])

    def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must fail, and return its error."""
        answer = self.ask({"call": tool, "arguments": arguments})
        assert answer.get("is_error") is True, answer
        return dict(json.loads(answer["text"])["error"])


@contextmanager
def conversation(**place: Any) -> Iterator[Conversation]:
    """Run an agent against an address."""
    command = [sys.executable, str(Path(__file__).with_name("agent.py"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(), cwd=ROOT
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(place) + "\n")
        process.stdin.flush()
        # Two processes import the agent's libraries before the first word.
        timer = threading.Timer(START_S + TIMEOUT_S, process.kill)
        timer.start()
        try:
            yield Conversation(process)
            process.stdin.close()
            assert process.wait(TIMEOUT_S) == 0
        finally:
            timer.cancel()
            process.kill()


def over(wire: str, api: Running, key: str, **more: object) -> dict[str, Any]:
    """Return the address for an agent that connects directly or through the bridge."""
    if wire == "http":
        return {"url": f"{api.url}/mcp", "key": key, **more}
    command = [sys.executable, "-m", "meetcore.cli.main", "mcp", "--base-url", api.url]
    return {"command": command, "env": environment(api_key=key), **more}


@pytest.fixture(scope="module")
def api(site: Site) -> Iterator[Running]:
    with site.serve() as api:
        yield api


@pytest.mark.spec("1/op/agent-tools", "1/meetings", "3/cancel-before", "4/idem-replay", "5/5", "8/6")
@pytest.mark.parametrize(("wire", "mode"), [("http", "legacy"), ("stdio", "auto")])
def test_an_agent_estimates_creates_and_cancels_within_its_limits(site: Site, wire: str, mode: str) -> None:
    account_id, _, key = enrol(site, BALANCE)
    reader = site.cli("key", "create", "--account", account_id, "--scope", "meetings:read")["key"]
    booking = meeting_body(idempotency_key="our-first")
    with site.serve(quota_tool=QUOTA) as api:
        with conversation(**over(wire, api, key, mode=mode)) as agent:
            listing = agent.look()
            began = time.time()
            assert "estimate_credits" in listing["instructions"]
            assert "estimate_credits first" in listing["tools"]["create_meeting"]
            tier = agent.call("list_pricing_tiers")["data"][0]
            price = agent.call("estimate_credits", type="meeting", pricing_tier_id=tier["id"])
            assert (price["credits"], price["sufficient"]) == (CREDITS, True)
            made = agent.call("create_meeting", **booking)
            assert agent.call("create_meeting", **booking) == made
            gone = agent.call("cancel_meeting", id=made["id"])
            assert gone == {"id": made["id"], "status": "cancelled", "credits_refunded": CREDITS}
            assert agent.call("get_credits")["balance"] == BALANCE
            late = refusal_of_the_quota(agent, began)
            assert (late["code"], late["details"]["limit"]) == ("rate_limited", QUOTA)
            assert 1 <= late["details"]["retry_after_seconds"] <= 60
        with conversation(**over(wire, api, reader, mode=mode)) as agent:
            assert "create_meeting" not in agent.look()["tools"]
            assert agent.refused("create_meeting", **booking)["code"] == "insufficient_scope"


def refusal_of_the_quota(agent: Conversation, began: float) -> dict[str, Any]:
    """Call a tool until the quota is used up, unless a minute has ended since `began`."""
    for more in range(QUOTA + 1):
        answer = agent.ask({"call": "get_me", "arguments": {}})
        if answer["is_error"]:
            assert more == 0 or began // 60 < time.time() // 60
            return dict(json.loads(answer["text"])["error"])
    raise AssertionError("the quota admits more than it says")


@pytest.mark.parametrize(("wire", "mode"), [("http", "auto"), ("stdio", "auto"), ("stdio", "legacy")])
def test_a_person_is_asked_before_credits_are_spent(site: Site, api: Running, wire: str, mode: str) -> None:
    _, _, key = enrol(site, BALANCE)
    first, second = (meeting_body(idempotency_key=name) for name in ("our-first", "our-second"))
    with conversation(**over(wire, api, key, mode=mode, agrees=[True, False])) as agent:
        made = agent.ask({"call": "create_meeting", "arguments": first})
        [question] = made["asked"]
        assert question.endswith(f"for {CREDITS} credits?")
        again = agent.ask({"call": "create_meeting", "arguments": first})
        assert again == made | {"asked": []}
        declined = agent.ask({"call": "create_meeting", "arguments": second})
        assert (declined["is_error"], "Nothing was done" in declined["text"]) == (True, True)
        assert agent.call("get_credits")["balance"] == BALANCE - CREDITS


@pytest.mark.parametrize("wire", ["http", "stdio"])
def test_null_is_transmitted_as_a_value(site: Site, api: Running, wire: str) -> None:
    _, _, key = enrol(site, BALANCE)
    hook = {"url": "https://93.184.216.34/hook", "event_types": ["meeting.created"], "description": "old"}
    with conversation(**over(wire, api, key)) as agent:
        made = agent.call("register_webhook", **hook)
        assert agent.call("update_webhook", id=made["id"], description=None)["description"] is None


@pytest.mark.spec("5/3", "7/401")
def test_a_wrong_key_is_reported_in_a_message(api: Running) -> None:
    wrong = f"mk_live_{'x' * 43}"
    with conversation(url=f"{api.url}/mcp", key=wrong) as agent:
        assert "key" in agent.look()["refused"]
    done = api.launcher.run("mcp", "--base-url", api.url, env=environment(api_key=wrong))
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("meetcore: ")
    assert wrong not in done.err


@pytest.mark.parametrize(
    ("arguments", "settings", "code", "message"),
    [
        (["--base-url", "nowhere"], {"api_key": "k"}, 2, "--base-url"),
        ([], {}, 3, "MEETCORE_API_KEY"),
        ([], {"api_key": "two words"}, 3, "MEETCORE_API_KEY"),
        (["--base-url", "http://meet.example.test"], {"api_key": "k"}, 2, "or --allow-http in a network"),
        (["--base-url", "http://127.0.0.1:{port}"], {"api_key": "k"}, 1, "not answer. Try again later.\n"),
    ],
)
def test_a_misconfigured_bridge_reports_the_reason(
    site: Site, arguments: list[str], settings: dict[str, str], code: int, message: str
) -> None:
    argv = [word.format(port=free_port()) for word in arguments]
    done = site.launcher.run("mcp", *argv, env=environment(**settings))
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:1080", "SOCKS proxy"),
        ("SSL_CERT_FILE", "/nowhere/file.pem", "SSL_CERT_FILE"),
    ],
)
def test_an_environment_that_the_bridge_cannot_use_is_one_sentence(
    site: Site, variable: str, value: str, message: str
) -> None:
    env = environment(api_key="k") | {variable: value}
    done = site.launcher.run("mcp", "--base-url", "https://meet.example.test", env=env)
    assert (done.code, done.out) == (1, "")
    assert message in done.err
    assert "Traceback" not in done.err
    done = site.launcher.run("mcp", "--base-url", " http://127.0.0.1:1", env=env)
    assert done.code == 2


def test_the_bridge_passes_resources_on(site: Site, api: Running) -> None:
    _, _, key = enrol(site, BALANCE)
    with conversation(**over("stdio", api, key)) as agent:
        unknown = agent.ask({"read": "meetcore://notes/none"})
        assert unknown["data"]["code"] == "not_found"
        held = meeting_body(idempotency_key="our-first", with_recording=True)
        page = httpx.URL(agent.call("create_meeting", **held)["join_url"])
        for button in ("start", "end"):
            httpx.post(page.copy_with(path=f"{page.path}/{button}"), trust_env=False)
        [recording] = until(lambda: agent.call("list_recordings")["data"], "it is measured", every_s=0.5)
        read = agent.ask({"read": f"meetcore://recordings/{recording['id']}"})
        templates = ["meetcore://notes/{id}", "meetcore://recordings/{id}"]
        assert read == {"templates": templates, "types": ["text/markdown"]}


def test_the_bridge_outlives_the_service(site: Site) -> None:
    _, _, key = enrol(site, BALANCE)
    port = free_port()
    with site.serve(port) as api, conversation(**over("stdio", api, key)) as agent:
        assert agent.call("get_me")["credits"]["balance"] == BALANCE
        api.stop()
        unavailable = agent.ask({"call": "get_me", "arguments": {}})
        assert unavailable["refused"].endswith("Try again later."), "no word of a key that was not given"
        unavailable = agent.ask(
            {"call": "create_meeting", "arguments": meeting_body(idempotency_key="our-first")}
        )
        assert unavailable["refused"].endswith("with the same idempotency_key.")
        with site.serve(port):
            assert agent.call("get_me")["credits"]["balance"] == BALANCE
