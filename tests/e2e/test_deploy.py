"""The units of deploy/: their commands with their environment, behind haproxy.

With systemd-analyze and libseccomp, only a unit's system calls are allowed.
"""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import psycopg
import pytest
from attrs import evolve, frozen

from tests.conftest import absent
from tests.e2e.customers import enrol
from tests.support import pooler, servers, unit_sandbox
from tests.support.balancer import balanced, balanced_hosts
from tests.support.deploy_files import DEPLOY, exec_start, unit_environment
from tests.support.program import (
    PROGRAM,
    START_S,
    Site,
    environment,
    free_port,
    until,
    whole_lines,
)

UNITS = DEPLOY / "systemd"
STOPPED = (0, -signal.SIGTERM)


@frozen
class Unit:
    """A process started as its unit says, with its log."""

    process: subprocess.Popen[bytes]
    log: Path
    metrics_url: str

    def events(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in whole_lines(self.log)]


@contextmanager
def started(name: str, directory: Path, variables: Mapping[str, str], instance: str = "") -> Iterator[Unit]:
    """Run ExecStart with the unit's Environment, and with the variables of its EnvironmentFile."""
    unit = UNITS / name
    _, *words = exec_start(unit, instance)
    metrics = str(free_port())
    words[words.index("--metrics-port") + 1] = metrics
    own = unit_environment(unit)
    scratch = own.pop("MEETCORE_SCRATCH_DIRECTORY", None)
    own |= {} if scratch is None else {"MEETCORE_SCRATCH_DIRECTORY": str(directory)}  # its CacheDirectory
    log = directory / f"{name}-{instance}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            unit_sandbox.command(unit, [*PROGRAM, *words]),
            env={**variables, **own},
            cwd="/",
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield Unit(process, log, f"http://127.0.0.1:{metrics}/metrics")
    finally:
        process.terminate()
        code = process.wait(60)
    assert code in STOPPED, log.read_text()[-3000:]


def servers_up(figures: str) -> int:
    """Return the number of servers that the balancer reports as up."""
    try:
        text = httpx.get(f"{figures}/metrics", trust_env=False, timeout=5).text
    except httpx.TransportError:
        return 0
    up = r'^haproxy_server_status\{proxy="servers",server="s\d",state="UP"\} 1$'
    return len(re.findall(up, text, re.MULTILINE))


def environment_file(**settings: object) -> dict[str, str]:
    """Return the example EnvironmentFile with the addresses and key of a test."""
    text = (DEPLOY / "meetcore.env.example").read_text("utf-8")
    example = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
    given = environment(**settings) | {"PYTHONPATH": ""}
    assert {name for name, value in example.items() if "change-me" in value or not value} <= set(given)
    return example | given


def clients_of(api: Unit) -> set[object]:
    """Return the addresses of `/me` requests in an API's log."""
    return {line["client"] for line in api.events() if line.get("path") == "/api/v1/me"}


def shows_its_build(unit: Unit) -> bool:
    assert unit.process.poll() is None, unit.log.read_text()[-3000:]
    try:
        return "meetcore_build_info" in httpx.get(unit.metrics_url, trust_env=False, timeout=5).text
    except httpx.TransportError:
        return False


def test_the_unit_of_migrations_grants_and_the_others_run_behind_the_balancer(
    site: Site, tmp_path: Path, rabbitmq_url: str, redis_url: str
) -> None:
    with servers.service_role(site.database_url) as url, ExitStack() as stack:
        migrate(site.database_url, role=str(urlsplit(url).username), is_embedded=url == site.database_url)
        variables = environment_file(
            database_url=url, broker_url=rabbitmq_url, rate_store_url=redis_url, base_url="http://127.0.0.1"
        )
        partitions = UNITS / "meetcore-partitions.service"
        owner = {"MEETCORE_DATABASE_DIRECT_URL": site.database_url}
        run(partitions, exec_start(partitions)[1:], variables | owner)
        ports = [free_port(), free_port()]
        apis = [
            stack.enter_context(started("meetcore-serve@.service", tmp_path, variables, str(port)))
            for port in ports
        ]
        worker = stack.enter_context(started("meetcore-worker.service", tmp_path, variables))
        front, figures = stack.enter_context(balanced(ports, tmp_path))
        until(lambda: servers_up(figures) == 2, "both servers get requests", START_S)

        _, _, key = enrol(site)
        headers = {"Authorization": f"Bearer {key}", "X-Forwarded-For": "192.0.2.7"}
        with httpx.Client(base_url=front, headers=headers, trust_env=False, timeout=10) as http:
            assert {http.get("/api/v1/me").status_code for _ in range(20)} == {200}
            for api in apis:
                clients = until(lambda api=api: clients_of(api), "each answered some")  # type: ignore[misc]
                assert clients == {"127.0.0.1"}, "what a client claims is not believed"
            apis[0].process.terminate()
            until(lambda: servers_up(figures) == 1, "the balancer sees that one drains")
            assert {http.get("/api/v1/me").status_code for _ in range(10)} == {200}
        assert worker.process.poll() is None, worker.log.read_text()
        for each in (apis[1], worker):
            until(lambda each=each: shows_its_build(each), "its figures are shown", START_S)  # type: ignore[misc]


