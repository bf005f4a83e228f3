"""Claiming deliveries that lie in sixty partitions, compared with the same deliveries in one.

`python -m benchmarks.partitions [--partitions 60] [--deliveries 300000] [--rounds 15]`

The real store on two databases with the same rows: a year of deliveries that are over, and some that are
due now. A claim is what a worker does, in a transaction that is undone, so that each finds the same. The
connection keeps its prepared statements, as a worker's does from one claim to the next. Both take turns.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
from psycopg.pq import ExecStatus

from benchmarks.places import database_server, fresh_database
from benchmarks.report import Result, middle, show
from meetcore.adapters.postgres.partitions.maintenance import PostgresPartitions
from meetcore.adapters.postgres.pool import Pool, make_pool
from meetcore.adapters.postgres.store import PostgresTransaction
from meetcore.ports.deliveries import ClaimLimits
from meetcore.ports.lease import Lease
from meetcore.ports.partitions import PartitionRules

__all__ = ["NoCipher", "measure_partitions"]

ENDPOINTS = 100
DUE = 1_000
CLAIMED = 200
WARM_UP = 8
"""Claims of each connection before those that count: its statements are prepared by then."""

_ID = """(lpad(to_hex((extract(epoch FROM {at}) * 1000)::bigint), 12, '0')
    || '7' || substr(md5('{salt}' || n), 1, 3) || '8' || substr(md5('{salt}' || n), 4, 15))::uuid"""
_OVER_AT = "now() - interval '1 hour' - %(span_s)s * n::float8 / %(rows)s * interval '1 second'"
_DUE_AT = "now() - n * interval '1 second'"
_FILL = f"""
CREATE TEMP TABLE made AS
SELECT n AS number, ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid AS id
FROM generate_series(0, {ENDPOINTS - 1}) AS n;
INSERT INTO accounts (id, user_id, email, full_name, created_at, low_threshold, is_low)
SELECT id, id, number || '@example.com', 'A', now(), 0, false FROM made;
INSERT INTO webhook_hosts SELECT 'host-' || number FROM made;
INSERT INTO webhook_account_hosts SELECT id, 'host-' || number FROM made;
INSERT INTO webhook_endpoints (account_id, id, url, url_key, event_types, state, consecutive_failures,
    created_by, created_at, secret)
SELECT id, id, 'https://host-' || number || '/', 'https://host-' || number || '/', '{{}}', 'active', 0, 'x',
    now(), 'whsec_x'
FROM made;
INSERT INTO events (account_id, id, kind, payload, created_at)
SELECT m.id, {_ID.format(at=_OVER_AT, salt="e")}, 'meeting.created', 'x', {_OVER_AT}
FROM generate_series(1, %(rows)s) AS n JOIN made m ON m.number = n %% {ENDPOINTS};
INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, attempts_made, created_at)
SELECT m.id, {_ID.format(at=_OVER_AT, salt="d")}, m.id, {_ID.format(at=_OVER_AT, salt="e")},
'meeting.created',
    'succeeded', 1, {_OVER_AT}
FROM generate_series(1, %(rows)s) AS n JOIN made m ON m.number = n %% {ENDPOINTS};
INSERT INTO events (account_id, id, kind, payload, created_at)
SELECT m.id, {_ID.format(at=_DUE_AT, salt="f")}, 'meeting.created', 'x', {_DUE_AT}
FROM generate_series(1, {DUE}) AS n JOIN made m ON m.number = n %% {ENDPOINTS};
INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, due_at, created_at)
SELECT m.id, {_ID.format(at=_DUE_AT, salt="g")}, m.id, {_ID.format(at=_DUE_AT, salt="f")}, 'meeting.created',
    'pending', {_DUE_AT}, {_DUE_AT}
FROM generate_series(1, {DUE}) AS n JOIN made m ON m.number = n %% {ENDPOINTS};
"""


class NoCipher:
    """Leaves values as they are: what opening them costs is the same on both sides."""

    def seal(self, plain: bytes, context: str) -> bytes:
        return plain

    def open(self, sealed: bytes, context: str) -> bytes:
        return sealed


def measure_partitions(
    whole_url: str, parted_url: str, partitions: int, deliveries: int, rounds: int
) -> Result:
    """Milliseconds of a claim at so many partitions, and of the same at one."""
    weeks = timedelta(days=7) * (partitions - 4)
    asyncio.run(_make_partitions(parted_url, partitions, weeks))
    for url in (whole_url, parted_url):
        with psycopg.connect(url, cursor_factory=psycopg.ClientCursor) as connection:
            connection.execute(_FILL.encode(), {"rows": deliveries, "span_s": weeks.total_seconds()})
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
    parted, whole = asyncio.run(_take_turns([parted_url, whole_url], rounds))
    note = f"{deliveries} deliveries in {partitions} partitions, {DUE} of them due; floor: in one"
    return Result("claim at many partitions", parted, whole, "ms", "ratio ≤ 1.5", {"note": note})


async def _make_partitions(url: str, partitions: int, weeks: timedelta) -> None:
    rules = PartitionRules(kept=timedelta(days=9999), ahead=partitions - 2)
    await PostgresPartitions(url).maintain(datetime.now(UTC) - weeks, rules)


async def _take_turns(urls: Sequence[str], rounds: int) -> list[float]:
    pools = [make_pool(url, max_size=1, deadline_s=60) for url in urls]
    took: list[list[float]] = [[] for _ in urls]
    for pool in pools:
        await pool.open()
    try:
        for number in range(WARM_UP + rounds):
            for pool, found in zip(pools, took, strict=True):
                spent_ms = await _claim(pool)
                if number >= WARM_UP:
                    found.append(spent_ms)
    finally:
        for pool in pools:
            await pool.close()
    return [middle(each) for each in took]


async def _claim(pool: Pool) -> float:
    """One claim as a worker makes it, in ms.

    Raises:
        RuntimeError: it did not get what is due.
    """
    started = time.perf_counter()
    async with pool.connection() as connection, connection.transaction():
        deliveries = PostgresTransaction(connection, NoCipher()).deliveries
        batch = await deliveries.claim_due(ClaimLimits(total=CLAIMED), Lease(UUID(int=1), 30.0))
        spent_ms = (time.perf_counter() - started) * 1000
        # Sent past the driver, which discards all prepared statements when it sees a rollback: each claim
        # would be measured with the planning of its statements, which a worker's connection does once.
        undone = connection.pgconn.exec_(b"ROLLBACK AND CHAIN")
        if undone.status != ExecStatus.COMMAND_OK:
            raise RuntimeError(undone.error_message)
    if len(batch.claimed) < min(CLAIMED, DUE):
        raise RuntimeError(f"{len(batch.claimed)} were claimed")
    return spent_ms


def main() -> None:
    """Measure and print the figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.partitions", description=__doc__)
    parser.add_argument("--partitions", type=int, default=60)
    parser.add_argument("--deliveries", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=15)
    chosen = parser.parse_args()
    with ExitStack() as stack:
        server = stack.enter_context(database_server())
        whole, parted = (stack.enter_context(fresh_database(server)) for _ in range(2))
        show([measure_partitions(whole, parted, chosen.partitions, chosen.deliveries, chosen.rounds)])


if __name__ == "__main__":
    main()
