"""Whom the server runs as, and what that user can reach.

It owns the choice of the user and the place that only root can write. It does not trust a directory that
another user could have planted.
"""

from __future__ import annotations

import os
import pwd
import stat
import tempfile
from pathlib import Path
from typing import Any

from attrs import frozen

from meetcore.adapters.embedded_postgres.error import EmbeddedPostgresError

ROOT_PLACE = Path("/var/lib/meetcore")
OWN_USERS = ("meetcore", "nobody")
"""Users that the server of root runs as, by preference: what else runs as `nobody` can read its data."""


@frozen
class Account:
    """The user that the server runs as."""

    uid: int
    gid: int

    @property
    def drops(self) -> bool:
        """Whether a child has to become another user than we are."""
        return self.uid != os.geteuid()

    @property
    def popen_options(self) -> dict[str, Any]:
        """What makes a child process this user and nothing more."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.drops else {}

    def own(self, path: Path) -> None:
        """Give a file or directory, never what a link points to, to this user."""
        if self.drops:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def reaches(self, directory: Path) -> bool:
        """Whether this user can reach an existing directory, by the mode bits of its parents."""
        return not self.drops or all(self._enters(step) for step in (directory, *directory.parents))

    def _enters(self, directory: Path) -> bool:
        found = directory.stat()
        if found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IXUSR)
        if found.st_gid == self.gid:
            return bool(found.st_mode & stat.S_IXGRP)
        return bool(found.st_mode & stat.S_IXOTH)


def nearest_existing(path: Path) -> Path:
    """The path itself or the closest of its parents that is there."""
    return next(step for step in (path, *path.parents) if step.exists())


def account_for(data_dir: Path) -> Account:
    """Choose the user.

    Args:
        data_dir: the resolved requested directory; it need not exist.

    Raises:
        EmbeddedPostgresError: the directory belongs to another user, or root has no ordinary user to become.
    """
    there = nearest_existing(data_dir)
    found = there.stat()
    if there == data_dir and found.st_uid != os.geteuid() and (os.geteuid() or is_in_shared_directory(there)):
        raise EmbeddedPostgresError(
            f"{data_dir} belongs to user {found.st_uid}: choose another data directory, or start as that user"
        )
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    if found.st_uid != 0 and not is_in_shared_directory(there):
        return Account(found.st_uid, found.st_gid)
    for name in OWN_USERS:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(user.pw_uid, user.pw_gid)
    raise EmbeddedPostgresError(
        "Postgres does not run as root, and this system has neither a user meetcore nor nobody: "
        "start as an ordinary user, or `useradd --system meetcore`"
    )


def is_in_shared_directory(directory: Path) -> bool:
    """Whether any user could have created the directory: its parent is world-writable, like /tmp."""
    return bool(directory.parent.stat().st_mode & stat.S_IWOTH)


def root_place() -> Path:
    """A directory that ``nobody`` can read and only root can write.

    Raises:
        EmbeddedPostgresError: neither ``/var/lib`` nor the temporary directory offers one.
    """
    for place in (ROOT_PLACE, Path(tempfile.gettempdir()).resolve() / "meetcore-root"):
        try:
            place.mkdir(mode=0o755, exist_ok=True)
        except OSError:
            continue
        if trusted(place):
            place.chmod(0o755)
            return place
    raise EmbeddedPostgresError(
        f"neither {ROOT_PLACE} nor {tempfile.gettempdir()}/meetcore-root can be made a directory of root's "
        "alone: start as an ordinary user, or install and keep data where user nobody can go"
    )


def trusted(place: Path) -> bool:
    """Root's own directory, not a link; and no other user can replace it or a parent of it."""
    found = place.lstat()
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and not found.st_mode & 0o022
    return own and all(_stays(step) for step in place.parents)


def _stays(directory: Path) -> bool:
    found = directory.lstat()
    writable = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
    passable = found.st_mode & stat.S_IXOTH
    return found.st_uid == 0 and stat.S_ISDIR(found.st_mode) and not writable and bool(passable)
