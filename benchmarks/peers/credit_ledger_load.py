"""`credit-ledger` from PyPI under load: idempotent charges by so many threads, each with a connection.

Runs in the virtual environment of the peers. Prints how many charges were made, in how many seconds, with
how many seconds of processor time.
"""

import argparse
import json
import threading
import time
from uuid import UUID, uuid4

from credit_ledger import metering
from sqlalchemy import create_engine, text

# Its wheel brings no schema: the tables that its statements name, without row-level security.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS credit_balance (
    tenant_id uuid PRIMARY KEY, credits numeric(18, 4) NOT NULL CHECK (credits >= 0),
    updated_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS credit_ledger (
    id uuid PRIMARY KEY, tenant_id uuid NOT NULL, delta numeric(18, 4) NOT NULL, reason text NOT NULL,
    idempotency_key text, balance_after numeric(18, 4) NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (tenant_id, idempotency_key));
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("database_url")
    parser.add_argument("clients", type=int)
    parser.add_argument("accounts", type=int)
    parser.add_argument("seconds", type=float)
    asked = parser.parse_args()
    url = asked.database_url.replace("postgresql://", "postgresql+psycopg://", 1)
    engine = create_engine(url, pool_size=asked.clients, max_overflow=0)
    with engine.begin() as connection:
        connection.execute(text(_SCHEMA))
    tenants = [str(UUID(int=number + 1)) for number in range(asked.accounts)]
    for tenant in tenants:
        metering.grant(tenant, 10**9, idempotency_key="opening", engine=engine)
    counts = [0] * asked.clients
    start = threading.Barrier(asked.clients + 1)
    stop = 0.0

    def charge(client: int) -> None:
        metering.balance(tenants[0], engine=engine)  # the connection is open
        start.wait()
        number = client
        while time.monotonic() < stop:
            tenant = tenants[number % len(tenants)]
            if not metering.decrement(tenant, 1, idempotency_key=str(uuid4()), engine=engine).ok:
                raise RuntimeError("a charge was refused")
            counts[client] += 1
            number += asked.clients

    threads = [threading.Thread(target=charge, args=(client,)) for client in range(asked.clients)]
    stop = time.monotonic() + 3600
    for thread in threads:
        thread.start()
    start.wait()
    began, cpu_s = time.monotonic(), time.process_time()
    stop = began + asked.seconds
    for thread in threads:
        thread.join()
    took_s = time.monotonic() - began
    print(json.dumps({"count": sum(counts), "seconds": took_s, "cpu_s": time.process_time() - cpu_s}))


if __name__ == "__main__":
    main()
