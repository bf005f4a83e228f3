"""What one operation costs as tables grow: the same on ten thousand, a million and ten million rows.

A database for each size, filled by `ledger_rows` and `table_rows` for the same sixty-four accounts, the first of which
has half of everything. So many rows each has in `meetings`, `ledger_entries` (two for each entry), `events`,
`deliveries`, `delivery_attempts` and `idempotency_keys`: the tables that keep what is over, and that the operations
read or write. What holds only what is under way (holds, reservations of hosts) is measured in `hosts`. The
databases stand side by side, each with a service of its own, and take turns.
"""

import asyncio
import base64
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from os import cpu_count
from uuid import UUID

import httpx
import psycopg
from attrs import frozen

from benchmarks import ledger_rows, table_rows
from benchmarks.audit import prove
from benchmarks.ledger_rows import Owner
from benchmarks.load import run_load
from benchmarks.partitions import NoCipher
from benchmarks.places import database_server, fresh_database, rate_store
from benchmarks.processes import Program, meetcore_serve
from benchmarks.report import Result, middle
from benchmarks.seeds import SeededAccounts, furnish, wired
from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.postgres.store import PostgresStore
from meetcore.adapters.system import SystemClock, SystemEntropy
from meetcore.domain.money.chain_keys import ChainKey
from meetcore.domain.webhooks.deliveries import Attempt
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.ports.deliveries import ClaimLimits
from meetcore.ports.webhook_sender import OutgoingPost
from meetcore.usecases.deliver_webhooks import DeliverWebhooks, Made
from meetcore.usecases.runtime import Runtime

__all__ = ["GrowthLoad", "measure_growth"]

GOAL = "ratio ≤ 1.2"
_SIZES = (10_000, 1_000_000, 10_000_000)
_CLAIMED = 200
_LIMITS = ClaimLimits(per_endpoint=1000, per_account=100_000, per_host=100_000, per_host_per_s=100_000)
# What takes longest begins first.
_TABLES = (table_rows.MEETINGS, table_rows.DELIVERIES, table_rows.EVENTS, table_rows.IDEMPOTENCY_KEYS)
_LISTS = {"GET /meetings": "/meetings", "GET /credits/transactions": "/credits/transactions"}
_PAGES = 10

# Deliveries that are due, each of an event of its own, spread over the endpoints.
_ADD_DUE = """
WITH made AS (
    SELECT e.account_id, e.id AS endpoint_id, now() - interval '1 minute' AS at, n,
        lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - 60000), 12, '0') || '7' AS lead
    FROM generate_series(1, %(due)s) AS n
    JOIN (SELECT *, row_number() OVER (ORDER BY account_id) AS place FROM webhook_endpoints) AS e
        ON e.place = 1 + n % (SELECT count(*) FROM webhook_endpoints)
), ids AS (
    SELECT *, (lead || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid AS event_id,
        (lead || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid AS id FROM made
), of_events AS (
    INSERT INTO events (account_id, id, kind, payload, created_at)
    SELECT account_id, event_id, 'meeting.created', repeat('x', 1000)::bytea, at FROM ids
)
INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, due_at, created_at)
SELECT account_id, id, endpoint_id, event_id, 'meeting.created', 'pending', at, at FROM ids
"""


@frozen
class GrowthLoad:
    """The sizes, the rounds in which they take turns, the seconds of a turn of requests, deliveries of a turn."""

    sizes: Sequence[int] = _SIZES
    rounds: int = 5
    seconds: float = 4.0
    deliveries: int = 2_000

    @classmethod
    def up_to(cls, rows: int) -> "GrowthLoad":
        """The sizes below this one, and it."""
        return cls((*(size for size in _SIZES if size < rows), rows))


@frozen
class Grown:
    """A database of a size: where it is, and what opens it."""

    rows: int
    url: str
    seeded: SeededAccounts
    chain_key: ChainKey


class _NoSender:
    """Stands where posts are sent; none is."""

    async def post(self, post: OutgoingPost) -> Attempt:
        raise RuntimeError(f"nothing is to be posted here, but {post.url} was")


def measure_growth(load: GrowthLoad, report: Callable[[str], None] = lambda stage: None) -> list[Result]:
    """The cost of each operation at the most rows, beside that at the fewest, and the curve between."""
    secrets_key = base64.urlsafe_b64encode(os.urandom(32)).decode()
    key_ids: set[UUID] = set()
    with ExitStack() as stack:
        server = stack.enter_context(database_server())
        redis_url = stack.enter_context(rate_store(key_ids))
        grown = []
        for rows in load.sizes:
            report(f"{rows:,} rows of each table")
            url = stack.enter_context(fresh_database(server))
            grown.append(make_grown(url, rows, redis_url, secrets_key))
            key_ids |= grown[-1].seeded.key_ids
        return measure_grown(grown, load, redis_url, secrets_key, report)


