"""Bringing a PostgreSQL schema up to date: once, by one at a time, and never backwards."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from uuid import UUID

import psycopg
import pytest

from meetcore.adapters.postgres import migrate as module
from meetcore.adapters.postgres.advisory_locks import MIGRATIONS
from meetcore.adapters.postgres.migrate import migrate, missing
from meetcore.adapters.postgres.migration_steps import Migration, MigrationRefused, load_migrations
from meetcore.ports.store import StoreUnavailable
from tests.support import servers
from tests.support.own_postgres import own_postgres

# What makes two schemas the same, by name and definition, each object's own schema left out. Column
# order counts; statistics, oids and the gaps that dropped columns leave do not. The migrator's own
# table is no part of the schema.
CATALOG = {
    "tables": """
        SELECT relname, relkind::text, relpersistence::text, reloptions FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
            AND relname NOT LIKE 'schema_migrations%'""",
    "columns": """
        SELECT c.relname, row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum), a.attname,
            format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
            AND a.attnum > 0 AND NOT a.attisdropped AND c.relname NOT LIKE 'schema_migrations%'""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace
            AND conrelid::regclass::text NOT LIKE 'schema_migrations%'""",
    "indexes": """
        SELECT tablename, indexname, indexdef FROM pg_indexes
        WHERE schemaname = 'public' AND tablename NOT LIKE 'schema_migrations%'""",
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


@pytest.fixture
def second_database_url(postgres_server_url: str) -> Iterator[str]:
    with servers.fresh_database(postgres_server_url) as url:
        yield url


def applied(url: str) -> list[tuple[int, str]]:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT number, name FROM schema_migrations ORDER BY 1").fetchall()


def known() -> list[tuple[int, str]]:
    return [(step.number, step.name) for step in load_migrations()]


def test_the_migrations_arrive_at_the_canonical_schema(empty_database_url, second_database_url):
    migrate(empty_database_url)
    schema = resources.files("meetcore.adapters.postgres").joinpath("schema.sql").read_text("utf-8")
    with psycopg.connect(second_database_url) as connection:
        connection.execute("CREATE TABLE schema_migrations ()")
        connection.execute(schema)
    arrived, wanted = catalog(empty_database_url), catalog(second_database_url)
    for name in CATALOG:
        assert arrived[name] == wanted[name], name
    assert len(wanted["tables"]) >= 15
    assert len(wanted["triggers"]) == 4


def test_a_difference_in_the_schema_is_found(empty_database_url, second_database_url):
    for url in (empty_database_url, second_database_url):
        migrate(url)
    with psycopg.connect(second_database_url) as connection:
        connection.execute("ALTER TABLE ledger_entries DISABLE TRIGGER ledger_entries_append_only")
        connection.execute("ALTER TABLE accounts DROP CONSTRAINT accounts_held_check")
        connection.execute("ALTER TABLE hosts ALTER uses DROP DEFAULT")
    first, second = catalog(empty_database_url), catalog(second_database_url)
    assert {name for name in CATALOG if first[name] != second[name]} == {
        "triggers",
        "constraints",
        "columns",
    }


def test_migrating_twice_applies_nothing_the_second_time(empty_database_url):
    assert missing(empty_database_url) == load_migrations()
    progress: list[tuple[int, int, int]] = []
    steps = migrate(empty_database_url, on_step=lambda step, n, of: progress.append((step.number, n, of)))
    assert steps == load_migrations()
    assert progress == [(step.number, place, len(steps)) for place, step in enumerate(steps, start=1)]
    assert missing(empty_database_url) == []
    assert migrate(empty_database_url) == []
    assert applied(empty_database_url) == known()


def test_asking_what_is_missing_changes_nothing(empty_database_url):
    before = catalog_of_tables(empty_database_url)
    missing(empty_database_url)
    assert catalog_of_tables(empty_database_url) == before == []


def catalog_of_tables(url: str) -> list[tuple[str]]:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()


def test_two_migrators_at_once_apply_each_step_once(empty_database_url):
    gather_all = threading.Barrier(4)
    done: list[list[Migration]] = []

    def run() -> None:
        gather_all.wait(timeout=10)
        done.append(migrate(empty_database_url))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(map(len, done)) == [0, 0, 0, len(load_migrations())]
    assert applied(empty_database_url) == known()


def test_a_migrator_that_waits_in_vain_gives_up(empty_database_url):
    with psycopg.connect(empty_database_url, autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(%s)", (MIGRATIONS,))
        with pytest.raises(MigrationRefused, match="too long"):
            migrate(empty_database_url, timeout_s=0)
    assert migrate(empty_database_url) == load_migrations()


WIDER = "ALTER TABLE meetings ADD COLUMN wider integer"


def test_a_step_that_waits_for_a_lock_lets_others_pass_and_is_tried_again(empty_database_url, monkeypatch):
    """The service queues behind a lock that is waited for: a long report must not stop it for long."""
    steps = migrate(empty_database_url)
    later = Migration(steps[-1].number + 1, "wider", WIDER)
    monkeypatch.setattr(module, "load_migrations", lambda: [*steps, later])
    waits: list[float] = []
    with psycopg.connect(empty_database_url) as holder:
        holder.execute("SELECT FROM meetings")

        def on_wait(step: Migration, pause_s: float) -> None:
            assert step == later
            with psycopg.connect(empty_database_url, autocommit=True) as service:
                service.execute("SET statement_timeout = 1000")
                service.execute("SELECT FROM meetings FOR UPDATE")
            waits.append(pause_s)
            if len(waits) == 2:
                holder.commit()

        assert migrate(empty_database_url, lock_timeout_s=0.1, on_wait=on_wait) == [later]
    assert waits == [1.0, 2.0]


def test_a_step_that_gets_no_lock_gives_up_and_keeps_nothing(empty_database_url, monkeypatch):
    steps = migrate(empty_database_url)
    later = Migration(steps[-1].number + 1, "wider", f"CREATE TABLE before (); {WIDER}")
    monkeypatch.setattr(module, "load_migrations", lambda: [*steps, later])
    with psycopg.connect(empty_database_url) as holder:
        holder.execute("SELECT FROM meetings")
        with pytest.raises(MigrationRefused, match="did not get its locks within 1 s"):
            migrate(empty_database_url, timeout_s=1, lock_timeout_s=0.1)
    assert ("before",) not in catalog_of_tables(empty_database_url)
    assert migrate(empty_database_url) == [later]


CROSSED = """
CREATE TABLE counted (account_id uuid REFERENCES accounts);
CREATE FUNCTION count_entries() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER counted AFTER INSERT ON ledger_entries FOR EACH STATEMENT EXECUTE FUNCTION count_entries()
"""
_WAITS = """SELECT FROM pg_locks
WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


