"""The operator's commands: their effects, output and exit codes."""

from __future__ import annotations

import base64
import json
import os
import pty
import select
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.e2e.customers import enrol
from tests.support import servers
from tests.support.pooler import keep_session_settings
from tests.support.program import (
    START_S,
    Done,
    Launcher,
    Site,
    environment,
    free_port,
    is_pooled,
    until,
    whole_lines,
)

SECRET = "hunter2"
UNKNOWN = "0190a1b2-0000-7000-8000-000000000000"


def run(site: Site, *arguments: object, **settings: object) -> Done:
    return site.launcher.run(*arguments, env=site.env(**settings))


def refused(done: Done, code: int, *texts: str) -> None:
    assert done.code == code, done
    for word in texts:
        assert word in done.err, done
    assert "Traceback" not in done.err


def test_the_program_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "meetcore.cli.main", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    for name in ("dev", "serve", "worker", "migrate", "account", "key", "credits", "host"):
        assert name in done.stdout
    assert done.stderr == ""


def test_an_account_from_opening_to_its_keys(site: Site) -> None:
    opened = ("account", "create", "--email", "sari@example.test", "--full-name", "Sari Dewi", "--credits", 0)
    account = site.cli(*opened)
    assert UUID(account["id"]).version == 7
    assert account["balance"] == 0
    again = run(site, *opened, "--json")
    refused(again, 1, "e-mail address")
    assert again.error == "conflict"
    output = run(
        site, *(word.replace("sari@", "dewi@") if isinstance(word, str) else word for word in opened)
    ).out
    assert "dewi@example.test" in output
    assert site.cli("account", "set", account["id"], "--credit-low", 5)["credit_low"] == 5
    assert run(site, "account", "set", account["id"], "--credit-low", 5).code == 0

    made = ("key", "create", "--account", account["id"], "--scope", "meetings:read,meetings:write")
    key = site.cli(
        *made, "--scope", "credits:read", "--daily-cap", 50, "--expires-at", "2999-12-31T17:00:00+07:00",
        "--name", "Kasir",
    )  # fmt: skip
    assert key["key"].startswith("mk_live_")
    assert key["scopes"] == ["meetings:read", "meetings:write", "credits:read"]
    assert (key["daily_cap"], key["expires_at"]) == (50, "2999-12-31T10:00:00Z")
    assert "mk_live_" in run(site, *made).out
    listed = site.cli("key", "list", "--account", account["id"])["data"]
    assert listed[-1]["id"] == key["id"]
    assert key["key"] not in json.dumps(listed)
    shown = [(each["name"], each["last_used_at"]) for each in listed]
    assert shown == [("API key", None), ("Kasir", None)]
    assert listed[-1]["key"] == f"mk_live_…{key['key'][-4:]}"
    assert key["id"] in run(site, "key", "list").out
    assert site.cli("key", "set-cap", key["id"], "--daily-cap", "none")["daily_cap"] is None
    assert site.cli("key", "set-cap", key["id"], "--daily-cap", 0)["daily_cap"] == 0
    assert "revoked_at" in run(site, "key", "revoke", key["id"]).out
    assert site.cli("key", "revoke", key["id"])["revoked_at"] is not None


def test_an_operator_rolls_a_key(site: Site) -> None:
    account_id, _, _ = enrol(site, credits=0)
    (old,) = site.cli("key", "list", "--account", account_id)["data"]
    done = run(site, "key", "roll", old["id"], "--overlap", 24, "--json")
    new = done.json
    assert new["key"].startswith("mk_live_")
    assert new["key"] not in done.err
    assert [new[name] for name in ("name", "scopes", "daily_cap")] == [
        old[name] for name in ("name", "scopes", "daily_cap")
    ]
    assert new["rolled_from"] == old["id"]
    ends = {each["id"]: each["expires_at"] for each in site.cli("key", "list")["data"]}
    assert (ends[new["id"]], ends[old["id"]]) == (None, new["rolled_from_ends_at"])
    site.cli("key", "set-cap", old["id"], "--daily-cap", 7)
    caps = [each["daily_cap"] for each in site.cli("key", "list", "--account", account_id)["data"]]
    assert caps == [7, 7]
    assert "rolled_from" in run(site, "key", "roll", new["id"], "--overlap", 0).out
    refused(run(site, "key", "roll", new["id"], "--overlap", 0, "--json"), 1, "revoked or expired")


