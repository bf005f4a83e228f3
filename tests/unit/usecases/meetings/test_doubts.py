"""Meetings in doubt: finished, undone or kept, by the reconciler or an operator, and charged at most once."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from attrs import evolve

from meetcore.adapters.sandbox import SandboxCall, SandboxFault, SandboxMeetingState, SandboxProvider
from meetcore.domain.errors import ActionNotAllowed, DomainError, UpstreamError
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus, ProviderAbilities, Provisioned
from meetcore.domain.meetings.views import ProviderOrder
from meetcore.domain.members.audit import ActorKind
from meetcore.domain.members.roles import OPERATORS_ALLOWED, OperatorAction, OperatorRole
from meetcore.usecases.meetings.resolve_doubts import ResolveDoubts, StillInDoubt, StillInDoubtReason
from tests.unit.usecases.access_harness import WHERE, operator
from tests.unit.usecases.application import ApplicationHarness, SimulatedCrash, crash_points

WHO = operator()


class Duplicating(SandboxProvider):
    """The sandbox, as if it had made a second meeting for each order."""

    async def find(self, order: ProviderOrder) -> tuple[Provisioned, ...]:
        return (Provisioned("a-duplicate", "http://sandbox/join/a-duplicate"), *await super().find(order))


def doubts(harness: ApplicationHarness, pauses: list[float] | None = None) -> ResolveDoubts:
    async def pause(seconds: float) -> None:
        (pauses if pauses is not None else []).append(seconds)

    return evolve(harness.process().console.doubts, pause=pause)


async def being_made(
    fault: SandboxFault = SandboxFault.DROP, key: str | None = None
) -> tuple[ApplicationHarness, Meeting]:
    """A creation of which no answer came, a minute ago."""
    harness = await ApplicationHarness().start()
    harness.faults.plan(SandboxCall.CREATE, fault)
    with pytest.raises(UpstreamError):
        await harness.make(key)
    harness.clock.advance(61)
    return harness, harness.meetings()[0]


async def being_cancelled(*faults: SandboxFault) -> tuple[ApplicationHarness, Meeting]:
    """A cancellation of which no answer came, and then what else was planned."""
    harness = await ApplicationHarness().start()
    await harness.make()
    [meeting] = harness.meetings()
    harness.faults.plan(SandboxCall.REMOVE, *(faults or (SandboxFault.LOST, SandboxFault.REFUSE)))
    with pytest.raises(DomainError):
        await harness.call_off(meeting.id)
    [meeting] = harness.meetings()
    assert meeting.status is MeetingStatus.CANCELLING
    return harness, meeting


def state(harness: ApplicationHarness) -> tuple[MeetingStatus, int, int, int]:
    """Status, balance, held credits and reserved hosts."""
    [meeting] = harness.meetings()
    harness.prove()
    return (meeting.status, harness.funds().balance, harness.funds().held, harness.count("host_reservations"))


def actions(harness: ApplicationHarness) -> list[str]:
    own = [entry for entry in harness.audit_log() if entry.actor.kind is ActorKind.OPERATOR]
    assert all((entry.actor.name, entry.client_address) == ("ops@example.com", WHERE) for entry in own)
    assert all(entry.account_id == harness.caller.account.id for entry in own)
    return [entry.action for entry in own]


async def refused(work: object, reason: StillInDoubtReason) -> None:
    with pytest.raises(StillInDoubt) as caught:
        await work  # type: ignore[misc]
    assert caught.value.reason is reason


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_meeting_that_the_provider_made_is_finished_and_charged_once(key: str | None) -> None:
    harness, meeting = await being_made(key=key)
    use = doubts(harness)
    [shown] = (await use.list_doubts(WHO)).meetings
    assert (shown.id, shown.can_deliver, shown.account_name) == (meeting.id, key is not None, "A")
    outcomes = await asyncio.gather(
        *(use.finish(WHO, WHERE, meeting.account_id, meeting.id) for _ in range(5)),
        *(use.undo(WHO, WHERE, meeting.account_id, meeting.id) for _ in range(3)),
        harness.reconcile().sweep(),
        return_exceptions=True,
    )
    assert [each for each in outcomes[:8] if each is not None and not isinstance(each, StillInDoubt)] == []
    assert len([each for each in outcomes[:8] if each is None]) <= 1
    ends = {(MeetingStatus.SCHEDULED, 90, 0, 1), (MeetingStatus.ABANDONED, 100, 0, 0)}
    assert state(harness) in ends
    assert len(actions(harness)) <= 1
    assert (await use.list_doubts(WHO)).meetings == []


async def test_finishing_shows_the_meeting_and_charges_it() -> None:
    harness, meeting = await being_made()
    await doubts(harness).finish(WHO, WHERE, meeting.account_id, meeting.id)
    assert state(harness) == (MeetingStatus.SCHEDULED, 90, 0, 1)
    assert actions(harness) == ["meeting.finished_by_operator"]
    await refused(doubts(harness).finish(WHO, WHERE, meeting.account_id, meeting.id), StillInDoubtReason.OVER)
    for _ in range(20):
        harness.clock.advance(30)
        await harness.reconcile().sweep()
        await harness.remove_orphans().sweep()
    assert state(harness) == (MeetingStatus.SCHEDULED, 90, 0, 1)
    at_provider = await harness.at_sandbox(meeting)
    assert at_provider is not SandboxMeetingState.REMOVED


async def test_a_number_that_another_meeting_has_is_undone() -> None:
    harness, meeting = await being_made()
    await harness.make("another", date="2026-12-03")
    taken = harness.meetings()[1].provider_meeting_id or ""

    class Repeating(SandboxProvider):
        """The sandbox, as if it had given the number of another meeting."""

        async def find(self, order: ProviderOrder) -> tuple[Provisioned, ...]:
            return tuple(evolve(one, provider_meeting_id=taken) for one in await super().find(order))

    harness.provider = Repeating("http://sandbox", harness.sandbox.state, bytes(32), timeout_s=0)
    finishing = doubts(harness).finish(WHO, WHERE, meeting.account_id, meeting.id)
    await refused(finishing, StillInDoubtReason.NOT_MADE)
    assert harness.money() == (90, 10)
    await doubts(harness).undo(WHO, WHERE, meeting.account_id, meeting.id)
    assert harness.money() == (90, 0)
    harness.prove()


@pytest.mark.parametrize("fault", [SandboxFault.DROP, SandboxFault.LOST])
async def test_undoing_a_creation_releases_all_and_removes_what_was_made(fault: SandboxFault) -> None:
    harness, meeting = await being_made(fault)
    await doubts(harness).undo(WHO, WHERE, meeting.account_id, meeting.id)
    assert state(harness) == (MeetingStatus.ABANDONED, 100, 0, 0)
    assert actions(harness) == ["meeting.undone_by_operator"]
    for _ in range(20):
        harness.clock.advance(30)
        await harness.remove_orphans().sweep()
    at_provider = await harness.at_sandbox(meeting)
    assert (at_provider is SandboxMeetingState.REMOVED) == (fault is SandboxFault.DROP)
    assert harness.count("orphan_checks") == 0


async def test_what_the_provider_has_not_made_is_not_charged() -> None:
    harness, meeting = await being_made(SandboxFault.LOST)
    use, named = doubts(harness), (WHO, WHERE, meeting.account_id, meeting.id)
    await refused(use.finish(*named), StillInDoubtReason.NOT_MADE)
    harness.faults.plan(SandboxCall.FIND, SandboxFault.LOST)
    await refused(use.finish(*named), StillInDoubtReason.PROVIDER_UNKNOWN)
    assert state(harness) == (MeetingStatus.PROVISIONING, 100, 10, 1)
    assert actions(harness) == []


async def test_a_cancellation_is_finished_with_one_refund_however_many_try() -> None:
    harness, meeting = await being_cancelled(SandboxFault.LOST)
    harness.expire_leases()
    use, named = doubts(harness), (WHO, WHERE, meeting.account_id, meeting.id)
    outcomes = await asyncio.gather(
        *(use.finish(*named) for _ in range(8)), harness.reconcile().sweep(), return_exceptions=True
    )
    assert [each for each in outcomes[:8] if each is not None and not isinstance(each, StillInDoubt)] == []
    for _ in range(3):  # the lease of one that lost may be left
        await harness.recover()
    assert state(harness) == (MeetingStatus.CANCELLED, 100, 0, 0)
    assert [entry.amount for entry in harness.entries()] == [100, -10, 10]
    assert len(actions(harness)) <= 1


async def test_a_removal_that_is_refused_is_finished_when_the_operator_has_removed_it() -> None:
    harness, meeting = await being_cancelled()
    use, named = doubts(harness), (WHO, WHERE, meeting.account_id, meeting.id)
    await refused(use.finish(*named), StillInDoubtReason.PROVIDER_REFUSED)
    harness.faults.plan(SandboxCall.REMOVE, SandboxFault.LOST)
    await refused(use.finish(*named), StillInDoubtReason.PROVIDER_UNKNOWN)
    assert state(harness) == (MeetingStatus.CANCELLING, 90, 0, 1)
    assert actions(harness) == []
    assert meeting.provider_meeting_id is not None
    await harness.sandbox.remove(meeting.provider_meeting_id)
    await use.finish(*named)
    assert state(harness) == (MeetingStatus.CANCELLED, 100, 0, 0)
    assert actions(harness) == ["meeting.finished_by_operator"]


async def test_a_cancellation_at_a_provider_that_was_replaced_is_finished_by_the_operator() -> None:
    harness, meeting = await being_cancelled()
    harness.write("UPDATE meetings SET provider = 'zoom'")
    await harness.recover()
    assert state(harness)[0] is MeetingStatus.CANCELLING
    await doubts(harness).finish(WHO, WHERE, meeting.account_id, meeting.id)
    assert state(harness) == (MeetingStatus.CANCELLED, 100, 0, 0)


async def test_a_meeting_that_is_there_is_kept_and_stays_paid() -> None:
    harness, meeting = await being_cancelled(SandboxFault.LOST)
    pauses: list[float] = []
    use, named = doubts(harness, pauses), (WHO, WHERE, meeting.account_id, meeting.id)
    await use.undo(*named)
    assert pauses == [], "no process worked on it"
    assert state(harness) == (MeetingStatus.SCHEDULED, 90, 0, 1)
    assert actions(harness) == ["meeting.kept_by_operator"]
    await harness.call_off(meeting.id)


async def test_keeping_waits_for_a_call_that_is_under_way_and_never_keeps_what_is_gone() -> None:
    harness, meeting = await being_cancelled(SandboxFault.LOST, SandboxFault.LOST)
    pauses: list[float] = []
    named = (WHO, WHERE, meeting.account_id, meeting.id)
    await refused(doubts(harness).finish(*named), StillInDoubtReason.PROVIDER_UNKNOWN)

    async def removed_meanwhile(seconds: float) -> None:
        pauses.append(seconds)
        assert meeting.provider_meeting_id is not None
        await harness.sandbox.remove(meeting.provider_meeting_id)

    use = evolve(doubts(harness), pause=removed_meanwhile)
    await refused(use.undo(*named), StillInDoubtReason.REMOVED)
    assert pauses == [10.0], "the process before may be calling the provider"
    assert state(harness) == (MeetingStatus.CANCELLING, 90, 0, 1)
    await use.finish(*named)
    assert state(harness) == (MeetingStatus.CANCELLED, 100, 0, 0)


async def test_a_duplicate_at_the_provider_does_not_keep_a_meeting_that_is_gone() -> None:
    harness, meeting = await being_cancelled(SandboxFault.LOST)
    harness.expire_leases()
    named = (WHO, WHERE, meeting.account_id, meeting.id)
    assert meeting.provider_meeting_id is not None
    provider = Duplicating("http://sandbox", harness.sandbox.state, bytes(32), timeout_s=0)
    use = evolve(doubts(harness), provider=provider)
    await harness.sandbox.remove(meeting.provider_meeting_id)
    await refused(use.undo(*named), StillInDoubtReason.REMOVED)
    assert state(harness) == (MeetingStatus.CANCELLING, 90, 0, 1)
    assert actions(harness) == []
    await use.finish(*named)
    assert state(harness) == (MeetingStatus.CANCELLED, 100, 0, 0)


async def test_a_meeting_that_is_there_beside_a_duplicate_is_kept() -> None:
    harness, meeting = await being_cancelled(SandboxFault.LOST)
    harness.expire_leases()
    provider = Duplicating("http://sandbox", harness.sandbox.state, bytes(32), timeout_s=0)
    await evolve(doubts(harness), provider=provider).undo(WHO, WHERE, meeting.account_id, meeting.id)
    assert state(harness) == (MeetingStatus.SCHEDULED, 90, 0, 1)


@pytest.mark.parametrize("role", OperatorRole)
async def test_the_use_cases_check_the_role(role: OperatorRole) -> None:
    harness, meeting = await being_made()
    use, who = doubts(harness), operator(role)
    named = (who, WHERE, meeting.account_id, meeting.id)
    calls = [
        (OperatorAction.VIEW_DOUBTS, use.list_doubts(who)),
        (OperatorAction.RESOLVE_DOUBTS, use.undo(*named)),
        (OperatorAction.RESOLVE_DOUBTS, use.finish(*named)),
    ]
    for action, call in calls:
        try:
            await call
        except ActionNotAllowed:
            assert action not in OPERATORS_ALLOWED[role]
        except StillInDoubt:
            assert action in OPERATORS_ALLOWED[role]
        else:
            assert action in OPERATORS_ALLOWED[role]


async def left_unknown(
    harness: ApplicationHarness, key: str | None, fault: SandboxFault = SandboxFault.DROP
) -> str:
    """Ask for a meeting of which no answer comes; the words of the refusal."""
    harness.faults.plan(SandboxCall.CREATE, fault)
    with pytest.raises(UpstreamError) as refused:
        await harness.make(key)
    assert (harness.funds().held, harness.count("host_reservations")) == (10, 1)
    assert await harness.reconcile().sweep() == 0, "the lease has not run out"
    return refused.value.message


@pytest.mark.spec("7/502")
@pytest.mark.parametrize("fault", [SandboxFault.DROP, SandboxFault.LOST])
async def test_without_a_key_it_is_undone_whether_it_was_made_or_not(fault: SandboxFault):
    harness = await ApplicationHarness().start()
    message = await left_unknown(harness, None, fault)
    assert "undone, and nothing is charged" in message
    assert await harness.recover() == 1
    (meeting,) = harness.meetings()
    assert meeting.status is MeetingStatus.ABANDONED
    assert harness.money() == (100, 0)
    assert harness.count("host_reservations") == 0
    harness.clock.advance(60)
    await harness.remove_orphans().sweep()
    assert (await harness.at_sandbox(meeting) is SandboxMeetingState.REMOVED) == fault.does_the_work
    harness.prove()


async def test_an_undone_creation_counts_for_the_hosts_day_only_if_it_was_made(harness: ApplicationHarness):
    for fault in (SandboxFault.DROP, SandboxFault.LOST):
        await left_unknown(harness, None, fault)
        await harness.recover()
        (host,) = await harness.registry.list_hosts()
        assert (host.creations, fault) == (1, fault)


@pytest.mark.spec("4/idem-replay", "7/502")
async def test_with_a_key_it_is_finished_and_a_retry_gets_the_result(harness: ApplicationHarness):
    message = await left_unknown(harness, "k")
    assert "a retry with the same Idempotency-Key gets its result" in message
    assert await harness.recover() == 1
    (meeting,) = harness.meetings()
    assert meeting.status is MeetingStatus.SCHEDULED
    answer = await harness.make("k")
    assert answer.is_replay
    assert (harness.money(), harness.count("host_reservations")) == ((90, 0), 1)
    await harness.remove_orphans().sweep()
    assert await harness.at_sandbox(meeting) is None
    harness.prove()


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_crash_at_any_line_leaves_a_paid_meeting_only_where_a_key_can_deliver_it(
    key: str | None,
) -> None:
    for point in crash_points():
        harness = await ApplicationHarness().start()
        with suppress(SimulatedCrash):
            await harness.make(key, point)
        before = [meeting.status for meeting in harness.meetings()]
        await harness.recover()
        harness.clock.advance(60)
        await harness.remove_orphans().sweep()
        harness.prove()
        # What was finished before the death stays: its answer may have been on its way.
        is_kept = bool(before) and (key is not None or before == [MeetingStatus.SCHEDULED])
        assert harness.funds().balance == (90 if is_kept else 100)
        assert (harness.funds().held, harness.count("host_reservations")) == (0, is_kept)
        for meeting in harness.meetings():
            is_there = await harness.at_sandbox(meeting) is not SandboxMeetingState.REMOVED
            assert is_there == (meeting.status is MeetingStatus.SCHEDULED) == is_kept


class Forgetful(SandboxProvider):
    """The sandbox, as if it kept nothing."""

    @property
    def abilities(self) -> ProviderAbilities:
        return evolve(super().abilities, remembers_meetings=False)


async def test_a_provider_without_meeting_lookup_is_not_checked(harness: ApplicationHarness):
    harness.provider = Forgetful(
        "http://sandbox", harness.sandbox.state, bytes(32), faults=harness.faults, timeout_s=0
    )
    await left_unknown(harness, None)
    assert await harness.recover() == 1
    assert harness.funds().held == 0
    harness.clock.advance(3600)
    assert await harness.remove_orphans().sweep() == 0
