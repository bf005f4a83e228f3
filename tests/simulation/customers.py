"""Customers: they ask for meetings, cancel them, and repeat a request until it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from attrs import define, field

from meetcore.domain.errors import DomainError, NoHostFree
from meetcore.domain.meetings.meetings import MeetingRequest
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.requests.idempotency import fingerprint
from meetcore.ports.queries import Caller
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.requests.idempotency import IdempotentRequest, Outcome
from tests.simulation.loop import Process, SimulatedLoop

PASSING = {"service_unavailable", "upstream_error"}
ANSWER_S = 60.0
"""How long a customer waits for an answer."""


@define(eq=False)
class Customer:
    """One account with a key, what it asked for, and what it was answered.

    `made` and `cancelled` are the answers by idempotency key.
    """

    loop: SimulatedLoop
    caller: Caller
    digest: bytes
    credits: int
    process: Callable[[], Process | None]
    made: dict[str, dict[str, Any]] = field(factory=dict)
    cancels: set[str] = field(factory=set)
    cancelled: dict[str, dict[str, Any]] = field(factory=dict)
    refused: dict[str, str] = field(factory=dict)
    wanted: dict[str, MeetingRequest] = field(factory=dict)

    async def act(self, requests: int) -> None:
        """Ask for so many things, one after the other."""
        for _ in range(requests):
            await asyncio.sleep(self.loop.random.expovariate(1 / 3.0))
            if self.made and self.loop.random.random() < 0.35:
                await self.cancel(self.loop.random.choice(sorted(self.made)))
            else:
                await self.create(f"key-{len(self.wanted)}")

    async def create(self, key: str) -> None:
        """Ask for a meeting until the answer is final; sometimes twice at once."""
        start = self.loop.now().astimezone(WIB) + timedelta(days=1, hours=self.loop.random.randrange(12))
        wanted = self.wanted.setdefault(
            key, MeetingRequest("Rapat", f"{start:%Y-%m-%d}", f"{start:%H}:00", "standard-100")
        )

        async def ask(process: Process) -> Outcome:
            request = IdempotentRequest(
                key, fingerprint("POST", "/meetings", wanted.title + wanted.start_time)
            )
            application = process.application
            caller = await application.ports.queries.find_caller(self.digest)
            assert caller is not None
            found: Outcome = await application.api.create_meeting(caller, wanted, request, self.loop.now())
            return found

        asked = [self._until_answered(ask) for _ in range(1 + (self.loop.random.random() < 0.2))]
        for outcome in await asyncio.gather(*asked):
            self._keep(self.made, key, outcome)

    async def cancel(self, key: str) -> None:
        """Cancel a meeting until the answer is final."""
        self.cancels.add(key)
        meeting_id = UUID(str(self.made[key]["id"]))

        async def ask(process: Process) -> Outcome:
            request = IdempotentRequest(f"cancel-{key}", fingerprint("DELETE", f"/meetings/{meeting_id}", ""))
            application = process.application
            caller = await application.ports.queries.find_caller(self.digest)
            assert caller is not None
            found: Outcome = await application.api.cancel_meeting(
                caller, meeting_id, request, self.loop.now()
            )
            return found

        self._keep(self.cancelled, key, await self._until_answered(ask))

    def _keep(self, answers: dict[str, dict[str, Any]], key: str, outcome: Outcome | DomainError) -> None:
        refusal = outcome if isinstance(outcome, DomainError) else outcome.refusal
        if refusal is not None:
            code = refusal.code
            self.refused.setdefault(key, code)
            self.loop.note(f"{key} is refused: {code}")
            return
        assert isinstance(outcome, Outcome)
        assert outcome.record is not None
        before = answers.setdefault(key, dict(outcome.record))
        assert before["id"] == outcome.record["id"], f"two answers for {key}"
        self.loop.note(f"{key} is answered")

    async def _until_answered(self, ask: Callable[[Process], Any]) -> Any:
        while True:
            process = self.process()
            if process is not None:
                task = process.start(ask(process))
                await asyncio.wait({task}, timeout=ANSWER_S)
                if task.done() and not task.cancelled():
                    fault = task.exception()
                    if fault is None:
                        return task.result()
                    if isinstance(fault, DomainError) and not is_passing(fault):
                        return fault
                    if not isinstance(fault, (StoreUnavailable, DomainError)):
                        raise fault
            await asyncio.sleep(self.loop.random.uniform(0.5, 5.0))


def is_passing(fault: DomainError) -> bool:
    """Return whether a refusal says to try the same again; no host is free at that time for good."""
    return fault.code in PASSING and not isinstance(fault, NoHostFree)
