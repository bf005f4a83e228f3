"""State of processes: whether they run, and which work in a directory.

It owns reading ``/proc``. Without it, only the portable calls are used.
"""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return not (PROC / "self").exists()
    return fields[0] not in (b"Z", b"X")


def working_in(directory: Path) -> list[int] | None:
    """The processes whose current directory it is; every process of a Postgres server is one of them.

    Returns:
        Their numbers; None where the system does not report them.
    """
    if not (PROC / "self").exists():
        return None
    wanted = directory.stat()
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                there = (entry / "cwd").stat()
            except OSError:
                # Ended, a zombie, or another user's: the server runs as a user whose processes we may read.
                continue
            if (there.st_dev, there.st_ino) == (wanted.st_dev, wanted.st_ino):
                found.append(int(entry.name))
    return found
