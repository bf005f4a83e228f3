"""The sealed columns of the database, with the contexts of their values, resealed in portions.

A portion holds no lock between its reading and its writing: a value that changed meanwhile is left as it is.
A row is found by its primary key, so that the last portion costs what the first does.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

import structlog
from attrs import frozen

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.mails import mail_context
from meetcore.adapters.postgres.meetings.rows import host_key_context, join_url_context, password_context
from meetcore.adapters.postgres.meetings.upkeep import provider_event_context
from meetcore.adapters.postgres.notes.rows import chunk_context, files_context, note_context
from meetcore.adapters.postgres.pool import Pool, translated
from meetcore.adapters.postgres.requests.idempotency import answer_context
from meetcore.adapters.postgres.webhooks.rows import endpoint_context, event_context, previous_secret_context
from meetcore.ports import maintenance, runtime

LOGGED_AT_MOST: Final = 100
"""Values that do not open and are named in the log, of one reseal; all are counted."""

log = structlog.get_logger("meetcore.postgres")

_LOWEST: Final[Mapping[str, object]] = {"uuid": UUID(int=0), "text": "", "integer": -1}


@frozen
class SealedColumn:
    """A column of sealed values. `key` has the columns of the primary key with their types, in its order."""

    table: str
    name: str
    key: tuple[tuple[str, str], ...]
    context: Callable[..., str]

    @property
    def find(self) -> str:
        """Return the statement that reads the next values behind a place, those under the first key without their bytes."""
        names = ", ".join(name for name, _ in self.key)
        places = ", ".join(f"%({name})s" for name, _ in self.key)
        return (
            f"SELECT {names}, encode(substr({self.name}, 2, 4), 'hex') AS key_id,\n"
            f"    CASE WHEN %(with_values)s AND substr({self.name}, 2, 4) <> %(first)s THEN {self.name} END AS sealed\n"
            f"FROM {self.table} WHERE ({names}) > ({places}) AND {self.name} IS NOT NULL\n"
            f"ORDER BY {names} LIMIT %(limit)s"
        )

    @property
    def find_other(self) -> str:
        """Return the statement that finds the id of a key that a value is under and that is not among the given ones."""
        return (
            f"SELECT substr({self.name}, 2, 4) FROM {self.table}\n"
            f"WHERE {self.name} IS NOT NULL AND substr({self.name}, 2, 4) <> ALL(%(keys)s) LIMIT 1"
        )

    @property
    def replace(self) -> str:
        """Return the statement that replaces values that are still as they were read."""
        names = ", ".join(name for name, _ in self.key)
        arrays = ", ".join(f"%({name})s::{kind}[]" for name, kind in self.key)
        same = " AND ".join(f"t.{name} = new.{name}" for name, _ in self.key)
        return (
            f"UPDATE {self.table} t SET {self.name} = new.resealed\n"
            f"FROM unnest({arrays}, %(read)s::bytea[], %(resealed)s::bytea[]) AS new ({names}, was, resealed)\n"
            f"WHERE {same} AND t.{self.name} = new.was"
        )


_OF_ACCOUNT: Final = (("account_id", "uuid"), ("id", "uuid"))
_BY_ID: Final = (("id", "uuid"),)

COLUMNS: Final = (
    SealedColumn("meetings", "password", _OF_ACCOUNT, password_context),
    SealedColumn("meetings", "join_url", _OF_ACCOUNT, join_url_context),
    SealedColumn("hosts", "host_key", _BY_ID, host_key_context),
    SealedColumn("webhook_endpoints", "secret", _OF_ACCOUNT, endpoint_context),
    SealedColumn("webhook_endpoints", "previous_secret", _OF_ACCOUNT, previous_secret_context),
    SealedColumn("events", "payload", _OF_ACCOUNT, event_context),
    SealedColumn("idempotency_keys", "answer", (("account_id", "uuid"), ("key", "text")), answer_context),
    SealedColumn("provider_events", "payload", _BY_ID, provider_event_context),
    SealedColumn("recordings", "files", _OF_ACCOUNT, files_context),
    SealedColumn("notes", "content", _OF_ACCOUNT, note_context),
    SealedColumn(
        "transcript_chunks",
        "transcript",
        (("account_id", "uuid"), ("recording_id", "uuid"), ("source", "text"), ("number", "integer")),
        chunk_context,
    ),
    SealedColumn("mails", "content", _BY_ID, mail_context),
)
"""Every column of sealed values."""


class PostgresSealedValues:
    """The sealed values of a database, opened under every key that is given and sealed under the first."""

    def __init__(self, pool: Pool, cipher: runtime.KeyedCipher) -> None:
        self._pool = pool
        self._cipher = cipher
        self._unreadable = 0
        self._columns = {f"{each.table}.{each.name}": each for each in COLUMNS}

    @property
    def columns(self) -> Sequence[str]:
        return list(self._columns)

    @property
    def key_ids(self) -> Sequence[str]:
        return [each.hex() for each in self._cipher.key_ids]

    async def count(self, column: str, after: tuple[object, ...] | None, limit: int) -> maintenance.Resealed:
        rows = await self._read(self._columns[column], after, limit, with_values=False)
        return maintenance.Resealed(_by_key(rows), after=self._place(column, rows, limit))

    async def reseal(self, column: str, after: tuple[object, ...] | None, limit: int) -> maintenance.Resealed:
        of = self._columns[column]
        rows = await self._read(of, after, limit, with_values=True)
        old = [row for row in rows if row["sealed"] is not None]
        read, resealed = [], []
        for row in old:
            context = of.context(*(row[name] for name, _ in of.key))
            try:
                again = self._cipher.seal(self._cipher.open(bytes(row["sealed"]), context), context)
            except runtime.CipherRefused:
                self._log_unreadable(of, row)
                continue
            read.append(row)
            resealed.append(again)
        done = await self._write(of, read, resealed) if read else 0
        return maintenance.Resealed(
            _by_key(rows), done, len(read) - done, len(old) - len(read), self._place(column, rows, limit)
        )

    def _log_unreadable(self, of: SealedColumn, row: Row) -> None:
        """Log where a value is that does not open, of the first hundred."""
        self._unreadable += 1
        if self._unreadable <= LOGGED_AT_MOST:
            place = {name: str(row[name]) for name, _ in of.key}
            log.warning("value does not open", table=of.table, column=of.name, key_id=row["key_id"], **place)

    def _place(self, column: str, rows: Sequence[Row], limit: int) -> tuple[object, ...] | None:
        return tuple(rows[-1][name] for name, _ in self._columns[column].key) if len(rows) == limit else None

    async def _read(
        self, of: SealedColumn, after: tuple[object, ...] | None, limit: int, *, with_values: bool
    ) -> Sequence[Row]:
        place = after or tuple(_LOWEST[kind] for _, kind in of.key)
        named = {name: value for (name, _), value in zip(of.key, place, strict=True)}
        parameters = named | {
            "limit": limit,
            "with_values": with_values,
            "first": self._cipher.key_ids[0],
        }
        with translated():
            return await self._pool.read(of.find, parameters)

    async def _write(self, of: SealedColumn, rows: Sequence[Row], resealed: Sequence[bytes]) -> int:
        parameters: Row = {name: [row[name] for row in rows] for name, _ in of.key}
        parameters |= {"read": [row["sealed"] for row in rows], "resealed": list(resealed)}
        with translated():
            async with self._pool.connection() as connection:
                return (await connection.execute(of.replace, parameters)).rowcount


def _by_key(rows: Sequence[Row]) -> Mapping[str, int]:
    return Counter(row["key_id"] for row in rows)
