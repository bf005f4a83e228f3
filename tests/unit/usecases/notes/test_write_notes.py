"""Notes from the request to the charge: every step, every fault at every step, every takeover."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import date, timedelta
from functools import partial

import pytest
from attrs import evolve

from meetcore.adapters.settings import Settings
from meetcore.adapters.worker.workers import NoteWorker
from meetcore.domain.money.pricing import DEFAULT_TIERS, TierCatalogue
from meetcore.domain.notes.notes import Language, NoteFault, NoteStatus, NoteStep, describe
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.retry_schedule import NOTE_DELAYS_S
from meetcore.ports.ai import AiRefused, AiUnavailable, EditingFailed, MediaUnreadable
from meetcore.ports.recording_files import FileGone, FilesUnavailable
from meetcore.ports.store import StoreUnavailable
from meetcore.usecases.notes.note_charges import NoteRequest
from meetcore.usecases.notes.write_notes import MAX_LEASE_EXPIRATIONS, WriteNotes
from tests.unit.usecases.application import LEASE_S, SimulatedCrash, crash_points
from tests.unit.usecases.fakes import DUE, draft_of, grown, recorded, written
from tests.unit.usecases.note_scenario import File, NoteScenario, expire_leases, note_asked, note_scenario

pytestmark = pytest.mark.spec("1/notes")


def without_transcriber(one: NoteScenario) -> WriteNotes:
    """Where only the provider's transcripts can be had."""
    writing = one.harness.write_notes()
    return evolve(writing, transcribe=evolve(writing.transcribe, transcriber=None))


# Where the calls of a note that is heard go, in their order.
CALLS = ("find", "open audio", "chunk", "cut", "transcribe", "write")


async def test_a_note_is_transcribed_written_charged_by_the_media_and_reported() -> None:
    one = await note_asked(recorded("rapat", 601.0))
    assert one.harness.money() == (985, 11)
    assert await one.work() == 1
    note = one.note()
    assert (note.status, note.step, note.duration_s) == (NoteStatus.COMPLETED, NoteStep.SETTLE, 601)
    assert [utterance.text for utterance in note.transcript] == [
        "rapat 0-200",
        "rapat 200-401",
        "rapat 401-601",
    ]
    assert [utterance.at_s for utterance in note.transcript] == pytest.approx(
        [1.0, 201.333, 401.667], abs=0.001
    )
    assert note.draft is not None
    (item,) = note.draft.action_items
    assert (item.due, item.due_on) == (DUE, date(2026, 12, 22))
    assert evolve(note.draft, action_items=(evolve(item, due_on=None),)) == draft_of(
        note.transcript, Language.INDONESIAN
    )
    assert note.credits_charged == 11
    assert one.harness.money() == (974, 0)
    (event,) = one.harness.events_of(EventKind.NOTE_COMPLETED)
    assert (event["id"], event["duration"], event["status"]) == (str(note.id), 11, "completed")
    assert one.harness.events_of(EventKind.NOTE_FAILED) == []
    one.prove()


@pytest.mark.parametrize(("planned", "writer", "held", "charged"), [
    ("rules", "rules", 4, 4), ("a-model", "a-model", 6, 6), ("rules", "a-model", 4, 6),
    ("a-model", "rules", 6, 4),
])  # fmt: skip
async def test_the_price_held_is_of_who_will_write_and_the_charge_of_who_did(
    planned: str, writer: str, held: int, charged: int
) -> None:
    one = await note_scenario(recorded("rapat", 61.0))
    one.harness.scribe.name = writer
    prices = TierCatalogue.of(DEFAULT_TIERS.tiers.values(), 3, 2)
    process = one.harness.process(catalogue=prices, note_writer=planned)
    assert process.api.estimate.notulen(2).credits == held
    wanted, key = NoteRequest(str(one.recording.id)), one.harness.request_key(None)
    await process.api.create_note(one.harness.caller, wanted, key, one.harness.now())
    assert one.harness.money() == (985, held)
    assert process.notes is not None
    await one.work(process.notes.write)
    assert (one.note().written_by, one.note().credits_charged) == (writer, charged)
    assert one.harness.money() == (985 - charged, 0)
    (event,) = one.harness.events_of(EventKind.NOTE_COMPLETED)
    assert event["written_by"] == writer
    one.prove()


async def test_a_provider_transcript_is_not_transcribed_again() -> None:
    one = await note_asked(recorded("rapat"), written("said", "Dewi: kita pakai Postgres", "Budi: baik"))
    await one.work()
    assert [(utterance.speaker, utterance.text) for utterance in one.note().transcript] == [
        ("Dewi", "kita pakai Postgres"), ("Budi", "baik"),
    ]  # fmt: skip
    assert one.harness.fault_plan.calls["transcribe"] == one.harness.fault_plan.calls["cut"] == 0
    assert one.note().status is NoteStatus.COMPLETED
    one.prove()