def test_a_top_up_happens_once_for_each_reference(site: Site) -> None:
    account_id, _, _ = enrol(site, credits=0)
    paid = ("credits", "topup", "--account", account_id, "--reference", "INV-1", "--amount")
    first, again = site.cli(*paid, 100), site.cli(*paid, 100)
    assert (first["is_new"], again["is_new"]) == (True, False)
    assert first["id"] == again["id"]
    assert first["balance"] == again["balance"] == 100
    assert "INV-1" in run(site, *paid, 100).out
    other = run(site, *paid, 101, "--json")
    refused(other, 1, "INV-1")
    assert other.error == "conflict"


def test_an_operator_lists_accounts_and_suspends_one(site: Site) -> None:
    account_id, _, _ = enrol(site, credits=30)
    shown = site.cli("account", "show", account_id)
    assert (shown["status"], shown["balance"], shown["suspended_at"]) == ("active", 30, None)
    assert site.cli("account", "list", "--email", shown["email"].upper())["data"] == [shown]
    assert site.cli("account", "list", "--limit", 1)["data"] == [shown]
    assert site.cli("account", "show", shown["email"].upper()) == shown
    assert site.cli("key", "list", "--account", shown["email"])["data"][0]["account_id"] == account_id
    refused(run(site, "account", "resume", "absent@example.test"), 1, "No account", "absent@example.test")
    refused(run(site, "account", "suspend", account_id, "--reason", " "), 2, "a reason is 1 to 200")
    done = run(site, "account", "suspend", account_id, "--reason", "Unpaid bills", "--json")
    assert (done.json["status"], done.json["suspension_reason"]) == ("suspended", "Unpaid bills")
    [line] = [json.loads(each) for each in done.err.splitlines()]
    assert (line["event"], line["action"], line["id"]) == ("operator action", "account suspend", account_id)
    assert line["operator"]
    assert shown["email"] not in done.err
    assert account_id in run(site, "account", "list").out
    assert site.cli("account", "resume", account_id) == shown
    assert "active" in run(site, "account", "resume", account_id).out


def test_a_command_that_changes_nothing_logs_no_action(site: Site) -> None:
    account_id, _, _ = enrol(site, credits=0)
    key = site.cli("key", "list", "--account", account_id)["data"][0]
    host_id = site.cli("host", "list")["data"][0]["id"]
    twice = (
        ("account", "suspend", account_id), ("account", "resume", account_id),
        ("host", "disable", host_id), ("host", "enable", host_id),
        ("key", "set-cap", key["id"], "--daily-cap", "7"), ("key", "revoke", key["id"]),
    )  # fmt: skip
    for command in twice:
        first, again = run(site, *command, "--json"), run(site, *command, "--json")
        assert first.json == again.json
        assert ("operator action" in first.err, again.err) == (True, ""), command


def test_on_a_terminal_a_change_prints_its_record_and_no_log_line(site: Site) -> None:
    account_id, _, _ = enrol(site, credits=0)
    terminal, program_end = pty.openpty()
    command = [sys.executable, "-m", "meetcore.cli.main", "account", "suspend", account_id]
    try:
        subprocess.run(command, stdout=program_end, stderr=program_end, env=site.env(), check=True)
        os.write(program_end, b"END\n")
        shown = ""
        while "END" not in shown:  # what was written passes the terminal a while later, in pieces
            shown += os.read(terminal, 65_536).decode()
    finally:
        os.close(program_end)
        os.close(terminal)
    assert "suspended" in shown
    assert "operator action" not in shown
    assert "account.suspended" in {each["action"] for each in site.cli("audit", "list")["data"][:1]}


def test_credits_are_adjusted_with_a_reason(site: Site) -> None:
    account_id, _, _ = enrol(site, credits=30)
    by_hand = ("credits", "adjust", "--account", account_id, "--reason", "goodwill", "--amount")
    given = site.cli(*by_hand, "+5", "--reference", "T-1")
    assert (given["amount"], given["balance"], given["reason"], given["reference"]) == (
        5,
        35,
        "goodwill",
        "T-1",
    )
    assert site.cli(*by_hand, "5", "--reference", "T-1")["is_new"] is False
    assert site.cli(*by_hand, "-35")["balance"] == 0
    refused(run(site, *by_hand, "-1"), 1, "credits")
    refused(run(site, "credits", "adjust", "--account", account_id, "--amount", "1"), 2, "--reason")
    assert site.cli("credits", "verify")["is_sound"] is True


