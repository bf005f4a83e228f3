"""What the system says of processes: alive or only a number, and who works in a directory.

It owns reading ``/proc``. Where there is none it says what the portable calls can say, and no more.
"""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie, which nobody has reaped, does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        words = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return not (PROC / "self").exists()
    return words[0] not in (b"Z", b"X")


def working_in(directory: Path) -> list[int] | None:
    """The processes whose current directory it is; every process of a Postgres server is one of them.

    Returns:
        Their numbers; None where the system does not tell.
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
                # Gone, a zombie, or another user's: the server runs as a user whom we may look at.
                continue
            if (there.st_dev, there.st_ino) == (wanted.st_dev, wanted.st_ino):
                found.append(int(entry.name))
    return found
