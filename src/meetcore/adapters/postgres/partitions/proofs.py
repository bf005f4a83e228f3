"""Proving where a large open partition can end, so that it is not read while its table is locked."""

from functools import partial
from typing import Final
from uuid import UUID

import psycopg
from psycopg import sql

from meetcore.adapters.postgres.partitions.layout import KEYS, PROOF, Partition
from meetcore.adapters.postgres.partitions.session import BUSY, Session, patiently, waiting_long

__all__ = ["drop_proof", "greatest_id", "is_large", "proof_of", "prove"]

READ_UNDER_LOCK_BYTES: Final = 8_000_000
"""A partition up to so large is read while its table is locked: in a few hundredths of a second."""


async def is_large(session: Session, last: Partition) -> bool:
    """Whether a partition is too large to be read while its table is locked."""
    size = await (await session.execute("SELECT pg_relation_size(%s) AS bytes", [last.name])).fetchone()
    return size is not None and bool(size["bytes"] > READ_UNDER_LOCK_BYTES)


async def greatest_id(session: Session, last: Partition) -> UUID | None:
    """Return the greatest id in a partition. It is read whole, beside readers and writers."""
    key = sql.Identifier(KEYS[last.table])
    greatest = sql.SQL("SELECT {} AS id FROM {} ORDER BY {} DESC LIMIT 1").format(
        key, sql.Identifier(last.name), key
    )
    row = await (await session.execute(greatest)).fetchone()
    return None if row is None else row["id"]


async def prove(session: Session, last: Partition, end: UUID) -> bool:
    """Prove of a partition, without keeping anybody, that it can be attached with an end.

    The server takes a partition without reading it where a constraint implies both of its bounds: what is detached
    keeps none.

    Returns:
        Whether it is proved. It is not where its table is in use all the time, or where a row behind the end came
        meanwhile.
    """
    name, key = sql.Identifier(last.name), sql.Identifier(KEYS[last.table])
    within = sql.SQL("{} < {}").format(key, sql.Literal(str(end)))
    if last.lower is not None:
        within += sql.SQL(" AND {} >= {}").format(key, sql.Literal(str(last.lower)))
    add = sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} CHECK ({}) NOT VALID").format(
        name, proof_of(last), within
    )
    if not await patiently(session, partial(session.execute, add)):
        return False
    try:
        async with waiting_long(session):
            await session.execute(
                sql.SQL("ALTER TABLE {} VALIDATE CONSTRAINT {}").format(name, proof_of(last))
            )
    except (psycopg.errors.CheckViolation, *BUSY):
        await drop_proof(session, last)
        return False
    except BaseException:
        await drop_proof(session, last)
        raise
    return True


def proof_of(last: Partition) -> sql.Identifier:
    """Return the name of the constraint that proves the end of a partition."""
    return sql.Identifier(last.name + PROOF)


async def drop_proof(session: Session, last: Partition) -> None:
    """Take the constraint away, if it is there: as long as the partition is open it would refuse ids behind its end."""
    drop = sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(sql.Identifier(last.name), proof_of(last))
    there = await session.execute(
        "SELECT FROM pg_constraint WHERE conrelid = to_regclass(%s) AND conname = %s",
        [last.name, last.name + PROOF],
    )
    if there.rowcount:
        await patiently(session, partial(session.execute, drop))