async def test_a_pause_shifts_the_transcript_after_it() -> None:
    one = await note_scenario(
        recorded("pagi", 60.0), written("pagi-said", "A: satu"),
        recorded("siang", 90.0, minutes_in=30), written("siang-said", "B: dua", minutes_in=30),
    )  # fmt: skip
    await one.ask()
    await one.work()
    assert [(utterance.at_s, utterance.text) for utterance in one.note().transcript] == [
        (0.0, "satu"),
        (60.0, "dua"),
    ]
    assert one.note().credits_charged == 3


def said(one: NoteScenario) -> list[tuple[float, str | None, str]]:
    return [(utterance.at_s, utterance.speaker, utterance.text) for utterance in one.note().transcript]


def in_three_stretches() -> tuple[File, ...]:
    """Files of three stretches, of which the second has no transcript."""
    return (
        recorded("pagi", 60.0), written("pagi-said", "A: satu"), recorded("siang", 90.5, minutes_in=30),
        recorded("sore", 60.0, minutes_in=90), written("sore-said", "B: tiga", minutes_in=90),
    )  # fmt: skip


async def test_only_the_stretch_without_a_provider_transcript_is_transcribed() -> None:
    one = await note_asked(*in_three_stretches())
    await one.work()
    assert said(one) == [(0.0, "A", "satu"), (61.0, None, "siang 0-90"), (150.5, "B", "tiga")]
    assert one.harness.listener.transcribed == {"siang 0-90": 1}
    assert (one.note().left_out, one.note().credits_charged) == ((), 4)
    one.prove()


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        (
            Language.INDONESIAN,
            "Bagian rekaman dari 1:00 sampai 2:30 tidak termasuk dalam notulen ini, karena tidak ada "
            "transkripnya.",
        ),
        (
            Language.ENGLISH,
            "The part of the recording from 1:00 to 2:30 is not in these notes, because there is no "
            "transcript of it.",
        ),
    ],
)
async def test_without_a_transcriber_such_a_stretch_is_left_out_and_the_note_says_so(
    language: Language, sentence: str
) -> None:
    one = await note_scenario(*in_three_stretches())
    await one.ask(language)
    await one.work(without_transcriber(one))
    assert said(one) == [(0.0, "A", "satu"), (150.5, "B", "tiga")]
    note = one.note()
    assert note.draft is not None
    assert note.draft.summary == f"{draft_of(note.transcript, language).summary}\n{sentence}"
    assert note.left_out == ((60.0, 150.5),)
    assert (note.duration_s, note.credits_charged) == (120, 2), "what is left out is not paid for"
    one.prove()


async def test_a_note_of_a_transcript_whose_sound_cannot_be_read_costs_a_minute() -> None:
    one = await note_asked(
        recorded("pagi", 0.0), written("pagi-said", "A: satu"), recorded("siang", 90.0, minutes_in=30)
    )
    await one.work(without_transcriber(one))
    assert (one.note().error, one.note().credits_charged) == (None, 1)
    one.prove()


@pytest.mark.parametrize("call", ["transcribe", "cut", "open audio"])
async def test_a_stretch_that_cannot_be_transcribed_costs_the_others_nothing(call: str) -> None:
    one = await note_asked(*in_three_stretches())
    one.harness.listener.takes_copies = False
    faults = {"transcribe": AiRefused("x"), "cut": MediaUnreadable("x"), "open audio": FileGone()}
    one.harness.fault_plan.plan(call, faults[call])
    await one.work()
    assert said(one) == [(0.0, "A", "satu"), (150.5, "B", "tiga")]
    assert one.note().left_out == ((60.0, 150.5),)
    one.prove()


async def test_without_any_transcript_and_transcriber_there_is_no_note() -> None:
    for files in ((recorded("rapat"),), (recorded("rapat"), written("said"))):
        one = await note_asked(*files)
        await one.work(without_transcriber(one))
        assert one.note().error == describe(NoteFault.NO_TRANSCRIBER)
        one.prove()


async def test_a_silent_stretch_is_not_said_to_be_missing() -> None:
    one = await note_asked(
        recorded("pagi", 60.0), written("pagi-said", "A: satu"),
        recorded("siang", 90.0, minutes_in=30), written("siang-said", minutes_in=30),
    )  # fmt: skip
    await one.work(without_transcriber(one))
    assert (one.note().left_out, one.note().credits_charged) == ((), 3)
    assert said(one) == [(0.0, "A", "satu")]


