"""Packages that do what we do, measured beside us on one server with the same durability.

The first run installs the group `peers` of pyproject.toml into a virtual environment of its own.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import uvloop

from benchmarks.processes import ROOT
from benchmarks.report import Result, alternate, medians
from benchmarks.servers import Account, Place, place, seed
from benchmarks.webhooks import measure_deliveries, receiving
from meetcore.domain.webhooks.signature import new_secret

__all__ = ["measure_peers"]

_TIMEOUT_S = 300


def measure_peers(
    rounds: int = 5, seconds: float = 4, posts: int = 4_000, clients: Sequence[int] = (1, 4, 16)
) -> list[Result]:
    """Measure charges beside `credit-ledger`, and deliveries beside tasks of dramatiq and Celery."""
    python = _install()
    with place() as ours, place() as theirs:
        accounts = seed(ours)
        results = [
            _charges(python, ours, theirs, accounts[:count], number, rounds, seconds)
            for count in (len(accounts), 1)
            for number in clients
        ]
    rate, cpu = measure_deliveries(rounds, posts)
    with place() as where, receiving() as (ca_file, port):
        for package in ("dramatiq", "celery"):
            settings = {
                "PEERS_REDIS": str(where.given["broker_url"]), "PEERS_URL": f"https://127.0.0.1:{port}/hook",
                "PEERS_CA": ca_file, "PEERS_SECRET": new_secret(bytes(range(32))),
            }  # fmt: skip
            turns = [_run(python, "peer_posts", package, posts, **settings) for _ in range(rounds)]
            per_s, cpu_us = (median(column) for column in zip(*turns, strict=True))
            name = f"deliver webhooks, beside a task of {package}"
            results.append(Result(name, rate.ours, per_s, "1/s", "ratio ≥ 1", cpu.ours, cpu_us))
    return results


def _install() -> str:
    """Return the Python of the peers' environment; versions of shared packages are our lock's."""
    directory = Path(sys.prefix) / "peers"
    python = str(directory / "bin" / "python")
    uv = [sys.executable, "-m", "uv", "--quiet"]
    if not directory.exists():
        subprocess.run([*uv, "venv", "--python", sys.executable, directory], check=True)
    packages = ["--group", "peers", "--constraints", "requirements/dev.txt"]
    subprocess.run([*uv, "pip", "install", "--python", python, *packages], check=True, cwd=ROOT)
    return python


def _run(python: str, program: str, *arguments: object, **settings: str) -> list[float]:
    """Run a program in the peers' environment, and read the figures that it prints."""
    command = [python, str(ROOT / "benchmarks" / f"{program}.py"), *map(str, arguments)]
    done = subprocess.run(
        command, env=os.environ | settings, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
    )
    if done.returncode:
        raise RuntimeError(f"{program} failed:\n{done.stderr[-2000:]}")
    return [float(each) for each in done.stdout.split()]


def _charges(
    python: str, ours: Place, theirs: Place, accounts: Sequence[Account], clients: int, rounds: int,
    seconds: float,
) -> Result:  # fmt: skip
    url = theirs.database_url
    taken = medians(
        alternate(
            rounds,
            {
                "ours": lambda: uvloop.run(_own_charges(ours, accounts, clients, seconds)),
                "theirs": lambda: _run(python, "peer_charges", url, clients, len(accounts), seconds)[0],
            },
        )
    )
    where = "one account" if len(accounts) == 1 else f"{len(accounts)} accounts"
    name = f"charge, beside `credit-ledger`, {where}, {clients} clients"
    goal = "ratio ≥ 2" if len(accounts) == 1 else "ratio ≥ 1.5"
    return Result(name, taken["ours"], taken["theirs"], "1/s", goal)


async def _own_charges(where: Place, accounts: Sequence[Account], clients: int, seconds: float) -> float:
    """Adjustments a second, each with an operation of its own, by so many tasks on one event loop."""
    made = 0
    async with where.application() as application:

        async def client(number: int, stop: float) -> None:
            nonlocal made
            while time.monotonic() < stop:
                account = accounts[number % len(accounts)]
                await application.administration.adjust(account.id, -1, "usage", os.urandom(16).hex())
                made += 1
                number += clients

        async def clients_until(stop: float) -> None:
            await asyncio.gather(*(client(number, stop) for number in range(clients)))

        await clients_until(time.monotonic() + 0.3)
        made, began = 0, time.monotonic()
        await clients_until(began + seconds)
        return made / (time.monotonic() - began)
