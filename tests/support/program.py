"""The program under test: run to its end, or running beside the test until it is stopped by its pid."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import re
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import httpx
from attrs import define, field, frozen

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
AUTHORITY = ROOT / "tests" / "fixtures" / "authority.pem"
"""A certificate instead of those of all authorities."""

SECRETS_KEY = base64.urlsafe_b64encode(bytes(range(32))).decode()
TIMEOUT_S = START_S = 60.0
"""When a test that hangs is given up: beside many others on two processors, a program imports for long."""

PORTS = range(20_000, 30_000)
"""Below those that the system chooses from."""

INSTALLED = tuple(shlex.split(os.environ.get("MEETCORE_TEST_PROGRAM", "")))
"""The command of another program than that of this checkout: of an installed wheel, or of an image."""

PROGRAM = INSTALLED or (str(Path(sys.executable).with_name("meetcore")),)
"""The command of the program under test."""

IS_LONG = int(os.environ.get("MEETCORE_TEST_KILLS", "0")) >= 500
"""Whether `make storm` runs: more of everything that happens at random."""

OF_THE_POLICY = {"meeting_lease_s", "note_lease_s", "webhook_lease_s"}

_CLAIMS: list[socket.socket] = []


def until(
    condition: Callable[[], T], what: str = "", seconds: float = TIMEOUT_S, *, every_s: float = 0.02
) -> T:
    """Poll a condition until it is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what or condition}"
        time.sleep(every_s)
    return found


def until_none_left(count: Callable[[], int], what: str, seconds: float, *, every_s: float = 0.2) -> None:
    """Poll a count of work until it is 0; the time limit begins anew whenever it changes.

    Work leads to more. How long it takes depends on what else the machine does: media has a low priority.
    """
    last, deadline = -1, 0.0
    while (left := count()) > 0:
        if left != last:
            last, deadline = left, time.monotonic() + seconds
        assert time.monotonic() < deadline, f"{left} left for {seconds} s: {what}"
        time.sleep(every_s)


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread: in the thread of a test with a browser, Playwright runs an event loop."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()


def free_port() -> int:
    """Return an unused port that no other test is given while this process lives.

    A server takes it a while later, and perhaps again after a restart: until then it is claimed by the same
    port of UDP. Outgoing connections, and servers that let the system choose, are never given one of these.
    """
    while True:
        port, claim = secrets.choice(PORTS), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            claim.bind(("127.0.0.1", port))
            with socket.create_server(("127.0.0.1", port)):
                _CLAIMS.append(claim)
                return port
        except OSError:
            claim.close()


def at_port(url: str, port: int) -> str:
    """The same database at another port of this machine."""
    at = urlsplit(url)
    user = at.netloc.rpartition("@")[0] or "postgres"
    return urlunsplit(at._replace(netloc=f"{user}@127.0.0.1:{port}"))


def pooler_settings(direct_url: str) -> dict[str, object]:
    """The settings of a program whose database is behind PgBouncer in transaction mode."""
    return {"database_pooler": "transaction", "database_direct_url": direct_url}


def is_pooled(url: str) -> bool:
    """Return whether programs reach a database by the PgBouncer of the run; see `pooler`.

    It is before one server: a test that has one of its own, or something else before it, goes there itself.
    """
    server = urlsplit(os.environ.get("MEETCORE_TEST_DATABASE_URL", ""))
    place = urlsplit(url).netloc.rpartition("@")[2]  # of no host and port where an address is impossible
    return "MEETCORE_TEST_POOLER_PORT" in os.environ and place == server.netloc.rpartition("@")[2]


def reached(url: str) -> tuple[str, dict[str, object]]:
    """The address by which a program reaches a database, and the settings that this needs."""
    if not is_pooled(url):
        return url, {}
    return at_port(url, int(os.environ["MEETCORE_TEST_POOLER_PORT"])), pooler_settings(url)


def environment(**settings: object) -> dict[str, str]:
    """Build a clean environment: variables that Python needs, and these settings (`database_url=...`).

    Names in `OF_THE_POLICY` reach a program of the launcher by `policy_changes`; they are no settings.
    Without other settings a stopped server closes at once.
    """
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    source = {} if INSTALLED else {"PYTHONPATH": str(ROOT / "src"), "SSL_CERT_FILE": str(AUTHORITY)}
    policy = {name: settings.pop(name) for name in OF_THE_POLICY & settings.keys()}
    assert not (policy and INSTALLED), "another program takes settings only"
    given = {f"MEETCORE_{name.upper()}": str(value) for name, value in settings.items()}
    given |= {"MEETCORE_TEST_POLICY": json.dumps(policy)} if policy else {}
    defaults = {"MEETCORE_SECRETS_KEY": SECRETS_KEY, "MEETCORE_DRAIN_S": "0"}
    return kept | source | defaults | given


@frozen
class Done:
    """The exit code of the program and its output."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which must be exactly one JSON document."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The error code in the one JSON document."""
        assert set(self.json) == {"error"}
        return str(self.json["error"]["code"])