@pytest.mark.parametrize("lines", [(), ("A: satu",)], ids=["empty", "missing"])
async def test_where_the_provider_has_no_transcript_it_is_transcribed_here(lines: tuple[str, ...]) -> None:
    one = await note_asked(recorded("rapat"), written("said", *lines))
    if lines:
        del one.harness.fake_recordings.contents["said"]
    await one.work()
    assert {utterance.speaker for utterance in one.note().transcript} == {None}
    assert one.note().status is NoteStatus.COMPLETED
    assert one.harness.fault_plan.calls["transcribe"] == 2


async def test_a_providers_transcript_is_waited_for_as_long_as_it_is_set(one: NoteScenario) -> None:
    writing = one.harness.write_notes(transcript_wait_s=90.0)
    await one.work(writing)
    assert (one.note().step, one.due_in_s()) == (NoteStep.FETCH, 60.0)
    one.harness.clock.advance(60)
    await one.work(writing)
    assert (one.due_in_s(), one.note().tries) == (30.0, 0), "waiting is no failure"
    name = one.meeting.provider_meeting_id or ""
    one.harness.fake_recordings.put(name, written("said", "A: akhirnya"))
    one.harness.clock.advance(30)
    await one.work(writing)
    assert [utterance.text for utterance in one.note().transcript] == ["akhirnya"]


async def test_a_waiting_note_asks_the_provider_less_and_less_often(one: NoteScenario) -> None:
    writing, begin = one.harness.write_notes(transcript_wait_s=1800.0), one.harness.now()
    asked = []
    while one.note().step is NoteStep.FETCH:
        one.harness.clock.advance(one.due_in_s() or 0.0)
        asked.append(round((one.harness.now() - begin).total_seconds() / 60))
        await one.work(writing)
    assert asked == [0, 1, 3, 7, 12, 17, 22, 27, 30]


async def test_a_transcript_that_comes_while_a_worker_holds_the_note_is_not_overlooked() -> None:
    one = await note_asked(
        recorded("pagi", 60.0), written("pagi-said", "A: satu"), recorded("siang", 60.0, minutes_in=30)
    )
    late = written("siang-said", "B: dua", minutes_in=30)

    one.harness.fault_plan.at_next("open transcript", partial(one.record, late))
    writing = one.harness.write_notes(transcript_wait_s=7200.0)
    await one.work(writing)
    assert (one.note().step, one.due_in_s()) == (NoteStep.FETCH, 0.0)
    await one.work(writing)
    assert [utterance.text for utterance in one.note().transcript] == ["satu", "dua"]
    one.prove()


@pytest.mark.parametrize("transcribes", [True, False])
async def test_a_transcript_twenty_minutes_after_the_media_gives_a_note_with_names_at_once(
    transcribes: bool,
) -> None:
    one = await note_scenario(auto_notulen=True)
    writing = one.harness.write_notes() if transcribes else without_transcriber(one)
    writing = evolve(writing, transcript_wait_s=Settings(provider="zoom").transcript_waited_s)
    for _ in range(20):
        one.harness.clock.advance(55)
        await one.work(writing)
        one.harness.clock.advance(5)
        assert (one.note().status, one.note().step) == (NoteStatus.PROCESSING, NoteStep.FETCH)
    await one.record(written("said", "Dewi, S.Kom.: kita pakai Postgres", "budi: baik"))
    assert one.due_in_s() == 0.0
    assert await one.work(writing) == 1
    assert said(one) == [(0.0, "Dewi, S.Kom.", "kita pakai Postgres"), (1.0, "budi", "baik")]
    assert one.note().status is NoteStatus.COMPLETED
    assert one.harness.fault_plan.calls["transcribe"] == 0
    one.prove()


async def test_after_the_wait_a_note_without_a_transcript_fails_or_is_transcribed() -> None:
    wait_s = Settings(provider="zoom").transcript_waited_s
    for transcribes in (True, False):
        one = await note_asked()
        since = one.recording.created_at
        writing = one.harness.write_notes() if transcribes else without_transcriber(one)
        await one.finish(evolve(writing, transcript_wait_s=wait_s))
        assert (one.harness.now() - since).total_seconds() == pytest.approx(1800, abs=3)
        assert one.note().error == (None if transcribes else describe(NoteFault.NO_TRANSCRIBER))


