"""The API under load: reads beside a bare route, creations beside pgbench, a hot account, and memory."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from statistics import median

import httpx

from benchmarks.floor import prepared
from benchmarks.load import Load, gets, meetings
from benchmarks.processes import Program, running
from benchmarks.report import Result, alternate
from benchmarks.servers import ACCOUNTS, place, seed

BUSY_CLIENTS = 16
_NO_FLOOR = "pgbench is not installed here, hence no floor; it comes with the server's packages"


def measure_api(rounds: int, seconds: float, requests: int, accounts: int = ACCOUNTS) -> list[Result]:
    """Measure the service on a database of its own, in turns with floors on another one.

    Args:
        rounds: how often both sides take turns.
        seconds: the length of a turn.
        requests: how many are sent before memory is measured.
        accounts: how many the requests are of.
    """
    with ExitStack() as stack:
        ours, floors = (stack.enter_context(place()) for _ in range(2))
        mine, others = seed(ours, accounts), seed(floors, accounts)
        floor = stack.enter_context(prepared(floors, others))
        ours.execute("VACUUM ANALYZE")
        service = stack.enter_context(ours.serve())
        bare = stack.enter_context(running("benchmarks.bare", floors.database_url, others[0].id))
        keys = [each.key for each in mine]
        memory = _memory(service, bare, keys, requests)
        return [
            *_creations(service, keys, floor, rounds, seconds),
            _hot_account(service, keys, rounds, seconds),
            *_reads(service, bare, keys, rounds, seconds),
            memory,
        ]


def _memory(service: Program, bare: Program, keys: Sequence[str], requests: int) -> Result:
    me = [(key, "/me") for key in keys]
    gets(service, me, count=requests // 2)
    meetings(service, keys, count=requests // 2)
    gets(bare, me, count=requests)
    return Result("memory of `meetcore serve`", service.memory_mb(), bare.memory_mb(), "MB", "≤ 120 MB")


def _creations(
    service: Program, keys: Sequence[str], floor: Callable[[float], float] | None, rounds: int, seconds: float
) -> list[Result]:
    loads: list[Load] = []

    def create() -> float:
        loads.append(meetings(service, keys, seconds=seconds))
        return loads[-1].rate

    sides = {"ours": create} | ({} if floor is None else {"floor": partial(floor, seconds)})
    taken = alternate(rounds, sides)
    pgbench = median(taken["floor"]) if floor else None
    cpu_us = median(each.cpu_us for each in loads)
    goal, note = "ratio ≥ 0.6; CPU ≤ 1800 µs", "" if floor else _NO_FLOOR
    return [Result("POST /meetings", median(taken["ours"]), pgbench, "requests/s", goal, cpu_us, note=note)]


def _hot_account(service: Program, keys: Sequence[str], rounds: int, seconds: float) -> Result:
    sides = {
        name: partial(meetings, service, some, seconds=seconds, clients=BUSY_CLIENTS)
        for name, some in (("one", keys[:1]), ("many", keys[:BUSY_CLIENTS]))
    }
    name = f"POST /meetings, {BUSY_CLIENTS} clients on one account; floor: on {BUSY_CLIENTS}"
    taken = alternate(rounds, sides)
    return _of_loads(name, taken["one"], taken["many"], "ratio ≥ 0.8")


def _reads(service: Program, bare: Program, keys: Sequence[str], rounds: int, seconds: float) -> list[Result]:
    pages = {"GET /me": [(key, "/me") for key in keys], "GET /credits": [(key, "/credits") for key in keys]}
    pages["GET /meetings/{id}"] = [(key, path) for key in keys for path in a_meeting(service, key)]
    sides = {name: partial(gets, service, each, seconds=seconds) for name, each in pages.items()}
    sides["bare"] = partial(gets, bare, pages["GET /me"], seconds=seconds)
    alternate(1, {name: partial(side, count=500) for name, side in sides.items()})
    taken = alternate(rounds, sides)
    return [_of_loads(name, taken[name], taken["bare"], "ratio ≥ 0.8") for name in pages]


def a_meeting(service: Program, key: str) -> list[str]:
    """The path of an account's newest meeting, if it has one."""
    url = f"http://127.0.0.1:{service.port}/api/v1/meetings?limit=1"
    answer = httpx.get(url, headers={"authorization": f"Bearer {key}"}, trust_env=False).raise_for_status()
    return [f"/meetings/{each['id']}" for each in answer.json()["data"]]


def _of_loads(name: str, ours: Sequence[Load], floor: Sequence[Load], goal: str) -> Result:
    rate, floor_rate = (median(each.rate for each in loads) for loads in (ours, floor))
    cpu_us, floor_cpu_us = (median(each.cpu_us for each in loads) for loads in (ours, floor))
    return Result(name, rate, floor_rate, "requests/s", goal, cpu_us, floor_cpu_us)
