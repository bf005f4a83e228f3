"""Hosts: an account's share in the creations of a day, and host keys that are replaced once."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import cast
from uuid import UUID

import pytest
from attrs import define, evolve, field

from meetcore.adapters.postgres.columns import open_text
from meetcore.adapters.postgres.meetings.rows import host_key_context
from meetcore.adapters.sandbox import SandboxProvider
from meetcore.domain.errors import CreationsUsedUp, NoHostFree
from meetcore.domain.meetings.hosts import Host, next_creation_day
from meetcore.domain.meetings.meetings import ProviderAbilities
from meetcore.domain.meetings.views import DueHostKey
from meetcore.ports.queries import Caller
from meetcore.ports.store import StoreUnavailable
from meetcore.ports.video_provider import ProviderRefused, ProviderUnknown, VideoProvider
from meetcore.testing.clock import SeededEntropy
from meetcore.usecases.meetings.create_meeting import CapacityRefusal, CreateMeeting
from meetcore.usecases.meetings.hosts import REFUSED_FOR_S, ReplaceHostKeys
from meetcore.usecases.runtime import Runtime
from tests.support.postgres_rig import StoreClock, current_rig
from tests.support.transactions import new_host
from tests.unit.usecases.application import LEASE_S, START, ApplicationHarness

PER_DAY = 4


class Limited(SandboxProvider):
    """The sandbox, with hosts that may be given four meetings a day."""

    @property
    def abilities(self) -> ProviderAbilities:
        return evolve(super().abilities, creations_per_host_day=PER_DAY)


async def limited_application(hosts: int = 1) -> ApplicationHarness:
    harness = await ApplicationHarness(hosts=hosts).start()
    harness.provider = Limited("http://sandbox", harness.sandbox.state, bytes(32))
    return harness


async def create_and_cancel(
    harness: ApplicationHarness, times: int, caller: Caller | None = None, create: CreateMeeting | None = None
) -> None:
    by = caller or harness.caller
    for _ in range(times):
        before = {meeting.id for meeting in harness.meetings()}
        await harness.make(by=by, use=create or harness.create())
        (made,) = {meeting.id for meeting in harness.meetings()} - before
        await harness.call_off(made, by=by)


@pytest.mark.spec("4.1/3")
async def test_an_account_gets_half_of_the_days_creations_whatever_it_cancels():
    harness = await limited_application()
    await create_and_cancel(harness, PER_DAY // 2)
    for key in (None, "k", "k"):
        with pytest.raises(CreationsUsedUp, match="share") as refused:
            await harness.make(key)
        assert refused.value.details == {"next_available_at": "2026-12-02T00:00:00Z"}
        assert refused.value.retry_after_s == 24 * 3600
    assert harness.money() == (100, 0)
    harness.clock.set(next_creation_day(START))
    await harness.make("k")
    assert harness.funds().balance == 90
    harness.prove()


async def test_an_operator_may_allow_one_account_all_creations():
    harness = await limited_application()
    create = evolve(harness.create(), share_percent=100)
    await create_and_cancel(harness, PER_DAY, create=create)
    with pytest.raises(CreationsUsedUp, match="hosts") as refused:
        await harness.make(use=create)
    assert refused.value.details == {"next_available_at": "2026-12-02T00:00:00Z"}


async def test_a_refusal_states_when_unavailable_hosts_return():
    harness = await limited_application()
    harness.write("UPDATE hosts SET unavailable_until = %(until)s", until=START + timedelta(hours=1))
    with pytest.raises(CreationsUsedUp) as refused:
        await harness.make()
    assert refused.value.details == {"next_available_at": "2026-12-01T01:00:00Z"}
    assert refused.value.retry_after_s == 3600


async def test_each_refusal_for_lack_of_hosts_is_reported():
    harness = await limited_application()
    shortages: list[CapacityRefusal] = []
    create = evolve(harness.create(), report=shortages.append)
    await harness.make(use=create)
    with pytest.raises(NoHostFree):
        await harness.make(use=create)
    (taken,) = shortages
    assert (type(taken.refusal), taken.account_id, taken.seats) == (NoHostFree, None, 100)
    await harness.make(use=create, date="2026-12-03")
    with pytest.raises(CreationsUsedUp):
        await harness.make(use=create, date="2026-12-04")
    assert shortages[-1].account_id == harness.caller.account.id


async def at_once() -> None:
    """An answer without a delay."""


@define
class KeyProvider:
    """A provider that remembers the last key of each host; `answer` runs before it does."""

    digits: int | None = 6
    keys: dict[str, str] = field(factory=dict)
    answer: Callable[[], Awaitable[None]] = at_once
    in_flight: int = 0
    most: int = 0

    @property
    def abilities(self) -> ProviderAbilities:
        return ProviderAbilities("keys", None, host_key_digits=self.digits)

    async def set_host_key(self, provider_user_id: str, host_key: str) -> None:
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await self.answer()
        finally:
            self.in_flight -= 1
        self.keys[provider_user_id] = host_key


@define(slots=False)
class Keys:
    """Hosts, a provider, and the use case."""

    hosts: int = 1
    provider: KeyProvider = field(factory=KeyProvider)
    refused: list[tuple[UUID, str]] = field(factory=list)

    async def start(self) -> "Keys":
        self.clock, self.rig = StoreClock(START), current_rig()
        await self.rig.reset()
        self.rig.stop_time(self.clock)
        self.known: list[Host] = [new_host() for _ in range(self.hosts)]
        await self.rig.put_hosts(*self.known)
        runtime = Runtime(self.clock, SeededEntropy(3))
        self.replace = ReplaceHostKeys(
            self.rig.store, cast("VideoProvider", self.provider), runtime, self.on_refusal, LEASE_S
        )
        return self

    def on_refusal(self, due: DueHostKey, error: ProviderRefused) -> None:
        self.refused.append((due.host_id, str(error)))

    def in_place(self) -> dict[str, str | None]:
        """The key of each host that has one."""
        found = self.rig.read("SELECT id, provider_user_id, host_key FROM hosts WHERE host_key IS NOT NULL")
        return {
            row["provider_user_id"]: open_text(self.rig.cipher, row["host_key"], host_key_context(row["id"]))
            for row in found
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
    assert keys.rig.read("SELECT 1 FROM hosts WHERE key_token IS NOT NULL") == []


@pytest.mark.parametrize(("limit", "replaced"), [(0, 0), (1, 1), (9, 9), (64, 20)])
async def test_no_more_than_the_limit_and_eight_at_once(limit: int, replaced: int):
    async def pause() -> None:
        await asyncio.sleep(0)

    keys = await Keys(hosts=20, provider=KeyProvider(answer=pause)).start()
    assert await keys.replace(limit) == replaced
    assert len(keys.in_place()) == replaced
    assert keys.provider.most == min(8, replaced)


@pytest.mark.parametrize(("error", "wait_s", "reported"), [
    (ProviderRefused("no such user"), REFUSED_FOR_S, ["no such user"]),
    (ProviderUnknown("no answer"), LEASE_S, []),
])  # fmt: skip
async def test_a_refusal_is_reported_and_retried_after_an_hour_and_an_unknown_outcome_after_the_lease(
    error: Exception, wait_s: float, reported: list[str]
):
    async def fail() -> None:
        raise error

    keys = await Keys(provider=KeyProvider(answer=fail)).start()
    assert await keys.replace() == 0
    keys.provider.answer = at_once
    keys.clock.advance(wait_s - 1)
    assert await keys.replace() == 0
    assert keys.in_place() == {}
    keys.clock.advance(1)
    assert await keys.replace() == 1
    assert keys.in_place() == keys.provider.keys
    assert keys.refused == [(keys.known[0].id, text) for text in reported]


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
