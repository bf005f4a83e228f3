"""What the pages of the dashboard read, by role."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from datetime import date
from itertools import chain
from typing import Final
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import Gone
from meetcore.domain.mails.topics import MailTopic, topics_of
from meetcore.domain.meetings.meetings import VISIBLE, Meeting, MeetingStatus, shown_status
from meetcore.domain.meetings.views import MeetingFilter, StartCursor
from meetcore.domain.members import audit, roles, sign_in
from meetcore.domain.members.views import SignedIn, check_member
from meetcore.domain.money.ledger import Entry
from meetcore.domain.money.views import EntriesOfKey, TransactionFilter
from meetcore.domain.notes.notes import Language, NoteStatus
from meetcore.domain.records import pages
from meetcore.domain.requests import request_log, views
from meetcore.ports.queries import Queries
from meetcore.usecases.members.audit import BoundedAuditLog
from meetcore.usecases.requests.administration import Administration
from meetcore.usecases.requests.export_records import in_place, take_place
from meetcore.usecases.requests.missing_records import missing

MAX_FILES: Final = 4
"""Ledgers that one process writes as files at a time."""
FILE_PAGE: Final = 50
"""Entries of a file that are read and written without a pause: other requests wait for no more."""
_LOOKED_AT: Final = 50
"""Meetings of today and later among which the next ones are found: the first of today may be over. Where most
are, two more reads find the others."""
_TO_COME: Final = frozenset({MeetingStatus.SCHEDULED, MeetingStatus.STARTED})


@frozen
class MemberReads:
    """Reads of one account, by the role of the signed-in member.

    `running` has the accounts whose ledgers are written as files.
    """

    queries: Queries
    log: BoundedAuditLog
    running: set[UUID] = field(factory=set, repr=False)

    async def find_overview(self, who: SignedIn, first_day: date, today: date) -> pages.Overview:
        """Return the parts of the first page that the role sees."""
        found = await self.queries.find_overview(who.account.id, first_day, today)
        return pages.Overview(
            found.spending if roles.is_allowed(who.role, roles.Action.VIEW_LEDGER) else (),
            found.capped_keys if roles.is_allowed(who.role, roles.Action.VIEW_KEYS) else (),
            found.troubled if roles.is_allowed(who.role, roles.Action.VIEW_WEBHOOKS) else (),
            found.low_threshold,
            None if who.account.suspended_at is not None else found.first_steps,
        )

    async def list_next_meetings(self, who: SignedIn, wanted: MeetingFilter, limit: int) -> Sequence[Meeting]:
        """Return the meetings that start first and are not over; none for a role that sees no meetings."""
        if not roles.is_allowed(who.role, roles.Action.VIEW_MEETINGS):
            return []
        found = await self.list_meetings_by_start(who, wanted, _LOOKED_AT, None, is_ascending=True)
        coming = [each for each in found if shown_status(each, wanted.now) in _TO_COME]
        if len(coming) < limit and len(found) == _LOOKED_AT:
            pages = [
                await self.list_meetings_by_start(
                    who, evolve(wanted, status=status), limit, None, is_ascending=True
                )
                for status in _TO_COME
            ]
            coming = sorted(chain.from_iterable(pages), key=lambda one: (one.start_at, one.id))
        return coming[:limit]

    async def list_requests(
        self, who: SignedIn, wanted: views.RequestFilter, limit: int, before: UUID | None
    ) -> Sequence[request_log.LoggedRequest]:
        """Requests of the account's keys, the newest first; see `Queries.list_requests`."""
        check_member(who, roles.Action.VIEW_REQUESTS)
        return await self.queries.list_requests(who.account.id, wanted, limit, before)

    async def find_request(self, who: SignedIn, request_id: UUID) -> pages.RequestDetails | None:
        """Return a request of the account's, if it is kept, with deliveries for a role that sees webhooks."""
        check_member(who, roles.Action.VIEW_REQUESTS)
        found = await self.queries.find_request(who.account.id, request_id)
        if found is None or not roles.is_allowed(who.role, roles.Action.VIEW_WEBHOOKS):
            return found
        return evolve(found, deliveries=await self.queries.list_caused_deliveries(found.request))

    async def list_entries(
        self, who: SignedIn, wanted: TransactionFilter, limit: int, before: int | None,
        key_id: UUID | None = None,
    ) -> EntriesOfKey:  # fmt: skip
        """Entries of the ledger, or those that one key caused, the newest first; see `Queries`."""
        check_member(who, roles.Action.VIEW_LEDGER)
        if key_id is None:
            return EntriesOfKey(await self.queries.list_transactions(who.account.id, wanted, limit, before))
        return await self.queries.list_entries_of_key(who.account.id, key_id, wanted, limit, before)

    async def describe_entries(self, who: SignedIn, entries: Sequence[Entry]) -> pages.DescribedEntries:
        """Return entries with titles, members and keys; see `Queries.describe_entries`."""
        check_member(who, roles.Action.VIEW_LEDGER)
        return await self.queries.describe_entries(who.account.id, entries)

    async def _describe_pages(
        self, who: SignedIn, wanted: TransactionFilter, key_id: UUID | None
    ) -> AsyncIterator[Sequence[pages.DescribedEntry]]:
        """Yield the entries, the newest first, page by page: no more than a page is in memory."""
        before: int | None = None
        while True:
            page = await self.list_entries(who, wanted, FILE_PAGE, before, key_id)
            if page.entries:
                yield (await self.describe_entries(who, page.entries)).entries
            before = page.entries[-1].number if len(page.entries) == FILE_PAGE else page.reached
            if before is None:
                return

    async def file_of_entries(
        self, who: SignedIn, client_address: str | None, wanted: TransactionFilter, key_id: UUID | None
    ) -> AsyncGenerator[Sequence[pages.DescribedEntry], None]:
        """Return every entry, or those of a key, for a file; `Unprocessable` while too many are made."""
        check_member(who, roles.Action.VIEW_LEDGER)
        account_id = who.account.id
        place = take_place(self.running, account_id, MAX_FILES)
        made = in_place(self._describe_pages(who, wanted, key_id), place)
        await self.log.record(
            who.origin(client_address), "ledger.downloaded", account_id, account_id, who.session.id
        )
        return made

    async def list_meetings(
        self, who: SignedIn, wanted: MeetingFilter, limit: int, before: UUID | None
    ) -> Sequence[Meeting]:
        """Meetings, the newest first; see `Queries.list_meetings`."""
        check_member(who, roles.Action.VIEW_MEETINGS)
        return await self.queries.list_meetings(who.account.id, wanted, limit, before)

    async def list_meetings_by_start(
        self, who: SignedIn, wanted: MeetingFilter, limit: int, after: StartCursor | None, *,
        is_ascending: bool,
    ) -> Sequence[Meeting]:  # fmt: skip
        """Meetings in the order of their starts; see `Queries.list_meetings_by_start`."""
        check_member(who, roles.Action.VIEW_MEETINGS)
        list_ = self.queries.list_meetings_by_start
        return await list_(who.account.id, wanted, limit, after, is_ascending=is_ascending)

    async def find_meeting(self, who: SignedIn, meeting_id: UUID) -> pages.MeetingDetails:
        """Find a meeting, with its recording for a role that reads notes; `Gone` past its retention."""
        check_member(who, roles.Action.VIEW_MEETINGS)
        if roles.is_allowed(who.role, roles.Action.VIEW_NOTES):
            found = await self.queries.find_meeting_details(who.account.id, meeting_id)
        else:
            meeting = await self.queries.find_meeting(who.account.id, meeting_id)
            found = None if meeting is None else pages.MeetingDetails(meeting)
        if found is None or found.meeting.status not in VISIBLE:
            raise await missing(self.queries, who.account.id, meeting_id, "meeting")
        if roles.is_allowed(who.role, roles.Action.MANAGE_MEETINGS):
            return found
        return evolve(found, meeting=evolve(found.meeting, host_key=None))

    async def list_notes(self, who: SignedIn, limit: int, before: UUID | None) -> Sequence[pages.TitledNote]:
        """List notes without their texts, the newest first; see `Queries.list_titled_notes`."""
        check_member(who, roles.Action.VIEW_NOTES)
        return await self.queries.list_titled_notes(who.account.id, limit, before)

    async def find_note(self, who: SignedIn, note_id: UUID) -> pages.NoteDetails:
        """Return one note; `Gone` where it was erased with its recording, or removed past its retention."""
        check_member(who, roles.Action.VIEW_NOTES)
        found = await self.queries.find_note_details(who.account.id, note_id)
        if found is None:
            raise await missing(self.queries, who.account.id, note_id, "note")
        if found.note.status is NoteStatus.ERASED:
            raise Gone("This note was erased with its recording.")
        return found


