"""Meetings in doubt: what each decision does to money and provider; of many at once one is carried out."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.adapters.sandbox import SandboxCall, SandboxFault, SandboxMeetingState, SandboxProvider
from meetcore.domain.errors import ActionNotAllowed, DomainError, UpstreamError
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus, Provisioned
from meetcore.domain.members.audit import ActorKind
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.roles import OPERATORS_ALLOWED, OperatorAction, OperatorRole
from meetcore.domain.members.sessions import OperatorSession
from meetcore.domain.money.ledger import InvalidReason
from meetcore.ports.member_queries import SignedInOperator
from meetcore.ports.video_provider import ProviderOrder
from meetcore.usecases.resolve_doubts import ResolveDoubts, StillInDoubt, StillInDoubtReason
from tests.unit.usecases.application import START, ApplicationHarness, request

WHERE = "192.0.2.9"


def operator(role: OperatorRole = OperatorRole.SUPPORT) -> SignedInOperator:
    one = Operator(UUID(int=5), "ops@example.com", role, START)
    session = OperatorSession(
        id=UUID(int=6), operator_id=one.id, created_at=START, last_seen_at=START, authenticated_at=START
    )
    return SignedInOperator(session, one)


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
        await harness.create()(harness.caller, request(), harness.request_key(key), harness.now())
    harness.clock.advance(61)
    return harness, harness.meetings()[0]


async def being_cancelled(*faults: SandboxFault) -> tuple[ApplicationHarness, Meeting]:
    """A cancellation of which no answer came, and then what else was planned."""
    harness = await ApplicationHarness().start()
    await harness.create()(harness.caller, request(), harness.request_key(None), harness.now())
    [meeting] = harness.meetings()
    harness.faults.plan(SandboxCall.REMOVE, *(faults or (SandboxFault.LOST, SandboxFault.REFUSE)))
    with pytest.raises(DomainError):
        await harness.cancel()(harness.caller, meeting.id, harness.request_key(None), harness.now())
    [meeting] = harness.meetings()
    assert meeting.status is MeetingStatus.CANCELLING
    return harness, meeting


def state(harness: ApplicationHarness) -> tuple[MeetingStatus, int, int, int]:
    """Status, balance, held credits and reserved hosts."""
    [meeting] = harness.meetings()
    harness.prove()
    return (
        meeting.status,
        harness.funds().balance,
        harness.funds().held,
        len(harness.state.committed.reservations),
    )


def actions(harness: ApplicationHarness) -> list[str]:
    entries = harness.state.committed.audit_log.values()
    own = [entry for entry in entries if entry.actor.kind is ActorKind.OPERATOR]
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
    at_provider = await harness.sandbox.state.get(f"sandbox-{meeting.id}")
    assert at_provider is not SandboxMeetingState.REMOVED


@pytest.mark.parametrize("fault", [SandboxFault.DROP, SandboxFault.LOST])
async def test_undoing_a_creation_releases_all_and_removes_what_was_made(fault: SandboxFault) -> None:
    harness, meeting = await being_made(fault)
    await doubts(harness).undo(WHO, WHERE, meeting.account_id, meeting.id)
    assert state(harness) == (MeetingStatus.ABANDONED, 100, 0, 0)
    assert actions(harness) == ["meeting.undone_by_operator"]
    for _ in range(20):
        harness.clock.advance(30)
        await harness.remove_orphans().sweep()
    at_provider = await harness.sandbox.state.get(f"sandbox-{meeting.id}")
    assert (at_provider is SandboxMeetingState.REMOVED) == (fault is SandboxFault.DROP)
    assert not harness.state.committed.orphan_checks


async def test_what_the_provider_has_not_made_is_not_charged() -> None:
    harness, meeting = await being_made(SandboxFault.LOST)
    use, named = doubts(harness), (WHO, WHERE, meeting.account_id, meeting.id)
    await refused(use.finish(*named), StillInDoubtReason.NOT_MADE)
    harness.faults.plan(SandboxCall.FIND, SandboxFault.LOST)
    await refused(use.finish(*named), StillInDoubtReason.PROVIDER_UNKNOWN)
    await refused(use.give_up(*named, "no reason"), StillInDoubtReason.NO_REMOVAL)
    assert state(harness) == (MeetingStatus.PROVISIONING, 100, 10, 1)
    assert actions(harness) == []


async def test_a_cancellation_is_finished_with_one_refund_however_many_try() -> None:
    harness, meeting = await being_cancelled(SandboxFault.LOST)
    harness.expire_leases()
    use, named = doubts(harness), (WHO, WHERE, meeting.account_id, meeting.id)
    outcomes = await asyncio.gather(
        *(use.finish(*named) for _ in range(5)),
        *(use.give_up(*named, "refused for ever") for _ in range(3)),
        harness.reconcile().sweep(),
        return_exceptions=True,
    )
    assert [each for each in outcomes[:8] if each is not None and not isinstance(each, StillInDoubt)] == []
    for _ in range(3):  # the lease of one that lost may be left
        harness.expire_leases()
        await harness.reconcile().sweep()
    assert state(harness) == (MeetingStatus.CANCELLED, 100, 0, 0)
    assert [entry.amount for entry in harness.entries()] == [100, -10, 10]
    assert len(actions(harness)) <= 1


async def test_a_removal_that_is_refused_for_ever_is_given_up_with_a_reason() -> None:
    harness, meeting = await being_cancelled()
    use, named = doubts(harness), (WHO, WHERE, meeting.account_id, meeting.id)
    await refused(use.finish(*named), StillInDoubtReason.PROVIDER_REFUSED)
    harness.faults.plan(SandboxCall.REMOVE, SandboxFault.LOST)
    await refused(use.finish(*named), StillInDoubtReason.PROVIDER_UNKNOWN)
    for reason in ("", " ", "x" * 201):
        with pytest.raises(InvalidReason):
            await use.give_up(*named, reason)
    assert state(harness) == (MeetingStatus.CANCELLING, 90, 0, 1)
    await use.give_up(*named, "removed by hand")
    assert state(harness) == (MeetingStatus.CANCELLED, 100, 0, 0)
    assert actions(harness) == ["meeting.removal_given_up"]
    [entry] = [each for each in harness.state.committed.audit_log.values() if "reason" in each.details]
    assert entry.details == {"reason": "removed by hand"}


async def test_a_meeting_that_is_there_is_kept_and_stays_paid() -> None:
    harness, meeting = await being_cancelled(SandboxFault.LOST)
    pauses: list[float] = []
    use, named = doubts(harness, pauses), (WHO, WHERE, meeting.account_id, meeting.id)
    await use.undo(*named)
    assert pauses == [], "no process worked on it"
    assert state(harness) == (MeetingStatus.SCHEDULED, 90, 0, 1)
    assert actions(harness) == ["meeting.kept_by_operator"]
    await harness.cancel()(harness.caller, meeting.id, harness.request_key(None), harness.now())


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


async def test_removals_that_fail_are_shown_retried_and_given_up() -> None:
    harness, meeting = await being_made()
    await harness.reconcile().sweep()  # undone: nobody could get its result
    use, named = doubts(harness), (WHO, WHERE, meeting.account_id, meeting.id)
    assert (await use.list_doubts(WHO)).removals == []
    for _ in range(3):
        harness.faults.plan(SandboxCall.REMOVE, SandboxFault.REFUSE)
        harness.clock.advance(3600)
        await harness.remove_orphans().sweep()
    [removal] = (await use.list_doubts(WHO)).removals
    assert (removal.meeting_id, removal.failures) == (meeting.id, 3)
    await use.retry_removal(*named)
    assert (await use.list_doubts(WHO)).removals == []
    harness.faults.plan(SandboxCall.REMOVE, SandboxFault.REFUSE)
    await harness.remove_orphans().sweep()
    with pytest.raises(InvalidReason):
        await use.give_up_removal(*named, "")
    outcomes = await asyncio.gather(
        *(use.give_up_removal(*named, "removed by hand") for _ in range(4)), return_exceptions=True
    )
    assert [each is None for each in outcomes].count(True) == 1
    await refused(use.retry_removal(*named), StillInDoubtReason.OVER)
    assert not harness.state.committed.orphan_checks
    assert actions(harness) == ["orphan.retried", "orphan.given_up"]


@pytest.mark.parametrize("role", OperatorRole)
async def test_the_use_cases_check_the_role(role: OperatorRole) -> None:
    harness, meeting = await being_made()
    use, who = doubts(harness), operator(role)
    named = (who, WHERE, meeting.account_id, meeting.id)
    calls = [
        (OperatorAction.VIEW_DOUBTS, use.list_doubts(who)),
        (OperatorAction.RESOLVE_DOUBTS, use.retry_removal(*named)),
        (OperatorAction.RESOLVE_DOUBTS, use.give_up_removal(*named, "x")),
        (OperatorAction.RESOLVE_DOUBTS, use.give_up(*named, "x")),
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
