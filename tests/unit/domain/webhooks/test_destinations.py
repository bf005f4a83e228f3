"""Failures counted at a host: in a row, over the endpoints of one account there (spec 3)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.webhooks.destinations import HostFailures, count_failure, count_success
from meetcore.domain.webhooks.endpoints import (
    Endpoint,
    EndpointState,
    disable_with_host,
    record_failure,
    record_success,
    register,
    resume,
)
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.urls import parse_webhook_url

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)
ID = UUID(int=7)
ENDPOINT = register(
    id=ID, account_id=ID, url=parse_webhook_url("https://hooks.example/"), description=None,
    event_types=(EventKind.MEETING_CREATED,), created_by="key-1", created_at=NOW, secret="whsec_hidden",
)  # fmt: skip
ACTIVE, DISABLED = EndpointState.ACTIVE, EndpointState.DISABLED


class Host:
    """Some endpoints at one host, and what is counted there."""

    def __init__(self, endpoints: int) -> None:
        self.endpoints: list[Endpoint] = [ENDPOINT] * endpoints
        self.failures = HostFailures(ID, ENDPOINT.host)
        self.times_failed = 0

    def fail(self, which: int) -> None:
        before = self.endpoints[which]
        after = self.endpoints[which] = record_failure(before, NOW)
        self.failures, is_failing = count_failure(self.failures, before, after)
        if is_failing:
            self.times_failed += 1
            self.endpoints = [disable_with_host(one, NOW) for one in self.endpoints]

    def succeed(self, which: int) -> None:
        self.endpoints[which] = record_success(self.endpoints[which])
        self.failures = count_success(self.failures)

    def states(self) -> list[EndpointState]:
        return [one.state for one in self.endpoints]


@pytest.mark.spec("3/disable-at-20")
def test_the_20th_failure_in_a_row_disables_those_that_fail() -> None:
    host = Host(4)
    host.succeed(3)
    for number in range(19):
        host.fail(number % 3)
    assert host.states() == [ACTIVE] * 4
    host.fail(0)
    assert host.states() == [DISABLED] * 3 + [ACTIVE]
    assert host.failures.consecutive_failures == 0


@pytest.mark.spec("3/disable-at-20")
def test_an_endpoint_alone_at_its_host_has_20_failures_each_time() -> None:
    host = Host(1)
    for _ in range(2):
        for _ in range(19):
            host.fail(0)
        assert host.states() == [ACTIVE]
        host.fail(0)
        assert host.states() == [DISABLED]
        host.endpoints[0] = resume(host.endpoints[0])


def test_posts_that_were_in_flight_at_a_disabled_endpoint_do_not_count() -> None:
    host = Host(2)
    for _ in range(20):
        host.fail(0)
    for _ in range(15):
        host.fail(0)
    assert (host.failures.consecutive_failures, host.times_failed) == (0, 1)
    host.fail(1)
    assert host.states() == [DISABLED, ACTIVE]


def test_an_endpoint_that_is_disabled_by_its_own_failures_starts_the_count_of_its_host_again() -> None:
    host = Host(1)
    host.endpoints[0] = evolve(ENDPOINT, consecutive_failures=19)
    host.fail(0)
    assert host.states() == [DISABLED]
    assert (host.failures.consecutive_failures, host.times_failed) == (0, 0)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=120))
def test_the_count_matches_a_direct_model_of_the_rule(word: Sequence[tuple[int, bool]]) -> None:
    """No more than 20 failures in a row are counted, and a success anywhere at the host starts again."""
    host, row = Host(5), 0
    for which, is_good in word:
        counts = host.endpoints[which].state is ACTIVE
        own = host.endpoints[which].consecutive_failures
        before = host.times_failed
        if is_good:
            host.succeed(which)
            row = 0
        else:
            host.fail(which)
            row += counts
        if row == 20:
            assert host.times_failed == before + 1
        elif counts and not is_good and own == 19:
            assert host.states()[which] is DISABLED
        else:
            assert host.times_failed == before
        if row == 20 or (counts and not is_good and own == 19):
            row = 0
        assert host.failures.consecutive_failures == row


@given(st.integers(1, 200))
def test_an_unreachable_host_gets_at_most_19_posts_beyond_its_endpoint_count(
    endpoints: int,
) -> None:
    """One event for each; what is not disabled by it is tried again, and again."""
    host, posts = Host(endpoints), 0
    while active := [number for number, state in enumerate(host.states()) if state is ACTIVE]:
        for which in active:
            if host.endpoints[which].state is ACTIVE:
                host.fail(which)
                posts += 1
    assert posts <= endpoints + 19
