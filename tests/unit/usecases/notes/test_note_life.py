"""A stateful machine of a recording and its notes: the ledger is correct after every step."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from meetcore.domain.errors import ServiceUnavailable
from meetcore.domain.notes.notes import Language, NoteStatus
from meetcore.domain.notes.recordings import RecordingStatus, needs_work
from meetcore.domain.notes.views import NoteTask
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.ai import AiRefused, AiUnavailable, EditingFailed, MediaUnreadable
from meetcore.ports.recording_files import FileGone, FilesUnavailable
from tests.support.postgres_rig import PostgresRig, rig_on_its_loop
from tests.unit.usecases.application import CrashPoint, SimulatedCrash
from tests.unit.usecases.fakes import recorded, written
from tests.unit.usecases.note_scenario import NoteScenario, expire_leases, note_scenario

CALLS = ("find", "open audio", "open transcript", "chunk", "measure", "cut", "transcribe", "write", "remove")
FAULTS: tuple[BaseException, ...] = (
    FilesUnavailable("x"), FileGone(), MediaUnreadable("x"), AiUnavailable("x"),
    AiUnavailable("x", 90.0), AiRefused("x"),
    EditingFailed("x"), ZeroDivisionError(), SimulatedCrash(),
)  # fmt: skip
# What a worker's task may end with, and the next one continues from.
ENDS = (
    SimulatedCrash,
    ZeroDivisionError,
    FilesUnavailable,
    FileGone,
    MediaUnreadable,
    AiUnavailable,
    AiRefused,
    ExceptionGroup,
)


class NoteMachine(RuleBasedStateMachine):
    """One recording, two languages, workers that die, providers that fail, a customer who deletes."""

    def __init__(self, runner: asyncio.Runner) -> None:
        super().__init__()
        self.runner = runner
        self.names = count()
        self.idle: list[NoteTask] = []

    def teardown(self) -> None:
        """Without further faults every request is finished."""
        self.one.harness.fault_plan.plans.clear()
        self.runner.run(self.one.finish())
        assert not [note for note in self.one.harness.notes() if note.status is NoteStatus.PROCESSING]
        assert self.one.harness.funds().held == 0

    def run(self, acting) -> None:
        """Let something happen, to whatever end."""
        with suppress(*ENDS):
            self.runner.run(acting)

    @initialize(credits=st.sampled_from([26, 40, 1000]), with_transcript=st.booleans())
    def record(self, credits: int, with_transcript: bool) -> None:
        """A meeting is recorded."""
        files = [recorded("first", 301.0), *([written("said", "A: halo")] if with_transcript else [])]
        self.one: NoteScenario = self.runner.run(note_scenario(*files, credits=credits))
        for language in Language:
            self.run(self.one.ask(language))

    @rule(language=st.sampled_from(Language))
    def ask(self, language: Language) -> None:
        """Ask for notes, in vain or not."""
        try:
            self.run(self.one.ask(language))
        except ServiceUnavailable:
            assert needs_work(self.one.recording), "it is put off while more of the recording is measured"

    @rule(call=st.sampled_from(CALLS), fault=st.sampled_from(FAULTS), skip=st.integers(0, 2))
    def plan(self, call: str, fault: BaseException, skip: int) -> None:
        """Let a call go wrong that is still to come."""
        self.one.harness.fault_plan.plan(call, *[None] * skip, fault)

    @rule(point=st.integers(1, 30))
    def die(self, point: int) -> None:
        """Work in a process that dies at some line."""
        self.run(self.one.work(self.one.harness.write_notes(CrashPoint(point))))

    @rule()
    def work(self) -> None:
        """Work on due notes."""
        self.run(self.one.work())

    @rule()
    def claim_and_delay(self) -> None:
        """Claim due notes in a slow worker."""
        self.idle += self.runner.run(self.one.harness.write_notes().claim(2))

    @rule()
    def wake_up(self) -> None:
        """Go on with what was taken long ago, whichever worker has it now."""
        while self.idle:
            self.run(self.one.harness.write_notes().work(self.idle.pop()))

    @rule(seconds=st.sampled_from([1, 10, 3600]))
    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.one.harness.clock.advance(seconds)

    @rule()
    def expire_leases(self) -> None:
        """Let every lease run out."""
        expire_leases(self.one)

    @rule(minutes_in=st.integers(10, 200))
    def go_on_recording(self, minutes_in: int) -> None:
        """Let the provider tell of one more segment."""
        name = f"more-{next(self.names)}"
        self.run(self.one.record(recorded(name, 61.0, minutes_in=minutes_in)))

    @rule()
    def measure(self) -> None:
        """Work on recordings."""
        self.run(self.one.harness.work_on_recordings()())

    @rule(how=st.sampled_from(["delete", "delete with notes", "expire"]))
    def end(self, how: str) -> None:
        """The customer deletes the recording, or its retention is over."""
        ending = self.one.expire() if how == "expire" else self.one.delete(with_notes=how != "delete")
        self.run(ending)

    @rule()
    def top_up(self) -> None:
        """The customer pays in."""
        account_id = self.one.harness.caller.account.id
        self.run(self.one.harness.administration.top_up(account_id, 20, f"INV-{next(self.names)}"))

    @invariant()
    def funds_match_the_notes(self) -> None:
        """Holds are those of notes in progress, no note is charged twice, each end was reported once."""
        one = self.one
        one.prove()
        notes = one.harness.notes()
        reported = Counter(event["id"] for event in one.harness.events_of(EventKind.NOTE_COMPLETED))
        reported += Counter(event["id"] for event in one.harness.events_of(EventKind.NOTE_FAILED))
        over = {str(note.id) for note in notes if note.status in (NoteStatus.COMPLETED, NoteStatus.FAILED)}
        assert reported == Counter(over), "each end is reported once, and an erased one not at all"
        notes_by_language = Counter(note.language for note in notes if note.status in _BLOCKING)
        assert set(notes_by_language.values()) <= {1}
        for note in notes:
            assert (note.charge_id is None) == (not note.credits_charged)
            assert note.status is not NoteStatus.COMPLETED or note.draft is not None
        if one.status() is RecordingStatus.EXPIRED:
            assert not one.harness.funds().held
            assert one.harness.count("transcript_chunks") == 0
        assert len(one.harness.events_of(EventKind.RECORDING_READY)) == 1


_BLOCKING = (NoteStatus.QUEUED, NoteStatus.PROCESSING, NoteStatus.COMPLETED)


@pytest.mark.hypothesis
def test_whatever_happens_notes_are_paid_once_and_none_is_lost(use_case_store: PostgresRig) -> None:
    plays = max(10, settings().max_examples // 5)
    with rig_on_its_loop(use_case_store) as runner:
        run_state_machine_as_test(
            cast(Any, partial(NoteMachine, runner)),
            settings=settings(max_examples=plays, stateful_step_count=30, deadline=None),
        )
