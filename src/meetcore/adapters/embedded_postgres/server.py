"""Start and stop the embedded server: user, programs, data directory, access.

`lock` is held by the program, `server.lock` by every process of its server: while it is free, none of them
uses the directory. A server of another program is never adopted.

`postgres` refuses to run as root, so root's server runs as `meetcore` if the system has that user, else as
`nobody`. Paths that this user cannot reach, as in a private home directory, are placed under
`/var/lib/meetcore`; a file `WHERE` in the requested directory then names the place of the data.
"""

import fcntl
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from importlib import metadata, util
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psycopg

from meetcore.adapters.embedded_postgres import launch

START_S: Final = 60.0  # includes recovery after a crash
EARLIER_S: Final = 20.0  # for a server whose program has just ended
PAUSE_S: Final = 0.01
# Fast shutdown, immediate, kill; with the seconds to wait for each.
WAYS_TO_STOP: Final = ((signal.SIGINT, 10.0), (signal.SIGQUIT, 3.0), (signal.SIGKILL, 3.0))
SOCKET_PATH_BYTES: Final = 103  # limit of every Unix; Linux takes 107
SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "", "unix_socket_permissions": "0700", "max_connections": "100", "fsync": "on",
    "shared_buffers": "32MB", "wal_level": "minimal", "max_wal_senders": "0", "max_wal_size": "256MB",
    "max_logical_replication_workers": "0", "io_method": "sync", "jit": "off", "timezone": "UTC",
    "log_timezone": "UTC", "log_checkpoints": "off",
}  # fmt: skip
ROOT_PLACE = Path("/var/lib/meetcore")
OWN_USERS = ("meetcore", "nobody")  # other services of `nobody` can read its data
_PACKAGE = "embedded_postgres"


class EmbeddedPostgresError(Exception):
    """The server cannot be started or stopped. The message says how to fix it."""