def test_the_audit_log_has_what_commands_changed(site: Site) -> None:
    account_id, _, _ = enrol(site, credits=30)
    site.cli("credits", "adjust", "--account", account_id, "--reason", "goodwill", "--amount", "5")
    entries = site.cli("audit", "list", "--account", account_id)["data"]
    actions = [each["action"] for each in entries]
    assert actions[:2] == ["credits.adjusted", "key.created"]
    assert set(actions[2:]) == {"account.created", "credits.topped_up"}, "of one instant"
    assert {(each["actor_kind"], each["account_id"]) for each in entries} == {("system", account_id)}
    assert all(each["actor"] for each in entries)
    assert entries[0]["details"] == {"amount": 5, "reason": "goodwill"}
    limited = run(site, "audit", "list", "--limit", 1, "--json")
    assert (limited.json["data"], "--limit" in limited.err) == (entries[:1], True)
    assert "key.created" in run(site, "audit", "list", "--account", account_id).out
    refused(run(site, "audit", "list", "--account", "nobody"), 2, "--account")


def test_links_and_operators(site: Site) -> None:
    account_id, _, _ = enrol(site, credits=0)
    link = site.cli("portal", "link", "--account", account_id, "--role", "developer", "--minutes", 5)
    assert "/dashboard/sign-in/" in link["url"]
    assert link["expires_at"].endswith("Z")
    email = site.cli("account", "show", account_id)["email"]
    assert site.cli("portal", "link", "--account", account_id, "--email", email)["url"] != link["url"]
    for option, code in (("--minutes=61", 2), ("--role=admin", 2), ("--email=nobody@example.test", 1)):
        refused(run(site, "portal", "link", "--account", account_id, option), code)
    refused(run(site, "portal", "link", "--account", UNKNOWN), 1)
    assert site.cli("sign-on", "forget", "--email", email) == {"email": email, "forgotten": 0}
    refused(run(site, "sign-on", "forget", "--email", "nobody@example.test"), 1)
    added = ("operator", "add", "--email", "ops@example.test", "--role", "support")
    operator = site.cli(*added)
    refused(run(site, *added), 1, "e-mail address")
    assert site.cli("operator", "list")["data"] == [operator]
    assert "/console/sign-in/" in site.cli("operator", "link", operator["id"])["url"]
    assert site.cli("operator", "remove", operator["id"])["removed_at"] is not None
    assert site.cli("operator", "list")["data"] == []
    refused(run(site, "operator", "remove", UNKNOWN), 1)
    assert link["url"].rpartition("/")[2] not in json.dumps(site.cli("audit", "list"))


def test_tokens_of_the_operators_programs(site: Site) -> None:
    made = site.cli("operator", "token", "create", "--role", "support", "--name", "backend", "--days", 30)
    text = made.pop("token")
    assert (made["name"], made["role"], made["last_four"]) == ("backend", "support", text[-4:])
    assert text.startswith("mk_operator_")
    assert site.cli("operator", "token", "list")["data"][-1] == made
    create = ("operator", "token", "create", "--role=support")
    for option, hint in (("--days=731", "730"), ("--days=0", "730"), ("--name= ", "60")):
        refused(run(site, *create, option), 2, hint)
    refused(run(site, *create[:3], "--role=boss"), 2, "--role")
    revoked = run(site, "operator", "token", "revoke", made["id"], "--json")
    assert revoked.json["revoked_at"] is not None
    assert "operator action" in revoked.err
    refused(run(site, "operator", "token", "revoke", UNKNOWN), 1)
    assert text not in json.dumps([site.cli("audit", "list"), site.cli("operator", "token", "list")])
    actions = [each["action"] for each in site.cli("audit", "list")["data"][:2]]
    assert actions == ["operator_token.revoked", "operator_token.created"]


def test_hosts(site: Site) -> None:
    added = ("host", "add", "--provider-user-id", "u-2", "--capacity", 300)
    host = site.cli(*added)
    assert (host["capacity"], host["is_active"]) == (300, True)
    refused(run(site, *added), 1)
    assert host["id"] in [each["id"] for each in site.cli("host", "list")["data"]]
    assert "u-2" in run(site, "host", "list").out
    assert site.cli("host", "disable", host["id"])["is_active"] is False
    assert run(site, "host", "disable", host["id"]).code == 0
    assert site.cli("host", "enable", host["id"]) == host


