"""Bring a schema up to date: once, by one host at a time, beside a service, and never backwards."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import psycopg
import pytest

from meetcore.adapters.postgres import migrate as module
from meetcore.adapters.postgres import pool
from meetcore.adapters.postgres.migrate import Migration, MigrationRefused, load_migrations, migrate, missing
from meetcore.adapters.postgres.repository import MIGRATIONS
from meetcore.adapters.postgres.roles import role_faults
from meetcore.adapters.settings import SettingsRefused
from meetcore.composition.configuration import check_schema
from meetcore.ports.store import StoreUnavailable
from tests.support import servers
from tests.support.api_harness import settings_for
from tests.support.own_postgres import own_postgres
from tests.support.running_time import running_time

# What makes two schemas the same, by name and definition. The table of the runner is no part of the schema.
CATALOG = {
    "tables": """
        SELECT relname, relkind::text, relpersistence::text, reloptions FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
            AND relname <> 'schema_migrations'""",
    "columns": """
        SELECT c.relname, row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum), a.attname,
            format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
            AND a.attnum > 0 AND NOT a.attisdropped AND c.relname <> 'schema_migrations'""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace
            AND conrelid::regclass::text <> 'schema_migrations'""",
    "indexes": """
        SELECT tablename, indexname, indexdef FROM pg_indexes
        WHERE schemaname = 'public' AND tablename <> 'schema_migrations'""",
    "triggers": """
        SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(oid), tgenabled::text FROM pg_trigger
        WHERE NOT tgisinternal""",
    "functions": """
        SELECT p.proname, pg_get_functiondef(p.oid) FROM pg_proc p
        WHERE p.pronamespace = 'public'::regnamespace AND NOT EXISTS (
            SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')""",
    "extensions": "SELECT extname FROM pg_extension",
}


def catalog(url: str) -> dict[str, Counter[tuple[object, ...]]]:
    """Everything in a database that the schema decides."""
    with psycopg.connect(url) as connection:
        return {
            name: Counter(tuple(map(repr, row)) for row in connection.execute(query).fetchall())
            for name, query in CATALOG.items()
        }


NEXT = load_migrations()[-1].number + 1


@pytest.fixture
def url(postgres_server_url: str) -> Iterator[str]:
    """A database with the whole schema."""
    with servers.migrated_database(postgres_server_url) as url:
        yield url


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Migration]:
    """Give the release one more step."""

    def add(text: str) -> Migration:
        step = Migration(NEXT, "later", text)
        monkeypatch.setattr(module, "load_migrations", lambda: [*load_migrations(), step])
        return step

    return add


def tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    return {name for (name,) in found}


def applied(url: str) -> list[tuple[int, str]]:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT number, name FROM schema_migrations ORDER BY 1").fetchall()


def known() -> list[tuple[int, str]]:
    return [(step.number, step.name) for step in load_migrations()]


def until(connection: psycopg.Connection, query: str) -> None:
    """Wait until a query returns a row."""
    deadline = time.monotonic() + 30
    while connection.execute(query.encode()).fetchone() is None:
        assert time.monotonic() < deadline, query
        time.sleep(0.01)


WAITING = """SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"""


def test_the_runner_arrives_at_what_the_files_say(url: str, empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url) as connection:
        for step in load_migrations():
            connection.execute(step.text.encode())
    arrived, wanted = catalog(url), catalog(empty_database_url)
    assert arrived == wanted
    assert len(wanted["tables"]) >= 15
    assert len(wanted["triggers"]) == 3


def test_a_difference_in_the_schema_is_found(url: str) -> None:
    before = catalog(url)
    with psycopg.connect(url) as connection:
        connection.execute("ALTER TABLE ledger_entries DISABLE TRIGGER ledger_entries_append_only")
        connection.execute("ALTER TABLE accounts DROP CONSTRAINT accounts_held_check")
        connection.execute("ALTER TABLE hosts ALTER uses DROP DEFAULT")
    after = catalog(url)
    assert {name for name in CATALOG if before[name] != after[name]} == {"triggers", "constraints", "columns"}


def test_migrating_twice_applies_nothing_the_second_time(empty_database_url: str) -> None:
    assert missing(empty_database_url) == load_migrations()
    assert tables(empty_database_url) == set(), "to look changes nothing"
    done: list[Migration] = []
    assert migrate(empty_database_url, on_applied=done.append) == load_migrations() == done
    assert missing(empty_database_url) == migrate(empty_database_url) == []
    assert applied(empty_database_url) == known()


