"""Our ledger over PostgreSQL under the load of `credit_ledger_load`, by so many tasks on one event loop.

Two ways: `charge` appends one double entry and its event under the account's lock, once for each operation;
`hold` reserves the credits of a meeting with its host, and settles them when the provider has answered.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from itertools import count

import psycopg
import uvloop

from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.secrets import AesGcmCipher
from meetcore.testing.contracts.transactions import (
    TOMORROW,
    Customer,
    MeetingSpec,
    adjust,
    new_host,
    open_customer,
    scheduled,
)
from tests.support.postgres_rig import PostgresRig

_CREDITS = 10**9
_HOSTS, _AT_ONCE = 16, 1000
_NUMBERS = count()

Charge = Callable[[PostgresRig, Customer], Awaitable[object]]


async def _charge(rig: PostgresRig, customer: Customer) -> object:
    return await adjust(rig, customer, -1, f"adjustment:{os.urandom(16).hex()}")


async def _hold_and_settle(rig: PostgresRig, customer: Customer) -> object:
    number = next(_NUMBERS)
    start_at = TOMORROW + timedelta(hours=number % 4_000)
    return await scheduled(rig, customer, MeetingSpec(start_at, key=os.urandom(16).hex()))


_WAYS: dict[str, Charge] = {"charge": _charge, "hold": _hold_and_settle}


async def _load(
    rig: PostgresRig, customers: Sequence[Customer], charge: Charge, clients: int, seconds: float
) -> dict[str, float]:
    made = 0

    async def client(number: int, stop: float) -> None:
        nonlocal made
        while time.monotonic() < stop:
            await charge(rig, customers[number % len(customers)])
            made += 1
            number += clients

    await asyncio.gather(*(client(number, time.monotonic() + 0.2) for number in range(clients)))
    made, began, cpu_s = 0, time.monotonic(), time.process_time()
    await asyncio.gather(*(client(number, began + seconds) for number in range(clients)))
    took_s = time.monotonic() - began
    return {"count": made, "seconds": took_s, "cpu_s": time.process_time() - cpu_s}


async def _run(url: str, way: str, clients: int, accounts: int, seconds: float) -> dict[str, float]:
    pool = make_pool(url, min_size=clients, max_size=clients)
    await pool.open()
    try:
        rig = PostgresRig(pool, AesGcmCipher([os.urandom(32)]))
        await rig.put_hosts(*(new_host(max_concurrent=_AT_ONCE) for _ in range(_HOSTS)))
        customers = [await open_customer(rig, _CREDITS) for _ in range(accounts)]
        return await _load(rig, customers, _WAYS[way], clients, seconds)
    finally:
        await pool.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("database_url")
    parser.add_argument("way", choices=_WAYS)
    parser.add_argument("clients", type=int)
    parser.add_argument("accounts", type=int)
    parser.add_argument("seconds", type=float)
    asked = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(_run(asked.database_url, asked.way, asked.clients, asked.accounts, asked.seconds))
    with psycopg.connect(asked.database_url) as connection:
        row = connection.execute("SELECT count(*) FROM ledger_transfers").fetchone()
    if row is None or row[0] < found["count"]:
        raise SystemExit("a charge is not in the ledger")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
