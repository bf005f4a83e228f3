"""A process that stops between the two writes of a transaction: `test_sqlite_ledger` starts and kills it.

It prints on its standard output that the first write is done, and goes on when its standard input ends.
"""

import asyncio
import sys
from pathlib import Path
from uuid import UUID

from meetcore.domain.money import ledger
from meetcore.testing.ledger import AT, append_one, new_id

from .connection import open_database
from .ledger import SqliteLedgerStore

__all__: list[str] = []


async def write_in_two(path: Path, account_id: UUID) -> None:
    """Top up twice by 250 credits in the only transaction of this process, with a halt in between."""
    async with open_database(path) as database, SqliteLedgerStore(database).begin() as tx:
        for reference in ("first half", "second half"):
            view = await tx.postings.load_locked(account_id, [ledger.top_up_operation(reference)])
            posting = ledger.top_up(view.funds, new_id(), reference, 250, AT)
            assert await append_one(tx, view.funds, posting) is not None
            if reference == "first half":
                sys.stdout.write("half\n")
                sys.stdout.flush()
                await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(write_in_two(Path(sys.argv[1]), UUID(sys.argv[2])))
