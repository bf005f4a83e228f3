"""Ordering a note: the hold and the place in the queue, or the refusal."""

from collections.abc import Sequence

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.deliveries.outbox import WRITE_EVENTS, event_parameters
from meetcore.adapters.postgres.ledger.parts import (
    FUNDS,
    HOLD,
    LOCK_ACCOUNT,
    OPEN_HOLD,
    USAGE,
    WRITE_FUNDS,
    usage,
)
from meetcore.adapters.postgres.notes.rows import NOTE, NOTE_COLUMNS, note, note_parameters
from meetcore.adapters.postgres.recordings.rows import RECORDING_COLUMNS, recording
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.errors import NotFound
from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Funds
from meetcore.domain.notes.notes import Note
from meetcore.domain.webhooks.events import Event
from meetcore.ports.notes import NoteCreationView, NoteQuery

# Everything that the decision on a new note needs, under the account's lock: its funds, the key's cap and its usage,
# the recording, and the note that is in its place.
_LOAD = f"""
WITH {LOCK_ACCOUNT}
SELECT locked.*, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version, k.daily_cap,
       k.first_key_id AS key_first_key_id, u.spent AS usage_spent, u.held AS usage_held
FROM locked
LEFT JOIN api_keys k ON k.id = %(api_key_id)s
LEFT JOIN cap_usage u ON u.account_id = locked.account_id
    AND u.api_key_id = COALESCE(k.first_key_id, %(api_key_id)s) AND u.day = %(day)s
"""

# The recording that notes are wanted of. The account is locked by now.
_LOAD_RECORDING = f"""
SELECT {RECORDING_COLUMNS} FROM recordings r WHERE r.account_id = %(account_id)s AND r.id = %(recording_id)s
"""

# The note that is in the place of a new one. The account is locked by now.
_LOAD_EXISTING = f"""
SELECT {NOTE_COLUMNS} FROM notes n
WHERE n.account_id = %(account_id)s AND n.recording_id = %(recording_id)s AND n.language = %(language)s
    AND n.status IN ('queued', 'processing', 'completed')
"""

_INSERT = f"""
    note AS (
        INSERT INTO notes ({NOTE.names}, content, hold_id, cause, due_at)
        SELECT {NOTE.values}, %(note_content)s, %(hold_id)s, %(cause)s,
            CASE WHEN %(hold_id)s::uuid IS NOT NULL THEN clock_timestamp() END
        FROM guard
    )"""

# Writes a note that waits for a worker, and what is held for it.
_SAVE_QUEUED = f"""
WITH guard AS MATERIALIZED (SELECT %(account_id)s::uuid AS account_id), {_INSERT}, {OPEN_HOLD}, {WRITE_FUNDS}
SELECT 1
"""

# Writes a note that failed before it began, and its event.
_SAVE_REFUSED = f"""
WITH guard AS MATERIALIZED (SELECT %(account_id)s::uuid AS account_id), {_INSERT}, {WRITE_EVENTS}, account AS (
    UPDATE accounts SET version = version + 1 FROM guard WHERE accounts.id = guard.account_id
)
SELECT count(*) AS due FROM delivery WHERE status = 'pending'
"""


class NoteCreation(Repository):
    """From the decision on a new note to its place in the queue."""

    async def load_note_creation(self, query: NoteQuery) -> NoteCreationView:
        parameters: Row = {
            "account_id": query.account_id,
            "api_key_id": query.api_key_id,
            "day": query.cap_day,
            "recording_id": query.recording_id,
            "language": query.language.value,
        }
        row = await self._locked(_LOAD, parameters)
        if row is None:
            raise NotFound("No account with this id.")
        of = await self._one(_LOAD_RECORDING, parameters)
        existing = None if of is None else await self._one(_LOAD_EXISTING, parameters)
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
        await self._connection.execute(_SAVE_QUEUED, parameters)

    async def save_refused(self, note: Note, events: Sequence[Event]) -> int:
        parameters = note_parameters(note, self._cipher) | event_parameters(events, self._cipher)
        return await self._due(_SAVE_REFUSED, parameters | {"hold_id": None, "cause": None})
