"""`credit-ledger` from PyPI under load: idempotent charges by so many threads, each with a connection.

Runs in the virtual environment of the peers: `peer_charges.py DATABASE_URL CLIENTS ACCOUNTS SECONDS`. Prints
how many charges were made in a second.
"""

import sys
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


def main(url: str, clients: int, accounts: int, seconds: float) -> float:
    """Charge for so long."""
    url = url.replace("postgresql://", "postgresql+psycopg://", 1)
    engine = create_engine(url, pool_size=clients, max_overflow=0)
    with engine.begin() as connection:
        connection.execute(text(_SCHEMA))
    tenants = [str(UUID(int=number + 1)) for number in range(accounts)]
    for tenant in tenants:
        metering.grant(tenant, 10**9, idempotency_key="opening", engine=engine)
    counts, start = [0] * clients, threading.Barrier(clients + 1)
    stop = time.monotonic() + 3600

    def charge(client: int) -> None:
        metering.balance(tenants[0], engine=engine)  # the connection is open
        start.wait()
        number = client
        while time.monotonic() < stop:
            tenant = tenants[number % accounts]
            if not metering.decrement(tenant, 1, idempotency_key=str(uuid4()), engine=engine).ok:
                raise RuntimeError("a charge was refused")
            counts[client] += 1
            number += clients

    threads = [threading.Thread(target=charge, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    start.wait()
    began = time.monotonic()
    stop = began + seconds
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - began)


if __name__ == "__main__":
    print(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
