"""Reserving a host among ten thousand with a million reservations, compared with ten hosts without any.

The real store on two databases: the transaction that claims, holds and reserves, without HTTP and provider,
so that nothing hides what the number of hosts costs. Besides the hours of an ordinary year there are
a busy one, in which only the last twentieth of the hosts is free, and one in which none is.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import psycopg
import uvloop
from attrs import frozen

from benchmarks.report import Result, middle
from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.secrets import AesGcmCipher
from meetcore.domain.meetings.hosts import choose_host
from meetcore.testing.contracts.transactions import (
    TOMORROW,
    Customer,
    MeetingSpec,
    open_customer,
    provisioning,
    query_of,
)
from tests.support.postgres_rig import PostgresRig

__all__ = ["measure_hosts"]

FEW_HOSTS = 10
SEATS = 100

_MONDAY = (TOMORROW + timedelta(days=14 - TOMORROW.weekday())).replace(
    hour=0, minute=0, second=0, microsecond=0
)
BUSY, FULL = _MONDAY + timedelta(days=5, hours=3), _MONDAY + timedelta(days=6, hours=3)
"""Two hours of a weekend, of which the year knows nothing."""

_ADD_HOSTS = """
INSERT INTO hosts (id, provider_user_id, capacity, max_concurrent, uses, created_at)
SELECT gen_random_uuid(), 'host-' || n, (ARRAY[100, 100, 300, 300, 500, 1000])[1 + n %% 6],
    1 + (n %% 10 = 0)::integer, 100 + n %% 7, now()
FROM generate_series(1, %(hosts)s) AS n
"""

# Each host has a hundred working days, and on each an hour or two between one and eleven o'clock.
_FILL_YEAR = """
INSERT INTO host_reservations (account_id, meeting_id, host_id, slot, during)
SELECT '00000000-0000-7000-8000-000000000000', lpad(to_hex(h.k * %(per_host)s + m), 32, '0')::uuid, h.id, 0,
    tstzrange(at, at + (1 + (m %% 5 = 0)::integer) * interval '1 hour')
FROM (SELECT id, row_number() OVER (ORDER BY id) AS k FROM hosts) AS h
CROSS JOIN generate_series(0, %(per_host)s - 1) AS m
CROSS JOIN LATERAL (SELECT (m * 26 / 10 + h.k %% 3)::integer AS workday) AS w
CROSS JOIN LATERAL (
    SELECT %(monday)s::timestamptz + (workday / 5 * 7 + workday %% 5) * interval '1 day'
        + ((h.k * 7 + m * 13) %% 9 + 1) * interval '1 hour' + (h.k + m) %% 4 * interval '15 minutes' AS at
) AS a
ORDER BY h.id, m
"""

_FILL_HOUR = """
INSERT INTO host_reservations (account_id, meeting_id, host_id, slot, during)
SELECT gen_random_uuid(), gen_random_uuid(), h.id, n,
    tstzrange(%(at)s, %(at)s::timestamptz + interval '1 hour')
FROM (SELECT * FROM hosts ORDER BY capacity, uses, id LIMIT %(busy)s) AS h
CROSS JOIN LATERAL generate_series(0, h.max_concurrent - 1) AS n
"""


@frozen
class ApplicationHarness:
    """A database with hosts and customers."""

    rig: PostgresRig
    customers: Sequence[Customer]

    async def reserve(self, start_at: datetime, *, is_refused: bool = False) -> float:
        """One transaction, in ms.

        Raises:
            RuntimeError: it was not reserved, or not refused.
        """
        customer, spec = random.choice(self.customers), MeetingSpec(start_at, seats=SEATS)
        query = query_of(customer, spec)
        began = time.perf_counter()
        async with self.rig.store.begin() as tx:
            view = await tx.meetings.load_creation(query)
            host = choose_host(view.free_hosts, SEATS)
            made = None
            if host is not None:
                made = await tx.meetings.save_provisioning(provisioning(customer, spec, view, query))
        took_ms = (time.perf_counter() - began) * 1000
        if view.is_contended or (made is None) is not is_refused:
            raise RuntimeError(
                f"{start_at}: {'reserved' if made else 'refused'}, contended: {view.is_contended}"
            )
        return took_ms


def _fill(url: str, hosts: int, per_host: int) -> None:
    # Without triggers that check each host, and without waiting for the disk.
    options = "-c session_replication_role=replica -c synchronous_commit=off"
    with psycopg.connect(url, autocommit=True, options=options) as connection:
        connection.execute(_ADD_HOSTS, {"hosts": hosts})
        if per_host:
            connection.execute(_FILL_YEAR, {"per_host": per_host, "monday": _MONDAY})
            for at, busy in ((BUSY, hosts * 95 // 100), (FULL, hosts)):
                connection.execute(_FILL_HOUR, {"at": at, "busy": busy})
        connection.execute("VACUUM ANALYZE")


@asynccontextmanager
async def _harness(url: str, hosts: int, per_host: int) -> AsyncIterator[ApplicationHarness]:
    await asyncio.to_thread(_fill, url, hosts, per_host)
    pool = make_pool(url, max_size=2)
    await pool.open()
    try:
        rig = PostgresRig(pool, AesGcmCipher([bytes(range(32))]))
        yield ApplicationHarness(rig, [await open_customer(rig, 10**9) for _ in range(16)])
    finally:
        await pool.close()


def _some_hour() -> datetime:
    """An hour of a working day of the year."""
    week, day = random.randrange(51), random.randrange(5)
    return _MONDAY + timedelta(days=7 * week + day, hours=random.randint(1, 9))


async def _turns(
    few_url: str, many_url: str, hosts: int, per_host: int, rounds: int
) -> dict[str, list[float]]:
    async with _harness(few_url, FEW_HOSTS, 0) as few, _harness(many_url, hosts, per_host) as many:
        turns: dict[str, Callable[[], Awaitable[float]]] = {
            "few": lambda: few.reserve(_some_hour()),
            "many": lambda: many.reserve(_some_hour()),
            "crowded": lambda: many.reserve(BUSY),
            "full": lambda: many.reserve(FULL, is_refused=True),
        }
        for turn in list(turns.values()) * 5:
            await turn()
        taken: dict[str, list[float]] = {name: [] for name in turns}
        for _ in range(rounds):
            for name, turn in turns.items():
                taken[name].append(await turn())
        return taken


def measure_hosts(few_url: str, many_url: str, hosts: int, per_host: int, rounds: int) -> list[Result]:
    """Medians of turns, in ms a transaction; the floor is ten hosts without a reservation.

    Args:
        hosts: how many the many are.
        per_host: how many reservations each of the many hosts has in the year, a hundred at most.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        turns = runner.run(_turns(few_url, many_url, hosts, per_host, rounds))
    taken = {name: middle(each) for name, each in turns.items()}
    return [
        Result(f"reserve a host, {what}", taken[name], taken["few"], "ms", goal)
        for name, what, goal in (
            ("many", f"{hosts} hosts, {hosts * per_host} reservations", "ratio ≤ 1.5"),
            ("crowded", "95 % of them busy", "≤ 20 ms"),
            ("full", "none free", "≤ 20 ms"),
        )
    ]
