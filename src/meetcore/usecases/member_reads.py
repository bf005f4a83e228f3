"""What a member reads of the account: each read checks the role first."""

from collections.abc import AsyncIterator, Sequence
from datetime import date
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import Gone
from meetcore.domain.meetings.meetings import VISIBLE, Meeting
from meetcore.domain.members.roles import Action, check_allowed, is_allowed
from meetcore.domain.money.ledger import Entry
from meetcore.domain.notes.notes import NoteStatus
from meetcore.domain.requests.request_log import LoggedRequest
from meetcore.ports.dashboard_queries import MeetingDetails, NoteDetails, Overview, TitledNote
from meetcore.ports.member_queries import SignedIn
from meetcore.ports.queries import MAX_PAGE, EntriesOfKey, MeetingFilter, Queries, TransactionFilter
from meetcore.ports.request_log import RequestFilter
from meetcore.usecases.missing import missing


@frozen
class MemberReads:
    """Reads of one account, by the role of who is signed in.

    Each raises `ActionNotAllowed` where the role does not allow it.
    """

    queries: Queries

    async def find_overview(self, who: SignedIn, first_day: date, today: date) -> Overview:
        """What the first page shows, without the parts that the role does not see."""
        found = await self.queries.find_overview(who.account.id, first_day, today)
        return Overview(
            found.spending if is_allowed(who.role, Action.VIEW_LEDGER) else (),
            found.capped_keys if is_allowed(who.role, Action.VIEW_KEYS) else (),
            found.troubled if is_allowed(who.role, Action.VIEW_WEBHOOKS) else (),
            found.low_threshold,
        )

    async def list_last_meetings(self, who: SignedIn, wanted: MeetingFilter, limit: int) -> Sequence[Meeting]:
        """The newest meetings; none for a role that sees no meetings."""
        if not is_allowed(who.role, Action.VIEW_MEETINGS):
            return []
        return await self.list_meetings(who, wanted, limit, None)

    async def list_requests(
        self, who: SignedIn, wanted: RequestFilter, limit: int, before: UUID | None
    ) -> Sequence[LoggedRequest]:
        """Requests of the account's keys, the newest first; see `Queries.list_requests`."""
        check_allowed(who.role, Action.VIEW_REQUESTS)
        return await self.queries.list_requests(who.account.id, wanted, limit, before)

    async def find_request(self, who: SignedIn, request_id: UUID) -> LoggedRequest | None:
        """A request of the account's, if it is kept."""
        check_allowed(who.role, Action.VIEW_REQUESTS)
        return await self.queries.find_request(who.account.id, request_id)

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

    async def list_entries_of_key(
        self, who: SignedIn, key_id: UUID, wanted: TransactionFilter, limit: int, before: int | None
    ) -> EntriesOfKey:
        """Entries that one key caused; see `Queries.list_entries_of_key`."""
        check_allowed(who.role, Action.VIEW_LEDGER)
        return await self.queries.list_entries_of_key(who.account.id, key_id, wanted, limit, before)

    async def all_entries_of_key(
        self, who: SignedIn, key_id: UUID, wanted: TransactionFilter
    ) -> AsyncIterator[Sequence[Entry]]:
        """Every entry that one key caused, the newest first; no more than a page is in memory."""
        before: int | None = None
        while True:
            page = await self.list_entries_of_key(who, key_id, wanted, MAX_PAGE, before)
            if page.entries:
                yield page.entries
            before = page.entries[-1].number if len(page.entries) == MAX_PAGE else page.reached
            if before is None:
                return

    async def list_meetings(
        self, who: SignedIn, wanted: MeetingFilter, limit: int, before: UUID | None
    ) -> Sequence[Meeting]:
        """Meetings, the newest first; see `Queries.list_meetings`."""
        check_allowed(who.role, Action.VIEW_MEETINGS)
        return await self.queries.list_meetings(who.account.id, wanted, limit, before)

    async def find_meeting(self, who: SignedIn, meeting_id: UUID) -> MeetingDetails:
        """One meeting, with what was recorded of it for a role that reads notes.

        Raises:
            NotFound: the account has no such meeting.
            Gone: it was removed past its retention.
        """
        check_allowed(who.role, Action.VIEW_MEETINGS)
        if is_allowed(who.role, Action.VIEW_NOTES):
            found = await self.queries.find_meeting_details(who.account.id, meeting_id)
        else:
            meeting = await self.queries.find_meeting(who.account.id, meeting_id)
            found = None if meeting is None else MeetingDetails(meeting)
        if found is None or found.meeting.status not in VISIBLE:
            raise await missing(self.queries, who.account.id, meeting_id, "meeting")
        if is_allowed(who.role, Action.MANAGE_MEETINGS):
            return found
        return evolve(found, meeting=evolve(found.meeting, host_key=None))

    async def list_notes(self, who: SignedIn, limit: int, before: UUID | None) -> Sequence[TitledNote]:
        """Notes without what they say, the newest first; see `Queries.list_titled_notes`."""
        check_allowed(who.role, Action.VIEW_NOTES)
        return await self.queries.list_titled_notes(who.account.id, limit, before)

    async def find_note(self, who: SignedIn, note_id: UUID) -> NoteDetails:
        """One note.

        Raises:
            NotFound: the account has no such note.
            Gone: it was erased with its recording, or removed past its retention.
        """
        check_allowed(who.role, Action.VIEW_NOTES)
        found = await self.queries.find_note_details(who.account.id, note_id)
        if found is None:
            raise await missing(self.queries, who.account.id, note_id, "note")
        if found.note.status is NoteStatus.ERASED:
            raise Gone("This note was erased with its recording.")
        return found
