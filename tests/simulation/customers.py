"""Customers: they ask for meetings, cancel them, and repeat a request until it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

from attrs import define, field

from meetcore.domain.errors import DomainError, IdempotencyKeyReused
from meetcore.domain.meetings.meetings import MeetingOptions, MeetingRequest
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.money.pricing import PricingTier, TierCatalogue
from meetcore.domain.requests.idempotency import fingerprint
from meetcore.ports.queries import Caller
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.requests.idempotency import IdempotentRequest, Outcome
from tests.simulation.clients import Client
from tests.simulation.loop import Process, SimulatedLoop

TIERS = TierCatalogue.of(
    (PricingTier("small", "Small", 100, 2, 10, 5), PricingTier("large", "Large", 300, 4, 40, 15))
)
"""Meetings of some minutes, so that their ends come within a run."""


@define(eq=False)
class Account:
    """An account: its customers share its credits, of which it was given so many."""

    id: UUID
    credits: int
    is_erased: bool = False


@define(eq=False)
class Customer:
    """A program with an API key, what it asked for, and what it was answered.

    Each request has a name, which is its idempotency key and the title of its meeting; one that is in
    `unkeyed` was sent without a key, once. `made` and `cancelled` are the answers by name, `in_doubt` the
    requests without a key of which the answer left open what came of them; `refused` are the codes of final
    refusals, by whether a meeting was asked for. `asked` is when a cancellation was asked for and when it was
    answered. `visit` is called with each meeting that was made.
    """

    loop: SimulatedLoop
    name: str
    account: Account
    digest: bytes
    client: Client
    visit: Callable[[str, datetime], object]
    key_id: UUID
    daily_cap: int | None
    wants_notes: bool
    made: dict[str, dict[str, Any]] = field(factory=dict)
    cancels: set[str] = field(factory=set)
    cancelled: dict[str, dict[str, Any]] = field(factory=dict)
    asked: dict[str, tuple[datetime, datetime]] = field(factory=dict)
    refused: dict[tuple[bool, str], str] = field(factory=dict)
    wanted: dict[str, MeetingRequest] = field(factory=dict)
    unkeyed: set[str] = field(factory=set)
    in_doubt: set[str] = field(factory=set)

    async def act(self, requests: int) -> None:
        """Ask for so many things, one after the other."""
        for _ in range(requests):
            await asyncio.sleep(self.loop.random.expovariate(1 / 3.0))
            drawn = self.loop.random.random()
            if self.made and drawn < 0.35:
                await self.cancel(self.loop.random.choice(sorted(self.made)))
            elif drawn < 0.45:
                await self.create_unkeyed(self._plan())
            elif drawn < 0.6:
                await asyncio.gather(
                    *(self.create(self._plan()) for _ in range(3)), self.create_unkeyed(self._plan())
                )
            else:
                await self.create(self._plan())

    async def create(self, name: str) -> None:
        """Ask for a meeting until the answer is final; sometimes twice at once."""
        ask = self._creation(name, name)
        asked = [self.client.insist(ask) for _ in range(1 + (self.loop.random.random() < 0.2))]
        for outcome in await asyncio.gather(*asked):
            self._keep(self.made, name, outcome)

    async def create_unkeyed(self, name: str) -> None:
        """Ask once for a meeting without an idempotency key."""
        self.unkeyed.add(name)
        answer = await self.client.ask(self._creation(name, None))
        if answer is None or "in doubt" in str(answer):
            self.in_doubt.add(name)
            self.loop.note(f"{name} is in doubt")
        elif isinstance(answer, StoreUnavailable):
            self.loop.note(f"{name} is not answered")
        else:
            self._keep(self.made, name, answer)

    async def cancel(self, name: str) -> None:
        """Cancel a meeting until the answer is final."""
        self.cancels.add(name)
        meeting_id = UUID(str(self.made[name]["id"]))
        request = IdempotentRequest(f"cancel-{name}", fingerprint("DELETE", f"/meetings/{meeting_id}", ""))

        async def ask(process: Process) -> Outcome:
            caller, application = await self.find_caller(process), process.application
            return cast(
                "Outcome",
                await application.api.cancel_meeting(caller, meeting_id, request, self.loop.now()),
            )

        began_at = self.loop.now()
        self._keep(self.cancelled, name, await self.client.insist(ask))
        self.asked.setdefault(name, (began_at, self.loop.now()))

    def _plan(self) -> str:
        """Decide on a meeting, soon or tomorrow, and return its name."""
        random, name = self.loop.random, f"{self.name} {len(self.wanted)}"
        days, tier = random.choice((0, 1)), random.choices(("small", "large"), (5, 1))[0]
        start = self.loop.now().astimezone(WIB) + timedelta(
            days=days, minutes=random.randrange(1, 4 + 8 * days)
        )
        noted = self.wants_notes and random.random() < 0.6
        self.wanted[name] = MeetingRequest(
            name, f"{start:%Y-%m-%d}", f"{start:%H:%M}", tier, options=MeetingOptions(auto_notulen=noted)
        )
        return name

    def _creation(self, name: str, key: str | None) -> Callable[[Process], Any]:
        wanted = self.wanted[name]
        request = IdempotentRequest(key, fingerprint("POST", "/meetings", wanted.title))

        async def ask(process: Process) -> Outcome:
            caller, application = await self.find_caller(process), process.application
            return cast(
                "Outcome", await application.api.create_meeting(caller, wanted, request, self.loop.now())
            )

        return ask

    async def find_caller(self, process: Process) -> Caller:
        """Check the key, as a request does."""
        caller: Caller | None = await process.application.ports.queries.find_caller(self.digest)
        assert caller is not None
        return caller

    def _keep(self, answers: dict[str, dict[str, Any]], name: str, outcome: Outcome | DomainError) -> None:
        refusal = outcome if isinstance(outcome, DomainError) else outcome.refusal
        if refusal is not None:
            code = refusal.code
            self.loop.note(f"{name} is refused: {code}")
            if not isinstance(refusal, DomainError) or refusal.is_final:
                self.refused.setdefault((answers is self.made, name), code)
                self._check_final(answers, name)
            if isinstance(refusal, IdempotencyKeyReused):
                self.client.faults.append(f"{name} was repeated, and is refused as another request")
            return
        assert isinstance(outcome, Outcome)
        assert outcome.record is not None
        if answers is self.made and name not in self.made:
            start_at = datetime.fromisoformat(str(outcome.record["start_at"]))
            self.visit(str(outcome.record["provider_meeting_id"]), start_at)
        before = answers.setdefault(name, dict(outcome.record))
        assert before["id"] == outcome.record["id"], f"two answers for {name}"
        if before != outcome.record:
            self.client.faults.append(f"{name} was answered {before}, and then {outcome.record}")
        self._check_final(answers, name)
        self.loop.note(f"{name} is answered")

    def _check_final(self, answers: dict[str, dict[str, Any]], name: str) -> None:
        code = self.refused.get((answers is self.made, name))
        if code is not None and name in answers:
            self.client.faults.append(f"{name} was answered, and was refused for good: {code}")