@define
class Running:
    """A process of the program."""

    launcher: Launcher
    pid: int
    out: Path
    err: Path
    url: str = ""
    code: int | None = None

    def wait(self, seconds: float = TIMEOUT_S) -> Done:
        """Wait for its end."""
        code = self.poll(seconds)
        if code is None:
            self.signal(signal.SIGKILL)
            raise AssertionError(f"still running after {seconds} s:\n{self.err.read_text()[-3000:]}")
        return Done(code, self.out.read_text(), self.err.read_text())

    def poll(self, seconds: float = 0) -> int | None:
        """Return the exit code, or `None` while it runs."""
        if self.code is None:
            self.code = self.launcher.ask({"wait": self.pid, "seconds": seconds})
        return self.code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait_until_working(self) -> None:
        """Wait until a worker has begun to look for work: it imports for long beside many others."""
        until(
            lambda: "meetcore works" in self.err.read_text() or self.poll() is not None, "it works", START_S
        )
        assert self.poll() is None, self.err.read_text()[-3000:]

    def kill(self) -> None:
        """End it at once, as a power cut does."""
        self.signal(signal.SIGKILL)
        assert self.poll(TIMEOUT_S) is not None

    def stop(self, within_s: float = TIMEOUT_S) -> Done:
        """Send SIGTERM and check that it ends without a fault."""
        self.signal(signal.SIGTERM)
        done = self.wait(within_s)
        assert done.code in (0, -signal.SIGTERM), done.err[-3000:]
        assert not has_fault(done.err), done.err[-3000:]
        return done


class Launcher:
    """Starts processes of the program; see `launcher.py`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._child = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("launcher.py")), *INSTALLED],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(), cwd=directory,
        )  # fmt: skip

    def ask(self, question: dict[str, object]) -> Any:
        """Put one question and read the answer."""
        with self._lock:
            assert self._child.stdin is not None
            assert self._child.stdout is not None
            self._child.stdin.write(json.dumps(question) + "\n")
            self._child.stdin.flush()
            return json.loads(self._child.stdout.readline())

    def start(self, *arguments: object, env: dict[str, str], cwd: Path | None = None) -> Running:
        """Start the program."""
        base = self._directory / f"{next(self._numbers):04}"
        out, err = base.with_suffix(".out"), base.with_suffix(".err")
        out.touch()
        err.touch()
        argv = [str(each) for each in arguments]
        pid = self.ask(
            {"arguments": argv, "environment": env, "cwd": str(cwd or self._directory), "out": str(out),
             "err": str(err)}
        )  # fmt: skip
        return Running(self, pid, out, err)

    def run(self, *arguments: object, env: dict[str, str], cwd: Path | None = None) -> Done:
        """Run the program to its end."""
        return self.start(*arguments, env=env, cwd=cwd).wait(START_S)

    def close(self) -> None:
        """Close the launcher; running processes are stopped by their owners."""
        with self._child:
            assert self._child.stdin is not None
            self._child.stdin.close()


@define
class Site:
    """One database, and the processes of the program on it."""

    launcher: Launcher
    database_url: str
    settings: dict[str, Any] = field(factory=dict)

    @property
    def direct_url(self) -> str:
        """The address of the database itself, whatever is before it."""
        return str(self.settings.get("database_direct_url", self.database_url))

    def env(self, **settings: object) -> dict[str, str]:
        """The environment of a process on this database."""
        many = {
            "quota_read": 100_000, "quota_write": 100_000, "quota_credit": 100_000, "quota_tool": 100_000,
            "quota_page": 100_000, "connections": 5000,  # a thousand from this machine
            "database_pool_size": 5,
        }  # fmt: skip
        given = {"database_url": self.database_url} | many | self.settings | settings
        url, needed = reached(str(given["database_url"]))
        return environment(**(needed | given | {"database_url": url}))

    def cli(self, *arguments: object, **settings: object) -> Any:
        """Run an operator's command that must succeed, and return its JSON output."""
        done = self.launcher.run(*arguments, "--json", env=self.env(**settings))
        assert done.code == 0, done
        return done.json

    @contextmanager
    def serve(
        self, port: int | None = None, *arguments: object, is_ready: bool = True, **settings: object
    ) -> Iterator[Running]:
        """The API, from when it answers until it is stopped."""
        port = port or free_port()
        url = f"http://127.0.0.1:{port}"
        env = self.env(**{"base_url": url} | settings)
        server = self.launcher.start("serve", "--port", port, *arguments, env=env)
        server.url = url
        try:
            until(
                lambda: answers(f"{url}/{'readyz' if is_ready else 'healthz'}", server),
                "the API is up",
                START_S,
            )
            yield server
            if server.poll() is None:
                server.stop()
        finally:
            server.kill()

    @contextmanager
    def worker(self, *arguments: object, **settings: object) -> Iterator[Running]:
        """A worker, from its start until it is stopped."""
        worker = self.launcher.start("worker", *arguments, env=self.env(**settings))
        try:
            yield worker
            if worker.poll() is None:
                worker.stop()
        finally:
            worker.kill()


def whole_lines(log: Path) -> list[str]:
    """The lines of a log that is being written, without one that is not whole yet."""
    return log.read_text().rpartition("\n")[0].splitlines()


def has_fault(log: str) -> bool:
    """Return whether a log has an unexpected error; expected errors and their causes do not count."""
    surprises = r'^Traceback|"event": ?"(fault|uncaught exception)"'
    return re.search(surprises, log, re.MULTILINE) is not None


def answers(url: str, server: Running) -> bool:
    """Whether a GET is answered with 200; fails at once when the server has ended."""
    assert server.poll() is None, server.err.read_text()[-3000:]
    try:
        return httpx.get(url, timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
