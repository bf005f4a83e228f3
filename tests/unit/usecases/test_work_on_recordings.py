"""Recordings are measured before anybody sees them, and removed at the provider when they are over."""

from __future__ import annotations

import pytest
from attrs import evolve

from meetcore.domain.events import EventKind
from meetcore.domain.notes import NoteFault, NoteStatus, describe
from meetcore.domain.recordings import FileKind, RecordingStatus, needs_work
from meetcore.ports.audio_editor import EditingFailed, MediaUnreadable
from meetcore.ports.recording_files import FileGone, FilesAway
from tests.unit.usecases.notary import Notary, lapse, notary
from tests.unit.usecases.studio import filmed, grown, written
from tests.unit.usecases.town import Died, Fuse, Town, request


async def filmed_only(*files, **wish) -> Notary:
    """A meeting of which the provider has files, and nobody has measured them."""
    town = await Town(credits=wish.pop("credits", 1000), daily_cap=wish.pop("daily_cap", None)).settle_in()
    await town.create()(
        town.caller, request(**{"with_recording": True} | wish), town.intent(None), town.now()
    )
    one = Notary(town, town.meetings()[0])
    await one.film(*(files or (filmed("rapat", 90.5),)))
    return one


def due_in_s(one: Notary) -> float | None:
    (stored,) = one.town.state.committed.recordings.values()
    return None if stored.due_at is None else (stored.due_at - one.town.now()).total_seconds()


async def test_a_recording_is_shown_and_told_with_the_medias_own_length() -> None:
    one = await filmed_only(
        filmed("pagi", 90.5), filmed("siang", 30.0, minutes_in=30), written("said", "A: ya")
    )
    assert one.recording.status is RecordingStatus.MEASURING
    assert one.town.told(EventKind.RECORDING_READY) == []
    await one.measure()
    assert (one.recording.status, one.recording.duration_s) == (RecordingStatus.AVAILABLE, 121)
    (told,) = one.town.told(EventKind.RECORDING_READY)
    assert (told["duration"], told["status"]) == (3, "available")
    assert due_in_s(one) is None
    assert one.town.notes() == []
    assert one.town.editor.open_files == 0


async def test_more_that_comes_later_is_measured_and_not_told_again() -> None:
    one = await notary(filmed("pagi", 60.0))
    await one.film(filmed("siang", 30.0, minutes_in=30))
    assert needs_work(one.recording)
    await one.measure()
    assert one.recording.duration_s == 90
    assert len(one.town.told(EventKind.RECORDING_READY)) == 1
    assert one.town.studio.calls["measure"] == 2, "what was measured is not fetched again"


async def test_a_file_that_grows_while_it_is_fetched_is_not_measured_by_what_was_there() -> None:
    first = filmed("rapat", 60.0)
    one = await filmed_only(first)
    longer = grown(first, 300.0)

    async def grow(call: str) -> None:
        if call == "measure" and one.recording.files[0].size_bytes != longer[0].size_bytes:
            await one.film(longer)

    one.town.studio.during = grow
    await one.town.work_on_recordings()()
    assert one.recording.status is RecordingStatus.MEASURING
    assert due_in_s(one) == 0, "what is left is due at once"
    await one.measure()
    assert (one.recording.status, one.recording.duration_s) == (RecordingStatus.AVAILABLE, 300)


async def test_a_segment_that_comes_while_another_is_measured_is_measured_at_once() -> None:
    one = await filmed_only(filmed("pagi", 60.0))

    async def more(call: str) -> None:
        if call == "measure" and len(one.recording.files) == 1:
            await one.film(filmed("siang", 30.0, minutes_in=30))

    one.town.studio.during = more
    await one.town.work_on_recordings()()
    assert due_in_s(one) == 0
    await one.measure()
    assert one.recording.duration_s == 90


@pytest.mark.parametrize(
    ("call", "fault"),
    [("open audio", FilesAway("x")), ("chunk", FilesAway("x"))],
)
async def test_a_file_that_is_not_handed_over_is_tried_later_and_later(call: str, fault: Exception) -> None:
    one = await filmed_only()
    waits = []
    for _ in range(14):
        one.town.studio.plan(call, fault)
        await one.town.work_on_recordings()()
        assert one.recording.status is RecordingStatus.MEASURING
        waits.append(due_in_s(one))
        one.town.clock.advance(waits[-1] or 0.0)
    assert waits == [
        2.0,
        4.0,
        8.0,
        16.0,
        32.0,
        64.0,
        128.0,
        256.0,
        512.0,
        1024.0,
        2048.0,
        3600.0,
        3600.0,
        3600.0,
    ]
    await one.measure()
    assert one.recording.status is RecordingStatus.AVAILABLE