def test_a_unit_s_command_is_refused_what_the_unit_forbids() -> None:
    if not unit_sandbox.is_possible():
        pytest.skip("no systemd-analyze, or no libseccomp")
    tries = """
import os, socket
for attempt in (lambda: os.chown("/", -1, -1), lambda: socket.socket(socket.AF_NETLINK), socket.socket):
    try:
        attempt()
        print("done")
    except PermissionError:
        print("refused")
"""
    unit = UNITS / "meetcore-serve@.service"
    words = unit_sandbox.command(unit, [sys.executable, "-c", tries])
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["refused", "refused", "done"]


def test_the_pooler_starts_with_its_script_and_file_and_lets_the_role_of_the_service_in(site: Site) -> None:
    if "host=%2F" in site.database_url:
        pytest.skip("the embedded server has no TCP port to put a pooler before")
    if pooler.program() is None:
        absent("no PgBouncer")
    pooler.keep_session_settings(site.database_url)
    with servers.service_role(site.database_url) as direct:
        at, port = urlsplit(direct), free_port()
        role, name = str(at.username), at.path.lstrip("/")
        password = 'a "quoted" word'
        with psycopg.connect(servers.as_superuser(site.database_url), autocommit=True) as connection:
            connection.execute(f"ALTER ROLE {role} PASSWORD '{password}'".encode())
        files = {"/run/pgbouncer/users.txt": pooler.USERS, "/etc/pgbouncer/pgbouncer.ini": pooler.FILE}
        script = adapted("start.sh", files | {"meetcore_service": role})
        server = f"host={at.hostname} port={at.port or 5432}"
        text = adapted(
            "pgbouncer.ini",
            {
                "meetcore = host=postgres port=5432 dbname=meetcore": f"{name} = {server}",
                "listen_addr = *\nlisten_port = 6432": f"listen_addr = 127.0.0.1\nlisten_port = {port}",
                "/run/pgbouncer/users.txt": pooler.USERS,
            },
        )
        url = f"postgresql://{role}:{quote(password)}@127.0.0.1:{port}/{name}"
        with (
            pooler.running(text, url, script, {"MEETCORE_SERVICE_PASSWORD": password}),
            evolve(site, database_url=url).serve(database_pooler="transaction") as api,
        ):
            assert httpx.get(f"{api.url}/readyz", trust_env=False, timeout=20).status_code == 200
            with pytest.raises(psycopg.OperationalError, match="authentication"):
                psycopg.connect(url.replace(quote(password), "another"))


def adapted(name: str, changes: Mapping[str, str]) -> str:
    """Return a file of the pooler with the paths and names of a test."""
    text = (DEPLOY / "pgbouncer" / name).read_text("utf-8")
    for was, becomes in changes.items():
        assert text.count(was) == 1, was
        text = text.replace(was, becomes)
    return text


def migrate(url: str, *, role: str, is_embedded: bool) -> None:
    """Run the unit that migrates for a role; an embedded server has only its owner."""
    unit = UNITS / "meetcore-migrate.service"
    _, *words = exec_start(unit)
    assert words[-2:] == ["--grant-to", "meetcore_service"]
    run(unit, words[:-2] if is_embedded else [*words[:-1], role], environment(database_url=url))


def run(unit: Path, words: list[str], variables: Mapping[str, str]) -> None:
    done = subprocess.run(
        unit_sandbox.command(unit, [*PROGRAM, *words]), env={**variables, "PYTHONPATH": ""}, cwd="/",
        capture_output=True, text=True, check=False, timeout=START_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def listens(port: int | None) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_without_a_server_the_balancer_answers_in_the_form_of_the_api(tmp_path: Path) -> None:
    nowhere = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    with balanced_hosts(nowhere, tmp_path) as (url, _), httpx.Client(trust_env=False) as http:
        until(lambda: listens(urlsplit(url).port), "the balancer listens")
        answer = http.get(f"{url}/api/v1/me")
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/json")
    assert answer.headers["retry-after"] == "5"
    assert answer.json()["error"].keys() == {"code", "message", "docs_url", "request_id", "details"}
    assert answer.json()["error"]["code"] == "service_unavailable"


class DyingServer(BaseHTTPRequestHandler):
    """A server that is ready, and ends within any other request."""

    def do_GET(self) -> None:
        self.close_connection = True
        if self.path == "/readyz":
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_where_a_server_ends_within_a_request_the_balancer_answers_in_the_form_of_the_api(
    tmp_path: Path,
) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), DyingServer)
    place = f"127.0.0.1:{server.server_address[1]}"
    with ExitStack() as stack:
        stack.callback(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        url, _ = stack.enter_context(balanced_hosts([place, place], tmp_path))
        http = stack.enter_context(httpx.Client(trust_env=False))
        until(lambda: listens(urlsplit(url).port), "the balancer listens")
        answer = http.get(f"{url}/api/v1/me")
    assert (answer.status_code, answer.headers["content-type"]) == (502, "application/json")
    assert answer.json()["error"].keys() == {"code", "message", "docs_url", "request_id", "details"}
    assert answer.json()["error"]["code"] == "internal_error"
    assert "http-error status 504 content-type application/json" in (DEPLOY / "haproxy.cfg").read_text(
        "utf-8"
    )
