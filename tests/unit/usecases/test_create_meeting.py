"""Making a meeting: one of two things is true afterwards, wherever the process died."""

import asyncio

import pytest
from attrs import evolve

from meetcore.adapters.memory.queries import MemoryQueries
from meetcore.adapters.memory.state import StoredHostKey
from meetcore.adapters.sandbox import SandboxCall, SandboxFault, SandboxProvider
from meetcore.domain.errors import (
    CreditCapExceeded,
    IdempotencyKeyReused,
    InsufficientCredits,
    NoHostFree,
    NotFound,
    ServiceUnavailable,
    UpstreamError,
)
from meetcore.domain.events import EventKind
from meetcore.domain.meetings import MeetingStatus
from meetcore.domain.pricing import DEFAULT_TIERS
from meetcore.domain.schedule import utc_text
from meetcore.ports.store import StoreAway
from meetcore.ports.video_provider import ProviderUnknown
from meetcore.usecases.provision import order_of
from tests.unit.usecases.town import Died, Fuse, Town, request, told

CRASH_POINTS = 8
"""Two transactions of three points each, and the provider's call with two."""


@pytest.mark.spec("1/meetings")
async def test_a_meeting_is_made_and_paid_at_once():
    town = await Town().settle_in()
    answer = await town.create()(town.caller, request(), town.intent("k"), town.now())
    (meeting,) = town.meetings()
    assert answer.payload == told(meeting)
    assert not answer.is_replay
    assert meeting.status is MeetingStatus.SCHEDULED
    assert meeting.join_url is not None
    assert meeting.password is not None
    assert town.funds().balance == 90
    assert town.funds().held == 0
    kinds = [event.kind for event in town.state.committed.events.values()]
    assert EventKind.MEETING_CREATED in kinds
    town.prove()


@pytest.mark.parametrize("point", range(1, CRASH_POINTS + 1))
async def test_wherever_it_dies_the_customer_has_the_meeting_and_paid_once_or_neither(point: int):
    town = await Town().settle_in()
    with pytest.raises(Died):
        await town.create(Fuse(point))(town.caller, request(), town.intent("k"), town.now())
    town.lapse()
    await town.reconcile().sweep()
    town.prove()
    scheduled = [each for each in town.meetings() if each.status is MeetingStatus.SCHEDULED]
    assert town.funds().held == 0
    assert town.funds().balance == 100 - 10 * len(scheduled)
    assert len(town.state.committed.reservations) == len(scheduled)
    assert [usage.spent for usage in town.usage() if usage.held == 0] == [10] * len(scheduled)


@pytest.mark.spec("4/idem-replay")
@pytest.mark.parametrize("point", range(1, CRASH_POINTS + 1))
async def test_a_retry_after_any_death_gets_one_meeting_and_pays_once(point: int):
    town = await Town().settle_in()
    with pytest.raises(Died):
        await town.create(Fuse(point))(town.caller, request(), town.intent("k"), town.now())
    town.lapse()
    first = await town.create()(town.caller, request(), town.intent("k"), town.now())
    second = await town.create()(town.caller, request(), town.intent("k"), town.now())
    assert second.payload == first.payload
    assert second.is_replay
    assert town.funds().balance == 90
    assert [each.status for each in town.meetings()] == [MeetingStatus.SCHEDULED]
    town.prove()


async def test_the_crash_points_are_all_there_are():
    town, fuse = await Town().settle_in(), Fuse()
    await town.create(fuse)(town.caller, request(), town.intent("k"), town.now())
    assert fuse.burnt == CRASH_POINTS


async def test_a_duplicate_waits_while_the_first_runs_and_never_starts_the_work_again():
    town = await Town().settle_in()
    with pytest.raises(Died):
        await town.create(Fuse(4))(town.caller, request(), town.intent("k"), town.now())
    with pytest.raises(ServiceUnavailable) as refused:
        await town.create()(town.caller, request(), town.intent("k"), town.now())
    assert refused.value.retry_after_s == 1
    assert town.funds().held == 10
    assert len(town.meetings()) == 1


async def test_twenty_duplicates_get_one_answer():
    """As from twenty processes: each counts its own duplicates."""
    town = await Town(hosts=3).settle_in()
    use_case = town.create(wait_s=5)
    answers = await asyncio.gather(
        *(use_case(town.caller, request(), town.intent("k"), town.now()) for _ in range(20))
    )
    assert len({answer.payload for answer in answers}) == 1
    assert sum(not answer.is_replay for answer in answers) == 1
    assert town.funds().balance == 90


