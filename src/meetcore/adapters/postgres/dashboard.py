"""Reads of the dashboard in PostgreSQL: one statement for a page."""

from collections.abc import Sequence
from datetime import date
from uuid import UUID

from meetcore.adapters.postgres.callers import API_KEY
from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.meetings.rows import MEETING_COLUMNS, meeting, meeting_with_key
from meetcore.adapters.postgres.meetings.shown import HOST_KEY
from meetcore.adapters.postgres.notes.rows import NOTE, NOTE_COLUMNS, readable_note
from meetcore.adapters.postgres.recordings.rows import RECORDING_COLUMNS, readable_recording
from meetcore.adapters.postgres.repository import NEWEST, Reads
from meetcore.domain.notes.recordings import Recording
from meetcore.ports.dashboard_queries import (
    CappedKey,
    DaySpending,
    KeyUse,
    MeetingDetails,
    NoteDetails,
    Overview,
    TitledNote,
    TroubledEndpoint,
)

# An account's keys, the newest first, with the usage of the cap that each counts against on a day.
_LIST_KEY_USE = f"""
SELECT {API_KEY.select}, COALESCE(u.spent + u.held, 0) AS used
FROM api_keys k
LEFT JOIN cap_usage u ON u.account_id = k.account_id AND u.api_key_id = COALESCE(k.first_key_id, k.id)
    AND u.day = %(day)s
WHERE k.account_id = %(account_id)s ORDER BY k.id DESC
"""

# What the overview shows. Spending is what was charged for meetings and notes on each day (WIB), refunds taken off: four
# rows for a day at most. An account has few keys and few endpoints.
_OVERVIEW = """
WITH spending AS (
    SELECT day, COALESCE(-sum(credits) FILTER (WHERE kind <> 'notulen_charge'), 0)::bigint AS meetings,
        COALESCE(-sum(credits) FILTER (WHERE kind = 'notulen_charge'), 0)::bigint AS notes
    FROM ledger_day_totals
    WHERE account_id = %(account_id)s AND day >= %(first_day)s
        AND kind IN ('meeting_charge', 'meeting_refund', 'notulen_charge')
    GROUP BY day
), capped AS (
    SELECT k.id, k.name, k.daily_cap, COALESCE(u.spent + u.held, 0) AS spent
    FROM api_keys k
    LEFT JOIN cap_usage u ON u.account_id = k.account_id AND u.api_key_id = COALESCE(k.first_key_id, k.id)
        AND u.day = %(day)s
    WHERE k.account_id = %(account_id)s AND k.daily_cap IS NOT NULL AND k.revoked_at IS NULL
), troubled AS (
    SELECT id, url, consecutive_failures, state = 'disabled' AS is_disabled FROM webhook_endpoints
    WHERE account_id = %(account_id)s AND (state = 'disabled' OR consecutive_failures > 0)
)
SELECT (SELECT json_agg(json_build_array(day, meetings, notes) ORDER BY day) FROM spending) AS spending,
    (SELECT json_agg(json_build_array(name, daily_cap, spent) ORDER BY id DESC) FROM capped) AS capped,
    (SELECT json_agg(json_build_array(id, url, consecutive_failures, is_disabled) ORDER BY id) FROM troubled)
        AS troubled,
    (SELECT low_threshold FROM accounts WHERE id = %(account_id)s) AS low_threshold
"""

# A meeting with its recording, where that is shown, and the notes on it: one row for each note, and one without where
# there is none. The account's id is that of the meeting, which stands last.
_FIND_MEETING_DETAILS = f"""
SELECT {NOTE_COLUMNS}, {RECORDING_COLUMNS}, {MEETING_COLUMNS}, {HOST_KEY}
FROM meetings m
LEFT JOIN recordings r ON r.account_id = m.account_id AND r.meeting_id = m.id AND r.status <> 'measuring'
LEFT JOIN notes n ON n.account_id = r.account_id AND n.recording_id = r.id AND n.status <> 'erased'
WHERE m.account_id = %(account_id)s AND m.id = %(id)s
ORDER BY n.id DESC
"""

# A page of an account's notes, with the titles of their meetings and without what they say.
_LIST_TITLED_NOTES = f"""
SELECT {NOTE.select}, m.title FROM (
    SELECT * FROM notes n
    WHERE n.account_id = %(account_id)s AND n.id < %(before)s AND n.status <> 'erased'
    ORDER BY n.id DESC LIMIT %(limit)s
) n LEFT JOIN meetings m ON m.account_id = n.account_id AND m.id = n.meeting_id
ORDER BY n.id DESC
"""

# A note with its meeting and its recording. The account's id is that of the note, which stands last.
_FIND_NOTE_DETAILS = f"""
SELECT {RECORDING_COLUMNS}, {MEETING_COLUMNS}, {NOTE_COLUMNS}
FROM notes n
LEFT JOIN meetings m ON m.account_id = n.account_id AND m.id = n.meeting_id
LEFT JOIN recordings r ON r.account_id = n.account_id AND r.id = n.recording_id
WHERE n.account_id = %(account_id)s AND n.id = %(id)s
"""


class DashboardReads(Reads):
    """What the pages of the dashboard show beside the lists of the API."""

    async def list_key_use(self, account_id: UUID, day: date) -> Sequence[KeyUse]:
        rows = await self._all(_LIST_KEY_USE, {"account_id": account_id, "day": day})
        return [_key_use(row) for row in rows]

    async def find_overview(self, account_id: UUID, first_day: date, today: date) -> Overview:
        row = await self._one(_OVERVIEW, {"account_id": account_id, "first_day": first_day, "day": today})
        assert row is not None
        return Overview(
            [DaySpending(date.fromisoformat(day), *credits) for day, *credits in row["spending"] or ()],
            [CappedKey(*values) for values in row["capped"] or ()],
            [TroubledEndpoint(UUID(id_), *rest) for id_, *rest in row["troubled"] or ()],
            row["low_threshold"],
        )

    async def find_meeting_details(self, account_id: UUID, meeting_id: UUID) -> MeetingDetails | None:
        rows = await self._all(_FIND_MEETING_DETAILS, {"account_id": account_id, "id": meeting_id})
        if not rows:
            return None
        notes = [readable_note(row, self._cipher) for row in rows if row["note_id"] is not None]
        recording = self._recording(rows[0])
        recordings = () if recording is None else (recording,)
        return MeetingDetails(meeting_with_key(rows[0], self._cipher), recordings, notes)

    async def list_titled_notes(
        self, account_id: UUID, limit: int, before: UUID | None
    ) -> Sequence[TitledNote]:
        page = {"account_id": account_id, "limit": limit, "before": before or NEWEST}
        rows = await self._all(_LIST_TITLED_NOTES, page)
        return [TitledNote(NOTE.read(row, draft=None, transcript=()), row["title"]) for row in rows]

    async def find_note_details(self, account_id: UUID, note_id: UUID) -> NoteDetails | None:
        row = await self._one(_FIND_NOTE_DETAILS, {"account_id": account_id, "id": note_id})
        if row is None:
            return None
        its_meeting = None if row["meeting_id"] is None else meeting(row, self._cipher)
        return NoteDetails(readable_note(row, self._cipher), its_meeting, self._recording(row))

    def _recording(self, row: Row) -> Recording | None:
        return None if row["recording_id"] is None else readable_recording(row, self._cipher)


def _key_use(row: Row) -> KeyUse:
    return KeyUse(API_KEY.read(row), row["used"])
