"""The database is restored to an earlier moment by the script of the runbook, and made to agree with Zoom.

`MEETCORE_TEST_LOST_MEETINGS` is how many meetings are lost (6). With `-s` the figures are printed.
"""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from attrs import define, evolve

from meetcore.adapters.postgres.migrate import migrate
from tests.e2e.customers import client
from tests.e2e.meeting_invariants import MeetingCustomer, add_hosts, enrolled
from tests.e2e.outbox import ask
from tests.e2e.receiver import Receiver
from tests.e2e.zoom_stack import ZoomStack, zoom_stack
from tests.support.program import ROOT, Launcher, Running, Site, until
from tests.support.replicated_postgres import DATABASE, Pair, find_programs, postgres_pair

LOST = int(os.environ.get("MEETCORE_TEST_LOST_MEETINGS", "6"))
KEPT = 3
HOURS = 24
SCRIPTS = ROOT / "deploy" / "postgres"
SCRIPT_S = 300.0


@pytest.fixture(scope="module")
def programs() -> Path:
    found = find_programs()
    if found is None or not (found / "psql").is_file():
        pytest.skip("no PostgreSQL server programs")
    return found


@define
class Disaster:
    """A service whose database has base backups and an archive, and what its customers received."""

    pair: Pair
    zoom: ZoomStack
    site: Site
    receiver: Receiver
    customer: MeetingCustomer
    backups: Path
    archive: Path

    def sell(self, http: httpx.Client, count: int) -> list[str]:
        """Sell meetings; their keys."""
        first = len(self.customer.wanted)
        keys = [self.customer.new_key(number) for number in range(first, first + count)]
        for key in keys:
            until(lambda key=key: self.customer.create(http, key), "an answer")  # type: ignore[misc]
        return keys

    def ids(self, keys: list[str]) -> set[str]:
        """The meetings of keys."""
        return {self.customer.made[key]["id"] for key in keys}

    def script(self, name: str, *arguments: object, **variables: object) -> subprocess.CompletedProcess[str]:
        """Run a script of the runbook, as its operator does."""
        return run_script(self.pair, self.site, name, *arguments, **variables)

    def restore(self, moment: str) -> dict[str, Any]:
        """Restore into the second server's directory and start it; what the script printed."""
        done = self.script(
            "restore.sh", self.backups / "monday", self.archive, self.pair.standby.data, moment
        )
        assert done.returncode == 0, done.stdout + done.stderr
        with (self.pair.standby.data / "postgresql.conf").open("a") as file:
            file.write(f"port = {self.pair.standby.port}\narchive_mode = off\n")
        self.pair.start(self.pair.standby)
        return dict(json.loads(done.stdout))

    def posts_of(self, ids: set[str]) -> list[tuple[str, str]]:
        """The events of these meetings that the receiver took, each with its meeting."""
        bodies = [json.loads(post.body) for post in self.receiver.at("hook")]
        return sorted({(each["id"], each["data"]["id"]) for each in bodies if each["data"]["id"] in ids})


def run_script(
    pair: Pair, site: Site, name: str, *arguments: object, **variables: object
) -> subprocess.CompletedProcess[str]:
    """Run a script of the runbook with the programs of the servers."""
    env = site.env() | {
        "PG_BIN": str(pair.programs), "MEETCORE": f"{sys.executable} -m meetcore.cli.main",
        "DATABASE": DATABASE, "SCRATCH": str(pair.directory),
    }  # fmt: skip
    if "user" in pair.user:
        env["POSTGRES_USER"] = pwd.getpwuid(pair.user["user"]).pw_name
    return subprocess.run(
        [SCRIPTS / name, *map(str, arguments)], env=env | {k: str(v) for k, v in variables.items()},
        capture_output=True, text=True, timeout=SCRIPT_S, check=False, cwd="/",
    )  # fmt: skip


def back_up(pair: Pair, backup: Path) -> None:
    """Make a base backup of the primary."""
    source = f"host=127.0.0.1 port={pair.primary.port} user=postgres"
    pair.run("pg_basebackup", "-D", backup, "-d", source, "-c", "fast", "--no-sync")


def archive_all(pair: Pair, archive: Path) -> None:
    """Let everything that was written be in the archive."""
    ((segment,),) = pair.ask(pair.primary, "SELECT pg_walfile_name(pg_switch_wal())")
    until(lambda: (archive / str(segment)).is_file(), "the log is archived", 60)


