"""Bring the schema up to date: numbered SQL files, each applied once.

A step runs in one transaction. One whose file begins with `-- online` runs statement by statement outside of a
transaction; an empty line ends a statement. It begins anew after an interruption, so its statements must be repeatable
(`IF NOT EXISTS`, `WHERE ... IS NULL`). An index whose concurrent build was interrupted is dropped first.

Safe to run from many hosts at once: one holds an advisory lock, the others poll for it (a blocked `pg_advisory_lock`
would deadlock with CREATE INDEX CONCURRENTLY). Requests queue behind a step that waits for a lock, so its first try waits
for 0.3 s, and each after a pause for longer: above a second the server ends an autovacuum that is in the way.
"""

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from itertools import count
from threading import Timer
from typing import Final

import psycopg
from attrs import field, frozen

from meetcore.adapters.postgres import pool, repository, roles, session
from meetcore.adapters.postgres.connection import drop_socket

_FILE: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_NEW_INDEX: Final = re.compile(r"^CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS (\w+)", re.MULTILINE)
# The limits of a role are for the service's short statements.
_SESSION: Final = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0"
_HISTORY: Final = """CREATE TABLE IF NOT EXISTS schema_migrations (number integer PRIMARY KEY, name text NOT NULL,
    checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"""

Report = Callable[[str], None]


class MigrationRefused(Exception):
    """The schema cannot be brought up to date; the message says why and what to do."""


@frozen
class Migration:
    """One numbered step."""

    number: int
    name: str
    text: str = field(repr=False)

    @property
    def title(self) -> str:
        """The number and name of its file."""
        return f"{self.number:04}_{self.name}"

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, in hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def is_online(self) -> bool:
        """Whether the step runs statement by statement, outside a transaction."""
        return self.text.startswith("-- online\n")


def load_migrations() -> list[Migration]:
    """Load the steps of this release, in order."""
    files = resources.files(f"{__package__}.migrations").iterdir()
    named = [(match, file) for file in files if (match := _FILE.fullmatch(file.name))]
    steps = [Migration(int(match[1]), match[2], file.read_text("utf-8")) for match, file in named]
    return sorted(steps, key=lambda step: step.number)


def migrate(
    url: str,
    *,
    timeout_s: float = 120.0,
    lock_timeout_s: float = 2.0,
    report: Report = lambda text: None,
    on_applied: Callable[[Migration], None] = lambda step: None,
) -> list[Migration]:
    """Apply the missing steps and return them.

    Another host that migrates, and the locks of each step, are waited for `timeout_s` seconds, each try for a
    lock `lock_timeout_s` at most. `report` gets a line for the operator when a step begins, and when it waits
    for locks; `on_applied` each step that was applied.

    Raises:
        MigrationRefused: a step changed after it was applied, the database is newer than this release, a lock stayed
            taken, or a step failed (nothing of it is kept; of an online step the statements before the failed one).
        StoreUnavailable: the database does not answer.
    """
    with pool.translated(), _connected(url) as connection:
        _take_lock(connection, timeout_s)
        with _answered(connection):
            connection.execute(_SESSION)
            connection.execute(session.ALL.encode())
            todo = _missing_of(connection)
            if todo:
                connection.execute(_HISTORY)
        for step in todo:
            report(f"migration {step.title}")
            _apply_patiently(connection, step, timeout_s, lock_timeout_s, report)
            on_applied(step)
        return todo


def missing(url: str) -> list[Migration]:
    """Return the steps that the database lacks, without a lock or change; raise as `migrate` does."""
    with pool.translated(), _connected(url, "check") as connection, _answered(connection):
        return _missing_of(connection)


def _connected(url: str, role: str = "migrate") -> psycopg.Connection:
    parameters = {"application_name": pool.application_name(role)} | session.ENCODING
    connection = psycopg.connect(url, autocommit=True, **parameters, **pool.network_parameters(url))
    try:
        session.check_encoding(connection.pgconn)
    except session.EncodingRefused as error:
        connection.close()
        raise MigrationRefused(str(error)) from None
    return connection


@contextmanager
def _answered(connection: psycopg.Connection) -> Iterator[None]:
    """Give up on a server that does not answer in time."""
    timer = Timer(pool.DEADLINE_S, drop_socket, [connection.pgconn.socket])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _take_lock(connection: psycopg.Connection, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        with _answered(connection):
            row = connection.execute("SELECT pg_try_advisory_lock(%s)", (repository.MIGRATIONS,)).fetchone()
        if row is not None and row[0]:
            return
        if time.monotonic() > deadline:
            raise MigrationRefused("another host has been migrating for too long; try again when it is done")
        time.sleep(0.05)


def _missing_of(connection: psycopg.Connection) -> list[Migration]:
    steps, applied = load_migrations(), dict[int, str]()
    if connection.execute("SELECT FROM pg_class WHERE oid = to_regclass('schema_migrations')").rowcount:
        applied = dict(connection.execute("SELECT number, checksum FROM schema_migrations").fetchall())
    for step in steps:
        if applied.get(step.number, step.checksum) != step.checksum:
            raise MigrationRefused(
                f"migration {step.title} was changed after it was applied; run the release that applied it"
            )
    if newer := applied.keys() - {step.number for step in steps}:
        raise MigrationRefused(
            f"the database is at migration {max(newer):04}, too new for this release; upgrade meetcore"
        )
    return [step for step in steps if step.number not in applied]


def _apply_patiently(
    connection: psycopg.Connection, step: Migration, timeout_s: float, lock_timeout_s: float, report: Report
) -> None:
    deadline = time.monotonic() + timeout_s
    for attempt in count():
        try:
            _apply(connection, step, min(0.3 * (attempt + 1), lock_timeout_s))
            return
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise MigrationRefused(
                    f"migration {step.title} did not get its locks within {timeout_s:g} s: end the long "
                    "transactions that pg_stat_activity shows, or try again when they are done"
                ) from error
            pause_s = min(2.0**attempt, 10.0, left_s)
            report(f"migration {step.title} waits for locks that others hold; next try in {pause_s:.0f} s")
            time.sleep(pause_s)
        except psycopg.OperationalError:
            raise
        except psycopg.Error as error:
            raise MigrationRefused(f"migration {step.title} failed: {error}") from error


def _apply(connection: psycopg.Connection, step: Migration, lock_timeout_s: float) -> None:
    if step.is_online:
        for statement in re.split(r"\n\s*\n", step.text):
            _run_online(connection, statement, lock_timeout_s)
    with connection.transaction():
        if not step.is_online:
            with roles.granting(connection):
                _run(connection, step.text, lock_timeout_s)
        insert = "INSERT INTO schema_migrations (number, name, checksum) VALUES (%s, %s, %s)"
        connection.execute(insert, (step.number, step.name, step.checksum))


def _run_online(connection: psycopg.Connection, statement: str, lock_timeout_s: float) -> None:
    """Run a statement. No request queues behind a concurrent one, which waits for transactions without a limit."""
    if index := _NEW_INDEX.search(statement):
        is_left = "SELECT FROM pg_index WHERE indexrelid = to_regclass(%s) AND NOT indisvalid"
        if connection.execute(is_left, (index[1],)).rowcount:
            _run(connection, f"DROP INDEX CONCURRENTLY {index[1]}", 0)
    _run(connection, statement, 0 if "CONCURRENTLY" in statement else lock_timeout_s)


def _run(connection: psycopg.Connection, text: str, lock_timeout_s: float) -> None:
    connection.execute("SELECT set_config('lock_timeout', %s, false)", [f"{lock_timeout_s * 1000:.0f}ms"])
    connection.execute(text.encode())
