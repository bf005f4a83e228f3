"""An index of a partitioned table beside a service: interrupted, resumed, and no round in its way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg
import pytest

from meetcore.adapters.postgres import migrate as module
from meetcore.adapters.postgres import partitioned_indexes
from meetcore.adapters.postgres.advisory_locks import PARTITIONS
from meetcore.adapters.postgres.migrate import migrate, missing
from meetcore.adapters.postgres.migration_steps import Migration, MigrationRefused, load_migrations
from meetcore.adapters.postgres.partitioned_indexes import PartitionedIndex, build_index
from meetcore.adapters.postgres.partitions.maintenance import PostgresPartitions
from meetcore.domain.ids import first_id, uuid7
from meetcore.ports.partitions import Maintained, PartitionRules
from tests.support import servers

NOW = datetime(2026, 12, 1, tzinfo=UTC)
RULES = PartitionRules()
INDEX = """-- online
-- for each partition
CREATE INDEX events_of_cause ON events (account_id, cause) WHERE cause IS NOT NULL;
"""
PARTITIONS_THEN = RULES.ahead + 2
CALLS = PARTITIONS_THEN + 1
"""How often it waits for a lock that others queue behind: for the table, and for each partition."""


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> Migration:
    steps = load_migrations()
    found = Migration(steps[-1].number + 1, "events_of_cause", INDEX)
    monkeypatch.setattr(module, "load_migrations", lambda: [*steps, found])
    return found


@pytest.fixture
def url(postgres_server_url: str) -> Iterator[str]:
    """A database whose events are in several partitions."""
    with servers.migrated_database(postgres_server_url) as found:
        with psycopg.connect(found, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO events SELECT %s, %s, 'webhook.test', 'x', now()",
                [uuid7(NOW, bytes(10)), uuid7(NOW, bytes(10))],
            )
        assert not asyncio.run(PostgresPartitions(found).maintain(NOW, RULES)).is_busy
        yield found


def indexes(url: str) -> list[tuple[object, ...]]:
    """Each partition with its indexes of that kind: name, whether it is valid, and of which it is a part."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            """SELECT p.relname, c.relname, x.indisvalid, a.inhparent::regclass::text
            FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhrelid
            LEFT JOIN pg_index x ON x.indrelid = p.oid
                AND pg_get_indexdef(x.indexrelid) LIKE '%(account_id, cause)%'
            LEFT JOIN pg_class c ON c.oid = x.indexrelid LEFT JOIN pg_inherits a ON a.inhrelid = c.oid
            WHERE i.inhparent = 'events'::regclass ORDER BY 1"""
        ).fetchall()


def assert_complete(url: str, partitions: int = PARTITIONS_THEN) -> None:
    found = indexes(url)
    assert len(found) == partitions
    for partition, name, is_valid, of in found:
        assert (name, is_valid, of) == (f"{partition}_account_id_cause_idx", True, "events_of_cause")
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT indisvalid FROM pg_index WHERE indexrelid = 'events_of_cause'::regclass"
        )
        assert row.fetchone() == (True,)


def interrupt_after(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    original, made = partitioned_indexes._brief, 0

    def brief(connection: psycopg.Connection, statement: str) -> None:
        nonlocal made
        original(connection, statement)
        made += 1
        if made == calls:
            raise KeyboardInterrupt

    monkeypatch.setattr(partitioned_indexes, "_brief", brief)


def test_each_partition_gets_the_index_and_so_does_one_that_is_made_later(url: str, step: Migration) -> None:
    assert migrate(url) == [step]
    assert_complete(url)
    assert migrate(url) == []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE events DETACH PARTITION events_20270111")
        bounds = f"FROM ('{first_id(datetime(2027, 1, 11, tzinfo=UTC))}') TO (MAXVALUE)"
        connection.execute(f"CREATE TABLE events_later PARTITION OF events FOR VALUES {bounds}".encode())
    assert_complete(url)


@pytest.mark.parametrize("calls", [1, 2, CALLS - 1])
async def test_an_interrupted_build_goes_on_and_no_partition_is_ended_meanwhile(
    url: str, step: Migration, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    with monkeypatch.context() as interrupted:
        interrupt_after(interrupted, calls)
        with pytest.raises(KeyboardInterrupt):
            migrate(url)
    assert missing(url) == [step]
    assert sum(valid is True for _, _, valid, _ in indexes(url)) == calls - 1
    planned = await PostgresPartitions(url).plan(NOW + 4 * RULES.length, RULES)
    found = await later(url)
    assert (found.made, found.problems) == (planned.made, planned.problems)
    assert not [name for name in found.made if name.startswith("events")]
    assert ["events_of_cause" in problem for problem in found.problems] == [True]
    assert migrate(url) == [step]
    assert_complete(url)
    found = await later(url)
    assert found.problems == ()
    assert_complete(url, PARTITIONS_THEN + sum(name.startswith("events") for name in found.made))


async def later(url: str) -> Maintained:
    """Run the round of a month later, when partitions are lacking."""
    return await PostgresPartitions(url).maintain(NOW + 4 * RULES.length, RULES)


def test_a_partition_that_was_made_meanwhile_gets_the_index(
    url: str, step: Migration, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as interrupted:
        interrupt_after(interrupted, 2)
        with pytest.raises(KeyboardInterrupt):
            migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE events_20261221")
        connection.execute("CREATE TABLE events_other (LIKE events INCLUDING DEFAULTS INCLUDING CONSTRAINTS)")
        lower, upper = (first_id(datetime(2026, 12, day, tzinfo=UTC)) for day in (21, 28))
        bounds = f"FROM ('{lower}') TO ('{upper}')"
        connection.execute(f"ALTER TABLE events ATTACH PARTITION events_other FOR VALUES {bounds}".encode())
    assert migrate(url) == [step]
    assert_complete(url)


def test_what_an_interrupted_build_left_is_built_anew(url: str, step: Migration) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for name in ("events_first", "events_20261221"):
            connection.execute(
                f"CREATE INDEX CONCURRENTLY ON {name} (account_id, cause) WHERE cause IS NOT NULL".encode()
            )
        connection.execute(
            """UPDATE pg_index SET indisvalid = false
            WHERE indexrelid = 'events_first_account_id_cause_idx'::regclass"""
        )
    assert migrate(url) == [step]
    assert_complete(url)


def test_an_index_that_the_server_does_not_find_complete_is_refused(url: str, step: Migration) -> None:
    index = PartitionedIndex.of(step.statements[0].text)
    with psycopg.connect(url, autocommit=True) as connection:
        build_index(connection, index)
        connection.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'events_of_cause'::regclass"
        )
        with pytest.raises(MigrationRefused, match="DROP INDEX events_of_cause"):
            migrate(url)
        connection.execute("DROP INDEX events_of_cause")
    assert migrate(url) == [step]
    assert_complete(url)


def test_it_waits_for_a_writer_for_a_moment_only(url: str, step: Migration) -> None:
    with psycopg.connect(url) as writer:
        writer.execute("UPDATE events SET cause = 'x'")
        started = time.monotonic()
        with pytest.raises(MigrationRefused, match="did not get its locks"):
            migrate(url, timeout_s=0)
        assert time.monotonic() - started < module._LOCK_TIMEOUT_S
    assert migrate(url) == [step]


def test_it_waits_for_a_round_that_is_under_way(url: str, step: Migration) -> None:
    with psycopg.connect(url, autocommit=True) as round_:
        round_.execute("SELECT pg_advisory_lock(%s)", [PARTITIONS])
        with pytest.raises(MigrationRefused, match="did not get its locks"):
            migrate(url, timeout_s=0)
    assert indexes(url)[0][1] is None
    assert migrate(url) == [step]
    assert_complete(url)


def test_what_is_no_index_of_a_partitioned_table_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = load_migrations()
    for statement, said in (
        ("CREATE INDEX some ON meetings (title)", "meetings has none"),
        ("CREATE INDEX ON events (cause)", "stands above CREATE INDEX name"),
        ("CREATE INDEX CONCURRENTLY some ON events (cause)", "stands above CREATE INDEX name"),
        ("DROP INDEX events_age", "stands above CREATE INDEX name"),
    ):
        wrong = Migration(steps[-1].number + 1, "wrong", f"-- online\n-- for each partition\n{statement};\n")
        monkeypatch.setattr(module, "load_migrations", lambda wrong=wrong: [*steps, wrong])
        with pytest.raises(MigrationRefused, match=said):
            migrate(url)