@pytest.mark.spec("4/idem-reused")
async def test_another_body_under_the_same_key_is_refused_whatever_became_of_the_first():
    town = await Town(hosts=0).settle_in()
    with pytest.raises(ServiceUnavailable):
        await town.create()(town.caller, request(), town.intent("k"), town.now())
    with pytest.raises(IdempotencyKeyReused):
        await town.create()(town.caller, request(), town.intent("k", "other"), town.now())


@pytest.mark.spec("4.1/3")
async def test_no_free_host_is_temporary_and_does_not_stick_to_the_key():
    town = await Town().settle_in()
    await town.create()(town.caller, request(), town.intent(None), town.now())
    with pytest.raises(ServiceUnavailable):
        await town.create()(town.caller, request(), town.intent("k"), town.now())
    assert town.funds().balance == 90
    await town.operate.add_host("another", 100)
    answer = await town.create()(town.caller, request(), town.intent("k"), town.now())
    assert not answer.is_replay
    assert town.funds().balance == 80


@pytest.mark.spec("4.1/3")
async def test_a_refusal_for_want_of_a_host_tells_when_one_is_free():
    town = await Town().settle_in()
    await town.create()(town.caller, request(), town.intent(None), town.now())
    (meeting,) = town.meetings()
    for intent in (town.intent(None), town.intent("k")):
        with pytest.raises(NoHostFree) as refused:
            await town.create()(town.caller, request(), intent, town.now())
        assert refused.value.details == {"next_available_at": utc_text(meeting.end_at)}
        assert refused.value.retry_after_s == 60


@pytest.mark.spec("4.1/3")
async def test_a_refusal_tells_no_time_where_it_cannot_be_told():
    town = await Town(hosts=0).settle_in()
    with pytest.raises(NoHostFree) as refused:
        await town.create()(town.caller, request(), town.intent(None), town.now())
    assert refused.value.details == {}
    await town.operate.add_host("host", 100)
    await town.create()(town.caller, request(), town.intent(None), town.now())

    class Away(MemoryQueries):
        """Queries of a database that is away by now."""

        async def next_free_start(self, wanted):
            raise StoreAway("gone")

    create = evolve(town.create(), queries=Away(town.state, town.clock))
    with pytest.raises(NoHostFree) as refused:
        await create(town.caller, request(), town.intent(None), town.now())
    assert refused.value.details == {}


async def test_no_transaction_is_open_while_the_next_free_start_is_looked_for():
    town = await Town(hosts=0).settle_in()
    opened = []

    class Curious(MemoryQueries):
        """Queries that need the one transaction for themselves."""

        async def next_free_start(self, wanted):
            async with asyncio.timeout(5), town.store.begin():
                opened.append(wanted.start_at)

    create = evolve(town.create(), queries=Curious(town.state, town.clock))
    with pytest.raises(NoHostFree):
        await create(town.caller, request(), town.intent("k"), town.now())
    assert len(opened) == 1


async def test_a_replay_that_is_rendered_late_tells_no_host_key():
    town = await Town().settle_in()
    await town.create()(town.caller, request(), town.intent("k"), town.now())
    (meeting,) = town.meetings()
    record = town.state.committed.idempotency[meeting.account_id, "k"]
    async with town.state.change() as tables:
        assert meeting.host_id is not None
        tables.host_keys[meeting.host_id] = StoredHostKey("123456")
        tables.idempotency[meeting.account_id, "k"] = evolve(record, answer=None)
    found = await town.queries.find_meeting(meeting.account_id, meeting.id)
    assert found is not None
    assert found.host_key == "123456"
    rendered = []

    def render(outcome):
        rendered.append(outcome)
        return told(outcome)

    intent = evolve(town.intent("k"), render=render)
    await town.create()(town.caller, request(), intent, town.now())
    assert rendered == [meeting]


