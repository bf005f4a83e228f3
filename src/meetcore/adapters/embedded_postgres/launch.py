"""Become a PostgreSQL program, as the server's user and tied to the starting process.

Run as a script, with the standard library alone. Arguments: pid of the starting process, uid and gid of the
server's user, command.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    program, uid, gid = map(int, sys.argv[1:4])
    if uid != os.geteuid():
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    os.umask(0o077)
    if sys.platform.startswith("linux"):
        # Stop the server when the program ends. After setuid, which clears it.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGINT), 0, 0, 0)
    if os.getppid() == program:
        os.execv(sys.argv[4], sys.argv[4:])  # noqa: S606  # no shell is wanted
