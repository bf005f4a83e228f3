"""Between the domain's values and what SQLite stores: ids, instants, flags, lists, records.

A column has the name of the field that it keeps, so that one converter reads every record. What is
nested in the domain and flat in a table (a transfer's reference, an entry's transfer) has a function
of its own. Owns the form of values. Contains no statement.
"""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar, get_args, get_origin
from uuid import UUID

import msgspec
from attrs import asdict, evolve, frozen
from cattrs import Converter

from meetcore.domain.money.holds import Hold
from meetcore.domain.money.ledger import Entry, Transfer
from meetcore.domain.notes.notes import Note, NoteDraft
from meetcore.domain.notes.recordings import Recording, RecordingFile
from meetcore.domain.notes.transcripts import Transcript

__all__ = [
    "MICROSECOND",
    "Row",
    "bound",
    "content_of",
    "entry",
    "fields_of",
    "hold",
    "instant",
    "microseconds",
    "note",
    "record",
    "recording",
    "reference_of",
    "transcript",
    "transfer",
]

Row = dict[str, Any]
T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def microseconds(at: datetime) -> int:
    """An instant as it is stored: exact to the microsecond, and comparable in SQL."""
    return (at - _EPOCH) // MICROSECOND


def instant(stored: int, _: object = None) -> datetime:
    """An instant from how it is stored."""
    return _EPOCH + stored * MICROSECOND


def _is_tuple(kind: Any) -> bool:
    origin: object = get_origin(kind)
    return origin is tuple


def _texts(stored: str, kind: Any) -> tuple[Any, ...]:
    item = get_args(kind)[0]
    return tuple(item(text) for text in json.loads(stored))


_converter = Converter()
_converter.register_unstructure_hook(UUID, str)
_converter.register_structure_hook(UUID, lambda stored, _: UUID(stored))
_converter.register_unstructure_hook(datetime, microseconds)
_converter.register_structure_hook(datetime, instant)
_converter.register_unstructure_hook(date, date.isoformat)
_converter.register_structure_hook(date, lambda stored, _: date.fromisoformat(stored))
_converter.register_unstructure_hook(tuple, json.dumps)
_converter.register_structure_hook_func(_is_tuple, _texts)


def bound(parameters: Mapping[str, object]) -> Row:
    """A statement's parameters in the forms that SQLite stores."""
    stored: Row = _converter.unstructure(dict(parameters))
    return stored


def fields_of(known: Any) -> Row:
    """The fields of a record as parameters of a statement."""
    return asdict(known, recurse=False)


def record(kind: type[T], row: Row) -> T:
    """A record of this kind from the columns that have its fields' names."""
    return _converter.structure(row, kind)


def reference_of(known: Hold | Transfer) -> Row:
    """The columns of what a hold or a transfer is about."""
    return {"reference_type": known.reference.type, "reference_id": known.reference.id}


def _with_reference(row: Row) -> Row:
    return {**row, "reference": {"type": row["reference_type"], "id": row["reference_id"]}}


def hold(row: Row) -> Hold:
    """An open hold."""
    return record(Hold, _with_reference(row))


def transfer(row: Row) -> Transfer:
    """The transfer of an entry."""
    return record(Transfer, {**_with_reference(row), "id": row["transfer_id"]})


def entry(row: Row) -> Entry:
    """A customer's entry with its transfer; the signed amount follows from the direction."""
    moved = transfer(row)
    return Entry(
        UUID(row["account_id"]),
        row["number"],
        moved,
        moved.signed_amount,
        row["balance_after"],
        instant(row["at"]),
        row["hash"],
        row["key_id"],
    )


def recording(row: Row) -> Recording:
    """A recording with the files of its document."""
    files = msgspec.json.decode(row["files"], type=tuple[RecordingFile, ...])
    return evolve(record(Recording, row | {"files": "[]"}), files=files)


@frozen
class _Content:
    """The draft and the transcript, as one document."""

    draft: NoteDraft | None = None
    transcript: Transcript = ()


def content_of(note: Note) -> bytes:
    """A note's content, as it is stored."""
    return msgspec.json.encode(_Content(note.draft, note.transcript))


def note(row: Row) -> Note:
    """A note with the content of its document."""
    content = _Content() if row["content"] is None else msgspec.json.decode(row["content"], type=_Content)
    bare = record(Note, row | {"draft": None, "transcript": "[]"})
    return evolve(bare, draft=content.draft, transcript=content.transcript)


def transcript(stored: bytes) -> Transcript:
    """Decode a stored transcript."""
    decoded: Transcript = msgspec.json.decode(stored, type=Transcript)
    return decoded