@pytest.mark.parametrize(
    ("town", "wanted", "refusal"),
    [
        (Town(credits=9), {}, InsufficientCredits),
        (Town(daily_cap=9), {}, CreditCapExceeded),
        (Town(), {"pricing_tier_id": "nope"}, NotFound),
    ],
)
async def test_a_final_refusal_is_remembered_and_replayed(town: Town, wanted, refusal):
    await town.settle_in()
    before = town.funds()
    with pytest.raises(refusal):
        await town.create()(town.caller, request(**wanted), town.intent(None), town.now())
    first = await town.create()(town.caller, request(**wanted), town.intent("k"), town.now())
    await town.operate.top_up(town.caller.account.id, 1000)
    again = await town.create()(town.caller, request(**wanted), town.intent("k"), town.now())
    assert again.payload == first.payload
    assert again.is_replay
    assert town.funds().balance == before.balance + 1000
    assert town.funds().held == 0
    assert not town.meetings()


async def test_a_refusing_provider_leaves_nothing_behind_and_the_key_may_try_again():
    town = await Town().settle_in()
    town.faults.plan(SandboxCall.CREATE, SandboxFault.REFUSE)
    with pytest.raises(UpstreamError):
        await town.create()(town.caller, request(), town.intent("k"), town.now())
    assert town.funds().balance == 100
    assert town.funds().held == 0
    assert not town.state.committed.reservations
    await town.create()(town.caller, request(), town.intent("k"), town.now())
    assert town.funds().balance == 90
    town.prove()


@pytest.mark.parametrize(
    ("fault", "paid"),
    [(SandboxFault.LATE, 10), (SandboxFault.DROP, 10), (SandboxFault.HANG, 0), (SandboxFault.LOST, 0)],
)
async def test_an_unknown_outcome_keeps_host_and_hold_until_the_provider_was_asked(fault, paid: int):
    town = await Town().settle_in()
    town.faults.plan(SandboxCall.CREATE, fault)
    with pytest.raises(UpstreamError):
        await town.create()(town.caller, request(), town.intent("k"), town.now())
    assert town.funds().held == 10
    assert await town.reconcile().sweep() == 0, "the lease has not run out"
    town.lapse()
    assert await town.reconcile().sweep() == 1
    assert town.funds().held == 0
    assert town.funds().balance == 100 - paid
    assert len(town.state.committed.reservations) == (1 if paid else 0)
    town.prove()


async def test_a_provider_that_stays_away_leaves_the_meeting_for_the_next_round():
    town = await Town().settle_in()
    town.faults.plan(SandboxCall.CREATE, SandboxFault.LATE)
    town.faults.plan(SandboxCall.FIND, SandboxFault.LATE)
    with pytest.raises(UpstreamError):
        await town.create()(town.caller, request(), town.intent("k"), town.now())
    town.lapse()
    assert await town.reconcile().sweep() == 0
    assert town.funds().held == 10
    town.lapse()
    assert await town.reconcile().sweep() == 1
    assert town.funds().balance == 90


async def test_a_slow_call_whose_lease_ran_out_does_not_charge_twice():
    town = await Town().settle_in()

    class Slow(SandboxProvider):
        """The sandbox on a day when its answer comes after the lease."""

        async def create(self, order):
            made = await town.provider.create(order)
            town.lapse()
            await town.reconcile().sweep()
            return made

    slow = evolve(town.create(), provider=Slow("http://sandbox", town.sandbox.state, bytes(32)))
    answer = await slow(town.caller, request(), town.intent("k"), town.now())
    (meeting,) = town.meetings()
    assert answer.payload == told(meeting)
    assert meeting.status is MeetingStatus.SCHEDULED
    assert town.funds().balance == 90
    assert len(town.entries()) == 2
    town.prove()


@pytest.mark.parametrize("fault", [None, SandboxFault.REFUSE, SandboxFault.LOST])
async def test_a_slow_call_that_was_given_up_is_removed_now_or_as_an_orphan(fault: SandboxFault | None):
    town = await Town().settle_in()

    class Slow(SandboxProvider):
        """The sandbox on a day when it makes the meeting after everybody gave it up."""

        async def create(self, order):
            town.faults.plan(SandboxCall.CREATE, SandboxFault.LOST)
            with pytest.raises(ProviderUnknown):
                await town.provider.create(order)
            town.lapse()
            await town.reconcile().sweep()
            return await town.provider.create(order)

        async def remove(self, provider_meeting_id):
            return await town.provider.remove(provider_meeting_id)

    slow = evolve(town.create(), provider=Slow("http://sandbox", town.sandbox.state, bytes(32)))
    if fault is not None:
        town.faults.plan(SandboxCall.REMOVE, fault)
    with pytest.raises(ServiceUnavailable):
        await slow(town.caller, request(), town.intent("k"), town.now())
    (meeting,) = town.meetings()
    assert meeting.status is MeetingStatus.ABANDONED
    town.clock.advance(61)
    await town.remove_orphans().sweep()
    assert await town.provider.find(order_of(meeting, "host-0")) == ()
    assert town.funds().balance == 100
    town.prove()


