"""Rows that are added without keeping indexes, which are built in one go at the end: a fraction of the time.

Indexes of constraints too, which cannot be dropped while other tables refer to them: the server is told that
an index is not ready, and `REINDEX` makes it whole. For databases of benchmarks only, and for a superuser.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg

__all__ = ["without_indexes"]

# Partitions, not the partitioned table itself, whose indexes hold nothing.
_TABLES = """
SELECT c.oid::regclass::text FROM pg_class c
WHERE c.relkind = 'r' AND (c.oid = ANY(%(names)s::regclass[])
    OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = ANY(%(names)s::regclass[])))
"""
_SUSPEND = """
UPDATE pg_index SET indisready = false, indisvalid = false WHERE indrelid = ANY(%(tables)s::regclass[])
"""


@contextmanager
def without_indexes(connection: psycopg.Connection, names: Sequence[str]) -> Iterator[None]:
    """Suspend every index of these tables and of their partitions; build them when the rows are in.

    Nothing may read or change rows by these indexes meanwhile. `connection` is in autocommit. When the body
    raises, the indexes stay suspended, as the rows may violate them.
    """
    tables = [name for (name,) in connection.execute(_TABLES, {"names": list(names)}).fetchall()]
    connection.execute(_SUSPEND, {"tables": tables})
    yield
    for name in tables:
        connection.execute(f"REINDEX TABLE {name}".encode())
