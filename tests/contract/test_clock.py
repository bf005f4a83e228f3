"""The suite of the clocks on every adapter, and what is each one's own."""

from datetime import UTC, datetime, timedelta

import pytest

from meetcore.adapters.memory.clock import ManualClock
from meetcore.adapters.system import SystemClock
from meetcore.testing.contracts.clock import ClockContract

START = datetime(2026, 12, 1, 2, tzinfo=UTC)


class TestSystem(ClockContract):
    @pytest.fixture
    def clock(self):
        return SystemClock()

    async def test_it_goes_with_the_machine(self, clock: SystemClock):
        before = datetime.now(UTC)
        assert timedelta(0) <= clock.now() - before < timedelta(minutes=1)


class TestManual(ClockContract):
    @pytest.fixture
    def clock(self):
        return ManualClock(START)

    async def test_it_stands_still_until_it_is_moved(self, clock: ManualClock):
        assert clock.now() == clock.now() == START
        clock.advance(90)
        assert clock.now() == START + timedelta(seconds=90)
        clock.advance(-0.5)
        assert clock.now() == START + timedelta(seconds=89.5)
        clock.set(START)
        assert clock.now() == START
