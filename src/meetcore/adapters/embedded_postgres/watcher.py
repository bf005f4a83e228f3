"""The process between program and server: it starts ``postgres`` and stops it when the program ends.

Run as a script, by path, with the standard library alone; it imports nothing of meetcore. Its standard input
is a pipe whose other end only the program holds: end of file means that the program closed it or ended,
for any reason. A child that the program forked may hold a copy of that end, so a changed parent counts as
well. It runs in a session of its own and ignores signals, so that neither Ctrl-C nor a service
manager that signals the whole group takes the database away before the program is done.

If it is itself killed, the kernel signals the server (Linux), which then shuts down.

Arguments: uid and gid to run as (-1: stay), a directory to remove at the end ("" for none), then the command.
Inherited and not mentioned: the lock of the data directory, which is free again when this process ends.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

LOOK_EVERY_MS = 300
PR_SET_PDEATHSIG = 1
# Fast shutdown, then immediate, then by force; each with the seconds it is given.
WAYS_TO_STOP = ((signal.SIGINT, 10.0), (signal.SIGQUIT, 3.0), (signal.SIGKILL, 3.0))


def main() -> int:
    """Watch until the program or the server ends."""
    parent = os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, _ignore)  # a handler, not SIG_IGN, which the server would inherit
    uid, gid, temporary = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    server = _start(sys.argv[4:], uid, gid)
    try:
        return _watch(server, parent)
    finally:
        _stop(server)
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Take no notice."""


def _start(command: list[str], uid: int, gid: int) -> subprocess.Popen[bytes]:
    user: dict[str, Any] = {"user": uid, "group": gid, "extra_groups": []} if uid >= 0 else {}
    environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
    return subprocess.Popen(
        command, env=environment, cwd="/", stdin=subprocess.DEVNULL, umask=0o077,
        preexec_fn=_tie_to_us(), **user,
    )  # fmt: skip


def _tie_to_us() -> Callable[[], None] | None:
    """Make the kernel signal the server at our end. Runs after the change of user, which clears it."""
    if not sys.platform.startswith("linux"):
        return None
    prctl, us = ctypes.CDLL(None).prctl, os.getpid()

    def tie() -> None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGINT), 0, 0, 0)
        if os.getppid() != us:
            os._exit(1)

    return tie


def _watch(server: subprocess.Popen[bytes], parent: int) -> int:
    """Return when the program has ended (0) or the server has ended by itself (1)."""
    poll = select.poll()
    poll.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
    while True:
        if poll.poll(LOOK_EVERY_MS):
            return 0
        if os.getppid() != parent:
            return 0
        if server.poll() is not None:
            return 1


def _stop(server: subprocess.Popen[bytes]) -> None:
    for number, seconds in WAYS_TO_STOP:
        if server.poll() is not None:
            return
        server.send_signal(number)
        try:
            server.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            continue


if __name__ == "__main__":
    sys.exit(main())
