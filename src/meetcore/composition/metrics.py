"""The metrics of this process: kept where something shows them, and nowhere else.

A process that shows metrics names a directory in its environment, and its children inherit that: each process
keeps its counts in files there. Without it the package for metrics is not imported.
"""

import asyncio
import os
from functools import cache
from importlib.util import find_spec
from typing import Final

from meetcore.adapters.postgres.pool import Pool
from meetcore.adapters.settings import SettingsRefused
from meetcore.ports.metrics import NO_METRICS, Metrics

DIRECTORY: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable of the environment that names the directory; the package reads it when it is imported."""

SAMPLE_EVERY_S: Final = 5.0


def has_metrics() -> bool:
    """Return whether the extra `metrics` is installed."""
    return find_spec("prometheus_client") is not None


def check_metrics() -> None:
    """Make sure that metrics can be served.

    Raises:
        SettingsRefused: the extra is not installed.
    """
    if not has_metrics():
        raise SettingsRefused("metrics need a package that is not installed: pip install 'meetcore[metrics]'")


@cache
def process_metrics() -> Metrics:
    """Return the metrics of this process: the same each time, as two would overwrite each other's counts."""
    if not os.environ.get(DIRECTORY) or not has_metrics():
        return NO_METRICS
    from meetcore.adapters.prometheus.metrics import PrometheusMetrics  # an extra

    return PrometheusMetrics()


async def sample_pool(pool: Pool, metrics: Metrics) -> None:
    """Report the state of the pool every few seconds, until it is cancelled."""
    while True:
        metrics.pool_state(pool.state())
        await asyncio.sleep(SAMPLE_EVERY_S)
