"""Periodic tasks and claimed work on an event loop, until it is stopped.

A fault skips a round and is logged; it never ends the worker.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

import structlog

from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.runtime import PeriodicTask

log = structlog.get_logger("meetcore.worker")


LAST_ROUND_S: Final = 5.0
"""Seconds for periodic tasks to end in at a stop: work that is cut off waits for the end of its lease."""


class Scheduler:
    """Periodic tasks, of which none waits for another; `on_due` is called when more may be due."""

    def __init__(self, periodic_tasks: Sequence[PeriodicTask], on_due: Callable[[], object]) -> None:
        self._wake_ups = [(task, asyncio.Event()) for task in periodic_tasks]
        self._on_due = on_due
        self._stopping = asyncio.Event()

    def notify(self) -> None:
        """Run what `runs_on_notify` now. Call it on the rounds' own loop."""
        for task, wake_up in self._wake_ups:
            if task.runs_on_notify:
                wake_up.set()

    def stop(self) -> None:
        """Begin no further round."""
        self._stopping.set()
        for _, wake_up in self._wake_ups:
            wake_up.set()

    async def run(self) -> None:
        """Go round until `stop`, or until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for task, wake_up in self._wake_ups:
                group.create_task(self._repeat(task, wake_up))

    async def _repeat(self, task: PeriodicTask, wake_up: asyncio.Event) -> None:
        async def once() -> bool:
            return bool(await task.work())

        # The event, too: a cancellation at the moment of completion may be lost in the pool.
        while not self._stopping.is_set():
            wake_up.clear()
            if await log_faults(once, task.name):
                self._on_due()
            if not self._stopping.is_set():  # stopped in the middle of it: its event has been cleared
                await wait_at_most(wake_up, task.every_s)


class ClaimingWorker:
    """Claims work at each notification or round, beside periodic tasks, and runs until it is stopped.

    The database is the truth: a lost notification costs at most one round, of `round_s` seconds.
    """

    during = "claim"

    def __init__(self, periodic_tasks: Sequence[PeriodicTask], round_s: float) -> None:
        self._scheduler = Scheduler(periodic_tasks, self.wake)
        self._round_s = round_s
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._in_flight: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        """Check for work now. To be called on the worker's own event loop."""
        self._wake.set()
        self._scheduler.notify()

    def stop(self) -> None:
        """Claim nothing more, and return from `run` in good order."""
        self._stopping.set()
        self._scheduler.stop()
        self._wake.set()

    async def run(self) -> None:
        """Work until `stop`."""
        scheduler = asyncio.create_task(self._scheduler.run())
        try:
            while not self._stopping.is_set():
                self._wake.clear()
                if not await log_faults(self._claim, self.during):
                    await wait_at_most(self._wake, self._round_s)
            await self._drain()
            await asyncio.wait([scheduler], timeout=LAST_ROUND_S)
        finally:
            for task in (scheduler, *self._in_flight):
                task.cancel()
            await asyncio.gather(scheduler, *self._in_flight, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Work on a piece that was claimed."""
        task = asyncio.create_task(work)
        self._in_flight.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)

    async def _claim(self) -> bool:
        """Claim as much as there is room for; true when there may be more."""
        raise NotImplementedError

    async def _drain(self) -> None:
        """Finish the work in flight; the rest is cancelled."""


async def wait_at_most(until: asyncio.Event, at_most_s: float) -> None:
    """Wait until the event is set, at most so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(at_most_s):
            await until.wait()


async def log_faults(work: Callable[[], Awaitable[bool]], what: str) -> bool:
    """Do one thing; a fault is logged and costs a round, never the worker."""
    try:
        return await work()
    except StoreUnavailable as error:
        log.warning("store unavailable", during=what, cause=repr(error.__cause__))
    except Exception:
        log.exception("fault", during=what)
    return False