def test_endpoints_that_failures_disabled_are_enabled_together(site: Site) -> None:
    account_id, _, _ = enrol(site, credits=1)
    add = """WITH host AS (INSERT INTO webhook_hosts VALUES ('cli.example')), own AS (
        INSERT INTO webhook_account_hosts VALUES (%(account)s, 'cli.example', 0))
        INSERT INTO webhook_endpoints (account_id, id, url, url_key, event_types, state, consecutive_failures,
            disabled_at, created_by, created_at, secret)
        SELECT %(account)s, gen_random_uuid(), 'https://cli.example/' || at, 'https://cli.example/' || at,
            '{meeting.created}', 'disabled', 20, at::timestamptz, 'x', now(), ''
        FROM unnest(ARRAY['2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z']) AS at"""
    with psycopg.connect(site.database_url) as connection:
        connection.execute(add, {"account": account_id})
    enable = ("webhook", "enable", "--disabled-since", "2026-01-02T00:00:00Z")
    (listed,) = site.cli(*enable, "--dry-run")["data"]
    assert (listed["account_id"], listed["host"], listed["state"]) == (account_id, "cli.example", "disabled")
    (enabled,) = site.cli(*enable)["data"]
    assert (enabled["id"], enabled["state"], enabled["disabled_at"]) == (listed["id"], "active", None)
    assert site.cli(*enable)["data"] == []
    (entry,) = site.cli("audit", "list", "--account", account_id, "--limit", 1)["data"]
    assert (entry["action"], entry["target_id"]) == ("webhook.changed", listed["id"])
    refused(run(site, "webhook", "enable", "--disabled-since", "yesterday"), 2, "--disabled-since")
    with psycopg.connect(site.database_url) as connection:  # no other test can read their secrets
        connection.execute("DELETE FROM webhook_endpoints WHERE account_id = %s", [account_id])


