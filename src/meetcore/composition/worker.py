"""Run the application's background work, in its own process or on the event loop of the API.

Two independent parts, each with its queue: one sends webhooks and maintains meetings, one measures recordings
and writes notes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from meetcore.adapters.worker.delivery_worker import DeliveryWorker
from meetcore.adapters.worker.note_worker import NoteWorker
from meetcore.composition.application import Application
from meetcore.composition.ports import Part


@asynccontextmanager
async def working(application: Application, threads: int = 1) -> AsyncIterator[None]:
    """Run workers on this event loop, for the parts of the work that the application has the ports for.

    Args:
        application: the use cases.
        threads: the number of threads that listen for notifications.
    """
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        on_notify: dict[Part, Callable[[], object]] = {}
        for part, worker in _workers(application).items():
            await stack.enter_async_context(_running(worker))
            on_notify[part] = partial(loop.call_soon_threadsafe, worker.wake)
        await stack.enter_async_context(application.ports.listen(on_notify, threads))
        yield


def _workers(application: Application) -> dict[Part, DeliveryWorker | NoteWorker]:
    workers: dict[Part, DeliveryWorker | NoteWorker] = {}
    tasks, in_flight = application.periodic_tasks, application.policy.claim_limits.total
    if application.deliver is not None:
        workers[Part.WEBHOOKS] = DeliveryWorker(
            application.deliver, tasks[Part.WEBHOOKS], max_in_flight=in_flight
        )
    if application.notes is not None:
        workers[Part.NOTES] = NoteWorker(application.notes.write, tasks[Part.NOTES])
    return workers


@asynccontextmanager
async def _running(worker: DeliveryWorker | NoteWorker) -> AsyncIterator[None]:
    task = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await task