class EmbeddedPostgres:
    """One server on one data directory, made by `start` if missing; not thread-safe.

    Start it in a thread that outlives it: the kernel stops the server with that thread. The data is in
    `home`, which may differ from the requested directory `asked` for root. `settings` are merged into
    `SETTINGS`.
    """

    def __init__(self, data_dir: Path, settings: Mapping[str, str] | None = None) -> None:
        self.asked = self.home = data_dir.expanduser().resolve()
        self._settings = {**SETTINGS, **(settings or {})}
        self._server: subprocess.Popen[bytes] | None = None
        self._lock = -1
        self._temporary: Path | None = None

    def start(self) -> str:
        """Start the server and return a libpq URL of its Unix socket.

        Raises `EmbeddedPostgresError`: the directory is in use or foreign, the package is missing, or the
        server does not start.
        """
        try:
            self._user = server_user()
            programs = _programs_for(self._user)
            self.home = _home_for(self.asked, self._user)
            self._lock = _locked(self.home / "lock", 0.0)
            os.pwrite(self._lock, b"%-20d" % os.getpid(), 0)
            return self._launched(programs)
        except BaseException as error:
            self.stop()
            if isinstance(error, OSError):
                raise EmbeddedPostgresError(f"cannot start Postgres on {self.home}: {error}") from error
            raise

    @property
    def is_running(self) -> bool:
        """Whether the started server is alive."""
        return self._server is not None and self._server.poll() is None

    def stop(self) -> None:
        """Shut the server down with its connections and wait; idempotent."""
        server, self._server = self._server, None
        for number, seconds in WAYS_TO_STOP:
            if server is None:
                break
            server.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                server.wait(timeout=seconds)
                break
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
        if self._lock >= 0:
            fcntl.flock(self._lock, fcntl.LOCK_UN)  # a forked child may hold a copy
            os.close(self._lock)
        self._temporary, self._lock = None, -1
        if server is not None and server.returncode is None:
            raise EmbeddedPostgresError(f"the server on {self.home} does not stop: process {server.pid}")

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launched(self, programs: Path) -> str:
        """Set up the cluster, start the server and return its URL."""
        cluster, lock = self.home / "pg", _locked(self.home / "server.lock", EARLIER_S)
        try:
            # Its pid may belong to another process by now, which PostgreSQL would take for a server.
            (cluster / "postmaster.pid").unlink(missing_ok=True)
            self._set_up(programs, cluster, lock)
            sockets = self._make_sockets()
            settings = self._settings | {"unix_socket_directories": f'"{sockets}"'}
            # Only our own user may connect, authenticated by the kernel.
            own = f'meetcore "{pwd.getpwuid(os.geteuid()).pw_name}" meetcore\n'
            for name, text in (("hba_file", "local all all peer map=meetcore\n"), ("ident_file", own)):
                file = self.home / name
                file.write_text(text, "utf-8")
                file.chmod(0o644)
                settings[name] = str(file)
            options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
            with (self.home / "server.log").open("wb") as log:
                self._server = self._popen(
                    lock, programs / "postgres", "-D", cluster, *options, stdout=log, stderr=log
                )
        finally:
            os.close(lock)
        url = f"postgresql://meetcore@/postgres?host={quote(str(sockets), safe='')}&port=5432"
        self._wait_until_up(url)
        return url

    def _popen(self, lock: int, *command: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        """Start a PostgreSQL program as the server's user, holding the server's lock."""
        ids = (os.getpid(), self._user.pw_uid, self._user.pw_gid)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", launch.__file__, *map(str, (*ids, *command))], cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}, pass_fds=[lock], stdin=subprocess.DEVNULL,
            start_new_session=True, **options,
        )  # fmt: skip
        os.pwrite(lock, b"%-20d" % process.pid, 0)
        return process

    def _set_up(self, programs: Path, cluster: Path, lock: int) -> None:
        """Create the cluster, again if it is unfinished."""
        uid = self._user.pw_uid
        if cluster.exists():
            if (owner := cluster.stat().st_uid) != uid:
                raise EmbeddedPostgresError(
                    f"the data in {cluster} belongs to user {owner}, and the server runs as user {uid}: "
                    f"`chown -R {uid} {cluster}`, or choose another directory"
                )
            return
        draft = self.home / "pg.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        os.chown(draft, uid, self._user.pw_gid)
        syncing = () if self._settings["fsync"] == "on" else ("--no-sync",)
        made = self._popen(
            lock, programs / "initdb", "--pgdata", draft, "--username", "meetcore", "--encoding", "UTF8",
            "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--locale", "C", "--auth", "peer",
            *syncing, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            output = made.communicate()[0].decode("utf-8", "replace")
        except BaseException:
            made.terminate()
            made.communicate()  # initdb waits for its children: none writes where the caller may remove all
            raise
        if made.returncode != 0:
            raise EmbeddedPostgresError(f"cannot set up {self.home}: {output}")
        draft.rename(cluster)

    def _make_sockets(self) -> Path:
        """Make a directory of mode 0700 for the socket, with a short path."""
        made = self.home / "run"
        shutil.rmtree(made, ignore_errors=True)
        if len(os.fsencode(made / ".s.PGSQL.5432")) <= SOCKET_PATH_BYTES:
            made.mkdir(mode=0o700)
        else:
            self._temporary = made = Path(tempfile.mkdtemp(prefix="meetcore-", dir="/tmp"))
        os.chown(made, self._user.pw_uid, self._user.pw_gid)
        return made

    def _wait_until_up(self, url: str) -> None:
        deadline = time.monotonic() + START_S
        while True:
            try:
                return psycopg.connect(url, connect_timeout=5).close()
            except psycopg.OperationalError as trouble:
                if not self.is_running or time.monotonic() > deadline:
                    log = self.home / "server.log"
                    tail = "\n".join(log.read_text("utf-8", "replace").splitlines()[-8:])
                    raise EmbeddedPostgresError(
                        f"Postgres did not come up on {self.home}: {trouble}\nThe end of {log}:\n{tail}"
                    ) from trouble
                time.sleep(PAUSE_S)


def _locked(file: Path, within_s: float) -> int:
    """Take a lock that names its holder; return its descriptor."""
    lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + within_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            holder = os.pread(lock, 20, 0).decode().strip()
            if time.monotonic() >= deadline:
                os.close(lock)
                raise EmbeddedPostgresError(
                    f"{file.parent} is in use by process {holder}: "
                    "stop it, or choose another directory (--data-dir)"
                ) from None
            if holder and not sys.platform.startswith("linux"):  # no parent death signal there
                os.kill(int(holder), signal.SIGINT)
            time.sleep(PAUSE_S)


def server_user() -> pwd.struct_passwd:
    """Return the current user, or for root the first existing one of `OWN_USERS`."""
    for who in (os.geteuid(),) if os.geteuid() else OWN_USERS:
        try:
            return pwd.getpwnam(who) if isinstance(who, str) else pwd.getpwuid(who)
        except KeyError:
            continue
    raise EmbeddedPostgresError(
        "Postgres runs as a user who has a name and is not root: start as one, `useradd --system meetcore`, "
        "or set MEETCORE_DATABASE_URL"
    )


def _home_for(requested: Path, user: pwd.struct_passwd) -> Path:
    """Create the requested directory, or a substitute that the server's user can reach."""
    nearest = next(step for step in (requested, *requested.parents) if step.exists())
    name = f"data-{sha256(os.fsencode(requested)).hexdigest()[:16]}"
    home = requested if _reaches(user, nearest) else _for_all(name)
    if not home.exists():
        home.mkdir(parents=True)
        home.chmod(0o700 if user.pw_uid == os.geteuid() else 0o711)
    if (owner := home.stat().st_uid) != os.geteuid():
        raise EmbeddedPostgresError(
            f"{home} belongs to user {owner}: choose another data directory, or start as that user"
        )
    if home != requested:
        requested.mkdir(mode=0o711, parents=True, exist_ok=True)
        (requested / "WHERE").write_text(f"{home}\n", "utf-8")
    return home


def _programs_for(user: pwd.struct_passwd) -> Path:
    """Return the folder of `postgres` and `initdb`, copied if the user cannot run them."""
    programs = _installed()
    if programs is None:
        how = "pip install 'meetcore[embedded]', or set MEETCORE_DATABASE_URL"
        raise EmbeddedPostgresError(f"the embedded Postgres is not installed: {how}")
    if _reaches(user, programs / "postgres") and _reaches(user, programs.parent / "share"):
        return programs
    copy = _for_all(f"postgres-{metadata.version('embedded-postgres')}")
    if not copy.exists():
        draft = Path(tempfile.mkdtemp(prefix=".postgres-", dir=copy.parent))
        for folder in programs.parents[2].glob(f"{_PACKAGE}*"):  # the package and its libraries
            shutil.copytree(folder, draft / folder.name, symlinks=True)
        subprocess.run(["/bin/chmod", "-R", "u=rwX,go=rX", draft], check=True)
        try:
            draft.rename(copy)
        except OSError:  # a concurrent start has made the copy
            shutil.rmtree(draft)
    return copy / programs.relative_to(programs.parents[2])


def is_available() -> bool:
    """Return whether the extra is installed and the system is a Unix."""
    return os.name == "posix" and _installed() is not None


def _installed() -> Path | None:
    """Find the folder of programs in the package, without importing it."""
    spec = util.find_spec(_PACKAGE)
    for package in (spec and spec.submodule_search_locations) or ():
        programs = Path(package).resolve() / "pginstall" / "bin"
        if (programs / "postgres").is_file() and (programs / "initdb").is_file():
            return programs
    return None


def _reaches(user: pwd.struct_passwd, path: Path) -> bool:
    """Return whether the mode bits let a user enter a directory or run a program."""
    for step in () if user.pw_uid == os.geteuid() else (path, *path.parents):
        found = step.stat()
        group = stat.S_IXGRP if found.st_gid == user.pw_gid else stat.S_IXOTH
        if not found.st_mode & (stat.S_IXUSR if found.st_uid == user.pw_uid else group):
            return False
    return True


def _for_all(name: str) -> Path:
    """Return a path in a directory that every user can enter and only root can write."""
    ROOT_PLACE.mkdir(mode=0o755, exist_ok=True)
    found = ROOT_PLACE.lstat()  # a symbolic link is refused as writable by all
    if found.st_uid != 0 or found.st_mode & 0o022:
        raise EmbeddedPostgresError(f"{ROOT_PLACE} is not root's alone: start as an ordinary user")
    return ROOT_PLACE / name