async def test_a_file_that_cannot_be_read_counts_as_no_media() -> None:
    one = await filmed_only(filmed("pagi", 60.0), filmed("siang", 30.0, minutes_in=30))
    one.town.studio.plan("measure", MediaUnreadable("x"))
    await one.measure()
    assert (one.recording.status, one.recording.duration_s) == (RecordingStatus.AVAILABLE, 30)


async def test_what_there_was_no_room_for_is_measured_later() -> None:
    one = await filmed_only(filmed("pagi", 60.0))
    one.town.studio.plan("measure", EditingFailed("x"))
    await one.town.work_on_recordings()()
    assert (one.recording.status, due_in_s(one)) == (RecordingStatus.MEASURING, 2.0)
    one.town.clock.advance(2.0)
    await one.measure()
    assert (one.recording.status, one.recording.duration_s) == (RecordingStatus.AVAILABLE, 60)


async def test_a_file_that_is_gone_is_asked_for_some_times_before_it_counts_as_no_media() -> None:
    one = await filmed_only(filmed("pagi", 60.0), filmed("siang", 30.0, minutes_in=30))
    pagi, _ = filmed("pagi", 60.0)
    await one.town.shelf.remove(one.meeting.provider_meeting_id or "", pagi)
    waits = []
    for _ in range(4):
        await one.town.work_on_recordings()()
        waits.append(due_in_s(one))
        one.town.clock.advance(waits[-1] or 0.0)
    assert waits == [2.0, 4.0, 8.0, 16.0]
    await one.measure()
    assert (one.status(), one.recording.duration_s) == (RecordingStatus.AVAILABLE, 30)


async def test_a_file_that_its_provider_lists_is_not_gone_whatever_its_address_says() -> None:
    one = await filmed_only(filmed("pagi", 60.0))
    for _ in range(8):
        one.town.studio.plan("open audio", FileGone())
        await one.town.work_on_recordings()()
        one.town.clock.advance(due_in_s(one) or 0.0)
    assert one.status() is RecordingStatus.MEASURING
    asked: list[str] = []
    fresh, content = filmed("pagi", 60.0)
    one.town.shelf.put(one.meeting.provider_meeting_id or "", (evolve(fresh, url="https://f/fresh"), content))
    one.town.shelf.opened = asked
    await one.measure()
    assert (one.status(), one.recording.duration_s) == (RecordingStatus.AVAILABLE, 60)
    assert asked == ["https://f/fresh"]


async def test_another_providers_recording_waits_for_it() -> None:
    one = await filmed_only()
    one.town.shelf.provider = "zoom"
    await one.town.work_on_recordings()()
    assert due_in_s(one) == 2.0
    assert one.town.studio.calls["open audio"] == 0
    await one.expire()
    await one.town.work_on_recordings()()
    assert one.recording.files
    assert one.town.studio.calls["remove"] == 0


async def test_a_fault_of_ours_is_raised_and_the_recording_comes_again() -> None:
    one = await filmed_only()
    one.town.studio.plan("measure", ZeroDivisionError())
    with pytest.RaisesGroup(ZeroDivisionError):
        await one.measure()
    assert due_in_s(one) == 2.0, "later and later, as what the provider keeps back"
    one.town.clock.advance(2.0)
    await one.measure()
    assert one.recording.status is RecordingStatus.AVAILABLE
    assert one.town.editor.open_files == 0


@pytest.mark.parametrize("point", range(1, 14))
async def test_wherever_a_worker_dies_a_recording_is_told_once(point: int) -> None:
    one = await filmed_only(auto_notulen=True)
    fuse = Fuse(point)
    try:
        await one.town.work_on_recordings(fuse)()
    except Died:
        lapse(one)
    else:
        assert fuse.burnt < point
    await one.measure()
    assert len(one.town.told(EventKind.RECORDING_READY)) == 1
    assert len(one.town.notes()) == 1
    one.prove()


async def test_a_recording_that_is_deleted_while_it_is_measured_stays_so() -> None:
    one = await notary(filmed("pagi", 60.0))
    await one.film(filmed("siang", 30.0, minutes_in=30))

    async def delete(call: str) -> None:
        if call == "measure" and one.recording.status is RecordingStatus.AVAILABLE:
            await one.delete()

    one.town.studio.during = delete
    await one.town.work_on_recordings()()
    assert one.recording.status is RecordingStatus.EXPIRED
    await one.measure()
    assert not any(file.url for file in one.recording.files)
    assert one.town.shelf.contents == {}


