"""Migrations beside a service that runs: what they lock and read, interruptions, releases side by side."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence

import psycopg
import pytest

from benchmarks.history import fill
from meetcore.adapters.postgres import migrate as module
from meetcore.adapters.postgres.migrate import migrate, missing, needed
from meetcore.adapters.postgres.migration_locks import Lock, locks_of
from meetcore.adapters.postgres.migration_plan import plan_migrations
from meetcore.adapters.postgres.migration_steps import (
    Migration,
    MigrationRefused,
    Statement,
    load_migrations,
    oldest_schema,
    schemas_of,
)
from meetcore.adapters.postgres.partitioned_indexes import PartitionedIndex, build_index
from meetcore.adapters.postgres.roles import role_faults
from meetcore.adapters.settings import SettingsRefused
from meetcore.composition.infrastructure import check_schema
from tests.support import servers
from tests.support.api_harness import settings_for

FIRST_CHECKED = 23
"""Steps before it are as they were: nothing was released that had to run beside them."""

SMALL = {"hosts", "operators", "operator_tokens", "schema_migrations", "schema_migrations_batches"}
"""Tables that stay small. Every other one is taken to grow."""

WORKING = (
    "DROP TRIGGER IF EXISTS ledger_entries_marked",
    "DROP FUNCTION IF EXISTS mark_totals_due",
    "DROP TABLE IF EXISTS ledger_totals_due",
)
"""The end of what only steps use; each is one change of the catalogue."""

REPLACED = re.compile(r"ALTER TABLE (\w+) RENAME TO \w+;")
"""The renaming of a table, in whose place the same step makes another one of its name."""

MODES = {lock.text.title().replace(" ", "") + "Lock": lock for lock in Lock}
REMOVALS = ("DROP TABLE", "DROP COLUMN", "RENAME", " TYPE ", "SET NOT NULL")
ONLINE = (
    "CREATE INDEX CONCURRENTLY",
    "CREATE UNIQUE INDEX CONCURRENTLY",
    "DROP INDEX CONCURRENTLY",
    "ANALYZE",
)
VALIDATION = re.compile(r"ALTER TABLE \w+\s+VALIDATE CONSTRAINT \w+(\s*,\s*VALIDATE CONSTRAINT \w+)*")
"""A whole statement: with another change in it, it would hold the lock of that one while it reads."""

ROWS, ROWS_OF_BATCH, MOST_BATCHES = 50, 2, 1_000
ROWS_OF = {30: 20}
"""Steps whose batches divide the number of rows: with two they would take none."""


def step(number: int, text: str) -> Migration:
    return Migration(number, f"step_{number}", text)


@pytest.fixture
def migrated(postgres_server_url: str) -> Iterator[str]:
    with servers.migrated_database(postgres_server_url) as url:
        yield url


class Steps:
    """The steps that the release knows: its own, and further ones of a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.own = load_migrations()
        self.next = self.own[-1].number + 1
        self._monkeypatch = monkeypatch

    def are(self, *more: Migration, until: int | None = None) -> None:
        """Let the release know its steps up to a number, and these."""
        own = [each for each in self.own if until is None or each.number <= until]
        self._monkeypatch.setattr(module, "load_migrations", lambda: [*own, *more])


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


# What a step locks and reads


def scans(connection: psycopg.Connection) -> dict[str, int]:
    """How often this transaction has read each table whole, or a partition of it."""
    rows = connection.execute(
        """SELECT coalesce(i.inhparent::regclass::text, relname), sum(seq_scan)::int
        FROM pg_stat_xact_user_tables LEFT JOIN pg_inherits i ON i.inhrelid = relid GROUP BY 1"""
    )
    return dict(rows.fetchall())


def locked(connection: psycopg.Connection, tables: Sequence[str]) -> dict[str, Lock]:
    """The strongest lock that this transaction holds on each of these tables."""
    found: dict[str, Lock] = {}
    held = connection.execute(
        """SELECT coalesce(i.inhparent::regclass::text, c.relname), l.mode
        FROM pg_locks l JOIN pg_class c ON c.oid = l.relation LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
        WHERE l.pid = pg_backend_pid() AND c.relkind IN ('r', 'p') AND c.relname = ANY(%s)""",
        (list(tables),),
    )
    for table, mode in held.fetchall():
        found[table] = max(found.get(table, MODES[mode]), MODES[mode])
    return found


