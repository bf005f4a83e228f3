"""Random operations on an account, run on memory and on SQLite at once: the results must be equal."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from meetcore.testing.account_machine import AccountMachine
from meetcore.testing.contracts import StoreRig
from meetcore.testing.memory_rig import MemoryRig

from .connection import open_database
from .rig import SqliteRig

__all__ = ["test_memory_and_sqlite_behave_the_same"]

# Every commit waits for the disk: a few plays, and more of them where the profile asks for many.
PLAYS = max(6, settings().max_examples // 20)


def test_memory_and_sqlite_behave_the_same(tmp_path: Path) -> None:
    """Not asynchronous: the machine runs each step on the loop that it is given."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        database = runner.run(stack.enter_async_context(open_database(tmp_path / "meetcore.db")))
        rigs: dict[str, StoreRig] = {"memory": MemoryRig(), "sqlite": SqliteRig(database)}

        class Play(AccountMachine):
            """A play on these two."""

            def __init__(self) -> None:
                super().__init__(runner.run, rigs)

        try:
            run_state_machine_as_test(Play, settings=settings(max_examples=PLAYS, stateful_step_count=30))
        finally:
            runner.run(stack.aclose())