def test_verify_names_the_entry_that_was_changed(site: Site, postgres_server_url: str) -> None:
    account_id, _, _ = enrol(site, credits=70)
    site.cli("credits", "topup", "--account", account_id, "--amount", 30)
    sound = site.cli("credits", "verify")
    assert sound["is_sound"] is True
    assert run(site, "credits", "verify", "--processes", "1").code == 0
    name = psycopg.conninfo.conninfo_to_dict(site.database_url)["dbname"]
    copy = f"{name}_copy"
    with psycopg.connect(postgres_server_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {copy} TEMPLATE {name}".encode())
        try:
            url = servers.with_path(postgres_server_url, copy)
            if is_pooled(url):  # which a copy does not take over
                keep_session_settings(url)
            with psycopg.connect(url) as connection:
                connection.execute("SET session_replication_role = replica")
                connection.execute(
                    "UPDATE ledger_entries SET balance_after = balance_after + 1"
                    " WHERE account_id = %s AND number = 2 AND book = 'customer'", (account_id,)
                )  # fmt: skip
            done = run(site, "credits", "verify", "--json", database_url=url)
            refused(done, 1)
            assert done.json["is_sound"] is False
            assert any(account_id in text and "entry 2" in text for text in done.json["findings"])
            result = run(site, "credits", "verify", database_url=url)
            assert result.code == 1
            assert account_id in result.out
        finally:
            server.execute(f"DROP DATABASE {copy} WITH (FORCE)".encode())
    assert site.cli("credits", "verify")["is_sound"] is True


def test_migrating_twice_and_at_the_same_time(launcher: Launcher, empty_database_url: str) -> None:
    env = environment(database_url=empty_database_url)
    for command in (("serve", "--port", free_port()), ("worker",), ("host", "list")):
        refused(launcher.run(*command, env=env), 3, "meetcore migrate")
    plan = [{"step": "0001_initial", "kind": "one transaction"}]
    assert launcher.run("migrate", "--plan", "--json", env=env).json == {"data": plan}
    both = [launcher.start("migrate", "--json", env=env) for _ in range(2)]
    results = [each.wait(START_S) for each in both]
    assert [done.code for done in results] == [0, 0], results
    assert sorted(len(done.json["applied"]) for done in results)[0] == 0
    assert all(done.json["is_current"] for done in results)
    lines = [line for done in results for line in done.err.splitlines()]
    logged = [json.loads(line) for line in lines if "operator action" in line]
    applied = [done.json["applied"] for done in results if done.json["applied"]]
    assert [(line["action"], line["applied"]) for line in logged] == [("migrate", each) for each in applied]
    again = launcher.run("migrate", "--json", env=env)
    assert (again.json["applied"], again.err) == ([], "")
    assert launcher.run("migrate", env=env).code == 0
    assert launcher.run("migrate", "--plan", env=env).out == "none\n"
    partitions = launcher.run("partitions", "--dry-run", "--json", env=env).json
    assert (partitions["made"], partitions["ahead"]) == ([], 4), "made with the tables"


def test_partitions_report_their_changes_and_end_with_1_where_the_role_is_not_the_owner(
    launcher: Launcher, postgres_server_url: str
) -> None:
    with servers.migrated_database(postgres_server_url) as url, servers.service_role(url) as service_url:
        if service_url != url:  # an embedded server has one role
            refused(launcher.run("partitions", env=environment(database_url=service_url)), 1)
        env = environment(database_url=url)
        assert launcher.run("partitions", "--dry-run", "--json", env=env).json["ahead"] == 0
        done = launcher.run("partitions", "--json", env=env)
        assert (done.code, done.json["ahead"]) == (0, 4)
        [line] = [json.loads(each) for each in done.err.splitlines()]
        assert (line["event"], line["action"]) == ("operator action", "partitions")
        assert (line["made"], line["dropped"]) == (done.json["made"], [])


def test_partitions_again_and_again_outlive_a_database_that_is_away(launcher: Launcher) -> None:
    env = environment(database_url=f"postgresql://u@127.0.0.1:{free_port()}/d")
    refused(launcher.run("partitions", env=env), 4)
    running = launcher.start("partitions", "--every-h", "0.01", env=env)
    try:
        until(lambda: "partitions not looked after" in running.err.read_text(), "it reports", START_S)
        assert running.poll(0.1) is None
    finally:
        running.kill()


def test_migrate_reports_that_it_waits_for_a_lock(launcher: Launcher, empty_database_url: str) -> None:
    with psycopg.connect(empty_database_url) as holder:
        holder.execute("CREATE TABLE accounts ()")
        migrating = launcher.start("migrate", "--json", env=environment(database_url=empty_database_url))
        until(lambda: "0001_initial waits for locks" in migrating.err.read_text(), "it reports", START_S)
        holder.rollback()
        done = migrating.wait(START_S)
    assert (done.code, done.json["applied"]) == (0, ["0001_initial"]), done


# The mistakes that are found before a command runs are in tests/unit/cli/test_refusals.py.
MISTAKES = {
    "time that is over": (
        ("key", "create", "--account", UNKNOWN, "--scope", "credits:read", "--expires-at", "2020-01-01T00Z"),
        "in the future",
    ),
    "no address": (("account", "create", "--email", "sari", "--full-name", "S"), "name@example.com"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_usage_error_exits_with_2_and_suggests_a_correction(site: Site, mistake: str) -> None:
    arguments, hint = MISTAKES[mistake]
    done = run(site, *arguments, "--json")
    refused(done, 2, hint)
    assert done.error in ("usage", "invalid_amount")
    assert run(site, *arguments).out == ""


@pytest.mark.parametrize(
    "command",
    [("key", "revoke"), ("host", "disable"), ("account", "set", "--credit-low", "1")],
)
def test_missing_resources_are_refused(site: Site, command: tuple[str, ...]) -> None:
    done = run(site, *command, str(uuid4()), "--json")
    refused(done, 1)
    assert done.error == "not_found"


@pytest.mark.parametrize(
    "option", [("serve", "--port", "0"), ("serve", "--workers", "0"), ("worker", "--threads", "x")]
)
def test_impossible_processes(site: Site, option: tuple[str, ...]) -> None:
    refused(run(site, *option), 2, option[1])


def test_a_taken_port_ends_the_server(site: Site) -> None:
    with site.serve() as api:
        done = run(site, "serve", "--port", api.url.rpartition(":")[2])
    refused(done, 1, "is taken")


def test_the_start_logs_the_provider_and_the_tiers_too_large_for_any_host(site: Site, tmp_path: Path) -> None:
    small, large = '"small"\nname = "Small"\ncapacity = 100', '"large"\nname = "Large"\ncapacity = 5000'
    other_fields = "max_duration = 60\ncredits = 10\nrecording_credits = 5"
    file = tmp_path / "tiers.toml"
    file.write_text("".join(f"[[tier]]\nid = {tier}\n{other_fields}\n" for tier in (small, large)))
    with site.serve(tiers_file=file) as server:
        line = f"meetcore serves {server.url}, meetings run on sandbox"
        until(lambda: line in server.err.read_text(), "the address is logged")
        log = server.err.read_text()
    [line] = [json.loads(each) for each in log.splitlines() if "no host can carry" in each]
    assert line["tiers"] == ["large"]
    with site.serve() as server:
        assert "no host can carry" not in server.err.read_text()


def test_an_idle_connection_outlives_client_keep_alive_timeouts(site: Site) -> None:
    """A client that closes after five seconds must not find the connection closed first."""
    with site.serve() as server, closing(HTTPConnection(urlsplit(server.url).netloc)) as connection:
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"
        assert select.select([connection.sock], [], [], 6.0)[0] == [], "nothing came, not even its end"
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"


def warnings_of(site: Site, **settings: Any) -> list[dict[str, object]]:
    with site.serve(**settings) as server:
        lines = [json.loads(line) for line in whole_lines(server.err) if line.startswith("{")]
    return [
        line
        for line in lines
        if line["level"] == "warning" and line["event"] not in ("no_transcriber", "database role")
    ]


def test_the_start_warns_of_probable_misconfiguration(site: Site) -> None:
    assert warnings_of(site) == []
    [video, strange] = warnings_of(site, base_url="https://meet.example.test", colour="blue")
    assert "MEETCORE_PROVIDER is sandbox" in str(video["hint"])
    assert strange["variables"] == ["MEETCORE_COLOUR"]
    [clear] = warnings_of(site, base_url="http://meet.example.test", provider="jitsi")
    assert "MEETCORE_BASE_URL is http://" in str(clear["hint"])
    assert warnings_of(site, base_url="http://[::1]:8000") == []


def test_an_invalid_tiers_file_is_named(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "tiers.toml"
    file.write_text("notulen = 3\n")
    refused(run(site, "host", "list", tiers_file=file), 3, "MEETCORE_TIERS_FILE")


@pytest.mark.parametrize("command", [("migrate",), ("host", "list"), ("serve",), ("worker",)])
def test_no_database_is_set(launcher: Launcher, command: tuple[str, ...]) -> None:
    refused(launcher.run(*command, env=environment()), 3, "MEETCORE_DATABASE_URL is not set", "meetcore dev")


@pytest.fixture
def restricted_url(site: Site, request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the database's URL for a role with a connection limit."""
    role, at = f"guest_{uuid4().hex[:8]}", urlsplit(site.database_url)
    if "host=%2F" in at.query:
        pytest.skip("the embedded server lets nobody in but its own role")
    with psycopg.connect(servers.as_superuser(site.database_url), autocommit=True) as connection:
        limit = f"LOGIN PASSWORD '{SECRET}' CONNECTION LIMIT {request.param}"
        connection.execute(
            f"CREATE ROLE {role} {limit}; GRANT SELECT ON hosts, schema_migrations TO {role}".encode()
        )
        try:
            place = at.netloc.rpartition("@")[2]
            yield urlunsplit(at._replace(netloc=f"{role}:{SECRET}@{place}"))
        finally:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


@pytest.mark.parametrize(
    ("restricted_url", "database", "code", "expected"),
    [
        (0, "", "store_full", "no connection left"),
        pytest.param(
            5,
            "_x",
            "store_login_refused",
            "refuses the login",
            marks=pytest.mark.direct(
                "PgBouncer asks the unknown database for the role, until its time is over"
            ),
        ),
    ],
    indirect=["restricted_url"],
    ids=["full", "no such database"],
)
def test_database_refusals_have_distinct_errors(
    site: Site, restricted_url: str, database: str, code: str, expected: str
) -> None:
    """A role at its connection limit is refused like a client of a full server."""
    at = urlsplit(restricted_url)
    done = run(
        site, "host", "list", "--json", database_url=restricted_url.replace(at.path, at.path + database)
    )
    refused(done, 4, expected)
    assert done.error == code
    for hidden in (SECRET, str(at.username), at.path[1:], str(at.port)):
        assert hidden not in done.out + done.err


@pytest.mark.parametrize("restricted_url", [5], indirect=True)
def test_a_database_that_admits_the_role_is_used(site: Site, restricted_url: str) -> None:
    assert run(site, "host", "list", database_url=restricted_url).code == 0


@pytest.mark.parametrize("command", [("migrate",), ("host", "list"), ("credits", "verify")])
def test_the_database_is_unavailable(launcher: Launcher, command: tuple[str, ...]) -> None:
    url = f"postgresql://u:{SECRET}@127.0.0.1:{free_port()}/d"
    done = launcher.run(*command, "--json", env=environment(database_url=url))
    refused(done, 4, "the database does not answer")
    assert done.error == "store_away"
    assert SECRET not in done.out + done.err


def test_everything_of_an_account_is_written_into_a_file(site: Site, tmp_path: Path) -> None:
    account_id, _, key = enrol(site, credits=5)
    path = tmp_path / "all.zip"
    done = site.cli("account", "export", account_id, "--to", path)
    assert done == {"account_id": account_id, "file": str(path), "bytes": path.stat().st_size}
    assert path.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(path) as archive:
        assert "README.txt" in archive.namelist()
        (account,) = archive.read("account.jsonl").splitlines()
        assert json.loads(account)["balance"] == 5
        assert key not in "".join(archive.read(name).decode() for name in archive.namelist())
    assert [each.name for each in tmp_path.iterdir()] == ["all.zip"]
    refused(run(site, "account", "export", account_id, "--to", path), 2, "is there already")
    refused(run(site, "account", "export", account_id, "--to", tmp_path / "no" / "a.zip"), 2, "no directory")
    refused(run(site, "account", "export", UNKNOWN, "--to", tmp_path / "b.zip"), 1, "No account")
    assert not (tmp_path / "b.zip").exists()


def test_an_operator_erases_an_account(site: Site) -> None:
    account_id, _, _ = enrol(site, credits=5)
    refused(run(site, "account", "erase", account_id), 2, "--yes")
    assert site.cli("account", "show", account_id)["status"] == "active"
    done = site.cli("account", "erase", account_id, "--yes")
    assert done["is_finished"]
    shown = site.cli("account", "show", account_id)
    assert (shown["full_name"], shown["status"], shown["balance"]) == ("Erased", "suspended", 5)
    assert shown["email"].endswith("@erased.invalid")
    assert all(key["revoked_at"] for key in site.cli("key", "list", "--account", account_id)["data"])
    refused(run(site, "account", "resume", account_id), 1, "nothing brings it back")
    again = site.cli("account", "erase", account_id, "--yes")
    assert again == done
    assert site.cli("credits", "verify")["is_sound"]
    refused(run(site, "account", "erase", UNKNOWN, "--yes"), 1, "No account")


def test_an_old_secrets_key_is_removed(site: Site) -> None:
    enrol(site, credits=50)
    old = site.env()["MEETCORE_SECRETS_KEY"]
    new = base64.urlsafe_b64encode(os.urandom(32)).decode()
    both = {"secrets_key": f"{new},{old}"}
    counted = run(site, "secrets", "reseal", "--dry-run", "--json", **both)
    assert (counted.code, counted.json["is_done"], counted.json["resealed"]) == (1, False, 0)
    kept = run(site, "secrets", "derive", "--json", **both).json
    assert set(kept) == {"MEETCORE_LEDGER_KEYS", "MEETCORE_ROOM_KEY"}
    sealed = counted.json["values"]
    done = run(site, "secrets", "reseal", "--json", **both)
    assert (done.code, done.json["is_done"]) == (0, True), done
    assert sum(sealed.values()) == sum(done.json["values"].values())
    one = {"secrets_key": new} | {name.removeprefix("MEETCORE_").lower(): text for name, text in kept.items()}
    assert run(site, "credits", "verify", "--json", **one).json["is_sound"]
    bare = run(site, "credits", "verify", "--json", secrets_key=new)
    assert not bare.json["is_sound"], "without the ledger's keys old entries prove nothing"
    refused(run(site, "secrets", "reseal", ledger_keys="x"), 3, "MEETCORE_LEDGER_KEYS")
    back = run(site, "secrets", "reseal", "--json", secrets_key=f"{old},{new}")
    assert back.json["is_done"], "for the other tests of this site"
