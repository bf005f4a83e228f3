"""An application with one recorded meeting, and the steps of tests on its notes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from attrs import define

from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.notes.notes import Language, Note
from meetcore.domain.notes.recordings import Recording, RecordingFile, RecordingStatus
from meetcore.domain.requests.idempotency import fingerprint
from meetcore.usecases.notes.note_charges import NoteRequest
from meetcore.usecases.notes.write_notes import WriteNotes
from meetcore.usecases.requests.idempotency import IdempotentRequest, Outcome
from tests.unit.usecases.application import LEASE_S, ApplicationHarness
from tests.unit.usecases.fakes import recorded

__all__ = ["NoteScenario", "note_asked", "note_scenario"]

File = tuple[RecordingFile, bytes]


@define(slots=False)
class NoteScenario:
    """One meeting, its recording, and the operations of a customer and of workers."""

    harness: ApplicationHarness
    meeting: Meeting

    async def record(self, *files: File) -> None:
        """Let the provider have files, and say so."""
        name = self.meeting.provider_meeting_id or ""
        self.harness.fake_recordings.put(name, *files)
        await self.harness.process().recordings.collect_files(
            "sandbox", name, [file for file, _ in files], self.harness.now()
        )

    async def measure(self) -> None:
        """Work on recordings until nothing is due."""
        for _ in range(20):
            if not await self.harness.work_on_recordings()():
                return
        raise AssertionError("there is no end of it")

    @property
    def recording(self) -> Recording:
        (recording,) = self.harness.recordings()
        return recording

    def status(self) -> RecordingStatus:
        return self.recording.status

    def note(self, place: int = 0) -> Note:
        """A note, by the order in which they were asked for."""
        return self.harness.notes()[place]

    async def ask(
        self, language: Language = Language.INDONESIAN, key: str | None = None, of: UUID | str | None = None
    ) -> Outcome:
        wanted = NoteRequest(str(of or self.recording.id), language)
        harness = self.harness
        request = IdempotentRequest(
            key, fingerprint("POST", "/api/v1/notes", [wanted.recording_id, language])
        )
        return await harness.process().api.create_note(harness.caller, wanted, request, harness.now())

    async def delete(self, *, with_notes: bool = False, key: str | None = None) -> Outcome:
        harness = self.harness
        request = IdempotentRequest(key, fingerprint("DELETE", "/api/v1/recordings", [with_notes]))
        return await harness.process().api.delete_recording(
            harness.caller, self.recording.id, request, harness.now(), with_notes=with_notes
        )

    async def expire(self) -> None:
        """Let the retention of the recording be over."""
        self.harness.write("UPDATE recordings SET expires_at = %(now)s", now=self.harness.now())
        await self.harness.process().recordings.expire()

    async def work(self, writing: WriteNotes | None = None) -> int:
        """Work once on every note that is due; how many there were."""
        writing = writing or self.harness.write_notes()
        tasks = await writing.claim(10)
        for task in tasks:
            await writing.work(task)
        return len(tasks)

    def due_in_s(self) -> float | None:
        """The seconds until a worker takes the first note that is in progress."""
        (row,) = self.harness.read("SELECT min(due_at) AS due_at FROM notes")
        return (row["due_at"] - self.harness.now()).total_seconds() if row["due_at"] else None

    async def finish(self, writing: WriteNotes | None = None, within: timedelta = timedelta(days=3)) -> None:
        """Let time pass and work until no note is in progress."""
        until = self.harness.now() + within
        while (wait_s := self.due_in_s()) is not None:
            assert self.harness.now() < until, "there is no end of it"
            self.harness.clock.advance(max(wait_s, 0.0))
            await self.measure()
            if not await self.work(writing):
                self.harness.clock.advance(1)  # it waits behind another note on its recording

    def prove(self) -> None:
        """Check the ledger: held is what the notes in progress hold, and each is charged at most once."""
        self.harness.prove()
        open_holds = self.harness.read("SELECT hold_id FROM notes WHERE due_at IS NOT NULL ORDER BY hold_id")
        holds = self.harness.read("SELECT id AS hold_id FROM ledger_holds ORDER BY id")
        assert open_holds == holds
        charges = [
            entry.transfer for entry in self.harness.entries() if entry.transfer.reference.type == "note"
        ]
        paid = {note.charge_id for note in self.harness.notes() if note.charge_id is not None}
        assert {transfer.id for transfer in charges} == paid
        assert len(charges) == len(paid)
        assert self.harness.editor.open_files == 0, "a file was left open"


async def note_scenario(
    *files: File, credits: int = 1000, daily_cap: int | None = None, **options: Any
) -> NoteScenario:
    """A meeting of 15 credits that was recorded and measured; of ten minutes where no file is given."""
    harness = await ApplicationHarness(credits=credits, daily_cap=daily_cap).start()
    body = {"with_recording": True, **options}
    await harness.make(**body)
    harness.write("UPDATE meetings SET status = 'ended'")
    (meeting,) = harness.meetings()
    one = NoteScenario(harness, meeting)
    await one.record(*(files or (recorded("rapat"),)))
    await one.measure()
    return one


async def note_asked(*files: File, **options: Any) -> NoteScenario:
    """A note asked for on such a meeting."""
    one = await note_scenario(*files, **options)
    await one.ask()
    return one


def expire_leases(one: NoteScenario) -> None:
    """Let every lease run out."""
    one.harness.clock.advance(LEASE_S + 1)
