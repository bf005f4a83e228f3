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
from meetcore.domain.field_info import as_json
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.money.pricing import DEFAULT_TIERS
from meetcore.domain.records.meetings import meeting_record
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.store import StoreUnavailable
from meetcore.ports.video_provider import ProviderUnknown
from meetcore.usecases.provision import order_of
from tests.unit.usecases.application import ApplicationHarness, CrashPoint, SimulatedCrash, request

CRASH_POINTS = 8
"""Two transactions of three points each, and the provider's call with two."""


@pytest.mark.spec("1/meetings")
async def test_a_meeting_is_made_and_paid_at_once():
    harness = await ApplicationHarness().start()
    answer = await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    (meeting,) = harness.meetings()
    assert answer.record == as_json(meeting_record(meeting, meeting.created_at))
    assert not answer.is_replay
    assert meeting.status is MeetingStatus.SCHEDULED
    assert meeting.join_url is not None
    assert meeting.password is not None
    assert harness.funds().balance == 90
    assert harness.funds().held == 0
    kinds = [event.kind for event in harness.state.committed.events.values()]
    assert EventKind.MEETING_CREATED in kinds
    harness.prove()


@pytest.mark.parametrize("point", range(1, CRASH_POINTS + 1))
async def test_after_a_crash_at_any_point_the_customer_has_the_meeting_and_paid_once_or_neither(point: int):
    harness = await ApplicationHarness().start()
    with pytest.raises(SimulatedCrash):
        await harness.create(CrashPoint(point))(
            harness.caller, request(), harness.request_key("k"), harness.now()
        )
    harness.expire_leases()
    await harness.reconcile().sweep()
    harness.prove()
    scheduled = [each for each in harness.meetings() if each.status is MeetingStatus.SCHEDULED]
    assert harness.funds().held == 0
    assert harness.funds().balance == 100 - 10 * len(scheduled)
    assert len(harness.state.committed.reservations) == len(scheduled)
    assert [usage.spent for usage in harness.usage() if usage.held == 0] == [10] * len(scheduled)


@pytest.mark.spec("4/idem-replay")
@pytest.mark.parametrize("point", range(1, CRASH_POINTS + 1))
async def test_a_retry_after_any_crash_gets_one_meeting_and_pays_once(point: int):
    harness = await ApplicationHarness().start()
    with pytest.raises(SimulatedCrash):
        await harness.create(CrashPoint(point))(
            harness.caller, request(), harness.request_key("k"), harness.now()
        )
    harness.expire_leases()
    first = await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    second = await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    assert second.record == first.record
    assert second.is_replay
    assert harness.funds().balance == 90
    assert [each.status for each in harness.meetings()] == [MeetingStatus.SCHEDULED]
    harness.prove()


async def test_the_list_of_crash_points_is_complete():
    harness, crash_point = await ApplicationHarness().start(), CrashPoint()
    await harness.create(crash_point)(harness.caller, request(), harness.request_key("k"), harness.now())
    assert crash_point.burnt == CRASH_POINTS


async def test_a_duplicate_waits_while_the_first_runs_and_never_starts_the_work_again():
    harness = await ApplicationHarness().start()
    with pytest.raises(SimulatedCrash):
        await harness.create(CrashPoint(4))(
            harness.caller, request(), harness.request_key("k"), harness.now()
        )
    with pytest.raises(ServiceUnavailable) as refused:
        await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    assert refused.value.retry_after_s == 1
    assert harness.funds().held == 10
    assert len(harness.meetings()) == 1


async def test_twenty_duplicates_get_one_answer():
    """As from twenty processes: each counts its own duplicates."""
    harness = await ApplicationHarness(hosts=3).start()
    use_case = harness.create(wait_s=5)
    answers = await asyncio.gather(
        *(use_case(harness.caller, request(), harness.request_key("k"), harness.now()) for _ in range(20))
    )
    assert all(answer.record == answers[0].record for answer in answers)
    assert sum(not answer.is_replay for answer in answers) == 1
    assert harness.funds().balance == 90


@pytest.mark.spec("4/idem-reused")
async def test_another_body_under_the_same_key_is_refused_whatever_became_of_the_first():
    harness = await ApplicationHarness(hosts=0).start()
    with pytest.raises(ServiceUnavailable):
        await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    with pytest.raises(IdempotencyKeyReused):
        await harness.create()(harness.caller, request(), harness.request_key("k", "other"), harness.now())


@pytest.mark.spec("4.1/3")
async def test_no_free_host_is_temporary_and_does_not_stick_to_the_key():
    harness = await ApplicationHarness().start()
    await harness.create()(harness.caller, request(), harness.request_key(None), harness.now())
    with pytest.raises(ServiceUnavailable):
        await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    assert harness.funds().balance == 90
    await harness.administration.hosts.add("another", 100)
    answer = await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    assert not answer.is_replay
    assert harness.funds().balance == 80


