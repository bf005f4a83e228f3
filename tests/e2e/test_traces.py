"""Traces across programs, at a collector on loopback."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.e2e.ai_stack import ai_stack
from tests.e2e.customers import customer, enrol, meeting_body
from tests.e2e.receiver import Receiver
from tests.e2e.recorded import VTT, Stretch, take_place
from tests.e2e.test_logs import lines_of, requests_of
from tests.e2e.zoom_stack import zoom_stack
from tests.support.collector import Collector, Received, collecting
from tests.support.interpreter import output_of
from tests.support.program import START_S, Site, until

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TITLE = "Rapat rahasia direksi"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


def all_of(collector: Collector) -> dict[str, Any]:
    """Return the settings of a process that records every request."""
    return {"traces_url": collector.url, "traces_sampled": 1}


def only(collector: Collector, name: str, **attributes: object) -> Received:
    """Wait for the single span of a name with these attributes."""
    until(lambda: collector.named(name, **attributes), f"the span {name}", START_S)
    [span] = collector.named(name, **attributes)
    return span


def test_a_request_its_transactions_its_provider_call_and_its_delivery(
    site: Site, receiver: Receiver, collector: Collector, redis_url: str
) -> None:
    settings = all_of(collector) | receiver.settings | {"broker_url": redis_url}
    with site.serve(**settings) as api, site.worker(**settings) as worker, customer(site, api) as who:
        who.hook(receiver.url("a"))
        headers = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
        answer = who.http.post("/meetings", json=meeting_body(title=TITLE), headers=headers)
        assert answer.status_code == 201
        request = only(collector, "POST /meetings", request_id=answer.headers["X-Request-Id"])
        until(lambda: len(collector.under(request)) >= 4, "what it did", START_S)
        attempt = only(collector, "webhook attempt", account_id=who.account_id)
        [post] = receiver.at("a")
        [line] = [each for each in requests_of(api) if each["path"].endswith("/meetings")]

    assert (request.trace_id, request.parent_id, request.kind) == (TRACE, SPAN, "server")
    assert request.attributes["http.response.status_code"] == 201
    assert request.process["meetcore.role"] == "serve"
    assert request.process["process.pid"] == api.pid
    done = [span.name for span in sorted(collector.under(request), key=lambda each: each.name)]
    assert done.count("provider create") == 1
    assert {"read", "transaction"} <= set(done)
    assert line["trace_id"] == TRACE

    assert attempt.links == ((TRACE, attempt.links[0][1]),), "a link to the trace of the request"
    assert attempt.links[0][1] in {span.span_id for span in collector.spans if span.trace_id == TRACE}
    assert attempt.trace_id != TRACE
    assert attempt.process["process.pid"] == worker.pid
    assert post.headers["traceparent"] == f"00-{attempt.trace_id}-{attempt.span_id}-01"
    assert attempt.attributes["meetcore.event_id"] == post.event_id
    assert collector.named("page readyz"), "pages are named by their area"
    everything = b"".join(collector.bodies)
    for secret in (TITLE, answer.json()["password"], answer.json()["join_url"], receiver.address):
        assert str(secret or TITLE).encode() not in everything, secret


def test_a_failed_delivery_is_logged_with_its_trace(
    site: Site, receiver: Receiver, collector: Collector
) -> None:
    with site.serve(**all_of(collector), **receiver.settings) as api, customer(site, api) as who:
        who.hook(receiver.url("fail"))
        who.create_meeting()
        attempt = only(collector, "webhook attempt", account_id=who.account_id)
        [line] = until(
            lambda: [each for each in lines_of(api) if each["event"] == "delivery failed"], "its line"
        )
    assert attempt.has_failed
    assert attempt.attributes["error.type"] == "status_500"
    assert line["trace_id"] == attempt.trace_id
    assert {"account_id", "event_id", "delivery_id", "webhook_id"} <= set(line)


def test_the_steps_of_a_note_are_linked_to_the_request_that_asked_for_it(
    site: Site, collector: Collector
) -> None:
    with ExitStack() as stack:
        zoom, ai = stack.enter_context(zoom_stack()), stack.enter_context(ai_stack())
        settings = all_of(collector) | zoom.settings | ai.settings | {"media_cpu_percent": 100}
        api = stack.enter_context(site.serve(**settings))
        who = stack.enter_context(customer(site, api))
        meeting = take_place(site, zoom, api.url, who, Stretch(vtt=VTT))
        recordings = who.api.recordings.list
        [recording] = until(
            lambda: list(recordings(meeting_id=meeting.id)), "the recording is ready", START_S
        )
        asked = who.api.notes.create(recording_id=recording.id)
        request = only(collector, "POST /notes", account_id=who.account_id)
        note = only(collector, "note", note_id=str(asked.id))
        steps = {span.name: span for span in collector.under(note)}
        written = collector.under(steps["note write"])
    assert {link[0] for link in note.links} == {request.trace_id}
    assert sorted(steps) == ["note fetch", "note settle", "note write"]
    assert {"ai /chat/completions", "transaction"} == {span.name for span in written}


def test_only_a_share_is_recorded_and_callers_get_their_limit(site: Site, collector: Collector) -> None:
    _, _, key = enrol(site, credits=0)
    headers = {"Authorization": f"Bearer {key}", "traceparent": f"00-{TRACE}-{SPAN}-01"}
    settings: dict[str, Any] = {"traces_url": collector.url, "traces_sampled": 0}
    with site.serve(**settings) as api, httpx.Client(headers=headers, trust_env=False) as http:
        began = time.monotonic()
        for _ in range(50):
            assert http.get(f"{api.url}/api/v1/me").status_code == 200
        took_s = time.monotonic() - began
        until(lambda: collector.named("GET /me"), "a span")
        until(lambda: len(requests_of(api)) >= 50, "their lines")
        lines = [line for line in requests_of(api) if line["path"].endswith("/me")]
        assert {line.get("trace_id") for line in lines} == {TRACE}, "a caller's trace is logged all the same"
    assert 1 <= len(collector.named("GET /me")) <= took_s + 2


def test_each_process_of_several_sends_its_own(site: Site, collector: Collector) -> None:
    _, _, key = enrol(site, credits=0)
    with site.serve(None, "--workers", 2, **all_of(collector)) as api:

        def pids() -> set[int]:
            httpx.get(f"{api.url}/api/v1/me", headers={"Authorization": f"Bearer {key}"}, trust_env=False)
            return {span.process["process.pid"] for span in collector.named("GET /me")}

        until(lambda: len(pids()) == 2, "both have sent some", START_S, every_s=0.1)
        assert api.pid not in pids()


def test_what_is_left_is_sent_at_the_end_and_a_collector_that_hangs_delays_it_little(
    site: Site, collector: Collector
) -> None:
    _, _, key = enrol(site, credits=0)
    for hangs in (False, True):
        with site.serve(**all_of(collector)) as api:
            if hangs:
                collector.release.clear()
            httpx.get(f"{api.url}/api/v1/me", headers={"Authorization": f"Bearer {key}"}, trust_env=False)
            api.stop(within_s=20)
        assert len(collector.named("GET /me")) == 1


LOADED = """
import asyncio, json
from meetcore.app import Service
from meetcore.adapters.settings import load_settings
import meetcore.cli.processes

