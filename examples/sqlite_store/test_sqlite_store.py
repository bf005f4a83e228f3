"""The store on SQLite, held against every suite that meetcore's own stores pass."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from meetcore.testing.contracts import (
    FullRig,
    HousekeepingContract,
    IdempotencyMachineContract,
    LedgerAuditContract,
    QueriesContract,
    RegistryContract,
    StoreContract,
)

from .connection import open_database
from .rig import SqliteRig

__all__ = ["TestSqliteStore"]


class TestSqliteStore(
    StoreContract,
    IdempotencyMachineContract,
    QueriesContract,
    RegistryContract,
    HousekeepingContract,
    LedgerAuditContract,
):
    """Each test on a file of its own."""

    @pytest_asyncio.fixture
    async def rig(self, tmp_path: Path) -> AsyncIterator[FullRig]:
        """An unused file. By the type, mypy holds each port here to its protocol."""
        async with open_database(tmp_path / "meetcore.db") as database:
            yield SqliteRig(database)