async def test_an_account_that_changed_meanwhile_is_read_again_and_nothing_is_lost():
    town = await Town(hosts=2).settle_in()

    class Busy(SandboxProvider):
        """The sandbox, while the customer tops up and books another meeting."""

        async def create(self, order):
            await town.operate.top_up(town.caller.account.id, 5)
            await town.create()(town.caller, request(), town.intent(None), town.now())
            return await town.provider.create(order)

    busy = evolve(town.create(), provider=Busy("http://sandbox", town.sandbox.state, bytes(32)))
    await busy(town.caller, request(), town.intent("k"), town.now())
    assert town.funds().balance == 100 + 5 - 20
    assert [entry.amount for entry in town.entries()] == [100, 5, -10, -10]
    assert town.funds().held == 0
    town.prove()


async def test_a_key_that_was_forgotten_cannot_charge_again():
    town = await Town(hosts=3).settle_in()
    await town.create()(town.caller, request(), town.intent("k"), town.now())
    (meeting,) = town.meetings()
    town.state.committed.idempotency.clear()
    answer = await town.create()(town.caller, request(), town.intent("k"), town.now())
    assert b"idempotency_key_reused" in answer.payload
    assert str(meeting.id) in str(
        [entry.transfer.reference.id for entry in town.entries() if entry.amount < 0]
    )
    assert town.funds().balance == 90


@pytest.mark.spec("4.1/2")
@pytest.mark.parametrize("tier", list(DEFAULT_TIERS.tiers))
@pytest.mark.parametrize("flags", [{}, {"with_recording": True}, {"auto_notulen": True}])
async def test_the_charge_is_the_quote(tier: str, flags: dict[str, bool]):
    town = await Town(credits=1000).settle_in()
    await town.operate.add_host("large", 1000)
    wanted = request(pricing_tier_id=tier, **flags)
    await town.create()(town.caller, wanted, town.intent(None), town.now())
    price = DEFAULT_TIERS.find(tier)
    expected = price.credits + (price.recording_credits if flags else 0)
    assert town.funds().balance == 1000 - expected
    (meeting,) = town.meetings()
    assert meeting.credits == expected
    assert meeting.with_recording is bool(flags)


async def test_another_host_is_tried_when_one_has_had_its_share():
    town = await Town(hosts=2).settle_in()
    town.faults.plan(SandboxCall.CREATE, SandboxFault.FULL)
    answer = await town.create()(town.caller, request(), town.intent("k"), town.now())
    made = [meeting for meeting in town.meetings() if meeting.status is MeetingStatus.SCHEDULED]
    assert [answer.payload] == [told(meeting) for meeting in made]
    assert town.funds().balance == 90
    assert town.funds().held == 0
    rests = [host.rests_until for host in town.state.committed.hosts.values()]
    assert sorted(rest is None for rest in rests) == [False, True]
    again = await town.create()(town.caller, request(), town.intent("k"), town.now())
    assert again.payload == answer.payload
    town.prove()


async def test_when_every_host_has_had_its_share_nothing_is_charged_and_the_key_may_try_again():
    town = await Town(hosts=3).settle_in()
    town.faults.plan(SandboxCall.CREATE, *[SandboxFault.FULL] * 3)
    with pytest.raises(ServiceUnavailable):
        await town.create()(town.caller, request(), town.intent("k"), town.now())
    assert (town.funds().balance, town.funds().held) == (100, 0)
    assert not town.state.committed.reservations
    town.clock.advance(24 * 3600 - 1)
    with pytest.raises(ServiceUnavailable):
        await town.create()(town.caller, request(), town.intent("k"), town.now())
    town.clock.advance(1)
    await town.create()(town.caller, request(date="2026-12-04"), town.intent("other"), town.now())
    assert town.funds().balance == 90
    town.prove()
