"""Licensed hosts: the choice among the free ones."""

from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.hosts import Host, choose_host
from meetcore.testing.strategies.meetings import hosts_of_a_house

seats = st.integers(1, 6)
houses = hosts_of_a_house()


@given(houses, seats, st.randoms(use_true_random=False))
def test_the_choice_is_the_same_in_any_order(free: list[Host], wanted: int, random: Any) -> None:
    shuffled = random.sample(free, len(free))
    assert choose_host(iter(shuffled), wanted) == choose_host(free, wanted)


@given(houses, seats)
def test_the_best_fit_is_chosen_and_none_only_when_none_fits(free: list[Host], wanted: int) -> None:
    chosen = choose_host(free, wanted)
    fitting = [host for host in free if host.is_active and host.capacity >= wanted]
    if chosen is None:
        assert fitting == []
        return
    assert chosen in fitting
    for other in fitting:
        assert chosen.capacity <= other.capacity
        if chosen.capacity == other.capacity:
            assert chosen.uses <= other.uses
            if chosen.uses == other.uses:
                assert chosen.id <= other.id


@given(houses, seats)
def test_a_host_that_was_not_chosen_may_go_away(free: list[Host], wanted: int) -> None:
    chosen = choose_host(free, wanted)
    if chosen is not None:
        assert choose_host([chosen], wanted) == chosen
        disabled = [evolve(host, is_active=host == chosen) for host in free]
        assert choose_host(disabled, wanted) == chosen


def test_uses_even_out_among_equals() -> None:
    free = {UUID(int=number): Host(UUID(int=number), "user", 100) for number in range(1, 4)}
    for _ in range(30):
        chosen = choose_host(free.values(), 50)
        assert chosen is not None
        free[chosen.id] = evolve(chosen, uses=chosen.uses + 1)
    assert {host.uses for host in free.values()} == {10}


def test_a_host_runs_one_meeting_at_a_time_unless_told_otherwise() -> None:
    host = Host(UUID(int=1), "user", 100)
    assert (host.max_concurrent, host.uses, host.is_active) == (1, 0, True)


@pytest.mark.parametrize("field", ["capacity", "max_concurrent"])
@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1", None])
def test_a_host_has_at_least_one_seat_and_runs_at_least_one_meeting(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field} must be a whole number of at least 1$"):
        Host(**{"id": UUID(int=1), "provider_user_id": "user", "capacity": 1, field: value})