@frozen
class AccountSettings:
    """The use cases of the settings."""

    administration: Administration
    queries: Queries

    async def find(self, who: SignedIn) -> tuple[views.StoredAccount, Mapping[MailTopic, bool]]:
        """Return the account, and whether mails come of each topic that the member can choose.

        Guests and operators choose none.
        """
        check_member(who, roles.Action.VIEW_SETTINGS)
        user_id = None if who.user is None else who.user.id
        account, chosen = await self.queries.find_settings(who.account.id, user_id)
        return account, {} if user_id is None else topics_of(who.role, chosen)

    async def set_low_threshold(self, who: SignedIn, client_address: str | None, credits: int) -> None:
        """Change the balance, in credits, below which `credit.low` is sent."""
        check_member(who, roles.Action.MANAGE_SETTINGS)
        acting = self.administration.acting_as(who.origin(client_address))
        await acting.set_low_threshold(who.account.id, credits)

    async def set_language(self, who: SignedIn, language: Language) -> None:
        """Change the language of mails to the member; nothing for guests and operators, who get none."""
        check_member(who, roles.Action.VIEW_SETTINGS)
        if who.user is not None:
            async with self.administration.store.begin() as tx:
                await tx.members.set_language(who.user.id, language)

    async def set_name(self, who: SignedIn, full_name: str) -> None:
        """Change the member's name, as every account of theirs shows it; nothing for guests and operators.

        Raises `InvalidRequest` for a name that `check_full_name` refuses.
        """
        check_member(who, roles.Action.VIEW_SETTINGS)
        name = sign_in.check_full_name(full_name)
        if who.user is not None:
            async with self.administration.store.begin() as tx:
                await tx.members.set_name(who.user.id, name)

    async def set_topics(self, who: SignedIn, chosen: Collection[str]) -> None:
        """Choose the topics of mails to the member, of those that the role allows."""
        check_member(who, roles.Action.VIEW_SETTINGS)
        if who.user is not None:
            topics = {topic: topic in chosen for topic in topics_of(who.role, {})}
            async with self.administration.store.begin() as tx:
                await tx.mails.save_topics(who.account.id, who.user.id, topics)

    async def set_statement_mails(self, who: SignedIn, client_address: str | None, *, is_on: bool) -> None:
        """Mail owners and finance when the statement of a month is there, or stop."""
        check_member(who, roles.Action.MANAGE_SETTINGS)
        acting = self.administration.acting_as(who.origin(client_address))
        await acting.set_statement_mails(who.account.id, is_on=is_on)

    async def list_audit_entries(
        self, who: SignedIn, limit: int, before: UUID | None
    ) -> Sequence[audit.AuditEntry]:
        """List audit entries, the newest first; see `Queries.list_audit_entries`."""
        check_member(who, roles.Action.VIEW_AUDIT)
        return await self.queries.list_audit_entries(who.account.id, limit, before)
