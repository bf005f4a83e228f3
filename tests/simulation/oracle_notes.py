"""What holds of notes: each ends, and is paid for by the length of what was recorded, or costs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from math import ceil
from typing import Any

from meetcore.domain.notes.notes import NoteFault, describe
from tests.simulation.database import SimulatedDatabase
from tests.simulation.readers import Reader
from tests.simulation.studio import Studio

CONCLUDED_AFTER = timedelta(hours=42)
"""When no recording of a meeting is looked for any more."""
_NOTES = """SELECT n.id, n.meeting_id, n.language, n.status, n.credits_charged, n.duration_s, n.error,
    (SELECT count(*) FROM ledger_transfers t
        WHERE t.account_id = n.account_id AND t.id = n.charge_id) AS charges,
    (SELECT array_agg(kind) FROM events e
        WHERE e.account_id = n.account_id AND e.subject_id = n.id) AS events
    FROM notes n"""


def judge_notes(
    database: SimulatedDatabase, meetings: dict[Any, Any], studio: Studio, readers: Sequence[Reader]
) -> Iterator[str]:
    """Return what is wrong with the notes of these meetings, in sentences."""
    noted: Counter[str] = Counter()
    rows = database.control.execute(_NOTES).fetchall()
    deleted = {meeting_id: sessions for each in readers for meeting_id, sessions in each.deleted.items()}
    for sessions in deleted.values():
        if sessions - studio.removed:
            yield f"of a deleted recording the provider has {sessions - studio.removed}"
    for missing in {note_id for each in readers for note_id in each.noted} - {row["id"] for row in rows}:
        yield f"the note {missing} was answered and is not there"
    for row in rows:
        if str(row["meeting_id"]) not in meetings:
            continue
        name, is_completed = f"the note {row['id']}", row["status"] == "completed"
        noted[str(row["meeting_id"])] += row["language"] == "id"
        if row["status"] == "erased":
            if row["charges"] != bool(row["credits_charged"]) or str(row["meeting_id"]) not in deleted:
                yield f"{name} is erased, and was charged {row['credits_charged']}"
            continue
        files = studio.files_of(meetings[str(row["meeting_id"])]["provider_meeting_id"])
        lengths_s = [(each.ends_at - each.starts_at).total_seconds() for each in files]
        recorded_s = sum(lengths_s)
        if row["charges"] != is_completed or bool(row["credits_charged"]) != is_completed:
            yield f"{name} is {row['status']} and was charged {row['credits_charged']}"
        if is_completed and row["credits_charged"] != ceil(row["duration_s"] / 60):
            yield f"{name} of {row['duration_s']} s costs {row['credits_charged']}"
        is_deleted = str(row["meeting_id"]) in deleted
        if is_completed and not is_deleted and not 0 < row["duration_s"] <= recorded_s + 1:
            yield f"{name} is of {row['duration_s']} s, and {recorded_s} s were recorded"
        if row["error"] == describe(NoteFault.MEDIA_UNREADABLE) and lengths_s and min(lengths_s) >= 1:
            yield f"{name} failed for media that can be read, of {recorded_s} s"
        if row["events"] != [f"note.{row['status']}"]:
            yield f"{name} is {row['status']}, and its events are {row['events']}"
    for meeting_id, row in meetings.items():
        is_noted = row["auto_notulen"] and row["status"] == "ended"
        has_files = meeting_id in deleted or bool(studio.files_of(row["provider_meeting_id"]))
        is_concluded = studio.loop.now() > row["end_at"] + CONCLUDED_AFTER
        given_back = row["recording_credits"] if is_concluded and not has_files else 0
        if row["status"] == "ended" and row["given_back"] != given_back:
            yield f"of the meeting {meeting_id}, {row['given_back']} were given back for its recording"
        is_expected = is_noted and (has_files or is_concluded)
        if noted[meeting_id] != bool(is_expected) and meeting_id not in deleted:
            yield f"the meeting {meeting_id} is {row['status']} and has {noted[meeting_id]} notes"
