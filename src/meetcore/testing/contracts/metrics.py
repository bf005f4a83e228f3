"""Metrics: every fact is taken, as often as it comes, and nothing is answered."""

import pytest

from meetcore.domain.money.transfers import TransferKind
from meetcore.ports.metrics import Metrics, PoolState, ServedRequest


class MetricsContract:
    """What `ports.metrics.Metrics` promises."""

    @pytest.mark.parametrize("times", [1, 3])
    def test_facts_are_taken_as_often_as_they_come(self, metrics: Metrics, times: int) -> None:
        for _ in range(times):
            metrics.begin_request()
            metrics.served(ServedRequest("POST /meetings", "credit", 201, "", 0.02))
            metrics.served(ServedRequest("unknown", "read", 404, "not_found", 0.0))
            metrics.end_request()
            metrics.store_unavailable("pool", "primary")
            metrics.store_unavailable("pool", "lists")
            metrics.attempted("2xx", 0.3)
            metrics.delivery_failed("attempts")
            metrics.endpoint_disabled()
            metrics.lease_expired("meeting")
            metrics.reconciled("finished")
            metrics.provider_called("create", "done", 0.5)
            metrics.no_host(100)
            metrics.note_failed("no_speech")
            metrics.rate_store(is_away=True)
            metrics.rate_store(is_away=False)

    def test_credits_may_be_taken_by_an_adjustment(self, metrics: Metrics) -> None:
        for kind in TransferKind:
            metrics.credits_moved(kind, 10)
        metrics.credits_moved(TransferKind.ADJUSTMENT, -10)
        metrics.credits_moved(TransferKind.MEETING_CHARGE, 0)

    def test_a_pool_that_was_opened_anew_counts_from_zero(self, metrics: Metrics) -> None:
        metrics.pool_state(PoolState(4, 1, 2, 10, 1.5))
        metrics.pool_state(PoolState(1, 1, 0, 0, 0.0))
