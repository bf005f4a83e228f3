"""Making partitions and dropping them, beside a service that runs.

On a connection of its own, outside of any pool: it holds an advisory lock on its session, and PostgreSQL detaches
concurrently only outside of a transaction. Every lock that others would queue behind is waited for a moment
only and tried again; what is waited for at length, the end of transactions that still see a partition, keeps nobody.
Whatever it is interrupted at is taken up by the next round.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any, Final

import psycopg
from attrs import define, field
from psycopg import sql
from psycopg.rows import dict_row

from meetcore.adapters.postgres.advisory_locks import PARTITIONS
from meetcore.adapters.postgres.partitions.layout import (
    KEYS,
    LAYOUT,
    MARK,
    PROOF,
    Layout,
    Partition,
    layout_of,
    layout_parameters,
)
from meetcore.adapters.postgres.partitions.plan import (
    Extension,
    extension_of,
    name_of,
    past_retention,
    planned_drops,
)
from meetcore.adapters.postgres.pool import application_name, network_parameters, translated
from meetcore.ports.partitions import Maintained, PartitionRules, PartitionsRefused

LOCK_TIMEOUT_MS: Final = 200
"""How long a lock is waited for that others queue behind."""
TRIES: Final = 20
PAUSE_S: Final = 0.5
DETACH_TIMEOUT_MS: Final = 60_000
"""How long a detachment waits for transactions that still see the partition, before the next round goes on with it."""
READ_UNDER_LOCK_BYTES: Final = 8_000_000
"""A partition up to so large is read while its table is locked: in a few hundredths of a second."""

# Whether the session's role may alter the tables.
_MAY_ALTER = """
SELECT bool_and(pg_has_role(c.relowner, 'MEMBER')) AS may_alter
FROM pg_class c WHERE c.oid = ANY (ARRAY(SELECT to_regclass(name) FROM unnest(%(tables)s::text[]) AS name))
"""
_UNFINISHED = sql.SQL(
    "SELECT EXISTS (SELECT FROM deliveries WHERE status = 'pending' AND id >= {begins} AND id < {ends})"
    " OR EXISTS (SELECT FROM deliveries WHERE status = 'held' AND id >= {begins} AND id < {ends}) AS it"
)
_BUSY = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.errors.QueryCanceled)

Session = psycopg.AsyncConnection[dict[str, Any]]


@define
class _Done:
    """What a round has done so far."""

    made: list[str] = field(factory=list)
    dropped: list[str] = field(factory=list)
    waiting: list[str] = field(factory=list)
    is_busy: bool = False

    def result(self, ahead: int) -> Maintained:
        return Maintained(tuple(self.made), tuple(self.dropped), tuple(self.waiting), ahead, self.is_busy)


class PostgresPartitions:
    """The partitions of a database, reached at an address of its own: not through a pooler."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def plan(self, now: datetime, rules: PartitionRules) -> Maintained:
        with translated():
            async with self._connected() as session:
                layout = await _read_layout(session)
                unfinished = [
                    one.name
                    for one in layout.partitions["deliveries"]
                    if one.upper is not None and await _is_unfinished(session, one)
                ]
        dropped, waiting = planned_drops(layout, now, rules, unfinished)
        found = [extension_of(table, layout.partitions[table], now, rules) for table in KEYS]
        made = [name for each in found if each is not None for name in each.names]
        return Maintained(tuple(made), tuple(dropped), tuple(waiting), layout.ahead(now))

    async def maintain(self, now: datetime, rules: PartitionRules) -> Maintained:
        with translated():
            async with self._connected() as session:
                await _check_role(session)
                if not await _is_first(session):
                    return Maintained(ahead=(await _read_layout(session)).ahead(now), is_busy=True)
                if await _is_fenced(session):
                    return Maintained(ahead=(await _read_layout(session)).ahead(now), is_fenced=True)
                done = _Done()
                await _finish(session, done)
                for table in KEYS:
                    await _extend(session, table, now, rules, done)
                await _drop_old(session, now, rules, done)
                return done.result((await _read_layout(session)).ahead(now))

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Session]:
        async with await psycopg.AsyncConnection.connect(
            self._url, autocommit=True, prepare_threshold=None, row_factory=dict_row,
            application_name=application_name("partitions"), **network_parameters(self._url),
        ) as session:  # fmt: skip
            # A role may have limits for the service's short statements.
            await session.execute(
                "SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', %s, false)",
                [f"{LOCK_TIMEOUT_MS}ms"],
            )
            yield session


