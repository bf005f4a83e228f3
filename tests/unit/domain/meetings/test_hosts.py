"""Hosts: the choice among the free, the share of a day's creations."""

from datetime import UTC, date, datetime, timedelta, timezone
from math import ceil
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.meetings.hosts import (
    DayCreations,
    Host,
    choose_host,
    may_create,
    next_creation_day,
    tiers_without_host,
)
from meetcore.domain.money.pricing import PricingTier
from meetcore.testing.strategies.meetings import host_pools

seats = st.integers(1, 6)
host_lists = host_pools()


@given(host_lists, st.lists(seats, max_size=4))
@example([], [1])
def test_a_tier_is_without_host_where_none_can_be_chosen(hosts_given: list[Host], wanted: list[int]) -> None:
    tiers = [PricingTier(f"tier-{place}", "Tier", each, 60, 10, 5) for place, each in enumerate(wanted)]
    lacking = tiers_without_host(tiers, iter(hosts_given))
    assert [*lacking] == [tier for tier in tiers if choose_host(hosts_given, tier.capacity) is None]


@given(host_lists, seats)
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


@pytest.mark.parametrize(("field", "value", "bounds"), [
    *(("capacity", value, "of at least 1") for value in (0, True, 1.0, None)),
    *(("max_concurrent", value, "from 1 to 100") for value in (0, 101, True, 1.0, None)),
])  # fmt: skip
def test_a_host_has_a_seat_and_runs_1_to_100_meetings_at_a_time(field: str, value: Any, bounds: str) -> None:
    assert [Host(UUID(int=1), "user", 1, *most).max_concurrent for most in ((), (100,))] == [1, 100]
    with pytest.raises(ValueError, match=f"^{field} must be a whole number {bounds}$"):
        Host(**{"id": UUID(int=1), "provider_user_id": "user", "capacity": 1, field: value})


# Which may be given another meeting

AT = datetime(2026, 12, 1, 23, 30, tzinfo=UTC)
HOST = Host(UUID(int=1), "user", 100)
wib = timezone(timedelta(hours=7))


@pytest.mark.parametrize(("changes", "per_day", "can"), [
    ({}, None, True),
    ({}, 1, True),
    ({"is_active": False}, None, False),
    ({"unavailable_until": AT + timedelta(microseconds=1)}, None, False),
    ({"unavailable_until": AT}, None, True),
    ({"creations": 2, "creations_on": date(2026, 12, 1)}, None, True),
    ({"creations": 1, "creations_on": date(2026, 12, 1)}, 2, True),
    ({"creations": 2, "creations_on": date(2026, 12, 1)}, 2, False),
    ({"creations": 3, "creations_on": date(2026, 12, 1)}, 2, False),
    ({"creations": 2, "creations_on": date(2026, 11, 30)}, 2, True),
    ({"creations": 2, "creations_on": date(2026, 12, 2)}, 2, True),
    ({"creations": 2, "creations_on": date(2026, 12, 1), "is_active": False}, 3, False),
])  # fmt: skip
def test_a_host_takes_a_meeting_unless_disabled_unavailable_or_at_its_daily_limit(
    changes: dict[str, Any], per_day: int | None, can: bool
) -> None:
    host = evolve(HOST, **changes)
    assert host.can_take(AT, per_day) is can
    assert host.can_take(AT.astimezone(wib), per_day) is can, "the day is the day in UTC"


def test_uses_and_the_days_creations_are_counted() -> None:
    used = HOST.used(AT).used(AT.astimezone(wib))
    assert used == evolve(HOST, uses=2, creations=2, creations_on=date(2026, 12, 1))
    later = used.used(AT + timedelta(minutes=30))
    assert later == evolve(HOST, uses=3, creations=1, creations_on=date(2026, 12, 2))
    late = evolve(HOST, uses=4, creations=2, creations_on=date(2026, 12, 2))
    assert later.used(AT) == late


def test_creations_that_failed_are_not_counted_on_their_day() -> None:
    used = HOST.used(AT).used(AT)
    assert used.given_back(AT.astimezone(wib)) == evolve(used, creations=1)
    assert used.given_back(AT).given_back(AT) == evolve(used, creations=0)
    later = AT + timedelta(minutes=30)
    assert used.given_back(later) == used, "another day"
    spent = evolve(used, creations=0)
    assert spent.given_back(AT) == spent
    assert HOST.given_back(AT) == HOST


def used_up_in_turn(total: int, percent: int, accounts: int) -> list[int]:
    """How many creations each of some accounts gets that come one after another and take all they may."""
    used = [0] * accounts
    for place in range(accounts):
        while may_create(DayCreations(used[place], total - sum(used)), percent):
            used[place] += 1
    return used


@given(st.integers(0, 400), st.integers(1, 100), st.integers(1, 6))
def test_an_account_never_uses_more_than_its_share_of_what_others_left(
    total: int, percent: int, accounts: int
) -> None:
    used = used_up_in_turn(total, percent, accounts)
    assert sum(used) <= total
    left = total
    for each in used:
        assert each == ceil(percent * left / 100)
        left -= each


@given(st.integers(0, 400), st.integers(0, 400))
def test_without_a_share_everything_that_is_left_may_be_used(used: int, left: int) -> None:
    assert may_create(DayCreations(used, left), 100) == (left > 0)


@given(st.integers(0, 400), st.integers(0, 400), st.integers(1, 100), st.integers(1, 400))
def test_what_others_use_never_widens_a_share(used: int, left: int, percent: int, others: int) -> None:
    if may_create(DayCreations(used, max(0, left - others)), percent):
        assert may_create(DayCreations(used, left), percent)


NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


@given(
    st.integers(0, 5), st.sampled_from([None, NOON.date(), NOON.date() - timedelta(days=1)]),
    st.sampled_from([None, NOON, NOON + timedelta(minutes=5), NOON + timedelta(days=2)]), st.booleans(),
    st.sampled_from([None, 3]),
)  # fmt: skip
@example(3, NOON.date(), NOON + timedelta(minutes=5), True, 3)
def test_the_next_creation_is_at_the_first_instant_at_which_a_host_can_take_one(
    creations: int, creations_on: date | None, unavailable_until: datetime | None, is_active: bool,
    per_day: int | None,
) -> None:  # fmt: skip
    host = Host(
        UUID(int=1), "user", 10, is_active=is_active, creations=creations, creations_on=creations_on,
        unavailable_until=unavailable_until,
    )  # fmt: skip
    first = host.next_creation_at(NOON, per_day)
    assert (first == NOON) == host.can_take(NOON, per_day)
    assert (first is None) == (not is_active)
    if first is not None:
        assert host.can_take(first, per_day)
        assert first == NOON or not host.can_take(first - timedelta(microseconds=1), per_day)


@pytest.mark.usefixtures("far_from_utc")
def test_the_day_of_creations_is_that_in_utc_wherever_the_machine_is() -> None:
    used = HOST.used(AT)
    assert used.creations_on == date(2026, 12, 1)
    assert not used.can_take(AT, 1)
    assert used.can_take(AT, 2)
    assert used.given_back(AT) == evolve(used, creations=0)
    assert next_creation_day(AT) == datetime(2026, 12, 2, tzinfo=UTC)


def test_creations_are_counted_anew_at_midnight_in_utc() -> None:
    wib = timezone(timedelta(hours=7))
    assert next_creation_day(datetime(2026, 12, 2, 3, tzinfo=wib)) == datetime(2026, 12, 2, tzinfo=UTC)
    assert next_creation_day(datetime(2026, 12, 2, tzinfo=UTC)) == datetime(2026, 12, 3, tzinfo=UTC)
