"""Creations: the meeting is there and paid once, or neither, wherever the process dies."""

import asyncio
from contextlib import suppress
from typing import Any, cast

import pytest
from attrs import evolve

from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.sandbox import SandboxCall, SandboxFault, SandboxProvider
from meetcore.domain.errors import NoHostFree, ServiceUnavailable, UpstreamError
from meetcore.domain.fields import as_json
from meetcore.domain.meetings.meetings import MeetingStatus, Provisioned
from meetcore.domain.meetings.views import ProviderOrder
from meetcore.domain.records.meetings import meeting_record
from meetcore.domain.requests.idempotency import MAX_KEY_LENGTH
from meetcore.ports.store import StoreUnavailable
from meetcore.ports.video_provider import ProviderUnknown, VideoProvider
from meetcore.usecases.meetings.creation import order_of
from tests.unit.usecases.application import ApplicationHarness, SimulatedCrash, crash_points


@pytest.mark.spec("4/idem-replay")
async def test_a_retry_after_any_crash_gets_one_meeting_and_pays_once() -> None:
    for point in crash_points():
        harness = await ApplicationHarness().start()
        with suppress(SimulatedCrash):
            await harness.make("k", point)
        harness.expire_leases()
        first = await harness.make("k")
        second = await harness.make("k")
        assert second.record == first.record
        assert second.is_replay
        assert harness.money() == (90, 0)
        assert [(usage.spent, usage.held) for usage in harness.usage()] == [(10, 0)]
        assert [each.status for each in harness.meetings()] == [MeetingStatus.SCHEDULED]
        harness.prove()


@pytest.mark.spec("4.1/3")
async def test_a_refusal_states_no_time_where_it_is_unknown():
    harness = await ApplicationHarness(hosts=0).start()
    with pytest.raises(NoHostFree) as refused:
        await harness.make()
    assert refused.value.details == {}
    await harness.administration.hosts.add("host", 100)
    await harness.make()

    class Unavailable(PostgresQueries):
        """Queries of a database that is away by now."""

        async def next_free_start(self, wanted):
            raise StoreUnavailable("gone")

    create = evolve(harness.create(), queries=Unavailable(harness.rig.pool, harness.rig.cipher))
    with pytest.raises(NoHostFree) as refused:
        await harness.make(use=create)
    assert refused.value.details == {}


async def test_no_transaction_is_open_while_the_next_free_start_is_looked_for():
    harness = await ApplicationHarness(hosts=0).start()
    opened = []

    class Curious(PostgresQueries):
        """Queries that need the one transaction for themselves."""

        async def next_free_start(self, wanted):
            async with asyncio.timeout(5), harness.store.begin():
                opened.append(wanted.start_at)

    create = evolve(harness.create(), queries=Curious(harness.rig.pool, harness.rig.cipher))
    with pytest.raises(NoHostFree):
        await harness.make("k", use=create)
    assert len(opened) == 1


async def test_the_longest_key_is_a_part_of_the_charges_name(harness: ApplicationHarness):
    await harness.make("~" * MAX_KEY_LENGTH)
    assert harness.entries()[-1].transfer.operation == "meeting:key:" + "~" * MAX_KEY_LENGTH


class RepeatingProvider:
    """A provider that gives every meeting the number of an earlier one."""

    def __init__(self, provider: VideoProvider, number: str) -> None:
        self._provider = provider
        self._number = number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def create(self, order: ProviderOrder) -> Provisioned:
        return evolve(await self._provider.create(order), provider_meeting_id=self._number)

    async def find(self, order: ProviderOrder) -> tuple[Provisioned, ...]:
        return tuple(
            evolve(one, provider_meeting_id=self._number) for one in await self._provider.find(order)
        )


@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_number_that_another_meeting_has_is_the_providers_fault_and_costs_nothing(is_answered: bool):
    harness = await ApplicationHarness().start()
    await harness.make()
    (first,) = harness.meetings()
    harness.provider = cast(
        VideoProvider, RepeatingProvider(harness.sandbox, first.provider_meeting_id or "")
    )
    if not is_answered:
        harness.faults.plan(SandboxCall.CREATE, SandboxFault.LATE)
    with pytest.raises(UpstreamError):
        await harness.make("k", date="2026-12-03")
    if not is_answered:
        assert await harness.recover() == 1, "it is undone"
    assert harness.money() == (90, 0)
    assert harness.count("host_reservations") == 1
    harness.provider = harness.sandbox
    await harness.make("k", date="2026-12-03")
    assert harness.money() == (80, 0)
    harness.prove()


