"""`GET /me` of one account while another client strains the service, beside the same without it."""

import asyncio
import http.client
import time
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import Final

from benchmarks.ledger import fill_ledger
from benchmarks.pages import COOKIE, sign_in
from benchmarks.processes import Program
from benchmarks.report import Result, alternate, medians
from benchmarks.servers import Account, Place, place, seed
from benchmarks.strain import Strain, strained

__all__ = ["measure_neighbours"]

_PAUSE_S: Final = 0.01


def measure_neighbours(entries: int = 150_000, rounds: int = 7, requests: int = 300) -> list[Result]:
    """Measure the p95 in ms of so many requests a round; the downloaded ledger has so many entries."""
    with place() as where:
        attacker, other = seed(where, 2)
        fill_ledger(where, [attacker], 2 * entries)
        where.execute("VACUUM ANALYZE")
        strains = _strains(asyncio.run(_cookie(where, attacker)))
        with where.serve() as service:
            measure = partial(_p95, service, other, requests)
            sides = {name: partial(measure, strain) for name, strain in strains.items()}
            taken = medians(alternate(rounds, {"quiet": measure, **sides}))
    return [Result(name, taken[name], taken["quiet"], "ms", "ratio ≤ 2") for name in strains]


def _strains(cookie: str) -> Mapping[str, Strain]:
    file = f"GET /dashboard/ledger.csv HTTP/1.1\r\ncookie: {cookie}\r\nconnection: close"
    key = "GET /api/v1/me HTTP/1.1\r\nauthorization: Bearer short"
    return {
        "GET /me beside 20 downloads of a ledger": Strain(20, file),
        "GET /me beside 50 connections on a page": Strain(50, "GET /dashboard/sign-in HTTP/1.1"),
        "GET /me beside 50 with a malformed key": Strain(50, key),
    }


async def _cookie(where: Place, account: Account) -> str:
    async with where.application() as application:
        return f"{COOKIE}={await sign_in(application, account)}"


def _p95(service: Program, account: Account, requests: int, strain: Strain | None = None) -> float:
    """Return the p95 in ms of an account's requests, one after another over one connection."""
    taken = []
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
    with nullcontext() if strain is None else strained(service, strain):
        for _ in range(requests):
            began = time.perf_counter()
            connection.request("GET", "/api/v1/me", headers={"Authorization": f"Bearer {account.key}"})
            answer = connection.getresponse()
            answer.read()
            taken.append((time.perf_counter() - began) * 1000)
            if answer.status != http.client.OK:
                raise RuntimeError(f"GET /me answers {answer.status}")
            time.sleep(_PAUSE_S)
    connection.close()
    return sorted(taken)[len(taken) * 95 // 100]
