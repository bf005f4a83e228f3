"""The partitions that there are, read off the server's catalog. Changes nothing."""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from attrs import field, frozen

from meetcore.adapters.postgres.columns import Row
from meetcore.domain.ids import first_id

__all__ = ["KEYS", "LAYOUT", "MARK", "PROOF", "Layout", "Partition", "layout_of"]

KEYS: Final[Mapping[str, str]] = {"events": "id", "deliveries": "id", "delivery_attempts": "delivery_id"}
"""The partitioned tables with their keys, in the order in which what is past its retention is dropped."""

MARK: Final = "meetcore: past its retention, to be dropped"
"""The comment of a table that is to be dropped: it tells what was being dropped from what somebody keeps."""

PROOF: Final = "_ends"
"""What the name of a constraint ends with that proves where an open partition can end; a round drops it again."""

# The partitions of the partitioned tables, what was detached from them to be dropped, and tables that have a name of a
# partition and are none: somebody took them out and keeps them.
LAYOUT = """
SELECT i.inhparent::regclass::text AS of_table, c.relname AS name, pg_get_expr(c.relpartbound, c.oid) AS bounds,
    i.inhdetachpending AS is_detaching, c.reloptions AS options,
    obj_description(c.oid, 'pg_class') AS mark,
    EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.conname = c.relname || %(proof)s::text) AS has_proof
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = ANY (ARRAY(SELECT to_regclass(name) FROM unnest(%(tables)s::text[]) AS name))
UNION ALL
SELECT NULL, c.relname, NULL, false, NULL, obj_description(c.oid, 'pg_class'), false
FROM pg_class c
WHERE c.relkind = 'r' AND NOT c.relispartition
    AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('events'))
    AND c.relname ~ ('^(' || array_to_string(%(tables)s::text[], '|') || ')_([0-9]{8}(_[0-9]+)?|first)$')
"""

_BOUNDS = re.compile(r"FOR VALUES FROM \((?:MINVALUE|'([0-9a-f-]+)')\) TO \((?:MAXVALUE|'([0-9a-f-]+)')\)")


@frozen
class Partition:
    """A partition of a table: the ids from `lower` to below `upper`, `None` where it is open.

    `is_marked` where it is to be dropped, `is_detaching` where its detachment was begun, by an operator if it is not
    marked; `has_proof` where rows behind an end that it does not have yet are refused.
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

    @property
    def is_taken_out(self) -> bool:
        """Whether an operator has begun to detach it."""
        return self.is_detaching and not self.is_marked


@frozen
class Layout:
    """The partitions of each table, the oldest first.

    Attributes:
        partitions: those of a range of ids, by table.
        detached: the names of those that were detached to be dropped.
        kept: tables of a partition's name that were taken out of their table and are not to be dropped.
        unknown: partitions that are of no range of ids, by table: an operator made a DEFAULT partition. Where there
            is one, its table is left as it is.
    """

    partitions: Mapping[str, Sequence[Partition]]
    detached: Sequence[str] = ()
    kept: Sequence[str] = ()
    unknown: Mapping[str, Sequence[str]] = field(factory=dict[str, Sequence[str]])

    @property
    def names(self) -> AbstractSet[str]:
        """Every name that a new partition cannot have."""
        of_tables = {one.name for of_table in self.partitions.values() for one in of_table}
        others = {name for of_table in self.unknown.values() for name in of_table}
        return of_tables | others | {*self.detached, *self.kept}

    @property
    def problems(self) -> list[str]:
        """Describe what keeps a round from its work."""
        unknown = [
            f"{name} is a partition of {table} for no range of ids, and none of {table} is made or dropped beside it: "
            f"move its rows and take it out"
            for table, names in self.unknown.items()
            for name in names
        ]
        taken_out = [
            f"{one.name} is being detached by hand, and none of {one.table} is dropped meanwhile: where nothing does "
            f"it any more, run ALTER TABLE {one.table} DETACH PARTITION {one.name} FINALIZE"
            for of_table in self.partitions.values()
            for one in of_table
            if one.is_taken_out
        ]
        return unknown + taken_out

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
    unknown: dict[str, list[str]] = {}
    for row in rows:
        table = row["of_table"]
        if table is None:
            continue
        partition = _partition(row)
        if partition is None:
            unknown.setdefault(table, []).append(row["name"])
        else:
            found[table].append(partition)
    for of_table in found.values():
        of_table.sort(key=lambda one: one.begins)
    outside = [row for row in rows if row["of_table"] is None]
    detached = [row["name"] for row in outside if row["mark"] == MARK]
    return Layout(found, detached, [row["name"] for row in outside if row["mark"] != MARK], unknown)


def layout_parameters() -> Row:
    """Return the parameters of `LAYOUT`."""
    return {"tables": list(KEYS), "mark": MARK, "proof": PROOF}


def _partition(row: Mapping[str, Any]) -> Partition | None:
    """Read a partition of a range of ids; `None` for one of another kind."""
    bounds = _BOUNDS.fullmatch(row["bounds"])
    if bounds is None:
        return None
    lower, upper = (None if text is None else UUID(text) for text in bounds.groups())
    return Partition(
        row["of_table"], row["name"], lower, upper, row["is_detaching"], row["mark"] == MARK,
        tuple(row["options"] or ()), row["has_proof"],
    )  # fmt: skip
