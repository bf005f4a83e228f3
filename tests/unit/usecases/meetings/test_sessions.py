"""Sessions of a meeting in every order of their events: money, host and provider agree in each."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import permutations

import pytest
from attrs import define, field

from meetcore.adapters.sandbox import SandboxCall, SandboxFault, SandboxMeetingState, SandboxProvider
from meetcore.domain.errors import Conflict
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.meetings.provider_events import EventOutcome, ProviderEvent, ProviderEventKind
from meetcore.domain.meetings.sessions import MAX_SESSIONS, Session
from meetcore.domain.webhooks.events import EventKind
from meetcore.usecases.meetings.end_due_meetings import CLEAR_FOR, PROVIDER_GRACE
from tests.unit.usecases.application import ApplicationHarness
from tests.unit.usecases.meetings.test_cancel_meeting import code_of

START, LEAVE = SandboxMeetingState.STARTED, SandboxMeetingState.LEFT
STARTED, ENDED = ProviderEventKind.MEETING_STARTED, ProviderEventKind.MEETING_ENDED
MINUTE = timedelta(minutes=1)

Act = tuple[int, SandboxMeetingState]
"""Minutes after the start of the meeting, and what participants do then at the provider."""

TEST_CALL = ((-30, START), (-29, LEAVE))
HELD = ((0, START), (30, LEAVE))
SCENES: dict[str, tuple[Act, ...]] = {
    "nobody comes": (),
    "a test call": TEST_CALL,
    "a test call and the meeting": (*TEST_CALL, *HELD),
    "two sessions": ((1, START), (10, LEAVE), (12, START), (40, LEAVE)),
    "a pause that is too long": ((1, START), (10, LEAVE), (25, START), (40, LEAVE)),
    "an early guest who stays": ((-8, START), (20, LEAVE)),
    "a late guest": ((1, START), (40, LEAVE), (49, START), (55, LEAVE)),
    "one who does not leave": ((5, START),),
}


@define
class Room:
    """The only host's meeting of an hour, its room at the sandbox, and the events that are under way."""

    harness: ApplicationHarness
    meeting: Meeting
    under_way: list[ProviderEvent] = field(factory=list)

    @property
    def name(self) -> str:
        return self.meeting.provider_meeting_id or ""

    def at(self, minutes: float) -> None:
        """Set the clock, never back, to so many minutes after the start."""
        self.harness.clock.set(max(self.harness.now(), self.meeting.start_at + minutes * MINUTE))

    def now_is(self) -> Meeting:
        (meeting,) = [one for one in self.harness.meetings() if one.id == self.meeting.id]
        return meeting

    async def act(self, to: SandboxMeetingState) -> None:
        """Enter or leave at the provider, which sends an event if it lets in; it is under way."""
        state = self.harness.sandbox.state
        if await state.put(self.name, to):
            last = (await state.sessions(self.name))[-1]
            session = (
                Session(last.id, last.started_at) if to is START else Session(last.id, None, last.ended_at)
            )
            kind = STARTED if to is START else ENDED
            now = self.harness.now()
            self.under_way.append(ProviderEvent("sandbox", kind, self.name, now, session=session))

    async def deliver(self, event: ProviderEvent) -> EventOutcome:
        return await self.harness.process().meetings.track(event, self.harness.now())

    async def see(self, *acts: Act) -> None:
        """Let participants act at these minutes; the event of each is delivered at once."""
        for minutes, to in acts:
            self.at(minutes)
            await self.act(to)
            await self.deliver(self.under_way[-1])

    async def sweep(self) -> None:
        await self.harness.end_due_meetings().sweep()
        await self.check()

    async def runs(self) -> bool:
        return await self.harness.at_sandbox(self.meeting) is START

    def is_reserved(self) -> bool:
        return self.harness.count("host_reservations") == 1

    def ended_events(self) -> int:
        return len(self.harness.events_of(EventKind.MEETING_ENDED))

    async def check(self) -> None:
        """What holds at any time."""
        found, now = self.now_is(), self.harness.now()
        is_open = found.status in (MeetingStatus.SCHEDULED, MeetingStatus.STARTED)
        assert self.is_reserved() or not (is_open or await self.runs())
        assert self.ended_events() == (found.status is MeetingStatus.ENDED)
        if now < found.start_at:
            assert found.status is not MeetingStatus.ENDED
        refunded = found.credits if found.status is MeetingStatus.CANCELLED else 0
        assert self.harness.funds().balance == 100 - found.credits + refunded

    async def finish(self) -> None:
        """Let the time of the meeting pass, and see that all is over."""
        self.at(60)
        for _ in range(3):
            await self.sweep()
            self.harness.clock.advance(21)
        assert not await self.runs()
        assert not self.is_reserved()
        self.harness.prove()


