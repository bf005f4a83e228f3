"""What every worker notifier is held against.

Owns what a notification costs, and that it arrives. `WorkerNotifierContract` is for one in its own process;
`RemoteNotifierContract` tests in addition what happens while the queue is unavailable. Nothing is counted:
a notification may be lost, doubled or late, and of several one may arrive.
"""

import asyncio
import gc
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, Protocol

import pytest

from meetcore.ports.worker_notifier import WorkerNotifier


class NotifierRig(Protocol):
    """A notifier, and the consumer of its notifications."""

    @property
    def notifier(self) -> WorkerNotifier:
        """The notifier under test."""

    def listening(self, on_wake: Callable[[], object]) -> AbstractAsyncContextManager[object]:
        """One worker that listens while the context lasts, and calls `on_wake`, from any thread it likes."""


class RemoteNotifierRig(NotifierRig, Protocol):
    """A notifier whose queue can be taken away. At first it is there."""

    async def disconnect(self) -> None:
        """Cut every connection and allow no new one."""

    async def bring_back(self) -> None:
        """Accept connections again."""


class _Wakes:
    """Wakes as they come, from whatever thread; must be made inside the event loop."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._wakes = asyncio.Event()

    def note(self) -> None:
        self._loop.call_soon_threadsafe(self._wakes.set)

    async def is_notified(self, within_s: float) -> bool:
        """Wait for a wake and consume it."""
        try:
            await asyncio.wait_for(self._wakes.wait(), within_s)
        except TimeoutError:
            return False
        self._wakes.clear()
        return True

    async def must_come(self) -> None:
        assert await self.is_notified(self._timeout_s), (
            f"no wake within {self._timeout_s} s of a notification"
        )

    async def must_come_on_notifying(self, notifier: WorkerNotifier) -> None:
        """Notify until one arrives, as a busy service does: some are lost while the queue comes back."""
        deadline = time.monotonic() + self._timeout_s
        while not await self.is_notified(0.1):
            assert time.monotonic() < deadline, f"no wake within {self._timeout_s} s of the queue's return"
            notifier.notify()

    async def settle(self) -> None:
        """Wait until the wakes of earlier notifications have all come."""
        while await self.is_notified(0.3):
            pass


@pytest.mark.asyncio
class WorkerNotifierContract:
    """The suite for one `WorkerNotifier`. Give it the fixture `rig`, a notifier and its listener::

        class MyRig:
            def __init__(self) -> None:
                self.notifier = MyNotifier()

            @asynccontextmanager
            async def listening(self, on_wake: Callable[[], object]) -> AsyncIterator[None]:
                self.notifier.workers.add(on_wake)
                yield
                self.notifier.workers.remove(on_wake)

        class TestMyDoorbell(WorkerNotifierContract):
            @pytest.fixture
            def rig(self) -> NotifierRig:
                return MyRig()

    Attributes:
        timeout_s: how long a wake may take before the test gives up, in seconds.
    """

    timeout_s: ClassVar[float] = 15.0

    async def test_each_notification_wakes_the_listener(self, rig: NotifierRig) -> None:
        wakes = _Wakes(self.timeout_s)
        async with rig.listening(wakes.note):
            for _ in range(3):
                rig.notifier.notify()
                await wakes.must_come()
                await wakes.settle()

    async def test_a_hundred_notifications_wake_at_least_once_and_again_after_the_last(
        self, rig: NotifierRig
    ) -> None:
        wakes = _Wakes(self.timeout_s)
        async with rig.listening(wakes.note):
            for _ in range(99):
                rig.notifier.notify()
            await wakes.must_come()
            await wakes.settle()
            rig.notifier.notify()
            await wakes.must_come()

    async def test_a_notification_without_a_listener_is_no_error_and_loses_no_later_one(
        self, rig: NotifierRig
    ) -> None:
        rig.notifier.notify()
        wakes = _Wakes(self.timeout_s)
        async with rig.listening(wakes.note):
            await wakes.settle()
            rig.notifier.notify()
            await wakes.must_come()
        rig.notifier.notify()

    async def test_a_notification_costs_microseconds(self, rig: NotifierRig) -> None:
        rig.notifier.notify()
        assert _cpu_s_of_a_notification(rig.notifier) < 50e-6

    async def test_a_notification_does_not_block(self, rig: NotifierRig) -> None:
        assert _wall_s_of_a_thousand_notifications(rig.notifier) < 1.0


class RemoteNotifierContract(WorkerNotifierContract):
    """The suite for a `WorkerNotifier` with a queue between its ends. Its `rig` can take the queue away::

    class MyRig:
        ...  # notifier and listening as for `WorkerNotifierContract`

        async def take_away(self) -> None:
            await self.server.stop()

        async def bring_back(self) -> None:
            await self.server.start()

    class TestMyDoorbell(RemoteNotifierContract):
        @pytest.fixture
        def rig(self) -> RemoteNotifierRig:
            return MyRig()
    """

    async def test_a_notification_neither_raises_nor_blocks_without_the_queue(
        self, rig: RemoteNotifierRig
    ) -> None:
        await rig.disconnect()
        # A connection alone would take longer.
        assert _wall_s_of_a_thousand_notifications(rig.notifier) < 1.0
        assert _cpu_s_of_a_notification(rig.notifier) < 50e-6

    async def test_a_queue_that_is_back_is_notified_again(self, rig: RemoteNotifierRig) -> None:
        rig.notifier.notify()
        await rig.disconnect()
        wakes = _Wakes(self.timeout_s)
        async with rig.listening(wakes.note):
            for _ in range(2):
                rig.notifier.notify()
                await rig.bring_back()
                await wakes.must_come_on_notifying(rig.notifier)
                await rig.disconnect()
            rig.notifier.notify()
            await rig.bring_back()


def _cpu_s_of_a_notification(notifier: WorkerNotifier) -> float:
    gc.collect()
    began = time.thread_time()
    for _ in range(10_000):
        notifier.notify()
    return (time.thread_time() - began) / 10_000


def _wall_s_of_a_thousand_notifications(notifier: WorkerNotifier) -> float:
    began = time.perf_counter()
    for _ in range(1000):
        notifier.notify()
    return time.perf_counter() - began