@pytest.mark.parametrize(("transcribes", "waited_s"), [(True, 1800.0), (False, 7200.0)])
async def test_without_a_transcriber_a_transcript_is_waited_for_twice_the_length_of_the_recording(
    transcribes: bool, waited_s: float
) -> None:
    one = await note_asked(recorded("rapat", 3600.0))
    since = one.recording.created_at
    writing = one.harness.write_notes() if transcribes else without_transcriber(one)
    writing = evolve(writing, transcript_wait_s=Settings(provider="zoom").transcript_waited_s)
    while one.note().step is NoteStep.FETCH and one.note().error is None:
        one.harness.clock.advance(one.due_in_s() or 0.0)
        await one.work(writing)
    assert (one.harness.now() - since).total_seconds() == pytest.approx(waited_s, abs=3)


async def test_a_transcript_makes_waiting_notes_due_and_no_others(one: NoteScenario) -> None:
    writing = one.harness.write_notes(transcript_wait_s=1800.0)
    await one.ask(Language.ENGLISH)
    for _ in range(2):
        await one.work(writing)
    assert one.due_in_s() == 60.0
    one.harness.clock.advance(60)
    (first,) = await writing.claim(1)
    await one.record(written("said", "A: ya"))
    due = one.harness.read("SELECT due_at FROM notes ORDER BY due_at DESC")[0]["due_at"]
    assert (due - one.harness.now()).total_seconds() == LEASE_S, "it is in the hands of a worker"
    await writing.work(first)
    await one.work(writing)
    assert [note.status for note in one.harness.notes()] == [NoteStatus.COMPLETED] * 2
    await one.record(written("said", "A: ya", "B: tidak"))
    assert one.due_in_s() is None, "what is over is not made twice"
    assert await one.work(writing) == 0


async def test_a_transcript_reaches_a_note_that_waits_for_the_ai_provider(one: NoteScenario) -> None:
    one.harness.fault_plan.plan("transcribe", AiUnavailable("x", 3000.0))
    await one.work()
    await one.record(written("said", "A: ya"))
    await one.work()
    assert said(one) == [(0.0, "A", "ya")]


async def test_a_late_stretch_has_its_own_wait() -> None:
    one = await note_scenario(recorded("pagi", 60.0), written("pagi-said", "A: satu"))
    late = recorded("siang", 60.0, minutes_in=200)
    one.harness.clock.advance((late[0].ends_at - one.harness.now()).total_seconds() + 600)
    await one.record(late)
    await one.measure()
    await one.ask()
    writing = one.harness.write_notes(transcript_wait_s=1800.0)
    await one.work(writing)
    assert one.note().step is NoteStep.FETCH
    await one.finish(writing)
    assert (one.harness.now() - late[0].ends_at).total_seconds() == pytest.approx(1800, abs=3)


async def test_silence_makes_no_note_and_costs_nothing() -> None:
    one = await note_scenario()
    one.harness.listener.is_deaf = True
    await one.ask()
    await one.work()
    assert (one.note().status, one.note().error) == (NoteStatus.FAILED, describe(NoteFault.NO_SPEECH))
    assert one.harness.fault_plan.calls["write"] == 0
    assert one.harness.money() == (985, 0)
    one.prove()


PASSING = [
    (call, fault, fault_code)
    for call, fault, fault_code in [
        ("find", FilesUnavailable("x"), NoteFault.FILES_UNAVAILABLE),
        ("open audio", FilesUnavailable("x"), NoteFault.FILES_UNAVAILABLE),
        ("chunk", FilesUnavailable("x"), NoteFault.FILES_UNAVAILABLE),
        ("transcribe", AiUnavailable("x"), NoteFault.AI_UNAVAILABLE),
        ("write", AiUnavailable("x"), NoteFault.AI_UNAVAILABLE),
        ("cut", ZeroDivisionError(), NoteFault.FAULT_HERE),
        ("transcribe", ZeroDivisionError(), NoteFault.FAULT_HERE),
        ("write", ZeroDivisionError(), NoteFault.FAULT_HERE),
        ("cut", EditingFailed("x"), NoteFault.FAULT_HERE),
    ]
]
names = [f"{call}-{type(fault).__name__}" for call, fault, _ in PASSING]


async def work_with_fault(one: NoteScenario, fault: Exception) -> None:
    """Work once; a fault of ours is for the worker to log."""
    if isinstance(fault, ZeroDivisionError):
        with pytest.raises(ZeroDivisionError):
            await one.work()
    else:
        await one.work()


