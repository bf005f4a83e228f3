"""Many sealed values of a customer: copies of rows that the service wrote, each sealed for its record."""

import time
from collections.abc import Callable, Mapping
from uuid import UUID, uuid4

import psycopg
from attrs import frozen

from meetcore.adapters.postgres.sealed_values import COLUMNS, SealedColumn
from meetcore.adapters.sandbox.links import JoinLinks
from meetcore.adapters.secrets import AesGcmCipher

__all__ = ["Copies", "copy_rows", "sealed_under"]

_CHUNK = 2_000
_COLUMNS = {f"{each.table}.{each.name}": each for each in COLUMNS}


@frozen
class Copies:
    """How the rows of a table are copied: sealed columns, and the columns that follow from the new id."""

    table: str
    sealed: tuple[str, ...]
    own: Mapping[str, str]


MEETINGS = Copies(
    "meetings",
    ("password", "sealed_join_url"),
    {
        "provider_meeting_id": "'sandbox-' || new.id",
        "charge_id": "NULL",
        "idempotency_key": "NULL",
        "due_at": "NULL",
    },
)
EVENTS = Copies("events", ("payload",), {"subject_id": "NULL"})
RECORDINGS = Copies("recordings", ("files",), {"meeting_id": "new.id", "due_at": "NULL"})
NOTES = Copies(
    "notes",
    ("content",),
    {"recording_id": "new.id", "meeting_id": "new.id", "charge_id": "NULL", "due_at": "NULL"},
)
SHARES = ((MEETINGS, 5), (EVENTS, 3), (RECORDINGS, 1), (NOTES, 1))
"""Of ten values, how many are in each table: a meeting has two."""


def copy_rows(
    url: str, account_id: str, values: int, cipher: AesGcmCipher, links: JoinLinks
) -> Mapping[str, int]:
    """Copy the newest meeting, event, recording and note of an account until it has so many values more.

    Returns:
        The number of rows by table.
    """
    made: dict[str, int] = {}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        ids: list[UUID] = []
        for copies, share in SHARES:
            count = values * share // 10 // (2 if copies is MEETINGS else 1)
            # The notes are on the recordings.
            ids = ids if copies is NOTES else [_id() for _ in range(count)]
            for first in range(0, count, _CHUNK):
                _copy(connection, UUID(account_id), copies, ids[first : first + _CHUNK], cipher, links)
            made[copies.table] = count
        connection.execute("VACUUM ANALYZE")
    return made


def sealed_under(url: str, key_id: bytes) -> int:
    """How many of the values of these tables are under a key."""
    with psycopg.connect(url) as connection:
        total = 0
        for copies, _ in SHARES:
            for name in copies.sealed:
                statement = f"SELECT count(*) FROM {copies.table} WHERE substr({name}, 2, 4) = %s"
                row = connection.execute(statement.encode(), [key_id]).fetchone()
                total += 0 if row is None else row[0]
        return total


def _id() -> UUID:
    """An id in the form that the service gives, of an hour ago: older than those that are copied."""
    instant = f"{int((time.time() - 3600) * 1000):012x}"
    word = uuid4().hex
    return UUID(f"{instant}7{word[:3]}8{word[3:18]}")


def _copy(
    connection: psycopg.Connection,
    account_id: UUID,
    copies: Copies,
    ids: list[UUID],
    cipher: AesGcmCipher,
    links: JoinLinks,
) -> None:
    columns = [_COLUMNS[f"{copies.table}.{name}"] for name in copies.sealed]
    template, plain = _template(connection, account_id, copies, columns, cipher)
    parameters: dict[str, object] = {"ids": ids, "template": template, "account_id": account_id}
    for column in columns:
        text: Callable[[UUID], bytes] = lambda _, name=column.name: plain[name]  # type: ignore[misc]  # noqa: E731
        if column.name == "sealed_join_url":
            text = lambda id_: links.join_url(id_).encode()  # noqa: E731
        parameters[column.name] = [cipher.seal(text(id_), column.context(account_id, id_)) for id_ in ids]
    connection.execute(_insert(connection, copies).encode(), parameters)


def _template(
    connection: psycopg.Connection,
    account_id: UUID,
    copies: Copies,
    columns: list[SealedColumn],
    cipher: AesGcmCipher,
) -> tuple[UUID, dict[str, bytes]]:
    """The newest row with all sealed columns, and what is in them."""
    names = ", ".join(copies.sealed)
    there = " AND ".join(f"{name} IS NOT NULL" for name in copies.sealed)
    statement = (
        f"SELECT id, {names} FROM {copies.table} WHERE account_id = %s AND {there} ORDER BY id DESC LIMIT 1"
    )
    row = connection.execute(statement.encode(), [account_id]).fetchone()
    assert row is not None, f"{copies.table} has no row to copy"
    id_, *sealed = row
    return id_, {
        column.name: cipher.open(bytes(value), column.context(account_id, id_))
        for column, value in zip(columns, sealed, strict=True)
    }


def _insert(connection: psycopg.Connection, copies: Copies) -> str:
    rows = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped "
        "AND attgenerated = '' ORDER BY attnum",
        [copies.table],
    )
    names = [name for (name,) in rows]
    given = {"id": "new.id"} | {name: f"new.{name}" for name in copies.sealed} | dict(copies.own)
    taken = ", ".join(given.get(name, f"t.{name}") for name in names)
    arrays = ", ".join(f"%({name})s::bytea[]" for name in copies.sealed)
    return (
        f"INSERT INTO {copies.table} ({', '.join(names)}) SELECT {taken} FROM {copies.table} t "
        f"CROSS JOIN unnest(%(ids)s::uuid[], {arrays}) AS new (id, {', '.join(copies.sealed)}) "
        "WHERE t.account_id = %(account_id)s AND t.id = %(template)s"
    )
