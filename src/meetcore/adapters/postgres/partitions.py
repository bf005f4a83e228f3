"""Events, deliveries and attempts in partitions of a week, by the time that their ids begin with.

The last partition of a table is open at its end: no row is refused, however long no round succeeds and however far a
clock is ahead. It begins weeks ahead, and is empty but for the rows of such clocks unless rounds failed for weeks. To make
partitions it is detached, given an end and attached again, which reads it.

Each change is one transaction that locks its table and reads the partitions anew: several processes may work at once,
and one that is killed leaves nothing half done. The lock, which others queue behind, is waited for briefly, again and
again.
"""

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import takewhile, zip_longest
from typing import Any, Final
from uuid import UUID

import psycopg
from attrs import define, field, frozen
from psycopg import sql
from psycopg.rows import dict_row

from meetcore.adapters.postgres import columns, pool
from meetcore.adapters.postgres.session import ENCODING
from meetcore.domain.ids import first_id
from meetcore.ports.maintenance import Maintained

KEYS: Final[Mapping[str, str]] = {"events": "id", "deliveries": "id", "delivery_attempts": "delivery_id"}
"""The partitioned tables with their keys, in the order in which they are dropped."""
WEEK: Final = timedelta(days=7)
AHEAD: Final = 4
"""Partitions that a round keeps ahead, without the open one."""

LOCK_TIMEOUT_MS: Final = 100
TRIES: Final = 20
PAUSE_S: Final = 0.5
_BUSY: Final = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MONDAY: Final = datetime(1970, 1, 5, tzinfo=UTC)
_BOUNDS: Final = re.compile(
    r"FOR VALUES FROM \((?:MINVALUE|'([0-9a-f-]+)')\) TO \((?:MAXVALUE|'([0-9a-f-]+)')\)"
)

# The partitions of the partitioned tables.
LAYOUT: Final = """
SELECT p.relname AS of_table, c.relname AS name, pg_get_expr(c.relpartbound, c.oid) AS bounds,
    i.inhdetachpending AS is_detaching, c.reloptions AS options
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
WHERE p.oid IN (to_regclass('events'), to_regclass('deliveries'), to_regclass('delivery_attempts'))
"""
# Whether the role may make and drop partitions, and the database's time.
_STATE = """
SELECT bool_and(pg_has_role(relowner, 'MEMBER')) AS may_alter, clock_timestamp() AS now FROM pg_class
WHERE oid IN (to_regclass('events'), to_regclass('deliveries'), to_regclass('delivery_attempts'))
"""
_NO_TABLES = "there are no tables: run `meetcore migrate` first"
_REFUSAL = "the role does not own the tables: run `meetcore partitions` as their owner every day"
# Whether a delivery of a range of ids waits. Two parts, since each status has an index of its own.
_UNFINISHED = """
SELECT EXISTS (SELECT FROM deliveries WHERE status = 'pending' AND id >= %(begins)s AND id < %(ends)s)
    OR EXISTS (SELECT FROM deliveries WHERE status = 'held' AND id >= %(begins)s AND id < %(ends)s) AS it
"""


@frozen
class Partition:
    """The ids from `lower` to below `upper`, `None` where it is open."""

    name: str
    lower: UUID | None = None
    upper: UUID | None = None
    options: tuple[str, ...] = ()
    is_detaching: bool = False

    @property
    def begins(self) -> UUID:
        """The lower bound, or the least id."""
        return self.lower or UUID(int=0)


Layout = Mapping[str, Sequence[Partition]]
"""The partitions of each table, the oldest first. A DEFAULT partition, which an operator made, is left out."""


@frozen
class Change:
    """The names of partitions that are made or dropped, and the statements that do it."""

    names: tuple[str, ...] = ()
    statements: tuple[sql.Composed, ...] = ()


def layout_of(rows: Sequence[columns.Row]) -> Layout:
    """Arrange the rows of `LAYOUT`."""
    found: dict[str, list[Partition]] = {table: [] for table in KEYS}
    for row in rows:
        if bounds := _BOUNDS.fullmatch(row["bounds"]):
            lower, upper = (UUID(text) if text else None for text in bounds.groups())
            options = tuple(row["options"] or ())
            found[row["of_table"]].append(Partition(row["name"], lower, upper, options, row["is_detaching"]))
    for of_table in found.values():
        of_table.sort(key=lambda one: one.begins)
    return found