def tables_of(connection: psycopg.Connection) -> list[str]:
    rows = connection.execute(
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
    )
    return [name for (name,) in rows]


def faults_of(connection: psycopg.Connection, each: Migration) -> list[str]:
    """Apply a step, and describe what of it would stop a service: a table that grows, read under a lock."""
    if each.is_online:
        found = (online_faults(connection, each, statement) for statement in each.statements)
        return [fault for faults in found for fault in faults]
    before = set(tables_of(connection))
    with connection.transaction():
        counted = scans(connection)
        connection.execute(each.text.encode())
        read = {table for table, times in scans(connection).items() if times > counted.get(table, 0)}
        held = locked(connection, sorted(before))
        changed = changed_tables(connection)
    named = locks_of(each.text)
    growing = before - SMALL
    return [
        *(f"reads all of {table}" for table in sorted(read & growing)),
        *(f"changes rows of {table} in one transaction" for table in sorted(changed & growing)),
        *(f"{table}: takes {held[table].text}, which the plan does not say" for table in sorted(held)
          if held[table] > named.get(table, 0)),
        *(f"{word.strip()} without '-- needs code of'" for word in REMOVALS
          if word in kept_names(each.text).upper() and not each.needs_code_of),
    ]  # fmt: skip


def online_faults(connection: psycopg.Connection, each: Migration, statement: Statement) -> list[str]:
    """Run a statement of an online step, and describe what of it would stop a service."""
    text = statement.text
    if statement.is_batched:
        return batch_faults(connection, text, ROWS_OF.get(each.number, ROWS_OF_BATCH))
    if statement.is_for_each_partition:
        build_index(connection, PartitionedIndex.of(text))
        return []
    connection.execute(text.encode())
    is_fit = text.startswith(ONLINE + WORKING) or VALIDATION.fullmatch(text) is not None
    return [] if is_fit else [f"not for an online step: {text}"]


def batch_faults(connection: psycopg.Connection, text: str, rows: int) -> list[str]:
    """Run a statement in small batches: there must be several for the rows that are there, and an end."""
    keys: list[str] = []
    while len(keys) < MOST_BATCHES:
        parameters = {"after": keys[-1] if keys else None, "rows": rows}
        row = connection.execute(text.encode(), parameters).fetchone()
        if row is None or row[0] is None:
            break
        keys.append(row[0])
    if len(keys) == MOST_BATCHES:
        return [f"its batches have no end: {text}"]
    if not keys:
        return [f"there are no rows here to try its batches on: {text}"]
    return [f"takes all rows in one batch: {text}"] if len(keys) == 1 else []


def changed_tables(connection: psycopg.Connection) -> set[str]:
    """The tables whose rows this transaction has changed, or could have."""
    rows = connection.execute(
        """SELECT coalesce(i.inhparent::regclass::text, c.relname)
        FROM pg_locks l JOIN pg_class c ON c.oid = l.relation LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
        WHERE l.pid = pg_backend_pid() AND l.mode = 'RowExclusiveLock'"""
    )
    return {name for (name,) in rows}


def kept_names(text: str) -> str:
    """A step without the renaming of what has its name again at the end, and of what no statement names."""
    tables = [name for name in REPLACED.findall(text) if re.search(rf"CREATE TABLE {name} ", text)]
    for name in tables:
        text = text.replace(f"ALTER TABLE {name} RENAME TO", "")
        text = re.sub(rf"ALTER TABLE {name}_\w+ RENAME CONSTRAINT \w+ TO", "", text)
    return re.sub(r"ALTER INDEX \w+ RENAME TO", "", text)


