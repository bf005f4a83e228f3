"""The program behind PgBouncer in transaction mode."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import psycopg
import pytest

from tests.conftest import absent
from tests.e2e.customers import Customer, customer
from tests.e2e.receiver import Receiver
from tests.support import servers
from tests.support.pooler import Pooler, keep_session_settings, pooling, program
from tests.support.program import Launcher, Site, pooler_settings, until

pytestmark = pytest.mark.direct("starts a PgBouncer of its own")

PROCESSES = int(os.environ.get("MEETCORE_TEST_PROCESSES", "3"))
"""API processes that share the connections."""

POOL_SIZE = 10
CONNECTIONS = int(os.environ.get("MEETCORE_TEST_CONNECTIONS", "4"))
"""Connections of the pooler, fewer than the processes' pools."""

REQUESTS = 20


@pytest.fixture(scope="module")
def pooler(postgres_server_url: str) -> Iterator[Pooler]:
    if "host=%2F" in postgres_server_url:
        pytest.skip("the embedded server has no TCP port to put a pooler before")
    if program() is None:
        absent("no PgBouncer")
    with pooling(postgres_server_url, CONNECTIONS) as pooler:
        yield pooler


@pytest.fixture
def direct_url(postgres_server_url: str) -> Iterator[str]:
    with servers.migrated_database(postgres_server_url) as url:
        yield url


@pytest.fixture
def site(launcher: Launcher, pooler: Pooler, direct_url: str) -> Site:
    """A site behind the pooler."""
    return Site(launcher, pooler.url(direct_url), pooler_settings(direct_url))


def test_a_meeting_is_sold_delivered_and_refunded(
    site: Site, direct_url: str, receiver: Receiver, redis_url: str
) -> None:
    keep_session_settings(direct_url)
    site.cli("host", "add", "--provider-user-id", "host-1", "--capacity", 1000)
    settings = receiver.settings | {"broker_url": redis_url}
    with site.serve(**settings) as api, site.worker(**settings), customer(site, api) as who:
        who.hook(receiver.url("made"))
        meeting = who.create_meeting()
        who.api.meetings.cancel(meeting.id)
        until(lambda: receiver.at("made"), "the event is delivered")
        assert who.api.credits.get().balance == who.credits
    assert site.launcher.run("secrets", "reseal", "--json", env=site.env()).code == 0
    audit = site.cli("credits", "verify")
    assert audit["is_sound"]
    assert audit["entries"] > 2


def test_many_processes_share_few_connections(site: Site, pooler: Pooler, direct_url: str) -> None:
    """The pools exceed the pooler's connections; the server sees only the latter."""
    assert PROCESSES * POOL_SIZE > CONNECTIONS
    keep_session_settings(direct_url)
    site.cli("host", "add", "--provider-user-id", "host-1", "--capacity", 1000, "--max-concurrent", 100)
    with ExitStack() as stack:
        started = [stack.enter_context(site.serve(database_pool_size=POOL_SIZE)) for _ in range(PROCESSES)]
        customers = [stack.enter_context(customer(site, api)) for api in started]
        most = [0]
        # One connection: the server still lists a closed one for a moment.
        with (
            psycopg.connect(direct_url, autocommit=True) as watch,
            ThreadPoolExecutor(4 * PROCESSES) as threads,
        ):
            made = [threads.submit(ask, who) for who in customers for _ in range(REQUESTS)]
            while not all(each.done() for each in made):
                most.append(connections(watch))
        wanted = pooler.clients(direct_url)
        refused = [each.exception() for each in made if each.exception()]
    assert refused == []
    assert 0 < max(most) <= CONNECTIONS < wanted
    print(f"\n{PROCESSES} processes, {len(made)} requests: at most {max(most)} connections for {wanted}")


def ask(who: Customer) -> None:
    who.api.me()
    who.create_meeting()


def test_connections_say_whose_they_are_behind_the_pooler_too(site: Site, direct_url: str) -> None:
    keep_session_settings(direct_url)
    names = "SELECT application_name FROM pg_stat_activity WHERE datname = current_database()"
    with site.serve() as api, psycopg.connect(direct_url, autocommit=True) as connection:

        def shown() -> set[str]:
            httpx.get(f"{api.url}/readyz", trust_env=False)
            return {name for (name,) in connection.execute(names).fetchall()}

        until(lambda: f"meetcore serve {api.pid}" in shown(), "its role and pid")


def connections(watch: psycopg.Connection) -> int:
    """Return the server's connections to this database through the pooler."""
    row = watch.execute(
        """SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
            AND application_name NOT LIKE 'meetcore partitions %'"""
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_a_role_without_the_sessions_settings_is_refused(site: Site, direct_url: str) -> None:
    done = site.launcher.run("serve", env=site.env())
    assert done.code != 0
    assert 'ALTER ROLE "postgres" SET "statement_timeout" = \'10s\'' in json.loads(done.err)["event"]
    keep_session_settings(direct_url, deadline_s=30)
    done = site.launcher.run("key", "list", "--json", env=site.env())
    assert done.error == "settings"
    assert "statement_timeout" in done.json["error"]["message"]
    report = {
        row["check"]: row for row in site.launcher.run("doctor", "--json", env=site.env()).json["checks"]
    }
    assert report["pooler"]["status"] == "failed"


def test_a_pooler_that_was_not_declared_is_named(site: Site) -> None:
    done = site.launcher.run("key", "list", "--json", env=site.env(database_pooler="none"))
    assert done.error == "store_session_refused"
    assert "set MEETCORE_DATABASE_POOLER=transaction" in done.json["error"]["message"]


@pytest.mark.usefixtures("pooler")  # one can be had
def test_a_pooler_that_was_not_declared_and_drops_settings_is_named(
    launcher: Launcher, postgres_server_url: str, direct_url: str
) -> None:
    keep_session_settings(direct_url)
    with pooling(postgres_server_url, CONNECTIONS, "ignore_startup_parameters = options") as other:
        env = Site(launcher, other.url(direct_url)).env(database_pooler="none")
        done = launcher.run("key", "list", "--json", env=env)
        checks = launcher.run("doctor", "--json", env=env).json["checks"]
    assert done.error == "settings"
    assert "set MEETCORE_DATABASE_POOLER=transaction" in done.json["error"]["message"]
    [found] = [row for row in checks if row["check"] == "pooler"]
    assert (found["status"], "plan_cache_mode" in found["message"]) == ("failed", True)


def test_migrations_ask_for_the_databases_own_address(site: Site) -> None:
    done = site.launcher.run("migrate", "--json", env=site.env(database_direct_url=""))
    assert done.error == "settings"
    assert "MEETCORE_DATABASE_DIRECT_URL is not set" in done.json["error"]["message"]
    assert site.cli("migrate")["is_current"]
