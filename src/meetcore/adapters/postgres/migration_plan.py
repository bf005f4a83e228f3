"""What `meetcore migrate` would do: each missing step, the locks that it takes, and how much it reads.

Owns no change.
"""

import re

import psycopg
from attrs import frozen

from meetcore.adapters.postgres.migrate import missing
from meetcore.adapters.postgres.migration_locks import Lock, locks_of, statements_of
from meetcore.adapters.postgres.migration_steps import Migration
from meetcore.adapters.postgres.pool import application_name, network_parameters, translated

__all__ = ["PlannedStep", "plan_migrations"]

READ_BYTES_PER_S = 50_000_000
"""What an index build or a check reads at least, on a disk of a small machine."""


_READS = re.compile(
    r"\bVALIDATE CONSTRAINT\b|\bUPDATE\b|\bDELETE\b|\bFROM\b|\bCREATE (?:UNIQUE )?INDEX\b|\bSET NOT NULL\b|\bTYPE\b"
    r"|\bADD CONSTRAINT\b(?!.*\bNOT VALID\b)|\bUNIQUE\b|\bPRIMARY KEY\b",
    re.DOTALL,
)
_MADE = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)


@frozen
class PlannedStep:
    """A step that is to come.

    Attributes:
        step: the step.
        locks: the strongest lock on each table that is there already.
        reads_bytes: the size of the tables that it reads whole.
    """

    step: Migration
    locks: dict[str, Lock]
    reads_bytes: int

    @property
    def reads_s(self) -> float:
        """Seconds that reading takes at least, by a rule of thumb; a lock is held as long where the step is not online."""
        return self.reads_bytes / READ_BYTES_PER_S


def plan_migrations(url: str) -> list[PlannedStep]:
    """Plan what is missing; nothing is changed or locked.

    Raises:
        MigrationRefused, StoreUnavailable: see `migrate`.
    """
    steps = missing(url)
    shown = network_parameters(url) | {"application_name": application_name("migrate")}
    with translated(), psycopg.connect(url, autocommit=True, **shown) as connection:
        sizes = dict(
            connection.execute(
                """SELECT relname, coalesce(
                    (SELECT sum(pg_table_size(part.relid)) FROM pg_partition_tree(c.oid) AS part)::bigint,
                    pg_table_size(oid))
                FROM pg_class c WHERE relkind IN ('r', 'p') AND pg_table_is_visible(oid)"""
            ).fetchall()
        )
    return [_planned(step, sizes) for step in steps]


def _planned(step: Migration, sizes: dict[str, int]) -> PlannedStep:
    locks = {table: lock for table, lock in locks_of(step.text).items() if table in sizes}
    read = {table for text in statements_of(step.text) if _READS.search(text) for table in locks_of(text)}
    read -= set(_MADE.findall(step.text))  # of the name of one that was renamed, perhaps
    return PlannedStep(step, locks, sum(sizes.get(table, 0) for table in read))
