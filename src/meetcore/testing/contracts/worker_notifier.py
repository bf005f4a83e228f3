"""What every doorbell is held against.

Owns what a ring costs, and that it is heard. `WorkerNotifierContract` is for one that lives in its process;
`RemoteNotifierContract` asks on top what happens while the queue in between is away. Refuses to count:
a ring may be lost, doubled or late, and of several one may arrive.
"""

import asyncio
import gc
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, Protocol

import pytest

from meetcore.ports.worker_notifier import WorkerNotifier

__all__ = ["NotifierRig", "RemoteNotifierContract", "RemoteNotifierRig", "WorkerNotifierContract"]


class NotifierRig(Protocol):
    """A doorbell, and the far end of its wire."""

    @property
    def bell(self) -> WorkerNotifier:
        """The doorbell under test."""
        ...

    def listening(self, on_wake: Callable[[], object]) -> AbstractAsyncContextManager[object]:
        """One worker that listens while the context lasts, and calls `on_wake`, from any thread it likes."""
        ...


class RemoteNotifierRig(NotifierRig, Protocol):
    """A doorbell whose queue can be taken away. At first it is there."""

    async def take_away(self) -> None:
        """Cut what is connected and let nobody connect."""
        ...

    async def bring_back(self) -> None:
        """Let everybody connect again."""
        ...


class _Wakes:
    """Wakes as they come, from whatever thread; must be made inside the event loop."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def note(self) -> None:
        self._loop.call_soon_threadsafe(self._woken.set)

    async def comes(self, within_s: float) -> bool:
        """Wait for a wake, and forget it."""
        try:
            await asyncio.wait_for(self._woken.wait(), within_s)
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    async def must_come(self) -> None:
        assert await self.comes(self._patience_s), f"no wake within {self._patience_s} s of a ring"

    async def must_come_if_rung_on(self, bell: WorkerNotifier) -> None:
        """A ring may be lost while the queue comes back: ring on, as a busy service does."""
        deadline = time.monotonic() + self._patience_s
        while not await self.comes(0.1):
            assert time.monotonic() < deadline, f"no wake within {self._patience_s} s of the queue's return"
            bell.ring()

    async def settle(self) -> None:
        """Until the wakes of earlier rings have all come."""
        while await self.comes(0.3):
            pass


@pytest.mark.asyncio
class WorkerNotifierContract:
    """The suite for one `WorkerNotifier`. Give it the fixture `rig`, a bell and who hears it::

        class MyRig:
            def __init__(self) -> None:
                self.bell = MyDoorbell()

            @asynccontextmanager
            async def listening(self, on_wake: Callable[[], object]) -> AsyncIterator[None]:
                self.bell.workers.add(on_wake)
                yield
                self.bell.workers.remove(on_wake)

        class TestMyDoorbell(WorkerNotifierContract):
            @pytest.fixture
            def rig(self) -> NotifierRig:
                return MyRig()

    Attributes:
        patience_s: how long a wake may take before the test gives up, in seconds.
    """

    patience_s: ClassVar[float] = 15.0

    async def test_a_ring_wakes_a_listener_and_the_next_one_wakes_it_again(self, rig: NotifierRig) -> None:
        wakes = _Wakes(self.patience_s)
        async with rig.listening(wakes.note):
            for _ in range(3):
                rig.bell.ring()
                await wakes.must_come()
                await wakes.settle()

    async def test_a_hundred_rings_wake_at_least_once_and_again_after_the_last(
        self, rig: NotifierRig
    ) -> None:
        wakes = _Wakes(self.patience_s)
        async with rig.listening(wakes.note):
            for _ in range(99):
                rig.bell.ring()
            await wakes.must_come()
            await wakes.settle()
            rig.bell.ring()
            await wakes.must_come()

    async def test_a_ring_that_nobody_hears_is_no_error_and_costs_later_ones_nothing(
        self, rig: NotifierRig
    ) -> None:
        rig.bell.ring()
        wakes = _Wakes(self.patience_s)
        async with rig.listening(wakes.note):
            await wakes.settle()
            rig.bell.ring()
            await wakes.must_come()
        rig.bell.ring()

    async def test_a_ring_costs_microseconds(self, rig: NotifierRig) -> None:
        rig.bell.ring()
        assert _cpu_s_of_a_ring(rig.bell) < 50e-6

    async def test_a_ring_does_not_block(self, rig: NotifierRig) -> None:
        assert _wall_s_of_a_thousand_rings(rig.bell) < 1.0


class RemoteNotifierContract(WorkerNotifierContract):
    """The suite for a `WorkerNotifier` with a queue between its ends. Its `rig` can take the queue away::

    class MyRig:
        ...  # bell and listening as for `WorkerNotifierContract`

        async def take_away(self) -> None:
            await self.server.stop()

        async def bring_back(self) -> None:
            await self.server.start()

    class TestMyDoorbell(RemoteNotifierContract):
        @pytest.fixture
        def rig(self) -> RemoteNotifierRig:
            return MyRig()
    """

    async def test_a_queue_that_is_away_makes_a_ring_neither_raise_nor_block(
        self, rig: RemoteNotifierRig
    ) -> None:
        await rig.take_away()
        # A connection alone would take longer.
        assert _wall_s_of_a_thousand_rings(rig.bell) < 1.0
        assert _cpu_s_of_a_ring(rig.bell) < 50e-6

    async def test_a_queue_that_goes_is_rung_again_when_it_is_back(self, rig: RemoteNotifierRig) -> None:
        rig.bell.ring()
        await rig.take_away()
        wakes = _Wakes(self.patience_s)
        async with rig.listening(wakes.note):
            for _ in range(2):
                rig.bell.ring()
                await rig.bring_back()
                await wakes.must_come_if_rung_on(rig.bell)
                await rig.take_away()
            rig.bell.ring()
            await rig.bring_back()


def _cpu_s_of_a_ring(bell: WorkerNotifier) -> float:
    gc.collect()
    began = time.thread_time()
    for _ in range(10_000):
        bell.ring()
    return (time.thread_time() - began) / 10_000


def _wall_s_of_a_thousand_rings(bell: WorkerNotifier) -> float:
    began = time.perf_counter()
    for _ in range(1000):
        bell.ring()
    return time.perf_counter() - began
