"""Bringing the schema up to date: numbered SQL files, each applied once.

Safe to run from many hosts at once: one holds an advisory lock, the others poll for it (a blocked
`pg_advisory_lock` would deadlock a `CREATE INDEX CONCURRENTLY`). A file that changed after it was
applied is refused. Owns the schema's history; seeds no data.

A step runs in a transaction of its own, or, where it is an online step, each of its statements and batches does.
It waits 0.3 s at most for a lock: every later lock request queues behind it, so that a long transaction of
somebody else would stop the service through a migration that only waits. It is tried again after a pause, and
takes the locks of its tables in the opposite order then. An autovacuum, which the server ends for a lock after
a second only, is ended before by a lock that nobody of the service waits behind. What is built concurrently
waits as long as it takes: there no request queues behind it.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Timer

import psycopg
from attrs import frozen

from meetcore.adapters.postgres.advisory_locks import MIGRATIONS
from meetcore.adapters.postgres.connection import drop_socket
from meetcore.adapters.postgres.fence import fencing
from meetcore.adapters.postgres.migration_locks import Lock, locks_of
from meetcore.adapters.postgres.migration_steps import (
    Migration,
    MigrationRefused,
    Statement,
    load_migrations,
    oldest_schema,
)
from meetcore.adapters.postgres.partitioned_indexes import PartitionedIndex, build_index
from meetcore.adapters.postgres.pool import (
    DEADLINE_S,
    PASSES_FENCE,
    application_name,
    network_parameters,
    translated,
)
from meetcore.adapters.postgres.roles import granting

_POLL_S = 0.05
_LOCK_TIMEOUT_S = 2.0
# Less than the server's `deadlock_timeout`: where a step and a transaction of the service wait for each other, the
# step gives up, and the transaction is not ended.
_QUEUE_TIMEOUT_S = 0.3
_SHORTEST_WAIT_S = 0.01
_LONGEST_PAUSE_S = 10.0
_BATCH_ROWS = 2_000
_LEDGER = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now());
ALTER TABLE schema_migrations ADD COLUMN IF NOT EXISTS needs_code_of integer NOT NULL DEFAULT 0;
CREATE TABLE IF NOT EXISTS schema_migrations_batches (
    checksum text, statement integer, last_key text, is_done boolean NOT NULL DEFAULT false,
    PRIMARY KEY (checksum, statement))
"""
# A role may have limits for the service's short statements; an index takes as long as it takes.
# A restored database may need steps before it is released.
_WITHOUT_LIMITS = f"""SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0;
SET {PASSES_FENCE} = 'on'"""
_NEW_INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY (?:IF NOT EXISTS )?(\w+)")


@frozen
class Waits:
    """How long a migration waits: for another host, for its locks, for one lock. Seconds."""

    timeout_s: float
    lock_timeout_s: float
    on_wait: Callable[[Migration, float], None] | None


def migrate(
    url: str,
    *,
    timeout_s: float = 120.0,
    lock_timeout_s: float = _LOCK_TIMEOUT_S,
    on_step: Callable[[Migration, int, int], None] | None = None,
    on_wait: Callable[[Migration, float], None] | None = None,
) -> list[Migration]:
    """Apply what is missing.

    Args:
        url: a libpq connection string.
        timeout_s: how long to wait for another host that migrates at this moment, and how long each step tries to get
            its locks.
        lock_timeout_s: how long a try waits for a lock at most; 0.3 s for one that others wait behind.
        on_step: called with each step, its number and the total, before it runs.
        on_wait: called with a step that did not get a lock and the seconds until its next try.

    Returns:
        The steps that this call applied.

    Raises:
        MigrationRefused: a step changed after it was applied, the database is too new for this release,
            a lock stayed taken, or a step failed (nothing of that step is kept, of an online step the
            statements before the one that failed).
        StoreUnavailable: the database does not answer.
    """
    steps, waits = load_migrations(), Waits(timeout_s, lock_timeout_s, on_wait)
    with translated(), _connected(url) as connection:
        _take_lock(connection, timeout_s)
        with _answered(connection):
            connection.execute(_WITHOUT_LIMITS.encode())
            if not _has_ledger(connection):
                connection.execute(_LEDGER)
            todo = _missing_of(connection, steps)
        for place, step in enumerate(todo, start=1):
            if on_step is not None:
                on_step(step, place, len(todo))
            _apply_patiently(connection, step, waits)
        return todo


def missing(url: str) -> list[Migration]:
    """The steps that the database lacks; nothing is changed.

    Raises:
        MigrationRefused, StoreUnavailable: see `migrate`.
    """
    with translated(), _connected(url, "check") as connection, _answered(connection):
        return _missing_of(connection, load_migrations())