def _write_in_opposite_order(url: str, stop: threading.Event) -> None:
    """Lock the entries, wait until the migrator waits for a lock, then lock the accounts; again and again."""
    with psycopg.connect(url) as writer, psycopg.connect(url, autocommit=True) as watch:
        while not stop.is_set():
            writer.execute("LOCK TABLE ledger_entries IN ROW EXCLUSIVE MODE")
            while not stop.is_set() and watch.execute(_WAITS).fetchone() is None:
                stop.wait(0.01)
            writer.execute("LOCK TABLE accounts IN ROW EXCLUSIVE MODE")
            writer.commit()


def test_a_step_and_a_writer_that_lock_two_tables_in_opposite_orders_both_get_on(
    empty_database_url, monkeypatch
):
    """A posting holds the entries and waits behind the step for the account: each try in that order fails."""
    steps = migrate(empty_database_url)
    later = Migration(steps[-1].number + 1, "crossed", CROSSED)
    monkeypatch.setattr(module, "load_migrations", lambda: [*steps, later])
    stop = threading.Event()
    writer = threading.Thread(target=_write_in_opposite_order, args=(empty_database_url, stop))
    writer.start()
    try:
        assert migrate(empty_database_url, timeout_s=120) == [later]
    finally:
        stop.set()
        writer.join()


def test_a_server_that_is_frozen_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "DEADLINE_S", 1.0)
    with own_postgres() as server:
        migrate(server.url)
        connection = module._connected(server.url)
        server.freeze()
        started = time.monotonic()
        with connection, pytest.raises(psycopg.OperationalError), module._answered(connection):
            connection.execute("SELECT 1")
        assert time.monotonic() - started < 3


def test_a_step_that_was_changed_after_it_was_applied_is_refused(empty_database_url):
    migrate(empty_database_url)
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("UPDATE schema_migrations SET checksum = repeat('0', 64) WHERE number = 1")
    for ask in (migrate, missing):
        with pytest.raises(MigrationRefused, match=r"0001 .* was changed"):
            ask(empty_database_url)


def test_a_database_that_needs_a_newer_release_is_refused(empty_database_url):
    migrate(empty_database_url)
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("INSERT INTO schema_migrations VALUES (9999, 'future', '', now(), 9999)")
    for ask in (migrate, missing):
        with pytest.raises(MigrationRefused, match="9999, too new for this release"):
            ask(empty_database_url)


def test_nothing_of_a_step_that_fails_is_kept(empty_database_url):
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("CREATE TABLE webhook_endpoints ()")
    with pytest.raises(MigrationRefused, match="0001"):
        migrate(empty_database_url)
    assert sorted(catalog_of_tables(empty_database_url)) == [
        ("schema_migrations",),
        ("schema_migrations_batches",),
        ("webhook_endpoints",),
    ]
    assert applied(empty_database_url) == []


