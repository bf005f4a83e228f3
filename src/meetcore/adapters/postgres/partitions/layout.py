"""The partitions that there are, read off the server's catalog. Changes nothing."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from attrs import frozen

from meetcore.adapters.postgres.columns import Row
from meetcore.domain.ids import first_id

__all__ = ["KEYS", "LAYOUT", "MARK", "PROOF", "Layout", "Partition", "layout_of"]

KEYS: Final[Mapping[str, str]] = {"events": "id", "deliveries": "id", "delivery_attempts": "delivery_id"}
"""The partitioned tables with their keys, in the order in which what is past its retention is dropped."""

MARK: Final = "meetcore: past its retention, to be dropped"
"""The comment of a table that is to be dropped: it tells what was being dropped from what somebody keeps."""

PROOF: Final = "_ends"
"""What the name of a constraint ends with that proves where an open partition can end; a round drops it again."""

# The partitions of the partitioned tables, and what was detached from them to be dropped.
LAYOUT = """
SELECT i.inhparent::regclass::text AS of_table, c.relname AS name, pg_get_expr(c.relpartbound, c.oid) AS bounds,
    i.inhdetachpending AS is_detaching, c.reloptions AS options,
    obj_description(c.oid, 'pg_class') AS mark,
    EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.conname = c.relname || %(proof)s::text) AS has_proof
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = ANY (ARRAY(SELECT to_regclass(name) FROM unnest(%(tables)s::text[]) AS name))
UNION ALL
SELECT NULL, c.relname, NULL, false, NULL, d.description, false
FROM pg_description d JOIN pg_class c ON c.oid = d.objoid AND d.classoid = 'pg_class'::regclass AND d.objsubid = 0
WHERE d.description = %(mark)s AND c.relkind = 'r' AND NOT c.relispartition
    AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('events'))
"""

_BOUNDS = re.compile(r"FOR VALUES FROM \((?:MINVALUE|'([0-9a-f-]+)')\) TO \((?:MAXVALUE|'([0-9a-f-]+)')\)")


@frozen
class Partition:
    """A partition of a table: the ids from `lower` to below `upper`, `None` where it is open.

    `is_marked` where it is to be dropped, `is_detaching` where that was begun; `has_proof` where rows
    behind an end that it does not have yet are refused.
    """

    table: str
    name: str
    lower: UUID | None = None
    upper: UUID | None = None
    is_detaching: bool = False
    is_marked: bool = False
    options: tuple[str, ...] = ()
    has_proof: bool = False

    @property
    def begins(self) -> UUID:
        """Its lower bound, or the least id."""
        return self.lower or UUID(int=0)


@frozen
class Layout:
    """The partitions of each table, the oldest first, and the names of those that were detached to be dropped."""

    partitions: Mapping[str, Sequence[Partition]]
    detached: Sequence[str] = ()

    def ahead(self, now: datetime) -> int:
        """Count the partitions that begin in the future and end, of the table that has the fewest."""
        present = first_id(now)
        return min(
            sum(one.begins > present and one.upper is not None for one in of_table)
            for of_table in self.partitions.values()
        )


def layout_of(rows: Sequence[Mapping[str, Any]]) -> Layout:
    """Arrange the rows of `LAYOUT`."""
    found: dict[str, list[Partition]] = {table: [] for table in KEYS}
    for row in rows:
        if row["of_table"] is not None:
            found[row["of_table"]].append(_partition(row))
    for of_table in found.values():
        of_table.sort(key=lambda one: one.begins)
    return Layout(found, [row["name"] for row in rows if row["of_table"] is None])


def layout_parameters() -> Row:
    """Return the parameters of `LAYOUT`."""
    return {"tables": list(KEYS), "mark": MARK, "proof": PROOF}


def _partition(row: Mapping[str, Any]) -> Partition:
    bounds = _BOUNDS.fullmatch(row["bounds"])
    if bounds is None:  # a DEFAULT partition, which an operator made
        raise ValueError(f"{row['name']} is no partition of a range of ids")
    lower, upper = (None if text is None else UUID(text) for text in bounds.groups())
    return Partition(
        row["of_table"], row["name"], lower, upper, row["is_detaching"], row["mark"] == MARK,
        tuple(row["options"] or ()), row["has_proof"],
    )  # fmt: skip
