"""`serve` of another release, run from a checkout of it, and customers who buy and list there all along."""

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx
from attrs import define, field

from tests.support.program import START_S, environment, free_port, until

__all__ = ["Sales", "previous_release"]

CUSTOMERS = 3
_PAUSE_S = 0.05
_HOURS = 24 * 300


@define
class Sales:
    """What became of the requests of some customers."""

    answered: Counter[str] = field(factory=Counter)
    refused: Counter[str] = field(factory=Counter)
    longest_s: float = 0.0
    stop: threading.Event = field(factory=threading.Event)

    @property
    def text(self) -> str:
        done = ", ".join(f"{count} {name}" for name, count in sorted(self.answered.items()))
        bad = ", ".join(f"{count} {name}" for name, count in sorted(self.refused.items())) or "none"
        return f"{done}; refused: {bad}; the longest took {self.longest_s * 1000:.0f} ms"


@define
class _Release:
    """A checkout, and the settings of its processes."""

    checkout: Path
    settings: dict[str, str]

    def command(self, *arguments: object) -> list[str]:
        own = self.checkout / ".venv/bin/python"
        return [str(own) if own.exists() else sys.executable, "-m", "meetcore.cli.main", *map(str, arguments)]

    def run(self, *arguments: object) -> Any:
        """Run a command to its end; its output."""
        done = subprocess.run(
            [*self.command(*arguments), "--json"], env=self.settings, capture_output=True, check=True
        )
        return json.loads(done.stdout)

    @contextmanager
    def serve(self, port: int) -> Iterator[str]:
        """The API, from when it answers until it is stopped."""
        url = f"http://127.0.0.1:{port}"
        child = subprocess.Popen(
            self.command("serve", "--port", port), env=self.settings, stderr=subprocess.DEVNULL
        )
        try:
            until(lambda: _answers(url, child), "the release answers", START_S)
            yield url
        finally:
            child.terminate()
            child.wait(30)


@contextmanager
def previous_release(checkout: Path, database_url: str) -> Iterator[Sales]:
    """Serve a database by another release, and buy at it while the block runs."""
    port = free_port()
    settings = environment(
        database_url=database_url, base_url=f"http://127.0.0.1:{port}", log_level="warning",
        quota_read=1_000_000, quota_write=1_000_000, quota_credit=1_000_000, database_pool_size=5,
    ) | {"PYTHONPATH": str(checkout / "src"), "PATH": os.environ["PATH"]}  # fmt: skip
    release, sales = _Release(checkout, settings), Sales()
    release.run(
        "host", "add", "--provider-user-id", token_hex(4), "--capacity", 1000, "--max-concurrent", 1000
    )
    keys = [_key(release) for _ in range(CUSTOMERS)]
    with release.serve(port) as url:
        threads = [threading.Thread(target=_buy, args=(url, key, sales)) for key in keys]
        for thread in threads:
            thread.start()
        try:
            yield sales
        finally:
            sales.stop.set()
            for thread in threads:
                thread.join()


def _key(release: _Release) -> str:
    account = release.run(
        "account", "create", "--email", f"{token_hex(4)}@example.test", "--full-name", "B", "--credits", 10**9
    )
    return str(release.run("key", "create", "--account", account["id"], "--scope", "meetings:write")["key"])


def _buy(url: str, key: str, sales: Sales) -> None:
    """Buy, list, read and cancel, one after another."""
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=30, trust_env=False) as http:
        for number in itertools.count():
            if sales.stop.wait(_PAUSE_S):
                return
            made = _ask(sales, http, "sales", "POST", "/meetings", _body(number))
            _ask(sales, http, "lists", "GET", "/meetings?limit=20")
            if made is not None:
                path = f"/meetings/{made.json()['id']}"
                _ask(sales, http, "reads", "GET", path)
                _ask(sales, http, "cancellations", "DELETE", path)


def _ask(
    sales: Sales, http: httpx.Client, name: str, method: str, path: str, body: object = None
) -> httpx.Response | None:
    headers = {} if method == "GET" else {"Idempotency-Key": token_hex(8)}
    begun = time.monotonic()
    try:
        answer = http.request(method, path, json=body, headers=headers)
    except httpx.TransportError as error:
        sales.refused[f"{name} {type(error).__name__}"] += 1
        return None
    sales.longest_s = max(sales.longest_s, time.monotonic() - begun)
    if not answer.is_success:
        sales.refused[f"{name} {answer.status_code}"] += 1
        return None
    sales.answered[name] += 1
    return answer


def _body(number: int) -> dict[str, object]:
    start = datetime.now(UTC) + timedelta(days=2, hours=number % _HOURS)
    return {
        "title": "Rapat", "date": f"{start:%Y-%m-%d}", "start_time": f"{start:%H:%M}",
        "pricing_tier_id": "standard-100",
    }  # fmt: skip


def _answers(url: str, child: subprocess.Popen[bytes]) -> bool:
    assert child.poll() is None, "the release ended"
    try:
        return httpx.get(f"{url}/readyz", timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