@pytest.mark.parametrize(("call", "fault", "fault_code"), PASSING, ids=names)
async def test_temporary_faults_are_retried_by_the_schedule_until_success(
    call: str, fault: Exception, fault_code: NoteFault, one: NoteScenario
) -> None:
    for turn, delay_s in enumerate(NOTE_DELAYS_S[:3]):
        one.harness.fault_plan.plan(call, fault)
        await work_with_fault(one, fault)
        assert (one.note().status, one.note().tries) == (NoteStatus.PROCESSING, turn + 1)
        wait_s = one.due_in_s() or 0.0
        assert delay_s <= wait_s <= delay_s * 1.2
        assert await one.work() == 0, "it is not due"
        one.harness.clock.advance(wait_s)
    await one.work()
    assert (one.note().status, one.note().tries) == (NoteStatus.COMPLETED, 0)
    one.prove()


@pytest.mark.parametrize(("call", "fault", "fault_code"), PASSING, ids=names)
async def test_a_lasting_temporary_fault_ends_the_note_free_of_charge(
    call: str, fault: Exception, fault_code: NoteFault, one: NoteScenario
) -> None:
    since = one.harness.now()
    tries = 0
    one.harness.fault_plan.plan(call, *[fault] * 50)
    while one.note().status is not NoteStatus.FAILED:
        await work_with_fault(one, fault)
        tries += 1
        assert tries <= len(NOTE_DELAYS_S) + 1
        one.harness.clock.advance(one.due_in_s() or 0.0)
    assert tries == len(NOTE_DELAYS_S) + 1
    assert one.harness.now() - since <= timedelta(hours=14)
    assert one.note().error == describe(fault_code)
    assert one.harness.money() == (985, 0)
    (event,) = one.harness.events_of(EventKind.NOTE_FAILED)
    assert event["error"] == describe(fault_code)
    one.prove()


@pytest.mark.parametrize(("call", "fault", "fault_code"), [
    ("transcribe", AiRefused("x"), NoteFault.AI_REFUSED),
    ("write", AiRefused("x"), NoteFault.AI_REFUSED),
    ("cut", MediaUnreadable("x"), NoteFault.MEDIA_UNREADABLE),
    ("open audio", FileGone(), NoteFault.RECORDING_GONE),
])  # fmt: skip
async def test_a_permanent_fault_ends_the_note_at_once(
    call: str, fault: Exception, fault_code: NoteFault, one: NoteScenario
) -> None:
    one.harness.listener.takes_copies = False
    one.harness.fault_plan.plan(call, fault)
    await one.work()
    assert (one.note().status, one.note().error) == (NoteStatus.FAILED, describe(fault_code))
    assert one.harness.funds().held == 0
    one.prove()
    await one.ask()
    await one.work()
    assert one.note(1).status is NoteStatus.COMPLETED, "it may be asked for again"


async def test_a_retry_after_of_the_ai_provider_is_respected(one: NoteScenario) -> None:
    one.harness.fault_plan.plan("transcribe", AiUnavailable("busy", 77.2))
    await one.work()
    assert one.due_in_s() == 78.0
    one.harness.clock.advance(78)
    one.harness.fault_plan.plan("write", AiUnavailable("busy", 0.1))
    await one.work()
    assert 5 <= (one.due_in_s() or 0) <= 6, "no sooner than the schedule says"


async def test_a_successful_step_resets_the_failure_count(one: NoteScenario) -> None:
    one.harness.fault_plan.plan("transcribe", AiUnavailable("x"), AiUnavailable("x"), None, None)
    one.harness.fault_plan.plan("write", AiUnavailable("x"))
    for _ in range(3):
        await one.work()
        one.harness.clock.advance(one.due_in_s() or 0.0)
    assert (one.note().step, one.note().tries) == (NoteStep.WRITE, 1)


async def test_a_resumed_note_transcribes_no_piece_twice() -> None:
    one = await note_asked(recorded("rapat", 1500.0))
    one.harness.fault_plan.plan("transcribe", None, None, AiUnavailable("x"), None, SimulatedCrash())
    await one.work()
    assert one.harness.listener.transcribed.total() == 2
    one.harness.clock.advance(one.due_in_s() or 0.0)
    with pytest.raises(SimulatedCrash):
        await one.work()
    expire_leases(one)
    await one.work()
    assert one.note().status is NoteStatus.COMPLETED
    assert set(one.harness.listener.transcribed.values()) == {1}
    assert one.harness.listener.transcribed.total() == 5
    assert one.harness.fault_plan.calls["open audio"] == 1 + 3, "measured, and fetched by each who went on"


