"""Replacing hosts' keys: each once, none without the provider, none kept that another may have replaced."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from uuid import UUID

import pytest
from attrs import define, field

from meetcore.adapters.memory.clock import ManualClock
from meetcore.adapters.memory.entropy import SeededEntropy
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.meetings import ProviderAbilities, Provisioned
from meetcore.ports.host_keys import DueHostKey
from meetcore.ports.store import StoreUnavailable
from meetcore.ports.video_provider import (
    FoundMeeting,
    ListedMeeting,
    ProviderOrder,
    ProviderRefused,
    ProviderUnknown,
)
from meetcore.testing.contracts.transactions import new_host
from meetcore.testing.memory_rig import MemoryRig
from meetcore.usecases.replace_host_keys import REFUSED_FOR_S, ReplaceHostKeys
from meetcore.usecases.runtime import Runtime

START = datetime(2026, 12, 1, tzinfo=UTC)
LEASE_S = 20.0


async def at_once() -> None:
    """An answer without a delay."""


@define
class KeyProvider:
    """A provider that remembers the last key of each host, and answers as it is told to."""

    digits: int | None = 6
    keys: dict[str, str] = field(factory=dict)
    answer: Callable[[], Awaitable[None]] = at_once
    in_flight: int = 0
    most: int = 0

    @property
    def abilities(self) -> ProviderAbilities:
        return ProviderAbilities("keys", None, host_key_digits=self.digits)

    async def list_host(self, provider_user_id: str) -> tuple[ListedMeeting, ...]:
        return ()

    async def read(self, provider_meeting_id: str) -> FoundMeeting | None:
        return None

    async def set_host_key(self, provider_user_id: str, host_key: str) -> None:
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await self.answer()
        finally:
            self.in_flight -= 1
        self.keys[provider_user_id] = host_key

    async def create(self, order: ProviderOrder) -> Provisioned:
        raise NotImplementedError

    async def find(self, order: ProviderOrder) -> Sequence[Provisioned]:
        raise NotImplementedError

    async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
        raise NotImplementedError

    async def end(self, provider_meeting_id: str) -> None:
        raise NotImplementedError


@define(slots=False)
class Keys:
    """Hosts in memory, a provider, and the use case."""

    hosts: int = 1
    provider: KeyProvider = field(factory=KeyProvider)
    refused: list[tuple[UUID, str]] = field(factory=list)

    async def start(self) -> "Keys":
        self.clock = ManualClock(START)
        self.rig = MemoryRig(self.clock)
        self.known: list[Host] = [new_host() for _ in range(self.hosts)]
        await self.rig.put_hosts(*self.known)
        runtime = Runtime(self.clock, SeededEntropy(3))
        self.replace = ReplaceHostKeys(self.rig.store, self.provider, runtime, self.on_refusal, LEASE_S)
        return self

    def on_refusal(self, due: DueHostKey, error: ProviderRefused) -> None:
        self.refused.append((due.host_id, str(error)))

    def in_place(self) -> dict[str, str | None]:
        """The key of each host that has one."""
        kept = self.rig.state.committed.host_keys
        return {
            host.provider_user_id: kept[host.id].host_key
            for host in self.known
            if host.id in kept and kept[host.id].host_key is not None
        }


async def test_a_key_of_the_providers_length_is_set_and_kept():
    keys = await Keys(hosts=3).start()
    assert await keys.replace() == 3
    assert keys.in_place() == keys.provider.keys
    assert len(set(keys.provider.keys.values())) == 3
    assert all(len(key) == 6 and key.isdigit() for key in keys.provider.keys.values())
    assert await keys.replace() == 0


async def test_a_provider_without_host_keys_has_none_claimed():
    keys = await Keys(provider=KeyProvider(digits=None)).start()
    assert await keys.replace() == 0
    assert keys.rig.state.committed.host_keys == {}


@pytest.mark.parametrize(("limit", "replaced"), [(0, 0), (1, 1), (8, 8), (9, 9), (19, 19), (64, 20)])
async def test_no_more_than_the_limit_and_eight_at_once(limit: int, replaced: int):
    async def pause() -> None:
        await asyncio.sleep(0)

    keys = await Keys(hosts=20, provider=KeyProvider(answer=pause)).start()
    assert await keys.replace(limit) == replaced
    assert len(keys.in_place()) == replaced
    assert keys.provider.most == min(8, replaced)


async def test_a_refusal_is_reported_and_retried_after_an_hour():
    async def store_refusal() -> None:
        raise ProviderRefused("no such user")

    keys = await Keys(provider=KeyProvider(answer=store_refusal)).start()
    assert await keys.replace() == 0
    assert keys.refused == [(keys.known[0].id, "no such user")]
    keys.provider.answer = at_once
    keys.clock.advance(REFUSED_FOR_S - 1)
    assert await keys.replace() == 0
    keys.clock.advance(1)
    assert await keys.replace() == 1
    assert keys.in_place() == keys.provider.keys


async def test_an_unknown_outcome_is_left_to_the_lease():
    async def drop() -> None:
        raise ProviderUnknown("no answer")

    keys = await Keys(provider=KeyProvider(answer=drop)).start()
    assert await keys.replace() == 0
    keys.provider.answer = at_once
    keys.clock.advance(LEASE_S - 1)
    assert await keys.replace() == 0
    assert keys.in_place() == {}
    keys.clock.advance(1)
    assert await keys.replace() == 1
    assert (keys.in_place(), keys.refused) == (keys.provider.keys, [])


async def test_a_key_that_was_made_due_meanwhile_is_not_kept():
    keys = await Keys().start()

    async def end_a_meeting() -> None:
        async with keys.rig.state.change() as tables:
            del tables.host_keys[keys.known[0].id]

    keys.provider.answer = end_a_meeting
    assert await keys.replace(1) == 0
    assert keys.in_place() == {}
    keys.provider.answer = at_once
    assert await keys.replace() == 1
    assert keys.in_place() == keys.provider.keys


async def test_no_transaction_is_open_during_the_provider_call():
    keys = await Keys().start()

    async def ask_the_store() -> None:
        async with asyncio.timeout(5), keys.rig.store.begin():
            pass

    keys.provider.answer = ask_the_store
    assert await keys.replace() == 1


async def test_one_that_fails_leaves_the_others_in_place():
    keys = await Keys(hosts=5).start()
    failures = iter([StoreUnavailable("away")])

    async def fail_once() -> None:
        for error in failures:
            raise error

    keys.provider.answer = fail_once
    with pytest.raises(StoreUnavailable):
        await keys.replace()
    assert len(keys.in_place()) == 4
