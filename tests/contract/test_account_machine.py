"""A whole account, run on every store at once: the stores must behave alike."""

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from meetcore.adapters.memory.cipher import PlainCipher
from meetcore.adapters.postgres.pool import make_pool
from meetcore.testing.account_machine import AccountMachine
from meetcore.testing.memory_rig import MemoryRig
from tests.support.postgres_rig import PostgresRig

# A run is some thirty transactions on a real database: a few dozen of them find what a rule does not.
PLAYS = max(12, settings().max_examples // 5)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """A loop of our own: the machine is synchronous and begins inside no other."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.mark.hypothesis
def test_memory_and_postgres_behave_alike(runner: asyncio.Runner, store_database: str) -> None:
    pool = make_pool(store_database, min_size=1, max_size=2)
    runner.run(pool.open())
    rig = PostgresRig(pool, PlainCipher())

    class Play(AccountMachine):
        def __init__(self) -> None:
            super().__init__(runner.run, {"memory": MemoryRig(), "postgres": rig})

    try:
        run_state_machine_as_test(Play, settings=settings(max_examples=PLAYS, stateful_step_count=30))
    finally:
        runner.run(rig.reset())
        runner.run(pool.close())
