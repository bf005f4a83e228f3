"""Restore the database to an earlier moment by the runbook, and reconcile it with Zoom."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from attrs import define, evolve

from meetcore.adapters.postgres.migrate import migrate
from tests.e2e.customers import client
from tests.e2e.meeting_invariants import MeetingCustomer, add_hosts, enrolled
from tests.e2e.outbox import ask
from tests.e2e.zoom_stack import ZoomStack, zoom_stack
from tests.support.program import ROOT, Launcher, Site, until
from tests.support.replicated_postgres import DATABASE, Pair, find_programs, postgres_pair

LOST = 4
KEPT = 3
SCRIPTS = ROOT / "deploy" / "postgres"
SCRIPT_S = 300.0


@define
class Disaster:
    """A service with a base backup and a WAL archive."""

    pair: Pair
    zoom: ZoomStack
    site: Site
    customer: MeetingCustomer
    backups: Path
    archive: Path

    def sell(self, http: httpx.Client, count: int) -> list[str]:
        """Sell meetings; return their ids."""
        first = len(self.customer.wanted)
        keys = [self.customer.new_key(number) for number in range(first, first + count)]
        for key in keys:
            until(lambda key=key: self.customer.create(http, key), "an answer")  # type: ignore[misc]
        return [self.customer.made[key]["id"] for key in keys]

    def script(self, name: str, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script of the runbook."""
        env = self.site.env() | variables | {
            "PG_BIN": str(self.pair.programs), "MEETCORE": f"{sys.executable} -m meetcore.cli.main",
            "DATABASE": DATABASE, "SCRATCH": str(self.pair.directory),
        }  # fmt: skip
        if "user" in self.pair.user:
            env["POSTGRES_USER"] = pwd.getpwuid(self.pair.user["user"]).pw_name
        return subprocess.run(
            [SCRIPTS / name, *map(str, arguments)], env=env, capture_output=True, text=True,
            timeout=SCRIPT_S, check=False, cwd="/",
        )  # fmt: skip

    def back_up(self) -> Path:
        backup = self.backups / "monday"
        source = f"host=127.0.0.1 port={self.pair.primary.port} user=postgres"
        self.pair.run("pg_basebackup", "-D", backup, "-d", source, "-c", "fast", "--no-sync")
        return backup

    def archive_all(self) -> None:
        """Archive all WAL."""
        ((segment,),) = self.pair.ask(self.pair.primary, "SELECT pg_walfile_name(pg_switch_wal())")
        archived = self.pair.primary.data / "pg_wal" / "archive_status" / f"{segment}.done"
        until(archived.is_file, "the log is archived")  # its copy is there before it is whole

    def moment(self) -> str:
        """Return the database's time."""
        statement = (
            """SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
        )
        ((moment,),) = self.pair.ask(self.pair.primary, statement)
        return str(moment)

    def restore(self, backup: Path, moment: str) -> Site:
        """Restore into the second server, start it, and return the service on it."""
        restored = self.pair.standby
        done = self.script("restore.sh", backup, self.archive, restored.data, moment)
        assert done.returncode == 0, done.stdout + done.stderr
        with (restored.data / "postgresql.conf").open("a") as file:
            file.write(f"port = {restored.port}\n")
        self.pair.start(restored)
        is_over = "SELECT NOT pg_is_in_recovery()"
        until(lambda: self.pair.ask(restored, is_over) == [(True,)], "everything is replayed")
        return evolve(self.site, database_url=restored.url)


@contextmanager
def archived(pair: Pair) -> Iterator[tuple[Path, Path]]:
    """Archive the primary's WAL; yield the directories of backups and archive."""
    backups, archive = pair.directory / "backups", pair.directory / "archive"
    for each in (backups, archive):
        each.mkdir()
        if "user" in pair.user:
            os.chown(each, pair.user["user"], pair.user["group"])
    pair.ask(pair.primary, "ALTER SYSTEM SET archive_mode = on")
    pair.ask(pair.primary, f"ALTER SYSTEM SET archive_command = 'cp %p {archive}/%f'")
    pair.run("pg_ctl", "restart", "-D", pair.primary.data, "-m", "fast", "-w", "-t", 60)
    yield backups, archive


@pytest.fixture
def disaster(launcher: Launcher) -> Iterator[Disaster]:
    programs = find_programs()
    if programs is None or not (programs / "psql").is_file():
        pytest.skip("no PostgreSQL server programs")
    with postgres_pair(programs) as pair, archived(pair) as (backups, archive), zoom_stack() as zoom:
        migrate(pair.primary.url)
        site = Site(launcher, pair.primary.url, zoom.settings)
        add_hosts(site, 5)
        yield Disaster(pair, zoom, site, enrolled(site), backups, archive)


def test_what_a_restore_lost_is_adopted_removed_and_refunded(disaster: Disaster) -> None:
    it = disaster
    with it.site.serve() as api, client(api.url, it.customer.api_key) as http:
        kept = it.sell(http, KEPT)
        backup = it.back_up()
        kept += it.sell(http, 1)  # from the archive
        moment = it.moment()
        adopted, *removed = it.sell(http, LOST)
        cancelled = kept.pop()
        assert http.delete(f"/meetings/{cancelled}").status_code == 200
        it.archive_all()
    drill(it)
    it.pair.kill(it.pair.primary)

    site = it.restore(backup, moment)
    assert site.cli("credits", "verify")["is_sound"], "a ledger cannot know what it never had"
    found = site.cli("reconcile", "--since", moment)["data"]
    assert {(each["kind"], each["meeting_id"]) for each in found} == {
        ("gone", cancelled), *(("lost", each) for each in (adopted, *removed)),
    }  # fmt: skip
    for settings, code, *given in (
        ({}, 2, "--adopt", adopted),
        ({}, 2, "--remove", "no-such-meeting"),
        ({"provider": "sandbox"}, 1),
    ):
        done = site.launcher.run("reconcile", "--since", moment, *given, env=site.env(**settings))
        assert done.code == code, done
    [account_id] = {each["account_id"] for each in found if each["kind"] == "gone"}
    for arguments in (
        ("--adopt", adopted, "--account", account_id, "--tier", "standard-100"),
        ("--remove", "lost", "gone"),
    ):
        done = site.cli("reconcile", "--since", moment, *arguments)["data"]
        assert {each["result"] for each in done} <= {"-", "done"}
    assert site.cli("reconcile", "--since", moment)["data"] == []

    known = {str(id_) for (id_,) in ask(site, "SELECT id FROM meetings WHERE status = 'scheduled'")}
    assert known == {*kept, adopted} == {str(each["ours"]) for each in it.zoom.meetings()}
    with site.serve() as api, client(api.url, it.customer.api_key) as http:
        assert http.get(f"/meetings/{adopted}").json()["status"] == "scheduled"
        it.sell(http, 1)
    assert site.cli("credits", "verify")["findings"] == []


def drill(it: Disaster) -> None:
    """Run the drill: it restores and verifies the archive, and cleans up."""
    before = set(it.pair.directory.iterdir())
    done = it.script("restore-drill.sh", it.backups, it.archive)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["is_sound"]
    late = it.script("restore-drill.sh", it.backups, it.archive, MAX_AGE_S="-1")
    assert late.returncode == 1
    assert "more than -1 s ago" in late.stderr
    assert set(it.pair.directory.iterdir()) == before


@pytest.mark.parametrize("link", ["pg_tblspc/16384", "pg_wal"])
def test_a_backup_with_links_is_refused_and_none_is_restored_over_another(link: str, tmp_path: Path) -> None:
    backup, archive, data = tmp_path / "backup", tmp_path / "archive", tmp_path / "data"
    for each in (backup / "pg_tblspc", archive):
        each.mkdir(parents=True)
    (backup / "backup_label").touch()
    (backup / link).symlink_to(archive)
    for problem in ("as a link", "exists"):
        done = subprocess.run(
            [SCRIPTS / "restore.sh", backup, archive, data], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert problem in done.stderr
        data.mkdir(exist_ok=True)


def test_an_archive_is_found_from_the_new_directory_however_it_was_named(tmp_path: Path) -> None:
    """PostgreSQL runs the command in DATA: a file that is not found there would end the restore early."""
    for each in ("backup/pg_tblspc", "backup/pg_wal", "archive"):
        (tmp_path / each).mkdir(parents=True)
    (tmp_path / "backup" / "backup_label").touch()
    words = [str(SCRIPTS / "restore.sh"), "backup", "archive", "data"]
    environment = {**os.environ, "POSTGRES_USER": str(os.getuid())}
    subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert f'cp "{tmp_path}/archive/%f"' in (tmp_path / "data" / "postgresql.auto.conf").read_text("utf-8")
