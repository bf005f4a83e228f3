"""Recordings: measured before they are shown, removed at the provider after their end."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest
from attrs import evolve

from meetcore.domain.meetings.sessions import Session
from meetcore.domain.notes.notes import NoteFault, NoteStatus, describe
from meetcore.domain.notes.recordings import FileKind, RecordingStatus, needs_work
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.ai import EditingFailed, MediaUnreadable
from meetcore.ports.recording_files import FileGone, FilesUnavailable
from tests.unit.usecases.application import ApplicationHarness, SimulatedCrash, crash_points
from tests.unit.usecases.fakes import RECORDED_AT, grown, recorded, written
from tests.unit.usecases.note_scenario import NoteScenario, expire_leases, note_scenario


async def filmed_only(*files, **options) -> NoteScenario:
    """A meeting with files at the provider that are not measured yet."""
    harness = await ApplicationHarness(
        credits=options.pop("credits", 1000), daily_cap=options.pop("daily_cap", None)
    ).start()
    await harness.make(**{"with_recording": True} | options)
    harness.write("UPDATE meetings SET status = 'ended'")
    one = NoteScenario(harness, harness.meetings()[0])
    await one.record(*(files or (recorded("rapat", 90.5),)))
    return one


def due_in_s(one: NoteScenario) -> float | None:
    (row,) = one.harness.read("SELECT due_at FROM recordings")
    return None if row["due_at"] is None else (row["due_at"] - one.harness.now()).total_seconds()


async def test_a_recording_is_shown_and_reported_with_the_length_of_its_media() -> None:
    one = await filmed_only(
        recorded("pagi", 90.5), recorded("siang", 30.0, minutes_in=30), written("said", "A: ya")
    )
    assert one.recording.status is RecordingStatus.MEASURING
    assert one.harness.events_of(EventKind.RECORDING_READY) == []
    await one.measure()
    assert (one.recording.status, one.recording.duration_s) == (RecordingStatus.AVAILABLE, 121)
    (event,) = one.harness.events_of(EventKind.RECORDING_READY)
    assert (event["duration"], event["status"]) == (3, "available")
    assert due_in_s(one) is None
    assert one.harness.notes() == []
    assert one.harness.editor.open_files == 0


async def test_later_segments_are_measured_and_not_reported_again() -> None:
    one = await note_scenario(recorded("pagi", 60.0))
    await one.record(recorded("siang", 30.0, minutes_in=30))
    assert needs_work(one.recording)
    await one.measure()
    assert one.recording.duration_s == 90
    assert len(one.harness.events_of(EventKind.RECORDING_READY)) == 1
    assert one.harness.fault_plan.calls["measure"] == 2, "what was measured is not fetched again"


async def test_a_file_that_grows_while_it_is_fetched_is_not_measured_by_what_was_there() -> None:
    first = recorded("rapat", 60.0)
    one = await filmed_only(first)
    one.harness.fault_plan.at_next("measure", partial(one.record, grown(first, 300.0)))
    await one.harness.work_on_recordings()()
    assert one.recording.status is RecordingStatus.MEASURING
    assert due_in_s(one) == 0, "what is left is due at once"
    await one.measure()
    assert (one.recording.status, one.recording.duration_s) == (RecordingStatus.AVAILABLE, 300)


async def test_a_segment_that_comes_while_another_is_measured_is_measured_at_once() -> None:
    one = await filmed_only(recorded("pagi", 60.0))
    one.harness.fault_plan.at_next("measure", partial(one.record, recorded("siang", 30.0, minutes_in=30)))
    await one.harness.work_on_recordings()()
    assert due_in_s(one) == 0
    await one.measure()
    assert one.recording.duration_s == 90


async def test_an_unavailable_file_is_retried_at_growing_intervals() -> None:
    one = await filmed_only()
    waits = []
    for _ in range(14):
        one.harness.fault_plan.plan("chunk", FilesUnavailable("x"))
        await one.harness.work_on_recordings()()
        assert one.recording.status is RecordingStatus.MEASURING
        waits.append(due_in_s(one))
        one.harness.clock.advance(waits[-1] or 0.0)
    assert waits == [*(2.0**n for n in range(1, 12)), 3600.0, 3600.0, 3600.0]
    await one.measure()
    assert one.recording.status is RecordingStatus.AVAILABLE


async def test_a_file_that_cannot_be_read_counts_as_no_media() -> None:
    one = await filmed_only(recorded("pagi", 60.0), recorded("siang", 30.0, minutes_in=30))
    one.harness.fault_plan.plan("measure", MediaUnreadable("x"))
    await one.measure()
    assert (one.recording.status, one.recording.duration_s) == (RecordingStatus.AVAILABLE, 30)


async def test_a_file_without_disk_space_is_measured_later() -> None:
    one = await filmed_only(recorded("pagi", 60.0))
    one.harness.fault_plan.plan("measure", EditingFailed("x"))
    await one.harness.work_on_recordings()()
    assert (one.recording.status, due_in_s(one)) == (RecordingStatus.MEASURING, 2.0)
    one.harness.clock.advance(2.0)
    await one.measure()
    assert (one.recording.status, one.recording.duration_s) == (RecordingStatus.AVAILABLE, 60)


async def test_a_missing_file_is_requested_several_times_before_it_counts_as_no_media() -> None:
    one = await filmed_only(recorded("pagi", 60.0), recorded("siang", 30.0, minutes_in=30))
    for _ in range(6):  # tries at which the provider does not answer are none of these
        one.harness.fault_plan.plan("open audio", FilesUnavailable("x"))
        await one.harness.work_on_recordings()()
        one.harness.clock.advance(due_in_s(one) or 0.0)
    pagi, _ = recorded("pagi", 60.0)
    await one.harness.fake_recordings.remove(one.meeting.provider_meeting_id or "", pagi)
    waits = []
    for _ in range(3):
        await one.harness.work_on_recordings()()
        waits.append(due_in_s(one))
        one.harness.clock.advance(waits[-1] or 0.0)
    assert waits == [128.0, 256.0, 512.0]
    reported: list[str] = []
    working = one.harness.work_on_recordings()
    await evolve(working, report=lambda task, fault: reported.append(str(fault)))()
    assert (one.status(), one.recording.duration_s) == (RecordingStatus.AVAILABLE, 30)
    assert reported == ["no session lists the file pagi: it is left out"]


async def test_a_file_that_its_provider_lists_some_minutes_late_is_not_lost() -> None:
    one = await filmed_only(recorded("pagi", 60.0))
    name = one.meeting.provider_meeting_id or ""
    listed, one.harness.fake_recordings.listed[name] = one.harness.fake_recordings.listed[name], ()
    one.harness.fault_plan.plan("open audio", FilesUnavailable("x"))
    begin = one.harness.now()
    while one.harness.now() < begin + timedelta(minutes=10):
        await one.harness.work_on_recordings()()
        assert one.status() is RecordingStatus.MEASURING
        one.harness.clock.advance(due_in_s(one) or 0.0)
    one.harness.fake_recordings.listed[name] = listed
    await one.measure()
    assert (one.status(), one.recording.duration_s) == (RecordingStatus.AVAILABLE, 60)


async def test_the_picture_is_measured_where_the_sound_of_its_stretch_is_lost_or_unreadable() -> None:
    picture = recorded("gambar", 61.0, kind=FileKind.VIDEO)
    one = await filmed_only(recorded("rapat", 60.0), picture, recorded("siang", 30.0, minutes_in=30))
    one.harness.fault_plan.plan("measure", MediaUnreadable("x"))
    await one.measure()
    assert (one.status(), one.recording.duration_s) == (RecordingStatus.AVAILABLE, 91)


async def test_a_file_its_provider_lists_is_not_gone_whatever_its_address_returns() -> None:
    one = await filmed_only(recorded("pagi", 60.0))
    for _ in range(8):
        one.harness.fault_plan.plan("open audio", FileGone())
        await one.harness.work_on_recordings()()
        one.harness.clock.advance(due_in_s(one) or 0.0)
    assert one.status() is RecordingStatus.MEASURING
    opened: list[str] = []
    fresh, content = recorded("pagi", 60.0)
    one.harness.fake_recordings.put(
        one.meeting.provider_meeting_id or "", (evolve(fresh, url="https://f/fresh"), content)
    )
    one.harness.fake_recordings.opened = opened
    await one.measure()
    assert (one.status(), one.recording.duration_s) == (RecordingStatus.AVAILABLE, 60)
    assert opened == ["https://f/fresh"]


async def test_an_event_does_not_replace_the_address_that_the_provider_listed() -> None:
    one = await filmed_only()
    (file,), collected = one.recording.files, one.harness.process().recordings
    listed, name = evolve(file, url="https://f/listed"), one.meeting.provider_meeting_id or ""
    one.harness.fake_recordings.put(name, (listed, b"rapat 90.5"))
    await collected.sync_files.of_meeting(one.meeting)
    assert one.recording.files == (listed,)
    for late, kept in ((evolve(file, url="https://f/zzz"), listed), (evolve(file, size_bytes=99), None)):
        await collected.collect_files("sandbox", name, [late], one.harness.now())
        assert one.recording.files == (kept or late,)


async def test_files_of_every_session_are_found_measured_and_removed() -> None:
    earlier = recorded("pagi", 60.0, session_id="/a//b==")
    one = await filmed_only(earlier, recorded("siang", 30.0, minutes_in=30, session_id="cc=="))
    one.harness.fake_recordings.unlisted = {"/a//b=="}  # the provider lists the latest session only
    for _ in range(6):
        one.harness.fault_plan.plan("open audio", FilesUnavailable("x"))
        await one.harness.work_on_recordings()()
        one.harness.clock.advance(due_in_s(one) or 0.0)
    await one.measure()
    assert one.recording.duration_s == 90
    lost, content = recorded("sore", 10.0, minutes_in=60, session_id="/a//b==")  # its event never came
    one.harness.fake_recordings.put(one.meeting.provider_meeting_id or "", (lost, content))
    await one.delete()
    await one.measure()
    assert one.harness.fake_recordings.contents == {}


async def test_files_of_a_session_that_events_reported_are_found_though_the_provider_names_it_no_more() -> (
    None
):
    one = await filmed_only(recorded("pagi", 60.0, session_id="cc=="))
    async with one.harness.store.at_once() as tx:
        await tx.meetings.save_session(one.meeting, Session("/a//b==", RECORDED_AT, RECORDED_AT))
    lost, content = recorded("siang", 30.0, minutes_in=30, session_id="/a//b==")  # its event never came
    one.harness.fake_recordings.put(one.meeting.provider_meeting_id or "", (lost, content))
    one.harness.fake_recordings.unlisted = {"cc==", "/a//b=="}
    await one.harness.process().recordings.sync_files(one.recording)
    await one.measure()
    assert one.recording.duration_s == 90


async def test_another_providers_recording_waits_for_it() -> None:
    one = await filmed_only()
    one.harness.fake_recordings.provider = "zoom"
    await one.harness.work_on_recordings()()
    assert due_in_s(one) == 2.0
    assert one.harness.fault_plan.calls["open audio"] == 0
    await one.expire()
    await one.harness.work_on_recordings()()
    assert one.recording.files
    assert one.harness.fault_plan.calls["remove"] == 0


async def test_an_internal_fault_is_raised_and_the_recording_is_due_again() -> None:
    one = await filmed_only()
    one.harness.fault_plan.plan("measure", ZeroDivisionError())
    with pytest.RaisesGroup(ZeroDivisionError):
        await one.measure()
    assert due_in_s(one) == 2.0, "later and later, as what the provider keeps back"
    one.harness.clock.advance(2.0)
    await one.measure()
    assert one.recording.status is RecordingStatus.AVAILABLE
    assert one.harness.editor.open_files == 0


async def test_after_a_worker_crash_at_any_point_a_recording_is_reported_once() -> None:
    for point in crash_points():
        one = await filmed_only(auto_notulen=True)
        with suppress(SimulatedCrash):
            await one.harness.work_on_recordings(point)()
        expire_leases(one)
        await one.measure()
        assert len(one.harness.events_of(EventKind.RECORDING_READY)) == 1
        assert len(one.harness.notes()) == 1
        one.prove()


async def test_a_recording_that_is_deleted_while_it_is_measured_stays_so() -> None:
    one = await note_scenario(recorded("pagi", 60.0))
    await one.record(recorded("siang", 30.0, minutes_in=30))
    one.harness.fault_plan.at_next("measure", one.delete)
    await one.harness.work_on_recordings()()
    assert one.recording.status is RecordingStatus.EXPIRED
    await one.measure()
    assert not any(file.url for file in one.recording.files)
    assert one.harness.fake_recordings.contents == {}


async def test_files_that_arrive_during_a_removal_are_removed_next() -> None:
    one = await note_scenario(recorded("rapat"))
    await one.delete()
    name = one.meeting.provider_meeting_id or ""
    one.harness.fault_plan.at_next("remove", partial(one.record, written("said", "A: ya")))
    await one.harness.work_on_recordings()()
    assert [file.provider_file_id for file in one.recording.files if file.url] == ["said"]
    await one.measure()
    assert not any(file.url for file in one.recording.files)
    assert one.harness.fake_recordings.listed[name] == ()
    assert one.harness.fake_recordings.contents == {}


async def test_the_files_of_expired_recordings_are_removed_at_the_provider() -> None:
    one = await note_scenario(recorded("rapat"), written("said", "A: ya"))
    await one.delete()
    assert (one.recording.status, len(one.recording.files)) == (RecordingStatus.EXPIRED, 2)
    one.harness.fault_plan.plan("remove", FilesUnavailable("x"))
    await one.measure()
    assert [bool(file.url) for file in one.recording.files] == [True, False], "one refused keeps no other"
    assert one.status() is RecordingStatus.EXPIRED
    assert due_in_s(one) == 2.0, "it is due until all of it is gone"
    one.harness.clock.advance(2)
    await one.measure()
    assert not any(file.url for file in one.recording.files)
    assert one.harness.fake_recordings.contents == {}
    assert due_in_s(one) is None
    await one.record(recorded("rapat"), recorded("susulan"))
    assert due_in_s(one) == 0, "what the provider makes later is removed, too"
    await one.measure()
    assert one.harness.fake_recordings.contents == {}
    assert one.status() is RecordingStatus.EXPIRED


async def test_a_test_call_of_a_meeting_that_was_cancelled_is_removed_at_the_provider() -> None:
    harness = await ApplicationHarness().start()
    await harness.make(with_recording=True)
    one = NoteScenario(harness, harness.meetings()[0])
    await harness.cancel()(harness.caller, one.meeting.id, harness.request_key("c"), harness.now())
    assert harness.funds().balance == 100
    for file in (recorded("call", 60.0), written("said", "A: ya")):
        await one.record(file)
        await one.measure()
        assert (one.status(), harness.fake_recordings.contents) == (RecordingStatus.EXPIRED, {})
    assert harness.events_of(EventKind.RECORDING_READY) == []


async def test_a_test_call_that_was_shown_before_its_meeting_is_cancelled_is_removed_all_the_same() -> None:
    harness = await ApplicationHarness().start()
    await harness.make(with_recording=True)
    one = NoteScenario(harness, harness.meetings()[0])
    await one.record(recorded("call", 60.0), written("said", "A: ya"))
    await one.measure()
    assert one.status() is RecordingStatus.AVAILABLE
    notifications = harness.notes_notifier.notifications
    await harness.call_off(one.meeting.id)
    assert (harness.funds().balance, one.status()) == (100, RecordingStatus.EXPIRED)
    assert harness.notes_notifier.notifications == notifications + 1
    await one.measure()
    assert harness.fake_recordings.contents == {}
    one.prove()


async def test_a_meeting_is_cancelled_though_its_recording_does_not_open() -> None:
    harness = await ApplicationHarness().start()
    await harness.make(with_recording=True)
    one = NoteScenario(harness, harness.meetings()[0])
    await one.record(recorded("call", 60.0))
    harness.write("UPDATE recordings SET files = '\\x00'")
    await harness.call_off(one.meeting.id)
    assert harness.funds().balance == 100


# Notes that a meeting was made with


@pytest.mark.spec("4.1/1", "6/6")
async def test_a_meeting_that_was_made_with_notes_gets_them() -> None:
    one = await filmed_only(with_recording=False, auto_notulen=True)
    notifications = one.harness.notes_notifier.notifications
    await one.measure()
    assert one.note().status is NoteStatus.QUEUED
    assert one.harness.notes_notifier.notifications > notifications
    assert one.harness.funds().held == 2
    await one.finish()
    (event,) = one.harness.events_of(EventKind.NOTE_COMPLETED)
    assert event["recording_id"] == str(one.recording.id)
    one.prove()


async def test_a_recording_that_cannot_be_measured_until_its_retention_is_over_is_given_back() -> None:
    one = await filmed_only(auto_notulen=True)
    one.harness.fault_plan.plan("chunk", FilesUnavailable("x"))
    await one.harness.work_on_recordings()()
    await one.expire()
    assert (one.status(), one.harness.money()) == (RecordingStatus.EXPIRED, (990, 0))
    assert one.harness.meetings()[0].credits_refunded == 5
    (event,) = one.harness.events_of(EventKind.NOTE_FAILED)
    assert (event["recording_id"], event["error"]) == (None, describe(NoteFault.NO_RECORDING))
    one.prove()


async def test_a_recording_measured_after_its_retention_is_reported_as_gone() -> None:
    one = await filmed_only(auto_notulen=True)
    one.harness.clock.advance((one.recording.expires_at - one.harness.now()).total_seconds())
    await one.measure()
    assert one.harness.events_of(EventKind.RECORDING_READY) == []
    assert one.note().error == describe(NoteFault.RECORDING_GONE)
    (event,) = one.harness.events_of(EventKind.NOTE_FAILED)
    assert event["error"] == one.note().error
    one.prove()


@pytest.mark.parametrize(("options", "fault"), [
    ({"credits": 15}, NoteFault.SHORT_OF_CREDITS), ({"daily_cap": 16}, NoteFault.CAP_REACHED),
])  # fmt: skip
async def test_unaffordable_notes_are_reported_and_can_be_requested_later(options, fault: NoteFault) -> None:
    one = await filmed_only(auto_notulen=True, **options)
    await one.measure()
    assert (one.note().status, one.note().error) == (NoteStatus.FAILED, describe(fault))
    (event,) = one.harness.events_of(EventKind.NOTE_FAILED)
    assert event["error"] == describe(fault)
    assert one.recording.status is RecordingStatus.AVAILABLE, "the recording itself is paid for"
    assert len(one.harness.events_of(EventKind.RECORDING_READY)) == 1
    await one.harness.administration.top_up(one.harness.caller.account.id, 50, "INV-1")
    one.harness.write("UPDATE api_keys SET daily_cap = NULL")
    await one.ask()
    await one.finish()
    assert one.note(1).status is NoteStatus.COMPLETED
    one.prove()


async def test_notes_of_silent_media_are_reported_as_impossible() -> None:
    one = await filmed_only(recorded("rapat", 0.0), auto_notulen=True)
    await one.measure()
    assert one.note().error == describe(NoteFault.MEDIA_UNREADABLE)
    one.prove()


async def test_a_transcript_that_comes_late_makes_no_second_note() -> None:
    one = await filmed_only(auto_notulen=True)
    await one.measure()
    await one.record(written("said", "A: ya"), recorded("siang", 30.0, minutes_in=30))
    await one.measure()
    assert len(one.harness.notes()) == 1
    assert one.recording.files[0].kind is FileKind.AUDIO
