"""The least that a prepaid charge can be: one statement by its idempotency key, on so many connections.

No double entry, no hash chain, no event and no audit entry: what PostgreSQL and the driver take for a guarded
update, an insert and one commit. Like `own_ledger_load`, tasks on one event loop.
"""

import argparse
import asyncio
import json
import time
from uuid import UUID, uuid4

import psycopg
import uvloop

_SCHEMA = """
CREATE TABLE IF NOT EXISTS floor_balance (
    account_id uuid PRIMARY KEY, credits bigint NOT NULL CHECK (credits >= 0))
    WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS floor_entries (
    account_id uuid NOT NULL, key uuid NOT NULL, amount bigint NOT NULL, balance_after bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (account_id, key));
"""
_OPEN = """
INSERT INTO floor_balance SELECT unnest(%(ids)s::uuid[]), 1000000000
ON CONFLICT (account_id) DO UPDATE SET credits = 1000000000
"""
_CHARGE = """
WITH charged AS (
    UPDATE floor_balance SET credits = credits - 1 WHERE account_id = %(id)s AND credits >= 1
        AND NOT EXISTS (SELECT FROM floor_entries WHERE account_id = %(id)s AND key = %(key)s)
    RETURNING credits)
INSERT INTO floor_entries (account_id, key, amount, balance_after)
SELECT %(id)s, %(key)s, -1, credits FROM charged
RETURNING balance_after
"""


async def _run(url: str, clients: int, accounts: int, seconds: float) -> dict[str, float]:
    ids = [UUID(int=number + 1) for number in range(accounts)]
    with psycopg.connect(url, autocommit=True) as setup:
        setup.execute(_SCHEMA)
        setup.execute(_OPEN, {"ids": ids})
    made = 0

    async def client(number: int, connection: psycopg.AsyncConnection, stop: float) -> None:
        nonlocal made
        while time.monotonic() < stop:
            cursor = await connection.execute(_CHARGE, {"id": ids[number % accounts], "key": uuid4()})
            if await cursor.fetchone() is None:
                raise RuntimeError("a charge was refused")
            made += 1
            number += clients

    connections = [
        await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=0)
        for _ in range(clients)
    ]
    pairs = list(enumerate(connections))
    await asyncio.gather(*(client(*pair, time.monotonic() + 0.2) for pair in pairs))
    made, began, cpu_s = 0, time.monotonic(), time.process_time()
    await asyncio.gather(*(client(*pair, began + seconds) for pair in pairs))
    took_s, cpu_s = time.monotonic() - began, time.process_time() - cpu_s
    for connection in connections:
        await connection.close()
    return {"count": made, "seconds": took_s, "cpu_s": cpu_s}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("database_url")
    parser.add_argument("clients", type=int)
    parser.add_argument("accounts", type=int)
    parser.add_argument("seconds", type=float)
    asked = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(_run(asked.database_url, asked.clients, asked.accounts, asked.seconds))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