async def _check_role(session: Session) -> None:
    row = await (await session.execute(_MAY_ALTER.encode(), {"tables": list(KEYS)})).fetchone()
    if row is None or not row["may_alter"]:
        raise PartitionsRefused(
            "the role does not own the tables and cannot make or drop partitions: run `meetcore partitions` as their "
            "owner every day"
        )


async def _is_fenced(session: Session) -> bool:
    """Whether a restore is not released. What makes and drops tables fires no trigger that would refuse it."""
    there = await session.execute("SELECT FROM pg_class WHERE oid = to_regclass('restores')")
    if not there.rowcount:  # the step that makes it is to come
        return False
    return bool((await session.execute("SELECT FROM restores WHERE released_at IS NULL")).rowcount)


async def _is_first(session: Session) -> bool:
    row = await (
        await session.execute("SELECT pg_try_advisory_lock(%s) AS is_first", [PARTITIONS])
    ).fetchone()
    return row is not None and bool(row["is_first"])


async def _read_layout(session: Session) -> Layout:
    return layout_of(await (await session.execute(LAYOUT.encode(), layout_parameters())).fetchall())


async def _extend(session: Session, table: str, now: datetime, rules: PartitionRules, done: _Done) -> None:
    partitions = (await _read_layout(session)).partitions[table]
    extension = extension_of(table, partitions, now, rules)
    if extension is None:
        return
    last = extension.last
    if last is not None and last.has_proof:  # of another end, and in use all the time
        done.is_busy = True
        return
    is_proved = last is not None and await _prove(session, extension, last)
    try:
        for name in extension.names:
            await _create(session, extension, name)
        if await _patiently(session, partial(_end_and_open, session, extension, is_proved=is_proved)):
            done.made += extension.names
        else:
            done.is_busy = True
    finally:
        if last is not None:
            await _drop_proof(session, last)


async def _patiently(session: Session, work: Callable[[], Awaitable[object]]) -> bool:
    """Do in a transaction what needs a lock that others queue behind, again while it is taken; whether it was done."""
    for _ in range(TRIES):
        try:
            async with session.transaction():
                await work()
        except _BUSY:
            await asyncio.sleep(PAUSE_S)
        else:
            return True
    return False


async def _prove(session: Session, extension: Extension, last: Partition) -> bool:
    """Prove of a large partition, without keeping anybody, that it has no row behind its end.

    With that its table is locked for a moment only. Where it has such a row, of a clock that is weeks ahead, or there
    is no time for a proof, it is read under the lock.
    """
    size = await (await session.execute("SELECT pg_relation_size(%s) AS bytes", [last.name])).fetchone()
    if size is None or size["bytes"] <= READ_UNDER_LOCK_BYTES:
        return False
    name, key = sql.Identifier(last.name), sql.Identifier(KEYS[last.table])
    add = sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} CHECK ({} < {}) NOT VALID").format(
        name, _proof(last), key, sql.Literal(str(extension.bounds[0]))
    )
    if not await _patiently(session, partial(session.execute, add)):
        return False
    try:
        async with _waiting_long(session):
            await session.execute(sql.SQL("ALTER TABLE {} VALIDATE CONSTRAINT {}").format(name, _proof(last)))
    except (psycopg.errors.CheckViolation, *_BUSY):
        await _drop_proof(session, last)
        return False
    except BaseException:
        await _drop_proof(session, last)
        raise
    return True


def _proof(last: Partition) -> sql.Identifier:
    return sql.Identifier(last.name + PROOF)


async def _drop_proof(session: Session, last: Partition) -> None:
    """Take the constraint away, if it is there: as long as the partition is open it would refuse ids behind its end."""
    drop = sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(sql.Identifier(last.name), _proof(last))
    there = await session.execute(
        "SELECT FROM pg_constraint WHERE conrelid = to_regclass(%s) AND conname = %s",
        [last.name, last.name + PROOF],
    )
    if there.rowcount:
        await _patiently(session, partial(session.execute, drop))