@contextmanager
def archived(pair: Pair) -> Iterator[tuple[Path, Path]]:
    """Let the primary archive its log; the places of backups and of the archive."""
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
def disaster(programs: Path, launcher: Launcher, receiver: Receiver) -> Iterator[Disaster]:
    with postgres_pair(programs) as pair, archived(pair) as (backups, archive), zoom_stack() as zoom:
        migrate(pair.primary.url)
        site = Site(launcher, pair.primary.url, zoom.settings | receiver.settings)
        # Each host may make a hundred meetings in a day, and has one at a time.
        add_hosts(site, 5 + LOST // 40)
        yield Disaster(pair, zoom, site, receiver, enrolled(site), backups, archive)


def test_what_a_restore_lost_is_listed_adopted_and_never_sold_again(disaster: Disaster) -> None:
    it, pair = disaster, disaster.pair
    with it.site.serve() as api, client(api.url, it.customer.api_key) as http:
        hook = {"url": it.receiver.url("hook"), "event_types": ["meeting.created"]}
        assert http.post("/webhooks", json=hook).status_code == 201
        kept = it.sell(http, KEPT)
        back_up(pair, it.backups / "monday")
        kept += it.sell(http, 1)  # from the archive
        until(lambda: len(it.posts_of(it.ids(kept))) == KEPT + 1, "all are announced")
        ((moment,),) = pair.ask(
            pair.primary,
            """SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')""",
        )
        lost = it.sell(http, LOST)
        until(lambda: len(it.posts_of(it.ids(lost))) == LOST, "all are announced")
        archive_all(pair, it.archive)
        log = api.err
    assert len(it.zoom.meetings()) == KEPT + 1 + LOST
    drill(it)
    pair.kill(pair.primary)

    began = time.monotonic()
    fence = it.restore(moment)
    assert fence["is_fenced"]
    assert fence["restored_to"][:19] <= moment[:19]
    site = evolve(it.site, database_url=pair.standby.url)
    proof = site.cli("credits", "verify")
    assert proof["is_sound"], "a ledger cannot know what it never had"
    with site.serve() as api:
        refuses_to_sell(it, api, lost)
        found = site.cli("restore", "reconcile", "--log", log)
        assert {each["meeting_id"] for each in found["meetings"]} == it.ids(lost)
        assert (found["lost_meetings"], found["gone_meetings"], found["is_applied"]) == (LOST, 0, False)
        received = {event for event, _ in it.posts_of(it.ids(lost))}
        assert {each["event_id"] for each in found["events"]} == received
        done = site.cli("restore", "reconcile", "--apply")
        assert (done["lost_meetings"], done["left"]) == (LOST, 0)
        assert site.cli("restore", "reconcile")["meetings"] == []
        assert len(it.zoom.meetings()) == KEPT + 1 + LOST
        refuses_to_sell(it, api, [])
        assert len(it.receiver.at("hook")) == KEPT + 1 + LOST, "nothing is posted before the release"
        site.cli("restore", "release")
        until(lambda: len(it.posts_of(it.ids(lost))) == 2 * LOST, "adopted meetings are announced")
        it.customer.settle(api.url)
        took_s = time.monotonic() - began
    known = {str(id_) for (id_,) in ask(site, "SELECT id FROM meetings WHERE status = 'scheduled'")}
    assert known == it.ids(kept + lost) == {str(each["ours"]) for each in it.zoom.meetings()}
    assert site.cli("credits", "verify")["findings"] == []
    assert ask(site, "SELECT count(*) FROM pg_trigger WHERE tgname = 'refuse_while_fenced'") == [(0,)]
    print(
        f"{LOST} of {len(known)} lost: all listed, 0 orphans, 0 sold twice; {took_s:.0f} s to the first sale"
    )


def test_what_a_restore_makes_is_the_owners_and_its_timeline_is_archived(
    programs: Path, launcher: Launcher
) -> None:
    with postgres_pair(programs) as pair, archived(pair) as (backups, archive):
        pair.ask(pair.primary, "CREATE ROLE meetcore_owner")  # it may not log in
        pair.ask(pair.primary, f"ALTER DATABASE {DATABASE} OWNER TO meetcore_owner")
        migrate(f"{pair.primary.url}?options=-c%20role%3Dmeetcore_owner")
        # As if the backup were of a release before this step.
        pair.ask(pair.primary, "DROP TABLE credit_proposals")
        pair.ask(pair.primary, "DELETE FROM schema_migrations WHERE name = 'credit_proposals'")
        back_up(pair, backups / "monday")
        archive_all(pair, archive)
        restored, site = pair.standby, Site(launcher, pair.primary.url)
        done = run_script(pair, site, "restore.sh", backups / "monday", archive, restored.data)
        assert done.returncode == 0, done.stdout + done.stderr
        with (restored.data / "postgresql.conf").open("a") as file:
            file.write(f"port = {restored.port}\narchive_mode = off\n")
        pair.start(restored)
        owners = "SELECT tablename, tableowner FROM pg_tables WHERE schemaname = 'public'"
        found = dict(pair.ask(restored, owners))
        assert "credit_proposals" in found
        assert set(found.values()) == {"meetcore_owner"}
        assert evolve(site, database_url=restored.url).cli("restore", "status")["is_fenced"]
        # A later restore follows this one, or begins from the backup's own timeline again.
        assert (archive / "00000002.history").read_text().startswith("1\t")
        again = pair.directory / "again"
        done = run_script(pair, site, "restore.sh", backups / "monday", archive, again, TIMELINE="current")
        assert done.returncode == 0, done.stdout + done.stderr
        (only,) = (archive / "00000003.history").read_text().splitlines()
        assert only.startswith("1\t")


def refuses_to_sell(it: Disaster, api: Running, lost: list[str]) -> None:
    """A new meeting and a retry of a lost one are refused, what is there is read, and workers do nothing."""
    made = it.zoom.counts()["created"]
    with client(api.url, it.customer.api_key) as http:
        for key in (*lost, it.customer.new_key(500)):
            answer = http.post("/meetings", json=it.customer.wanted[key], headers={"Idempotency-Key": key})
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "60"), answer.text
            assert "restored from a backup" in answer.json()["error"]["message"]
        it.customer.wanted.popitem()
        assert http.get("/meetings").status_code == 200
    rounds = api.err.read_text().count("is not released")
    until(lambda: api.err.read_text().count("is not released") > rounds + 5, "workers have tried")
    assert it.zoom.counts()["created"] == made


def drill(it: Disaster) -> None:
    """The drill restores everything that is archived, finds nothing lost, and leaves nothing behind."""
    before = set(it.pair.directory.iterdir())
    done = it.script("restore-drill.sh", it.backups, it.archive)
    assert done.returncode == 0, done.stdout + done.stderr
    verified, reconciled = (json.loads(line) for line in done.stdout.splitlines())
    assert verified["is_sound"]
    assert reconciled["lost_meetings"] == 0
    assert set(it.pair.directory.iterdir()) == before
