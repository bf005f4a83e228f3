"""The official client connects by OAuth, knowing the URL of the agent interface and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tests.e2e.customers import CREDITS, enrol, meeting_body
from tests.e2e.oauth import member
from tests.e2e.test_agents import Conversation, conversation
from tests.support.chromium import chromium, enter, window
from tests.support.program import ROOT, START_S, Site, environment

PAGE = ROOT / "docs" / "agents.md"


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


def test_the_program_of_the_page_connects(site: Site) -> None:
    account_id, *_ = enrol(site, 1000)
    [code] = re.findall(
        r"^```py\n([^`]*OAuthClientProvider.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    with site.serve() as api:
        link = site.cli("portal", "link", "--account", account_id, "--role", "developer")["url"]
        env = environment(base_url=api.url) | {"NO_PROXY": "127.0.0.1"}
        with (
            member(link, api.url) as who,
            subprocess.Popen(
                [sys.executable, "-c", code],
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            ) as agent,
        ):
            assert agent.stdout is not None
            asked = agent.stdout.readline()
            rest, _ = agent.communicate(who.answer(asked.split()[1]) + "\n", timeout=START_S)
    assert agent.returncode == 0
    assert "'balance': 1000" in rest, rest


@contextmanager
def callback() -> Iterator[str]:
    """The page of a program on this machine to which a browser is sent back."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/callback"
        finally:
            server.shutdown()


@pytest.mark.parametrize("button", ["Allow", "Refuse"])
def test_a_browser_without_scripts_is_sent_back_to_the_program(site: Site, button: str) -> None:
    account_id, *_ = enrol(site, 0)
    with site.serve() as api, callback() as uri, chromium() as browser:
        sent = {"client_name": "Program", "redirect_uris": [uri], "token_endpoint_auth_method": "none"}
        client = httpx.post(f"{api.url}/oauth/register", json=sent, trust_env=False).json()["client_id"]
        asked = {"response_type": "code", "client_id": client, "redirect_uri": uri, "state": "s"}
        challenge = {"code_challenge": "x" * 43, "code_challenge_method": "S256"}
        context = browser.new_context(locale="en-US", java_script_enabled=False)
        developer = ("--account", account_id, "--role", "developer")
        enter(context, site.cli("portal", "link", *developer, base_url=api.url)["url"])
        seat = window(context, api.url)
        assert seat.open(f"/oauth/authorize?{urlencode(asked | challenge)}") == 200
        assert seat.path.startswith("/dashboard/connect/")
        seat.press(button)
        assert seat.page.url.startswith(f"{uri}?{'code=mk_code_' if button == 'Allow' else 'error='}")
