"""The load generator: some keep-alive connections, each with one request under way.

A process of its own, so that it does not share the processor time that is measured; a raw protocol, so that
it is cheaper than what it measures. Reads its plan as JSON from standard input and prints the result.
"""

import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import uuid4

import uvloop
from attrs import asdict, frozen

from benchmarks.processes import ROOT, Program, cpu_s

__all__ = ["CLIENTS", "Load", "gets", "meetings"]

CLIENTS = 8


@frozen
class Load:
    """What a load measured; the processor time is that of the server's process, for one request."""

    requests: int
    seconds: float
    cpu_us: float

    @property
    def rate(self) -> float:
        """Requests in a second."""
        return self.requests / self.seconds


def gets(
    program: Program, requests: Sequence[tuple[str, str]], *, seconds: float = 60, count: int = 10**9
) -> Load:
    """Send GETs of random pairs of a key and a path below /api/v1."""
    return _load(program, {"gets": requests, "seconds": seconds, "count": count, "clients": CLIENTS})


def meetings(
    program: Program, keys: Sequence[str], *, seconds: float = 60, count: int = 10**9, clients: int = CLIENTS
) -> Load:
    """Send `POST /meetings` with random keys, each with an idempotency key and a random time of its own."""
    return _load(program, {"meetings": keys, "seconds": seconds, "count": count, "clients": clients})


def _load(program: Program, plan: dict[str, Any]) -> Load:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load"], input=json.dumps(plan | asdict(program)),
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=plan["seconds"] + 60,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    return Load(**json.loads(done.stdout))


def _get(requests: Sequence[tuple[str, str]]) -> bytes:
    key, path = random.choice(requests)
    return f"GET /api/v1{path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n\r\n".encode()


def _post(keys: Sequence[str]) -> bytes:
    day = datetime.now(UTC) + timedelta(days=random.randint(2, 360))
    body = (
        f'{{"title":"Weekly planning","date":"{day:%Y-%m-%d}","pricing_tier_id":"standard-100",'
        f'"mic_off":true,"start_time":"{random.randint(0, 23):02}:{random.randint(0, 59):02}"}}'
    )
    return (
        "POST /api/v1/meetings HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        f"authorization: Bearer {random.choice(keys)}\r\ncontent-type: application/json\r\n"
        f"idempotency-key: {uuid4()}\r\ncontent-length: {len(body)}\r\n\r\n{body}"
    ).encode()


class _Client(asyncio.Protocol):
    """One connection: the next request leaves when the answer is complete."""

    def __init__(self, make: Callable[[], bytes], tally: "_Tally") -> None:
        self._make = make
        self._tally = tally
        self._buffer = b""
        self.finished = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self) -> None:
        self._transport.write(self._make())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        self._buffer = b""
        if self._tally.goes_on(head[9:12].decode()):
            self.send()
        elif not self.finished.done():
            self.finished.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.finished.done():
            self.finished.set_exception(exc or ConnectionError("the server hung up"))


class _Tally:
    def __init__(self, plan: dict[str, Any]) -> None:
        self._until: float = time.perf_counter() + plan["seconds"]
        self._most: int = plan["count"] - plan["clients"]  # as many more leave when the last is noted
        self.statuses: Counter[str] = Counter()

    def goes_on(self, status: str) -> bool:
        self.statuses[status] += 1
        return self.statuses.total() <= self._most and time.perf_counter() < self._until


async def _generate(plan: dict[str, Any]) -> Load:
    def make() -> bytes:
        return _get(plan["gets"]) if "gets" in plan else _post(plan["meetings"])

    loop, tally = asyncio.get_running_loop(), _Tally(plan)
    clients = [
        (await loop.create_connection(lambda: _Client(make, tally), "127.0.0.1", plan["port"]))[1]
        for _ in range(plan["clients"])
    ]
    cpu, started = cpu_s(plan["pid"]), time.perf_counter()
    for client in clients:
        client.send()
    await asyncio.gather(*(client.finished for client in clients))
    seconds, cpu = time.perf_counter() - started, cpu_s(plan["pid"]) - cpu
    if tally.statuses.keys() - {"200", "201"}:
        raise SystemExit(f"answered with {dict(tally.statuses)}")
    count = tally.statuses.total()
    return Load(count, seconds, cpu / count * 1e6)


if __name__ == "__main__":
    print(json.dumps(asdict(uvloop.run(_generate(json.load(sys.stdin))))))