def count_ahead(layout: Layout, now: datetime) -> int:
    """Count the partitions that begin in the future and end, of the table that has the fewest."""
    present = first_id(now)
    return min(
        sum(one.begins > present and one.upper is not None for one in each) for each in layout.values()
    )


def gaps(partitions: Sequence[Partition]) -> list[tuple[UUID, UUID | None]]:
    """List the ranges behind the first partition that have none, and refuse rows: an operator took it out."""
    lowers = [*(one.lower for one in partitions[1:]), None]
    pairs = zip((one.upper for one in partitions), lowers, strict=True)
    return [(upper, lower) for upper, lower in pairs if upper and upper != lower]


def extension(table: str, partitions: Sequence[Partition], now: datetime, ahead: int = AHEAD) -> Change:
    """Make the partitions that a table lacks: those of gaps, and behind the open one those to come."""
    ranges: dict[str, tuple[UUID, UUID | None]]
    # The suffix: a partition that was taken out keeps its name.
    ranges = {f"{_name(table, ends[0])}_{now:%Y%m%d%H%M%S}": ends for ends in gaps(partitions)}
    last = partitions[-1]
    bounds = _bounds(last, now, ahead) if last.upper is None else []
    ranges |= {_name(table, lower): (lower, upper) for lower, upper in zip_longest(bounds, bounds[1:])}
    options = sql.SQL("WITH ({})").format(sql.SQL(", ").join(map(sql.SQL, last.options)))
    create = sql.SQL("CREATE TABLE {} PARTITION OF {} {} {}")
    made = [
        create.format(_id(name), _id(table), _range(*ends), options if last.options else sql.SQL(""))
        for name, ends in ranges.items()
    ]
    if bounds:
        detach, *attach = _ending(table, last, bounds[0])
        made = [detach, *made, *attach]
    return Change(tuple(ranges), tuple(made))


def _ending(table: str, last: Partition, end: UUID) -> list[sql.Composed]:
    """Detach the open partition; once there are others, move what lies behind its end, and attach it."""
    statements = (
        "ALTER TABLE {table} DETACH PARTITION {last}",
        "WITH moved AS (DELETE FROM {last} WHERE {key} >= {end} RETURNING *) INSERT INTO {table} SELECT * FROM moved",
        "ALTER TABLE {table} ATTACH PARTITION {last} {range}",
    )
    named = {
        "table": _id(table), "last": _id(last.name), "key": _id(KEYS[table]), "end": sql.Literal(str(end)),
        "range": _range(last.lower, end),
    }  # fmt: skip
    return [sql.SQL(each).format(**named) for each in statements]


def removal(partitions: Sequence[Partition], end: UUID, kept: Collection[str] = ()) -> Change:
    """Drop the partitions that end by an id, up to one that is kept or that an operator detaches."""
    old = takewhile(
        lambda one: one.upper and one.upper <= end and one.name not in kept and not one.is_detaching,
        partitions,
    )
    names = tuple(one.name for one in old)
    drop = sql.SQL("DROP TABLE {}").format(sql.SQL(", ").join(map(_id, names)))
    return Change(names, (drop,) if names else ())


