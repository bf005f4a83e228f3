"""The end of a note in progress: its hold becomes the charge, or is given back."""

from collections.abc import Sequence
from uuid import UUID

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.deliveries.outbox import WRITE_EVENTS, event_parameters
from meetcore.adapters.postgres.ledger.parts import (
    APPEND_ENTRY,
    CLOSE_HOLD,
    FUNDS,
    HOLD,
    LOCK_ACCOUNT,
    USAGE,
    WRITE_FUNDS,
    entry_parameters,
    usage,
)
from meetcore.adapters.postgres.notes.rows import NOTE_COLUMNS, note, note_parameters
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Entry, Funds
from meetcore.domain.notes.notes import Note
from meetcore.domain.webhooks.events import Event
from meetcore.ports.notes import NoteSettlement

# A note in progress with its money, under the account's lock, and under a lock of its own: its holder writes steps
# without the account's.
_LOAD_SETTLEMENT = f"""
WITH {LOCK_ACCOUNT}
SELECT locked.*, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version, {NOTE_COLUMNS},
    {HOLD.select}, u.spent AS usage_spent, u.held AS usage_held,
    k.first_key_id AS key_first_key_id
FROM locked
JOIN notes n ON n.account_id = locked.account_id AND n.id = %(note_id)s AND n.hold_id IS NOT NULL
    AND (%(token)s::uuid IS NULL OR n.lease_token = %(token)s)
JOIN ledger_holds hold ON hold.account_id = locked.account_id AND hold.id = n.hold_id
LEFT JOIN api_keys k ON k.id = hold.api_key_id
JOIN cap_usage u ON u.account_id = locked.account_id AND u.api_key_id = COALESCE(k.first_key_id, hold.api_key_id)
    AND u.day = hold.cap_day
FOR NO KEY UPDATE OF n
"""

_END = f"""
    note AS (
        UPDATE notes SET status = %(note_status)s, step = %(note_step)s, duration_s = %(note_duration_s)s,
            tries = %(note_tries)s, content = %(note_content)s, credits_charged = %(note_credits_charged)s,
            charge_id = %(note_charge_id)s, error = %(note_error)s, completed_at = %(note_completed_at)s,
            hold_id = NULL, due_at = NULL, lease_token = NULL
        FROM guard WHERE notes.account_id = guard.account_id AND notes.id = %(note_id)s
    ), {CLOSE_HOLD}"""

# A note that is there and paid for: the hold becomes the charge, the event goes out.
_SAVE_COMPLETED = f"""
WITH guard AS MATERIALIZED (SELECT %(account_id)s::uuid AS account_id), {APPEND_ENTRY}, {WRITE_FUNDS}, {WRITE_EVENTS}, {_END}
SELECT count(*) AS due FROM delivery WHERE status = 'pending'
"""

# A note that will not be: the hold is given back, the event goes out.
_SAVE_FAILED = f"""
WITH guard AS MATERIALIZED (SELECT %(account_id)s::uuid AS account_id), {WRITE_FUNDS}, {WRITE_EVENTS}, {_END}
SELECT count(*) AS due FROM delivery WHERE status = 'pending'
"""


class NoteEnding(Repository):
    """Completed and paid for, or failed and free."""

    async def load_settlement(
        self, account_id: UUID, note_id: UUID, token: UUID | None
    ) -> NoteSettlement | None:
        parameters = {"account_id": account_id, "note_id": note_id, "token": token}
        row = await self._locked(_LOAD_SETTLEMENT, parameters)
        if row is None:
            return None
        hold = HOLD.read(row)
        used = usage(row, hold.api_key_id, hold.cap_day)
        return NoteSettlement(note(row, self._cipher), FUNDS.read(row), used, hold)

    async def save_completed(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, entry: Entry, events: Sequence[Event]
    ) -> int:
        parameters = self._ended(note, hold, funds, usage, events) | entry_parameters(entry)
        return await self._due(_SAVE_COMPLETED, parameters)

    async def save_failed(
        self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, events: Sequence[Event]
    ) -> int:
        return await self._due(_SAVE_FAILED, self._ended(note, hold, funds, usage, events))

    def _ended(self, note: Note, hold: Hold, funds: Funds, usage: CapUsage, events: Sequence[Event]) -> Row:
        return (
            note_parameters(note, self._cipher)
            | FUNDS.parameters(funds)
            | USAGE.parameters(usage)
            | event_parameters(events, self._cipher)
            | {"hold_id": hold.id}
        )