async def _create(session: Session, extension: Extension, name: str) -> None:
    """Make a table like its table to be, with the indexes of one: to attach it takes a moment only.

    It is marked until it is attached, so that the next round drops it where this one is interrupted.
    """
    options = sql.SQL("WITH ({})").format(sql.SQL(", ").join(map(sql.SQL, extension.options)))
    create = sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL) {}").format(
        sql.Identifier(name), sql.Identifier(extension.table), options if extension.options else sql.SQL("")
    )
    async with session.transaction():
        await session.execute(create)
        await session.execute(
            sql.SQL("COMMENT ON TABLE {} IS {}").format(sql.Identifier(name), sql.Literal(MARK))
        )


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
        name = sql.Identifier(name_of(extension.table, bound))
        end = bounds[place + 1] if place + 1 < len(bounds) else None
        attach = sql.SQL("ALTER TABLE {} ATTACH PARTITION {} {}").format(table, name, _range(bound, end))
        await session.execute(attach)
        await session.execute(sql.SQL("COMMENT ON TABLE {} IS NULL").format(name))
    if last is not None:
        await _attach_ended(session, extension, last, is_proved=is_proved)


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
        await session.execute(sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(name, _proof(last)))


def _range(lower: object, upper: object) -> sql.Composable:
    ends = [
        sql.SQL(open_) if bound is None else sql.Literal(str(bound))
        for bound, open_ in ((lower, "MINVALUE"), (upper, "MAXVALUE"))
    ]
    return sql.SQL("FOR VALUES FROM ({}) TO ({})").format(*ends)


async def _finish(session: Session, done: _Done) -> None:
    """Drop what an interrupted round has begun to, or has made and not attached, and its proofs before all else.

    A proof refuses every new row once the time of its end has come. A partition whose detachment has begun
    keeps others from being detached.
    """
    layout = await _read_layout(session)
    for one in (one for of_table in layout.partitions.values() for one in of_table if one.has_proof):
        await _drop_proof(session, one)
    for name in layout.detached:
        await _drop_table(session, name, done)
    for one in (one for of_table in layout.partitions.values() for one in of_table if one.is_detaching):
        await _drop(session, one, done)


async def _drop_old(session: Session, now: datetime, rules: PartitionRules, done: _Done) -> None:
    for table in KEYS:
        for one in past_retention(await _read_layout(session), table, now, rules):
            if table == "deliveries" and await _is_unfinished(session, one):
                done.waiting.append(one.name)
            elif not await _drop(session, one, done):
                break


async def _drop(session: Session, one: Partition, done: _Done) -> bool:
    """Take a partition out and drop it; whether it is out."""
    is_out = await _detach(session, one)
    if is_out:
        await _drop_table(session, one.name, done)
    else:
        done.waiting.append(one.name)
        done.is_busy = True
    return is_out


async def _is_unfinished(session: Session, deliveries: Partition) -> bool:
    """Whether a delivery waits in a partition. None begins to once the events of its time are gone."""
    statement = _UNFINISHED.format(
        begins=sql.Literal(str(deliveries.begins)), ends=sql.Literal(str(deliveries.upper))
    )
    row = await (await session.execute(statement)).fetchone()
    return row is None or bool(row["it"])


async def _detach(session: Session, one: Partition) -> bool:
    """Take a partition out of its table, beside readers of the table; whether it is out.

    It is marked first: what was detached and is not dropped yet is recognised by that.
    """
    table, name = sql.Identifier(one.table), sql.Identifier(one.name)
    how = sql.SQL("FINALIZE" if one.is_detaching else "CONCURRENTLY")
    try:
        async with _waiting_long(session):
            await session.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(name, sql.Literal(MARK)))
            await session.execute(sql.SQL("ALTER TABLE {} DETACH PARTITION {} {}").format(table, name, how))
    except _BUSY:
        return False
    return True


@asynccontextmanager
async def _waiting_long(session: Session) -> AsyncIterator[None]:
    """Wait long for a lock that nobody queues behind."""
    await session.execute(f"SET lock_timeout = {DETACH_TIMEOUT_MS}".encode())
    try:
        yield
    finally:
        if not session.closed:
            await session.execute(f"SET lock_timeout = {LOCK_TIMEOUT_MS}".encode())


async def _drop_table(session: Session, name: str, done: _Done) -> None:
    drop = sql.SQL("DROP TABLE {}").format(sql.Identifier(name))
    if await _patiently(session, partial(session.execute, drop)):
        done.dropped.append(name)
    else:
        done.waiting.append(name)
        done.is_busy = True