@pytest.mark.spec("4.1/3")
async def test_a_refusal_for_lack_of_a_host_states_when_one_is_free():
    harness = await ApplicationHarness().start()
    await harness.create()(harness.caller, request(), harness.request_key(None), harness.now())
    (meeting,) = harness.meetings()
    for key in (harness.request_key(None), harness.request_key("k")):
        with pytest.raises(NoHostFree) as refused:
            await harness.create()(harness.caller, request(), key, harness.now())
        assert refused.value.details == {"next_available_at": utc_text(meeting.end_at)}
        assert refused.value.retry_after_s == 60


@pytest.mark.spec("4.1/3")
async def test_a_refusal_states_no_time_where_it_is_unknown():
    harness = await ApplicationHarness(hosts=0).start()
    with pytest.raises(NoHostFree) as refused:
        await harness.create()(harness.caller, request(), harness.request_key(None), harness.now())
    assert refused.value.details == {}
    await harness.administration.hosts.add("host", 100)
    await harness.create()(harness.caller, request(), harness.request_key(None), harness.now())

    class Unavailable(MemoryQueries):
        """Queries of a database that is away by now."""

        async def next_free_start(self, wanted):
            raise StoreUnavailable("gone")

    create = evolve(harness.create(), queries=Unavailable(harness.state, harness.clock))
    with pytest.raises(NoHostFree) as refused:
        await create(harness.caller, request(), harness.request_key(None), harness.now())
    assert refused.value.details == {}


async def test_no_transaction_is_open_while_the_next_free_start_is_looked_for():
    harness = await ApplicationHarness(hosts=0).start()
    opened = []

    class Curious(MemoryQueries):
        """Queries that need the one transaction for themselves."""

        async def next_free_start(self, wanted):
            async with asyncio.timeout(5), harness.store.begin():
                opened.append(wanted.start_at)

    create = evolve(harness.create(), queries=Curious(harness.state, harness.clock))
    with pytest.raises(NoHostFree):
        await create(harness.caller, request(), harness.request_key("k"), harness.now())
    assert len(opened) == 1


async def test_a_replay_that_is_rendered_late_contains_no_host_key():
    harness = await ApplicationHarness().start()
    first = await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    (meeting,) = harness.meetings()
    record = harness.state.committed.idempotency[meeting.account_id, "k"]
    async with harness.state.change() as tables:
        assert meeting.host_id is not None
        tables.host_keys[meeting.host_id] = StoredHostKey("123456")
        tables.idempotency[meeting.account_id, "k"] = evolve(record, encoded_outcome=None)
    found = await harness.queries.find_meeting(meeting.account_id, meeting.id)
    assert found is not None
    assert found.host_key == "123456"
    again = await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    assert again == evolve(first, is_replay=True, due=0)


@pytest.mark.parametrize(
    ("harness", "wanted", "refusal"),
    [
        (ApplicationHarness(credits=9), {}, InsufficientCredits),
        (ApplicationHarness(daily_cap=9), {}, CreditCapExceeded),
        (ApplicationHarness(), {"pricing_tier_id": "nope"}, NotFound),
    ],
)
async def test_a_final_refusal_is_stored_and_replayed(harness: ApplicationHarness, wanted, refusal):
    await harness.start()
    before = harness.funds()
    unstored = await harness.create()(
        harness.caller, request(**wanted), harness.request_key(None), harness.now()
    )
    first = await harness.create()(harness.caller, request(**wanted), harness.request_key("k"), harness.now())
    await harness.administration.top_up(harness.caller.account.id, 1000)
    again = await harness.create()(harness.caller, request(**wanted), harness.request_key("k"), harness.now())
    assert first.refusal is not None
    assert first.refusal.code == refusal.code
    assert again == evolve(first, is_replay=True)
    assert unstored.refusal == first.refusal
    assert harness.funds().balance == before.balance + 1000
    assert harness.funds().held == 0
    assert not harness.meetings()


async def test_a_refusing_provider_leaves_nothing_behind_and_the_key_may_try_again():
    harness = await ApplicationHarness().start()
    harness.faults.plan(SandboxCall.CREATE, SandboxFault.REFUSE)
    with pytest.raises(UpstreamError):
        await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    assert harness.funds().balance == 100
    assert harness.funds().held == 0
    assert not harness.state.committed.reservations
    await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    assert harness.funds().balance == 90
    harness.prove()


@pytest.mark.parametrize(
    ("fault", "paid"),
    [(SandboxFault.LATE, 10), (SandboxFault.DROP, 10), (SandboxFault.HANG, 0), (SandboxFault.LOST, 0)],
)
async def test_an_unknown_outcome_keeps_host_and_hold_until_the_provider_was_queried(fault, paid: int):
    harness = await ApplicationHarness().start()
    harness.faults.plan(SandboxCall.CREATE, fault)
    with pytest.raises(UpstreamError):
        await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    assert harness.funds().held == 10
    assert await harness.reconcile().sweep() == 0, "the lease has not run out"
    harness.expire_leases()
    assert await harness.reconcile().sweep() == 1
    assert harness.funds().held == 0
    assert harness.funds().balance == 100 - paid
    assert len(harness.state.committed.reservations) == (1 if paid else 0)
    harness.prove()


