"""A meeting at Zoom, from its making to its end, through the API, the queue and a worker."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from attrs import frozen

from meetcore.client import Meeting
from meetcore.testing.zoom_server import Credentials
from tests.e2e.customers import Customer, customer
from tests.e2e.outbox import ask
from tests.e2e.program import ROOT, Running, Site, environment, until
from tests.e2e.receiver import Receiver
from tests.zoom_requests import SECRET, about_meeting, about_recording, fixture, signed

ANSWER_WITHIN_S = 3.0
"""What Zoom grants."""


@frozen
class Stage:
    """A customer of a service that Zoom tells things."""

    customer: Customer
    api: Running
    workers: list[Running]
    settings: dict[str, Any]

    def tell(self, told: object) -> None:
        """Post an event as Zoom does, and be answered in time."""
        request = signed(told, time.time())
        since = time.monotonic()
        answer = httpx.post(
            f"{self.api.url}/provider-events/zoom", content=request.body, headers=request.headers,
            timeout=10, trust_env=False,
        )  # fmt: skip
        assert answer.status_code == 204, answer.text
        assert time.monotonic() - since < ANSWER_WITHIN_S

    def status(self, meeting: Meeting) -> str:
        return self.customer.api.meetings.get(meeting.id).status


@pytest.fixture(scope="module")
def zoom() -> Iterator[dict[str, str]]:
    """A stand-in for Zoom that lives as long as the database, and the settings that lead to it."""
    known = Credentials()
    command = [sys.executable, "-m", "meetcore.testing.zoom_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(), cwd=ROOT) as child:
        assert child.stdout is not None
        ready = json.loads(child.stdout.readline())
        try:
            yield {
                "provider": "zoom",
                "zoom_api_url": ready["api_url"],
                "zoom_oauth_url": ready["oauth_url"],
                "zoom_account_id": known.account_id,
                "zoom_client_id": known.client_id,
                "zoom_client_secret": known.client_secret,
                "zoom_webhook_token": SECRET,
            }
        finally:
            child.kill()


@pytest.fixture
def stage(site: Site, receiver: Receiver, redis_url: str, zoom: dict[str, str]) -> Iterator[Stage]:
    settings = receiver.settings | zoom | {"broker_url": redis_url}
    with ExitStack() as stack:
        api = stack.enter_context(site.serve(**settings))
        worker = stack.enter_context(site.worker(**settings))
        who = stack.enter_context(customer(site, api))
        stack.callback(receiver.release.set)
        yield Stage(who, api, [worker], settings)


def test_a_meeting_starts_and_ends_as_zoom_tells(site: Site, receiver: Receiver, stage: Stage) -> None:
    stage.customer.hook(receiver.url("told"), "meeting.ended")
    meeting = stage.customer.meet(with_recording=True)
    name = str(meeting.provider_meeting_id)
    assert name.isdigit(), "Zoom made it"

    stage.tell(about_meeting("meeting.started", name))
    until(lambda: stage.status(meeting) == "started", "the customer sees that it started")
    assert receiver.posts == []
    for number in range(3):
        stage.tell(about_meeting("meeting.ended", name, at_ms=1795490561904 + number))
    until(lambda: stage.status(meeting) == "ended", "the customer sees that it ended")
    until(lambda: receiver.at("told"), "the customer is told")
    files = fixture("recording.completed").told["payload"]["object"]["recording_files"]
    stage.tell(about_recording("recording.completed", int(name), files))
    recorded = "SELECT status FROM recordings WHERE meeting_id = %s::uuid"
    until(lambda: ask(site, recorded, meeting.id) == [("measuring",)], "it is noted down")

    [post] = receiver.posts
    told = json.loads(post.body)
    assert (told["type"], told["data"]["id"], told["data"]["status"]) == (
        "meeting.ended", meeting.id, "ended",
    )  # fmt: skip
    assert ask(site, "SELECT id FROM provider_events WHERE due_at IS NOT NULL") == []


def test_what_was_told_while_no_worker_was_there_is_worked_on_later(site: Site, stage: Stage) -> None:
    meeting = stage.customer.meet()
    stage.workers[0].kill()
    for kind in ("meeting.ended", "meeting.started"):
        stage.tell(about_meeting(kind, str(meeting.provider_meeting_id)))
    assert stage.status(meeting) == "scheduled"
    with site.worker(**stage.settings):
        until(lambda: stage.status(meeting) == "ended", "another worker works on it")