def make_grown(url: str, rows: int, redis_url: str, secrets_key: str) -> Grown:
    """Fill an empty database."""
    seeded, owners, chain_key = asyncio.run(_furnish(url, redis_url, secrets_key))
    half = rows // 2 // 2  # an entry has two rows
    small = max(1, half // len(owners[1:]))
    first, *others = owners
    ledger_rows.write_histories(url, [(first, half), *((each, small) for each in others)], chain_key)
    with psycopg.connect(url, autocommit=True) as connection:
        table_rows.add_endpoints(connection, owners, 1)
        with ThreadPoolExecutor(cpu_count() or 1) as pool:
            list(pool.map(lambda table: table_rows.fill(url, table, rows, owners), _TABLES))
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
    return Grown(rows, url, seeded, chain_key)


def measure_grown(
    grown: Sequence[Grown],
    load: GrowthLoad,
    redis_url: str,
    secrets_key: str,
    report: Callable[[str], None] = lambda stage: None,
) -> list[Result]:
    """Let databases of several sizes take turns at each operation."""
    costs: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    with ExitStack() as stack:
        services = {
            each.rows: stack.enter_context(meetcore_serve(each.url, redis_url, secrets_key)) for each in grown
        }
        pages = {each.rows: _warm(services[each.rows], each) for each in grown}
        for number in range(load.rounds):
            report(f"requests and deliveries, round {number + 1}")
            for each in _in_turn(grown, number):
                for name, ms in _requests(services[each.rows], each, pages[each.rows], load.seconds).items():
                    costs[name][each.rows].append(ms)
                costs["claim and record a delivery"][each.rows].append(
                    asyncio.run(_deliver(each.url, load.deliveries))
                )
    for number in range(load.rounds):
        report(f"the ledger, round {number + 1}")
        for each in _in_turn(grown, number):
            rate = asyncio.run(prove(each.url, each.chain_key))
            costs["credits verify, of an entry"][each.rows].append(1000 / rate)
    return [_result(name, of_sizes) for name, of_sizes in costs.items()]


def _in_turn(grown: Sequence[Grown], number: int) -> Sequence[Grown]:
    return grown if number % 2 == 0 else grown[::-1]


def _result(name: str, costs: dict[int, list[float]]) -> Result:
    curve = [(rows, middle(found)) for rows, found in sorted(costs.items())]
    extra = {"curve": curve, "note": "; ".join(f"{rows:,} rows: {cost:.4g} ms" for rows, cost in curve)}
    return Result(name, curve[-1][1], curve[0][1], "ms", GOAL, extra)


async def _furnish(
    url: str, redis_url: str, secrets_key: str
) -> tuple[SeededAccounts, list[Owner], ChainKey]:
    async with wired(url, redis_url, secrets_key) as application:
        seeded = await furnish(application)
        chain_key = application.runtime.chain_key
        assert chain_key is not None
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT account_id, id FROM api_keys ORDER BY account_id").fetchall()
    return seeded, [Owner(*row) for row in rows], chain_key


def _warm(service: Program, grown: Grown) -> dict[str, list[str]]:
    """Let statements be prepared; the pages of each list that are asked for, with their keys."""
    run_load(service, "meetings", grown.seeded.keys, requests=200)
    asyncio.run(_deliver(grown.url, _CLAIMED))
    pages = {name: list(_pages(service, grown.seeded.keys, path)) for name, path in _LISTS.items()}
    for each in pages.values():
        run_load(service, "gets", each, requests=200)
    return pages


def _pages(service: Program, keys: Sequence[str], path: str) -> Iterator[str]:
    """The first page of every account, and the next ones of the account that has half of everything."""
    yield from (f"{key} {path}" for key in keys)
    next_ = path
    with httpx.Client(
        base_url=f"http://127.0.0.1:{service.port}/api/v1", headers={"authorization": f"Bearer {keys[0]}"}
    ) as http:
        for _ in range(_PAGES):
            answer = http.get(next_).raise_for_status().json()
            if not answer["next_cursor"]:
                return
            next_ = f"{path}?cursor={answer['next_cursor']}"
            yield f"{keys[0]} {next_}"


def _requests(
    service: Program, grown: Grown, pages: Mapping[str, list[str]], seconds: float
) -> dict[str, float]:
    """Milliseconds that a request of each kind takes of the machine, as eight clients keep it busy."""
    loads = {"POST /meetings": run_load(service, "meetings", grown.seeded.keys, seconds=seconds)}
    loads |= {name: run_load(service, "gets", each, seconds=seconds / 2) for name, each in pages.items()}
    return {name: 1000 / load.rate for name, load in loads.items()}


async def _deliver(url: str, count: int) -> float:
    """Claim and record so many deliveries as a worker does that posts in no time; ms of one."""
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute(_ADD_DUE.replace(" % ", " %% ").encode(), {"due": count})
    pool = make_pool(url, max_size=2)
    await pool.open()
    deliver = DeliverWebhooks(
        PostgresStore(pool, NoCipher()), _NoSender(), RetrySchedule(), Runtime(SystemClock(), SystemEntropy()),
        limits=_LIMITS,
    )  # fmt: skip
    try:
        recorded, began = 0, time.perf_counter()
        while claimed := await deliver.claim(_CLAIMED):
            now = datetime.now(UTC)
            await deliver.record([Made(one, Attempt(now, 20, 200)) for one in claimed])
            recorded += len(claimed)
        took_ms = (time.perf_counter() - began) * 1000
    finally:
        await pool.close()
    if recorded < count:
        raise RuntimeError(f"{recorded} of {count} deliveries were claimed")
    return took_ms / recorded
