"""Log output of the production programs without a terminal: one JSON document a line."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from tests.e2e.customers import customer, enrol, meeting_body
from tests.e2e.receiver import Receiver
from tests.support.program import START_S, Running, Site, free_port, until, whole_lines

ROLES = ("serve", "worker", "command")


def lines_of(process: Running) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in whole_lines(process.err)]
    for line in lines:
        assert {"event", "level", "timestamp", "version"} <= set(line), line
        assert (line["service"], line["role"] in ROLES, line["pid"] > 0) == ("meetcore", True, True), line
    return lines


def requests_of(process: Running) -> list[dict[str, Any]]:
    return [line for line in lines_of(process) if line["event"] == "request"]


def test_a_request_is_a_line_with_the_client_and_a_path_of_200_characters(site: Site) -> None:
    account_id, _, key = enrol(site, credits=0)
    headers = {"Authorization": f"Bearer {key}"}
    with site.serve(trusted_proxies="127.0.0.0/8") as server:
        url = f"{server.url}/api/v1"
        answer = httpx.get(f"{url}/me", headers=headers, trust_env=False, timeout=20)
        forwarded = headers | {"X-Forwarded-For": "192.0.2.1, 203.0.113.7"}
        httpx.get(f"{url}/{'x' * 5000}", headers=forwarded, trust_env=False, timeout=20)
        httpx.get(
            f"{url}/me?token={key}", headers={"Authorization": f"Bearer {key}x"}, trust_env=False, timeout=20
        )
        until(lambda: len(requests_of(server)) == 3, "three lines")
        direct, proxied, unknown = requests_of(server)
        text = server.err.read_text()
    assert (direct["path"], direct["status"], direct["client"]) == ("/api/v1/me", 200, "127.0.0.1")
    assert (proxied["status"], proxied["client"]) == (404, "203.0.113.7")
    assert len(proxied["path"]) == 201
    assert proxied["path"].endswith("x…")
    assert (unknown["path"], unknown["status"]) == ("/api/v1/me", 401)
    assert direct["request_id"] == answer.headers["X-Request-Id"]
    assert (direct["account_id"], direct["role"], direct["pid"]) == (account_id, "serve", server.pid)
    assert "account_id" not in unknown
    assert key not in text


def test_a_request_id_leads_to_the_receivers_answer(site: Site, receiver: Receiver) -> None:
    settings = receiver.settings
    with site.serve(**settings) as api, customer(site, api) as who:
        who.hook(receiver.url("followed"))
        made = who.http.post("/meetings", json=meeting_body())
        request_id = made.headers["X-Request-Id"]

        def found() -> list[dict[str, Any]]:
            return [line for line in lines_of(api) if request_id in json.dumps(line)]

        until(lambda: any(line["event"] == "delivery succeeded" for line in found()), "it was delivered")
        lines = {line["event"]: line for line in found()}
    assert lines["request"]["subject_id"] == made.json()["id"]
    assert lines["delivery succeeded"]["request_id"] == request_id


def test_a_page_is_a_line_without_the_token_of_a_link(site: Site) -> None:
    account_id, *_ = enrol(site, credits=0)
    link = site.cli("portal", "link", "--account", account_id)["url"]
    token = link.rpartition("/")[2]
    with site.serve(provider="sandbox") as server:
        with httpx.Client(
            base_url=server.url, trust_env=False, timeout=20, follow_redirects=False
        ) as browser:
            path = urlsplit(link).path
            form = browser.get(path).text
            hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form))
            posted = browser.post(path, data=hidden, headers={"Origin": server.url})
            assert posted.status_code == 303, posted.text
            assert browser.get("/dashboard/ledger.csv").status_code == 200
            assert browser.get("/console").status_code == 303
        # The line of a file follows its end, and may come after that of the next request.
        until(lambda: len(requests_of(server)) == 4, "the last line")
        lines = sorted(requests_of(server), key=lambda line: line["path"] == "/console")
        text = server.err.read_text()
    assert token not in text
    assert [line["path"] for line in lines] == [
        path.replace(token, "…"), path.replace(token, "…"), "/dashboard/ledger.csv", "/console",
    ]  # fmt: skip
    assert [line["status"] for line in lines] == [200, 303, 200, 303]
    assert lines[2]["account_id"] == account_id
    assert lines[2]["session_id"]
    assert lines[2]["request_id"]


def test_the_connections_of_a_process_say_which_it_is(site: Site) -> None:
    names = "SELECT application_name FROM pg_stat_activity WHERE datname = current_database()"
    with site.serve() as server, site.worker() as worker:
        wanted = {f"meetcore serve {server.pid}", f"meetcore worker {worker.pid}"}
        with psycopg.connect(site.database_url, autocommit=True) as connection:
            until(
                lambda: wanted <= {name for (name,) in connection.execute(names).fetchall()}, "both are named"
            )


@pytest.mark.parametrize("workers", [1, 2])
def test_the_server_names_its_address_once_it_answers(site: Site, workers: int) -> None:
    port = free_port()
    env = site.env(base_url=f"http://127.0.0.1:{port}", drain_s=0)
    server = site.launcher.start("serve", "--port", port, "--workers", workers, env=env)
    line = f"meetcore serves http://127.0.0.1:{port}"
    try:
        until(lambda: line in server.err.read_text() + server.out.read_text(), "its line", START_S)
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False, timeout=20).status_code == 200
        server.signal(signal.SIGTERM)
        server.wait()
    finally:
        server.kill()


def test_several_processes_and_the_server_itself_write_json(site: Site) -> None:
    port = free_port()
    env = site.env(base_url=f"http://127.0.0.1:{port}", drain_s=0)
    server = site.launcher.start("serve", "--port", port, "--workers", 2, env=env)
    try:
        until(lambda: _is_up(port), "the API is up", START_S)
        httpx.get(f"http://127.0.0.1:{port}/api/v1/me", trust_env=False, timeout=20)
        until(lambda: requests_of(server), "its line")
        server.signal(signal.SIGTERM)
        server.wait()
    finally:
        server.kill()
    assert lines_of(server)


def test_a_worker_without_its_broker_and_its_database_writes_json(site: Site) -> None:
    nowhere = free_port()
    with site.worker(
        broker_url=f"redis://127.0.0.1:{nowhere}/0", database_url=f"postgresql://nobody@127.0.0.1:{nowhere}/x"
    ) as worker:
        until(lambda: any("logger" in line for line in lines_of(worker)), "the broker's own complaint")
        until(
            lambda: any(line["event"] == "store unavailable" for line in lines_of(worker)), "the database's"
        )
    assert lines_of(worker)


def test_a_start_that_is_refused_is_a_line(site: Site, tmp_path: Path) -> None:
    refused: list[tuple[tuple[object, ...], dict[str, object], str]] = [
        (("serve",), {"log_level": "loud"}, "settings"),
        (("worker",), {"tiers_file": tmp_path / "none.toml"}, "settings"),
        (("serve", "--workers", 0), {}, "usage"),
    ]
    for command, changes, code in refused:
        ended = site.launcher.start(*command, env=site.env(**changes))
        assert ended.wait().out == ""
        [line] = lines_of(ended)
        assert (line["level"], line["code"]) == ("critical", code), line


def _is_up(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
