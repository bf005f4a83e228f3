"""The locks that the statements of a step take, read off the statements, which are DDL of our own.

A test runs each step and compares with what the server shows in `pg_locks`.
"""

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

__all__ = ["Lock", "locks_of", "statements_of"]


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
    # Those of partitioned tables, which cannot be dropped concurrently; an index has the name of its table in front.
    (r"\bDROP INDEX (?:IF EXISTS )?(events|deliveries|delivery_attempts)_\w+", Lock.ACCESS_EXCLUSIVE),
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
_COMMENT = re.compile(r"--[^\n]*")
_BODY = re.compile(r"\$(\w*)\$.*?\$\1\$", re.DOTALL)


def locks_of(text: str) -> dict[str, Lock]:
    """The strongest lock that the statements of a step take on each table that they name."""
    found: dict[str, Lock] = {}
    for statement in statements_of(text):
        for pattern, lock in _LOCKS:
            for match in re.finditer(pattern, statement, re.DOTALL):
                found[match[1]] = max(found.get(match[1], lock), lock)
    return found


def statements_of(text: str) -> Iterable[str]:
    """Statements without comments and without the bodies of functions, which run later."""
    return _BODY.sub("''", _COMMENT.sub("", text)).split(";")
