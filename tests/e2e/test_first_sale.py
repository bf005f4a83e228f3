"""From an empty database to a signed webhook, by an operator's commands and the Python client.

`scripts/try_packages.py` runs it with the program of a wheel or an image.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from meetcore.domain.requests.keys import Scope
from meetcore.domain.webhooks.signature import verify
from tests.e2e.customers import CREDITS, meeting_body
from tests.e2e.receiver import Receiver
from tests.support.program import START_S, Launcher, Site, has_fault, until

CUSTOMER = """
import json, sys
from meetcore.client import Client

with Client() as client:
    webhook = client.webhooks.create(url=sys.argv[1], event_types=["meeting.created"])
    meeting = client.meetings.create(**json.loads(sys.argv[2]))
    balance = client.me().credits.balance
print(json.dumps({"secret": webhook.secret, "id": meeting.id, "balance": balance}))
"""
CUSTOMERS_PYTHON = os.environ.get("MEETCORE_TEST_CLIENT", sys.executable)
BALANCE = 100


def test_an_installed_service_sells_a_meeting_and_notifies(
    launcher: Launcher, empty_database_url: str, receiver: Receiver, rabbitmq_url: str, tmp_path: Path
) -> None:
    broker = {"broker_url": rabbitmq_url, "broker_queues": "quorum"}
    site = Site(launcher, empty_database_url, receiver.settings | broker)
    assert site.cli("migrate")["applied"]
    site.cli("host", "add", "--provider-user-id", "host-1", "--capacity", 100)
    account = site.cli(
        "account", "create", "--email", "sari@example.test", "--full-name", "Sari Dewi", "--credits", BALANCE
    )  # fmt: skip
    key = site.cli("key", "create", "--account", account["id"], "--scope", ",".join(Scope))["key"]

    with site.serve() as api, site.worker() as worker:
        sale = buy(api.url, key, receiver.url("sale"), tmp_path)
        (post,) = until(lambda: receiver.at("sale"), "the webhook arrives")
        logs = [each.err.read_text() + each.out.read_text() for each in (api, worker)]

    verify([sale["secret"]], post.body, post.headers["X-Service-Signature"], int(time.time()))
    assert json.loads(post.body)["data"]["id"] == sale["id"]
    assert sale["balance"] == BALANCE - CREDITS
    assert site.cli("credits", "verify")["is_sound"] is True
    assert not any(has_fault(log) or "broker away" in log for log in logs)


def buy(url: str, key: str, hook: str, directory: Path) -> dict[str, Any]:
    """Register a webhook and create a meeting, in a separate program with the client."""
    done = subprocess.run(
        [CUSTOMERS_PYTHON, "-I", "-c", CUSTOMER, hook, json.dumps(meeting_body())],
        env={"PATH": os.environ["PATH"], "MEETCORE_BASE_URL": url, "MEETCORE_API_KEY": key},
        cwd=directory, capture_output=True, text=True, check=False, timeout=START_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))
