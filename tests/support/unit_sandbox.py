"""Run a command under the restrictions of a systemd unit that need no systemd.

They are `SystemCallFilter`, `RestrictAddressFamilies`, `MemoryDenyWriteExecute` and no new privileges.
systemd-analyze lists the calls of a set.

    python tests/support/unit_sandbox.py deploy/systemd/meetcore-worker.service meetcore worker
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LIBRARY = "libseccomp.so.2"
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
EQUAL = 4
SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
IMPLIED = "@default"
"""Calls that systemd always allows."""


class Comparison(ctypes.Structure):
    """`struct scmp_arg_cmp`."""

    _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


def is_possible() -> bool:
    """Return whether this machine has the needed tools."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return shutil.which("systemd-analyze") is not None


def command(unit: Path, words: list[str]) -> list[str]:
    """Return a command line under a unit's restrictions, if possible."""
    return [sys.executable, __file__, str(unit), *words] if is_possible() else words


def allowed_calls(unit: str) -> set[str]:
    """Return the system calls allowed by a unit's text."""
    sets, calls = _sets(), set[str]()
    for line in [IMPLIED, *_values(unit, "SystemCallFilter")]:
        found = {call for word in line.removeprefix("~").split() for call in _expanded(word, sets)}
        calls = calls - found if line.startswith("~") else calls | found
    return calls


def restrict(unit: str) -> None:
    """Restrict this process and its children."""
    if "yes" in _values(unit, "MemoryDenyWriteExecute"):
        ctypes.CDLL(None).prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0)  # a kernel before 6.3 does not know it
    calls = allowed_calls(unit)
    families = [
        getattr(socket, word) for line in _values(unit, "RestrictAddressFamilies") for word in line.split()
    ]
    library = ctypes.CDLL(LIBRARY)
    library.seccomp_init.restype = ctypes.c_void_p
    filters = ctypes.c_void_p(library.seccomp_init(REFUSE))
    for call in sorted(calls - {"socket"}):
        _allow(library, filters, call)
    for family in families:
        _allow(library, filters, "socket", Comparison(0, EQUAL, family, 0))
    if library.seccomp_load(filters) != 0:
        raise SystemExit("unit_sandbox: the kernel takes no filter of system calls")


def _allow(library: ctypes.CDLL, filters: ctypes.c_void_p, call: str, *comparisons: Comparison) -> None:
    number = library.seccomp_syscall_resolve_name(call.encode())
    if number < 0:  # of another architecture, or of a newer kernel
        return
    array = (Comparison * len(comparisons))(*comparisons)
    if library.seccomp_rule_add_array(filters, ALLOW, number, len(comparisons), array) != 0:
        raise SystemExit(f"unit_sandbox: no rule for {call}")


def _values(unit: str, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.+)$", unit, re.MULTILINE)


def _expanded(word: str, sets: dict[str, list[str]]) -> Iterator[str]:
    if not word.startswith("@"):
        yield word
        return
    for each in sets[word]:
        yield from _expanded(each, sets)


def _sets() -> dict[str, list[str]]:
    """Return systemd's sets of system calls by name."""
    text = subprocess.run(
        ["systemd-analyze", "--no-pager", "syscall-filter"], capture_output=True, text=True, check=True
    ).stdout
    found = re.findall(r"^(@\S+)\n((?: .*\n)+)", f"{text}\n", re.MULTILINE)
    lines = {name: [line.strip() for line in indented.splitlines()] for name, indented in found}
    return {name: [word for word in words if not word.startswith("#")] for name, words in lines.items()}


if __name__ == "__main__":
    restrict(Path(sys.argv[1]).read_text("utf-8"))
    os.execvp(sys.argv[2], sys.argv[2:])