def test_no_step_stops_the_service(empty_database_url: str, steps: Steps) -> None:
    steps.are(until=FIRST_CHECKED - 1)
    migrate(empty_database_url)
    fill(empty_database_url, ROWS)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        faults = {
            each.name: faults_of(connection, each) for each in steps.own if each.number >= FIRST_CHECKED
        }
    assert {name: found for name, found in faults.items() if found} == {}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("CREATE INDEX slow ON meetings (title)", "reads all of meetings"),
        ("ALTER TABLE meetings ADD CHECK (title <> '')", "reads all of meetings"),
        ("ALTER TABLE events ADD COLUMN drawn double precision DEFAULT random()", "reads all of events"),
        ("ALTER TABLE notes ALTER error SET NOT NULL", "SET NOT NULL without '-- needs code of'"),
        ("UPDATE deliveries SET attempts_made = 0", "reads all of deliveries"),
        ("ALTER TABLE meetings RENAME title TO name", "RENAME without '-- needs code of'"),
        ("-- online\nUPDATE notes SET error = '';\n", "not for an online step: UPDATE notes SET error = ''"),
        ("ALTER TABLE notes RENAME TO old; CREATE TABLE notes_2 ()", "RENAME without '-- needs code of'"),
        ("UPDATE meetings SET title = '' WHERE false", "changes rows of meetings in one transaction"),
        ("ALTER TABLE notes ADD COLUMN x int; DELETE FROM notes WHERE x = 1",
            "changes rows of notes in one transaction"),
        ("-- online\nALTER TABLE notes ADD CONSTRAINT x CHECK (true) NOT VALID, VALIDATE CONSTRAINT x;\n",
            "not for an online step: ALTER TABLE notes ADD CONSTRAINT x CHECK (true) NOT VALID, "
            "VALIDATE CONSTRAINT x"),
        ("LOCK TABLE accounts", "accounts: takes ACCESS EXCLUSIVE, which the plan does not say"),
    ],
)  # fmt: skip
def test_a_step_that_would_stop_it_is_found(migrated: str, text: str, fault: str) -> None:
    with psycopg.connect(migrated, autocommit=True) as connection:
        assert fault in faults_of(connection, step(9000, text))


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE meetings ADD COLUMN wider integer NOT NULL DEFAULT 0",
        "ALTER TABLE meetings ADD CONSTRAINT is_named CHECK (title <> '') NOT VALID",
        "CREATE TABLE more (account_id uuid REFERENCES accounts); CREATE INDEX more_of ON more (account_id)",
        "-- needs code of 9000\nALTER TABLE notes DROP COLUMN error",
        "DROP INDEX deliveries_failed",
        "-- online\nCREATE INDEX CONCURRENTLY quick ON meetings (title);\n",
        "-- online\n-- for each partition\nCREATE INDEX quick ON events (cause);\n",
        "-- online\nALTER TABLE accounts VALIDATE CONSTRAINT accounts_held_check,\n  "
        "VALIDATE CONSTRAINT accounts_balance_check;\n",
    ],
)
def test_a_step_that_would_not_is_let_pass(migrated: str, text: str) -> None:
    with psycopg.connect(migrated, autocommit=True) as connection:
        assert faults_of(connection, step(9000, text)) == []


FEW = """-- online
-- in batches
WITH batch AS (SELECT id FROM few WHERE id > coalesce(%(after)s::integer, 0) ORDER BY id LIMIT %(rows)s),
done AS (UPDATE few SET value = 1 FROM batch WHERE few.id = batch.id)
SELECT max(id)::text FROM batch;
"""


@pytest.mark.parametrize(
    ("rows", "cut", "instead", "fault"),
    [
        (5, "", "", None),
        (5, "LIMIT %(rows)s", "", "takes all rows in one batch"),
        (5, "coalesce(%(after)s::integer, 0)", "0", "its batches have no end"),
        (0, "", "", "there are no rows here to try its batches on"),
    ],
)
def test_batches_are_tried_on_rows(
    migrated: str, rows: int, cut: str, instead: str, fault: str | None
) -> None:
    with psycopg.connect(migrated, autocommit=True) as connection:
        connection.execute("CREATE TABLE few (id integer PRIMARY KEY, value integer)")
        connection.execute("INSERT INTO few SELECT generate_series(1, %s::integer)", [rows])
        found = faults_of(connection, step(9000, FEW.replace(cut, instead) if cut else FEW))
    assert [each.partition(":")[0] for each in found] == ([] if fault is None else [fault])


def test_the_plan_counts_every_partition(migrated: str, steps: Steps) -> None:
    steps.are(step(steps.next, "CREATE INDEX slow ON deliveries (created_at)"))
    [planned] = plan_migrations(migrated)
    with psycopg.connect(migrated) as connection:
        row = connection.execute(
            "SELECT sum(pg_table_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'deliveries'::regclass"
        ).fetchone()
    assert row is not None
    assert planned.reads_bytes == row[0] > 0


