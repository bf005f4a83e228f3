"""One act on one file of media, in a process of its own.

Its arguments are the limits of CPU and wall-clock seconds, and the share of a processor; then
`measure` and the descriptor of the media; or `copy` or `encode`, from which second, how many seconds, the
media's descriptor and that of an empty file. `copy` encodes what cannot be copied. It writes one line of
JSON: `seconds`, and of a stretch whether it `is_copied`; or `unreadable` and why; or `failed` and why, where
this machine is at its end, or there is a fault in here, and the file may be fine.

Owns that protocol. Nothing but such a line leaves the process: a text of ffmpeg's may
quote what is in the file.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys

from meetcore.adapters.media.limits import end_with_parent, limit, throttle_cpu
from meetcore.adapters.media.sound import Unreadable, longest, measure

# No room on the disk, no descriptor left: nothing that a file could bring about.
_AT_OUR_END = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)

# PyAV's errors are among these.
_FAULTS = (OSError, ValueError, ArithmeticError, MemoryError, LookupError)


def main(arguments: list[str]) -> int:
    """Run one command and report its result."""
    cpu_s, within_s, share, name, *values = arguments
    end_with_parent()
    signal.signal(signal.SIGXCPU, _out_of_time)
    limit(int(cpu_s), float(within_s))
    throttle_cpu(float(share))
    try:
        import av  # noqa: F401  (a missing library is not an unreadable file)
    except ImportError:
        return reply({"missing": "av"})
    try:
        return reply(run(name, values))
    except Unreadable as error:
        return reply({"unreadable": str(error)})
    except _FAULTS as error:
        if isinstance(error, OSError) and error.errno in _AT_OUR_END:
            return reply({"failed": errno.errorcode[error.errno]})
        # Only the kind: a text may quote what is in the file.
        return reply({"unreadable": type(error).__name__})
    except Exception as error:  # noqa: BLE001  (a fault in this program: nothing is known of the file)
        import traceback

        at = traceback.extract_tb(error.__traceback__)[-1]
        return reply({"failed": f"{type(error).__name__} at {os.path.basename(at.filename)}:{at.lineno}"})


def _out_of_time(*_: object) -> None:
    """Answer that the file takes too much computing; the hard limit, 5 s later, kills without an answer."""
    reply({"unreadable": "more computing than it may take"})
    os._exit(0)


def run(name: str, values: list[str]) -> dict[str, object]:
    """Measure, copy or encode.

    Raises:
        Unreadable: see `measure`, `copy` and `encode`.
    """
    # Only what the command needs: a process is short-lived.
    if name == "measure":
        return {"seconds": measure(int(values[0]))}
    from_s, length_s, media, into = float(values[0]), float(values[1]), int(values[2]), int(values[3])
    index = longest(media)
    if name == "copy":
        from meetcore.adapters.media.aac import NotCopied, copy

        try:
            return {"seconds": copy(media, index, into, from_s, length_s), "is_copied": True}
        except (NotCopied, *_FAULTS):
            os.ftruncate(into, 0)
            os.lseek(into, 0, os.SEEK_SET)
    from meetcore.adapters.media.opus import encode

    return {"seconds": encode(media, index, into, from_s, length_s), "is_copied": False}


def reply(values: dict[str, object]) -> int:
    """Write one line for the parent."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()
    return 0
