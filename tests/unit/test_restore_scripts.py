"""What the scripts of a restore leave behind, with stand-ins for PostgreSQL's programs and for ours.

That they restore and fence a real server is shown in tests/e2e/test_restore.py.
"""

import fcntl
import os
import pwd
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from attrs import frozen

SCRIPTS = Path(__file__).resolve().parents[2] / "deploy" / "postgres"
RESTORED_TO = "2026-12-01T00:00:00.000000Z"
VERSION = "15"
PROGRAMS = {
    "pg_ctl": 'case $1 in stop) rm -f "$3/postmaster.pid" ;; start) touch "$3/postmaster.pid" ;; esac',
    "pg_isready": "exit 0",
    "psql": f'case "$*" in *pg_last_xact*) echo {RESTORED_TO} ;; *) echo owner ;; esac',
}
FENCED = f"""echo '{{"is_fenced": true, "restored_to": "{RESTORED_TO}"}}'"""


def _reset_signals() -> None:
    for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)


@frozen
class Place:
    """A directory with backups, an archive and programs."""

    root: Path

    @property
    def backups(self) -> Path:
        return self.root / "base"

    @property
    def archive(self) -> Path:
        return self.root / "wal"

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def unfenced(self) -> Path:
        return self.root / "data.unfenced"

    def program(self, path: str, text: str) -> Path:
        """Write a program."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'#!/bin/sh\necho "$(basename "$0") $*" >>"{self.root}/calls"\n{text}\n')
        file.chmod(0o755)
        return file

    def back_up(self, name: str, *, is_whole: bool = True, at: int = 0) -> Path:
        """Make what looks like a base backup."""
        backup = self.backups / name
        (backup / "pg_tblspc").mkdir(parents=True)
        (backup / "pg_wal").mkdir()
        (backup / "PG_VERSION").write_text(f"{VERSION}\n")
        (backup / "backup_label").write_text("START TIME: 2026-11-30 00:00:00 UTC\n")
        if is_whole:
            (backup / "backup_manifest").write_text("{}")
        os.utime(backup, (at, at))
        return backup

    def run(self, script: str, *places: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script, with the signals that the process of the tests may ignore, as under nohup."""
        env = dict(os.environ) | {
            "PG_ROOT": str(self.root / "lib"), "MEETCORE": str(self.root / "meetcore"),
            "POSTGRES_USER": pwd.getpwuid(os.getuid()).pw_name, "SCRATCH": str(self.scratch),
            "MAX_AGE_S": "9999999999",
        }  # fmt: skip
        env.pop("PG_BIN", None)
        return subprocess.run(
            [SCRIPTS / script, *places], env=env | variables, capture_output=True, text=True, timeout=20,
            check=False, preexec_fn=_reset_signals,
        )  # fmt: skip

    def restore(self, backup: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Restore a backup."""
        return self.run("restore.sh", backup, self.archive, self.data, **variables)

    def drill(self) -> subprocess.CompletedProcess[str]:
        """Try the newest backup."""
        return self.run("restore-drill.sh", self.backups, self.archive)

    def calls(self, name: str) -> list[str]:
        """The calls of a program."""
        lines = (self.root / "calls").read_text().splitlines()
        return [line.partition(" ")[2] for line in lines if line.startswith(f"{name} ")]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    for each in (place.archive, place.scratch):
        each.mkdir()
    for name, text in PROGRAMS.items():
        place.program(f"lib/{VERSION}/bin/{name}", text)
    place.program("meetcore", FENCED)
    return place


def test_what_is_restored_gets_its_name_when_it_is_fenced_and_stopped(place: Place) -> None:
    done = place.restore(place.back_up("monday"))
    assert done.returncode == 0, done.stderr
    assert [call.split()[:2] for call in place.calls("meetcore")] == [["migrate"], ["restore", "fence"]]
    assert place.data.is_dir()
    assert not (place.data / "postmaster.pid").exists()
    assert not place.unfenced.exists()


def test_what_was_not_fenced_does_not_get_its_name(place: Place) -> None:
    place.program("meetcore", '[ "$1" != restore ]')
    backup = place.back_up("monday")
    done = place.restore(backup)
    assert done.returncode == 1
    assert f"NOT FENCED: do not start {place.unfenced}" in done.stderr
    assert not place.data.exists()
    assert not (place.unfenced / "postmaster.pid").exists(), "it was stopped"
    assert "was never fenced: remove it" in place.restore(backup).stderr


@pytest.mark.parametrize(("name", "code"), [("HUP", 129), ("INT", 130), ("TERM", 143)])
def test_a_signal_stops_the_server_at_once(place: Place, name: str, code: int) -> None:
    place.program("meetcore", f"kill -{name} $PPID\nexec sleep 60 >/dev/null 2>&1")
    done = place.restore(place.back_up("monday"))
    assert done.returncode == code
    assert "NOT FENCED" in done.stderr
    assert not place.data.exists()
    assert not (place.unfenced / "postmaster.pid").exists()


def test_a_backup_with_tablespaces_is_refused(place: Place) -> None:
    backup = place.back_up("monday")
    (backup / "pg_tblspc" / "16384").symlink_to(place.archive)
    done = place.restore(backup)
    assert done.returncode == 1
    assert "tablespaces" in done.stderr
    assert not place.unfenced.exists()


def test_a_backup_whose_log_is_a_link_is_refused(place: Place) -> None:
    backup = place.back_up("monday")
    (backup / "pg_wal").rename(place.root / "log")
    (backup / "pg_wal").symlink_to(place.root / "log")
    done = place.restore(backup)
    assert done.returncode == 1
    assert "pg_wal as a link" in done.stderr
    assert not place.unfenced.exists()


def test_programs_that_are_not_found_are_asked_for(place: Place) -> None:
    backup = place.back_up("monday")
    (backup / "PG_VERSION").write_text("8.4\n")
    without = [each for each in os.environ["PATH"].split(":") if not Path(each, "pg_ctl").exists()]
    done = place.restore(backup, PATH=":".join(without))
    assert done.returncode == 1
    assert "the programs of PostgreSQL 8.4 are not found: set PG_BIN" in done.stderr
    assert not place.unfenced.exists()


def test_the_drill_passes_over_a_backup_that_is_being_made(place: Place) -> None:
    place.back_up("monday", at=1_000_000)
    place.back_up("tuesday", at=2_000_000)
    place.back_up("wednesday", at=3_000_000, is_whole=False)
    done = place.drill()
    assert done.returncode == 0, done.stderr
    assert f"{place.backups}/tuesday/ restored to {RESTORED_TO}" in done.stderr
    assert list(place.scratch.iterdir()) == []
    assert "immediate" in place.calls("pg_ctl")[-1]


def test_the_drill_needs_a_whole_backup(place: Place) -> None:
    place.back_up("monday", is_whole=False)
    done = place.drill()
    assert done.returncode == 1
    assert "no whole backup" in done.stderr


def test_the_drill_removes_what_a_killed_one_left(place: Place) -> None:
    place.back_up("monday")
    socket = Path(tempfile.mkdtemp(prefix="meetcore-drill-socket.", dir="/tmp"))
    old, other = place.scratch / "meetcore-drill.aB3", place.scratch / "another"
    for each in (old, other):
        (each / "data").mkdir(parents=True)
    (old / "socket").write_text(f"{socket}\n")
    place.program("stop", "").rename(socket / "stop")
    done = place.drill()
    assert done.returncode == 0, done.stderr
    assert place.calls("stop") == [""], "its server is stopped first"
    assert not socket.exists()
    assert list(place.scratch.iterdir()) == [other]


def test_the_drill_removes_nothing_that_is_not_a_drills(place: Place) -> None:
    place.back_up("monday")
    old = place.scratch / "meetcore-drill.aB3"
    old.mkdir()
    (old / "socket").write_text(f"/tmp/meetcore-drill-socket.x/../..{place.archive}\n")
    assert place.drill().returncode == 0
    assert place.archive.is_dir()
    assert not old.exists()


def test_a_drill_that_is_stopped_leaves_nothing(place: Place) -> None:
    place.program(
        "meetcore", f'{FENCED}\n[ "$2" != status ] || {{ kill -TERM $PPID; exec sleep 60 >/dev/null; }}'
    )
    place.back_up("monday")
    assert place.drill().returncode == 143
    assert list(place.scratch.iterdir()) == []
    assert "immediate" in place.calls("pg_ctl")[-1]


def test_one_drill_works_at_a_time(place: Place) -> None:
    place.back_up("monday")
    holder = os.open(place.scratch, os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        done = place.drill()
    finally:
        os.close(holder)
    assert done.returncode == 1
    assert "another drill" in done.stderr