async def run():
    received = asyncio.Queue()
    await received.put({"type": "lifespan.startup"})
    sent = asyncio.Queue()
    service = Service(load_settings())
    running = asyncio.create_task(service({"type": "lifespan", "state": {}}, received.get, sent.put))
    assert (await sent.get())["type"] == "lifespan.startup.complete"
    done = []
    async def body():
        return {"type": "http.request", "body": b"", "more_body": False}
    async def answer(message):
        done.append(message.get("status"))
    scope = {"type": "http", "method": "GET", "path": "/api/v1/me", "query_string": b"", "headers": [],
             "client": ("127.0.0.1", 1), "scheme": "http", "http_version": "1.1"}
    await service(scope, body, answer)
    assert done[0] == 401, done
    await received.put({"type": "lifespan.shutdown"})
    await running

asyncio.run(run())
of = ("opentelemetry", "google")
print(json.dumps(sorted(name for name in sys.modules if name.partition(".")[0] in of)))
"""


def test_a_service_without_a_collector_imports_nothing_of_opentelemetry(
    site: Site,
) -> None:
    printed = output_of(f"{_given(site.env())}\n{LOADED}")
    assert json.loads(printed.splitlines()[-1]) == []


def _given(env: dict[str, str]) -> str:
    ours = {name: value for name, value in env.items() if name.startswith("MEETCORE")}
    return f"import os\nos.environ.update({ours!r})"


def test_a_collector_without_the_extra_is_refused(site: Site) -> None:
    env = site.env(traces_url="http://127.0.0.1:4318/v1/traces")
    code = f"""
{_given(env)}
from meetcore.cli import start as main
sys.argv = ["meetcore", "serve"]
try:
    main()
except SystemExit as end:
    print(end.code)
"""
    assert output_of(code, lacks=("opentelemetry",)) == "3\n"
