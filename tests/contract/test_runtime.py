"""The clocks and the sources of random bytes, of production and of tests."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meetcore.adapters.system import SystemClock, SystemEntropy
from meetcore.ports.runtime import Clock, Entropy
from meetcore.testing.clock import ManualClock, SeededEntropy

START = datetime(2026, 12, 1, 2, tzinfo=UTC)


@pytest.fixture(params=["system", "manual"])
def clock(request: pytest.FixtureRequest) -> Clock:
    return SystemClock() if request.param == "system" else ManualClock(START)


@pytest.fixture(params=["system", "seeded"])
def entropy(request: pytest.FixtureRequest) -> Entropy:
    return SystemEntropy() if request.param == "system" else SeededEntropy(1)


async def test_an_instant_is_aware_in_utc_and_survives_being_written_down(clock: Clock) -> None:
    now = clock.now()
    assert (type(now), now.utcoffset()) == (datetime, timedelta(0))
    assert now > datetime(2000, 1, 1, tzinfo=UTC)
    assert datetime.fromisoformat(now.isoformat()) == now


async def test_the_system_clock_goes_with_the_machine() -> None:
    before = datetime.now(UTC)
    assert timedelta(0) <= SystemClock().now() - before < timedelta(minutes=1)


async def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(START)
    assert clock.now() == clock.now() == START
    for seconds, passed in ((90, 90), (-0.5, 89.5)):
        clock.advance(seconds)
        assert clock.now() == START + timedelta(seconds=passed)
    clock.set(START)
    assert clock.now() == START


async def test_it_returns_the_requested_number_of_bytes(entropy: Entropy) -> None:
    @settings(deadline=None)
    @given(st.integers(0, 5000))
    def holds(count: int) -> None:
        drawn = entropy.token_bytes(count)
        assert (type(drawn), len(drawn)) == (bytes, count)

    holds()


async def test_no_two_draws_are_alike_and_nothing_repeats_inside_one(entropy: Entropy) -> None:
    assert len({entropy.token_bytes(16) for _ in range(2000)}) == 2000
    drawn = entropy.token_bytes(16 * 2000)
    assert len({drawn[at : at + 16] for at in range(0, len(drawn), 16)}) == 2000


async def test_a_seeded_source_repeats_with_its_seed_and_not_with_another() -> None:
    one, again, other = SeededEntropy(1), SeededEntropy(1), SeededEntropy(2)
    for count in (32, 0, 7):
        assert one.token_bytes(count) == again.token_bytes(count)
    assert one.token_bytes(32) != other.token_bytes(32)