class PostgresPartitions:
    """The partitions of a database. A pooler may be between: no session outlives a transaction."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def make(self, now: datetime) -> Maintained:
        """Make the coming partitions as `maintain` does, and drop none."""
        return await self.maintain(now, now - _EPOCH)

    async def maintain(
        self, now: datetime | None, kept: timedelta, *, is_dry: bool = False, ahead: int = AHEAD
    ) -> Maintained:
        with pool.translated():
            async with await psycopg.AsyncConnection.connect(
                self._url, autocommit=True, prepare_threshold=None, row_factory=dict_row,
                application_name=pool.application_name("partitions"), **ENCODING, **pool.network_parameters(self._url),
            ) as session:  # fmt: skip
                [state] = await (await session.execute(_STATE.encode())).fetchall()
                now = now or columns.utc(state["now"])
                refusal = "" if state["may_alter"] or is_dry else _REFUSAL
                refusal = _NO_TABLES if state["may_alter"] is None else refusal
                return await _Round(session, now, first_id(now - kept), ahead, is_dry, refusal).run()


@define
class _Round:
    session: psycopg.AsyncConnection[dict[str, Any]]
    now: datetime
    end: UUID
    ahead: int
    is_dry: bool
    refusal: str
    made: list[str] = field(factory=list)
    dropped: list[str] = field(factory=list)
    waiting: list[str] = field(factory=list)
    is_busy: bool = False

    async def run(self) -> Maintained:
        if not self.refusal:
            for table in KEYS:
                plan = partial(extension, table, now=self.now, ahead=self.ahead)
                self.made += await self._apply(table, plan)
            for table in KEYS:
                await self._drop_old(table)
        return Maintained(
            tuple(self.made), tuple(self.dropped), tuple(self.waiting),
            count_ahead(layout_of(await self._rows(LAYOUT)), self.now),
            self.is_busy, self.refusal,
        )  # fmt: skip

    async def _drop_old(self, table: str) -> None:
        """Drop the partitions of a table that have ended by `end`, and move `end` back to the oldest that is left.

        Only what has an event is recovered or sent again, and an attempt has a delivery: deliveries may go when the
        events of their time and before are gone, attempts when the deliveries are.
        """
        ended = [one for one in await self._partitions(table) if one.upper and one.upper <= self.end]
        if table == "deliveries":
            unfinished = [one.name for one in ended if await self._is_unfinished(one)]
        else:
            unfinished = []
        self.dropped += await self._apply(table, partial(removal, end=self.end, kept=unfinished))
        left = await self._partitions(table)
        self.waiting += [one.name for one in left if one.upper and one.upper <= self.end]
        self.end = min(self.end, left[0].begins)

    async def _is_unfinished(self, deliveries: Partition) -> bool:
        """Return whether a delivery waits in a partition. None begins to once the events of its time are gone."""
        [found] = await self._rows(_UNFINISHED, {"begins": deliveries.begins, "ends": deliveries.upper})
        return bool(found["it"])

    async def _apply(self, table: str, plan: Callable[[Sequence[Partition]], Change]) -> tuple[str, ...]:
        """Make a change in a transaction of its own, again while the table is in use; return the names."""
        change = plan(await self._partitions(table))
        if self.is_dry or not change.names:
            return change.names
        for _ in range(TRIES):
            try:
                async with self.session.transaction():
                    # A role may have limits for the service's short statements.
                    await self.session.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}".encode())
                    await self.session.execute("SET LOCAL statement_timeout = 0")
                    lock = sql.SQL("LOCK TABLE ONLY {} IN ACCESS EXCLUSIVE MODE")
                    await self.session.execute(lock.format(_id(table)))
                    change = plan(await self._partitions(table))
                    for statement in change.statements:
                        await self.session.execute(statement)
            except _BUSY:
                await asyncio.sleep(PAUSE_S)
            else:
                return change.names
        self.is_busy = True
        return ()

    async def _partitions(self, table: str) -> list[Partition]:
        """Return the partitions of a table, without those that a dry run would have dropped."""
        return [one for one in layout_of(await self._rows(LAYOUT))[table] if one.name not in self.dropped]

    async def _rows(self, statement: str, parameters: columns.Row | None = None) -> list[columns.Row]:
        return await (await self.session.execute(statement.encode(), parameters)).fetchall()


def _bounds(last: Partition, now: datetime, ahead: int) -> list[UUID]:
    """Return where the open partition ends and each new one begins, the last of them open again."""
    start = _week_of(max(now, _instant(last.begins))) + WEEK
    end = _week_of(now) + (ahead + 1) * WEEK
    return [first_id(start + week * WEEK) for week in range((end - start) // WEEK + 1)]


def _week_of(at: datetime) -> datetime:
    """Return when the week of an instant begins: on a Monday, 00:00 UTC."""
    return at - (at - _MONDAY) % WEEK


def _instant(bound: UUID) -> datetime:
    return _EPOCH + timedelta(milliseconds=bound.int >> 80)


def _name(table: str, lower: UUID) -> str:
    return f"{table}_{_instant(lower):%Y%m%d}"


def _id(name: str) -> sql.Identifier:
    return sql.Identifier(name)


def _range(lower: UUID | None, upper: UUID | None) -> sql.Composed:
    ends: list[sql.Composable] = [
        sql.SQL(unbounded) if bound is None else sql.Literal(str(bound))
        for bound, unbounded in ((lower, "MINVALUE"), (upper, "MAXVALUE"))
    ]
    return sql.SQL("FOR VALUES FROM ({}) TO ({})").format(*ends)
