"""Making partitions: those to come, behind an open one that is ended, and those of gaps."""

from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from psycopg import sql

from meetcore.adapters.postgres.partitions.layout import KEYS, MARK, Partition
from meetcore.adapters.postgres.partitions.plan import Extension, Gap, behind, extension_of, gaps_of
from meetcore.adapters.postgres.partitions.proofs import drop_proof, greatest_id, is_large, proof_of, prove
from meetcore.adapters.postgres.partitions.session import (
    DETACH_TIMEOUT_MS,
    LOCK_TIMEOUT_MS,
    Done,
    Session,
    patiently,
    read_layout,
)
from meetcore.ports.partitions import PartitionRules

__all__ = ["extend", "index_problem"]

# Indexes of a table that some of its partitions lack. The server would build them while it attaches a partition.
_INCOMPLETE: Final = """
SELECT c.relname AS name FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid
WHERE x.indrelid = to_regclass(%(table)s) AND NOT x.indisvalid
"""


async def extend(session: Session, table: str, now: datetime, rules: PartitionRules, done: Done) -> None:
    """Make the partitions that a table lacks, or note in `done` why not."""
    problem = await index_problem(session, table)
    if problem is not None:
        done.problems.append(problem)
        return
    layout = await read_layout(session)
    if table in layout.unknown:
        return
    for gap in gaps_of(layout, table, now, rules):
        await _fill(session, gap, done)
    extension = extension_of(table, layout.partitions[table], now, rules, layout.names)
    if extension is not None:
        await _extend(session, extension, now, rules, done)


async def index_problem(session: Session, table: str) -> str | None:
    """Describe the index that some partitions of a table lack; `None` where each has all."""
    incomplete = await (await session.execute(_INCOMPLETE.encode(), {"table": table})).fetchall()
    if not incomplete:
        return None
    names = ", ".join(row["name"] for row in incomplete)
    return f"some partitions of {table} lack an index, and none is made: run `meetcore migrate` ({names})"


async def _fill(session: Session, gap: Gap, done: Done) -> None:
    """Make the partition of a gap. To attach it keeps nobody."""
    if await _create(session, gap.table, gap.name, gap.options):
        attach = partial(_attach, session, gap.table, gap.name, gap.lower, gap.upper)
        if await patiently(session, attach):
            done.made.append(gap.name)
            return
    done.is_busy = True


async def _extend(
    session: Session, extension: Extension, now: datetime, rules: PartitionRules, done: Done
) -> None:
    last = extension.last
    if last is not None and last.has_proof:  # of another end, and in use all the time
        done.is_busy = True
        return
    try:
        ready = await _ready(session, extension, now, rules, done)
        if ready is None:
            return
        extension, is_proved = ready
        for name in extension.names:
            if not await _create(session, extension.table, name, extension.options):
                done.is_busy = True
                return
        if await patiently(session, partial(_end_and_open, session, extension, is_proved=is_proved)):
            done.made += extension.names
        else:
            done.is_busy = True
    finally:
        if last is not None:
            await drop_proof(session, last)


async def _ready(
    session: Session, extension: Extension, now: datetime, rules: PartitionRules, done: Done
) -> tuple[Extension, bool] | None:
    """Prove the end of a large open partition, behind what clocks that are ahead wrote.

    Returns:
        What is to be made, and whether the end is proved; that of a small partition is not, which is read under the
        lock. `None` where it has to wait: a large partition is never read there. Why is noted in `done`.
    """
    last = extension.last
    if last is None or not await is_large(session, last):
        return extension, False
    greatest = await greatest_id(session, last)
    found = extension if greatest is None else behind(extension, greatest, now, rules)
    if found is None:
        done.problems.append(
            f"{last.name} is large and has ids such as {greatest}, of a time that is further ahead than what is "
            "kept: it cannot be ended, and none is made behind it, before such rows are deleted"
        )
        return None
    if not await prove(session, last, found.bounds[0]):
        done.is_busy = True
        return None
    return found, True


async def _create(session: Session, table: str, name: str, options: tuple[str, ...]) -> bool:
    """Make a table like its table to be, with the indexes of one; whether it was made. To attach it takes a moment only.

    It is marked until it is attached, so that the next round drops it where this one is interrupted.
    """
    parameters = sql.SQL("WITH ({})").format(sql.SQL(", ").join(map(sql.SQL, options)))
    create = sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL) {}").format(
        sql.Identifier(name), sql.Identifier(table), parameters if options else sql.SQL("")
    )
    mark = sql.SQL("COMMENT ON TABLE {} IS {}").format(sql.Identifier(name), sql.Literal(MARK))

    async def make() -> None:
        await session.execute(create)
        await session.execute(mark)

    return await patiently(session, make)


async def _end_and_open(session: Session, extension: Extension, *, is_proved: bool) -> None:
    """End the open partition and make those behind it."""
    table, last, bounds = sql.Identifier(extension.table), extension.last, extension.bounds
    if last is not None:
        # Keeps a vacuum out, which would be waited for under the lock of the table; keeps nobody else.
        await session.execute(f"SET LOCAL lock_timeout = {DETACH_TIMEOUT_MS}".encode())
        await session.execute(
            sql.SQL("LOCK TABLE {} IN SHARE UPDATE EXCLUSIVE MODE").format(sql.Identifier(last.name))
        )
        await session.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}".encode())
        await session.execute(
            sql.SQL("ALTER TABLE {} DETACH PARTITION {}").format(table, sql.Identifier(last.name))
        )
    for place, bound in enumerate(bounds):
        end = bounds[place + 1] if place + 1 < len(bounds) else None
        await _attach(session, extension.table, extension.names[place], bound, end)
    if last is not None:
        await _attach_ended(session, extension, last, is_proved=is_proved)


async def _attach(session: Session, table: str, name: str, lower: UUID, upper: UUID | None) -> None:
    attach = sql.SQL("ALTER TABLE {} ATTACH PARTITION {} {}").format(
        sql.Identifier(table), sql.Identifier(name), _range(lower, upper)
    )
    await session.execute(attach)
    await session.execute(sql.SQL("COMMENT ON TABLE {} IS NULL").format(sql.Identifier(name)))


async def _attach_ended(session: Session, extension: Extension, last: Partition, *, is_proved: bool) -> None:
    table, name, end = sql.Identifier(extension.table), sql.Identifier(last.name), extension.bounds[0]
    if not is_proved:
        # What a clock that is ahead wrote behind the end goes where it belongs.
        move = sql.SQL(
            "WITH moved AS (DELETE FROM {} WHERE {} >= {} RETURNING *) INSERT INTO {} SELECT * FROM moved"
        )
        key = sql.Identifier(KEYS[last.table])
        await session.execute(move.format(name, key, sql.Literal(str(end)), table))
    await session.execute(
        sql.SQL("ALTER TABLE {} ATTACH PARTITION {} {}").format(table, name, _range(last.lower, end))
    )
    if is_proved:
        await session.execute(sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(name, proof_of(last)))


def _range(lower: UUID | None, upper: UUID | None) -> sql.Composable:
    ends = [
        sql.SQL(open_) if bound is None else sql.Literal(str(bound))
        for bound, open_ in ((lower, "MINVALUE"), (upper, "MAXVALUE"))
    ]
    return sql.SQL("FOR VALUES FROM ({}) TO ({})").format(*ends)
