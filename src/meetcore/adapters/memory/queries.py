"""Reads in memory: what finished transactions left."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.console import MemoryConsoleQueries
from meetcore.adapters.memory.dashboard import MemoryDashboardQueries
from meetcore.adapters.memory.endpoint_health import MemoryEndpointHealth
from meetcore.adapters.memory.hosts import next_creation_at, next_free_start
from meetcore.adapters.memory.ledger import account_state, usage_of
from meetcore.adapters.memory.ledger_totals import MemoryLedgerTotals
from meetcore.adapters.memory.mails import MemoryMailQueries
from meetcore.adapters.memory.member_queries import MemoryMemberQueries
from meetcore.adapters.memory.recordings import recording_by_id
from meetcore.adapters.memory.request_log import MemoryRequestQueries
from meetcore.adapters.memory.state import MemoryState, StoredEvent, Tables, meeting_at_provider
from meetcore.domain.ids import first_id
from meetcore.domain.meetings.meetings import VISIBLE, Meeting, shown_status
from meetcore.domain.meetings.title_search import has_words
from meetcore.domain.members.audit import INVITATION_ACTIONS, AuditEntry, with_addresses
from meetcore.domain.money.ledger import Entry
from meetcore.domain.notes.notes import Note, NoteStatus
from meetcore.domain.notes.recordings import Recording, RecordingStatus
from meetcore.domain.webhooks.deliveries import Delivery, DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.events import EncodedEvent
from meetcore.ports.clock import Clock
from meetcore.ports.dashboard_queries import MeetingDetails, NoteDetails, TitledNote
from meetcore.ports.queries import (
    MAX_ENTRIES_LOOKED_AT,
    MAX_PAGE,
    NO_INCLUDES,
    AccountVersion,
    Caller,
    CallerIncludes,
    DeliveryHistory,
    EntriesOfKey,
    EventFilter,
    FreeStartQuery,
    MeetingFilter,
    NoteFilter,
    TransactionFilter,
)


class MemoryQueries(
    MemoryMemberQueries,
    MemoryDashboardQueries,
    MemoryLedgerTotals,
    MemoryConsoleQueries,
    MemoryRequestQueries,
    MemoryMailQueries,
    MemoryEndpointHealth,
):
    """Frequent reads that must be cheap."""

    def __init__(self, state: MemoryState, clock: Clock) -> None:
        super().__init__(state)
        self._clock = clock

    def since(self, version: AccountVersion | None) -> "MemoryQueries":
        """Return these, which read the store itself."""
        return self

    async def find_caller(self, key_digest: bytes, includes: CallerIncludes = NO_INCLUDES) -> Caller | None:
        tables = self._state.committed
        key_id = tables.key_of_digest.get(key_digest)
        if key_id is None:
            return None
        key = tables.keys[key_id]
        account = tables.accounts[key.account_id]
        shown = self._summary(account)
        version = AccountVersion(shown.id, tables.changes, self._clock.now())
        if includes.meeting_id is not None:
            load = partial(_meeting_of, tables, shown.id, includes.meeting_id)
            return Caller(key, shown, load_meeting=load, version=version)
        if includes.state_on is not None:
            is_known = (shown.id, includes.idempotency_key) in tables.idempotency
            state = None if is_known else account_state(tables, shown.id, key.id, includes.state_on)
            return Caller(key, shown, state=state, version=version)
        day = includes.usage_on
        if day is None:
            return Caller(key, shown, version=version)
        return Caller(key, shown, usage_of(tables, shown.id, key.id, day), version=version)

    async def find_meeting(self, account_id: UUID, meeting_id: UUID) -> Meeting | None:
        return _meeting_of(self._state.committed, account_id, meeting_id)

    async def is_in_progress(self, account_id: UUID, meeting_id: UUID) -> bool:
        stored = self._state.committed.meetings.get((account_id, meeting_id))
        return stored is not None and stored.lease is not None and stored.lease.until > self._clock.now()

    async def list_meetings(
        self, account_id: UUID, wanted: MeetingFilter, limit: int, before: UUID | None
    ) -> Sequence[Meeting]:
        tables = self._state.committed
        found = [
            stored.meeting
            for (owner, id_), stored in tables.meetings.items()
            if owner == account_id and (before is None or id_ < before) and _is_wanted(stored.meeting, wanted)
        ]
        found.sort(key=lambda one: one.id, reverse=True)
        return [_with_host_key(tables, one) for one in found[:limit]]

    async def list_transactions(
        self, account_id: UUID, wanted: TransactionFilter, limit: int, before: int | None
    ) -> Sequence[Entry]:
        found = [
            entry
            for (owner, number), entry in self._state.committed.entries.items()
            if owner == account_id and (before is None or number < before) and _is_wanted_entry(entry, wanted)
        ]
        found.sort(key=lambda entry: entry.number, reverse=True)
        return found[:limit]

    async def list_entries_of_key(
        self, account_id: UUID, key_id: UUID, wanted: TransactionFilter, limit: int, before: int | None
    ) -> EntriesOfKey:
        whole = await self.list_transactions(account_id, wanted, len(self._state.committed.entries), before)
        looked_at = whole[:MAX_ENTRIES_LOOKED_AT]
        found = [each for each in looked_at if each.transfer.api_key_id == key_id]
        return EntriesOfKey(found[:limit], looked_at[-1].number if len(whole) > len(looked_at) else None)

    async def next_free_start(self, wanted: FreeStartQuery) -> datetime | None:
        return next_free_start(self._state.committed, wanted)

    async def next_creation_at(self, wanted: FreeStartQuery) -> datetime | None:
        return next_creation_at(self._state.committed, wanted)

    async def find_at_provider(self, provider: str, provider_meeting_id: str) -> Meeting | None:
        return meeting_at_provider(self._state.committed, provider, provider_meeting_id)

    async def find_endpoint(self, account_id: UUID, endpoint_id: UUID) -> Endpoint | None:
        return self._state.committed.endpoints.get((account_id, endpoint_id))

    async def list_endpoints(self, account_id: UUID, limit: int, before: UUID | None) -> Sequence[Endpoint]:
        found = [one for one in self._state.committed.endpoints.values() if one.account_id == account_id]
        found.sort(key=lambda one: one.id, reverse=True)
        return [one for one in found if before is None or one.id < before][:limit]

    async def list_deliveries(
        self,
        account_id: UUID,
        endpoint_id: UUID,
        status: DeliveryStatus | None,
        limit: int,
        before: UUID | None,
    ) -> Sequence[DeliveryHistory] | None:
        tables = self._state.committed
        if (account_id, endpoint_id) not in tables.endpoints:
            return None
        found = [
            stored.delivery
            for stored in tables.deliveries.values()
            if (stored.delivery.account_id, stored.delivery.endpoint_id) == (account_id, endpoint_id)
            and (status is None or stored.delivery.status is status)
            and (before is None or stored.delivery.id < before)
        ]
        found.sort(key=lambda one: one.id, reverse=True)
        return [_history(tables, delivery) for delivery in found[:limit]]

    async def find_delivery(
        self, account_id: UUID, endpoint_id: UUID, delivery_id: UUID
    ) -> DeliveryHistory | None:
        tables = self._state.committed
        stored = tables.deliveries.get((account_id, delivery_id))
        if stored is None or stored.delivery.endpoint_id != endpoint_id:
            return None
        if (account_id, endpoint_id) not in tables.endpoints:
            return None
        return _history(tables, stored.delivery)

    async def find_event(self, account_id: UUID, event_id: UUID) -> EncodedEvent | None:
        stored = self._state.committed.events.get((account_id, event_id))
        return None if stored is None else _encoded(event_id, stored)

    async def list_events(
        self, account_id: UUID, wanted: EventFilter, limit: int, before: UUID | None
    ) -> Sequence[EncodedEvent]:
        found = [
            _encoded(id_, stored)
            for (owner, id_), stored in self._state.committed.events.items()
            if owner == account_id
            and wanted.kind in (None, stored.kind)
            and first_id(wanted.made_from) <= id_
            and (wanted.made_before is None or id_ < first_id(wanted.made_before))
            and (before is None or id_ < before)
        ]
        found.sort(key=lambda one: one.id, reverse=True)
        return found[:limit]

    async def find_recording(self, account_id: UUID, recording_id: UUID) -> Recording | None:
        return recording_by_id(self._state.committed, account_id, recording_id)

    async def list_recordings(
        self, account_id: UUID, meeting_id: UUID | None, limit: int, before: UUID | None
    ) -> Sequence[Recording]:
        found = [
            stored.recording
            for (owner, of_meeting), stored in self._state.committed.recordings.items()
            if owner == account_id
            and stored.recording.status is not RecordingStatus.MEASURING
            and (meeting_id is None or of_meeting == meeting_id)
            and (before is None or stored.recording.id < before)
        ]
        found.sort(key=lambda one: one.id, reverse=True)
        return found[:limit]

    async def find_note(self, account_id: UUID, note_id: UUID) -> Note | None:
        stored = self._state.committed.notes.get((account_id, note_id))
        return None if stored is None else stored.note

    async def list_notes(
        self, account_id: UUID, wanted: NoteFilter, limit: int, before: UUID | None
    ) -> Sequence[Note]:
        found = [
            stored.note
            for (owner, id_), stored in self._state.committed.notes.items()
            if owner == account_id
            and stored.note.status is not NoteStatus.ERASED
            and wanted.recording_id in (None, stored.note.recording_id)
            and wanted.meeting_id in (None, stored.note.meeting_id)
            and (before is None or id_ < before)
        ]
        found.sort(key=lambda one: one.id, reverse=True)
        return found[:limit]

    async def list_titled_notes(
        self, account_id: UUID, limit: int, before: UUID | None
    ) -> Sequence[TitledNote]:
        meetings = self._state.committed.meetings
        return [
            TitledNote(
                evolve(note, draft=None, transcript=()),
                None
                if (stored := meetings.get((account_id, note.meeting_id))) is None
                else stored.meeting.title,
            )
            for note in await self.list_notes(account_id, NoteFilter(), limit, before)
        ]

    async def find_meeting_details(self, account_id: UUID, meeting_id: UUID) -> MeetingDetails | None:
        meeting = await self.find_meeting(account_id, meeting_id)
        if meeting is None:
            return None
        recordings = await self.list_recordings(account_id, meeting_id, MAX_PAGE, None)
        notes = await self.list_notes(account_id, NoteFilter(meeting_id=meeting_id), MAX_PAGE, None)
        return MeetingDetails(meeting, recordings, notes if recordings else ())

    async def find_note_details(self, account_id: UUID, note_id: UUID) -> NoteDetails | None:
        note = await self.find_note(account_id, note_id)
        if note is None:
            return None
        stored = self._state.committed.meetings.get((account_id, note.meeting_id))
        recording = await self.find_recording(account_id, note.recording_id)
        return NoteDetails(note, None if stored is None else stored.meeting, recording)

    async def was_removed(self, account_id: UUID, record_id: UUID) -> bool:
        return (account_id, record_id) in self._state.committed.removed

    async def list_audit_entries(
        self, account_id: UUID | None, limit: int, before: UUID | None
    ) -> Sequence[AuditEntry]:
        found = [
            entry
            for entry in self._state.committed.audit_log.values()
            if account_id in (None, entry.account_id) and (before is None or entry.id < before)
        ]
        newest = sorted(found, key=lambda entry: entry.id, reverse=True)[:limit]
        return [self._with_addresses(entry) for entry in newest]

    def _with_addresses(self, entry: AuditEntry) -> AuditEntry:
        """An entry with the addresses that its member and its invitation have now."""
        tables = self._state.committed
        member = None if entry.actor.id is None else tables.users.get(entry.actor.id)
        target = UUID(entry.target_id) if entry.action in INVITATION_ACTIONS else None
        invitation = None if target is None else tables.invitations.get(target)
        return with_addresses(
            entry,
            None if member is None else member.email,
            None if invitation is None else invitation.email,
        )

    async def find_secrets(self, url_key: str) -> Sequence[str]:
        found = [one for one in self._state.committed.endpoints.values() if one.url_key == url_key]
        return [one.secret for one in found if one.secret is not None]

    async def ping(self) -> None:
        """Memory is always there."""


def _meeting_of(tables: Tables, account_id: UUID, meeting_id: UUID) -> Meeting | None:
    stored = tables.meetings.get((account_id, meeting_id))
    return None if stored is None else _with_host_key(tables, stored.meeting)


def _is_wanted(meeting: Meeting, wanted: MeetingFilter) -> bool:
    return (
        meeting.status in VISIBLE
        and (wanted.status is None or shown_status(meeting, wanted.now) is wanted.status)
        and (wanted.starts_from is None or wanted.starts_from <= meeting.start_at)
        and (wanted.starts_before is None or meeting.start_at < wanted.starts_before)
        and has_words(meeting.title, wanted.words)
    )


def _is_wanted_entry(entry: Entry, wanted: TransactionFilter) -> bool:
    return (
        wanted.kind in (None, entry.transfer.kind)
        and (wanted.made_from is None or wanted.made_from <= entry.at)
        and (wanted.made_before is None or entry.at < wanted.made_before)
    )


def _with_host_key(tables: Tables, meeting: Meeting) -> Meeting:
    """The meeting with the key of its host, if no earlier meeting is on the host."""
    reservation = tables.reservations.get((meeting.account_id, meeting.id))
    if reservation is None or tables.hosts[reservation.host_id].max_concurrent > 1:
        return meeting
    if any(
        one.host_id == reservation.host_id and one.start_at < reservation.start_at
        for one in tables.reservations.values()
    ):
        return meeting
    stored = tables.host_keys.get(reservation.host_id)
    return meeting if stored is None else evolve(meeting, host_key=stored.host_key)


def _encoded(id_: UUID, stored: StoredEvent) -> EncodedEvent:
    return EncodedEvent(id_, stored.kind, stored.created_at, stored.payload)


def _history(tables: Tables, delivery: Delivery) -> DeliveryHistory:
    names = sorted(name for name in tables.attempts if name[:2] == (delivery.account_id, delivery.id))
    attempts = (evolve(tables.attempts[name], address=None, retry_after_s=None) for name in names)
    return DeliveryHistory(delivery, tuple(attempts))
