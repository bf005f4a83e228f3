"""Durability of the file: after a crash a change is there as a whole, or not at all."""

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

from meetcore.domain.errors import InsufficientCredits
from meetcore.domain.money import ledger
from meetcore.ports.deliveries import ClaimLimits
from meetcore.ports.lease import Lease
from meetcore.ports.store import StoreUnavailable
from meetcore.testing.contracts.transactions import (
    AT,
    KIND,
    Customer,
    MeetingSpec,
    adjust,
    new_endpoint,
    new_host,
    new_id,
    open_customer,
    register,
    reserved,
    scheduled,
    top_up,
)
from meetcore.usecases.verify_ledger import VerifyLedger

from .connection import open_database
from .rig import SqliteRig

__all__ = ["TestSqliteFile"]

# Another meeting on a slot that is taken, and an entry in the place of one that is there.
_DOUBLE_BOOK = """
INSERT INTO host_reservations SELECT account_id, 'another', host_id, slot, start_at + 1, end_at + 1
FROM host_reservations
"""
_REPLACE = "INSERT OR REPLACE INTO entries SELECT * FROM entries"


async def start_half_writer(path: Path, account_id: UUID) -> Process:
    """A process that has done the first write of two in one transaction."""
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


async def picture(rig: SqliteRig, customer: Customer) -> list[object]:
    """Everything that a file holds of a customer."""
    account_id = customer.account_id
    async with rig.store.begin() as tx:
        money = await tx.ledger.load(account_id, ledger.top_up_operation("INV-1"))
        key = await tx.idempotency.load(account_id, "k")
    return [
        money,
        key.record,
        await rig.queries.find_caller(customer.digest),
        await rig.registry.list_hosts(),
        await rig.entries(account_id),
        await rig.holds(account_id),
        await rig.deliveries(account_id),
        await rig.attempts(account_id),
    ]


@pytest.mark.asyncio
class TestSqliteFile:
    """On a file that a second process may open, too."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """An unused file."""
        return tmp_path / "meetcore.db"

    @pytest_asyncio.fixture
    async def rig(self, path: Path) -> AsyncIterator[SqliteRig]:
        """The file, open; other processes are not waited for."""
        async with open_database(path, busy_timeout_s=0.05) as database:
            yield SqliteRig(database)

    async def test_what_was_committed_is_there_when_the_file_is_opened_again(self, path: Path) -> None:
        async with open_database(path) as database:
            rig = SqliteRig(database)
            customer = await open_customer(rig, 100, cap=90)
            endpoint = await register(rig, new_endpoint(customer))
            await rig.put_hosts(new_host(max_concurrent=2))
            await top_up(rig, customer, 5, "INV-1", KIND)
            meeting = await scheduled(rig, customer)
            made = await reserved(rig, customer, MeetingSpec(key="k"))
            before = await picture(rig, customer)
        async with open_database(path) as database:
            rig = SqliteRig(database)
            assert await picture(rig, customer) == before
            assert await rig.queries.find_meeting(customer.account_id, meeting.id) == meeting
            assert await rig.queries.find_endpoint(customer.account_id, endpoint.id) == endpoint
            async with rig.store.begin() as tx:
                leased = await tx.meetings.load_leased(customer.account_id, made.meeting.id, made.lease.token)
                (claimed,) = await tx.deliveries.claim_due(ClaimLimits(10), Lease(new_id(), 60))
            assert leased is not None
            assert (leased.meeting, leased.hold, leased.claim) == (made.meeting, made.hold, made.claim)
            assert claimed.secret == endpoint.secret

    @pytest.mark.parametrize("is_killed", [True, False])
    async def test_a_process_killed_between_two_writes_leaves_nothing_of_either(
        self, path: Path, rig: SqliteRig, is_killed: bool
    ) -> None:
        customer = await open_customer(rig, 100)
        await register(rig, new_endpoint(customer))
        before = await picture(rig, customer)
        writer = await start_half_writer(path, customer.account_id)
        with pytest.raises(StoreUnavailable):
            await top_up(rig, customer, 5, "meanwhile")
        caller = await rig.queries.find_caller(customer.digest)
        assert caller is not None
        assert caller.account.balance == 100
        if is_killed:
            writer.kill()
        await writer.communicate(b"")  # the end of its input: it goes on, if it still runs
        audit = await VerifyLedger(rig.audit)()
        assert (audit.findings, audit.entries) == ([], 1 if is_killed else 2)
        assert (await picture(rig, customer) == before) is is_killed
        endpoints = await rig.database.reader.fetch("SELECT id FROM endpoints", {})
        assert len(endpoints) == (1 if is_killed else 2)
        assert await top_up(rig, customer, 5, "afterwards", KIND) == len(endpoints)

    async def test_two_programs_on_one_file_take_turns(self, path: Path) -> None:
        async with open_database(path) as one, open_database(path) as other:
            rigs = [SqliteRig(one), SqliteRig(other)]
            customer = await open_customer(rigs[0], 100)
            takes = (adjust(rigs[n % 2], customer, -30, f"take-{n}") for n in range(10))
            outcomes = await asyncio.gather(*takes, return_exceptions=True)
            assert sum(isinstance(outcome, InsufficientCredits) for outcome in outcomes) == 7
            for rig in rigs:
                entries = await rig.entries(customer.account_id)
                assert [entry.balance_after for entry in entries] == [100, 70, 40, 10]

    async def test_a_cancelled_transaction_leaves_nothing_and_lets_the_next_one_in(
        self, rig: SqliteRig
    ) -> None:
        customer = await open_customer(rig, 100)
        has_written = asyncio.Event()

        async def write_and_wait() -> None:
            async with rig.store.begin() as tx:
                view = await tx.ledger.load(customer.account_id, ledger.top_up_operation("never"))
                posting = ledger.top_up(view.funds, new_id(), "never", 5, AT)
                assert posting.entry is not None
                await tx.ledger.append(posting.funds, posting.entry, [])
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
    async def test_the_file_refuses_to_change_the_ledger(self, rig: SqliteRig, statement: str) -> None:
        customer = await open_customer(rig, 100)
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            async with rig.database.transaction() as connection:
                await connection.change(statement, {})
        assert len(await rig.entries(customer.account_id)) == 1

    async def test_the_file_refuses_two_meetings_on_one_slot(self, rig: SqliteRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        await reserved(rig, customer, MeetingSpec())
        with pytest.raises(sqlite3.IntegrityError, match="the slot of this host is taken"):
            async with rig.database.transaction() as connection:
                await connection.change(_DOUBLE_BOOK, {})

    async def test_a_folder_that_is_not_there_is_a_store_that_is_away(self, tmp_path: Path) -> None:
        with pytest.raises(StoreUnavailable):
            async with open_database(tmp_path / "nowhere" / "meetcore.db"):
                raise AssertionError("there is no database")