def test_the_plan_names_steps_locks_and_sizes(migrated: str, steps: Steps) -> None:
    wider = step(steps.next, "ALTER TABLE meetings ADD COLUMN wider integer")
    index = step(
        steps.next + 1,
        "-- online\n-- optional\nCREATE INDEX CONCURRENTLY quick ON ledger_entries (amount);\n",
    )
    steps.are(wider, index)
    first, second = plan_migrations(migrated)
    assert (first.step, first.locks, first.reads_bytes) == (wider, {"meetings": Lock.ACCESS_EXCLUSIVE}, 0)
    assert (second.step, second.locks) == (index, {"ledger_entries": Lock.SHARE_UPDATE_EXCLUSIVE})
    assert second.reads_bytes > 0
    assert missing(migrated) == [wider, index]


def test_the_services_role_may_use_a_table_as_soon_as_it_is_there(
    empty_database_url: str, steps: Steps
) -> None:
    """Its processes post while later steps run, and what they post is counted in tables of earlier ones."""
    steps.are(until=FIRST_CHECKED - 1)
    migrate(empty_database_url)
    faults: dict[str, list[str]] = {}
    with servers.service_role(empty_database_url) as url:
        for each in steps.own:
            steps.are(until=each.number)
            migrate(empty_database_url)
            with psycopg.connect(url, autocommit=True) as connection:
                faults[each.name] = role_faults(connection)
    assert {name: found for name, found in faults.items() if found} == {}


# Online steps


BACKFILL = """-- online
-- in batches
WITH batch AS (
    SELECT id FROM filled WHERE id > coalesce(%(after)s::integer, 0) ORDER BY id LIMIT %(rows)s
), done AS (UPDATE filled f SET value = f.id + 1 FROM batch WHERE f.id = batch.id)
SELECT max(id)::text FROM batch;
-- The index is built beside writers.
CREATE INDEX CONCURRENTLY filled_value ON filled (value);
"""


@pytest.fixture
def filled(migrated: str) -> str:
    with psycopg.connect(migrated, autocommit=True) as connection:
        connection.execute("CREATE TABLE filled (id integer PRIMARY KEY, value integer)")
        connection.execute("INSERT INTO filled SELECT generate_series(1, 10000)")
    return migrated


def progress_of(url: str) -> tuple[int, list[tuple[str]]]:
    with psycopg.connect(url) as connection:
        done = connection.execute("SELECT count(*) FROM filled WHERE value = id + 1").fetchone()
        keys = connection.execute("SELECT last_key FROM schema_migrations_batches").fetchall()
    assert done is not None
    return done[0], keys


