"""Readers: programs of customers that ask for notes of their recordings, and delete some."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

from attrs import define, field

from meetcore.domain.notes.notes import Language
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.requests.idempotency import fingerprint
from meetcore.usecases.notes.note_charges import NoteRequest
from meetcore.usecases.requests.idempotency import IdempotentRequest, Outcome
from tests.simulation.customers import Customer
from tests.simulation.loop import Process


@define(eq=False)
class Reader:
    """Reads with the key of a customer, in English: notes that come with a meeting are in Indonesian.

    `noted` are the notes that were answered, `deleted` the sessions of deleted recordings by meeting.
    """

    customer: Customer
    noted: set[UUID] = field(factory=set)
    deleted: dict[str, set[str]] = field(factory=dict)
    asked: int = 0

    async def act(self, requests: int) -> None:
        """See to so many recordings, one after the other, as they come."""
        random, insist = self.customer.loop.random, self.customer.client.insist
        for _ in range(requests):
            await asyncio.sleep(random.expovariate(1 / 25))
            found = await insist(self._list)
            if isinstance(found, Sequence) and found:
                self.asked += 1
                await self._see_to(random.choice(sorted(found, key=lambda each: each.id)))

    async def _list(self, process: Process) -> Sequence[Recording]:
        lists = process.application.api.lists.since(None)
        found: Sequence[Recording] = await lists.list_recordings(self.customer.account.id, None, 50, None)
        return found

    async def _see_to(self, recording: Recording) -> None:
        drawn, name = self.customer.loop.random.random(), f"reading {self.asked} of {self.customer.name}"
        request = IdempotentRequest(name, fingerprint("POST", "/notes", str(recording.id)))

        async def note(process: Process) -> Outcome:
            wanted = NoteRequest(str(recording.id), Language.ENGLISH)
            return await self._ask(process, process.application.api.create_note, wanted, request)

        async def delete(process: Process) -> Outcome:
            work = process.application.api.delete_recording
            return await self._ask(process, work, recording.id, request, with_notes=drawn < 0.15)

        outcome = await self.customer.client.insist(delete if drawn < 0.3 else note)
        if not isinstance(outcome, Outcome) or outcome.refusal is not None:
            return
        if drawn < 0.3:
            sessions = {each.session_id for each in recording.files}
            self.deleted[str(recording.meeting_id)] = sessions
        elif outcome.record is not None:
            self.noted.add(UUID(str(outcome.record["id"])))
        self.customer.loop.note(f"{name} is answered")

    async def _ask(self, process: Process, work: object, *args: object, **named: object) -> Outcome:
        caller = await self.customer.find_caller(process)
        outcome: Outcome = await work(caller, *args, self.customer.loop.now(), **named)  # type: ignore[operator]
        return outcome
