"""Transactions are repeated where their connection was lost before the commit, and only then."""

from __future__ import annotations

import asyncio

import pytest

from meetcore.ports.store import ConnectionLost, StoreUnavailable
from meetcore.usecases import repeat
from meetcore.usecases.repeat import REPEATS, repeated_when_lost


class Cut:
    """A transaction that fails so many times, each time after so many seconds."""

    def __init__(self, times: int, error: type[Exception] = ConnectionLost, seconds: float = 0.0) -> None:
        self.times, self.error, self.seconds, self.calls = times, error, seconds, 0

    async def __call__(self, number: int) -> int:
        self.calls += 1
        if self.calls <= self.times:
            await asyncio.sleep(self.seconds)
            raise self.error("cut")
        return number


@pytest.mark.parametrize("times", range(REPEATS + 1))
async def test_a_lost_transaction_is_repeated(times: int) -> None:
    cut = Cut(times)
    assert await repeated_when_lost(cut.__call__)(7) == 7
    assert cut.calls == times + 1


async def test_the_repeats_end() -> None:
    cut = Cut(REPEATS + 1)
    with pytest.raises(ConnectionLost):
        await repeated_when_lost(cut.__call__)(7)
    assert cut.calls == REPEATS + 1


async def test_a_transaction_whose_commit_may_have_arrived_is_not_repeated() -> None:
    cut = Cut(1, StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        await repeated_when_lost(cut.__call__)(7)
    assert cut.calls == 1


async def test_what_takes_long_is_repeated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeat, "_REPEATED_FOR_S", 0.0)
    cut = Cut(REPEATS, seconds=0.01)
    with pytest.raises(ConnectionLost):
        await repeated_when_lost(cut.__call__)(7)
    assert cut.calls == 2
