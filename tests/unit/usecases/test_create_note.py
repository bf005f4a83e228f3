"""Asking for notes: once for each intent, within funds and cap, for what can be seen."""

from __future__ import annotations

import pytest

from meetcore.domain.errors import IdempotencyKeyReused
from meetcore.domain.notes.notes import Language, NoteStatus
from meetcore.usecases.idempotency import Outcome
from tests.unit.usecases.fakes import recorded
from tests.unit.usecases.note_scenario import note_scenario


def code(outcome: Outcome) -> str:
    assert outcome.refusal is not None
    return outcome.refusal.code


async def test_a_note_is_queued_held_and_notified() -> None:
    one = await note_scenario(recorded("rapat", 61.0))
    notifications = one.harness.notes_notifier.notifications
    await one.ask(Language.ENGLISH)
    note = one.note()
    assert (note.status, note.language, note.duration_s) == (NoteStatus.QUEUED, Language.ENGLISH, 61)
    assert (note.recording_id, note.meeting_id) == (one.recording.id, one.meeting.id)
    assert one.harness.funds().held == 2
    assert one.harness.notes_notifier.notifications == notifications + 1
    one.prove()


@pytest.mark.spec("4/idem-replay", "4/idem-reused")
async def test_a_repeated_request_gets_the_first_answer() -> None:
    one = await note_scenario()
    first = await one.ask(key="k")
    again = await one.ask(key="k")
    assert (again.record, again.is_replay) == (first.record, True)
    assert len(one.harness.notes()) == 1
    with pytest.raises(IdempotencyKeyReused):
        await one.ask(Language.ENGLISH, key="k")
    one.prove()


@pytest.mark.spec("7/409")
async def test_a_second_note_in_one_language_conflicts() -> None:
    one = await note_scenario()
    await one.ask()
    assert code(await one.ask()) == "conflict"
    await one.finish()
    assert code(await one.ask()) == "conflict"
    await one.ask(Language.ENGLISH)
    assert len(one.harness.notes()) == 2
    one.prove()


async def test_a_missing_recording_has_no_notes() -> None:
    one = await note_scenario()
    for key in (None, "k"):
        assert code(await one.ask(of=str(one.meeting.id), key=key)) == "not_found"
        assert code(await one.ask(of="no id", key=key and "other")) == "not_found"


async def test_a_recording_being_measured_is_not_available_yet() -> None:
    one = await note_scenario()
    async with one.harness.state.change() as tables:
        tables.recordings.clear()
    await one.record(recorded("rapat"))
    assert code(await one.ask(of=one.recording.id)) == "not_found"


@pytest.mark.spec("7/410")
async def test_a_deleted_or_expired_recording_is_gone() -> None:
    for end in ("delete", "expire"):
        one = await note_scenario()
        await getattr(one, end)()
        assert code(await one.ask()) == "gone"
        assert one.harness.notes() == []


async def test_an_unaffordable_note_is_refused_and_can_be_requested_again_under_another_key() -> None:
    one = await note_scenario(credits=20)
    assert code(await one.ask(key="k")) == "insufficient_credits"
    await one.harness.administration.top_up(one.harness.caller.account.id, 10, "INV-1")
    assert (await one.ask(key="k")).is_replay, "a refusal that is final is the first result"
    await one.ask(key="another")
    assert one.harness.funds().held == 10
    one.prove()


async def test_a_keys_cap_counts_what_notes_hold() -> None:
    one = await note_scenario(daily_cap=30)
    await one.ask()
    assert code(await one.ask(Language.ENGLISH)) == "credit_cap_exceeded"
    await one.finish()
    assert [usage.used for usage in one.harness.usage()] == [25]
