"""Showing the metrics of a command and the processes that it starts, in a thread with an event loop of its
own.

So a scrape waits for no request, and no request for a scrape. The figures of the store are read here and
nowhere else, on one connection, every 15 seconds: a scrape shows the last ones and never reads.
"""

import asyncio
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import structlog
from attrs import define

from meetcore.adapters.postgres.figures import PostgresFigures
from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.settings import Settings
from meetcore.adapters.system import version
from meetcore.composition.metrics import DIRECTORY, check_metrics
from meetcore.ports.figures import Figures
from meetcore.ports.store import StoreUnavailable

FIGURES_EVERY_S: Final = 15.0
FIGURES_KEPT_S: Final = 60.0
FIGURES_S: Final = 4
"""Seconds in which they are read; the server itself ends each statement after 2."""
_STOP_S: Final = 10.0

log = structlog.get_logger("meetcore.metrics")


@define
class _Latest:
    """The last figures of the store, and when they were read by the loop's clock."""

    figures: Figures | None = None
    read_at: float = 0.0


@contextmanager
def metrics_shown(settings: Settings, host: str, port: int | None) -> Iterator[None]:
    """Serve the metrics of this process, and of those that it starts, on a port while the block runs.

    Without a port nothing is kept or served, and nothing imported.

    Raises:
        SettingsRefused: the extra `metrics` is not installed.
        OSError: the address is taken, or not one of this machine.
    """
    if port is None:
        yield
        return
    check_metrics()
    directory = tempfile.mkdtemp(prefix="meetcore-metrics-")
    os.environ[DIRECTORY] = directory
    try:
        with _removed_on_sigterm(directory), _serving(settings, Path(directory), host, port):
            yield
    finally:
        del os.environ[DIRECTORY]
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _removed_on_sigterm(directory: str) -> Iterator[None]:
    """Remove a directory also where SIGTERM ends the process: a server that stopped by it raises it again."""

    def end(number: int, _: object) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _serving(settings: Settings, directory: Path, host: str, port: int) -> Iterator[None]:
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    def run() -> None:
        try:
            asyncio.run(_serve(settings, directory, host, port, started))
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
        with suppress(RuntimeError):  # it ended by itself, and said why
            loop.call_soon_threadsafe(stop.set)
        thread.join(_STOP_S)


async def _serve(
    settings: Settings,
    directory: Path,
    host: str,
    port: int,
    started: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]",
) -> None:
    from meetcore.adapters.prometheus.exposition import Exposition  # an extra
    from meetcore.adapters.prometheus.server import MetricsServer

    loop, stop, latest = asyncio.get_running_loop(), asyncio.Event(), _Latest()

    def figures() -> Figures | None:
        return latest.figures if loop.time() - latest.read_at < FIGURES_KEPT_S else None

    reading = asyncio.create_task(_read_figures(settings, latest))
    server = await MetricsServer(Exposition(directory, figures, version()).render).open(host, port)
    log.info("metrics served", url=f"http://{host}:{port}/metrics")
    started.set_result((loop, stop))
    try:
        async with server:
            await stop.wait()
    finally:
        reading.cancel()
        await asyncio.wait([reading])


async def _read_figures(settings: Settings, latest: _Latest) -> None:
    """Read the figures of the store every 15 seconds, until it is cancelled; a failure costs a round."""
    loop, is_away = asyncio.get_running_loop(), False
    pool = make_pool(
        settings.require_database(), max_size=1, min_size=0, idle_s=2 * FIGURES_EVERY_S,
        deadline_s=FIGURES_S, is_pooled=settings.is_pooled, role="metrics",
    )  # fmt: skip
    reader = PostgresFigures(pool)
    async with pool:
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
