"""What a process keeps of its results, and when a fault of the sender begins and is over."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from meetcore.domain.webhooks.sender_faults import FAULT_OVER, RESULTS_KEPT, SenderFault
from meetcore.usecases.webhooks.sender_results import PresentFaults, RecentResults

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def account(number: int) -> UUID:
    return UUID(int=number)


def results(*of: tuple[int, str, str | None], at: datetime = NOW) -> RecentResults:
    made = RecentResults()
    for number, host, error in of:
        made.add(host, account(number), error, at)
    return made


def test_an_error_of_all_hosts_is_at_all_of_them() -> None:
    made = results((1, "a", "tls_failed"), (2, "b", "tls_failed"), (3, "c", "tls_failed"), (4, "d", None))
    assert made.shared_error(NOW) == "tls_failed"
    assert not made.is_at_all_hosts("tls_failed")
    made.add("d", account(4), "tls_failed", NOW)
    assert made.is_at_all_hosts("tls_failed")


def test_a_success_at_a_host_keeps_it_out() -> None:
    made = results(*[(n, f"{n}", "connect_failed") for n in range(4)])
    for n in range(2):
        made.add(f"{n}", account(n), None, NOW)
    assert made.shared_error(NOW) is None


def test_a_result_counts_for_a_minute() -> None:
    made = results(*[(n, f"{n}", "dns_failed") for n in range(3)])
    assert made.shared_error(NOW + RESULTS_KEPT) == "dns_failed"
    assert made.shared_error(NOW + RESULTS_KEPT + timedelta(seconds=1)) is None


def test_a_clock_that_is_set_back_loses_the_results_and_nothing_else() -> None:
    made = results(*[(n, f"{n}", "dns_failed") for n in range(3)])
    assert made.shared_error(NOW - timedelta(hours=1)) is None


def test_hosts_that_had_failed_before_say_nothing() -> None:
    made = RecentResults()
    for n in range(10):
        made.add(f"{n}", account(n), "connect_timeout", NOW, was_failing=True)
    assert made.shared_error(NOW) is None
    made.add("x", account(99), None, NOW)
    for n in (20, 21, 22):
        for was_failing in (False, True):  # the first one counted, and they go on
            made.add(f"{n}", account(n), "connect_timeout", NOW, was_failing=was_failing)
    assert made.shared_error(NOW) == "connect_timeout"


def test_a_fault_begins_once_and_is_over_once() -> None:
    faults, last = PresentFaults(), NOW + timedelta(seconds=20)
    assert faults.add({SenderFault.NO_RESOLVER: 3}, NOW) == [SenderFault.NO_RESOLVER]
    begun = faults.add({SenderFault.NO_RESOLVER: 4, SenderFault.NO_ROUTE: 1}, last)
    assert begun == [SenderFault.NO_ROUTE]
    assert faults.end(last + FAULT_OVER - timedelta(seconds=1)) == []
    periods = {one.fault: one for one in faults.end(last + FAULT_OVER)}
    assert set(periods) == {SenderFault.NO_RESOLVER, SenderFault.NO_ROUTE}
    resolver = periods[SenderFault.NO_RESOLVER]
    assert (resolver.began_at, resolver.last_at, resolver.put_off) == (NOW, last, 7)
    assert faults.end(last + 2 * FAULT_OVER) == []
    assert faults.add({SenderFault.NO_RESOLVER: 1}, last + 2 * FAULT_OVER) == [SenderFault.NO_RESOLVER]
