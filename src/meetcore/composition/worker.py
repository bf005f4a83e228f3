"""The application's background work, in its own process or on the event loop of the API.

Two independent parts, each with its queue: one sends webhooks and maintains meetings, one measures recordings
and writes notes. A third are the periodic tasks of each process of the API.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Final

from meetcore.adapters.worker.scheduler import Scheduler, log_faults
from meetcore.adapters.worker.workers import DeliveryWorker, NoteWorker
from meetcore.composition.application import Application, Part
from meetcore.usecases.runtime import PeriodicTask

LAST_ROUND_S: Final = 5.0
"""The time limit of the API's tasks when the process ends: the database may not answer."""

OBJECTS_BETWEEN_COLLECTIONS: Final = 10_000


def collect_rarely() -> None:
    """Exempt the objects of the start from garbage collection, and make it rare.

    Deliveries in flight are many objects and no garbage: to look for it took 120 of the 620 µs that each took
    on a busy machine, 30 since.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)


@asynccontextmanager
async def working(application: Application, threads: int = 1) -> AsyncIterator[None]:
    """Run workers on this event loop, for the parts that there are ports for; `threads` listen to queues."""
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        on_notify: dict[Part, Callable[[], object]] = {}
        workers = _workers(application)
        for part, worker in workers.items():
            await stack.enter_async_context(_running(worker))
            on_notify[part] = partial(loop.call_soon_threadsafe, worker.wake)
        await stack.enter_async_context(application.ports.listen(on_notify, threads))
        for worker in workers.values():  # all at once, before the first is waited for
            stack.callback(worker.stop)
        yield


@asynccontextmanager
async def api_tasks(application: Application) -> AsyncIterator[None]:
    """Run the periodic tasks of a process of the API on this event loop, once more at the end."""
    tasks = application.periodic_tasks[Part.API]
    scheduler = Scheduler(tasks, lambda: None)
    running = asyncio.create_task(scheduler.run())
    try:
        yield
    finally:
        scheduler.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_ROUND_S):
                await running
                for task in tasks:
                    await log_faults(partial(_once, task), task.name)


async def _once(task: PeriodicTask) -> bool:
    return bool(await task.work())


def _workers(application: Application) -> dict[Part, DeliveryWorker | NoteWorker]:
    workers: dict[Part, DeliveryWorker | NoteWorker] = {}
    tasks, in_flight = application.periodic_tasks, application.policy.claim_limits.total
    every = application.policy.periods
    if application.deliver is not None:
        workers[Part.WEBHOOKS] = DeliveryWorker(
            application.deliver,
            tasks[Part.WEBHOOKS],
            max_in_flight=in_flight,
            round_s=every.deliveries_s,
        )
    if application.notes is not None:
        workers[Part.NOTES] = NoteWorker(application.notes.write, tasks[Part.NOTES], round_s=every.notes_s)
    return workers


@asynccontextmanager
async def _running(worker: DeliveryWorker | NoteWorker) -> AsyncIterator[None]:
    task = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await task
