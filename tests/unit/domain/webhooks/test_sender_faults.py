"""Faults of the sender that only the results at many hosts show."""

from collections.abc import Collection
from datetime import UTC, datetime
from uuid import UUID

import pytest

from meetcore.domain.webhooks.sender_faults import TRANSPORT_ERRORS, HostResult, shared_error

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def results(*of: tuple[int, str, str | None]) -> Collection[HostResult]:
    return {host: HostResult(UUID(int=number), error, NOW) for number, host, error in of}.values()


@pytest.mark.parametrize("error", sorted(TRANSPORT_ERRORS))
def test_an_error_of_most_hosts_and_accounts_is_the_senders(error: str) -> None:
    assert shared_error(results((1, "a", error), (2, "b", error), (3, "c", error), (4, "d", None))) == error
    assert shared_error(results((1, "a", error), (1, "b", error), (2, "c", error))) == error, "two accounts"


@pytest.mark.parametrize("of", [
    [(1, "a", "tls_failed"), (2, "b", "tls_failed")],
    [(1, host, "tls_failed") for host in "abcdefgh"],
    [(1, "a", "tls_failed"), (2, "b", "tls_failed"), (3, "c", "dns_failed")],
    [(number, host, "timeout") for number, host in enumerate("abcdef")],
    [(number, host, "status_500") for number, host in enumerate("abcdef")],
    [(1, "a", "tls_failed"), (2, "b", "tls_failed"), (3, "c", "tls_failed"), *[(9, h, None) for h in "xyz"]],
    # Many hosts, few accounts: those of others work.
    [*[(n % 2, f"{n}", "tls_failed") for n in range(50)], (7, "x", None), (8, "y", None)],
    # An account with a host that works is not failing.
    [(1, "a", "tls_failed"), (1, "b", "tls_failed"), (2, "c", "tls_failed"), (2, "x", None)],
])  # fmt: skip
def test_any_other_is_the_receivers(of: list[tuple[int, str, str | None]]) -> None:
    assert shared_error(results(*of)) is None
