"""`python -m tests.simulation --seeds 100`: run seeds, and name those that break a rule."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback

from attrs import asdict

from tests.simulation.run import Plan, Result, run
from tests.support import servers
from tests.support.postgres_rig import install_virtual_time


def apart(url: str, seed: int, plan: Plan, *, keeps_lines: bool = False, planted: str = "") -> Result:
    """Run a seed in a process of its own, on a database of its own."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            with os.fdopen(write, "w") as out:
                json.dump(asdict(run(url, seed, plan, keeps_lines=keeps_lines, planted=planted)), out)
        except BaseException:  # noqa: BLE001  # the parent reports it
            traceback.print_exc()
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return (
        Result(**json.loads(text))
        if text
        else Result([f"seed {seed}: the run broke off"], "", 0, 0, 0, 0.0, [])
    )


def main() -> int:
    """Run seeds; return 1 where one of them fails."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument(
        "--twice", type=int, default=2, help="of so many seeds the traces of two runs are compared"
    )
    parser.add_argument("--lines", action="store_true")
    parser.add_argument("--plant", default="", help="a fault to find")
    options = parser.parse_args()
    server = os.environ["MEETCORE_TEST_DATABASE_URL"]
    began, failed, total = time.monotonic(), 0, 0
    for seed in range(options.first, options.first + options.seeds):
        results = []
        for _ in range(2 if seed - options.first < options.twice else 1):
            with servers.migrated_database(server) as url:
                install_virtual_time(url)
                results.append(apart(url, seed, Plan(), keeps_lines=options.lines, planted=options.plant))
        result = results[0]
        total += result.requests
        if len({each.trace for each in results}) > 1:
            result.faults.append("two runs of the seed differ")
            if options.lines:
                pairs = list(zip(results[0].lines, results[1].lines, strict=False))
                at = next((n for n, (a, b) in enumerate(pairs) if a != b), len(pairs))
                print(f"differ at {at}")
                for a, b in pairs[max(0, at - 5) : at + 5]:
                    print(f"  {a:60} | {b}")
        print(
            f"seed {seed}: {result.requests} requests, {result.steps} steps, {result.statements} statements, "
            f"{result.virtual_s:.0f} virtual s, trace {result.trace}"
        )
        for fault in result.faults:
            print(f"  {fault}")
        if options.lines and result.faults:
            print("\n".join(result.lines[-200:]))
        failed += bool(result.faults)
    servers.drop_databases()
    print(f"{options.seeds} seeds, {failed} failed, {total} requests in {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            os.environ | {"PYTHONHASHSEED": "0"},
        )
    raise SystemExit(main())
