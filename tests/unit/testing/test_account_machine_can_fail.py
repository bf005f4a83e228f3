"""The account machine notices a store that is not as the other: each defect here ends a run."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from meetcore.adapters.memory.deliveries import MemoryDeliveryRepository
from meetcore.adapters.memory.endpoints import MemoryEndpointRepository
from meetcore.adapters.memory.ledger import MemoryPostingRepository
from meetcore.adapters.memory.meetings import MemoryMeetingRepository
from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import Event
from meetcore.ports.deliveries import Recorded, RecordedHost, Saved
from meetcore.ports.meetings import LeaseView
from meetcore.ports.postings import AccountPostings
from meetcore.testing.account_machine import AccountMachine
from meetcore.testing.memory_rig import MemoryRig
from tests.unit.testing.broken_store import BrokenStore


class KeepsTheOldSecret(MemoryEndpointRepository):
    """Drops a rotation."""

    async def save(self, endpoint: Endpoint) -> None:
        old = self._tables.endpoints[endpoint.account_id, endpoint.id]
        await super().save(evolve(endpoint, secret=old.secret))


class EmitsNothing(MemoryPostingRepository):
    """Loses the events of a top-up."""

    async def append_if_unchanged(self, postings: Sequence[AccountPostings]) -> Mapping[UUID, int]:
        return await super().append_if_unchanged([evolve(each, events=()) for each in postings])


class ForgetsFailures(MemoryDeliveryRepository):
    """Records the attempt and not what it did to the endpoint."""

    async def save_attempts(
        self, recorded: Sequence[Recorded], endpoints: Sequence[Endpoint], hosts: Sequence[RecordedHost],
        recovered: Collection[UUID] = (),
    ) -> Saved:  # fmt: skip
        known = self._tables.endpoints
        without_pause = [
            evolve(one, consecutive_failures=known[one.account_id, one.id].consecutive_failures)
            for one in endpoints
        ]
        return await super().save_attempts(recorded, without_pause, hosts, recovered)


class KeepsTheHold(MemoryMeetingRepository):
    """Abandons a meeting and goes on counting its hold."""

    async def save_abandoned(
        self, view: LeaseView, meeting: Meeting, funds: Funds, usage: CapUsage, *,
        host_unavailable_until: datetime | None = None, look_again_s: float | None = None,
        was_made: bool = False,
    ) -> None:  # fmt: skip
        await super().save_abandoned(view, meeting, view.funds, usage)


class ForgetsTheCap(MemoryMeetingRepository):
    """Gives a refund back to the account and not to the key's cap."""

    async def save_cancelled(
        self, view: LeaseView, meeting: Meeting, refund: tuple[Funds, CapUsage, Entry] | None,
        events: Sequence[Event], answer: bytes | None, *, invalidates_host_key: bool,
    ) -> int:  # fmt: skip
        if refund is not None:
            refund = (refund[0], view.usage, refund[2])
        return await super().save_cancelled(
            view, meeting, refund, events, answer, invalidates_host_key=invalidates_host_key
        )


def play(stores: Callable[[], dict[str, MemoryRig]], **effort: Any) -> None:
    """Run the machine on stores that are made anew for each run."""
    with asyncio.Runner() as runner:

        class Play(AccountMachine):
            def __init__(self) -> None:
                super().__init__(runner.run, stores())

        run_state_machine_as_test(Play, settings=settings(stateful_step_count=30, **effort))


def play_broken(role: str, repository: Callable[..., Any]) -> None:
    """Run on an intact store and on one with a repository exchanged."""

    def stores() -> dict[str, MemoryRig]:
        broken = MemoryRig()
        broken.store = BrokenStore(broken, role, repository)
        return {"intact": MemoryRig(), "broken": broken}

    play(
        stores, max_examples=300, derandomize=True, database=None, phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("role", "repository"),
    [
        ("endpoints", KeepsTheOldSecret),
        ("postings", EmitsNothing),
        ("deliveries", ForgetsFailures),
        ("meetings", KeepsTheHold),
        ("meetings", ForgetsTheCap),
    ],
)
def test_a_defect_ends_the_run(role: str, repository: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError):
        play_broken(role, repository)


def test_the_store_that_differs_is_named() -> None:
    with pytest.raises(AssertionError, match="broken is not as intact"):
        play_broken("endpoints", KeepsTheOldSecret)


def test_intact_stores_play_to_the_end() -> None:
    play(lambda: {"one": MemoryRig(), "other": MemoryRig()}, max_examples=10)
