"""Guests: they hold sessions in the provider's meetings, and the provider reports them by events.

An event is lost, late, sent twice, or overtaken by another, as the seed decides; one that is not acknowledged
is sent again a few times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256

from attrs import define, field

from meetcore.domain.meetings.provider_events import ProviderEvent, ProviderEventKind
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.outside import SimulatedProvider
from tests.simulation.studio import LATEST_S, Studio

ACKNOWLEDGED_S = 3.0
"""How long the provider waits for an acknowledgement."""
SENDINGS = 6


@define(eq=False)
class Guests:
    """Hold sessions by the seed; the provider's events go to `some_server`.

    `unreported` are the meetings of which an event was lost.
    """

    loop: SimulatedLoop
    provider: SimulatedProvider
    studio: Studio
    some_server: Callable[[], Process | None]
    unreported: set[str] = field(factory=set)

    def __attrs_post_init__(self) -> None:
        self.provider.report = self._report

    def visit(self, name: str, start_at: datetime) -> None:
        """Plan the sessions of a meeting: in and near its time where that is soon, else a test call."""
        random, begins_s = self.loop.random, (start_at - self.loop.now()).total_seconds()
        if begins_s > 3600:
            if random.random() < 0.3:
                self.loop.create_task(self._hold(name, random.uniform(0, 30), random.uniform(2, 60)))
            return
        for _ in range(random.choice((0, 1, 1, 2))):
            after_s, seconds = begins_s + random.uniform(-60, 60), random.uniform(5, 120)
            self.loop.create_task(self._hold(name, max(after_s, 0), seconds))

    async def _hold(self, name: str, after_s: float, seconds: float) -> None:
        await asyncio.sleep(after_s)
        if self.provider.begin_session(name):
            await asyncio.sleep(seconds)
            self.provider.end_session(name)

    def _report(self, event: ProviderEvent) -> None:
        if event.kind is ProviderEventKind.MEETING_ENDED:
            self.loop.call_outside(LATEST_S, lambda: self._report_files(event))
        random, name = self.loop.random, event.provider_meeting_id
        kind = random.choice(("lost", "late", "twice"))
        if not self.loop.strikes("event", 2 * self.provider.fault_rate, f"{kind}: an event"):
            kind = "sent"
        if kind == "lost":
            self._lose(name)
            return
        for _ in range(2 if kind == "twice" else 1):
            after_s = random.uniform(1, 90) if kind == "late" else random.expovariate(1 / 4)
            self.loop.call_outside(after_s, lambda: self.loop.create_task(self._send(event)))

    def _report_files(self, ended: ProviderEvent) -> None:
        if files := self.studio.files_of(ended.provider_meeting_id):
            kind = ProviderEventKind.RECORDING_READY
            self._report(ProviderEvent("sandbox", kind, ended.provider_meeting_id, self.loop.now(), files))

    async def _send(self, event: ProviderEvent) -> None:
        digest = sha256(repr(event).encode()).digest()
        for sending in range(SENDINGS):
            process = self.some_server()
            if process is not None:
                task = process.start(process.application.meetings.receive_event(event, digest))
                await asyncio.wait({task}, timeout=ACKNOWLEDGED_S)
                if task.done() and not task.cancelled() and task.exception() is None:
                    return
            await asyncio.sleep(5.0 * (sending + 1))
        self._lose(event.provider_meeting_id)

    def _lose(self, name: str) -> None:
        self.loop.note(f"an event of {name} is lost")
        self.unreported.add(name)
