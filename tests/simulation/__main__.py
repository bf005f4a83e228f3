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

from attrs import asdict

from tests.simulation.database import SERVER, prepare
from tests.simulation.faults import Fault, shrink
from tests.simulation.run import Plan, Result, run
from tests.support import servers
from tests.support.own_postgres import own_postgres
from tests.support.postgres_rig import install_virtual_time


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
        return Result([f"seed {seed}: the run broke off"], "", 0, 0, 0, 0.0, [], [])
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


def tried(template: str, seed: int, options: argparse.Namespace, *, twice: bool) -> tuple[Result, list[str]]:
    """Run a seed; return what came of it, and what to print of its faults."""
    results = [
        apart(template, seed, keeps_lines=options.lines, planted=options.plant) for _ in range(1 + twice)
    ]
    result, text = results[0], list[str]()
    if len({each.trace for each in results}) > 1:
        result.faults.append("two runs of the seed differ")
        text += differences(results) if options.lines else ()
    elif result.faults and options.shrink:
        left = shrink(
            result.struck,
            lambda only: bool(apart(template, seed, planted=options.plant, only=only).faults),
            options.shrink,
        )
        text += [f"  of {len(result.struck)} faults these suffice:", *(f"    {each.text}" for each in left)]
        if options.lines:
            text += apart(template, seed, keeps_lines=True, planted=options.plant, only=left).lines
    if result.faults:
        plant = f" --plant '{options.plant}'" if options.plant else ""
        text.append(f"  again: python -m tests.simulation --first {seed} --seeds 1{plant} --lines")
    return result, text


def work(options: argparse.Namespace, job: int, results: multiprocessing.Queue[object]) -> None:
    """Run every so manieth seed on a server of this process."""
    ends_at = time.monotonic() + options.seconds
    try:
        with prepared_server() as template:
            for seed in range(options.first + job, options.first + options.seeds, options.jobs):
                if time.monotonic() > ends_at:
                    break
                twice = seed - options.first < options.twice
                results.put((seed, *tried(template, seed, options, twice=twice)))
    finally:
        results.put(None)


def main() -> int:
    """Run seeds; return 1 where one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no seed after so long")
    parser.add_argument("--twice", type=int, default=2, help="of so many seeds two runs are compared")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with a server of its own")
    parser.add_argument("--plant", default="", help="a fault to find, of tests/simulation/plants.py")
    parser.add_argument("--shrink", type=int, default=60, help="runs to find which faults a failure needs")
    parser.add_argument("--lines", action="store_true", help="show traces of failures")
    options = parser.parse_args()
    began, seeds, failed, total = time.monotonic(), 0, 0, 0
    results: multiprocessing.Queue[object] = multiprocessing.Queue()
    jobs = [multiprocessing.Process(target=work, args=(options, n, results)) for n in range(options.jobs)]
    for each in jobs:
        each.start()
    running = len(jobs)
    while running:
        found = results.get()
        if found is None:
            running -= 1
            continue
        assert isinstance(found, tuple)
        seed, result, text = found
        seeds, failed, total = seeds + 1, failed + bool(result.faults), total + result.requests
        print(
            f"seed {seed}: {result.requests} requests, {result.statements} statements, "
            f"{len(result.struck)} faults, {result.virtual_s:.0f} virtual s, trace {result.trace}"
        )
        for line in (*(f"  {each}" for each in result.faults), *text):
            print(line, flush=True)
    for each in jobs:
        each.join()
    took_s = time.monotonic() - began
    print(
        f"{seeds} seeds, {failed} failed, {total} requests in {took_s:.0f} s, {total / took_s:.1f} a second"
    )
    return 1 if failed or any(each.exitcode for each in jobs) else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            os.environ | {"PYTHONHASHSEED": "0"},
        )
    raise SystemExit(main())
