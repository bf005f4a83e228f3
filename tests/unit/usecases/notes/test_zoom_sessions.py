"""A meeting at Zoom that was left and entered again: one recording of all its sessions, removed whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import cast

import pytest

from meetcore.adapters.zoom.events import zoom_webhook_parser
from meetcore.domain.notes.recordings import RecordingStatus
from meetcore.testing.zoom_account import SCOPES
from tests.support.zoom_adapter import Zoom, zoom_at_hand
from tests.unit.usecases.application import ApplicationHarness
from tests.unit.usecases.fakes import RECORDED_AT, FakeRecordings
from tests.unit.usecases.note_scenario import NoteScenario

LENGTHS_S = (90.0, 30.0, 60.0, 15.0)
"""Of the sound of each session; a uuid of each form that Zoom has."""


@asynccontextmanager
async def held(*, reported: tuple[int, ...]) -> AsyncIterator[tuple[NoteScenario, Zoom]]:
    """A meeting that was held in four sessions, of which the events of these recordings came."""
    async with zoom_at_hand() as zoom:
        harness = ApplicationHarness()
        harness.provider = zoom.provider
        harness.fake_recordings = cast(FakeRecordings, zoom.provider.files)
        await harness.start()
        await harness.make(with_recording=True)
        one = NoteScenario(harness, harness.meetings()[0])
        harness.clock.set(one.meeting.start_at)
        (meeting,) = zoom.stand_in.meetings
        for number, length_s in enumerate(LENGTHS_S):
            uuid = zoom.stand_in.open_session(meeting.number)
            begin = RECORDED_AT + timedelta(minutes=5 * number)
            for kind, content in (("M4A", f"f{number} {length_s}"), ("CHAT", "hi"), ("TIMELINE", "[]")):
                file_id, end = f"{kind}-{number}", begin + timedelta(seconds=length_s)
                zoom.stand_in.record(meeting, file_id, kind, content.encode(), begin, end)
            del meeting.recording_files[-1]["id"]  # as Zoom lists it
            zoom.stand_in.close_session(uuid)
            if number in reported:
                webhook = zoom.stand_in.webhook("recording.completed", uuid, "secret", harness.now())
                event = zoom_webhook_parser("secret")(webhook.body, webhook.headers, harness.now()).event
                assert event is not None
                collect = harness.process().recordings.collect_files
                await collect("zoom", event.provider_meeting_id, event.files, harness.now())
        yield one, zoom


def left_at(zoom: Zoom) -> int:
    sessions = [each for meeting in zoom.stand_in.account.meetings.values() for each in meeting.sessions]
    return sum(len(each.recording_files) for each in sessions)


@pytest.mark.parametrize("reported", [(0, 1, 2, 3), (3,), (0,), (1, 2)])
async def test_a_recording_has_every_session_and_none_stays_at_zoom(reported: tuple[int, ...]) -> None:
    async with held(reported=reported) as (one, zoom):
        await one.measure()
        await one.harness.process().recordings.sync_files(one.recording)  # as at the meeting's end
        await one.measure()
        assert (one.status(), one.recording.duration_s) == (RecordingStatus.AVAILABLE, sum(LENGTHS_S))
        await one.delete()
        await one.measure()
        assert one.status() is RecordingStatus.EXPIRED
        assert left_at(zoom) == 0
        assert not any(file.url for file in one.recording.files)


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_files_of_known_sessions_are_removed_where_no_session_is_listed(is_deleted: bool) -> None:
    async with held(reported=(0, 1, 2, 3)) as (one, zoom):
        await one.measure()
        zoom.stand_in.meetings[0].is_deleted = is_deleted
        await one.delete()
        await one.measure()
        assert left_at(zoom) == 0


async def test_without_the_scope_to_delete_the_recording_stays_due_until_there_is_one() -> None:
    async with held(reported=(0, 3)) as (one, zoom):
        await one.measure()
        terms = zoom.stand_in.terms
        granted, terms.scopes = terms.scopes, SCOPES["recordings"] + " " + SCOPES["instances"]
        await one.delete()
        for _ in range(5):
            await one.measure()
            one.harness.clock.advance(60)
        assert one.status() is RecordingStatus.EXPIRED
        assert "M4A-0" in zoom.stand_in.account.contents
        assert (await one.harness.rig.figures.read()).recordings_not_removed == 1
        terms.scopes = granted
        await one.measure()
        assert left_at(zoom) == 0
        assert (await one.harness.rig.figures.read()).recordings_not_removed == 0