async def test_a_provider_that_stays_unavailable_leaves_the_meeting_for_the_next_sweep():
    harness = await ApplicationHarness().start()
    harness.faults.plan(SandboxCall.CREATE, SandboxFault.LATE)
    harness.faults.plan(SandboxCall.FIND, SandboxFault.LATE)
    with pytest.raises(UpstreamError):
        await harness.make("k")
    assert await harness.recover() == 0
    assert harness.funds().held == 10
    assert await harness.recover() == 1
    assert harness.funds().balance == 90


async def test_a_slow_call_whose_lease_ran_out_does_not_charge_twice(harness: ApplicationHarness):

    class Slow(SandboxProvider):
        """The sandbox on a day when its answer comes after the lease."""

        async def create(self, order):
            made = await harness.provider.create(order)
            await harness.recover()
            return made

    slow = evolve(harness.create(), provider=Slow("http://sandbox", harness.sandbox.state, bytes(32)))
    answer = await harness.make("k", use=slow)
    (meeting,) = harness.meetings()
    assert answer.record == as_json(meeting_record(meeting, meeting.created_at))
    assert meeting.status is MeetingStatus.SCHEDULED
    assert harness.funds().balance == 90
    assert len(harness.entries()) == 2
    harness.prove()


@pytest.mark.parametrize("fault", [None, SandboxFault.REFUSE, SandboxFault.LOST])
async def test_a_slow_call_that_was_given_up_is_removed_now_or_as_an_orphan(fault: SandboxFault | None):
    harness = await ApplicationHarness().start()

    class Slow(SandboxProvider):
        """The sandbox on a day when it makes the meeting after everybody gave it up."""

        async def create(self, order):
            harness.faults.plan(SandboxCall.CREATE, SandboxFault.LOST)
            with pytest.raises(ProviderUnknown):
                await harness.provider.create(order)
            await harness.recover()
            return await harness.provider.create(order)

        async def remove(self, provider_meeting_id):
            return await harness.provider.remove(provider_meeting_id)

    slow = evolve(harness.create(), provider=Slow("http://sandbox", harness.sandbox.state, bytes(32)))
    if fault is not None:
        harness.faults.plan(SandboxCall.REMOVE, fault)
    with pytest.raises(ServiceUnavailable):
        await harness.make("k", use=slow)
    (meeting,) = harness.meetings()
    assert meeting.status is MeetingStatus.ABANDONED
    harness.clock.advance(61)
    await harness.remove_orphans().sweep()
    assert await harness.provider.find(order_of(meeting, "host-0")) == ()
    assert harness.funds().balance == 100
    harness.prove()


async def test_an_account_that_changed_meanwhile_is_read_again_and_nothing_is_lost():
    harness = await ApplicationHarness(hosts=2).start()

    class Busy(SandboxProvider):
        """The sandbox, while the customer tops up and books another meeting."""

        async def create(self, order):
            await harness.administration.top_up(harness.caller.account.id, 5)
            await harness.make()
            return await harness.provider.create(order)

    busy = evolve(harness.create(), provider=Busy("http://sandbox", harness.sandbox.state, bytes(32)))
    await harness.make("k", use=busy)
    assert harness.funds().balance == 100 + 5 - 20
    assert [entry.amount for entry in harness.entries()] == [100, 5, -10, -10]
    assert harness.funds().held == 0
    harness.prove()


async def test_another_host_is_tried_when_one_has_had_its_share():
    harness = await ApplicationHarness(hosts=2).start()
    harness.faults.plan(SandboxCall.CREATE, SandboxFault.FULL)
    answer = await harness.make("k")
    made = [meeting for meeting in harness.meetings() if meeting.status is MeetingStatus.SCHEDULED]
    assert [answer.record] == [as_json(meeting_record(meeting, meeting.created_at)) for meeting in made]
    assert harness.money() == (90, 0)
    unavailable_until = [
        row["unavailable_until"] for row in harness.read("SELECT unavailable_until FROM hosts ORDER BY id")
    ]
    assert sorted(rest is None for rest in unavailable_until) == [False, True]
    again = await harness.make("k")
    assert again.record == answer.record
    harness.prove()


async def test_when_every_host_has_had_its_share_nothing_is_charged_and_the_key_may_try_again():
    harness = await ApplicationHarness(hosts=3).start()
    harness.faults.plan(SandboxCall.CREATE, *[SandboxFault.FULL] * 3)
    with pytest.raises(ServiceUnavailable):
        await harness.make("k")
    assert harness.money() == (100, 0)
    assert harness.count("host_reservations") == 0
    harness.clock.advance(24 * 3600 - 1)
    with pytest.raises(ServiceUnavailable):
        await harness.make("k")
    harness.clock.advance(1)
    await harness.make("other", date="2026-12-04")
    assert harness.funds().balance == 90
    harness.prove()
