"""`GET /me`, `GET /credits` and `GET /meetings/{id}` against a bare route with one SELECT."""

import json
import random
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Final

from benchmarks.load import Load, run_load
from benchmarks.processes import Program
from benchmarks.report import Result, middle
from benchmarks.seeds import SeededAccounts

__all__ = ["measure_reads"]

READS: Final = {"me": "GET /me", "credits": "GET /credits", "meeting": "GET /meetings/{id}"}
_BARE: Final = "me"


def measure_reads(
    service: Program, bare: Program, seeded: SeededAccounts, rounds: int, seconds: float
) -> list[Result]:
    """Return the medians of turns whose order alternates. The floor of each read is the same bare route."""
    keys = dict.fromkeys(READS, seeded.keys)
    keys["meeting"] = [f"{key} {_make_meeting(service, key)}" for key in seeded.keys]
    turns = [(service, kind, keys[kind]) for kind in READS]
    turns.append((bare, _BARE, seeded.keys))
    taken: list[list[Load]] = [[] for _ in turns]
    for program, kind, given in turns:
        run_load(program, kind, given, requests=500)
    for number in range(rounds):
        for place in range(len(turns)) if number % 2 else reversed(range(len(turns))):
            program, kind, given = turns[place]
            taken[place].append(run_load(program, kind, given, seconds=seconds))
    return [_result(name, loads, taken[-1]) for name, loads in zip(READS.values(), taken[:-1], strict=True)]


def _result(name: str, loads: list[Load], floor: list[Load]) -> Result:
    extra = {
        "cpu_us_per_request": middle([load.cpu_us_per_request for load in loads]),
        "floor_cpu_us_per_request": middle([load.cpu_us_per_request for load in floor]),
        "p50_ms": middle([load.p50_ms for load in loads]),
        "p99_ms": middle([load.p99_ms for load in loads]),
    }
    rate, floor_rate = (middle([load.rate for load in each]) for each in (loads, floor))
    return Result(name, rate, floor_rate, "requests/s", "ratio ≥ 0.8", extra)


def _make_meeting(service: Program, key: str) -> str:
    day = datetime.now(UTC) + timedelta(days=random.randint(2, 360))
    body = {
        "title": "Read",
        "date": f"{day:%Y-%m-%d}",
        "start_time": "09:00",
        "pricing_tier_id": "standard-100",
    }
    connection = HTTPConnection("127.0.0.1", service.port, timeout=30)
    try:
        fields = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request("POST", "/api/v1/meetings", json.dumps(body), fields)
        answer = connection.getresponse()
        record = json.load(answer)
    finally:
        connection.close()
    if answer.status != HTTPStatus.CREATED:
        raise RuntimeError(f"the meeting to be read was answered with {answer.status}: {record}")
    return str(record["id"])
