"""Provider events: kept once, applied in any order, tried again while they come too early."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import count, permutations
from typing import Any

import pytest
from attrs import define, evolve, field

from meetcore.adapters.sandbox import SandboxCall, SandboxFault, SandboxProvider
from meetcore.domain.errors import UpstreamError
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.meetings.provider_events import MAX_TRIES, EventOutcome, ProviderEvent, ProviderEventKind
from meetcore.domain.meetings.sessions import Session
from meetcore.domain.meetings.views import ClaimedEvent
from meetcore.domain.notes.recordings import Recording, RecordingFile, RecordingStatus
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.meetings.provider_events import HandleProviderEvents, TrackMeeting
from tests.support.records import new_file
from tests.unit.usecases.application import ApplicationHarness, CrashPoint, SimulatedCrash, crash_points

STARTED, ENDED = ProviderEventKind.MEETING_STARTED, ProviderEventKind.MEETING_ENDED
CLOSED = ProviderEventKind.MEETING_CLOSED
RECORDING = ProviderEventKind.RECORDING_READY
FIVE_MINUTES = timedelta(minutes=5)


@define(slots=False)
class Post:
    """An application with one meeting and an inbox."""

    harness: ApplicationHarness
    meeting: Meeting
    body_numbers: count[int] = field(factory=count)

    @property
    def track(self) -> TrackMeeting:
        return self.harness.process().meetings.track

    def handle(self, **changes: Any) -> HandleProviderEvents:
        return evolve(self.harness.process().meetings.handle_events, **changes)

    def event(self, kind: ProviderEventKind, *files: RecordingFile, of: str | None = None) -> ProviderEvent:
        name, now = of or self.meeting.provider_meeting_id or "", self.harness.now()
        session = {
            STARTED: Session("s1", now),
            ENDED: Session("s1", None, now),
            CLOSED: Session("s1", None, now),
        }.get(kind)
        return ProviderEvent("sandbox", kind, name, now, files, session)

    async def receive(self, event: ProviderEvent, raw: bytes | None = None) -> bool:
        """Store an event; with other raw bytes each time unless they are given."""
        raw = b"%d" % next(self.body_numbers) if raw is None else raw
        receive = self.harness.process().meetings.receive_event
        return await receive(event, hashlib.sha256(raw).digest())

    async def work(self) -> None:
        while await self.handle()():
            pass

    def status(self) -> MeetingStatus:
        (meeting,) = [one for one in self.harness.meetings() if one.id == self.meeting.id]
        return meeting.status

    def event_count(self, kind: EventKind) -> int:
        return [kind for kind, _ in self.harness.events()].count(kind)

    def waiting(self) -> int:
        return len(self.harness.read("SELECT 1 FROM provider_events WHERE due_at IS NOT NULL"))

    def recording(self) -> Recording | None:
        return next((one for one in self.harness.recordings() if one.meeting_id == self.meeting.id), None)


async def post(**fields: Any) -> Post:
    harness = await ApplicationHarness(credits=1000).start()
    await harness.make(**fields)
    (meeting,) = harness.meetings()
    return Post(harness, meeting)


@pytest.mark.parametrize("order", sorted(set(permutations([STARTED, STARTED, ENDED, CLOSED]))), ids=str)
@pytest.mark.parametrize("at_once", [True, False])
async def test_duplicate_and_unordered_events_close_it_once(
    order: Sequence[ProviderEventKind], at_once: bool
) -> None:
    office = await post()
    for kind in order:
        await office.receive(office.event(kind))
        if not at_once:
            await office.work()
    await office.work()
    assert office.status() is MeetingStatus.ENDED
    assert office.event_count(EventKind.MEETING_ENDED) == 1
    assert office.waiting() == 0


async def test_an_event_of_an_unknown_meeting_is_dropped_after_five_minutes() -> None:
    office = await post()
    await office.receive(office.event(ENDED, of="a stranger's"))
    since = office.harness.now()
    tries = 0
    while office.waiting():
        await office.work()
        tries += 1
        office.harness.clock.advance(1)
        assert tries < 1000
    assert FIVE_MINUTES <= office.harness.now() - since <= FIVE_MINUTES + timedelta(minutes=1)
    assert office.status() is MeetingStatus.SCHEDULED


async def test_an_event_that_comes_before_its_meeting_is_there_is_applied_when_it_is() -> None:
    office = await post()
    harness = office.harness
    with pytest.raises(SimulatedCrash):  # after the provider made it, before the third transaction
        await harness.make("k", CrashPoint(5), date="2026-12-03")
    (unborn,) = [one for one in harness.meetings() if one.status is MeetingStatus.PROVISIONING]
    assert unborn.provider_meeting_id is None
    other = Post(harness, evolve(unborn, provider_meeting_id=f"sandbox-{unborn.id}"))
    await other.receive(other.event(STARTED))
    await other.work()
    assert other.waiting() == 1
    await harness.recover()
    assert other.status() is MeetingStatus.SCHEDULED
    await other.work()
    assert other.status() is MeetingStatus.STARTED
    assert other.waiting() == 0


async def test_an_event_waits_for_a_cancellation_and_is_applied_if_it_fails() -> None:
    office = await post()
    harness = office.harness

    class Refusing(SandboxProvider):
        """The sandbox, which tells that the meeting is over before it refuses to remove it."""

        async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
            await office.receive(office.event(CLOSED))
            await office.work()
            assert (office.status(), office.waiting()) == (MeetingStatus.CANCELLING, 1)
            return await harness.provider.remove(provider_meeting_id)

    harness.faults.plan(SandboxCall.REMOVE, SandboxFault.REFUSE)
    refusing = Refusing("http://sandbox", harness.sandbox.state, bytes(32))
    cancel = harness.cancel()
    cancel = evolve(cancel, cancellation=evolve(cancel.cancellation, provider=refusing))
    with pytest.raises(UpstreamError):
        await cancel(harness.caller, office.meeting.id, harness.request_key("c"), harness.now())
    assert office.status() is MeetingStatus.SCHEDULED, "the provider did not let go of it"
    harness.clock.advance(FIVE_MINUTES.total_seconds())
    await office.work()
    assert office.status() is MeetingStatus.ENDED
    assert office.event_count(EventKind.MEETING_ENDED) == 1


async def test_an_event_that_waited_for_a_cancellation_changes_nothing_if_it_succeeds() -> None:
    office = await post()
    harness = office.harness
    with pytest.raises(SimulatedCrash):
        await harness.call_off(office.meeting.id, "c", CrashPoint(4))
    await office.receive(office.event(STARTED))
    await office.work()
    await harness.recover()
    await office.work()
    assert (office.status(), office.waiting()) == (MeetingStatus.CANCELLED, 0)
    assert harness.funds().balance == 1000


async def test_files_are_gathered_in_one_recording_whatever_their_order() -> None:
    first, second, transcript = new_file(), new_file("b1"), new_file("a3")
    batches = [(first, second), (transcript,), (first,)]
    results = []
    for order in permutations(batches):
        office = await post(with_recording=True)
        for files in order:
            await office.receive(office.event(RECORDING, *files))
            await office.work()
        recording = office.recording()
        assert recording is not None
        assert (recording.meeting_id, recording.status) == (office.meeting.id, RecordingStatus.MEASURING)
        results.append(recording.files)
        assert office.waiting() == 0
        assert office.harness.notes_notifier.notifications >= 1, "nobody waits for a sweep to measure it"
    assert set(results) == {tuple(sorted((first, second, transcript), key=lambda one: one.provider_file_id))}


async def test_a_recording_may_arrive_before_the_end_event() -> None:
    office = await post(with_recording=True)
    await office.receive(office.event(RECORDING, new_file()))
    await office.receive(office.event(CLOSED))
    await office.work()
    assert office.recording() is not None
    assert office.status() is MeetingStatus.ENDED


@pytest.mark.parametrize("files", [(), (new_file(),)])
async def test_a_meeting_without_recording_option_gets_none(files: tuple[RecordingFile, ...]) -> None:
    office = await post(with_recording=not files)
    await office.receive(office.event(RECORDING, *files))
    await office.work()
    assert office.recording() is None
    assert office.waiting() == 0


async def test_files_wait_for_a_meeting_that_is_not_there_yet() -> None:
    office = await post(with_recording=True)
    await office.receive(office.event(RECORDING, new_file(), of="not yet"))
    await office.work()
    assert office.waiting() == 1


@define
class Faulty:
    """Fails on the meetings that are named."""

    track: TrackMeeting
    names: frozenset[str]
    fault: Exception

    async def __call__(self, event: ProviderEvent, now: Any) -> EventOutcome:
        if event.provider_meeting_id in self.names:
            raise self.fault
        return await self.track(event, now)


async def test_one_failing_event_affects_no_other_and_is_dropped_in_the_end() -> None:
    office = await post()
    harness = office.harness
    fault = ValueError("a fault")
    faulty: Any = Faulty(office.track, frozenset({"bad"}), fault)
    for name in ("bad", office.meeting.provider_meeting_id):
        await office.receive(office.event(STARTED, of=name))
    for _ in range(MAX_TRIES):
        assert office.waiting() >= 1
        with pytest.raises(ExceptionGroup) as raised:
            await office.handle(track=faulty)()
        assert [str(fault) for fault in raised.value.exceptions] == ["a fault"]
        assert office.status() is MeetingStatus.STARTED
        harness.clock.advance(61)
    assert office.waiting() == 0
    assert [note.endswith("of sandbox, try 11 of 11, meeting bad") for note in fault.__notes__].count(
        True
    ) == 1


async def test_an_outage_loses_no_event_however_long_it_lasts() -> None:
    office = await post()
    harness = office.harness
    name = office.meeting.provider_meeting_id or ""
    unavailable: Any = Faulty(office.track, frozenset({name}), StoreUnavailable("away"))
    await office.receive(office.event(STARTED))
    for _ in range(3 * MAX_TRIES):
        with pytest.raises(StoreUnavailable):
            await office.handle(track=unavailable)()
        harness.clock.advance(61)
    await office.work()
    assert office.status() is MeetingStatus.STARTED


async def test_after_a_worker_crash_at_any_point_the_event_is_applied_once() -> None:
    for point in crash_points():
        office = await post()
        await office.receive(office.event(CLOSED))
        with suppress(SimulatedCrash):
            await office.harness.process(point).meetings.handle_events()
        office.harness.clock.advance(61)
        await office.work()
        assert office.status() is MeetingStatus.ENDED
        assert office.event_count(EventKind.MEETING_ENDED) == 1
        assert office.waiting() == 0


async def test_a_full_batch_reports_that_there_may_be_more() -> None:
    office = await post()
    for _ in range(3):
        await office.receive(office.event(STARTED))
    assert await office.handle(batch=2)()
    assert not await office.handle(batch=2)()
    assert office.waiting() == 0


async def test_the_outcome_of_each_event_is_reported_with_its_meeting() -> None:
    place = await post()
    reported: list[tuple[str, ProviderEventKind, EventOutcome]] = []

    def report(claimed: ClaimedEvent, outcome: EventOutcome) -> None:
        reported.append((claimed.event.provider_meeting_id, claimed.event.kind, outcome))

    for event in (place.event(STARTED), place.event(STARTED), place.event(ENDED, of="unheard-of")):
        await place.receive(event)
        await place.handle(on_handled=report)()
    name = place.meeting.provider_meeting_id
    assert reported == [
        (name, STARTED, EventOutcome.APPLIED),
        (name, STARTED, EventOutcome.IGNORED),
        ("unheard-of", ENDED, EventOutcome.TOO_EARLY),
    ]
