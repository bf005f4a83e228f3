"""Metrics, in every adapter."""

import pytest

from meetcore.adapters.prometheus.metrics import PrometheusMetrics
from meetcore.ports.metrics import NO_METRICS, Metrics
from meetcore.testing.contracts import MetricsContract


class TestMetrics(MetricsContract):
    """For Prometheus, and kept nowhere."""

    @pytest.fixture(params=["prometheus", "none"])
    def metrics(self, request: pytest.FixtureRequest) -> Metrics:
        return PrometheusMetrics() if request.param == "prometheus" else NO_METRICS
