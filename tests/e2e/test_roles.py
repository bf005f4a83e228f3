"""The program works under the service's role, and an owner's attack fails under it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest

from tests.e2e.customers import customer as enrolled
from tests.e2e.receiver import Receiver
from tests.support import servers
from tests.support.program import Running, Site, environment, until, whole_lines

PASSWORD = "hunter2"


@pytest.fixture
def service(site: Site) -> Iterator[Site]:
    """The database for a role of `migrate --grant-to`."""
    at = urlsplit(site.database_url)
    if "host=%2F" in at.query:
        pytest.skip("the embedded server lets nobody in but its own role")
    role = f"service_{uuid4().hex[:8]}"
    with psycopg.connect(servers.as_superuser(site.database_url), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'".encode())
        connection.execute(f"GRANT pg_read_all_stats TO {role}".encode())
        try:
            env = environment(database_url=site.database_url)
            done = site.launcher.run("migrate", "--grant-to", role, "--json", env=env)
            assert done.json == {"applied": [], "is_current": True, "granted_to": role}
            place = at.netloc.rpartition("@")[2]
            yield Site(site.launcher, urlunsplit(at._replace(netloc=f"{role}:{PASSWORD}@{place}")))
        finally:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def role_warnings(process: Running) -> list[str]:
    log_lines = [json.loads(line) for line in whole_lines(process.err) if line.startswith("{")]
    return [line["hint"] for line in log_lines if line["event"] == "database role"]


def test_the_service_does_its_work_under_its_own_role(site: Site, service: Site, receiver: Receiver) -> None:
    with service.serve(**receiver.settings) as api, enrolled(service, api, credits=15) as customer:
        customer.hook(receiver.url("in"), "meeting.created", "meeting.ended")
        meeting = customer.create_meeting()
        until(lambda: len(receiver.at("in")) == 1, "the creation was notified")
        cancelled = customer.api.meetings.cancel(meeting.id)
        assert cancelled.credits_refunded == 10
        assert customer.api.me().credits.balance == 15
        assert role_warnings(api) == []
        _attack_fails(service, customer.account_id)
    assert service.cli("credits", "verify")["is_sound"] is True
    assert service.cli("account", "show", customer.account_id)["balance"] == 15
    with site.serve() as api:
        [warned] = role_warnings(api)
        assert "could rewrite the ledger" in warned
    log_lines = site.launcher.run("doctor", env=service.env()).out
    [line] = [each for each in log_lines.splitlines() if each.split()[1:2] == ["role"]]
    assert line.startswith("ok")


def _attack_fails(service: Site, account_id: str) -> None:
    """Turn 15 credits into 1 000 015: disable the triggers, rewrite the entry and the balance."""
    with psycopg.connect(service.database_url, autocommit=True) as connection:
        for statement in (
            "SET session_replication_role = replica",
            "ALTER TABLE ledger_entries DISABLE TRIGGER ALL",
            f"UPDATE ledger_entries SET amount = 1000015 WHERE account_id = '{account_id}'",
            f"UPDATE ledger_transfers SET amount = 1000015 WHERE account_id = '{account_id}'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())