async def test_a_resumed_note_writes_no_part_twice(one: NoteScenario) -> None:
    one.harness.scribe.parts = 5
    one.harness.fault_plan.plan("part", None, None, AiUnavailable("x"), None, SimulatedCrash())
    await one.work()
    assert (one.note().step, one.note().tries) == (NoteStep.WRITE, 1)
    assert [name for name, _ in one.note().parts] == ["0", "1"]
    one.harness.clock.advance(one.due_in_s() or 0.0)
    with pytest.raises(SimulatedCrash):
        await one.work()
    expire_leases(one)
    await one.work()
    assert (one.note().status, one.note().parts) == (NoteStatus.COMPLETED, ())
    assert one.harness.fault_plan.calls["part"] == 5 + 2
    one.prove()


async def test_parts_that_are_kept_reset_the_retry_schedule(one: NoteScenario) -> None:
    one.harness.scribe.parts = 2 * len(NOTE_DELAYS_S)
    one.harness.fault_plan.plan("part", *[None, AiUnavailable("busy")] * 2 * len(NOTE_DELAYS_S))
    await one.finish(within=timedelta(days=1))
    assert one.note().status is NoteStatus.COMPLETED
    assert one.harness.fault_plan.calls["part"] > len(NOTE_DELAYS_S) + one.harness.scribe.parts


async def test_a_failed_note_keeps_no_part(one: NoteScenario) -> None:
    one.harness.scribe.parts = 2
    one.harness.fault_plan.plan("part", None, AiRefused("x"))
    await one.work()
    assert (one.note().status, one.note().parts) == (NoteStatus.FAILED, ())
    assert one.harness.read("SELECT content FROM notes") == [{"content": None}]


async def take_over(one: NoteScenario) -> None:
    """Let another worker have the note, whose lease has run out."""
    expire_leases(one)
    assert await one.work() == 1


async def test_a_part_of_a_lost_lease_is_not_kept(one: NoteScenario) -> None:
    one.harness.scribe.parts = 2
    one.harness.fault_plan.at_next("part", partial(take_over, one))
    await one.work()
    assert one.note().status is NoteStatus.COMPLETED
    assert one.harness.fault_plan.calls["part"] == 3
    one.prove()


async def test_progress_resets_the_retry_schedule() -> None:
    """An endpoint that refuses after every second piece takes more tries than the schedule has."""
    one = await note_asked(recorded("rapat", 300.0 * 4 * len(NOTE_DELAYS_S)))
    one.harness.fault_plan.plan("transcribe", *[None, None, AiUnavailable("busy")] * 2 * len(NOTE_DELAYS_S))
    await one.finish(within=timedelta(days=1))
    assert one.note().status is NoteStatus.COMPLETED
    assert set(one.harness.listener.transcribed.values()) == {1}
    assert one.harness.fault_plan.calls["transcribe"] - one.harness.listener.transcribed.total() > len(
        NOTE_DELAYS_S
    )
    one.prove()


async def test_two_languages_share_one_transcription() -> None:
    one = await note_scenario()
    for language in Language:
        await one.ask(language)
    await one.finish()
    assert [note.status for note in one.harness.notes()] == [NoteStatus.COMPLETED] * 2
    assert set(one.harness.listener.transcribed.values()) == {1}
    assert one.note(0).transcript == one.note(1).transcript
    assert one.note(0).draft != one.note(1).draft
    assert one.harness.funds().balance == 985 - 20
    one.prove()


@pytest.mark.parametrize("language", Language)
async def test_the_transcriber_is_told_the_language_of_the_note(language: Language) -> None:
    one = await note_scenario()
    await one.ask(language)
    await one.finish()
    assert one.harness.listener.languages == {language}


async def test_a_transcriber_that_refuses_the_original_gets_encoded_audio_from_then_on() -> None:
    one = await note_asked(recorded("rapat", 900.0))
    one.harness.listener.reads_copies = False
    await one.finish()
    assert one.note().status is NoteStatus.COMPLETED
    assert one.harness.listener.refused == {"rapat 0-300": 1}
    assert one.harness.listener.transcribed == {"rapat 0-300": 1, "rapat 300-600": 1, "rapat 600-900": 1}
    assert one.harness.editor.open_files == 0


async def test_a_refusal_of_encoded_audio_is_final() -> None:
    for takes_copies, calls in ((True, 2), (False, 1)):
        one = await note_scenario()
        await one.ask()
        one.harness.listener.takes_copies = takes_copies
        one.harness.fault_plan.plan("transcribe", AiRefused("no"), AiRefused("no"))
        await one.finish()
        assert one.note().status is NoteStatus.FAILED
        assert one.harness.fault_plan.calls["transcribe"] == calls


