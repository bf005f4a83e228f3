"""The services that the application calls: a provider of meetings, and receivers of webhooks.

They live outside of the processes: what was sent is carried out, whether or not its sender lives on.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any, TypeVar, cast

from attrs import define, evolve, field, frozen

from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.hosts import PasswordRule
from meetcore.domain.meetings.meetings import ProviderAbilities, Provisioned
from meetcore.domain.meetings.provider_events import ProviderEvent, ProviderEventKind
from meetcore.domain.meetings.sessions import Session, is_running
from meetcore.domain.meetings.views import FoundMeeting, ListedMeeting, ProviderOrder
from meetcore.domain.webhooks.deliveries import Attempt
from meetcore.domain.webhooks.sender_faults import SenderFault
from meetcore.ports.video_provider import ProviderRefused, ProviderUnknown, require_lease
from meetcore.ports.webhook_sender import OutgoingPost, SenderFailed
from tests.simulation.loop import SimulatedLoop

T = TypeVar("T")

SLOWEST_S = 25.0
"""The latest moment at which the provider carries out a call that it does not answer: longer than a lease."""


async def pause_before(loop: SimulatedLoop) -> None:
    """Pass the moment before a call is sent, in which the process may be put to sleep."""
    loop.pause("before a call")
    await asyncio.sleep(0.001)


async def carry_out(
    loop: SimulatedLoop, service: str, rate: float, work: Callable[[], T], refused: Exception,
    unknown: Exception,
) -> T:  # fmt: skip
    """Carry out a call: in time, never, without an answer, or long after it was given up.

    The process may be put to sleep while what follows from the answer is written.
    """
    random = loop.random
    done: asyncio.Future[T] = loop.create_future()
    kind = random.choice(("refuse", "never", "lost", "late"))
    if not loop.strikes(service, rate, f"{kind}: a call"):
        kind = "done"
    after_s = random.uniform(1.0, SLOWEST_S) if kind == "late" else random.uniform(0.01, 0.4)

    def answer() -> None:
        result = work() if kind in ("done", "lost", "late") else None
        if done.done():
            return
        if kind == "refuse":
            done.set_exception(refused)
        elif kind in ("never", "lost"):
            done.set_exception(unknown)
        else:
            done.set_result(cast("T", result))

    loop.call_outside(after_s, answer)
    try:
        return await done
    finally:
        loop.pause("after a call", within_s=0.006)


@frozen
class _Held:
    """A meeting at the provider."""

    name: str
    order: ProviderOrder
    made_at: datetime
    removed_at: datetime | None = None

    def until(self) -> datetime:
        """Return until when it takes its host: its end, or an earlier removal, but not before its start."""
        end_at = self.order.start_at + timedelta(minutes=self.order.duration)
        return end_at if self.removed_at is None else max(self.order.start_at, min(end_at, self.removed_at))


@define(eq=False)
class SimulatedProvider:
    """Makes a meeting at each request, as Zoom does: two for two requests, also for one that was given up.

    `hosts` are its users with a licence, and the seats of each. `sessions` are what was held, by the meeting,
    `cut_short` those that the service ended; `report` is called with each start and end of one.
    """

    loop: SimulatedLoop
    hosts: dict[str, int] = field(factory=dict)
    sessions: dict[str, list[Session]] = field(factory=dict)
    cut_short: set[str] = field(factory=set)
    report: Callable[[ProviderEvent], object] = lambda event: None
    fault_rate: float = 0.0
    held: dict[str, _Held] = field(factory=dict)
    _numbers: count[int] = field(factory=lambda: count(1))

    @property
    def abilities(self) -> ProviderAbilities:
        return ProviderAbilities(
            "sandbox", PasswordRule(alphabet="abcdefghijklmnopqrstuvwxyz0123456789"), host_key_digits=6,
            leaves_orphans=True, lists_meetings=True,
        )  # fmt: skip

    async def create(self, order: ProviderOrder) -> Provisioned:
        name = await self._call(lambda: self._make(order))
        return self._provisioned(self.held[name])

    async def find(self, order: ProviderOrder) -> Sequence[Provisioned]:
        found = await self._call(
            lambda: [each for each in self.living() if each.order.meeting_id == order.meeting_id]
        )
        return [self._provisioned(each) for each in found]

    async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
        return await self._call(lambda: self._remove(provider_meeting_id))

    async def end(self, provider_meeting_id: str) -> None:
        await self._call(lambda: self._end(provider_meeting_id))

    async def list_host(self, provider_user_id: str) -> Sequence[ListedMeeting]:
        return await self._call(
            lambda: [
                ListedMeeting(each.name, each.made_at)
                for each in self.living()
                if each.order.provider_user_id == provider_user_id
            ]
        )

    async def read(self, provider_meeting_id: str) -> FoundMeeting | None:
        held = await self._call(lambda: self.held.get(provider_meeting_id))
        if held is None or held.removed_at is not None:
            return None
        order = held.order
        return FoundMeeting(
            self._provisioned(held), order.meeting_id, order.title, order.description, order.start_at,
            order.duration, order.options,
        )  # fmt: skip

    async def set_host_key(self, provider_user_id: str, host_key: str) -> None:
        await self._call(lambda: None)

    def living(self) -> list[_Held]:
        """Return the meetings that exist."""
        return [each for each in self.held.values() if each.removed_at is None]

    def is_running(self, name: str) -> bool:
        """Return whether a session of a meeting runs."""
        return is_running(self.sessions.get(name, ()))

    def begin_session(self, name: str) -> bool:
        """Let guests in; false where the meeting was removed, or runs already."""
        if self.held[name].removed_at is not None or self.is_running(name):
            return False
        known = self.sessions.setdefault(name, [])
        known.append(Session(f"{name}/{len(known)}", started_at=self.loop.now()))
        self._report(name, ProviderEventKind.MEETING_STARTED, known[-1])
        return True

    def end_session(self, name: str) -> None:
        """End the session that runs, if one does."""
        if self.is_running(name):
            known = self.sessions[name]
            known[-1] = evolve(known[-1], ended_at=self.loop.now())
            self._report(name, ProviderEventKind.MEETING_ENDED, evolve(known[-1], started_at=None))

    def _end(self, name: str) -> None:
        if self.is_running(name):
            self.end_session(name)
            self.cut_short.add(self.sessions[name][-1].id)

    def _report(self, name: str, kind: ProviderEventKind, session: Session) -> None:
        self.loop.note(f"{kind} {session.id}")
        self.report(ProviderEvent("sandbox", kind, name, self.loop.now(), session=session))

    async def _call(self, work: Callable[[], T]) -> T:
        await pause_before(self.loop)
        require_lease()
        refused, unknown = ProviderRefused("simulated"), ProviderUnknown("simulated")
        return await carry_out(self.loop, "provider", self.fault_rate, work, refused, unknown)

    def _make(self, order: ProviderOrder) -> str:
        name = f"{next(self._numbers)}"
        self.held[name] = _Held(name, order, self.loop.now())
        self.loop.note(f"the provider makes {name}")
        return name

    def _remove(self, name: str) -> ProviderMeetingState:
        held = self.held.get(name)
        if held is None or held.removed_at is not None:
            return ProviderMeetingState.GONE
        if self.is_running(name):
            return ProviderMeetingState.IN_PROGRESS
        self.held[name] = evolve(held, removed_at=self.loop.now())
        self.loop.note(f"the provider removes {name}")
        return ProviderMeetingState.REMOVED

    def _provisioned(self, held: _Held) -> Provisioned:
        return Provisioned(held.name, f"https://provider.test/{held.name}", held.order.password)


@define(eq=False)
class SimulatedReceivers:
    """Receive posts, count each event, and answer as the seed decides."""

    loop: SimulatedLoop
    fault_rate: float = 0.0
    received: Counter[str] = field(factory=Counter)
    answered: Counter[str] = field(factory=Counter)
    bodies: dict[str, dict[str, Any]] = field(factory=dict)

    async def post(self, post: OutgoingPost) -> Attempt:
        at, random = self.loop.now(), self.loop.random
        await asyncio.sleep(random.uniform(0.01, 0.3))
        kind = random.choice(("refused", "error", "timeout", "ours"))
        if not self.loop.strikes("receiver", self.fault_rate, f"{kind}: a post"):
            return self._receive(post, at, 200)
        if kind == "ours":
            raise SenderFailed(next(iter(SenderFault)), "simulated")
        if kind == "refused":
            return Attempt(at, 10, None, "connect_failed")
        if kind == "timeout":
            self._receive(post, at, 200)
            await asyncio.sleep(15.0)
            return Attempt(at, 15_000, None, "timeout")
        return self._receive(post, at, 503)

    def _receive(self, post: OutgoingPost, at: datetime, status: int) -> Attempt:
        body = json.loads(post.body)
        self.received[body["id"]] += 1
        self.bodies[body["id"]] = body
        if status == 200:
            self.answered[body["id"]] += 1
            return Attempt(at, 10, 200)
        return Attempt(at, 10, status, f"status_{status}")
