"""Which partitions are to be made and which dropped: decided on a layout, without a database.

The last partition of a table is open at its end, so that no id is without one, however long nobody looks after them and
however fast a clock runs. Making partitions means to end the open one, and to open another behind those that
are made. One that rows are being added to is ended a whole period ahead at least, where no clock has been yet.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import chain, count, pairwise
from uuid import UUID

from attrs import evolve, frozen

from meetcore.adapters.postgres.partitions.layout import KEYS, Layout, Partition
from meetcore.domain.ids import first_id, instant_of
from meetcore.ports.partitions import PartitionRules

__all__ = [
    "Extension",
    "Gap",
    "behind",
    "extension_of",
    "gaps_of",
    "name_of",
    "past_retention",
    "planned_drops",
    "planned_names",
]


@frozen
class Extension:
    """Partitions to make: one from each bound to the next, and an open one from the last bound.

    `last` is the open one that is ended at the first bound, `None` where a table has none; `taken` are names that
    they cannot have.
    """

    table: str
    last: Partition | None
    bounds: tuple[UUID, ...]
    taken: Collection[str] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """The storage parameters of the partitions, as those of the last one."""
        return () if self.last is None else self.last.options

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the partitions that are made."""
        return tuple(name_of(self.table, bound, self.taken) for bound in self.bounds)


@frozen
class Gap:
    """A range of ids, between two partitions of a table, that has none: a new row there is refused."""

    table: str
    lower: UUID
    upper: UUID
    name: str
    options: tuple[str, ...] = ()


def name_of(table: str, lower: UUID, taken: Collection[str] = ()) -> str:
    """Return the name of the partition that begins with an id: with a number at its end where another table has it."""
    name = f"{table}_{_instant(lower):%Y%m%d}"
    names = chain([name], (f"{name}_{number}" for number in count(2)))
    return next(one for one in names if one not in taken)


def gaps_of(layout: Layout, table: str, now: datetime, rules: PartitionRules) -> list[Gap]:
    """List the gaps between the partitions of a table; what was dropped past its retention leaves none."""
    if table in layout.unknown:
        return []
    end, taken = first_id(now - rules.kept), layout.names
    return [
        Gap(table, one.upper, following.begins, name_of(table, one.upper, taken), one.options)
        for one, following in pairwise(layout.partitions[table])
        if one.upper is not None and one.upper < following.begins and following.begins > end
    ]


def planned_names(layout: Layout, tables: Sequence[str], now: datetime, rules: PartitionRules) -> list[str]:
    """Return the names of the partitions of some tables that would be made."""
    found: list[str] = []
    for table in tables:
        if table not in layout.unknown:
            found += [gap.name for gap in gaps_of(layout, table, now, rules)]
            extension = extension_of(table, layout.partitions[table], now, rules, layout.names)
            found += () if extension is None else extension.names
    return found


def behind(extension: Extension, greatest: UUID, now: datetime, rules: PartitionRules) -> Extension | None:
    """Let the open partition end where no clock has been, that which wrote its greatest id included.

    `None` where that clock is further ahead than what is kept: the partition would grow for as long.
    """
    at = instant_of(greatest)
    if at is None or at > now + rules.kept:
        return None
    start = max(_instant(extension.bounds[0]), rules.begin_of(at) + 2 * rules.length)
    return evolve(extension, bounds=_bounds(start, len(extension.bounds), rules))


def extension_of(
    table: str,
    partitions: Sequence[Partition],
    now: datetime,
    rules: PartitionRules,
    taken: Collection[str] = (),
) -> Extension | None:
    """Decide which partitions a table lacks; `None` where there are enough ahead."""
    present, begin = first_id(now), rules.begin_of(now)
    lacking = rules.ahead - sum(one.begins > present and one.upper is not None for one in partitions)
    last = partitions[-1] if partitions else None
    if last is None or last.upper is not None:  # somebody took the open one away
        first = first_id(begin) if last is None or last.upper is None else last.upper
        bounds = (first, *_bounds(_after(first, rules), max(1, lacking), rules))
        return Extension(table, None, bounds, taken)
    if last.begins <= present:
        return Extension(table, last, _bounds(begin + 2 * rules.length, rules.ahead + 1, rules), taken)
    if lacking <= 0:
        return None
    return Extension(table, last, _bounds(_after(last.begins, rules), lacking, rules), taken)


def past_retention(layout: Layout, table: str, now: datetime, rules: PartitionRules) -> list[Partition]:
    """List the partitions of a table that are past their retention as a whole and that no other one needs, the oldest first.

    Only what has an event is recovered or sent again, and an attempt has a delivery: deliveries may go when the events of
    their time and before are gone, attempts when the deliveries are. Whether a delivery is unfinished is for the
    caller to see.
    """
    if table in layout.unknown:  # beside a DEFAULT partition none can be detached while the table is in use
        return []
    if any(one.is_taken_out for one in layout.partitions[table]):  # the server detaches one at a time
        return []
    tables = list(KEYS)
    place = tables.index(table)
    end = first_id(now - rules.kept)
    if place:
        end = min([end, *(one.begins for one in layout.partitions[tables[place - 1]])])
    return [one for one in layout.partitions[table] if one.upper is not None and one.upper <= end]


def planned_drops(
    layout: Layout, now: datetime, rules: PartitionRules, unfinished: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the names of what would be dropped, and of what would wait because a delivery there is unfinished."""
    dropped, waiting = list(layout.detached), []
    for table in KEYS:
        past = past_retention(layout, table, now, rules)
        waiting += [one.name for one in past if one.name in unfinished]
        going = [one for one in past if one.name not in unfinished]
        dropped += [one.name for one in going]
        left = [one for one in layout.partitions[table] if one not in going]
        layout = evolve(layout, partitions={**layout.partitions, table: left})
    return dropped, waiting


def _bounds(start: datetime, count: int, rules: PartitionRules) -> tuple[UUID, ...]:
    return tuple(first_id(start + place * rules.length) for place in range(count))


def _after(bound: UUID, rules: PartitionRules) -> datetime:
    """The first instant behind a bound at which a partition may begin."""
    return rules.begin_of(_instant(bound)) + rules.length


def _instant(bound: UUID) -> datetime:
    at = instant_of(UUID(int=bound.int | 0x7 << 76 | 0b10 << 62))  # version and variant of ids with a time
    if at is None:
        raise ValueError("a bound lies beyond the times that ids have")
    return at