def test_a_lost_database_is_unavailable(postgres_server_url):
    nowhere = servers.with_path(postgres_server_url, "meetcore_test_no_such_database")
    for ask in (migrate, missing):
        with pytest.raises(StoreUnavailable):
            ask(nowhere)


def test_each_step_has_a_number_and_a_name_of_its_own():
    steps = load_migrations()
    numbers = [step.number for step in steps]
    assert numbers == sorted(set(numbers))
    assert len({step.name for step in steps}) == len(steps)


def test_the_user_of_each_account_becomes_its_owner(empty_database_url, monkeypatch):
    """Accounts that share an e-mail address get one user; user ids that are shared are parted."""
    steps = load_migrations()
    before = next(place for place, step in enumerate(steps) if step.name == "members")
    monkeypatch.setattr(module, "load_migrations", lambda: steps[:before])
    migrate(empty_database_url)
    monkeypatch.setattr(module, "load_migrations", lambda: steps)
    accounts = [(1, 11, "dewi@example.com"), (2, 12, "Dewi@Example.com"), (3, 13, "sari@example.com"),
        (4, 13, "budi@example.com")]  # fmt: skip
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        for id_, user_id, email in accounts:
            connection.execute(
                """INSERT INTO accounts (id, user_id, email, full_name, created_at, low_threshold, is_low)
                VALUES (%s, %s, %s, 'A', now() + %s * interval '1 day', 0, false)""",
                (UUID(int=id_), UUID(int=user_id), email, id_),
            )
        migrate(empty_database_url)
        members = connection.execute(
            """SELECT account_id, user_id, email, role FROM memberships JOIN users ON users.id = user_id
            ORDER BY account_id"""
        ).fetchall()
    assert [(account_id.int, email, role) for account_id, _, email, role in members] == [
        (1, "dewi@example.com", "owner"), (2, "dewi@example.com", "owner"), (3, "sari@example.com", "owner"),
        (4, "budi@example.com", "owner"),
    ]  # fmt: skip
    users = [user_id for _, user_id, _, _ in members]
    assert [user_id.int for user_id in users[:3]] == [11, 11, 13]
    assert users[3] not in users[:3]


def test_entries_from_before_the_totals_of_days_are_counted_once(empty_database_url, monkeypatch):
    """Those that are posted between the two steps, too, and across midnight in WIB."""
    steps = load_migrations()
    place = next(n for n, step in enumerate(steps) if step.name == "ledger_day_totals")
    post = """
        WITH account AS (
            INSERT INTO accounts (id, user_id, email, full_name, created_at, low_threshold, is_low)
            VALUES ('00000000-0000-0000-0000-000000000001', gen_random_uuid(), 'a', 'A', now(), 0, false)
            ON CONFLICT (id) DO UPDATE SET entries = accounts.entries RETURNING id
        )
        INSERT INTO ledger_entries (account_id, number, book, transfer_id, amount, balance_after, at, hash)
        SELECT id, %(number)s, leg.book, gen_random_uuid(), leg.amount, leg.balance, %(at)s, leg.hash
        FROM account, (VALUES ('customer', %(credits)s, 0, 'x'::bytea), (%(book)s, -%(credits)s, NULL, NULL))
            AS leg (book, amount, balance, hash)"""
    count = "UPDATE accounts SET entries = entries + 1"
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        for number, (last, book, credits, at) in enumerate(
            [
                (place, "topups", 100, "2026-03-01T16:59:59Z"),
                (place, "meetings", -30, "2026-03-01T17:00:00Z"),
                (place + 1, "meetings", -5, "2026-03-01T17:00:01Z"),
                (place + 1, "meetings", 30, "2026-03-01T18:00:00Z"),
                (len(steps), "notulen", -3, "2026-03-02T18:00:00Z"),
                (len(steps), "adjustments", -2, "2026-03-02T18:00:00Z"),
                (len(steps), "adjustments", 9, "2026-03-02T18:00:00Z"),
            ],
            start=1,
        ):
            monkeypatch.setattr(module, "load_migrations", lambda last=last: steps[:last])
            migrate(empty_database_url)
            connection.execute(post, {"number": number, "book": book, "credits": credits, "at": at})
            connection.execute(count)
        found = connection.execute(
            "SELECT day::text, kind, credits, entries FROM ledger_day_totals ORDER BY day, kind"
        ).fetchall()
    assert found == [
        ("2026-03-01", "topup", 100, 1),
        ("2026-03-02", "meeting_charge", -35, 2),
        ("2026-03-02", "meeting_refund", 30, 1),
        ("2026-03-03", "adjustment", 7, 2),
        ("2026-03-03", "notulen_charge", -3, 1),
    ]
