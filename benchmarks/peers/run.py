"""What is compared with which peer, and the table of it."""

import argparse
import os
import secrets
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import frozen

from benchmarks.deliveries import measure_deliveries, place
from benchmarks.peers.environment import peers_python, run_load
from benchmarks.places import REDIS_URL, database_server, empty_database, fresh_database
from benchmarks.report import Result, middle, show
from meetcore.domain.webhooks.signature import new_secret

CLIENTS = (1, 4, 16)
SPREAD = 64


@frozen
class Effort:
    """Rounds in which both sides alternate, seconds of a turn, posts of a turn, calls of a round."""

    rounds: int = 5
    seconds: float = 4.0
    posts: int = 4_000
    calls: int = 20_000
    clients: tuple[int, ...] = CLIENTS


FULL, SMOKE = Effort(), Effort(1, 0.4, 200, 200, (4,))


def _report(stage: str) -> None:
    print(stage, file=sys.stderr, flush=True)


def _alternate(rounds: int, *sides: Callable[[], dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """What each side yielded in each round; who begins changes from round to round."""
    found: list[list[dict[str, Any]]] = [[] for _ in sides]
    for number in range(rounds):
        order = list(enumerate(sides))
        for place_, side in order if number % 2 == 0 else reversed(order):
            found[place_].append(side())
    return found


_OWN = {
    "charge": "charge",
    "top_up": "top up, with its event",
    "meeting": "reserve and settle a meeting",
}
"""What is measured of ours, by the way of `own_ledger_load`."""
_LOADS = (("spread", SPREAD), ("one account", 1))


def _ledgers(effort: Effort, python: str, server: str) -> list[Result]:
    """Ours, `credit-ledger` and the floor, by turns on one server, each in a database of its own."""
    results = []
    with fresh_database(server) as ours, empty_database(server) as theirs:
        for name, accounts in _LOADS:
            for clients in effort.clients:
                _report(f"charges, {name}, {clients} clients")
                load = (clients, accounts, effort.seconds)
                own = [partial(run_load, sys.executable, "own_ledger_load", ours, way, *load) for way in _OWN]
                others = [
                    partial(run_load, python, "credit_ledger_load", theirs, *load),
                    partial(run_load, sys.executable, "floor_load", theirs, *load),
                ]
                turns = _alternate(effort.rounds, *own, *others)
                results += _ledger_lines(f"{name}, {clients} clients", accounts > 1, turns)
    return results


def _ledger_lines(label: str, is_spread: bool, turns: list[list[dict[str, Any]]]) -> list[Result]:
    *own, peer, floor = (_rate(side) for side in turns)
    results = [
        Result(f"{text}, beside credit-ledger, {label}", rate, peer, "1/s", _goal(way, is_spread))
        for (way, text), rate in zip(_OWN.items(), own, strict=True)
    ]
    return [*results, Result(f"charge, beside one bare statement, {label}", own[0], floor, "1/s")]


def _goal(way: str, is_spread: bool) -> str:
    if way == "meeting":  # does what the peer does not: a key, a host, a meeting, an answer that is stored
        return ""
    return "ratio ≥ 1.5" if is_spread else "ratio ≥ 2"


def _rate(turns: list[dict[str, Any]]) -> float:
    return middle([each["count"] / each["seconds"] for each in turns])


def _webhooks(effort: Effort, python: str, server: str) -> list[Result]:
    with fresh_database(server) as url:
        ours, cpu = measure_deliveries(url, effort.rounds, effort.posts)[:2]
    results = []
    counter = f"peers-{secrets.token_hex(4)}"
    with place() as (ca_file, port, _):
        settings = {
            "PEERS_REDIS": REDIS_URL, "PEERS_URL": f"https://127.0.0.1:{port}/hook", "PEERS_CA": ca_file,
            "PEERS_SECRET": new_secret(os.urandom(32)), "PEERS_THREADS": "16", "PEERS_COUNTER": counter,
        }  # fmt: skip
        os.environ |= settings
        for package in ("dramatiq", "celery"):
            _report(f"webhooks by {package}")
            turns = [run_load(python, "plain_task", package, effort.posts) for _ in range(effort.rounds)]
            rate, cpu_us = (middle([each[name] for each in turns]) for name in ("per_s", "cpu_us"))
            results += [
                Result(
                    f"deliver webhooks, beside a task of {package}", ours.service, rate, "1/s", "ratio > 1"
                ),
                Result(f"deliver a webhook, CPU, beside {package}", cpu.service, cpu_us, "µs", "ratio < 1"),
            ]
    return results


def _rules(effort: Effort, python: str) -> list[Result]:
    secret = new_secret(bytes(range(32)))
    ours, theirs = _alternate(
        effort.rounds,
        lambda: run_load(sys.executable, "own_rules_load", secret, effort.calls),
        lambda: run_load(python, "rules_load", secret, effort.calls),
    )
    sign, count = (middle([each[name] for each in ours]) for name in ("sign", "count"))
    peers = {name: middle([each[name] for each in theirs]) for name in theirs[0]}
    return [
        Result("sign 1 KB, beside standardwebhooks", sign, peers["standardwebhooks"], "µs", "ratio < 1"),
        Result("sign 1 KB, beside svix", sign, peers["svix"], "µs", "ratio < 1"),
        Result("count and decide, beside limits", count, peers["limits"], "µs", "ratio < 1"),
    ]


def measure_peers(effort: Effort) -> list[Result]:
    """Every line with ours as the service and the peer as the floor."""
    python = peers_python()
    with database_server() as server:
        results = _ledgers(effort, python, server)
        _report("webhooks")
        results += _webhooks(effort, python, server)
    _report("signatures and windows")
    return [*results, *_rules(effort, python)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="figures that say nothing: whether it works")
    asked = parser.parse_args()
    began = time.monotonic()
    results = measure_peers(SMOKE if asked.smoke else FULL)
    show(results)
    print(f"\n{len(results)} results, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
