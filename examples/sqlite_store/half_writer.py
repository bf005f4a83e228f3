"""A process that stops between the two writes of a transaction: `test_durability` starts and kills it.

It prints on its standard output that the first write is done, and goes on when its standard input ends.
"""

import asyncio
import sys
from pathlib import Path
from uuid import UUID

from meetcore.domain.money import ledger
from meetcore.ports.store import Transaction
from meetcore.testing.contracts.transactions import AT, Customer, new_endpoint, new_event, new_id

from .connection import open_database
from .store import SqliteStore
from .system import SystemClock, SystemEntropy

__all__: list[str] = []


async def open_and_write(path: Path, customer: Customer) -> None:
    """The only transaction of this process."""
    async with (
        open_database(path) as database,
        SqliteStore(database, SystemClock(), SystemEntropy()).begin() as tx,
    ):
        await write_in_two(tx, customer)


async def write_in_two(tx: Transaction, customer: Customer) -> None:
    """Top up by 500 credits and register an endpoint, with a halt in between."""
    view = await tx.ledger.load(customer.account_id, ledger.top_up_operation("half"))
    posting = ledger.top_up(view.funds, new_id(), "half", 500, AT)
    assert posting.entry is not None
    await tx.ledger.append(posting.funds, posting.entry, [new_event(customer)])
    sys.stdout.write("half\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await tx.endpoints.add(new_endpoint(customer))


if __name__ == "__main__":
    asyncio.run(open_and_write(Path(sys.argv[1]), Customer(UUID(sys.argv[2]), new_id(), b"")))
