"""Notes: queued, and completed or given up with their money."""

from collections.abc import Sequence
from uuid import UUID

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.money.rows import FUNDS, HOLD, MONEY, USAGE, entry_parameters, usage
from meetcore.adapters.postgres.notes.rows import NOTE, RECORDING, note, note_parameters, recording
from meetcore.adapters.postgres.repository import Repository, load_statements
from meetcore.adapters.postgres.webhooks.rows import event_parameters
from meetcore.domain.errors import require_record
from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.notes.notes import Note
from meetcore.domain.notes.views import NoteCreationView, NoteQuery, NoteSettlement
from meetcore.domain.webhooks.events import Event

SQL = load_statements(__file__, **MONEY, NOTE=NOTE, RECORDING=RECORDING)


class NoteCreation(Repository):
    """Creation of notes, and their settlement."""

    async def load_note_creation(self, query: NoteQuery) -> NoteCreationView:
        parameters: Row = {
            "account_id": query.account_id,
            "api_key_id": query.api_key_id,
            "day": query.cap_day,
            "recording_id": query.recording_id,
            "language": query.language.value,
        }
        row = require_record(await self._locked(SQL["load_creation"], parameters), "account")
        of = await self._one(SQL["load_recording"], parameters)
        existing = None if of is None else await self._one(SQL["load_existing"], parameters)
        return NoteCreationView(
            FUNDS.read(row),
            usage(row, query.api_key_id, query.cap_day),
            row["daily_cap"],
            None if of is None else recording(of, self._cipher),
            None if existing is None else note(existing, self._cipher),
        )

    async def save_queued(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, cause: str | None = None
    ) -> None:
        parameters = (
            note_parameters(note, self._cipher)
            | FUNDS.parameters(funds)
            | USAGE.parameters(usage)
            | HOLD.parameters(hold)
            | {"cause": cause}
        )
        await self._run(SQL["save_queued"], parameters)

    async def save_refused(self, note: Note, events: Sequence[Event]) -> int:
        parameters = note_parameters(note, self._cipher) | event_parameters(events, self._cipher)
        return await self._due(SQL["save_refused"], parameters, hold_id=None, cause=None)


class NoteEnding(Repository):
    """Completed and paid for, or failed and free."""

    async def load_settlement(
        self, account_id: UUID, note_id: UUID, token: UUID | None
    ) -> NoteSettlement | None:
        row = await self._locked(SQL["load_settlement"], account_id=account_id, note_id=note_id, token=token)
        if row is None:
            return None
        hold = HOLD.read(row)
        used = usage(row, hold.api_key_id, hold.cap_day)
        return NoteSettlement(note(row, self._cipher), FUNDS.read(row), used, hold)

    async def save_completed(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, entry: Entry, events: Sequence[Event]
    ) -> int:
        parameters = self._ended(note, hold, funds, usage, events) | entry_parameters(entry)
        return await self._due(SQL["save_completed"], parameters)

    async def save_failed(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, events: Sequence[Event]
    ) -> int:
        return await self._due(SQL["save_failed"], self._ended(note, hold, funds, usage, events))

    def _ended(self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, events: Sequence[Event]) -> Row:
        return (
            note_parameters(note, self._cipher)
            | FUNDS.parameters(funds)
            | USAGE.parameters(usage)
            | event_parameters(events, self._cipher)
            | {"hold_id": hold.id}
        )
