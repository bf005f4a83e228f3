"""The data directory of an embedded server.

It owns what lies there: the lock while it is in use, the cluster in ``pg``, the files of who may connect,
the log; and it tidies up what a killed server left. Nothing is removed while a process
may still be working in it.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from hashlib import sha256
from pathlib import Path

from meetcore.adapters.embedded_postgres.account import Account, nearest_existing, root_place
from meetcore.adapters.embedded_postgres.error import EmbeddedPostgresError
from meetcore.adapters.embedded_postgres.processes import is_alive, working_in

ROLE = "meetcore"
SOCKET_NAME = ".s.PGSQL.5432"
SOCKET_PATH_BYTES = 103  # what every Unix takes; Linux takes 107
LOG_BYTES = 1_000_000
TIMEOUT_SECONDS = 20.0
PAUSE_SECONDS = 0.02


class DataDirectory:
    """One directory, used by one server at a time."""

    def __init__(self, requested: Path, account: Account) -> None:
        self.account = account
        self.home = _place(requested, account)
        self.cluster = self.home / "pg"
        self.log = self.home / "server.log"
        self._create()

    def _create(self) -> None:
        """Create the directory; traversable when the server runs as another user."""
        beside = nearest_existing(self.home).stat()
        missing = [step for step in (self.home, *self.home.parents) if not step.exists()]
        self.home.mkdir(parents=True, exist_ok=True)
        if missing:
            self.home.chmod(0o711 if self.account.drops else 0o700)
        if beside.st_uid == self.account.uid:
            for step in missing:
                self.account.own(step)

    def open(self, name: str, flags: int) -> int:
        """Open a file here, never through a link, owned by the owner of the directory."""
        file = os.open(self.home / name, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        owner = self.home.stat()
        if os.geteuid() == 0:
            os.fchown(file, owner.st_uid, owner.st_gid)
        return file

    def lock(self) -> int:
        """Take the directory. The lock lasts until every copy of the descriptor is closed.

        Waits for a server whose program has ended, which needs a moment to stop.

        Raises:
            EmbeddedPostgresError: a living program uses it.
        """
        file = self.open("lock", os.O_RDWR)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = os.pread(file, 20, 0).decode("ascii", "replace").strip()
                if time.monotonic() > deadline or (holder.isdigit() and is_alive(int(holder))):
                    os.close(file)
                    raise EmbeddedPostgresError(
                        f"{self.home} is in use by process {holder or '(unknown)'}: "
                        "stop it, or choose another data directory"
                    ) from None
                time.sleep(PAUSE_SECONDS)
        os.ftruncate(file, 0)
        os.pwrite(file, b"%d\n" % os.getpid(), 0)
        return file

    def tidy(self) -> None:
        """Remove the pid file of a server that is no more; call it with the lock held.

        Postgres does so itself unless the number is alive again as another process, or a zombie that no
        process reaps. Its backends may live a moment longer than it did: while one does, the file must stay.

        Raises:
            EmbeddedPostgresError: a server that another program owns still works there.
        """
        pid_file = self.cluster / "postmaster.pid"
        if not pid_file.exists():
            return
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (left := working_in(self.cluster)) is not None and left:
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(
                    f"a Postgres server (processes {left}) still works in {self.cluster}: "
                    "stop it and try again"
                )
            time.sleep(PAUSE_SECONDS)
        if left is not None:
            pid_file.unlink(missing_ok=True)
            shutil.rmtree(self.home / "run", ignore_errors=True)  # the socket has a lock file of its own

    def set_up(self, programs: Path, lock: int) -> None:
        """Make the cluster if there is none. One that was never finished is made anew.

        Args:
            programs: the folder of ``initdb``.
            lock: the held lock; ``initdb`` keeps a copy, so that no other starts while it runs, even if we
                are killed.
        """
        if self.cluster.exists():
            self._check_owner()
            return
        draft = self.home / "pg.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        self.account.own(draft)
        done = subprocess.run(
            [
                programs / "initdb", "--pgdata", draft, "--username", ROLE, "--encoding", "UTF8",
                "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--locale", "C",
                "--auth", "peer",
            ],
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}, cwd="/", stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120, check=False, pass_fds=[lock],
            **self.account.popen_options,
        )  # fmt: skip
        if done.returncode != 0:
            raise EmbeddedPostgresError(f"cannot set up {self.home}: {(done.stderr or done.stdout).strip()}")
        draft.rename(self.cluster)

    def _check_owner(self) -> None:
        """Refuse a cluster of another user, which Postgres would refuse in its log.

        Raises:
            EmbeddedPostgresError: root's server ran as another user when it made the data.
        """
        owner = self.cluster.stat().st_uid
        if self.account.drops and owner != self.account.uid:
            raise EmbeddedPostgresError(
                f"the data in {self.cluster} belongs to user {owner}, and the server runs as user "
                f"{self.account.uid}: `chown -R {self.account.uid} {self.home}`, or choose another directory"
            )

    def admit(self) -> None:
        """Write who may connect: only our own user, by the kernel's account of it."""
        try:
            name = pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            raise EmbeddedPostgresError(
                f"user {os.geteuid()} has no name in the system's user list, and Postgres asks for one: "
                "add it to /etc/passwd, or set MEETCORE_DATABASE_URL"
            ) from None
        self._write("hba.conf", f"local all all peer map={ROLE}\n")
        self._write("ident.conf", f'{ROLE} "{name}" {ROLE}\n')

    def _write(self, name: str, text: str) -> None:
        with os.fdopen(self.open(name, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as file:
            file.write(text)

    def open_log(self) -> int:
        """Append; begin anew when it has grown."""
        file = self.open(self.log.name, os.O_WRONLY | os.O_APPEND)
        if os.fstat(file).st_size > LOG_BYTES:
            os.ftruncate(file, 0)
        return file

    def log_tail(self) -> str:
        """The end of the log, for an error message."""
        text = self.log.read_text("utf-8", "replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-8:])

    def make_socket_dir(self) -> tuple[Path, bool]:
        """A directory of mode 0700 for the socket, its path not too long; and whether it is temporary."""
        beside = self.home / "run"
        if _fits(beside):
            beside.mkdir(mode=0o700, exist_ok=True)
            self.account.own(beside)
            return beside, False
        for parent in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 - mkdtemp makes a new name, mode 0700
            if _fits(Path(parent) / "meetcore-12345678"):
                made = Path(tempfile.mkdtemp(prefix="meetcore-", dir=parent))
                self.account.own(made)
                return made, True
        raise EmbeddedPostgresError(f"the path of {self.home} is too long for a socket: choose a shorter one")


def _fits(directory: Path) -> bool:
    return len(os.fsencode(directory / SOCKET_NAME)) <= SOCKET_PATH_BYTES


def _place(requested: Path, account: Account) -> Path:
    """The requested directory, or one that the server's user can reach, with a note of where."""
    if account.reaches(nearest_existing(requested)):
        return requested
    place = root_place() / f"data-{sha256(os.fsencode(requested)).hexdigest()[:16]}"
    requested.mkdir(parents=True, exist_ok=True)
    note = os.open(requested / "WHERE", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
    with os.fdopen(note, "w", encoding="utf-8") as file:
        file.write(f"user {account.uid}, whom Postgres runs as, cannot come here. The data is in\n{place}\n")
    return place
