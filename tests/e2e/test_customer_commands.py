"""The commands of customers against a running service: `listen`, `trigger`, `api` and `events tail`."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from attrs import field, frozen

from meetcore.domain.webhooks.signature import verify
from tests.e2e.customers import Customer, customer
from tests.support.program import TIMEOUT_S, Done, Running, Site, free_port, until, whole_lines


@frozen
class Hook:
    """A developer's program on this machine; `received` has when, the headers and the body of each post."""

    url: str
    received: list[tuple[float, Any, bytes]] = field(factory=list)

    def kinds(self) -> list[str]:
        return [headers["X-Service-Event"] for _, headers, _ in self.received]


@contextmanager
def hook(status: int = 204) -> Iterator[Hook]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((time.monotonic(), self.headers, body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    received: list[tuple[float, Any, bytes]] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield Hook(f"http://127.0.0.1:{server.server_port}/hook", received)
        finally:
            server.shutdown()
            serving.join()


@frozen
class Machine:
    """A developer's machine: commands with a customer's key and address."""

    site: Site
    variables: dict[str, str]

    def start(self, *arguments: str) -> Running:
        return self.site.launcher.start(*arguments, env=self.variables)

    def run(self, *arguments: str) -> Done:
        return self.site.launcher.run(*arguments, env=self.variables)

    @contextmanager
    def listening(self, url: str, *options: str) -> Iterator[Running]:
        running = self.start("listen", "--forward-to", url, *options)
        try:
            until(lambda: "whsec_" in running.out.read_text(), "listen is ready")
            yield running
        finally:
            running.signal(signal.SIGINT)
            assert running.wait().code == 0


@pytest.fixture(scope="module")
def developer(site: Site) -> Iterator[tuple[Customer, Machine]]:
    # Meetings at random times may meet those of another test.
    site.cli("host", "add", "--provider-user-id", "host-2", "--capacity", 1000)
    with site.serve(payment_gateway="sandbox") as server, customer(site, server) as own:
        variables = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        key = own.http.headers["Authorization"].removeprefix("Bearer ")
        yield own, Machine(site, variables | {"MEETCORE_API_KEY": key, "MEETCORE_BASE_URL": server.url})


def test_events_come_signed_to_a_port_of_this_machine_within_a_second(
    developer: tuple[Customer, Machine],
) -> None:
    own, machine = developer
    own.create_meeting()  # from before: not posted
    with hook() as there, machine.listening(there.url) as listening:
        made_at = time.monotonic()
        meeting = own.create_meeting(title="Rapat é")
        until(lambda: there.received)
        [(at, headers, body)] = there.received
        [secret] = re.findall(r"whsec_\S+", listening.out.read_text())
        verify([secret], body, headers["X-Service-Signature"], int(time.time()))
        event = json.loads(body)
        assert (event["type"], event["data"]["id"], event["data"]["title"]) == (
            "meeting.created", meeting.id, "Rapat é",
        )  # fmt: skip
        until(lambda: re.search(rf"meeting\.created +{event['id']}  204  \d+ ms", listening.out.read_text()))
        assert at - made_at < 5, "two requests a second are made; the machine may be busy"
        assert machine.variables["MEETCORE_API_KEY"] not in listening.out.read_text()


def test_what_does_not_answer_is_shown_and_listening_goes_on(developer: tuple[Customer, Machine]) -> None:
    own, machine = developer
    with machine.listening(f"http://127.0.0.1:{free_port()}") as listening:
        for _ in range(2):
            own.create_meeting()
        until(lambda: listening.out.read_text().count("no answer: ") == 2)
    with hook(500) as there, machine.listening(there.url) as listening:
        own.create_meeting()
        until(lambda: "  500  " in listening.out.read_text())


def test_ctrl_c_during_a_post_ends_it(developer: tuple[Customer, Machine]) -> None:
    own, machine = developer
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(TIMEOUT_S)
        with machine.listening(f"http://127.0.0.1:{silent.getsockname()[1]}"):
            own.create_meeting()
            connection = silent.accept()[0]
            assert connection.recv(4) == b"POST", "no answer comes"
        connection.close()


@pytest.mark.parametrize(
    ("kind", "before"),
    [("meeting.created", []), ("meeting.ended", ["meeting.created"]), ("credit.topup.succeeded", [])],
)
def test_an_event_is_triggered(developer: tuple[Customer, Machine], kind: str, before: list[str]) -> None:
    _, machine = developer
    with hook() as there, machine.listening(there.url):
        done = machine.run("trigger", kind)
        assert done.code == 0, done.err
        until(lambda: there.kinds() == [*before, kind], f"{kind}, not {there.kinds()}")


def test_what_cannot_be_triggered_is_refused(developer: tuple[Customer, Machine]) -> None:
    _, machine = developer
    unknown = machine.run("trigger", "credit.low")
    assert (unknown.code, "meeting.created" in unknown.err) == (2, True)
    elsewhere = Machine(machine.site, machine.variables | {"MEETCORE_BASE_URL": "https://meet.example.com"})
    refused = elsewhere.run("trigger", "meeting.created")
    assert (refused.code, "this machine" in refused.err) == (2, True)


def test_events_are_printed_as_they_come(developer: tuple[Customer, Machine], tmp_path: Path) -> None:
    own, machine = developer
    running = machine.start("events", "tail", "--type", "meeting.created")
    made: set[str] = set()

    def shown() -> list[str]:
        return [json.loads(line)["data"]["id"] for line in whole_lines(running.out)]

    def comes() -> bool:
        made.add(own.create_meeting().id)  # until the first request is made, a meeting is one from before
        return bool(shown())

    until(comes, every_s=0.5)
    running.signal(signal.SIGINT)
    assert running.wait().code == 0
    assert set(shown()) <= made


def test_a_refusal_of_the_service_is_one_line(developer: tuple[Customer, Machine]) -> None:
    _, machine = developer
    done = machine.run("api", "GET", "/meetings/none")
    assert done.code == 1
    assert "not_found" in done.err or "No meeting" in done.err
    assert len(done.err.splitlines()) == 1
