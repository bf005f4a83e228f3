"""Waiting for notes: polled after growing pauses, until they are there, have failed, or time is up."""

from __future__ import annotations

import pytest

from meetcore.client import NoteFailed, NotFound, WaitTimedOut
from tests.client.samples import ID, note
from tests.client.scripted_server import Drop, answer, refusal
from tests.client.test_retries import Against

QUEUED, PROCESSING = answer(200, note(status="queued")), answer(200, note(status="processing"))
DONE, LOST = answer(200, note()), answer(200, note(status="failed", error="Too few credits."))


def listed(*notes: dict[str, object]) -> bytes:
    return answer(200, {"data": list(notes), "next_cursor": "more" if notes else None})


async def test_a_note_is_polled_until_it_is_completed(against: Against) -> None:
    trial = await against(QUEUED, PROCESSING, PROCESSING, DONE)
    found = await trial.invoke("notes.wait", ID)
    assert (found.status, found.summary) == ("completed", "Anggaran disetujui.")
    assert trial.waits.slept == [1.0, 1.5, 2.25]
    assert {request.target for request in trial.server.requests} == {f"/api/v1/notes/{ID}"}


async def test_a_note_that_is_there_is_not_waited_for(against: Against) -> None:
    trial = await against(DONE)
    assert (await trial.invoke("notes.wait", ID, timeout_s=0.001)).id == ID
    assert trial.waits.slept == []


async def test_the_pauses_grow_to_a_quarter_of_a_minute(against: Against) -> None:
    trial = await against(*[QUEUED] * 12, DONE)
    await trial.invoke("notes.wait", ID)
    pauses = trial.waits.slept
    assert pauses == sorted(pauses)
    assert pauses[-1] == 15.0


async def test_a_note_that_failed_is_raised_with_its_reason(against: Against) -> None:
    trial = await against(QUEUED, LOST)
    error = await trial.refused("notes.wait", ID)
    assert isinstance(error, NoteFailed)
    assert error.note is not None
    assert (str(error), error.note.status) == ("Too few credits.", "failed")


async def test_waiting_ends_at_its_deadline_with_a_last_look(against: Against) -> None:
    trial = await against(*[PROCESSING] * 9)
    error = await trial.refused("notes.wait", ID, timeout_s=6)
    assert isinstance(error, WaitTimedOut)
    assert error.note is not None
    assert error.note.status == "processing"
    assert trial.waits.slept == [1.0, 1.5, 2.25, 1.25]
    assert len(trial.server.requests) == 5


async def test_the_newest_note_of_a_meeting_may_be_yet_to_come(against: Against) -> None:
    trial = await against(listed(), listed(note(status="queued")), listed(note()))
    assert (await trial.invoke("notes.wait", meeting_id=ID)).status == "completed"
    assert {request.target for request in trial.server.requests} == {f"/api/v1/notes?limit=1&meeting_id={ID}"}


async def test_a_meeting_that_never_gets_notes_is_given_up(against: Against) -> None:
    trial = await against(*[listed()] * 4)
    error = await trial.refused("notes.wait", meeting_id=ID, timeout_s=3)
    assert (type(error), error.note) == (WaitTimedOut, None)


async def test_a_question_is_tried_again_like_any_read(against: Against) -> None:
    trial = await against(QUEUED, Drop(), DONE)
    assert (await trial.invoke("notes.wait", ID)).id == ID
    trial.server.then(refusal(404, "not_found"))
    assert isinstance(await trial.refused("notes.wait", ID), NotFound)


async def test_waits_that_cannot_be_meant_ask_nothing(against: Against) -> None:
    trial = await against()
    for wrong in ({}, {"note_id": ID, "meeting_id": ID}):
        with pytest.raises(ValueError, match="note_id or meeting_id"):
            await trial.invoke("notes.wait", **wrong)
    for seconds in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="above 0"):
            await trial.invoke("notes.wait", ID, timeout_s=seconds)
    assert trial.server.requests == []
