"""What follows for a meeting that is over, and was sold with a recording: its notes, or its surcharge back.

The notes that it was sold with are queued when it is over and its recording is measured, whichever is later:
so that a test call alone gets no notes. Where no recording ever came, the customer gets
`note.failed` and what the recording cost.
"""

from attrs import frozen

from meetcore.domain.meetings import cancellation
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.meetings.views import NO_LEASE, LeaseView
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.notes import notes, recordings
from meetcore.ports import observability
from meetcore.ports.store import Transaction
from meetcore.usecases.notes.note_charges import NoteQueue
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.webhooks.events import events_of


@frozen
class ConcludeRecording:
    """Queues the notes of a meeting that is over, or gives up its recording, in the caller's transaction."""

    queue: NoteQueue
    runtime: Runtime

    async def __call__(self, tx: Transaction, meeting: Meeting, *, is_last: bool) -> int:
        """Take the account's lock and do what is due; return how many deliveries are due.

        `is_last`: the recording is not looked for again.
        """
        view = await tx.meetings.load_leased(meeting.account_id, meeting.id, NO_LEASE)
        if view is None or view.meeting.status is not MeetingStatus.ENDED:
            return 0
        recording = await tx.recordings.load(meeting.account_id, meeting.id)
        if recording is None:
            return await self._give_up(tx, view) if is_last else 0
        is_shown = recording.status is recordings.RecordingStatus.AVAILABLE
        if not (view.meeting.options.auto_notulen and is_shown):
            return 0
        if await tx.notes.load_of_recording(meeting.account_id, recording.id):
            return 0
        return await self.queue.add_for_meeting(tx, view.meeting, recording, self.runtime.now())

    async def _give_up(self, tx: Transaction, view: LeaseView) -> int:
        meeting, charge, now = view.meeting, view.charge, self.runtime.now()
        if charge is not None:
            new_id = self.runtime.new_id(now)
            done = cancellation.give_back_recording(
                meeting, charge, view.funds, view.usage, new_id, now, self.runtime.chain_key
            )
            if done.refund is not None:
                await tx.meetings.save_cancelled(view, done.meeting, done.refund, (), None)
                given_back = meeting.recording_credits
                observability.count_credits(self.runtime.metrics, TransferKind.MEETING_REFUND, given_back)
        if not meeting.options.auto_notulen:
            return 0
        note, fact = notes.fail_without_recording(
            self.runtime.new_id(now), meeting, notes.Language.INDONESIAN, now
        )
        self.queue.on_failed(note, notes.NoteFault.NO_RECORDING)
        return await tx.notes.save_refused(note, events_of(self.runtime, now, fact))
