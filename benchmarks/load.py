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
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import uuid4

import uvloop
from attrs import asdict, frozen

from benchmarks.processes import ROOT, Program, cpu_s

__all__ = ["Load", "run_load"]

CLIENTS = 8


@frozen
class Load:
    """The result of a load. Latencies in ms, CPU of the server's process."""

    requests: int
    seconds: float
    cpu_us_per_request: float
    p50_ms: float
    p99_ms: float
    statuses: dict[str, int]

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


def run_load(
    program: Program, kind: str, keys: list[str], *, seconds: float = 60.0, requests: int = 10**9,
    clients: int = CLIENTS,
) -> Load:  # fmt: skip
    """Load a server over so many connections until time or number is up.

    With `GET /me` ("me"), `GET /meetings` ("lists") or `POST /meetings` ("meetings"), or with the tools that
    do the same as the first and the last ("tool_me", "tool_meetings"). With `GET /credits` ("credits"),
    `GET /meetings/{id}` ("meeting") or any `GET` ("gets"), where each key is followed by a space and the end
    of the path: the id of a meeting, or all of it below /api/v1.

    Raises:
        RuntimeError: an answer was not the one that is measured.
    """
    plan = {
        "pid": program.pid, "port": program.port, "kind": kind, "keys": keys, "seconds": seconds,
        "requests": requests, "clients": clients,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load"], input=json.dumps(plan),
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds + 60,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    load = Load(**json.loads(done.stdout))
    if set(load.statuses) - {"200", "201"}:
        raise RuntimeError(f"{kind} was answered with {load.statuses}")
    return load


def _get(path: str) -> Callable[[list[str]], Callable[[], bytes]]:
    """Return a maker of requests. What follows a key after a space stands at the end of the path."""

    def of(keys: list[str]) -> Callable[[], bytes]:
        def make() -> bytes:
            key, _, id_ = random.choice(keys).partition(" ")
            return (
                f"GET /api/v1{path}{id_} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n\r\n"
            ).encode()

        return make

    return of


def _meeting_body() -> Callable[[], str]:
    today = datetime.now(UTC)

    def make() -> str:
        day = (today + timedelta(days=random.randint(2, 360))).strftime("%Y-%m-%d")
        time_of_day = f"{random.randint(0, 23):02}:{random.randint(0, 59):02}"
        return (
            f'{{"title":"Weekly planning","date":"{day}","start_time":"{time_of_day}",'
            '"pricing_tier_id":"standard-100","mic_off":true}'
        )

    return make


def _meetings(keys: list[str]) -> Callable[[], bytes]:
    make_body = _meeting_body()

    def make() -> bytes:
        body = make_body()
        return (
            "POST /api/v1/meetings HTTP/1.1\r\nhost: 127.0.0.1\r\n"
            f"authorization: Bearer {random.choice(keys)}\r\n"
            f"content-type: application/json\r\nidempotency-key: {uuid4()}\r\n"
            f"content-length: {len(body)}\r\n\r\n{body}"
        ).encode()

    return make


def _tool(key: str, name: str, arguments: str) -> bytes:
    body = (
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
        f'{{"name":"{name}","arguments":{arguments}}}}}'
    )
    return (
        f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n"
        "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2025-11-25\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}"
    ).encode()


def _tool_me(keys: list[str]) -> Callable[[], bytes]:
    return lambda: _tool(random.choice(keys), "get_me", "{}")


def _tool_meetings(keys: list[str]) -> Callable[[], bytes]:
    body = _meeting_body()
    return lambda: _tool(
        random.choice(keys), "create_meeting", f'{{"idempotency_key":"{uuid4()}",{body()[1:]}'
    )


class _Client(asyncio.Protocol):
    """One connection: the next request leaves when the answer is complete."""

    def __init__(self, make: Callable[[], bytes], tally: "_Tally") -> None:
        self._make = make
        self._tally = tally
        self._buffer = b""
        self._sent = 0.0
        self._transport: asyncio.Transport | None = None
        self.finished = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self) -> None:
        assert self._transport is not None
        self._sent = time.perf_counter()
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
        status = "a refusal" if b'"isError":true' in body else head[9:12].decode()
        if self._tally.note(status, time.perf_counter() - self._sent):
            self.send()
        elif not self.finished.done():
            self.finished.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.finished.done():
            self.finished.set_exception(exc or ConnectionError("the server hung up"))


class _Tally:
    def __init__(self, seconds: float, requests: int, clients: int) -> None:
        self._until = time.perf_counter() + seconds
        self._most = requests - clients  # so many more leave when the last is noted
        self.statuses: Counter[str] = Counter()
        self.latencies: list[float] = []

    def note(self, status: str, took_s: float) -> bool:
        self.statuses[status] += 1
        self.latencies.append(took_s)
        return len(self.latencies) <= self._most and time.perf_counter() < self._until


async def _generate(plan: dict[str, Any]) -> Load:
    kinds = {
        "me": _get("/me"),
        "credits": _get("/credits"),
        "meeting": _get("/meetings/"),
        "lists": _get("/meetings"),
        "gets": _get(""),
        "meetings": _meetings,
        "tool_me": _tool_me,
        "tool_meetings": _tool_meetings,
    }
    make = kinds[plan["kind"]](plan["keys"])
    loop = asyncio.get_running_loop()
    tally = _Tally(plan["seconds"], plan["requests"], plan["clients"])
    clients = [
        (await loop.create_connection(lambda: _Client(make, tally), "127.0.0.1", plan["port"]))[1]
        for _ in range(plan["clients"])
    ]
    cpu, started = cpu_s(plan["pid"]), time.perf_counter()
    for client in clients:
        client.send()
    await asyncio.gather(*(client.finished for client in clients))
    seconds, cpu = time.perf_counter() - started, cpu_s(plan["pid"]) - cpu
    count, ordered = len(tally.latencies), sorted(tally.latencies)
    p50, p99 = (ordered[int(count * share)] * 1000 for share in (0.5, 0.99))
    return Load(count, seconds, cpu / count * 1e6, p50, p99, dict(tally.statuses))


if __name__ == "__main__":
    print(json.dumps(asdict(uvloop.run(_generate(json.load(sys.stdin))))))
