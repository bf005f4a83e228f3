"""What a member reads of the account: each read checks the role first."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import date
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import Gone, NotFound
from meetcore.domain.meetings.meetings import VISIBLE, Meeting
from meetcore.domain.members.roles import Action, check_allowed, is_allowed
from meetcore.domain.money.ledger import Entry
from meetcore.domain.notes.notes import Note, NoteStatus
from meetcore.domain.notes.recordings import Recording
from meetcore.ports.dashboard_queries import DaySpending, KeyUse, TroubledEndpoint
from meetcore.ports.member_queries import SignedIn
from meetcore.ports.queries import MAX_PAGE, MeetingFilter, NoteFilter, Queries, TransactionFilter


@frozen
class MeetingDetails:
    """A meeting, what was recorded of it, and the notes of that; empty for a role that reads no notes."""

    meeting: Meeting
    recordings: Sequence[Recording]
    notes: Sequence[Note]


@frozen
class NoteDetails:
    """A note with its meeting and its recording, where they can still be read."""

    note: Note
    meeting: Meeting | None
    recording: Recording | None


@frozen
class MemberReads:
    """Reads of one account, by the role of who is signed in.

    Each raises `ActionNotAllowed` where the role does not allow it.
    """

    queries: Queries

    async def list_spending(self, who: SignedIn, first_day: date) -> Sequence[DaySpending]:
        """Spending by day; nothing for a role that does not read the ledger."""
        if not is_allowed(who.role, Action.VIEW_LEDGER):
            return []
        return await self.queries.list_spending(who.account.id, first_day)

    async def list_capped_keys(self, who: SignedIn, today: date) -> Sequence[KeyUse]:
        """The keys with a cap that are not revoked, with their use; none for a role that sees no keys."""
        if not is_allowed(who.role, Action.VIEW_KEYS):
            return []
        keys = await self.queries.list_key_use(who.account.id, today)
        return [use for use in keys if use.key.daily_cap is not None and use.key.revoked_at is None]

    async def list_troubled_endpoints(self, who: SignedIn) -> Sequence[TroubledEndpoint]:
        """Webhook endpoints that do not receive what they should; none for a role that sees no webhooks."""
        if not is_allowed(who.role, Action.VIEW_WEBHOOKS):
            return []
        return await self.queries.list_troubled_endpoints(who.account.id)

    async def list_last_meetings(self, who: SignedIn, wanted: MeetingFilter, limit: int) -> Sequence[Meeting]:
        """The newest meetings; none for a role that sees no meetings."""
        if not is_allowed(who.role, Action.VIEW_MEETINGS):
            return []
        return await self.list_meetings(who, wanted, limit, None)

    async def list_entries(
        self, who: SignedIn, wanted: TransactionFilter, limit: int, before: int | None
    ) -> Sequence[Entry]:
        """Entries of the ledger, the newest first; see `Queries.list_transactions`."""
        check_allowed(who.role, Action.VIEW_LEDGER)
        return await self.queries.list_transactions(who.account.id, wanted, limit, before)

    async def all_entries(self, who: SignedIn, wanted: TransactionFilter) -> AsyncIterator[Sequence[Entry]]:
        """Every entry, the newest first, page by page: no more than a page is in memory."""
        before: int | None = None
        while page := await self.list_entries(who, wanted, MAX_PAGE, before):
            yield page
            before = page[-1].number

    async def list_meetings(
        self, who: SignedIn, wanted: MeetingFilter, limit: int, before: UUID | None
    ) -> Sequence[Meeting]:
        """Meetings, the newest first; see `Queries.list_meetings`."""
        check_allowed(who.role, Action.VIEW_MEETINGS)
        return await self.queries.list_meetings(who.account.id, wanted, limit, before)

    async def find_meeting(self, who: SignedIn, meeting_id: UUID) -> MeetingDetails:
        """One meeting, with what was recorded of it.

        Raises:
            NotFound: the account has no such meeting.
        """
        check_allowed(who.role, Action.VIEW_MEETINGS)
        account_id = who.account.id
        meeting = await self.queries.find_meeting(account_id, meeting_id)
        if meeting is None or meeting.status not in VISIBLE:
            raise NotFound("No meeting with this id.")
        if not is_allowed(who.role, Action.MANAGE_MEETINGS):
            meeting = evolve(meeting, host_key=None)
        if not is_allowed(who.role, Action.VIEW_NOTES):
            return MeetingDetails(meeting, (), ())
        recordings = await self.queries.list_recordings(account_id, meeting_id, MAX_PAGE, None)
        notes = await self.queries.list_notes(account_id, NoteFilter(meeting_id=meeting_id), MAX_PAGE, None)
        return MeetingDetails(meeting, recordings, notes)

    async def list_notes(self, who: SignedIn, limit: int, before: UUID | None) -> Sequence[Note]:
        """Notes, the newest first; see `Queries.list_notes`."""
        check_allowed(who.role, Action.VIEW_NOTES)
        return await self.queries.list_notes(who.account.id, NoteFilter(), limit, before)

    async def find_note(self, who: SignedIn, note_id: UUID) -> NoteDetails:
        """One note.

        Raises:
            NotFound: the account has no such note.
            Gone: it was erased with its recording.
        """
        check_allowed(who.role, Action.VIEW_NOTES)
        note = await self.queries.find_note(who.account.id, note_id)
        if note is None:
            raise NotFound("No note with this id.")
        if note.status is NoteStatus.ERASED:
            raise Gone("This note was erased with its recording.")
        meeting, recording = await asyncio.gather(
            self.queries.find_meeting(who.account.id, note.meeting_id),
            self.queries.find_recording(who.account.id, note.recording_id),
        )
        return NoteDetails(note, meeting, recording)
