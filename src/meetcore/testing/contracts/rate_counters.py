"""What everything that counts requests is held against.

Owns the port's promises: no hit is lost, none is counted twice, keys, classes and minutes count apart.
How a store becomes unavailable is tested for each technology apart.
"""

import asyncio
from collections import Counter
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.rate_counters import RateCounters

READ, CREDIT = OperationClass.READ, OperationClass.CREDIT
MINUTE = 1_796_126_400
"""The unix second on which a minute starts."""

_hit_sequences = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(OperationClass), st.integers(0, 2)), max_size=40
)


@pytest.mark.asyncio
class RateCountersContract:
    """The suite for one `RateCounters`. Give it the fixture `counters`, one that works::

        class TestMyRateCounters(RateCountersContract):
            @pytest.fixture
            def counters(self) -> RateCounters:
                return MyRateCounters()

    The suite counts for keys of its own only, so the store need not be empty.
    """

    async def test_twenty_at_once_count_to_twenty(self, counters: RateCounters) -> None:
        key = uuid4()
        counts = await asyncio.gather(*(counters.hit(key, READ, MINUTE) for _ in range(20)))
        assert sorted(counts) == list(range(1, 21))

    async def test_counting_goes_on_past_any_limit(self, counters: RateCounters) -> None:
        key = uuid4()
        assert [await counters.hit(key, CREDIT, MINUTE) for _ in range(25)] == list(range(1, 26))

    async def test_keys_count_apart(self, counters: RateCounters) -> None:
        one, other = uuid4(), uuid4()
        counts = await asyncio.gather(
            *(counters.hit(key, READ, MINUTE) for key in (one, other, one, other, one))
        )
        assert sorted(counts) == [1, 1, 2, 2, 3]

    async def test_classes_count_apart(self, counters: RateCounters) -> None:
        key = uuid4()
        await counters.hit(key, READ, MINUTE)
        for operation in OperationClass:
            assert await counters.hit(key, operation, MINUTE) == (2 if operation is READ else 1)

    async def test_windows_count_apart_and_a_clock_set_back_finds_its_count(
        self, counters: RateCounters
    ) -> None:
        key = uuid4()
        assert await counters.hit(key, READ, MINUTE) == 1
        for later in (60, 120):
            assert await counters.hit(key, READ, MINUTE + later) == 1
        assert await counters.hit(key, READ, MINUTE) == 2

    # The examples share the adapter, and each is some forty trips to a store: a long profile has its limit.
    @settings(
        max_examples=min(settings().max_examples, 500),
        deadline=None,
        suppress_health_check=[
            HealthCheck.differing_executors,
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
        ],
    )
    @given(sequence=_hit_sequences)
    async def test_whatever_is_counted_at_once_each_counter_counts_one_by_one(
        self, counters: RateCounters, sequence: list[tuple[int, OperationClass, int]]
    ) -> None:
        keys = [uuid4() for _ in range(3)]
        counts = await asyncio.gather(
            *(counters.hit(keys[key], operation, MINUTE + 60 * window) for key, operation, window in sequence)
        )
        for name, hits in Counter(sequence).items():
            counted_to = [count for counted, count in zip(sequence, counts, strict=True) if counted == name]
            assert sorted(counted_to) == list(range(1, hits + 1))

    async def test_a_caller_that_gives_up_has_made_its_attempt(self, counters: RateCounters) -> None:
        key = uuid4()
        await counters.hit(key, READ, MINUTE)
        cancelled = asyncio.create_task(counters.hit(key, READ, MINUTE))
        kept = asyncio.create_task(counters.hit(key, READ, MINUTE))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        # Whether the one that gave up was counted is not known; no other hit was lost with it.
        assert await kept in (2, 3)


class SharedRateCountersContract(RateCountersContract):
    """The suite for counters that processes share. Give it `other_counters` too: another process's view::

    class TestMyRateCounters(SharedRateCountersContract):
        @pytest.fixture
        def counters(self, my_server: str) -> RateCounters:
            return MyRateCounters(my_server)

        @pytest.fixture
        def other_counters(self, my_server: str) -> RateCounters:
            return MyRateCounters(my_server)
    """

    async def test_two_processes_count_the_same_minute(
        self, counters: RateCounters, other_counters: RateCounters
    ) -> None:
        key = uuid4()
        counts = await asyncio.gather(
            *(view.hit(key, READ, MINUTE) for view in (counters, other_counters) * 10)
        )
        assert sorted(counts) == list(range(1, 21))
