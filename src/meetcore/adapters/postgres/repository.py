"""The base of repositories and reads, the statements that they execute, and the advisory locks by name.

Each statement stands whole in the `.sql` file beside the module that executes it, under a comment that begins with its name:

    -- find_account: Read an account by its id.
    SELECT {ACCOUNT.select} FROM accounts a WHERE a.id = %(id)s

`{ACCOUNT.select}` is a list of columns that `columns.Columns` derives from a record, `{MAX_PAGE}` a constant. Common
table expressions that statements share are written out in each; a test compares their texts.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import dropwhile
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from meetcore.adapters.postgres.columns import Columns, R, Row
from meetcore.adapters.postgres.pool import Connection, Pool, translated
from meetcore.domain.errors import require_record
from meetcore.ports.runtime import Cipher

MIGRATIONS: Final = 0x6D656574636F7265
"""Held by the host that migrates, on its session. The number is "meetcore"."""

GRANTS: Final = 6072401002
"""Held by the host that grants rights to the service's role, for its transaction."""

NOTE_CLAIMS: Final = 6072401001
"""Held by the worker that claims notes, for its transaction: claims follow one another."""

NEWEST = UUID(int=(1 << 128) - 1)
"""An id that no record has, and that every id is less than."""
OLDEST = UUID(int=0)
"""An id that no record has, and that is less than every id."""


_PLACEHOLDER = re.compile(r"\{([A-Z][A-Z_]*)(?:\.(\w+))?\}")


def load_statements(module_file: str, **values: object) -> Mapping[str, str]:
    """Return the statements of the `.sql` file beside a module (its `__file__`), filled with the values."""

    def value(match: re.Match[str]) -> str:
        given = values[match[1]]
        return str(getattr(given, match[2]) if match[2] else given)

    statements: dict[str, str] = {}
    for part in Path(module_file).with_suffix(".sql").read_text("utf-8").split("\n\n-- "):
        name, _, rest = part.removeprefix("-- ").partition(":")
        lines = dropwhile(lambda line: line.startswith("--"), rest.split("\n")[1:])
        statements[name] = _PLACEHOLDER.sub(value, "\n".join(lines).rstrip())
    return statements


class Statements:
    """Statements with their parameters, as a mapping, by name or both, and the records of the rows that they return."""

    _cipher: Cipher

    async def _all(self, query: str, parameters: Row | None = None, /, **named: Any) -> Sequence[Row]:
        raise NotImplementedError

    async def _one(self, query: str, parameters: Row | None = None, /, **named: Any) -> Row | None:
        found = await self._all(query, parameters, **named)
        return found[0] if found else None

    async def _find(
        self, columns: Columns[R], query: str, parameters: Row | None = None, /, **named: Any
    ) -> R | None:
        row = await self._one(query, parameters, **named)
        return None if row is None else columns.read(row, self._cipher)

    async def _get(self, columns: Columns[R], what: str, query: str, **named: Any) -> R:
        """Read a record by its id, or raise `NotFound`."""
        found = await self._find(columns, query, **named)
        return require_record(found, what)

    async def _list(
        self, columns: Columns[R], query: str, parameters: Row | None = None, /, **named: Any
    ) -> list[R]:
        return [columns.read(row, self._cipher) for row in await self._all(query, parameters, **named)]


class Repository(Statements):
    """Statements on one open transaction. An aggregate's methods stand beside their statements."""

    def __init__(self, connection: Connection, cipher: Cipher) -> None:
        self._connection = connection
        self._cipher = cipher

    async def _all(self, query: str, parameters: Row | None = None, /, **named: Any) -> list[Row]:
        return await self._connection.fetch(query, (parameters or {}) | named)

    async def _locked(self, query: str, parameters: Row | None = None, /, **named: Any) -> Row | None:
        """Read under the account's lock, again if it was waited for: its holder may have changed the rows."""
        row = await self._one(query, parameters, **named)
        if row is not None and row["seen_version"] != row["version"]:
            row = await self._one(query, parameters, **named)
        return row

    async def _due(self, query: str, parameters: Row | None = None, /, **named: Any) -> int:
        """Write, and return how many deliveries became due."""
        row = await self._one(query, parameters, **named)
        return 0 if row is None else int(row["due"])

    async def _changed(self, query: str, parameters: Row | None = None, /, **named: Any) -> bool:
        """Write one row, and return whether it was there."""
        return await self._run(query, parameters, **named) == 1

    async def _run(self, query: str, parameters: Row | None = None, /, **named: Any) -> int:
        """Write, and return how many rows were written."""
        return (await self._connection.execute(query, (parameters or {}) | named)).rowcount


class Reads(Statements):
    """Statements that only read, each on a connection of its own, outside any transaction."""

    def __init__(self, pool: Pool, cipher: Cipher) -> None:
        self._pool = pool
        self._cipher = cipher

    async def _all(self, query: str, parameters: Row | None = None, /, **named: Any) -> Sequence[Row]:
        with translated():
            return await self._pool.read(query, (parameters or {}) | named)


class PooledWrites:
    """Statements that write, each on a connection of its own: it commits by itself."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def _one(self, query: str, **named: Any) -> Row | None:
        with translated():
            async with self._pool.connection() as connection:
                return await (await connection.execute(query, named)).fetchone()

    async def _run(self, query: str, parameters: Row | None = None, /, **named: Any) -> int:
        """Write, and return how many rows were written."""
        with translated():
            async with self._pool.connection() as connection:
                return (await connection.execute(query, (parameters or {}) | named)).rowcount

    async def _changed(self, query: str, parameters: Row | None = None, /, **named: Any) -> bool:
        """Write one row, and return whether it was there."""
        return await self._run(query, parameters, **named) == 1