async def open_room(**wanted: object) -> Room:
    harness = ApplicationHarness()
    room = Room(harness, await harness.with_meeting(**wanted))
    room.at(-60)
    return room


async def play(
    acts: Sequence[Act], order: Sequence[int], lost: int | None = None, cancel_at: int | None = None
) -> Room:
    """Act at the provider, and deliver all events but the lost one, each as soon as the order allows."""
    room, remaining = await open_room(), list(order)
    looks = {0, 22, 36, 50, 59} if cancel_at is None else {0, 22, 36, 50, 59, cancel_at}
    times = sorted({minutes for minutes, _ in acts} | looks)
    for minutes in times:
        room.at(minutes)
        for at, to in acts:
            if at == minutes:
                await room.act(to)
        while remaining and remaining[0] < len(room.under_way):
            number = remaining.pop(0)
            if number != lost:
                await room.deliver(room.under_way[number])
        if minutes == cancel_at:
            was_running = await room.runs()
            await room.harness.call_off(room.meeting.id)
            is_refunded = room.now_is().status is MeetingStatus.CANCELLED
            assert is_refunded == (minutes < 0 and not was_running)
        await room.sweep()
    return room


def orders(acts: Sequence[Act]) -> list[tuple[int, ...]]:
    return list(permutations(range(len(acts))))


def lost_events(acts: Sequence[Act], order: Sequence[int]) -> Sequence[int]:
    """The events of which each is lost once: all of those that come in order."""
    return order if list(order) == list(range(len(acts))) else ()


CASES = [(name, order) for name, acts in SCENES.items() for order in orders(acts)]


@pytest.mark.spec("3/cancel-before", "3/cancel-running")
@pytest.mark.parametrize(("scene", "order"), CASES, ids=str)
async def test_money_host_and_provider_agree_in_each_order(scene: str, order: tuple[int, ...]) -> None:
    acts = SCENES[scene]
    for lost in (None, *lost_events(acts, order)):
        room = await play(acts, order, lost)
        await room.finish()
        assert room.now_is().status is MeetingStatus.ENDED