async def test_what_comes_while_files_are_removed_is_removed_next() -> None:
    one = await notary(filmed("rapat"))
    await one.delete()
    said, name = written("said", "A: ya"), one.meeting.provider_meeting_id or ""

    async def arrive(call: str) -> None:
        if call == "remove" and "said" not in one.town.shelf.contents:
            one.town.studio.during = None
            await one.film(said)

    one.town.studio.during = arrive
    await one.town.work_on_recordings()()
    assert [file.provider_file_id for file in one.recording.files if file.url] == ["said"]
    await one.measure()
    assert not any(file.url for file in one.recording.files)
    assert one.town.shelf.told[name] == ()
    assert one.town.shelf.contents == {}


async def test_what_nobody_told_of_is_removed_too() -> None:
    """The event that tells of a transcript may be lost."""
    one = await notary(filmed("rapat"))
    one.town.shelf.put(one.meeting.provider_meeting_id or "", written("said", "A: ya"))
    await one.delete()
    await one.measure()
    assert one.town.shelf.contents == {}
    assert due_in_s(one) is None


async def test_the_files_of_what_is_over_are_removed_at_the_provider() -> None:
    one = await notary(filmed("rapat"), written("said", "A: ya"))
    await one.delete()
    assert (one.recording.status, len(one.recording.files)) == (RecordingStatus.EXPIRED, 2)
    one.town.studio.plan("remove", None, FilesAway("x"))
    await one.measure()
    assert len(one.recording.files) == 2, "it is due until all of it is gone"
    assert due_in_s(one) == 2.0
    one.town.clock.advance(2)
    await one.measure()
    assert not any(file.url for file in one.recording.files)
    assert one.town.shelf.contents == {}
    assert due_in_s(one) is None
    await one.film(filmed("rapat"), filmed("susulan"))
    assert due_in_s(one) == 0, "what the provider makes later is removed, too"
    await one.measure()
    assert one.town.shelf.contents == {}
    assert one.status() is RecordingStatus.EXPIRED


# Notes that a meeting was made with


@pytest.mark.spec("4.1/1", "6/6")
async def test_a_meeting_that_was_made_with_notes_gets_them() -> None:
    one = await filmed_only(with_recording=False, auto_notulen=True)
    rings = one.town.notes_doorbell.rings
    await one.measure()
    assert one.note().status is NoteStatus.QUEUED
    assert one.town.notes_doorbell.rings > rings
    assert one.town.funds().held == 2
    await one.finish()
    (told,) = one.town.told(EventKind.NOTE_COMPLETED)
    assert told["recording_id"] == str(one.recording.id)
    one.prove()


async def test_what_is_measured_after_its_time_is_told_of_as_gone() -> None:
    one = await filmed_only(auto_notulen=True)
    one.town.clock.advance((one.recording.expires_at - one.town.now()).total_seconds())
    await one.measure()
    assert one.town.told(EventKind.RECORDING_READY) == []
    assert one.note().error == describe(NoteFault.RECORDING_GONE)
    (told,) = one.town.told(EventKind.NOTE_FAILED)
    assert told["error"] == one.note().error
    one.prove()


@pytest.mark.parametrize(
    ("town", "fault"),
    [
        ({"credits": 15}, NoteFault.SHORT_OF_CREDITS),
        ({"daily_cap": 16}, NoteFault.CAP_REACHED),
    ],
)
async def test_notes_that_cannot_be_paid_are_told_and_can_be_asked_for_later(town, fault: NoteFault) -> None:
    one = await filmed_only(auto_notulen=True, **town)
    await one.measure()
    assert (one.note().status, one.note().error) == (NoteStatus.FAILED, describe(fault))
    (told,) = one.town.told(EventKind.NOTE_FAILED)
    assert told["error"] == describe(fault)
    assert one.recording.status is RecordingStatus.AVAILABLE, "the recording itself is paid for"
    assert len(one.town.told(EventKind.RECORDING_READY)) == 1
    await one.town.operate.top_up(one.town.caller.account.id, 50, "INV-1")
    async with one.town.state.change() as tables:
        for id_, key in tables.keys.items():
            tables.keys[id_] = evolve(key, daily_cap=None)
    await one.ask()
    await one.finish()
    assert one.note(1).status is NoteStatus.COMPLETED
    one.prove()


async def test_notes_of_media_without_a_sound_are_told_to_be_impossible() -> None:
    one = await filmed_only(filmed("rapat", 0.0), auto_notulen=True)
    await one.measure()
    assert one.note().error == describe(NoteFault.MEDIA_UNREADABLE)
    one.prove()


async def test_a_transcript_that_comes_late_makes_no_second_note() -> None:
    one = await filmed_only(auto_notulen=True)
    await one.measure()
    await one.film(written("said", "A: ya"), filmed("siang", 30.0, minutes_in=30))
    await one.measure()
    assert len(one.town.notes()) == 1
    assert one.recording.files[0].kind is FileKind.AUDIO
