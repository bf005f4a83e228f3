"""An index of a partitioned table, built beside writers: on one partition after another, then one for the table.

PostgreSQL refuses to build such an index concurrently. So one is made of the table alone, which is not valid until each
partition has its own; each of these is built concurrently and attached. What is there already is left: an
interrupted build goes on with the next partition. Rounds of `partitions` are kept out meanwhile, and after an
interruption they end no open partition: to attach it anew would build the index under the lock of the table.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from attrs import frozen

from meetcore.adapters.postgres.advisory_locks import PARTITIONS
from meetcore.adapters.postgres.migration_steps import MigrationRefused

__all__ = ["PartitionedIndex", "build_index"]

_FORM = re.compile(r"CREATE (?:UNIQUE )?INDEX (\w+) ON (\w+) (?=\(|USING\b)")
_QUEUE_TIMEOUT_MS: Final = 300

# The partitions that lack an index of the table, the oldest first, so that the open one comes last: each with an index of
# its own that is like it and is not attached, if there is one. An index is what its definition says from its method on.
_LACKING: Final = """
SELECT p.relname AS partition, own.relname AS index, own.indisvalid AS is_valid
FROM pg_index parent
JOIN pg_inherits i ON i.inhparent = parent.indrelid AND NOT i.inhdetachpending
JOIN pg_class p ON p.oid = i.inhrelid
LEFT JOIN LATERAL (
    SELECT c.relname, x.indisvalid
    FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid
    WHERE x.indrelid = p.oid AND NOT c.relispartition AND x.indisunique = parent.indisunique
        AND split_part(pg_get_indexdef(x.indexrelid), ' USING ', 2)
            = split_part(pg_get_indexdef(parent.indexrelid), ' USING ', 2)
    ORDER BY x.indisvalid DESC LIMIT 1
) AS own ON true
WHERE parent.indexrelid = to_regclass(%(index)s) AND NOT EXISTS (
    SELECT FROM pg_inherits a JOIN pg_index x ON x.indexrelid = a.inhrelid
    WHERE a.inhparent = parent.indexrelid AND x.indrelid = p.oid)
ORDER BY pg_get_expr(p.relpartbound, p.oid) LIKE '%%(MAXVALUE)', p.relname LIKE '%%\\_first' DESC, p.relname
"""


@frozen
class PartitionedIndex:
    """An index that each partition of a table is to have, as its statement names them."""

    name: str
    table: str
    on_table_alone: str

    @staticmethod
    def of(statement: str) -> "PartitionedIndex":
        """Read a statement under `-- for each partition`.

        Raises:
            MigrationRefused: it does not make an index with a name.
        """
        match = _FORM.match(statement)
        if match is None:
            raise MigrationRefused(
                "'-- for each partition' stands above CREATE INDEX name ON table (...) only"
            )
        alone = f"{statement[: match.start(2)]}ONLY {statement[match.start(2) :]}"
        return PartitionedIndex(match[1], match[2], alone)


def build_index(connection: psycopg.Connection, index: PartitionedIndex) -> None:
    """Give each partition the index, and the table one of them all. Run outside of a transaction, as often as it takes.

    Raises:
        MigrationRefused: the table has no partitions, or the index cannot be completed.
        psycopg.errors.LockNotAvailable: what others wait behind stayed taken, or a round of `partitions` is under way.
    """
    with _without_rounds(connection):
        _make_alone(connection, index)
        built: set[str] = set()
        while (row := connection.execute(_LACKING.encode(), {"index": index.name}).fetchone()) is not None:
            partition, own, is_valid = row
            if own is None:
                if partition in built:
                    raise MigrationRefused(f"what was built on {partition} is not like {index.name}")
                built.add(partition)
                connection.execute(_own_statement(connection, index, partition).encode())
            elif not is_valid:  # an interrupted build left it
                connection.execute(f"DROP INDEX CONCURRENTLY {own}".encode())
            else:
                _brief(connection, f"ALTER INDEX {index.name} ATTACH PARTITION {own}")
        _check_complete(connection, index)


def _check_complete(connection: psycopg.Connection, index: PartitionedIndex) -> None:
    """Refuse an index that the server did not find complete: it looks when an index is attached, and at no other time."""
    row = connection.execute(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", (index.name,)
    ).fetchone()
    if row is None or not row[0]:
        raise MigrationRefused(
            f"{index.name} is on each partition and not valid: DROP INDEX {index.name}, then run it again"
        )


@contextmanager
def _without_rounds(connection: psycopg.Connection) -> Iterator[None]:
    """Keep rounds of `partitions` out: they attach partitions."""
    row = connection.execute("SELECT pg_try_advisory_lock(%s)", (PARTITIONS,)).fetchone()
    if row is None or not row[0]:
        raise psycopg.errors.LockNotAvailable("a round of partitions is under way")
    try:
        yield
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s)", (PARTITIONS,))


def _make_alone(connection: psycopg.Connection, index: PartitionedIndex) -> None:
    there = connection.execute(
        "SELECT relkind, to_regclass(%s) IS NOT NULL FROM pg_class WHERE oid = to_regclass(%s)",
        (index.name, index.table),
    ).fetchone()
    if there is None or there[0] != "p":
        raise MigrationRefused(f"'-- for each partition': {index.table} has none")
    if not there[1]:
        _brief(connection, index.on_table_alone)


def _brief(connection: psycopg.Connection, statement: str) -> None:
    """Run a statement that others wait behind for as long as it waits itself."""
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = {_QUEUE_TIMEOUT_MS}".encode())
        connection.execute(statement.encode())


def _own_statement(connection: psycopg.Connection, index: PartitionedIndex, partition: str) -> str:
    """Write the statement that builds the index of a partition; the server names it as it does those of new ones."""
    row = connection.execute(
        """SELECT indisunique, split_part(pg_get_indexdef(indexrelid), ' USING ', 2)
        FROM pg_index WHERE indexrelid = to_regclass(%s)""",
        (index.name,),
    ).fetchone()
    assert row is not None
    unique = "UNIQUE " if row[0] else ""
    return f"CREATE {unique}INDEX CONCURRENTLY ON {partition} USING {row[1]}"