async def test_nothing_of_an_older_cut_is_mixed_with_a_newer_one() -> None:
    one = await note_asked(recorded("rapat", 600.0))
    one.harness.fault_plan.plan("transcribe", None, AiUnavailable("x"))
    await one.work()
    one.harness.listener.max_piece_s = 200
    await one.finish()
    utterance = [utterance.text for utterance in one.note().transcript]
    assert utterance == ["rapat 0-200", "rapat 200-400", "rapat 400-600"]


async def test_after_a_worker_crash_at_any_point_the_note_is_made_and_paid_once() -> None:
    for point in crash_points():
        one = await note_asked()
        with suppress(SimulatedCrash):
            await one.work(one.harness.write_notes(point))
        expire_leases(one)
        await one.finish()
        assert one.note().status is NoteStatus.COMPLETED
        assert len(one.harness.events_of(EventKind.NOTE_COMPLETED)) == 1
        assert set(one.harness.listener.transcribed.values()) <= {1, 2}
        one.prove()


async def test_a_note_that_kills_its_workers_is_given_up(one: NoteScenario) -> None:
    one.harness.fault_plan.plan("transcribe", *[SimulatedCrash()] * (MAX_LEASE_EXPIRATIONS + 5))
    for _ in range(MAX_LEASE_EXPIRATIONS):
        with pytest.raises(SimulatedCrash):
            await one.work()
        assert await one.work() == 0, "its lease lasts"
        expire_leases(one)
    await one.work()
    assert (one.note().status, one.note().error) == (NoteStatus.FAILED, describe(NoteFault.FAULT_HERE))
    one.prove()


async def test_workers_that_die_over_a_note_that_comes_on_do_not_end_it() -> None:
    one = await note_asked(recorded("rapat", 600.0))
    one.harness.listener.max_piece_s = 200
    for call, faults in (("transcribe", (None, SimulatedCrash())), ("write", (SimulatedCrash(),))):
        one.harness.fault_plan.plan(call, *faults)
        one.harness.read(
            "UPDATE notes SET lease_expirations = %(n)s RETURNING id", n=MAX_LEASE_EXPIRATIONS - 2
        )
        with pytest.raises(SimulatedCrash):
            await one.work()
        [row] = one.harness.read("SELECT lease_expirations FROM notes")
        assert row["lease_expirations"] == 0, "a piece, or a step, was kept"
        expire_leases(one)
    await one.finish()
    assert one.note().status is NoteStatus.COMPLETED
    one.prove()


@pytest.mark.parametrize("call", CALLS)
async def test_a_worker_that_lost_the_lease_leaves_the_note_to_the_next(call: str, one: NoteScenario) -> None:
    one.harness.fault_plan.at_next(call, partial(take_over, one))
    await one.work()
    assert one.harness.fault_plan.during is None, "it was taken over"
    assert one.note().status is NoteStatus.COMPLETED
    assert len(one.harness.events_of(EventKind.NOTE_COMPLETED)) == 1
    one.prove()


@pytest.mark.parametrize(("call", "with_notes"), [*((call, False) for call in CALLS), ("write", True)])
async def test_a_recording_that_is_deleted_in_any_step_ends_its_notes(call: str, with_notes: bool) -> None:
    one = await note_asked()
    one.harness.fault_plan.at_next(call, partial(one.delete, with_notes=with_notes))
    await one.work()
    assert one.note().status is (NoteStatus.ERASED if with_notes else NoteStatus.FAILED)
    assert (one.note().draft, one.note().transcript) == (None, ())
    assert one.harness.count("transcript_chunks") == 0
    assert one.harness.money() == (985, 0)
    assert len(one.harness.events_of(EventKind.NOTE_FAILED)) == (0 if with_notes else 1)
    one.prove()


async def test_a_worker_that_is_cancelled_gives_its_note_back_at_once(one: NoteScenario) -> None:
    reached = asyncio.Event()

    async def hang(name: str) -> None:
        if name == "write" and not reached.is_set():
            reached.set()
            await asyncio.Event().wait()

    one.harness.fault_plan.during = hang
    working = asyncio.create_task(one.work())
    await reached.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert (one.due_in_s(), one.note().step) == (0.0, NoteStep.WRITE)
    await one.work()
    assert one.note().status is NoteStatus.COMPLETED
    assert one.harness.fault_plan.calls["transcribe"] == 2
    one.prove()


async def test_a_worker_that_is_stopped_while_it_claims_a_note_gives_it_back_at_once(
    one: NoteScenario,
) -> None:
    class Stopped(NoteWorker):
        async def _claim(self) -> bool:
            self.stop()
            return await super()._claim()

    await Stopped(one.harness.write_notes(), []).run()
    assert (one.due_in_s(), one.note().status) == (0.0, NoteStatus.PROCESSING)