def test_a_backfill_goes_on_where_it_was_interrupted(
    filled: str, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    backfill = step(steps.next, BACKFILL)
    steps.are(backfill)
    original, batches = module._run_batch, 0

    def run_batch(*arguments: object) -> bool:
        nonlocal batches
        batches += 1
        if batches == 3:
            raise KeyboardInterrupt
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_run_batch", run_batch)
    with pytest.raises(KeyboardInterrupt):
        migrate(filled)
    assert progress_of(filled) == (4_000, [("4000",)])
    assert missing(filled) == [backfill]
    assert migrate(filled) == [backfill]
    assert progress_of(filled) == (10_000, [])
    assert batches == 3 + 3 + 1  # two done, one interrupted; three more, and one that finds none
    assert migrate(filled) == []


@pytest.mark.parametrize("done", range(3))
def test_a_step_goes_on_after_the_statements_that_are_done(
    filled: str, steps: Steps, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    """Its last statement takes away what the one before it needs."""
    text = BACKFILL.replace("FROM filled", "FROM source")
    moved = step(steps.next, f"{text}DROP TABLE source;\n")
    steps.are(moved)
    with psycopg.connect(filled, autocommit=True) as connection:
        connection.execute("CREATE TABLE source AS SELECT id, value FROM filled")
    original, run = module._run_online, 0

    def run_online(*arguments: object) -> None:
        nonlocal run
        original(*arguments)  # type: ignore[arg-type]
        run += 1
        if run == done + 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(module, "_run_online", run_online)
        with pytest.raises(KeyboardInterrupt):
            migrate(filled)
    assert migrate(filled) == [moved]
    assert migrate(filled) == []


def test_a_limit_of_the_role_does_not_end_a_long_statement(filled: str, steps: Steps) -> None:
    steps.are(step(steps.next, "-- online\nSELECT pg_sleep(0.3);\n"))
    with psycopg.connect(filled, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET statement_timeout = '100ms'".encode())
    assert len(migrate(filled)) == 1


def test_what_an_interrupted_build_left_is_built_anew(filled: str, steps: Steps) -> None:
    build = step(steps.next, "-- online\nCREATE UNIQUE INDEX CONCURRENTLY filled_value ON filled (value);\n")
    steps.are(build)
    with psycopg.connect(filled, autocommit=True) as connection:
        connection.execute("UPDATE filled SET value = 1")
        with pytest.raises(MigrationRefused, match="could not create unique index"):
            migrate(filled)
        connection.execute("UPDATE filled SET value = id")
        assert migrate(filled) == [build]
        row = connection.execute(
            "SELECT indisvalid FROM pg_index WHERE indexrelid = 'filled_value'::regclass"
        )
        assert row.fetchall() == [(True,)]


def test_a_build_that_waits_for_a_long_transaction_stops_nobody(filled: str, steps: Steps) -> None:
    steps.are(step(steps.next, "-- online\nCREATE INDEX CONCURRENTLY filled_value ON filled (value);\n"))
    builder = threading.Thread(target=migrate, args=(filled,), kwargs={"lock_timeout_s": 0.1})
    waiting = """SELECT count(*) FROM pg_stat_activity
        WHERE starts_with(query, 'CREATE INDEX') AND wait_event_type = 'Lock'"""
    with psycopg.connect(filled) as holder, psycopg.connect(filled, autocommit=True) as service:
        holder.execute("UPDATE filled SET value = 0 WHERE id = 1")
        builder.start()
        for _ in range(1000):
            if service.execute(waiting).fetchone() == (1,):
                break
            threading.Event().wait(0.01)
        else:
            pytest.fail("the build did not begin to wait")
        service.execute("SET statement_timeout = 1000")
        service.execute("UPDATE filled SET value = 2 WHERE id = 2")
        service.execute("SELECT count(*) FROM filled")
        holder.commit()
        builder.join(timeout=30)
    assert missing(filled) == []


def test_an_online_statement_that_stops_others_waits_for_a_moment_only(filled: str, steps: Steps) -> None:
    """Who comes after it waits behind it as long."""
    steps.are(step(steps.next, "-- online\nALTER TABLE filled ADD COLUMN wider integer;\n"))
    with psycopg.connect(filled) as holder:
        holder.execute("SELECT FROM filled")
        started = time.monotonic()
        with pytest.raises(MigrationRefused, match="did not get its locks"):
            migrate(filled, timeout_s=0)
        assert time.monotonic() - started < module._LOCK_TIMEOUT_S
    assert len(migrate(filled)) == 1


# Releases side by side


def test_a_release_runs_before_a_step_that_is_optional(migrated: str, steps: Steps) -> None:
    later = step(steps.next, "-- optional\nALTER TABLE meetings ADD COLUMN wider integer")
    steps.are(later)
    assert (missing(migrated), needed(migrated)) == ([later], [])
    check_schema(settings_for(migrated))


def test_a_release_does_not_run_before_a_step_that_it_needs(migrated: str, steps: Steps) -> None:
    later = step(steps.next, "ALTER TABLE meetings ADD COLUMN wider integer")
    steps.are(later)
    assert needed(migrated) == [later]
    with pytest.raises(SettingsRefused, match="run `meetcore migrate` first"):
        check_schema(settings_for(migrated))


def test_an_earlier_release_runs_after_a_step_that_only_adds(migrated: str, steps: Steps) -> None:
    steps.are(step(steps.next, "ALTER TABLE meetings ADD COLUMN wider integer"))
    migrate(migrated)
    steps.are()
    check_schema(settings_for(migrated))
    assert migrate(migrated) == []


def test_an_earlier_release_does_not_run_after_a_step_that_takes_something_away(
    migrated: str, steps: Steps
) -> None:
    text = f"-- needs code of {steps.next:04}\nALTER TABLE meetings DROP COLUMN title"
    steps.are(step(steps.next, text))
    migrate(migrated)
    steps.are()
    with pytest.raises(SettingsRefused, match=f"at migration {steps.next:04}, too new for this release"):
        check_schema(settings_for(migrated))


def test_the_oldest_schema_is_that_of_the_last_step_that_is_needed() -> None:
    assert oldest_schema([]) == 0
    assert oldest_schema([step(1, ""), step(2, ""), step(3, "-- optional\n")]) == 2
    assert oldest_schema([step(1, ""), step(2, "-- optional\n"), step(3, "")]) == 3
    assert schemas_of([step(1, ""), step(22, ""), step(33, "-- optional\n")]).text == "0022 to 0033"
