"""Which requests are recorded: a share by chance, and of callers who ask for it so many a second."""

from itertools import count

import pytest
from attrs import define

from meetcore.adapters.otlp import Sampling
from meetcore.domain.requests.request_log import TraceContext

ASKS = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", True)
ASKS_NOT = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", False)


@define
class Clock:
    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


def recorded(sampling: Sampling, caller: TraceContext | None, requests: int) -> int:
    return sum(sampling.is_recorded(caller) for _ in range(requests))


@pytest.mark.parametrize("caller", [None, ASKS_NOT, ASKS])
@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (0.01, 10), (0.5, 500), (1.0, 1000)])
def test_a_share_of_requests_is_recorded_whatever_their_trace_is(
    caller: TraceContext | None, share: float, expected: int
) -> None:
    numbers = count()
    sampling = Sampling(share, 0, chance=lambda: next(numbers) % 1000 / 1000, clock=Clock())
    assert recorded(sampling, caller, 1000) == expected


@pytest.mark.parametrize("per_s", [1, 3, 50])
def test_callers_are_recorded_up_to_so_many_a_second(per_s: int) -> None:
    clock = Clock()
    sampling = Sampling(0.0, per_s, clock=clock)
    assert recorded(sampling, ASKS, 1000) == per_s
    assert recorded(sampling, ASKS_NOT, 1000) == 0
    clock.now_s += 1.0
    assert recorded(sampling, ASKS, 1000) == per_s
    clock.now_s += 3600
    assert recorded(sampling, ASKS, 1000) == per_s, "what was not used is not saved up"


def test_the_limit_holds_over_any_time() -> None:
    clock = Clock()
    sampling = Sampling(0.0, 2, clock=clock)
    taken = 0
    for _ in range(1000):
        clock.now_s += 0.01
        taken += recorded(sampling, ASKS, 5)
    assert 20 <= taken <= 22


def test_a_clock_that_stands_still_or_goes_back_gives_nothing() -> None:
    clock = Clock()
    sampling = Sampling(0.0, 1, clock=clock)
    assert recorded(sampling, ASKS, 5) == 1
    clock.now_s -= 10
    assert recorded(sampling, ASKS, 5) == 0


def test_real_chance_records_its_share() -> None:
    assert 50 <= recorded(Sampling(0.1, 0), None, 1000) <= 160
