"""Bringing the schema up to date: numbered SQL files, each applied once, in a transaction of its own.

Safe to run from many hosts at once: one holds an advisory lock, the others poll for it (a blocked
`pg_advisory_lock` would deadlock a `CREATE INDEX CONCURRENTLY`). A file that changed after it was
applied is refused. Owns the schema's history; seeds no data.

A step waits 2 s at most for a lock: every later lock request queues behind it, so that a long transaction of somebody
else would stop the service through a migration that only waits. It is tried again after a pause.
"""

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from itertools import count
from threading import Timer

import psycopg
from attrs import field, frozen

from meetcore.adapters.postgres.advisory_locks import MIGRATIONS
from meetcore.adapters.postgres.connection import drop_socket
from meetcore.adapters.postgres.pool import DEADLINE_S, network_parameters, translated

_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_POLL_S = 0.05
_LOCK_TIMEOUT_S = 2.0
_LONGEST_PAUSE_S = 10.0
_LEDGER = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now())
"""


class MigrationRefused(Exception):
    """The schema cannot be brought up to date; the message says why and what to do."""


@frozen
class Migration:
    """One numbered step. The checksum is over its text."""

    number: int
    name: str
    text: str = field(repr=False)

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, in hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def load_migrations() -> list[Migration]:
    """The steps that this release knows, in order.

    Raises:
        MigrationRefused: the numbers have a gap.
    """
    found = []
    for file in resources.files(f"{__package__}.migrations").iterdir():
        if match := _NAME.fullmatch(file.name):
            found.append(Migration(int(match[1]), match[2], file.read_text("utf-8")))
    found.sort(key=lambda step: step.number)
    if [step.number for step in found] != list(range(1, len(found) + 1)):
        raise MigrationRefused("the migrations are not numbered 1, 2, 3 … without a gap")
    return found


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
        lock_timeout_s: how long a try waits for a lock.
        on_step: called with each step, its number and the total, before it runs.
        on_wait: called with a step that did not get a lock and the seconds until its next try.

    Returns:
        The steps that this call applied.

    Raises:
        MigrationRefused: a step changed after it was applied, the database is newer than this
            release, a lock stayed taken, or a step failed (nothing of that step is kept).
        StoreUnavailable: the database does not answer.
    """
    steps = load_migrations()
    with translated(), _connected(url) as connection:
        _take_lock(connection, timeout_s)
        with _answered(connection):
            connection.execute(_LEDGER)
            todo = _missing_of(connection, steps)
        for place, step in enumerate(todo, start=1):
            if on_step is not None:
                on_step(step, place, len(todo))
            _apply_patiently(connection, step, timeout_s, lock_timeout_s, on_wait)
        return todo


def missing(url: str) -> list[Migration]:
    """The steps that the database lacks; nothing is changed.

    Raises:
        MigrationRefused, StoreUnavailable: see `migrate`.
    """
    with translated(), _connected(url) as connection, _answered(connection):
        return _missing_of(connection, load_migrations())


def _connected(url: str) -> psycopg.Connection:
    return psycopg.connect(url, autocommit=True, **network_parameters(url))


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


def _missing_of(connection: psycopg.Connection, steps: list[Migration]) -> list[Migration]:
    known = connection.execute("SELECT to_regclass('schema_migrations') IS NOT NULL").fetchone()
    applied: dict[int, str] = {}
    if known is not None and known[0]:
        applied = dict(connection.execute("SELECT number, checksum FROM schema_migrations").fetchall())
    for step in steps:
        if applied.get(step.number, step.checksum) != step.checksum:
            raise MigrationRefused(
                f"migration {step.number:04} ({step.name}) was changed after it was applied; "
                "run the release that applied it, or restore the file"
            )
    if newer := set(applied) - {step.number for step in steps}:
        raise MigrationRefused(
            f"the database is at migration {max(newer):04}, newer than this release; upgrade meetcore"
        )
    return [step for step in steps if step.number not in applied]


def _apply_patiently(
    connection: psycopg.Connection,
    step: Migration,
    timeout_s: float,
    lock_timeout_s: float,
    on_wait: Callable[[Migration, float], None] | None,
) -> None:
    deadline = time.monotonic() + timeout_s
    for attempt in count():
        try:
            _apply(connection, step, lock_timeout_s)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise MigrationRefused(
                    f"migration {step.number:04} ({step.name}) did not get its locks within {timeout_s:g} s: end the "
                    "long transactions that pg_stat_activity shows, or try again when they are done"
                ) from error
            pause_s = min(2.0**attempt, _LONGEST_PAUSE_S, left_s)
            if on_wait is not None:
                on_wait(step, pause_s)
            time.sleep(pause_s)
        else:
            return


def _apply(connection: psycopg.Connection, step: Migration, lock_timeout_s: float) -> None:
    try:
        with connection.transaction():
            connection.execute(
                "SELECT set_config('lock_timeout', %s, true)", [f"{lock_timeout_s * 1000:.0f}ms"]
            )
            connection.execute(step.text.encode())
            connection.execute(
                "INSERT INTO schema_migrations (number, name, checksum) VALUES (%s, %s, %s)",
                (step.number, step.name, step.checksum),
            )
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        raise MigrationRefused(f"migration {step.number:04} ({step.name}) failed: {error}") from error
