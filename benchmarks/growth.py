"""What one operation costs as tables grow: the same at few rows and at many of each table that it reads or
writes.

A database for each size stands beside the other, with a service of its own, and they take turns. The first of
the accounts has half of everything. `measure_weight`: what one costs PostgreSQL, however busy the machine.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from statistics import median

import httpx
import psycopg
import uvloop
from attrs import evolve, frozen

from benchmarks.api import a_meeting
from benchmarks.ledger import fill_ledger, verify
from benchmarks.load import gets, meetings
from benchmarks.processes import Program, cpu_s
from benchmarks.report import Result, alternate
from benchmarks.rows import DELIVERIES, EVENTS, IDEMPOTENCY_KEYS, MEETINGS, fill
from benchmarks.servers import ACCOUNTS, Account, Endpoint, Place, add_endpoints, place, seed
from benchmarks.webhooks import Events
from meetcore.composition.application import Part
from meetcore.composition.infrastructure import open_application
from meetcore.domain.webhooks.deliveries import Attempt
from meetcore.usecases.webhooks.deliver import PostResult

__all__ = ["measure_growth", "measure_weight"]

_LISTS = ("/meetings", "/credits/transactions")
_PAGES = 10
_CLAIMED = 200


@frozen
class _Grown:
    """A database of a size, and the service on it."""

    where: Place
    accounts: Sequence[Account]
    endpoints: Sequence[Endpoint]
    service: Program


def measure_growth(
    sizes: tuple[int, int] = (10_000, 10_000_000), rounds: int = 5, seconds: float = 4,
    deliveries: int = 2_000, accounts: int = ACCOUNTS,
) -> list[Result]:  # fmt: skip
    """Measure ms of the machine for each operation at the most rows, beside those at the fewest."""
    with ExitStack() as stack:
        few, many = (_grow(stack, rows, accounts) for rows in sizes)
        sides = {
            name: partial(_costs, each, list(_lists(each)), seconds, deliveries)
            for name, each in (("few", few), ("many", many))
        }
        alternate(1, sides)  # statements are prepared
        taken = alternate(rounds, sides)
    results = []
    for name in taken["few"][0]:
        most, fewest = (median(turn[name] for turn in taken[side]) for side in ("many", "few"))
        results.append(Result(name, most, fewest, "ms", "ratio ≤ 1.2"))
    return results


def _grow(stack: ExitStack, rows: int, number: int) -> _Grown:
    where = stack.enter_context(place())
    accounts = seed(where, number)

    endpoints = asyncio.run(_register(where, accounts))
    fill_ledger(where, accounts, rows // 2)  # an entry has two rows
    for table in (MEETINGS, EVENTS, DELIVERIES, IDEMPOTENCY_KEYS):
        fill(where, table, rows, accounts, endpoints)
    where.execute("VACUUM ANALYZE", "CHECKPOINT")
    return _Grown(where, accounts, endpoints, stack.enter_context(where.serve()))


async def _register(where: Place, accounts: Sequence[Account]) -> list[Endpoint]:
    async with where.application() as application:
        return await add_endpoints(application, accounts, ["/hook"] * len(accounts), ["hooks.test"])


def _lists(grown: _Grown) -> Iterator[list[tuple[str, str]]]:
    """Of each list the first page of every account, and the next ones of the account that has half of
    everything."""
    url = f"http://127.0.0.1:{grown.service.port}/api/v1"
    first = grown.accounts[0].key
    with httpx.Client(headers={"authorization": f"Bearer {first}"}, trust_env=False) as http:
        for path in _LISTS:
            pages, next_ = [(each.key, path) for each in grown.accounts], path
            for _ in range(_PAGES):
                cursor = http.get(f"{url}{next_}").raise_for_status().json()["next_cursor"]
                if not cursor:
                    break
                next_ = f"{path}?cursor={cursor}"
                pages.append((first, next_))
            yield pages


def _costs(
    grown: _Grown, lists: Sequence[list[tuple[str, str]]], seconds: float, deliveries: int
) -> dict[str, float]:
    """Milliseconds that an operation takes of the machine, as eight clients or a worker keep it busy."""
    keys = [each.key for each in grown.accounts]
    costs = {"POST /meetings": 1000 / meetings(grown.service, keys, seconds=seconds).rate}
    for path, requests in zip(_LISTS, lists, strict=True):
        costs[f"GET {path}"] = 1000 / gets(grown.service, requests, seconds=seconds / 2).rate
    costs["claim and record a delivery"] = uvloop.run(_deliver(grown, deliveries))
    costs["credits verify, of an entry"] = 1000 / verify(grown.where)
    return costs


async def _deliver(grown: _Grown, count: int) -> float:
    """Claim and record so many deliveries as a worker does that posts in no time; ms of one."""
    Events(grown.where, grown.endpoints).write(
        [grown.endpoints[n % len(grown.endpoints)] for n in range(count)]
    )
    settings = grown.where.settings(webhook_posts_per_host=32_000)
    recorded, began = 0, time.perf_counter()
    async with open_application(settings, parts=[Part.WEBHOOKS]) as application:
        assert application.deliver is not None
        limits = evolve(application.deliver.limits, per_endpoint=1000, per_account=100_000)
        deliver = evolve(application.deliver, limits=limits)
        began = time.perf_counter()
        while claimed := await deliver.claim(_CLAIMED):
            now = datetime.now(UTC)
            await deliver.record([PostResult(one, now, Attempt(now, 20, 200)) for one in claimed])
            recorded += len(claimed)
    if recorded < count:
        raise RuntimeError(f"{recorded} of {count} deliveries were claimed")
    return (time.perf_counter() - began) * 1000 / recorded


_BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
_HOT = "SELECT relname, 100.0 * n_tup_hot_upd / n_tup_upd FROM pg_stat_user_tables WHERE n_tup_upd >= %s"


def measure_weight(count: int = 2_000, accounts: int = ACCOUNTS) -> list[Result]:
    """Measure WAL and the server's processor time for one operation, and the share of HOT updates."""
    results: list[Result] = []
    with place() as where, psycopg.connect(where.database_url, autocommit=True) as connection:
        owners = seed(where, accounts)

        def spent() -> tuple[float, float]:
            [wal] = connection.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone() or [0]
            return float(wal), sum(cpu_s(pid) for (pid,) in connection.execute(_BACKENDS))

        def weigh(name: str, goal: str, operate: Callable[[int], object]) -> None:
            operate(count // 4)  # plans are made, and pages are in the log since the checkpoint
            before, _ = spent(), operate(count)
            while (after := spent())[0] == before[0]:  # the log of requests is written after the answers
                time.sleep(0.1)
            wal, cpu_us = ((b - a) / count for a, b in zip(before, after, strict=True))
            results.append(Result(f"{name}: WAL", wal, None, "B", goal, cpu_us * 1e6 or None))

        where.execute("VACUUM ANALYZE", "CHECKPOINT")
        with where.serve() as service:
            keys = [each.key for each in owners]
            weigh("a sale", "≤ 6000 B; CPU ≤ 1500 µs", lambda n: meetings(service, keys, count=n))
            paths = [(key, path) for key in keys for path in a_meeting(service, key)]
            weigh("GET /meetings/{id}", "", lambda n: gets(service, paths, count=n))
        grown = _Grown(where, owners, asyncio.run(_register(where, owners)), service)
        weigh("an event, its delivery and its record", "", lambda n: uvloop.run(_deliver(grown, n)))
        connection.execute("SELECT pg_stat_force_next_flush()")
        shares = ", ".join(f"{table} {share:.0f} %" for table, share in connection.execute(_HOT, [count]))
    return [*results[:-1], evolve(results[-1], note=f"HOT updates: {shares}")]
