"""Check any `Clock`. Whether its time is right is not checked: there is no reference here."""

from datetime import UTC, datetime, timedelta

import pytest

from meetcore.ports.clock import Clock


@pytest.mark.asyncio
class ClockContract:
    """The suite for one `Clock`. Give it the fixture `clock`::

    class TestMyClock(ClockContract):
        @pytest.fixture
        def clock(self) -> Clock:
            return MyClock()
    """

    async def test_an_instant_is_aware_and_in_utc(self, clock: Clock) -> None:
        now = clock.now()
        assert isinstance(now, datetime)
        assert now.utcoffset() == timedelta(0)

    async def test_an_instant_compares_with_others_and_survives_being_written_down(
        self, clock: Clock
    ) -> None:
        now = clock.now()
        assert now > datetime(2000, 1, 1, tzinfo=UTC)
        assert datetime.fromisoformat(now.isoformat()) == now

    async def test_readings_in_a_row_lie_close_together(self, clock: Clock) -> None:
        readings = [clock.now() for _ in range(100)]
        # Not "never earlier": a wall clock may be set back while this runs.
        assert max(readings) - min(readings) < timedelta(minutes=1)
