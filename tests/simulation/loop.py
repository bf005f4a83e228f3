"""An event loop with virtual time whose order of callbacks a seed decides, and processes that live on it.

A callback belongs to the process in whose context it was scheduled. One of a dead process never runs, so that
nothing of it is cleaned up, as after `kill -9`; those of a sleeping process run when it wakes. One callback
runs at a time, drawn from all that are ready. Time passes only when none is, at once, to the next timer.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from random import Random
from typing import Any, TypeVar

from attrs import define, evolve, field

from tests.simulation.faults import Faults

T = TypeVar("T")

START = datetime(2026, 12, 31, 16, 59, tzinfo=UTC)
"""A minute before midnight in WIB, where the days of caps and the years of receipts end."""


@define(eq=False)
class Process:
    """A process of the program: the context of its tasks, and whether it lives."""

    name: str
    loop: SimulatedLoop
    is_dead: bool = False
    wakes_at: float = 0.0
    context: Context = field(init=False)
    postponed: list[asyncio.Handle] = field(factory=list)
    tasks: list[asyncio.Task[Any]] = field(factory=list)
    on_death: Callable[[], object] = lambda: None
    on_sleep: Callable[[float], object] = lambda seconds: None
    application: Any = None
    pool: Any = None

    def __attrs_post_init__(self) -> None:
        self.context = copy_context()
        self.context.run(_PROCESS.set, self)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task of this process."""
        task = self.loop.create_task(work, context=self.context)
        self.tasks.append(task)
        return task

    def kill(self) -> None:
        """End it at once."""
        if not self.is_dead:
            self.is_dead = True
            self.loop.note(f"{self.name} dies")
            self.on_death()

    def sleep(self, seconds: float) -> None:
        """Run nothing of it for so long, as in a pause of the machine."""
        if self.is_dead:
            return
        self.on_sleep(seconds)
        self.loop.note(f"{self.name} sleeps for {seconds:.1f} s")
        self.wakes_at = self.loop.time() + seconds
        self.loop.call_at(self.wakes_at, self._wake)

    def _wake(self) -> None:
        for handle in self.postponed:
            self.loop.enqueue(handle)
        self.postponed.clear()


_PROCESS: ContextVar[Process | None] = ContextVar("simulated_process", default=None)

_graveyard: list[object] = []
"""Tasks of dead processes: collected, they would run their `finally` blocks."""


class Idle(Exception):
    """Nothing is ready, and no timer is set: what is waited for never comes."""


class SimulatedLoop(asyncio.SelectorEventLoop):
    """The loop. `fate` is called before each callback of a process, which it may kill or put to sleep."""

    # The base class's own, which are not public.
    _ready: deque[Any]
    _scheduled: list[Any]
    _timer_cancelled_count: int

    def __init__(self, seed: int, only: frozenset[tuple[str, int]] | None = None) -> None:
        super().__init__()
        self.random = Random(seed)
        self.faults = Faults(seed, only)
        self.steps = 0
        self.fate: Callable[[Process], object] = lambda process: None
        self.pauses = 0.0
        self.trace = sha256()
        self.lines: list[str] | None = None
        self._elapsed_s = 0.0
        self.set_task_factory(_remember)

    def time(self) -> float:
        """Return the virtual time in seconds since the start."""
        return self._elapsed_s

    def now(self) -> datetime:
        """Return the virtual time as an instant."""
        return START + timedelta(seconds=self._elapsed_s)

    def note(self, line: str) -> None:
        """Add a line to the trace of the run."""
        text = f"{self._elapsed_s:.6f} {line}"
        self.trace.update(text.encode())
        if self.lines is not None:
            self.lines.append(text)

    def strikes(self, kind: str, rate: float, where: str) -> bool:
        """Return whether a fault of a kind happens here, by the seed; `rate` is for each opportunity."""
        if not self.faults.strikes(kind, rate):
            return False
        process = _PROCESS.get()
        at = f"{where} of {process.name}" if process else where
        self.faults.struck[-1] = evolve(self.faults.struck[-1], at_s=self._elapsed_s, where=at)
        self.note(f"fault: {self.faults.struck[-1].text}")
        return True

    def pause(self, where: str, within_s: float = 0.0) -> None:
        """Let the present process sleep soon, for longer than its leases, by the seed; many die on waking."""
        process = _PROCESS.get()
        if process is None or not self.strikes("pause", self.pauses, where):
            return
        begins_s, seconds = self.random.uniform(0, within_s), self.random.choice((30.0, 150.0))
        self.call_outside(begins_s, lambda: process.sleep(seconds))
        if self.random.random() < 0.5:
            self.call_outside(begins_s + seconds + self.random.uniform(0, 0.5), process.kill)

    def jump(self, over: timedelta) -> None:
        """Let time pass at once: every timer in it is due together."""
        self._elapsed_s += over.total_seconds()

    def enqueue(self, handle: asyncio.Handle) -> None:
        """Let a callback run now."""
        self._ready.append(handle)

    def call_outside(self, after_s: float, work: Callable[[], object]) -> None:
        """Call a function later in no process: it happens whether or not the present one lives."""
        self.call_later(after_s, work, context=Context())

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future."""
        return _Future(loop=self)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> Any:  # type: ignore[override]
        """Call a function at once: a thread would end at another time in each run."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  # it is the caller's
            future.set_exception(error)
        return future

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Report nothing of tasks that were left behind."""

    def _run_once(self) -> None:
        while True:
            self._collect_due()
            while not self._ready:
                self._pass_time()
            handle = self._draw()
            if handle is not None:
                self.steps += 1
                handle._run()
                return

    def _collect_due(self) -> None:
        while self._scheduled and (
            self._scheduled[0]._cancelled or self._scheduled[0]._when <= self._elapsed_s
        ):
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False
            if handle._cancelled:
                self._timer_cancelled_count -= 1
            else:
                self._ready.append(handle)

    def _pass_time(self) -> None:
        if not self._scheduled:
            raise Idle
        self._elapsed_s = max(self._elapsed_s, self._scheduled[0]._when)
        self._collect_due()

    def _draw(self) -> Any:
        place = self.random.randrange(len(self._ready))
        handle = self._ready[place]
        del self._ready[place]
        if handle._cancelled:
            return None
        process = handle._context.get(_PROCESS)
        if process is None or process.is_dead:
            return None if process else handle
        if process.wakes_at <= self._elapsed_s:
            self.fate(process)
        if process.is_dead:
            return None
        if process.wakes_at > self._elapsed_s:
            process.postponed.append(handle)
            return None
        return handle


_numbers = count()


class _Task(asyncio.tasks._PyTask):  # type: ignore[name-defined, misc]
    """A task whose place in a set does not depend on its address."""

    def __init__(self, *args: Any, **named: Any) -> None:
        self._number = next(_numbers)
        super().__init__(*args, **named)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.futures._PyFuture):  # type: ignore[name-defined, misc]
    """A future whose place in a set does not depend on its address."""

    def __init__(self, *args: Any, **named: Any) -> None:
        self._number = next(_numbers)
        super().__init__(*args, **named)

    def __hash__(self) -> int:
        return self._number


def _remember(loop: asyncio.AbstractEventLoop, work: Any, **named: Any) -> asyncio.Task[Any]:
    context, process = named.get("context"), _PROCESS.get()
    if context is not None and process is not None and _PROCESS not in context:
        context.run(_PROCESS.set, process)  # a task of no request is one of its process all the same
    task: asyncio.Task[Any] = _Task(work, loop=loop, **named)
    _graveyard.append(task)
    return task