def needed(url: str) -> list[Migration]:
    """The missing steps without which this release does not run.

    Raises:
        MigrationRefused, StoreUnavailable: see `migrate`.
    """
    oldest = oldest_schema(load_migrations())
    return [step for step in missing(url) if step.number <= oldest]


def _connected(url: str, role: str = "migrate") -> psycopg.Connection:
    return psycopg.connect(
        url, autocommit=True, application_name=application_name(role), **network_parameters(url)
    )


@contextmanager
def _answered(connection: psycopg.Connection) -> Iterator[None]:
    """Give up on a server that does not answer in time: what waits for it fails."""
    timer = Timer(DEADLINE_S, drop_socket, [connection.pgconn.socket])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _take_lock(connection: psycopg.Connection, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        with _answered(connection):
            row = connection.execute("SELECT pg_try_advisory_lock(%s)", (MIGRATIONS,)).fetchone()
        if row is not None and row[0]:
            return
        if time.monotonic() > deadline:
            raise MigrationRefused("another host has been migrating for too long; try again when it is done")
        time.sleep(_POLL_S)


def _has_ledger(connection: psycopg.Connection) -> bool:
    """Whether the tables of the history are there: to add a column to one takes its lock."""
    row = connection.execute("SELECT to_regclass('schema_migrations_batches') IS NOT NULL").fetchone()
    return row is not None and bool(row[0])


def _missing_of(connection: psycopg.Connection, steps: list[Migration]) -> list[Migration]:
    found = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('schema_migrations') AND attnum > 0"
    )
    columns = {name for (name,) in found}
    if not columns:
        return list(steps)
    needs = "needs_code_of" if "needs_code_of" in columns else "0"  # a database of an earlier release
    rows = connection.execute(f"SELECT number, checksum, {needs} FROM schema_migrations".encode()).fetchall()
    applied = {number: checksum for number, checksum, _ in rows}
    for step in steps:
        if applied.get(step.number, step.checksum) != step.checksum:
            raise MigrationRefused(
                f"migration {step.number:04} ({step.name}) was changed after it was applied; "
                "run the release that applied it, or restore the file"
            )
    newest = max(step.number for step in steps)
    known = {step.number for step in steps}
    if too_new := [number for number, _, needs in rows if number not in known and needs > newest]:
        raise MigrationRefused(
            f"the database is at migration {max(too_new):04}, too new for this release; upgrade meetcore"
        )
    return [step for step in steps if step.number not in applied]


def _apply_patiently(connection: psycopg.Connection, step: Migration, waits: Waits) -> None:
    deadline = time.monotonic() + waits.timeout_s
    for attempt in count():
        try:
            _apply(connection, step, waits.lock_timeout_s, attempt)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise MigrationRefused(
                    f"migration {step.number:04} ({step.name}) did not get its locks within "
                    f"{waits.timeout_s:g} s: end the long transactions that pg_stat_activity shows, or try "
                    "again when they are done"
                ) from error
            pause_s = min(2.0**attempt, _LONGEST_PAUSE_S, left_s)
            if waits.on_wait is not None:
                waits.on_wait(step, pause_s)
            time.sleep(pause_s)
        else:
            return


def _apply(connection: psycopg.Connection, step: Migration, lock_timeout_s: float, attempt: int) -> None:
    try:
        if step.is_online:
            for place, statement in enumerate(step.statements):
                _run_online(connection, step, place, statement, lock_timeout_s, attempt)
        with connection.transaction():
            if not step.is_online:
                _lock_tables(connection, step.text, lock_timeout_s, attempt)
                with granting(connection), fencing(connection):
                    connection.execute(step.text.encode())
            connection.execute("DELETE FROM schema_migrations_batches WHERE checksum = %s", (step.checksum,))
            connection.execute(
                "INSERT INTO schema_migrations (number, name, checksum, needs_code_of) VALUES (%s, %s, %s, %s)",
                (step.number, step.name, step.checksum, step.needs_code_of),
            )
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        raise MigrationRefused(f"migration {step.number:04} ({step.name}) failed: {error}") from error


def _limit_waiting(connection: psycopg.Connection, lock_timeout_s: float) -> None:
    """Bound the wait for a lock in this transaction."""
    connection.execute("SELECT set_config('lock_timeout', %s, true)", [f"{lock_timeout_s * 1000:.0f}ms"])


