"""Rounds: work that comes round on an event loop, each piece by itself, until it is stopped.

A fault skips a round and is logged; it never ends the worker. Owns when tasks run, not what they
do.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import structlog

from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.periodic_task import PeriodicTask

log = structlog.get_logger("meetcore.worker")


class Scheduler:
    """Periodic tasks, of which none waits for another.

    Args:
        on_due: called when a task reports that something may be due.
    """

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


async def wait_at_most(until: asyncio.Event, at_most_s: float) -> None:
    """Do nothing until that is set, and no longer than so many seconds."""
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
