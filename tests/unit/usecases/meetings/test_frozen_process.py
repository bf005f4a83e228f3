"""A process that is frozen for longer than its lease calls no provider, or has the result checked."""

import pytest
from attrs import define

from meetcore.adapters.sandbox import SandboxCall, SandboxFault
from meetcore.adapters.system import SystemClock
from meetcore.domain.errors import ServiceUnavailable, UpstreamError
from meetcore.domain.meetings.meetings import MeetingStatus, Provisioned
from meetcore.domain.meetings.provider_events import DEFAULT_WINDOW_S
from meetcore.domain.meetings.views import ProviderOrder
from meetcore.ports import video_provider
from meetcore.testing.clock import ManualClock
from meetcore.usecases.meetings.creation import order_of
from tests.unit.usecases.application import ApplicationHarness, CrashPoint
from tests.unit.usecases.meetings.test_doubts import Forgetful

CLAIMED, CALLING = 3, 4
"""The points after the commit of a lease, and inside the call of the provider that follows."""


@define
class Time:
    """The uptime of this process, in seconds."""

    at: float = 0.0


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    uptime = Time()
    monkeypatch.setattr(ManualClock, "uptime", lambda self: uptime.at)
    return uptime


@define
class Freeze(CrashPoint):
    """Freezes the process at a point of its work, for longer than any lease."""

    time: Time | None = None

    @property
    def has_called(self) -> bool:
        """Whether the provider was reached, or another transaction: it opens a check for orphans."""
        return self.burnt != CLAIMED + 3

    def pass_point(self) -> None:
        self.burnt += 1
        if self.burnt == self.at and self.time is not None:
            self.time.at += 1_000


async def at_provider(harness: ApplicationHarness) -> int:
    """Count the meetings that the provider has by the only reference."""
    (meeting,) = harness.meetings()
    return len(await harness.sandbox.find(order_of(meeting, "host-1")))


async def test_frozen_before_its_call_it_makes_no_meeting(time: Time, harness: ApplicationHarness) -> None:
    freeze = Freeze(CLAIMED, time=time)
    with pytest.raises(ServiceUnavailable) as refused:
        await harness.make(None, freeze)
    assert refused.value.retry_after_s == 1
    assert not freeze.has_called
    await harness.recover()
    assert (harness.money(), harness.count("host_reservations")) == ((100, 0), 0)
    harness.prove()


@pytest.mark.parametrize("fault", [SandboxFault.LATE, SandboxFault.DROP])
async def test_frozen_in_its_call_and_without_an_answer_what_it_made_is_removed(
    time: Time, fault: SandboxFault, harness: ApplicationHarness
) -> None:

    class LongFreeze(Freeze):
        def pass_point(self) -> None:
            super().pass_point()
            if self.burnt == CALLING:  # all checks of its reservation are over, and clean
                harness.write("DELETE FROM orphan_checks")
                harness.faults.plan(SandboxCall.CREATE, fault)

    with pytest.raises(UpstreamError):
        await harness.make(None, LongFreeze(CALLING, time=time))
    assert await at_provider(harness) == 1
    await harness.recover()
    assert [each.status for each in harness.meetings()] == [MeetingStatus.ABANDONED]
    assert await harness.remove_orphans().sweep() == 1
    assert await at_provider(harness) == 0
    harness.clock.advance(DEFAULT_WINDOW_S)
    await harness.remove_orphans().sweep()
    harness.clock.advance(DEFAULT_WINDOW_S)
    await harness.remove_orphans().sweep()
    assert harness.count("orphan_checks") == 0
    harness.prove()


async def test_frozen_while_it_is_undone_it_opens_no_check_at_a_provider_without_meeting_lookup(
    time: Time, harness: ApplicationHarness
) -> None:

    class Frozen(Forgetful):
        async def create(self, order: ProviderOrder) -> Provisioned:
            time.at += 1_000
            await harness.recover()
            raise video_provider.ProviderUnknown

    harness.provider = Frozen("http://sandbox", harness.sandbox.state, bytes(32), timeout_s=0)
    with pytest.raises(UpstreamError):
        await harness.make()
    assert [each.status for each in harness.meetings()] == [MeetingStatus.ABANDONED]
    assert harness.count("orphan_checks") == 0


async def test_after_a_freeze_a_retry_gets_its_meeting(time: Time, harness: ApplicationHarness) -> None:
    with pytest.raises(ServiceUnavailable):
        await harness.make("k", Freeze(CLAIMED, time=time))
    harness.expire_leases()
    made = await harness.make("k")
    assert made.record is not None
    assert await at_provider(harness) == 1


async def test_frozen_before_its_removal_it_leaves_a_meeting_that_was_put_back(time: Time) -> None:
    harness = ApplicationHarness()
    meeting = await harness.with_meeting()
    with pytest.raises(UpstreamError):
        await harness.call_off(meeting.id, None, Freeze(CLAIMED, time=time))
    assert await harness.at_sandbox(meeting) is None
    await harness.recover()
    assert [each.status for each in harness.meetings()] == [MeetingStatus.CANCELLED]


async def test_a_worker_that_was_frozen_ends_no_meeting_by_the_clock_alone(time: Time) -> None:
    harness = ApplicationHarness()
    meeting = await harness.with_meeting()
    harness.clock.set(meeting.end_at)
    harness.clock.advance(3600)
    ending = harness.process(Freeze(CLAIMED, time=time)).meetings.end_due
    await ending.sweep()
    assert [each.status for each in harness.meetings()] == [MeetingStatus.SCHEDULED]


def test_outside_a_lease_calls_are_free() -> None:
    assert not video_provider.is_lease_over()
    clock = SystemClock()
    with video_provider.under_lease(video_provider.lease_time(clock, 60)):
        video_provider.require_lease()
        with video_provider.under_lease(video_provider.lease_time(clock, 0)):
            assert video_provider.is_lease_over()
        video_provider.require_lease()
    video_provider.require_lease()