async def test_a_worker_cancelled_while_the_store_is_unavailable_is_still_cancelled() -> None:
    one = await note_asked()
    reached = asyncio.Event()

    async def hang(name: str) -> None:
        if name == "write":
            reached.set()
            await asyncio.Event().wait()

    one.harness.fault_plan.during = hang
    writing = one.harness.write_notes()
    (task,) = await writing.claim(1)
    unavailable = evolve(writing, store=Unavailable(one.harness.store))
    working = asyncio.create_task(unavailable.work(task))
    await reached.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert one.due_in_s() == LEASE_S, "it comes when the lease runs out"


class Unavailable:
    """A store that opens single calls, and no transaction any more."""

    def __init__(self, store) -> None:
        self.at_once = store.at_once

    def begin(self):
        raise StoreUnavailable("away")


async def test_a_lease_is_kept_while_a_call_takes_long(one: NoteScenario) -> None:
    renewed = asyncio.Event()

    async def linger(name: str) -> None:
        if name == "write":
            one.harness.clock.advance(15)
            async with asyncio.timeout(10):
                while one.due_in_s() != 0.02:  # noqa: ASYNC110  # a renewal tells nobody
                    await asyncio.sleep(0)
            renewed.set()

    one.harness.fault_plan.during = linger
    await one.work(one.harness.write_notes(lease_s=0.02))
    assert renewed.is_set()
    assert one.note().status is NoteStatus.COMPLETED


async def test_a_recording_that_grew_is_measured_before_transcription_and_paid_whole() -> None:
    first = recorded("rapat", 60.0)
    one = await note_asked(first)
    one.harness.fake_recordings.put(one.meeting.provider_meeting_id or "", grown(first, 300.0))
    await one.work()
    assert one.note().step is NoteStep.FETCH
    await one.finish()
    assert [utterance.text for utterance in one.note().transcript] == ["rapat 0-300"]
    assert (one.note().duration_s, one.note().credits_charged) == (300, 5)
    one.prove()


async def test_a_file_that_stays_unavailable_is_not_waited_for_for_ever() -> None:
    one = await note_asked(recorded("pagi", 60.0))
    one.harness.fake_recordings.put(
        one.meeting.provider_meeting_id or "", recorded("siang", 60.0, minutes_in=30)
    )
    one.harness.fault_plan.plan("open audio", *[FilesUnavailable("x")] * 500)
    await one.finish()
    assert one.note().error == describe(NoteFault.FILES_UNAVAILABLE)
    measuring = one.harness.fault_plan.calls["open audio"]
    calls = one.harness.fault_plan.calls["find"] - measuring
    assert calls <= len(NOTE_DELAYS_S) + 1, "the provider is not asked without end"
    one.prove()


async def test_a_recording_that_grows_between_two_steps_is_paid_as_transcribed() -> None:
    one = await note_asked(recorded("pagi", 60.0))
    one.harness.fault_plan.plan("transcribe", AiUnavailable("x"))
    await one.work()
    assert one.note().step is NoteStep.TRANSCRIBE
    await one.record(recorded("siang", 120.0, minutes_in=30))
    await one.measure()
    await one.finish()
    assert [utterance.text for utterance in one.note().transcript] == ["pagi 0-60", "siang 0-120"]
    assert (one.note().duration_s, one.note().credits_charged) == (180, 3)


async def test_media_that_turns_out_to_be_none_ends_the_note() -> None:
    first = recorded("rapat", 60.0)
    one = await note_asked(first, written("said", "A: halo"))
    broken = evolve(first[0], size_bytes=999), b"no-medium"
    await one.record(broken)
    await one.measure()
    await one.work()
    assert one.note().error == describe(NoteFault.MEDIA_UNREADABLE)
    one.prove()


async def test_a_charge_larger_than_its_hold_may_make_the_balance_negative() -> None:
    one = await note_asked(recorded("pagi", 60.0), credits=16)
    assert one.harness.money() == (1, 1)
    await one.record(recorded("siang", 180.0, minutes_in=30))
    await one.measure()
    await one.finish()
    assert one.note().credits_charged == 4
    assert one.harness.money() == (-3, 0)
    one.prove()


async def test_an_unavailable_store_costs_no_attempt(one: NoteScenario) -> None:
    one.harness.fault_plan.plan("write", StoreUnavailable("x"))
    with pytest.raises(StoreUnavailable):
        await one.work()
    assert (one.note().tries, one.note().step) == (0, NoteStep.WRITE)
    expire_leases(one)
    await one.finish()
    assert one.note().status is NoteStatus.COMPLETED
