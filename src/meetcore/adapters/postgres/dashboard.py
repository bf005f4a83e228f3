"""Reads of the dashboard in PostgreSQL: one statement for a page."""

from collections.abc import Sequence
from datetime import date
from uuid import UUID

from meetcore.adapters.postgres.columns import Row, utc
from meetcore.adapters.postgres.meetings.lifecycle import SQL as MEETINGS
from meetcore.adapters.postgres.meetings.rows import MEETING, meeting, meeting_with_key, session
from meetcore.adapters.postgres.notes.rows import NOTE, RECORDING, readable_note, readable_recording
from meetcore.adapters.postgres.repository import NEWEST, Reads, load_statements
from meetcore.adapters.postgres.requests.registry import API_KEY
from meetcore.domain.ids import is_id
from meetcore.domain.money.ledger import Entry
from meetcore.domain.money.spending_report import MAX_ENTRIES_SUMMED, Payer, PayerTotal
from meetcore.domain.money.statements import Month
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.records import pages

SQL = load_statements(
    __file__, API_KEY=API_KEY, MAX_ENTRIES_SUMMED=MAX_ENTRIES_SUMMED, MEETING=MEETING, NOTE=NOTE,
    RECORDING=RECORDING,
)  # fmt: skip

_ABOUT = ("meeting", "note")
"""Types of references whose records have a title."""


class DashboardReads(Reads):
    """Reads of the dashboard's pages beside the lists of the API."""

    async def list_key_use(self, account_id: UUID, day: date) -> Sequence[pages.KeyUse]:
        rows = await self._all(SQL["list_key_use"], account_id=account_id, day=day)
        return [pages.KeyUse(API_KEY.read(row), row["used"]) for row in rows]

    async def find_overview(self, account_id: UUID, first_day: date, today: date) -> pages.Overview:
        row = await self._one(SQL["overview"], account_id=account_id, first_day=first_day, day=today)
        assert row is not None
        return pages.Overview(
            [pages.DaySpending(date.fromisoformat(day), *credits) for day, *credits in row["spending"] or ()],
            [pages.CappedKey(*values) for values in row["capped"] or ()],
            [pages.TroubledEndpoint(UUID(id_), *rest) for id_, *rest in row["troubled"] or ()],
            row["low_threshold"],
            None if row["first_steps"] is None else _first_steps(*row["first_steps"]),
        )

    async def find_meeting_details(self, account_id: UUID, meeting_id: UUID) -> pages.MeetingDetails | None:
        rows = await self._all(SQL["find_meeting_details"], account_id=account_id, id=meeting_id)
        if not rows:
            return None
        notes = [readable_note(row, self._cipher) for row in rows if row["note_id"] is not None]
        recording = self._recording(rows[0])
        recordings = () if recording is None else (recording,)
        held = await self._all(MEETINGS["load_sessions"], account_id=account_id, meeting_id=meeting_id)
        sessions = [session(row) for row in held]
        found, made_by = meeting_with_key(rows[0], self._cipher), rows[0]["made_by"]
        return pages.MeetingDetails(found, recordings, notes, sessions, made_by)

    async def list_titled_notes(
        self, account_id: UUID, limit: int, before: UUID | None
    ) -> Sequence[pages.TitledNote]:
        page = {"account_id": account_id, "limit": limit, "before": before or NEWEST}
        rows = await self._all(SQL["list_titled_notes"], page)
        return [pages.TitledNote(NOTE.read(row, draft=None, transcript=()), row["title"]) for row in rows]

    async def find_note_details(self, account_id: UUID, note_id: UUID) -> pages.NoteDetails | None:
        row = await self._one(SQL["find_note_details"], account_id=account_id, id=note_id)
        if row is None:
            return None
        its_meeting = None if row["meeting_id"] is None else meeting(row, self._cipher)
        return pages.NoteDetails(readable_note(row, self._cipher), its_meeting, self._recording(row))

    async def describe_entries(self, account_id: UUID, entries: Sequence[Entry]) -> pages.DescribedEntries:
        about = [(each.number, each.transfer.reference) for each in entries]
        known = [(number, one) for number, one in about if one.type in _ABOUT and is_id(one.id)]
        row = await self._one(
            SQL["describe_entries"],
            account_id=account_id,
            numbers=[number for number, _ in known],
            types=[one.type for _, one in known],
            ids=[UUID(one.id) for _, one in known],
        )
        assert row is not None
        keys = _key_names(row)
        names: dict[UUID | None, str] = {key.id: key.name for key in keys}
        sources = {number: (title, member) for number, title, member in row["sources"] or ()}
        return pages.DescribedEntries(
            [
                pages.DescribedEntry(
                    each, *sources.get(each.number, (None, None)), names.get(each.transfer.api_key_id)
                )
                for each in entries
            ],
            keys,
        )  # fmt: skip

    async def find_spending(self, account_id: UUID, month: Month, first_day: date) -> pages.SpendingTotals:
        row = await self._one(
            SQL["spending"], account_id=account_id, first_day=first_day, made_from=month.begins_at,
            made_before=month.ends_at,
        )  # fmt: skip
        assert row is not None
        return pages.SpendingTotals(
            None if row["first_at"] is None else utc(row["first_at"]),
            [
                (date.fromisoformat(first), TransferKind(kind), credits)
                for first, kind, credits in row["months"] or ()
            ],
            [_payer_total(account_id, *values) for values in row["payers"] or ()],
            _key_names(row),
        )

    def _recording(self, row: Row) -> Recording | None:
        return None if row["recording_id"] is None else readable_recording(row, self._cipher)


def _first_steps(endpoint_id: str | None, *done: bool) -> pages.FirstSteps:
    return pages.FirstSteps(None if endpoint_id is None else UUID(endpoint_id), *done)


def _key_names(row: Row) -> Sequence[pages.KeyName]:
    return [pages.KeyName(UUID(id_), *rest) for id_, *rest in row["keys"] or ()]


def _payer_total(
    account_id: UUID, kind: str, key_id: str | None, member: str | None, credits: int, entries: int
) -> PayerTotal:
    """Read a sum; the account's own id stands for actions by hand."""
    of_key = None if key_id is None or UUID(key_id) == account_id else UUID(key_id)
    return PayerTotal(Payer(of_key, member), TransferKind(kind), credits, entries)