async def test_a_provider_that_stays_unavailable_leaves_the_meeting_for_the_next_sweep():
    harness = await ApplicationHarness().start()
    harness.faults.plan(SandboxCall.CREATE, SandboxFault.LATE)
    harness.faults.plan(SandboxCall.FIND, SandboxFault.LATE)
    with pytest.raises(UpstreamError):
        await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    harness.expire_leases()
    assert await harness.reconcile().sweep() == 0
    assert harness.funds().held == 10
    harness.expire_leases()
    assert await harness.reconcile().sweep() == 1
    assert harness.funds().balance == 90


async def test_a_slow_call_whose_lease_ran_out_does_not_charge_twice():
    harness = await ApplicationHarness().start()

    class Slow(SandboxProvider):
        """The sandbox on a day when its answer comes after the lease."""

        async def create(self, order):
            made = await harness.provider.create(order)
            harness.expire_leases()
            await harness.reconcile().sweep()
            return made

    slow = evolve(harness.create(), provider=Slow("http://sandbox", harness.sandbox.state, bytes(32)))
    answer = await slow(harness.caller, request(), harness.request_key("k"), harness.now())
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
            harness.expire_leases()
            await harness.reconcile().sweep()
            return await harness.provider.create(order)

        async def remove(self, provider_meeting_id):
            return await harness.provider.remove(provider_meeting_id)

    slow = evolve(harness.create(), provider=Slow("http://sandbox", harness.sandbox.state, bytes(32)))
    if fault is not None:
        harness.faults.plan(SandboxCall.REMOVE, fault)
    with pytest.raises(ServiceUnavailable):
        await slow(harness.caller, request(), harness.request_key("k"), harness.now())
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
            await harness.create()(harness.caller, request(), harness.request_key(None), harness.now())
            return await harness.provider.create(order)

    busy = evolve(harness.create(), provider=Busy("http://sandbox", harness.sandbox.state, bytes(32)))
    await busy(harness.caller, request(), harness.request_key("k"), harness.now())
    assert harness.funds().balance == 100 + 5 - 20
    assert [entry.amount for entry in harness.entries()] == [100, 5, -10, -10]
    assert harness.funds().held == 0
    harness.prove()


async def test_a_key_whose_record_was_purged_cannot_charge_again():
    harness = await ApplicationHarness(hosts=3).start()
    await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    (meeting,) = harness.meetings()
    harness.state.committed.idempotency.clear()
    answer = await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    assert answer.refusal is not None
    assert answer.refusal.code == "idempotency_key_reused"
    assert str(meeting.id) in str(
        [entry.transfer.reference.id for entry in harness.entries() if entry.amount < 0]
    )
    assert harness.funds().balance == 90


@pytest.mark.spec("4.1/2")
@pytest.mark.parametrize("tier", list(DEFAULT_TIERS.tiers))
@pytest.mark.parametrize("flags", [{}, {"with_recording": True}, {"auto_notulen": True}])
async def test_the_charge_is_the_quote(tier: str, flags: dict[str, bool]):
    harness = await ApplicationHarness(credits=1000).start()
    await harness.administration.hosts.add("large", 1000)
    wanted = request(pricing_tier_id=tier, **flags)
    await harness.create()(harness.caller, wanted, harness.request_key(None), harness.now())
    price = DEFAULT_TIERS.find(tier)
    expected = price.credits + (price.recording_credits if flags else 0)
    assert harness.funds().balance == 1000 - expected
    (meeting,) = harness.meetings()
    assert meeting.credits == expected
    assert meeting.options.with_recording is bool(flags)


async def test_another_host_is_tried_when_one_has_had_its_share():
    harness = await ApplicationHarness(hosts=2).start()
    harness.faults.plan(SandboxCall.CREATE, SandboxFault.FULL)
    answer = await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    made = [meeting for meeting in harness.meetings() if meeting.status is MeetingStatus.SCHEDULED]
    assert [answer.record] == [as_json(meeting_record(meeting, meeting.created_at)) for meeting in made]
    assert harness.funds().balance == 90
    assert harness.funds().held == 0
    unavailable_until = [host.unavailable_until for host in harness.state.committed.hosts.values()]
    assert sorted(rest is None for rest in unavailable_until) == [False, True]
    again = await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    assert again.record == answer.record
    harness.prove()


async def test_when_every_host_has_had_its_share_nothing_is_charged_and_the_key_may_try_again():
    harness = await ApplicationHarness(hosts=3).start()
    harness.faults.plan(SandboxCall.CREATE, *[SandboxFault.FULL] * 3)
    with pytest.raises(ServiceUnavailable):
        await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    assert (harness.funds().balance, harness.funds().held) == (100, 0)
    assert not harness.state.committed.reservations
    harness.clock.advance(24 * 3600 - 1)
    with pytest.raises(ServiceUnavailable):
        await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    harness.clock.advance(1)
    await harness.create()(
        harness.caller, request(date="2026-12-04"), harness.request_key("other"), harness.now()
    )
    assert harness.funds().balance == 90
    harness.prove()
