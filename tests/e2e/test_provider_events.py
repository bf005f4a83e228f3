"""A meeting at Zoom from creation to end, through API, queue and worker."""

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
from tests.e2e.receiver import Receiver
from tests.support.program import ROOT, Running, Site, environment, until
from tests.support.zoom_requests import SECRET, about_meeting, about_recording, fixture, signed

ANSWER_WITHIN_S = 3.0
"""Zoom's limit."""


@frozen
class Setup:
    """A customer of a service that receives events of Zoom."""

    customer: Customer
    api: Running
    workers: list[Running]
    settings: dict[str, Any]

    def post_event(self, event: object) -> None:
        """Post an event as Zoom does, and check that the answer arrives in time."""
        request = signed(event, time.time())
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
    """Run a Zoom stand-in as long as the database, and yield the settings for it."""
    known = Credentials()
    command = [sys.executable, "-m", "meetcore.testing.zoom_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(), cwd=ROOT) as child:
        assert child.stdout is not None
        ready = json.loads(child.stdout.readline())
        try:
            yield {
                "provider": "zoom",
                "zoom_api_url": ready["api_url"],
                "zoom_account_id": known.account_id,
                "zoom_client_id": known.client_id,
                "zoom_client_secret": known.client_secret,
                "zoom_webhook_token": SECRET,
            }
        finally:
            child.kill()


@pytest.fixture
def setup(site: Site, receiver: Receiver, redis_url: str, zoom: dict[str, str]) -> Iterator[Setup]:
    settings = receiver.settings | zoom | {"broker_url": redis_url, "meeting_empty_for_s": 1}
    with ExitStack() as stack:
        api = stack.enter_context(site.serve(**settings))
        worker = stack.enter_context(site.worker(**settings))
        who = stack.enter_context(customer(site, api))
        stack.callback(receiver.release.set)
        yield Setup(who, api, [worker], settings)


_NOW_IS_ITS_TIME = """UPDATE meetings SET start_at = now() - interval '1 hour',
                      end_at = now() + interval '1 hour' WHERE id = %s::uuid RETURNING id"""


def test_a_meeting_starts_and_ends_by_zoom_events(site: Site, receiver: Receiver, setup: Setup) -> None:
    setup.customer.hook(receiver.url("notified"), "meeting.ended")
    meeting = setup.customer.create_meeting(with_recording=True)
    name = str(meeting.provider_meeting_id)
    assert name.isdigit(), "Zoom made it"

    now_ms = time.time_ns() // 1_000_000
    setup.post_event(about_meeting("meeting.started", name, at_ms=now_ms))
    until(lambda: setup.status(meeting) == "started", "the customer sees that a session runs")
    ask(site, _NOW_IS_ITS_TIME, meeting.id)
    assert receiver.posts == []
    for number in range(3):
        setup.post_event(about_meeting("meeting.ended", name, at_ms=now_ms + number))
    until(lambda: setup.status(meeting) == "ended", "no other session began")
    until(lambda: receiver.at("notified"), "the customer is notified")
    files = fixture("recording.completed").event["payload"]["object"]["recording_files"]
    setup.post_event(about_recording("recording.completed", int(name), files))
    recorded = "SELECT status FROM recordings WHERE meeting_id = %s::uuid"
    until(lambda: ask(site, recorded, meeting.id) == [("measuring",)], "it is noted down")

    [post] = receiver.posts
    event = json.loads(post.body)
    assert (event["type"], event["data"]["id"], event["data"]["status"]) == (
        "meeting.ended", meeting.id, "ended",
    )  # fmt: skip
    unprocessed = "SELECT id FROM provider_events WHERE due_at IS NOT NULL"
    until(lambda: ask(site, unprocessed) == [], "every event is recorded as processed")
    assert receiver.posts == [post]


def test_events_received_without_a_worker_are_processed_later(site: Site, setup: Setup) -> None:
    meeting = setup.customer.create_meeting()
    setup.workers[0].kill()
    for kind in ("meeting.ended", "meeting.started"):
        setup.post_event(about_meeting(kind, str(meeting.provider_meeting_id)))
    assert setup.status(meeting) == "scheduled"
    held = "SELECT started_at, ended_at FROM meeting_sessions WHERE meeting_id = %s::uuid"
    with site.worker(**setup.settings):
        until(lambda: len(ask(site, held, meeting.id)) == 1, "another worker works on it")
