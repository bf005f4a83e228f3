"""What `meetcore migrate` would do: each missing step, the locks that it takes, and how much it reads.

Locks are read off the statements, which are DDL of our own; a test runs each step and compares with what the server
shows in `pg_locks`. Owns no change.
"""

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

import psycopg
from attrs import frozen

from meetcore.adapters.postgres.migrate import missing
from meetcore.adapters.postgres.migration_steps import Migration
from meetcore.adapters.postgres.pool import application_name, network_parameters, translated

__all__ = ["Lock", "PlannedStep", "locks_of", "plan_migrations"]

READ_BYTES_PER_S = 50_000_000
"""What an index build or a check reads at least, on a disk of a small machine."""


class Lock(IntEnum):
    """The modes of table locks, weakest first; PostgreSQL documentation, 13.3.1."""

    ACCESS_SHARE = 1
    ROW_SHARE = 2
    ROW_EXCLUSIVE = 3
    SHARE_UPDATE_EXCLUSIVE = 4
    SHARE = 5
    SHARE_ROW_EXCLUSIVE = 6
    EXCLUSIVE = 7
    ACCESS_EXCLUSIVE = 8

    @property
    def text(self) -> str:
        """The mode as `pg_locks` and the documentation of PostgreSQL have it."""
        return self.name.replace("_", " ")

    @property
    def stops_writers(self) -> bool:
        """Whether an INSERT waits for it."""
        return self >= Lock.SHARE


_TABLE = r"(?:ONLY )?(\w+)"
_LOCKS: Final = (
    (rf"\bALTER TABLE (?:IF EXISTS )?{_TABLE}\s+VALIDATE CONSTRAINT\b", Lock.SHARE_UPDATE_EXCLUSIVE),
    (rf"\bALTER TABLE (?:IF EXISTS )?{_TABLE}(?!\w|\s+VALIDATE CONSTRAINT)", Lock.ACCESS_EXCLUSIVE),
    (rf"\bDROP TABLE (?:IF EXISTS )?{_TABLE}", Lock.ACCESS_EXCLUSIVE),
    (rf"\bDROP TRIGGER (?:IF EXISTS )?\w+\s+ON {_TABLE}", Lock.ACCESS_EXCLUSIVE),
    (rf"\bCREATE (?:UNIQUE )?INDEX CONCURRENTLY .*?\bON {_TABLE}", Lock.SHARE_UPDATE_EXCLUSIVE),
    (rf"\bCREATE (?:UNIQUE )?INDEX (?!CONCURRENTLY).*?\bON {_TABLE}", Lock.SHARE),
    (rf"\bCREATE (?:CONSTRAINT )?TRIGGER .*?\bON {_TABLE}", Lock.SHARE_ROW_EXCLUSIVE),
    (rf"\bREFERENCES {_TABLE}", Lock.SHARE_ROW_EXCLUSIVE),
    (rf"\bUPDATE {_TABLE}\s(?:\w+\s)?\s*SET\b", Lock.ROW_EXCLUSIVE),
    (rf"\bINSERT INTO {_TABLE}", Lock.ROW_EXCLUSIVE),
    (rf"\bDELETE FROM {_TABLE}", Lock.ROW_EXCLUSIVE),
    (rf"\b(?:FROM|JOIN) {_TABLE}", Lock.ACCESS_SHARE),
)
_READS = re.compile(
    r"\bVALIDATE CONSTRAINT\b|\bUPDATE\b|\bDELETE\b|\bFROM\b|\bCREATE (?:UNIQUE )?INDEX\b|\bSET NOT NULL\b|\bTYPE\b"
    r"|\bADD CONSTRAINT\b(?!.*\bNOT VALID\b)|\bUNIQUE\b|\bPRIMARY KEY\b",
    re.DOTALL,
)
_MADE = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
_BODY = re.compile(r"\$(\w*)\$.*?\$\1\$", re.DOTALL)


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
                """SELECT relname, pg_table_size(oid) FROM pg_class
                WHERE relkind IN ('r', 'p') AND pg_table_is_visible(oid)"""
            ).fetchall()
        )
    return [_planned(step, sizes) for step in steps]


def _planned(step: Migration, sizes: dict[str, int]) -> PlannedStep:
    locks = {table: lock for table, lock in locks_of(step.text).items() if table in sizes}
    read = {table for text in _statements(step.text) if _READS.search(text) for table in locks_of(text)}
    read -= set(_MADE.findall(step.text))  # of the name of one that was renamed, perhaps
    return PlannedStep(step, locks, sum(sizes.get(table, 0) for table in read))


def locks_of(text: str) -> dict[str, Lock]:
    """The strongest lock that the statements of a step take on each table that they name."""
    found: dict[str, Lock] = {}
    for statement in _statements(text):
        for pattern, lock in _LOCKS:
            for match in re.finditer(pattern, statement, re.DOTALL):
                found[match[1]] = max(found.get(match[1], lock), lock)
    return found


def _statements(text: str) -> Iterable[str]:
    """Statements without comments and without the bodies of functions, which run later."""
    return _BODY.sub("''", _COMMENT.sub("", text)).split(";")
