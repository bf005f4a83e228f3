"""Lay out one document in a child process: JSON in, PDF out.

Run as a script in Python's isolated mode: of meetcore only this folder can be imported. Arguments: limits of
CPU seconds and bytes of memory. Only a PDF leaves the process, since exceptions may quote the document;
without one it ends with status 1 or by a signal.
"""

import json
import logging
import os
import resource
import sys
from importlib import import_module

LOWER_BY = 10
"""Decrement of the priority: requests go first."""


def main(cpu_s: int, memory_bytes: int) -> int:
    """Read a document, lay it out, write it."""
    for what, most in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            resource.setrlimit(what, (most, most))
        except (ValueError, OSError):
            continue  # unsupported here
    os.nice(LOWER_BY)
    document = json.loads(sys.stdin.buffer.read())
    logging.disable()  # fpdf2 logs each missing character
    try:
        made = import_module("layout").lay_out(document)
    except Exception as error:  # noqa: BLE001  (whatever it is, there is no document)
        sys.stderr.write(type(error).__name__)
        return 1
    sys.stdout.buffer.write(made)
    return 0


if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main(*map(int, sys.argv[1:])))