def _lock_tables(connection: psycopg.Connection, text: str, lock_timeout_s: float, attempt: int) -> None:
    """Lock the tables that a step or a statement stops writers of, in an order that changes from try to try.

    A statement of the service may hold one of them and wait behind this step for another. The step then waits for
    that statement, and gives up; in the opposite order it does not.
    """
    _limit_waiting(connection, lock_timeout_s)
    tables = _stopped_tables(connection, text)
    for table, _ in tables:  # nothing but an autovacuum waits for this lock, and the server ends that for it
        connection.execute(f"LOCK TABLE {table} IN SHARE UPDATE EXCLUSIVE MODE".encode())
    deadline = time.monotonic() + min(lock_timeout_s, _QUEUE_TIMEOUT_S)
    for table, lock in reversed(tables) if attempt % 2 else tables:
        _limit_waiting(connection, max(deadline - time.monotonic(), _SHORTEST_WAIT_S))
        connection.execute(f"LOCK TABLE {table} IN {lock.text} MODE".encode())
    _limit_waiting(connection, max(deadline - time.monotonic(), _SHORTEST_WAIT_S))


def _stopped_tables(connection: psycopg.Connection, text: str) -> list[tuple[str, Lock]]:
    """The tables that are there already and that statements stop writers of, each with its strongest lock."""
    stopped = {table: lock for table, lock in locks_of(text).items() if lock.stops_writers}
    there = connection.execute(
        """SELECT relname FROM pg_class
        WHERE relname = ANY(%s) AND relkind IN ('r', 'p') AND pg_table_is_visible(oid) ORDER BY relname""",
        [list(stopped)],
    ).fetchall()
    return [(table, stopped[table]) for (table,) in there]


def _run_online(
    connection: psycopg.Connection,
    step: Migration,
    place: int,
    statement: Statement,
    lock_timeout_s: float,
    attempt: int,
) -> None:
    """Run a statement unless it was run before an interruption; what it needed may be gone by now."""
    if _progress(connection, step, place)[1]:
        return
    if statement.is_for_each_partition:
        build_index(connection, PartitionedIndex.of(statement.text))
        _keep_progress(connection, step, place, None, is_done=True)
    elif statement.is_concurrent:
        if not _is_built(connection, statement):
            connection.execute(statement.text.encode())
        _keep_progress(connection, step, place, None, is_done=True)
    elif statement.is_batched:
        while _run_batch(connection, step, place, statement, lock_timeout_s):
            pass
    else:
        with connection.transaction():
            _limit_waiting(connection, lock_timeout_s)
            if any(lock.stops_writers for lock in locks_of(statement.text).values()):
                _lock_tables(connection, statement.text, lock_timeout_s, attempt)
            connection.execute(statement.text.encode())
            _keep_progress(connection, step, place, None, is_done=True)


def _progress(connection: psycopg.Connection, step: Migration, place: int) -> tuple[str | None, bool]:
    """The last key of a statement's batches, and whether the statement is done."""
    row = connection.execute(
        "SELECT last_key, is_done FROM schema_migrations_batches WHERE checksum = %s AND statement = %s",
        (step.checksum, place),
    ).fetchone()
    return (None, False) if row is None else (row[0], row[1])


def _keep_progress(
    connection: psycopg.Connection, step: Migration, place: int, last_key: str | None, *, is_done: bool
) -> None:
    connection.execute(
        """INSERT INTO schema_migrations_batches VALUES (%s, %s, %s, %s)
        ON CONFLICT (checksum, statement) DO UPDATE
            SET last_key = excluded.last_key, is_done = excluded.is_done""",
        (step.checksum, place, last_key, is_done),
    )


def _is_built(connection: psycopg.Connection, statement: Statement) -> bool:
    """Whether the index is there already; what an interrupted build left of it is dropped."""
    match = _NEW_INDEX.match(statement.text)
    if match is None:
        return False
    row = connection.execute(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", (match[1],)
    ).fetchone()
    if row is not None and not row[0]:
        connection.execute(f"DROP INDEX CONCURRENTLY {match[1]}".encode())
    return row is not None and bool(row[0])


def _run_batch(
    connection: psycopg.Connection, step: Migration, place: int, statement: Statement, lock_timeout_s: float
) -> bool:
    """Run one batch and keep where it ended, in one transaction. Returns whether there may be more."""
    with connection.transaction():
        _limit_waiting(connection, lock_timeout_s)
        after, _ = _progress(connection, step, place)
        parameters = {"after": after, "rows": _BATCH_ROWS}
        last = connection.execute(statement.text.encode(), parameters).fetchone()
        is_done = last is None or last[0] is None
        _keep_progress(connection, step, place, None if last is None else last[0], is_done=is_done)
        return not is_done
