"""Prometheus metrics: counters of a process, and `/metrics` on its own port. Needs the extra `metrics`.

If `PROMETHEUS_MULTIPROC_DIR` is set from the start, the client keeps counters in files of that directory, so
that one process can show those of several; else in memory.
"""

import asyncio
import os
import platform
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import structlog
from attrs import define, fields, frozen
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.core import Metric as Sampled
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from meetcore.ports.figures import FigureReader, Figures
from meetcore.ports.observability import PROCESS_METRICS, Metric
from meetcore.ports.store import StoreUnavailable

ENDED_KEPT: Final = 100
"""Limit of ended processes whose counts are kept; the oldest are dropped first."""
MOST_CONNECTIONS: Final = 8
HEAD_BYTES: Final = 8 * 1024
HEAD_S: Final = 5.0
FIGURES_EVERY_S: Final = 15.0
FIGURES_KEPT_S: Final = 60.0
_STOP_S: Final = 10.0
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"

BUILD: Final = Metric("meetcore_build_info", "1, with the versions that run", ("version", "python"))
UP: Final = Metric(
    "meetcore_store_figures_up",
    "1 where the last reading of the figures below, at most a minute ago, succeeded. They are left out where "
    "it is 0",
)
FIGURES: Final[Mapping[str, Metric]] = {each.name: each.metadata["metric"] for each in fields(Figures)}
"""The metrics of the store, by figure."""

log = structlog.get_logger("meetcore.metrics")


class PrometheusMetrics:
    """Implements `Metrics`; labels are resolved once."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self._metrics = {each: _registered(each, registry) for each in PROCESS_METRICS}
        self._children: dict[tuple[Metric, tuple[str | int, ...]], Any] = {}
        for metric in PROCESS_METRICS:
            for values in metric.known:
                self._child(metric, values)

    def count(self, metric: Metric, *labels: str | int, by: float = 1) -> None:
        """Add to a counter or a gauge."""
        self._child(metric, labels).inc(by)

    def observe(self, metric: Metric, value: float, *labels: str | int) -> None:
        """Set a gauge, or add a duration in seconds to a histogram."""
        child = self._child(metric, labels)
        child.observe(value) if metric.buckets else child.set(value)

    def _child(self, metric: Metric, labels: tuple[str | int, ...]) -> Any:
        child = self._children.get((metric, labels))
        if child is None:
            found = self._metrics[metric]
            child = self._children[metric, labels] = found.labels(*labels) if labels else found
        return child


def _registered(metric: Metric, registry: CollectorRegistry) -> Any:
    known = (metric.name, metric.about, metric.labels)
    if metric.buckets:
        return Histogram(*known, registry=registry, buckets=metric.buckets)
    if metric.kind == "counter":
        return Counter(*known, registry=registry)
    # An ended process loses its gauges and keeps its counts.
    return Gauge(*known, registry=registry, multiprocess_mode="livesum")


class _Collector(MultiProcessCollector):
    """Reads the files of a directory, skipping empty ones, which a process has just opened."""

    def collect(self) -> Any:
        written = [str(file) for file in Path(self._path).glob("*.db") if _size_of(file)]
        return self.merge(written, accumulate=True)  # type: ignore[no-untyped-call]  # of the package


def _size_of(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # its process ended
        return 0


@frozen
class Exposition:
    """Renders the metrics of all processes that share a directory, with the store's figures if any."""

    directory: Path
    figures: Callable[[], Figures | None]
    version: str

    def render(self) -> bytes:
        """Return the metrics as text."""
        forget_ended(self.directory)
        registry = CollectorRegistry()
        registry.register(self)
        _Collector(registry, path=str(self.directory))  # type: ignore[no-untyped-call]  # of the package
        return generate_latest(registry)

    def collect(self) -> Iterator[Sampled]:
        """Yield the metrics that are not in the directory."""
        yield _gauge(BUILD, {(self.version, platform.python_version()): 1})
        figures = self.figures()
        yield _gauge(UP, {(): figures is not None})
        for name, metric in FIGURES.items() if figures is not None else ():
            value = getattr(figures, name)
            if name == "ledger_verified_at":
                value = value.timestamp() if isinstance(value, datetime) else 0
            if value is not None:
                yield _gauge(metric, {(key,): value[key] for key in value} if metric.labels else {(): value})


def _gauge(metric: Metric, values: Mapping[tuple[str, ...], float]) -> Sampled:
    gauge = GaugeMetricFamily(metric.name, metric.about, labels=metric.labels)
    for labels, value in values.items():
        gauge.add_metric(labels, float(value))
    return gauge


