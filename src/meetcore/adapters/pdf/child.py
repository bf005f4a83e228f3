"""One document in a process of its own: its limits, then JSON in and PDF out.

Its arguments are the limits of CPU seconds and bytes of memory, which it puts on itself before it reads
anything. Nothing but a PDF leaves it: the text of an exception may quote the document.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys

LOWER_BY = 10
"""The priority is lowered by this: requests go first."""


def main(arguments: list[str]) -> int:
    """Read a document, lay it out, write it."""
    cpu_s, memory_bytes = map(int, arguments)
    for what, most in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            resource.setrlimit(what, (most, most))
        except (ValueError, OSError):
            continue  # not every system has every limit
    os.nice(LOWER_BY)
    document = json.loads(sys.stdin.buffer.read())
    logging.disable()  # fpdf2 logs each character that its fonts lack
    try:
        from meetcore.adapters.pdf.layout import lay_out

        made = lay_out(document)
    except Exception as error:  # noqa: BLE001  (whatever it is, there is no document)
        sys.stderr.write(type(error).__name__)
        return 1
    sys.stdout.buffer.write(made)
    return 0