@pytest.mark.spec("3/cancel-before", "3/cancel-running")
@pytest.mark.parametrize("cancel_at", [-29, -10, 5, 20])
@pytest.mark.parametrize("scene", SCENES)
async def test_a_cancellation_is_refunded_before_the_start_while_nothing_runs(
    scene: str, cancel_at: int
) -> None:
    acts = SCENES[scene]
    for order in orders(acts)[:: max(1, len(orders(acts)) // 6)]:
        for lost in (None, *lost_events(acts, order)):
            room = await play(acts, order, lost, cancel_at)
            await room.finish()


async def test_a_test_call_leaves_the_meeting_as_it_was() -> None:
    room = await open_room()
    for minutes, to in TEST_CALL:
        room.at(minutes)
        await room.act(to)
        await room.deliver(room.under_way[-1])
        assert room.now_is().status is (MeetingStatus.STARTED if to is START else MeetingStatus.SCHEDULED)
    room.at(-1)
    await room.sweep()
    answer = await room.harness.call_off(room.meeting.id)
    assert answer.record is not None
    assert answer.record["credits_refunded"] == room.meeting.credits


async def test_an_early_session_that_runs_is_ended_without_a_refund() -> None:
    room = await open_room()
    await room.see((-5, START))
    answer = await room.harness.call_off(room.meeting.id)
    assert answer.record is not None
    assert (answer.record["status"], answer.record["credits_refunded"]) == ("ended", 0)
    assert not await room.runs()
    assert not room.is_reserved()


async def test_a_cancellation_before_the_start_asks_the_provider_whether_a_session_runs() -> None:
    room = await open_room()
    await room.see((-30, START))
    room.at(-29)
    await room.act(LEAVE)  # its event is lost
    assert room.now_is().status is MeetingStatus.STARTED
    await room.harness.call_off(room.meeting.id)
    assert room.now_is().status is MeetingStatus.CANCELLED


async def test_a_meeting_is_over_ten_minutes_after_all_have_left() -> None:
    room = await open_room()
    await room.see((1, START), (10, LEAVE))
    room.at(19.9)
    await room.sweep()
    assert room.ended_events() == 0
    room.at(20)
    await room.sweep()
    assert (room.ended_events(), room.is_reserved()) == (1, False)
    assert await room.harness.at_sandbox(room.meeting) is SandboxMeetingState.REMOVED
    assert code_of(await room.harness.call_off(room.meeting.id)) == Conflict.code


async def test_a_guest_whose_event_is_late_keeps_the_meeting_open() -> None:
    room = await open_room()
    await room.see((1, START), (10, LEAVE))
    room.at(19)
    await room.act(START)
    room.at(20)
    await room.sweep()
    assert (room.ended_events(), await room.runs()) == (0, True), "the provider knows more"
    await room.deliver(room.under_way[-1])
    room.at(59)
    await room.sweep()
    assert room.ended_events() == 0
    await room.finish()


async def test_an_event_of_an_older_session_touches_nothing_else() -> None:
    room = await open_room()
    for minutes, to in ((1, START), (10, LEAVE), (12, START)):
        room.at(minutes)
        await room.act(to)
    began, left, began_again = room.under_way
    await room.deliver(began)
    await room.deliver(began_again)
    assert await room.deliver(left) is EventOutcome.APPLIED
    assert await room.deliver(left) is EventOutcome.IGNORED
    assert room.now_is().status is MeetingStatus.STARTED


async def test_what_runs_after_the_end_is_ended_whatever_the_status_says() -> None:
    room = await open_room()
    room.harness.write("UPDATE meetings SET status = 'ended', due_at = NULL, cleared_at = clock_timestamp()")
    room.harness.write("DELETE FROM host_reservations")
    room.at(61)
    await room.act(START)  # the provider lets somebody in all the same
    assert await room.deliver(room.under_way[-1]) is EventOutcome.APPLIED
    await room.harness.end_due_meetings().sweep()
    assert not await room.runs()


async def test_what_runs_after_the_end_is_ended_however_many_sessions_there_were() -> None:
    room = await open_room()
    async with room.harness.store.begin() as tx:
        await tx.lock_account(room.meeting.account_id)
        for number in range(MAX_SESSIONS):
            await tx.meetings.save_session(room.meeting, Session(f"s{number}", None, room.harness.now()))
    room.harness.write("UPDATE meetings SET status = 'ended', due_at = NULL, cleared_at = clock_timestamp()")
    room.harness.write("DELETE FROM host_reservations")
    room.at(61)
    await room.act(START)
    await room.deliver(room.under_way[-1])
    await room.harness.end_due_meetings().sweep()
    assert not await room.runs()


async def test_what_begins_while_the_last_recording_is_looked_for_is_ended_too() -> None:
    room = await open_room(with_recording=True)
    room.harness.write(
        "UPDATE meetings SET status = 'ended', due_at = clock_timestamp(), cleared_at = clock_timestamp(), "
        "recording_checks = 99"
    )
    room.harness.write("DELETE FROM host_reservations")
    room.at(61)

    async def find(*_: object) -> tuple[()]:
        await room.act(START)
        await room.deliver(room.under_way[-1])
        return ()

    room.harness.fake_recordings.find = find  # type: ignore[assignment, method-assign]
    await room.harness.end_due_meetings().sweep()
    assert await room.runs()
    room.harness.clock.advance(21)
    await room.harness.end_due_meetings().sweep()
    assert not await room.runs()


async def test_a_session_that_ends_while_the_provider_is_asked_ends_the_meeting_in_time() -> None:
    room = await open_room()
    await room.see((1, START), (10, LEAVE))
    room.at(19)
    await room.act(START)

    class Slow(SandboxProvider):
        """The sandbox, where the session of its answer ends before that is there."""

        async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
            answer = await super().remove(provider_meeting_id)
            if answer is ProviderMeetingState.IN_PROGRESS:
                await room.act(LEAVE)
                for event in room.under_way[-2:]:
                    await room.deliver(event)
            return answer

    room.harness.provider = Slow("http://sandbox", room.harness.sandbox.state, bytes(32))
    room.at(20)
    await room.sweep()
    assert (room.ended_events(), await room.runs()) == (0, False)
    room.at(30)
    await room.sweep()
    assert room.ended_events() == 1


async def test_a_meeting_that_is_ended_while_the_provider_is_asked_is_cleared_soon() -> None:
    room = await open_room()
    await room.see((1, START), (10, LEAVE))
    room.at(19)
    await room.act(START)  # its event is late

    class Slow(SandboxProvider):
        """The sandbox, where the meeting is ended, and may run still, before its answer is there."""

        async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
            answer = await super().remove(provider_meeting_id)
            room.harness.write("UPDATE meetings SET status = 'ended'")
            return answer

    room.harness.provider = Slow("http://sandbox", room.harness.sandbox.state, bytes(32))
    room.at(20)
    for is_cleared in (False, True):
        await room.harness.end_due_meetings().sweep()
        assert (await room.runs(), room.is_reserved()) == (not is_cleared, not is_cleared)
        room.harness.clock.advance(21)


async def test_a_host_is_not_free_while_the_provider_does_not_answer() -> None:
    room = await open_room()
    await room.see((1, START))
    room.harness.faults.plan(SandboxCall.REMOVE, *[SandboxFault.LOST] * 20)
    room.harness.clock.set(room.meeting.end_at + PROVIDER_GRACE)
    for _ in range(20):
        await room.sweep()
        assert (room.ended_events(), await room.runs(), room.is_reserved()) == (1, True, True)
        (reservation,) = room.harness.read("SELECT upper(during) AS until FROM host_reservations")
        assert reservation["until"] > room.harness.now()
        room.harness.clock.advance(901)
    await room.sweep()
    assert (await room.runs(), room.is_reserved()) == (False, False)


async def test_what_cannot_be_ended_for_days_is_given_up() -> None:
    room = await open_room()
    room.harness.write("UPDATE meetings SET provider = 'zoom'")
    room.harness.clock.set(room.meeting.end_at + PROVIDER_GRACE)
    await room.harness.end_due_meetings().sweep()
    assert room.is_reserved()
    room.harness.clock.set(room.meeting.end_at + CLEAR_FOR + MINUTE)
    await room.harness.end_due_meetings().sweep()
    assert not room.is_reserved()


async def test_a_cancellation_that_is_answered_after_the_meeting_was_held_is_not_refunded() -> None:
    room = await open_room()
    room.at(-5)
    room.harness.faults.plan(SandboxCall.REMOVE, *[SandboxFault.LOST] * 3)
    with pytest.raises(Exception, match="did not answer"):
        await room.harness.call_off(room.meeting.id)
    for minutes, to in HELD:
        room.at(minutes)
        await room.act(to)
        assert await room.deliver(room.under_way[-1]) is EventOutcome.APPLIED
    for _ in range(4):
        await room.harness.recover()
    found = room.now_is()
    assert (found.status, found.credits_refunded) == (MeetingStatus.ENDED, 0)
    assert room.harness.funds().balance == 90
