"""Making partitions and dropping them, beside a service that runs.

On a connection of its own, outside of any pool: it holds an advisory lock on its session, and PostgreSQL detaches
concurrently only outside of a transaction. Every lock that others would queue behind is waited for a moment
only and tried again; what is waited for at length, the end of transactions that still see a partition, keeps nobody.
Whatever it is interrupted at is taken up by the next round.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from meetcore.adapters.postgres.advisory_locks import PARTITIONS
from meetcore.adapters.postgres.partitions.extending import extend, index_problem
from meetcore.adapters.postgres.partitions.layout import KEYS, MARK, Partition
from meetcore.adapters.postgres.partitions.plan import past_retention, planned_drops, planned_names
from meetcore.adapters.postgres.partitions.proofs import drop_proof
from meetcore.adapters.postgres.partitions.session import (
    BUSY,
    LOCK_TIMEOUT_MS,
    Done,
    Session,
    patiently,
    read_layout,
    waiting_long,
)
from meetcore.adapters.postgres.pool import application_name, network_parameters, translated
from meetcore.ports.partitions import Maintained, PartitionRules, PartitionsRefused

# Whether the session's role may alter the tables.
_MAY_ALTER = """
SELECT bool_and(pg_has_role(c.relowner, 'MEMBER')) AS may_alter
FROM pg_class c WHERE c.oid = ANY (ARRAY(SELECT to_regclass(name) FROM unnest(%(tables)s::text[]) AS name))
"""
_UNFINISHED = sql.SQL(
    "SELECT EXISTS (SELECT FROM deliveries WHERE status = 'pending' AND id >= {begins} AND id < {ends})"
    " OR EXISTS (SELECT FROM deliveries WHERE status = 'held' AND id >= {begins} AND id < {ends}) AS it"
)


class PostgresPartitions:
    """The partitions of a database, reached at an address of its own: not through a pooler."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def plan(self, now: datetime, rules: PartitionRules) -> Maintained:
        with translated():
            async with self._connected() as session:
                layout = await read_layout(session)
                unfinished = [
                    one.name
                    for one in layout.partitions["deliveries"]
                    if one.upper is not None and await _is_unfinished(session, one)
                ]
                lacking = {table: await index_problem(session, table) for table in KEYS}
        dropped, waiting = planned_drops(layout, now, rules, unfinished)
        made = planned_names(layout, [table for table in KEYS if lacking[table] is None], now, rules)
        problems = [*layout.problems, *filter(None, lacking.values())]
        return Maintained(
            tuple(made), tuple(dropped), tuple(waiting), layout.ahead(now), problems=tuple(problems)
        )

    async def maintain(self, now: datetime, rules: PartitionRules) -> Maintained:
        with translated():
            async with self._connected() as session:
                await _check_role(session)
                if not await _is_first(session):
                    return Maintained(ahead=(await read_layout(session)).ahead(now), is_busy=True)
                if await _is_fenced(session):
                    return Maintained(ahead=(await read_layout(session)).ahead(now), is_fenced=True)
                done = Done(problems=(await read_layout(session)).problems)
                await _finish(session, done)
                for table in KEYS:
                    await extend(session, table, now, rules, done)
                await _drop_old(session, now, rules, done)
                return done.result((await read_layout(session)).ahead(now))

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


async def _finish(session: Session, done: Done) -> None:
    """Drop what an interrupted round has begun to, or has made and not attached, and its proofs before all else.

    A proof refuses every new row once the time of its end has come. A partition whose detachment has begun
    keeps others from being detached; one that an operator takes out is left to the operator.
    """
    layout = await read_layout(session)
    attached = [one for of_table in layout.partitions.values() for one in of_table]
    for one in (one for one in attached if one.has_proof):
        await drop_proof(session, one)
    await _remove_marks(session)
    for name in layout.detached:
        await _drop_table(session, name, done)
    for one in (one for one in attached if one.is_detaching and one.is_marked):
        await _drop(session, one, done)


async def _drop_old(session: Session, now: datetime, rules: PartitionRules, done: Done) -> None:
    for table in KEYS:
        for one in past_retention(await read_layout(session), table, now, rules):
            if table == "deliveries" and await _is_unfinished(session, one):
                done.waiting.append(one.name)
            elif not await _drop(session, one, done):
                break


async def _drop(session: Session, one: Partition, done: Done) -> bool:
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

    It is marked first: what was detached and is not dropped yet is recognised by that. Where the detachment does not
    begin, the mark is removed again.
    """
    table, name = sql.Identifier(one.table), sql.Identifier(one.name)
    how = sql.SQL("FINALIZE" if one.is_detaching else "CONCURRENTLY")
    try:
        async with waiting_long(session):
            await session.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(name, sql.Literal(MARK)))
            await session.execute(sql.SQL("ALTER TABLE {} DETACH PARTITION {} {}").format(table, name, how))
    except BUSY:
        await _remove_marks(session)
        return False
    except (
        psycopg.errors.ObjectNotInPrerequisiteState
    ):  # an operator detaches this one, or another of the table
        await _remove_mark(session, one.name)
        return False
    return True


async def _remove_marks(session: Session) -> None:
    """Remove the marks of partitions whose detachment was not begun.

    An operator may take such a partition out and keep it, and a mark would have it dropped.
    """
    layout = await read_layout(session)
    for one in (one for of_table in layout.partitions.values() for one in of_table):
        if one.is_marked and not one.is_detaching:
            await _remove_mark(session, one.name)


async def _remove_mark(session: Session, name: str) -> None:
    remove = sql.SQL("COMMENT ON TABLE {} IS NULL").format(sql.Identifier(name))
    await patiently(session, partial(session.execute, remove))


async def _drop_table(session: Session, name: str, done: Done) -> None:
    drop = sql.SQL("DROP TABLE {}").format(sql.Identifier(name))
    if await patiently(session, partial(session.execute, drop)):
        done.dropped.append(name)
    else:
        done.waiting.append(name)
        done.is_busy = True
