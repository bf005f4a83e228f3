"""The ledger on SQLite: the contract suite, and what only a file promises."""

# ruff: noqa: D102  (a test's name is its docstring)

import asyncio
import os
import sqlite3
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest
import pytest_asyncio
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from meetcore.domain.errors import InsufficientCredits
from meetcore.domain.money import ledger
from meetcore.ports.store import StoreUnavailable
from meetcore.testing.contracts import LedgerContract
from meetcore.testing.ledger import (
    AT,
    LedgerMachine,
    LedgerRig,
    adjust,
    append_one,
    funds_of,
    new_id,
    open_account,
    top_up,
)

from .connection import open_database
from .rig import SqliteLedgerRig

__all__ = ["TestSqliteFile", "TestSqliteLedger", "test_the_ledger_behaves_as_the_model_does"]

# An entry in the place of one that is there.
_REPLACE = "INSERT OR REPLACE INTO entries SELECT * FROM entries"


class TestSqliteLedger(LedgerContract):
    """Each test on a file of its own."""

    @pytest_asyncio.fixture
    async def rig(self, tmp_path: Path) -> AsyncIterator[LedgerRig]:
        """Open an unused file. By the type, mypy holds the store to the protocols."""
        async with open_database(tmp_path / "ledger.db") as database:
            yield SqliteLedgerRig(database)


def test_the_ledger_behaves_as_the_model_does(tmp_path: Path) -> None:
    """Run the machine of the kit."""
    with asyncio.Runner() as runner:
        opened = open_database(tmp_path / "ledger.db")
        database = runner.run(opened.__aenter__())

        class Machine(LedgerMachine):
            """On this file."""

            def __init__(self) -> None:
                super().__init__(runner.run, SqliteLedgerRig(database))

        try:
            run_state_machine_as_test(Machine, settings=settings(max_examples=20, deadline=None))
        finally:
            runner.run(opened.__aexit__(None, None, None))


async def start_half_writer(path: Path, account_id: UUID) -> Process:
    """Start a process that has done the first write of two in one transaction."""
    here = Path(__file__).parent
    writer = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"{here.name}.half_writer", str(path), str(account_id)),
        cwd=here.parent,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=PIPE,
        stdout=PIPE,
    )
    assert writer.stdout is not None
    assert await writer.stdout.readline() == b"half\n"
    return writer


@pytest.mark.asyncio
class TestSqliteFile:
    """Test what a file promises: after a crash a change is there as a whole, or not at all."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """Name an unused file."""
        return tmp_path / "ledger.db"

    @pytest_asyncio.fixture
    async def rig(self, path: Path) -> AsyncIterator[SqliteLedgerRig]:
        """Open the file; other processes are not waited for."""
        async with open_database(path, busy_timeout_s=0.05) as database:
            yield SqliteLedgerRig(database)

    async def test_what_was_committed_is_there_when_the_file_is_opened_again(self, path: Path) -> None:
        async with open_database(path) as database:
            rig = SqliteLedgerRig(database)
            customer = await open_account(rig, 100)
            await top_up(rig, customer, 5, "INV-1")
            before = await funds_of(rig, customer), await rig.entries(customer.account_id)
        async with open_database(path) as database:
            rig = SqliteLedgerRig(database)
            assert (await funds_of(rig, customer), await rig.entries(customer.account_id)) == before

    @pytest.mark.parametrize(("is_killed", "amounts"), [(True, [100, 5]), (False, [100, 250, 250, 5])])
    async def test_a_process_killed_between_two_writes_leaves_nothing_of_either(
        self, path: Path, rig: SqliteLedgerRig, is_killed: bool, amounts: list[int]
    ) -> None:
        customer = await open_account(rig, 100)
        writer = await start_half_writer(path, customer.account_id)
        with pytest.raises(StoreUnavailable):
            await top_up(rig, customer, 5, "meanwhile")
        if is_killed:
            writer.kill()
        await writer.communicate(b"")  # the end of its input: it goes on, if it still runs
        await top_up(rig, customer, 5, "afterwards")
        entries = await rig.entries(customer.account_id)
        assert [entry.amount for entry in entries] == amounts
        assert ledger.first_broken(customer.account_id, entries) is None
        assert (await funds_of(rig, customer)).balance == sum(amounts)

    async def test_two_programs_on_one_file_take_turns(self, path: Path) -> None:
        async with open_database(path) as one, open_database(path) as other:
            rigs = [SqliteLedgerRig(one), SqliteLedgerRig(other)]
            customer = await open_account(rigs[0], 100)
            takes = (adjust(rigs[n % 2], customer, -30, f"take-{n}") for n in range(10))
            outcomes = await asyncio.gather(*takes, return_exceptions=True)
            assert sum(isinstance(outcome, InsufficientCredits) for outcome in outcomes) == 7
            for rig in rigs:
                entries = await rig.entries(customer.account_id)
                assert [entry.balance_after for entry in entries] == [100, 70, 40, 10]

    async def test_a_cancelled_transaction_leaves_nothing_and_lets_the_next_one_in(
        self, rig: SqliteLedgerRig
    ) -> None:
        customer = await open_account(rig, 100)
        has_written = asyncio.Event()

        async def write_and_wait() -> None:
            async with rig.store.begin() as tx:
                view = await tx.postings.load_locked(customer.account_id, [])
                posting = ledger.top_up(view.funds, new_id(), "never", 5, AT)
                assert await append_one(tx, view.funds, posting) is not None
                has_written.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(write_and_wait())
        await has_written.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await top_up(rig, customer, 7, "next")
        assert [entry.amount for entry in await rig.entries(customer.account_id)] == [100, 7]

    @pytest.mark.parametrize("statement", ["UPDATE entries SET amount = 1", "DELETE FROM entries", _REPLACE])
    async def test_the_file_refuses_to_change_the_ledger(self, rig: SqliteLedgerRig, statement: str) -> None:
        customer = await open_account(rig, 100)
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            async with rig.database.transaction() as connection:
                await connection.execute(statement, {})
        assert len(await rig.entries(customer.account_id)) == 1

    async def test_a_folder_that_is_not_there_is_a_store_that_is_unavailable(self, tmp_path: Path) -> None:
        with pytest.raises(StoreUnavailable):
            async with open_database(tmp_path / "nowhere" / "ledger.db"):
                raise AssertionError("there is no database")
