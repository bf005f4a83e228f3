"""What metrics and the fields of log lines add to a request: processor time of its calls, in one process.

The counts go into files that processes share, as with `--metrics-port`.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext

import structlog

from benchmarks.report import Result, middle
from meetcore.adapters.system import configure_logs
from meetcore.ports.log_fields import add_log_fields, logged_with
from meetcore.ports.metrics import NO_METRICS, Metrics, ServedRequest

__all__ = ["measure_metrics"]

LIMIT_US = 15.0


def measure_metrics(rounds: int, requests: int) -> Result:
    """Return the microseconds of a request, the median of several processes."""
    taken = [_of_a_process(requests) for _ in range(rounds)]
    return Result("metrics and log fields, of a request", middle(taken), None, "CPU µs", f"≤ {LIMIT_US:g}")


def _of_a_process(requests: int) -> float:
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.metrics", str(requests)],
            env=os.environ | {"PROMETHEUS_MULTIPROC_DIR": directory},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
        )  # fmt: skip
    return float(done.stdout)


def _counting_us(metrics: Metrics, requests: int) -> float:
    """Count so many requests of several operations, as the service does."""
    names = [f"GET /operation-{number}" for number in range(10)]
    start = time.process_time()
    for number in range(requests):
        metrics.begin_request()
        metrics.served(ServedRequest(names[number % 10], "read", 200, "", 0.004))
        metrics.end_request()
    return (time.process_time() - start) / requests * 1e6


def _logging_us(requests: int, *, has_fields: bool) -> float:
    """Log so many requests, each with or without the fields that say which it is of."""
    log = structlog.get_logger("meetcore.http")
    start = time.process_time()
    for _ in range(requests):
        request_id = "0192d2a6-0000-7000-8000-000000000000"
        with logged_with(request_id=request_id) if has_fields else nullcontext():
            if has_fields:
                add_log_fields(account_id="0192d2a6-0000-7000-8000-000000000001")
            log.info("request", method="GET", path="/api/v1/me", status=200, duration_ms=4.0)
    return (time.process_time() - start) / requests * 1e6


def main() -> None:
    """Print what both cost beyond a process without metrics, whose lines lack the fields."""
    from meetcore.composition.metrics import process_metrics

    requests = int(sys.argv[1])
    metrics = process_metrics()
    configure_logs("info", "serve")
    _counting_us(metrics, 100)
    _logging_us(100, has_fields=True)
    counting = _counting_us(metrics, requests) - _counting_us(NO_METRICS, requests)
    print(counting + _logging_us(requests, has_fields=True) - _logging_us(requests, has_fields=False))


if __name__ == "__main__":
    main()
