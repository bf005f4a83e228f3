"""Programs and people outside, who send requests to any process of the service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from attrs import define, field

from meetcore.domain.errors import DomainError, InternalError, NoHostFree
from meetcore.ports.store import StoreUnavailable
from tests.simulation.loop import Process, SimulatedLoop

T = TypeVar("T")

PASSING = {"service_unavailable", "upstream_error"}
ANSWER_S = 60.0
"""How long an answer is waited for."""


@define(eq=False)
class Client:
    """Sends a request to one process, or to one after the other until it is answered.

    `faults` are the errors that no refusal explains, of which HTTP would make an internal error.
    """

    loop: SimulatedLoop
    some_server: Callable[[], Process | None]
    faults: list[str] = field(factory=list)

    async def ask(
        self, request: Callable[[Process], Coroutine[Any, Any, T]]
    ) -> T | DomainError | StoreUnavailable | None:
        """Return the answer to a request, `None` where it does not come in time."""
        if (process := self.some_server()) is None:
            return None
        task = process.start(request(process))
        await asyncio.wait({task}, timeout=ANSWER_S)
        if not task.done() or task.cancelled():
            return None
        fault = task.exception()
        if isinstance(fault, (StoreUnavailable, DomainError)):
            return fault
        if fault is not None:
            self.faults.append(f"a request failed: {fault!r}")
            return InternalError("simulated")
        return task.result()

    async def insist(self, request: Callable[[Process], Coroutine[Any, Any, T]]) -> T | DomainError:
        """Repeat a request until its answer is final."""
        while True:
            answer = await self.ask(request)
            if answer is not None and not is_passing(answer):
                return answer  # type: ignore[return-value]  # it is no `StoreUnavailable`
            await asyncio.sleep(self.loop.random.uniform(0.5, 5.0))


def is_passing(answer: object) -> bool:
    """Return whether an answer says to try the same again; no host is free at that time for good."""
    if isinstance(answer, NoHostFree):
        return False
    return isinstance(answer, StoreUnavailable) or (
        isinstance(answer, DomainError) and answer.code in PASSING
    )
