"""How many of a day's creations one account may use, with a provider that limits them."""

from datetime import timedelta

import pytest
from attrs import evolve

from meetcore.adapters.sandbox import SandboxProvider
from meetcore.domain.errors import CreationsUsedUp, NoHostFree
from meetcore.domain.meetings.hosts import next_creation_day
from meetcore.domain.meetings.meetings import ProviderAbilities
from meetcore.ports.queries import Caller
from meetcore.usecases.create_meeting import CapacityRefusal, CreateMeeting
from tests.unit.usecases.application import START, ApplicationHarness, request

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
        await (create or harness.create())(by, request(), harness.request_key(None), harness.now())
        (made,) = {meeting.id for meeting in harness.meetings()} - before
        await harness.cancel()(by, made, harness.request_key(None), harness.now())


@pytest.mark.spec("4.1/3")
async def test_an_account_gets_half_of_the_days_creations_whatever_it_cancels():
    harness = await limited_application()
    await create_and_cancel(harness, PER_DAY // 2)
    for request_key in (harness.request_key(None), harness.request_key("k"), harness.request_key("k")):
        with pytest.raises(CreationsUsedUp, match="share") as refused:
            await harness.create()(harness.caller, request(), request_key, harness.now())
        assert refused.value.details == {"next_available_at": "2026-12-02T00:00:00Z"}
        assert refused.value.retry_after_s == 24 * 3600
    assert (harness.funds().balance, harness.funds().held) == (100, 0)
    harness.clock.set(next_creation_day(START))
    await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    assert harness.funds().balance == 90
    harness.prove()


async def test_the_others_still_find_hosts():
    harness = await limited_application(hosts=2)
    other = await harness.another_caller()
    await create_and_cancel(harness, PER_DAY)
    with pytest.raises(CreationsUsedUp, match="share"):
        await harness.create()(harness.caller, request(), harness.request_key(None), harness.now())
    await create_and_cancel(harness, PER_DAY // 2, other)


async def test_an_operator_may_allow_one_account_all_creations():
    harness = await limited_application()
    create = evolve(harness.create(), share_percent=100)
    await create_and_cancel(harness, PER_DAY, create=create)
    with pytest.raises(CreationsUsedUp, match="hosts") as refused:
        await create(harness.caller, request(), harness.request_key(None), harness.now())
    assert refused.value.details == {"next_available_at": "2026-12-02T00:00:00Z"}


async def test_a_refusal_states_when_unavailable_hosts_return():
    harness = await limited_application()
    (host,) = harness.state.committed.hosts.values()
    async with harness.state.change() as tables:
        tables.hosts[host.id] = evolve(host, unavailable_until=START + timedelta(hours=1))
    with pytest.raises(CreationsUsedUp) as refused:
        await harness.create()(harness.caller, request(), harness.request_key(None), harness.now())
    assert refused.value.details == {"next_available_at": "2026-12-01T01:00:00Z"}
    assert refused.value.retry_after_s == 3600


async def test_each_refusal_for_lack_of_hosts_is_reported():
    harness = await limited_application()
    shortages: list[CapacityRefusal] = []
    create = evolve(harness.create(), report=shortages.append)
    await create(harness.caller, request(), harness.request_key(None), harness.now())
    with pytest.raises(NoHostFree):
        await create(harness.caller, request(), harness.request_key(None), harness.now())
    (taken,) = shortages
    assert (type(taken.refusal), taken.account_id, taken.seats) == (NoHostFree, None, 100)
    await create(harness.caller, request(date="2026-12-03"), harness.request_key(None), harness.now())
    with pytest.raises(CreationsUsedUp):
        await create(harness.caller, request(date="2026-12-04"), harness.request_key(None), harness.now())
    assert shortages[-1].account_id == harness.caller.account.id
