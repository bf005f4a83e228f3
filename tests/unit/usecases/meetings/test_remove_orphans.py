"""Orphans at the provider are removed: doubled, late, or left behind by a process that died."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from attrs import define, evolve

from meetcore.adapters.sandbox import SandboxCall, SandboxFault, SandboxMeetingState
from meetcore.adapters.zoom.provider import ZoomProvider
from meetcore.domain.errors import DomainError, ServiceUnavailable, UpstreamError
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.meetings.provider_events import DEFAULT_WINDOW_S
from meetcore.ports.video_provider import lease_time, under_lease
from meetcore.testing.zoom_server import Fault, ZoomStandIn, zoom_stand_in
from meetcore.usecases.meetings.reconcile_meetings import OrphanReport
from tests.support.kept_log import KeptLog
from tests.support.zoom_adapter import access_to
from tests.unit.usecases.application import ApplicationHarness, CrashPoint, SimulatedCrash, crash_points

FIVE_MINUTES = 300


@define
class Place:
    """An application whose provider is Zoom, both on one clock."""

    harness: ApplicationHarness
    zoom: ZoomStandIn

    async def create(
        self, key: str | None = None, crash_point: CrashPoint | None = None, **fields: Any
    ) -> None:
        """Ask for a meeting, whatever comes of it."""
        harness = self.harness
        with suppress(DomainError, SimulatedCrash):
            await harness.make(key, crash_point, **fields)

    async def pass_time(self, seconds: float, step_s: float = 7) -> None:
        """Let time pass, with the workers at work."""
        passed = 0.0
        while passed < seconds:
            self.harness.clock.advance(step_s)
            passed += step_s
            await self.harness.reconcile().sweep()
            await self.harness.remove_orphans().sweep()

    def prove(self) -> None:
        """Zoom has the recorded meetings and no other, and no check is left."""
        recorded = [
            meeting.provider_meeting_id
            for meeting in self.harness.meetings()
            if meeting.status is MeetingStatus.SCHEDULED
        ]
        assert [str(each.number) for each in self.zoom.meetings] == recorded
        assert self.harness.count("orphan_checks") == 0
        self.harness.prove()


def next_check(harness: ApplicationHarness) -> datetime:
    """When the only check for orphans is due."""
    (row,) = harness.read("SELECT due_at FROM orphan_checks")
    due_at: datetime = row["due_at"]
    return due_at


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    harness = await ApplicationHarness(credits=1000, hosts=1).start()
    async with zoom_stand_in(now=harness.clock.now) as zoom:
        harness.provider = provider = ZoomProvider(access_to(zoom), KeptLog(), now=harness.clock.now)
        try:
            yield Place(harness, zoom)
        finally:
            await provider.aclose()


@pytest.mark.spec("1/meetings")
@pytest.mark.parametrize(("key", "is_answered"), [(None, True), (None, False), ("k", False)])
@pytest.mark.parametrize("after_s", [1, FIVE_MINUTES])
@pytest.mark.parametrize("doubles", [0, 2])
async def test_doubled_and_late_creations_leave_no_orphan(
    place: Place, key: str | None, is_answered: bool, after_s: float, doubles: int
):
    fault = "answered" if is_answered else "drop"
    place.zoom.faults.plan(Fault(fault, "create", is_done=True, doubles=doubles, after_s=after_s))
    await place.create(key)
    await place.pass_time(2 * FIVE_MINUTES + 60, step_s=20)
    place.prove()
    # A key whose meeting comes before the reconciler asks is given it.
    has_meeting = is_answered or (key is not None and after_s <= 1)
    assert len(place.zoom.meetings) == has_meeting
    assert place.harness.funds().balance == (990 if has_meeting else 1000)


async def test_an_orphan_created_just_before_a_check_restarts_the_window(place: Place):
    place.zoom.faults.plan(Fault("answered", "create", doubles=1, after_s=FIVE_MINUTES - 1))
    await place.create()
    due_at = next_check(place.harness)
    place.harness.clock.set(due_at)
    assert await place.harness.remove_orphans().sweep() == 1
    assert len(place.zoom.meetings) == 1
    assert await place.harness.remove_orphans().sweep() == 0, "there is a schedule"
    await place.pass_time(FIVE_MINUTES - 7)
    assert place.harness.count("orphan_checks"), "it has not been clean for long"
    await place.pass_time(14)
    place.prove()


async def test_an_answered_creation_costs_one_check(place: Place):
    await place.create()
    await place.pass_time(3600, step_s=20)
    place.prove()
    assert (place.zoom.counts["list"], place.zoom.counts["delete"]) == (1, 0)


async def test_a_refused_creation_costs_no_check(place: Place):
    place.zoom.faults.plan(Fault("missing_scope", "create"))
    await place.create()
    await place.pass_time(2 * FIVE_MINUTES)
    assert place.zoom.counts["list"] == 0
    place.prove()


async def test_checks_after_an_unknown_outcome_are_few(place: Place):
    place.zoom.faults.plan(Fault("drop", "create"))
    await place.create("k")
    await place.pass_time(3600, step_s=20)
    place.prove()
    assert place.zoom.counts["list"] == 1 + 3, "the reconciler's, and those of the schedule"


async def test_a_duplicate_of_a_cancelled_meeting_is_removed_too(place: Place):
    place.zoom.faults.plan(Fault("answered", "create", doubles=1))
    await place.create()
    (meeting,) = place.harness.meetings()
    await place.harness.call_off(meeting.id)
    assert len(place.zoom.meetings) == 1
    await place.pass_time(2 * FIVE_MINUTES + 60)
    assert place.zoom.meetings == []
    place.prove()


async def test_the_recorded_meeting_stays_when_it_runs_or_is_over(place: Place):
    place.zoom.faults.plan(Fault("answered", "create", doubles=1))
    await place.create()
    (meeting,) = place.harness.meetings()
    kept = place.zoom.account.meeting(meeting.provider_meeting_id or "")
    for status in ("started", "ended"):
        kept.status = status
        await place.pass_time(FIVE_MINUTES + 60)
    assert kept.status == "ended"
    assert place.zoom.meetings == [kept]


async def test_a_started_orphan_is_ended_and_its_check_closed(place: Place):
    place.zoom.faults.plan(Fault("drop", "create", is_done=True))
    await place.create()
    (orphan,) = place.zoom.meetings
    orphan.status = "started"
    await place.pass_time(2 * FIVE_MINUTES + 60)
    assert orphan.status == "ended"
    assert place.harness.count("orphan_checks") == 0


async def test_a_meeting_of_another_account_at_the_same_time_stays(place: Place):
    other = await place.harness.another_caller()
    place.harness.write("UPDATE hosts SET max_concurrent = 2")
    place.zoom.faults.plan(Fault("answered", "create", doubles=1))
    await place.create()
    await place.harness.make(by=other)
    await place.pass_time(2 * FIVE_MINUTES + 60)
    kept = {meeting.provider_meeting_id for meeting in place.harness.meetings()}
    assert {str(each.number) for each in place.zoom.meetings} == kept
    assert len(kept) == 2
    assert place.harness.count("orphan_checks") == 0


@pytest.mark.parametrize("refusal", ["missing_scope", "500"])
async def test_a_refused_removal_is_retried_at_growing_intervals(place: Place, refusal: str):
    times = 4 if refusal == "missing_scope" else 12  # what is not answered is repeated at once
    place.zoom.faults.plan(Fault("drop", "create", is_done=True), Fault(refusal, "delete", times=times))
    reports: list[OrphanReport] = []
    await place.create()
    remove = place.harness.remove_orphans(report=reports.append)
    await place.harness.recover()
    waits: list[float] = []
    while place.harness.count("orphan_checks") and len(waits) < 20:
        due_at = next_check(place.harness)
        waits.append((due_at - place.harness.now()).total_seconds())
        place.harness.clock.set(due_at)
        await remove.sweep()
    assert waits == [0, 30, 60, 120, 240, 60, 90, 150]
    place.prove()
    (orphan,) = place.zoom.account.meetings.values()
    assert [report.error is None for report in reports] == [False] * 4 + [True]
    assert {report.provider_meeting_id for report in reports} == {str(orphan.number)}


async def test_an_unavailable_provider_is_queried_again(place: Place):
    place.zoom.faults.plan(Fault("drop", "create", is_done=True, after_s=100))
    reports: list[OrphanReport] = []
    await place.create()
    await place.harness.recover()
    place.zoom.faults.plan(Fault("missing_scope", "list", times=20))
    remove = place.harness.remove_orphans(report=reports.append)
    for _ in range(20):
        due_at = next_check(place.harness)
        place.harness.clock.set(due_at)
        await remove.sweep()
    assert len(place.zoom.meetings) == 1
    await place.pass_time(3600 + 2 * FIVE_MINUTES, step_s=60)
    place.prove()
    assert [report.provider_meeting_id for report in reports] == [None] * 20


async def test_a_meeting_that_is_still_being_made_is_left_to_its_reconciler(place: Place):
    place.zoom.faults.plan(Fault("drop", "create", is_done=True), Fault("missing_scope", "list", times=None))
    await place.create("k")
    await place.pass_time(2 * FIVE_MINUTES, step_s=20)
    assert len(place.zoom.meetings) == 1
    assert place.zoom.counts["delete"] == 0
    place.zoom.faults.clear()
    await place.pass_time(2 * FIVE_MINUTES)
    place.prove()
    assert place.harness.funds().balance == 990


async def test_a_worker_crash_at_any_line_leaves_the_orphan_to_the_next_worker(place: Place) -> None:
    for point in crash_points():
        place.zoom.faults.plan(Fault("drop", "create", is_done=True, doubles=1))
        await place.create()
        await place.harness.recover()
        with suppress(SimulatedCrash):
            await place.harness.remove_orphans(point).sweep()
        await place.pass_time(2 * FIVE_MINUTES + 60, step_s=30)
        place.prove()
        assert place.zoom.meetings == []


async def test_workers_share_what_is_due(place: Place):
    for hour in range(10, 20):
        await place.create(start_time=f"{hour}:00")
    place.harness.clock.advance(DEFAULT_WINDOW_S + 21)
    checks = await asyncio.gather(*(place.harness.remove_orphans().sweep() for _ in range(3)))
    assert sum(checks) == 10
    assert place.zoom.counts["list"] == 10
    place.prove()


async def test_another_providers_meeting_is_not_looked_for_here(place: Place):
    await place.create()
    place.harness.write("UPDATE meetings SET provider = 'sandbox'")
    await place.pass_time(2 * FIVE_MINUTES)
    assert place.zoom.counts["list"] == 0
    assert place.harness.count("orphan_checks"), "it is when its own provider is configured again"


async def test_a_late_creation_that_could_not_be_removed_is_left_to_a_worker(place: Place):
    harness = place.harness

    class Slow(ZoomProvider):
        """Zoom, heard of after everybody gave the meeting up and looked for it."""

        async def create(self, order):
            await place.pass_time(3 * FIVE_MINUTES, step_s=20)
            with under_lease(lease_time(harness.clock, 60)):  # it was sent in time
                made = await super().create(order)
            place.zoom.faults.plan(Fault("missing_scope", "delete"))
            return made

    slow = Slow(access_to(place.zoom), KeptLog(), now=harness.clock.now)
    with pytest.raises(ServiceUnavailable, match="undone"):
        await harness.make(use=evolve(harness.create(), provider=slow))
    await slow.aclose()
    assert len(place.zoom.meetings) == 1
    await place.pass_time(2 * FIVE_MINUTES)
    assert place.zoom.meetings == []
    place.prove()


# On the sandbox, which makes a meeting of an order once, whenever it hears of it.


async def given_up() -> tuple[ApplicationHarness, Meeting]:
    """A meeting with an unknown outcome that the provider did not know when it was queried."""
    harness = await ApplicationHarness().start()
    harness.faults.plan(SandboxCall.CREATE, SandboxFault.LOST)
    with pytest.raises(UpstreamError):
        await harness.make("k")
    await harness.recover()
    (meeting,) = harness.meetings()
    assert meeting.status is MeetingStatus.ABANDONED
    assert (harness.money(), harness.count("host_reservations")) == ((100, 0), 0)
    return harness, meeting


async def test_a_meeting_that_was_never_made_is_looked_for_by_the_schedule_and_no_more():
    harness, meeting = await given_up()
    for wait_s in (60, 90, 150):
        harness.clock.advance(wait_s - 1)
        assert await harness.remove_orphans().sweep() == 0
        harness.clock.advance(1)
        assert await harness.remove_orphans().sweep() == 1
    assert await harness.at_sandbox(meeting) is None
    assert harness.count("orphan_checks") == 0


async def test_a_meeting_that_is_found_when_its_time_is_over_is_undone_and_costs_nothing():
    harness = await ApplicationHarness().start()
    harness.faults.plan(SandboxCall.CREATE, SandboxFault.DROP)  # it was made, and the answer was lost
    with pytest.raises(UpstreamError):
        await harness.make("k")
    (meeting,) = harness.meetings()
    harness.clock.set(meeting.end_at - timedelta(microseconds=1))
    harness.faults.plan(SandboxCall.FIND, SandboxFault.LOST)
    assert await harness.reconcile().sweep() == 0
    assert await harness.recover() == 1
    (after,) = harness.meetings()
    assert after.status is MeetingStatus.ABANDONED
    assert harness.money() == (100, 0)
    assert harness.count("host_reservations") == 0
    await harness.remove_orphans().sweep()
    assert await harness.at_sandbox(meeting) is SandboxMeetingState.REMOVED