def test_migrators_at_once_apply_each_step_once(empty_database_url: str) -> None:
    start = threading.Barrier(4)
    done: list[list[Migration]] = []

    def run() -> None:
        start.wait(timeout=10)
        done.append(migrate(empty_database_url))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(map(len, done)) == [0, 0, 0, len(load_migrations())]
    assert applied(empty_database_url) == known()


def test_a_migrator_that_waits_in_vain_for_another_gives_up(empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(%s)", (MIGRATIONS,))
        with pytest.raises(MigrationRefused, match="too long"):
            migrate(empty_database_url, timeout_s=0)
    assert migrate(empty_database_url) == load_migrations()


# What is refused


def test_a_step_that_was_changed_after_it_was_applied_is_refused(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE schema_migrations SET checksum = repeat('0', 64) WHERE number = 1")
    for ask in (migrate, missing):
        with pytest.raises(MigrationRefused, match="0001_initial was changed"):
            ask(url)


def test_a_database_of_a_newer_release_is_refused(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO schema_migrations VALUES (9999, 'future', '')")
    for ask in (migrate, missing):
        with pytest.raises(MigrationRefused, match="9999, too new for this release"):
            ask(url)
    with pytest.raises(SettingsRefused, match="too new"):
        check_schema(settings_for(url))


def test_a_release_does_not_start_before_its_steps_are_applied(
    url: str, add: Callable[[str], Migration]
) -> None:
    check_schema(settings_for(url))
    add("CREATE TABLE later ()")
    with pytest.raises(SettingsRefused, match="run `meetcore migrate` first"):
        check_schema(settings_for(url))


def test_nothing_of_a_step_that_fails_is_kept(url: str, add: Callable[[str], Migration]) -> None:
    add("CREATE TABLE later (); CREATE TABLE accounts ()")
    with pytest.raises(MigrationRefused, match=f"{NEXT:04}_later failed"):
        migrate(url)
    assert "later" not in tables(url)
    assert applied(url) == known()


def test_a_lost_database_is_unavailable(postgres_server_url: str) -> None:
    nowhere = servers.with_path(postgres_server_url, "meetcore_test_no_such_database")
    for ask in (migrate, missing):
        with pytest.raises(StoreUnavailable):
            ask(nowhere)


def test_a_server_that_is_frozen_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "DEADLINE_S", 1.0)
    with own_postgres() as server:
        migrate(server.url)
        connection = module._connected(server.url)
        server.freeze()
        with running_time() as passed_s:
            with connection, pytest.raises(psycopg.OperationalError), module._answered(connection):
                connection.execute("SELECT 1")
            assert passed_s() < 3


# Beside a service


WIDER = "ALTER TABLE meetings ADD COLUMN wider integer"


def test_a_step_that_waits_for_a_lock_lets_others_pass_and_is_tried_again(
    url: str, add: Callable[[str], Migration]
) -> None:
    """Requests queue behind a lock that is waited for: a long report must not stop them for long."""
    later = add(WIDER)
    lines: list[str] = []
    with psycopg.connect(url) as holder:
        holder.execute("SELECT FROM meetings")

        def report(text: str) -> None:
            lines.append(text)
            if "waits" in text:
                with psycopg.connect(url, autocommit=True) as service:
                    service.execute("SET statement_timeout = '20s'")
                    service.execute("SELECT FROM meetings FOR UPDATE")
            if len(lines) == 3:
                holder.commit()

        assert migrate(url, lock_timeout_s=0.1, report=report) == [later]
    name, wait = f"migration {later.title}", "waits for locks that others hold; next try in"
    assert lines == [name, f"{name} {wait} 1 s", f"{name} {wait} 2 s"]


def test_step_that_gets_no_lock_gives_up_and_keeps_nothing(url: str, add: Callable[[str], Migration]) -> None:
    later = add(f"CREATE TABLE later (); {WIDER}")
    with psycopg.connect(url) as holder:
        holder.execute("SELECT FROM meetings")
        with pytest.raises(MigrationRefused, match="did not get its locks within 1 s"):
            migrate(url, timeout_s=1, lock_timeout_s=0.1)
    assert "later" not in tables(url)
    assert migrate(url) == [later]


_LOCKS = "SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()"
_HAS_ACCOUNTS = f"{_LOCKS} WHERE relation = 'accounts'::regclass AND mode = 'AccessExclusiveLock' AND granted"
# It asks for its second lock when the writer waits for its first one: each of them waits for the other then.
_DEADLOCK = f"""
LOCK TABLE accounts;
DO $$ BEGIN
    WHILE EXISTS ({_LOCKS} WHERE relation = 'ledger_entries'::regclass AND mode = 'RowExclusiveLock')
        AND NOT EXISTS ({_LOCKS} WHERE relation = 'accounts'::regclass AND NOT granted) LOOP
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;
LOCK TABLE ledger_entries
"""


def test_step_that_is_ended_for_a_deadlock_is_tried_again(url: str, add: Callable[[str], Migration]) -> None:
    later = add(_DEADLOCK)
    migrator = threading.Thread(target=migrate, args=(url,), kwargs={"lock_timeout_s": 20})
    with psycopg.connect(url) as writer, psycopg.connect(url, autocommit=True) as watch:
        writer.execute("SET LOCAL deadlock_timeout = '20s'")  # so that the step is the one that is ended
        writer.execute("LOCK TABLE ledger_entries IN ROW EXCLUSIVE MODE")
        migrator.start()
        until(watch, _HAS_ACCOUNTS)
        writer.execute("LOCK TABLE accounts IN ROW EXCLUSIVE MODE")
    migrator.join(timeout=30)
    assert applied(url)[-1] == (later.number, later.name)


def test_the_services_role_may_use_a_table_as_soon_as_it_is_there(
    url: str, add: Callable[[str], Migration]
) -> None:
    add("CREATE TABLE later ()")
    with servers.service_role(url) as service_url:
        migrate(url)
        with psycopg.connect(service_url, autocommit=True) as connection:
            connection.execute("DELETE FROM later")
            assert role_faults(connection) == []


# Online steps


ONLINE = """-- online
CREATE TABLE IF NOT EXISTS counted AS SELECT generate_series(1, 1000) AS n, NULL::integer AS value;

-- In batches, each in a transaction of its own.
DO $$ BEGIN
    WHILE EXISTS (SELECT FROM counted WHERE value IS NULL) LOOP
        UPDATE counted SET value = n / divisor FROM divisors WHERE value IS NULL AND n BETWEEN 1 AND 1000;
        COMMIT;
    END LOOP;
END $$;

CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS counted_value ON counted (value);
"""


def test_an_online_step_that_was_interrupted_is_repeated(url: str, add: Callable[[str], Migration]) -> None:
    """What its statements did stays; an index whose build failed is not taken for one that is there."""
    later = add(ONLINE)
    with psycopg.connect(url, autocommit=True) as connection:
        with pytest.raises(MigrationRefused, match='"divisors" does not exist'):
            migrate(url)
        connection.execute("CREATE TABLE divisors AS SELECT 2 AS divisor")
        with pytest.raises(MigrationRefused, match="could not create unique index"):
            migrate(url)
        assert missing(url) == [later]
        assert connection.execute("SELECT count(value), count(DISTINCT value) FROM counted").fetchone() == (
            1000,
            501,
        )
        connection.execute("UPDATE counted SET value = n")
        assert migrate(url) == [later]
        built = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'counted_value'::regclass"
        assert connection.execute(built).fetchall() == [(True,)]
    assert migrate(url) == []


def test_a_limit_of_the_role_does_not_end_a_long_statement(url: str, add: Callable[[str], Migration]) -> None:
    later = add("-- online\nSELECT pg_sleep(0.3);\n")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"ALTER DATABASE {connection.info.dbname} SET statement_timeout = '100ms'".encode()
        )
    assert migrate(url) == [later]


def test_a_build_that_waits_for_a_long_transaction_stops_nobody(
    url: str, add: Callable[[str], Migration]
) -> None:
    """No request queues behind it, so it waits without a limit."""
    add("-- online\nCREATE INDEX CONCURRENTLY IF NOT EXISTS later ON hosts (uses);\n")
    builder = threading.Thread(target=migrate, args=(url,), kwargs={"timeout_s": 0, "lock_timeout_s": 0.1})
    with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as service:
        holder.execute("UPDATE hosts SET uses = 0")
        builder.start()
        until(service, WAITING)
        time.sleep(0.2)  # longer than the limit for a lock
        service.execute("SET statement_timeout = '20s'")
        service.execute("UPDATE hosts SET uses = 1")
        holder.commit()
        builder.join(timeout=30)
    assert missing(url) == []


def test_an_online_statement_that_stops_others_waits_for_a_moment_only(
    url: str, add: Callable[[str], Migration]
) -> None:
    later = add(f"-- online\n{WIDER};\n")
    with psycopg.connect(url) as holder:
        holder.execute("SELECT FROM meetings")
        with pytest.raises(MigrationRefused, match="did not get its locks"):
            migrate(url, timeout_s=0, lock_timeout_s=0.1)
    assert migrate(url) == [later]
