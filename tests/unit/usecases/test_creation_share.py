"""How many of a day's creations one account may use, with a provider that limits them."""

from datetime import timedelta

import pytest
from attrs import evolve

from meetcore.adapters.sandbox import SandboxProvider
from meetcore.domain.errors import CreationsUsedUp, NoHostFree
from meetcore.domain.hosts import next_creation_day
from meetcore.domain.meetings import ProviderAbilities
from meetcore.ports.queries import Caller
from meetcore.usecases.create_meeting import CreateMeeting, Shortage
from tests.unit.usecases.town import START, Town, request

PER_DAY = 4


class Limited(SandboxProvider):
    """The sandbox, with hosts that may be given four meetings a day."""

    @property
    def abilities(self) -> ProviderAbilities:
        return evolve(super().abilities, creations_per_host_day=PER_DAY)


async def limited_town(hosts: int = 1) -> Town:
    town = await Town(hosts=hosts).settle_in()
    town.provider = Limited("http://sandbox", town.sandbox.state, bytes(32))
    return town


async def create_and_cancel(
    town: Town, times: int, caller: Caller | None = None, create: CreateMeeting | None = None
) -> None:
    by = caller or town.caller
    for _ in range(times):
        before = {meeting.id for meeting in town.meetings()}
        await (create or town.create())(by, request(), town.intent(None), town.now())
        (made,) = {meeting.id for meeting in town.meetings()} - before
        await town.cancel()(by, made, town.intent(None), town.now())


@pytest.mark.spec("4.1/3")
async def test_an_account_gets_half_of_the_days_creations_whatever_it_cancels():
    town = await limited_town()
    await create_and_cancel(town, PER_DAY // 2)
    for intent in (town.intent(None), town.intent("k"), town.intent("k")):
        with pytest.raises(CreationsUsedUp, match="share") as refused:
            await town.create()(town.caller, request(), intent, town.now())
        assert refused.value.details == {"next_available_at": "2026-12-02T00:00:00Z"}
        assert refused.value.retry_after_s == 24 * 3600
    assert (town.funds().balance, town.funds().held) == (100, 0)
    town.clock.set(next_creation_day(START))
    await town.create()(town.caller, request(), town.intent("k"), town.now())
    assert town.funds().balance == 90
    town.prove()


async def test_the_others_still_find_hosts():
    town = await limited_town(hosts=2)
    other = await town.another_caller()
    await create_and_cancel(town, PER_DAY)
    with pytest.raises(CreationsUsedUp, match="share"):
        await town.create()(town.caller, request(), town.intent(None), town.now())
    await create_and_cancel(town, PER_DAY // 2, other)


async def test_an_operator_may_let_one_account_use_them_all():
    town = await limited_town()
    create = evolve(town.create(), share_percent=100)
    await create_and_cancel(town, PER_DAY, create=create)
    with pytest.raises(CreationsUsedUp, match="hosts") as refused:
        await create(town.caller, request(), town.intent(None), town.now())
    assert refused.value.details == {"next_available_at": "2026-12-02T00:00:00Z"}


async def test_a_refusal_says_when_hosts_that_rest_are_back():
    town = await limited_town()
    (host,) = town.state.committed.hosts.values()
    async with town.state.change() as tables:
        tables.hosts[host.id] = evolve(host, rests_until=START + timedelta(hours=1))
    with pytest.raises(CreationsUsedUp) as refused:
        await town.create()(town.caller, request(), town.intent(None), town.now())
    assert refused.value.details == {"next_available_at": "2026-12-01T01:00:00Z"}
    assert refused.value.retry_after_s == 3600


async def test_each_refusal_for_want_of_hosts_is_reported():
    town = await limited_town()
    shortages: list[Shortage] = []
    create = evolve(town.create(), report=shortages.append)
    await create(town.caller, request(), town.intent(None), town.now())
    with pytest.raises(NoHostFree):
        await create(town.caller, request(), town.intent(None), town.now())
    (taken,) = shortages
    assert (type(taken.refusal), taken.account_id, taken.seats) == (NoHostFree, None, 100)
    await create(town.caller, request(date="2026-12-03"), town.intent(None), town.now())
    with pytest.raises(CreationsUsedUp):
        await create(town.caller, request(date="2026-12-04"), town.intent(None), town.now())
    assert shortages[-1].account_id == town.caller.account.id
