"""The title of the meeting that an entry of the ledger is for, in memory."""

from uuid import UUID

from meetcore.adapters.memory.state import Tables
from meetcore.domain.errors import NotFound
from meetcore.domain.ids import parse_id
from meetcore.domain.money.ledger import Entry


def title_of(tables: Tables, entry: Entry) -> str | None:
    """Return the title of its meeting, or of the meeting of its note; `None` where that is not there."""
    reference = entry.transfer.reference
    try:
        id_: UUID | None = parse_id(reference.id, reference.type)
    except NotFound:
        return None
    if reference.type == "note":
        note = tables.notes.get((entry.account_id, id_)) if id_ else None
        id_ = note.note.meeting_id if note else None
    elif reference.type != "meeting":
        return None
    found = tables.meetings.get((entry.account_id, id_)) if id_ else None
    return None if found is None else found.meeting.title
