"""`python -m tests.simulation --seeds 100`: run seeds, and name those that break a rule."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import asdict, evolve, frozen

from tests.simulation.database import SERVER, prepare
from tests.simulation.faults import Fault, shrink
from tests.simulation.plants import FOUND_WITHIN, PLANTS
from tests.simulation.run import Plan, Result, run
from tests.support import servers
from tests.support.own_postgres import own_postgres
from tests.support.postgres_rig import install_virtual_time

NOTHING = Result([], "", 0, 0, 0, 0.0, [], [])


@contextmanager
def prepared_server() -> Iterator[str]:
    """Run a server of one's own; yield the database that each run begins with a copy of."""
    with own_postgres(**SERVER) as server, servers.migrated_database(server.url) as template:
        install_virtual_time(template)
        prepare(template)
        yield template


def apart(
    template: str,
    seed: int,
    *,
    keeps_lines: bool = False,
    planted: str = "",
    only: Sequence[Fault] | None = None,
) -> Result:
    """Run a seed in a process of its own, on a database of its own; see `run`."""
    kept = None if only is None else frozenset((each.kind, each.number) for each in only)
    with servers.copied_database(template) as url:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            try:
                result = run(url, seed, Plan(), keeps_lines=keeps_lines, planted=planted, only=kept)
                with os.fdopen(write, "w") as out:
                    json.dump(asdict(result), out)
            except BaseException:  # noqa: BLE001  # the parent reports it
                traceback.print_exc()
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as answer:
            text = answer.read()
        os.waitpid(pid, 0)
    if not text:
        return evolve(NOTHING, faults=[f"seed {seed}: the run broke off"])
    found = json.loads(text)
    return Result(**found | {"struck": [Fault(**each) for each in found["struck"]]})


def differences(results: Sequence[Result]) -> Iterator[str]:
    """Describe where the traces of two runs part."""
    first, second = (each.lines for each in results)
    at = next((n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    if at is None:
        at = min(len(first), len(second))
    for name, lines in (("first", first), ("second", second)):
        yield from (f"  {name:6} {line}" for line in lines[max(0, at - 3) : at + 3])


@frozen
class Case:
    """A seed to run, `twice` to compare traces; or a plant that one of the seeds up to `within` must find."""

    seed: int
    plant: str = ""
    twice: bool = False
    within: int = 0


def tried(template: str, case: Case, options: argparse.Namespace) -> tuple[Result, list[str]]:
    """Run a case; return its result, and what to print of its faults."""
    results = [
        apart(template, case.seed, keeps_lines=options.lines, planted=case.plant)
        for _ in range(1 + case.twice)
    ]
    result, text = results[0], list[str]()
    if len({each.trace for each in results}) > 1:
        result.faults.append("two runs of the seed differ")
        text += differences(results) if options.lines else ()
    elif result.struck and result.faults and not case.within:
        text += shrunk(template, case, result, options)
    if result.faults:
        plant = f" --plant '{case.plant}'" if case.plant else ""
        text.append(f'  again: make simulate ARGS="--first {case.seed} --seeds 1{plant} --lines"')
    return result, text


def shrunk(template: str, case: Case, result: Result, options: argparse.Namespace) -> list[str]:
    """Describe which faults of a failing run are enough for it to fail."""

    def fails(only: Sequence[Fault]) -> bool:
        return bool(apart(template, case.seed, planted=case.plant, only=only).faults)

    left = shrink(result.struck, fails, options.shrink)
    text = [
        f"  of {len(result.struck)} faults {len(left)} are enough",
        *(f"    {each.text}" for each in left),
    ]
    if options.lines:
        text += apart(template, case.seed, keeps_lines=True, planted=case.plant, only=left).lines
    return text


def is_right(case: Case, result: Result) -> bool:
    """Return whether a plant was found, or nothing is wrong without one; a run that does nothing is wrong."""
    return result.requests > 0 and bool(result.faults) is bool(case.plant)


def searched(
    template: str, case: Case, options: argparse.Namespace, passing: dict[int, bool]
) -> tuple[Case, Result, list[str]]:
    """Run a case on one seed after the other that passes without its plant, until one finds the plant."""
    result, text = NOTHING, list[str]()
    for seed in range(case.seed, max(case.seed, case.within) + 1):
        case = evolve(case, seed=seed)
        if case.within and seed not in passing:
            passing[seed] = is_right(Case(seed), apart(template, seed))
        if not passing.get(seed, True):
            result, text = NOTHING, ["  the seed fails without the plant, too"]
            continue
        result, text = tried(template, case, options)
        if is_right(case, result):
            break
    return case, result, text


def work(cases: Sequence[Case], options: argparse.Namespace, results: multiprocessing.Queue[object]) -> None:
    """Run cases on a server of this process."""
    ends_at, passing = time.monotonic() + options.seconds, dict[int, bool]()
    try:
        with prepared_server() as template:
            for case in cases:
                if time.monotonic() > ends_at:
                    break
                results.put(searched(template, case, options, passing))
    finally:
        results.put(None)


def outcomes(cases: Sequence[Case], options: argparse.Namespace) -> Iterator[tuple[Case, Result, list[str]]]:
    """Run cases in processes side by side; yield what came of each."""
    results: multiprocessing.Queue[Any] = multiprocessing.Queue()
    jobs = [
        multiprocessing.Process(target=work, args=(cases[job :: options.jobs], options, results))
        for job in range(options.jobs)
    ]
    for each in jobs:
        each.start()
    running = len(jobs)
    while running:
        found = results.get()
        if found is None:
            running -= 1
        else:
            yield found
    for each in jobs:
        each.join()
        if each.exitcode:
            raise SystemExit(each.exitcode)


def chosen(options: argparse.Namespace) -> list[Case]:
    """Return the cases to run."""
    if options.plants:
        return [Case(1, name, within=within) for name, within in FOUND_WITHIN.items()]
    seeds = range(options.first, options.first + options.seeds)
    return [Case(seed, options.plant, seed - options.first < options.twice) for seed in seeds]


def main() -> int:
    """Run cases; return 1 where a seed fails without a plant, or passes with one."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no seed after so long")
    parser.add_argument("--twice", type=int, default=2, help="of so many seeds two runs are compared")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with a server of its own")
    parser.add_argument("--plant", default="", choices=["", *PLANTS], help="a fault to find")
    parser.add_argument(
        "--plants", action="store_true", help="each plant, on as many seeds as plants.py says"
    )
    parser.add_argument("--shrink", type=int, default=60, help="runs to find which faults a failure needs")
    parser.add_argument("--lines", action="store_true", help="show traces of failures")
    options = parser.parse_args()
    began, seeds, wrong, requests = time.monotonic(), 0, 0, 0
    for case, result, text in outcomes(chosen(options), options):
        is_wrong = not is_right(case, result)
        seeds, wrong, requests = seeds + 1, wrong + is_wrong, requests + result.requests
        print(
            f"seed {case.seed}{' with ' + case.plant if case.plant else ''}: {result.requests} requests, "
            f"{result.statements} statements, {len(result.struck)} faults, {result.virtual_s:.0f} virtual s, "
            f"trace {result.trace}{': wrong' if is_wrong else ''}",
            flush=True,
        )
        for line in (*(f"  {each}" for each in result.faults), *text):
            print(line, flush=True)
    took_s = time.monotonic() - began
    pace = requests / took_s
    print(f"{seeds} seeds, {wrong} wrong, {requests} requests in {took_s:.0f} s, {pace:.1f} a second")
    return 1 if wrong else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            os.environ | {"PYTHONHASHSEED": "0"},
        )
    raise SystemExit(main())