def forget_ended(directory: Path) -> None:
    """Remove the gauges of ended processes, and the counts of long ended ones."""
    ended: dict[int, float] = {}
    for file in directory.glob("*.db"):
        pid = int(file.stem.rpartition("_")[2])
        if pid not in ended and not _is_kept(file, pid):
            mark_process_dead(pid, str(directory))  # type: ignore[no-untyped-call]  # of the package
            ended[pid] = 0.0
        if pid in ended and file.exists():
            ended[pid] = max(ended[pid], file.stat().st_mtime)
    for pid in sorted(ended, key=ended.__getitem__)[: max(0, len(ended) - ENDED_KEPT)]:
        for file in directory.glob(f"*_{pid}.db"):
            file.unlink(missing_ok=True)


def _is_kept(file: Path, pid: int) -> bool:
    """Return whether a process has its file open; its pid alone may be reused."""
    try:
        os.kill(pid, 0)
        kept = file.stat()
        for opened in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                if os.path.samestat(opened.stat(), kept):
                    return True
        return False
    except ProcessLookupError:
        return False
    except (PermissionError, FileNotFoundError):  # another user's, or a system without /proc
        return True


class MetricsServer:
    """Serves `GET /metrics` to at most eight connections of one request each, with a bounded head."""

    def __init__(self, render: Callable[[], bytes]) -> None:
        self._render = render
        self._connections = 0

    async def open(self, host: str, port: int) -> asyncio.Server:
        """Listen; the caller closes the server. Raises `OSError` where the address is taken or foreign."""
        return await asyncio.start_server(self._serve, host, port, limit=HEAD_BYTES)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            # A client that is gone, too slow or too verbose gets no response.
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                if self._connections <= MOST_CONNECTIONS:
                    async with asyncio.timeout(HEAD_S):
                        head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head))
                    async with asyncio.timeout(HEAD_S):
                        await writer.drain()
        finally:
            self._connections -= 1
            writer.close()

    def _answer(self, request: bytes) -> bytes:
        method, path, *_ = [*request.split(b" ", 2), b""]
        if path.partition(b"?")[0] != b"/metrics":
            status, body = "404 Not Found", b"The metrics are at /metrics.\n"
        elif method != b"GET":
            status, body = "405 Method Not Allowed", b"GET only.\n"
        else:
            try:
                status, body = "200 OK", self._render()
            except Exception:
                log.exception("metrics not rendered")
                status, body = "500 Internal Server Error", b"The metrics cannot be rendered; see the log.\n"
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: {_TEXT}\r\nContent-Length: {len(body)}\r\nConnection: close"
        )
        return f"{head}\r\n\r\n".encode() + body


OpenFigures = Callable[[float], AbstractAsyncContextManager[FigureReader]]
"""Opens the store's figures on a connection that may idle for these seconds."""
Started = Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]
"""The thread's event loop and its stop event."""


@contextmanager
def metrics_served(
    directory: Path, host: str, port: int, version: str, open_figures: OpenFigures
) -> Iterator[None]:
    """Serve the metrics of all processes that share a directory during the block.

    A thread with its own event loop serves them, so that scrapes and requests do not delay each other. It
    reads the store's figures every 15 seconds, never at a scrape. Raises as `MetricsServer.open`.
    """
    started = Started()

    def run() -> None:
        try:
            asyncio.run(_serve(directory, host, port, version, open_figures, started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=run, name="metrics", daemon=True)
    thread.start()
    loop, stop = started.result()
    try:
        yield
    finally:
        with suppress(RuntimeError):  # the loop failed, and logged it
            loop.call_soon_threadsafe(stop.set)
        thread.join(_STOP_S)


@define
class _Latest:
    """The last figures of the store, with their time by the loop's clock."""

    figures: Figures | None = None
    read_at: float = 0.0


async def _serve(
    directory: Path, host: str, port: int, version: str, open_figures: OpenFigures, started: Started
) -> None:
    loop, stop, latest = asyncio.get_running_loop(), asyncio.Event(), _Latest()

    def figures() -> Figures | None:
        return latest.figures if loop.time() - latest.read_at < FIGURES_KEPT_S else None

    reading = asyncio.create_task(_read_figures(open_figures, latest))
    server = await MetricsServer(Exposition(directory, figures, version).render).open(host, port)
    log.info("metrics served", url=f"http://{host}:{port}/metrics")
    started.set_result((loop, stop))
    try:
        async with server:
            await stop.wait()
    finally:
        reading.cancel()
        await asyncio.wait([reading])


async def _read_figures(open_figures: OpenFigures, latest: _Latest) -> None:
    """Read the store's figures until cancelled; a failure skips a round."""
    loop, is_away = asyncio.get_running_loop(), False
    async with open_figures(2 * FIGURES_EVERY_S) as reader:
        while True:
            try:
                latest.figures, latest.read_at, is_away = await reader.read(), loop.time(), False
            except StoreUnavailable as error:
                if not is_away:
                    log.warning("figures not read", cause=repr(error.__cause__))
                is_away = True
            except Exception:
                log.exception("fault", during="figures")
            await asyncio.sleep(FIGURES_EVERY_S)
