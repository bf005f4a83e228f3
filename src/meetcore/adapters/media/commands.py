"""Run one command on one media file, in the child process.

Arguments: limits of CPU seconds and wall-clock seconds, share of a processor; then `measure` and the media's
descriptor; or `copy` or `encode`, start and length in seconds, the descriptors of the media and of an empty
file. `copy` encodes a stretch that cannot be copied.

The reply is one line of JSON: `seconds`, and `is_copied` for a stretch; or `unreadable` with the reason; or
`failed` with the reason, for a shortage of the machine or a bug, in which case the file may be fine. Nothing
else leaves the process: texts of ffmpeg may quote the file.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sys
import threading
import time

from meetcore.adapters.media.sound import Unreadable, longest, measure

# Disk full, no descriptor left: not caused by the input file.
_AT_OUR_END = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)

# Base classes of PyAV's errors.
_FAULTS = (OSError, ValueError, ArithmeticError, MemoryError, LookupError)


def main(arguments: list[str]) -> int:
    """Run one command and write its reply."""
    cpu_s, within_s, share, name, *values = arguments
    end_with_parent()
    signal.signal(signal.SIGXCPU, _out_of_time)
    limit(int(cpu_s), float(within_s))
    throttle_cpu(float(share))
    return reply(outcome_of(name, values))


def outcome_of(name: str, values: list[str]) -> dict[str, object]:
    """Run one command and return its reply."""
    try:
        import av  # noqa: F401  (a missing library is not an unreadable file)
    except ImportError:
        return {"missing": "av"}
    try:
        return run(name, values)
    except Unreadable as error:
        return {"unreadable": str(error)}
    except _FAULTS as error:
        if isinstance(error, OSError) and error.errno in _AT_OUR_END:
            return {"failed": errno.errorcode[error.errno]}
        # Only the type: the text may quote the file.
        return {"unreadable": type(error).__name__}
    except Exception as error:  # noqa: BLE001  (a fault in this program: nothing is known of the file)
        import traceback

        at = traceback.extract_tb(error.__traceback__)[-1]
        return {"failed": f"{type(error).__name__} at {os.path.basename(at.filename)}:{at.lineno}"}


def _out_of_time(*_: object) -> None:
    """Reply that the file takes too much CPU time; the hard limit kills without a reply 5 s later."""
    reply({"unreadable": "more computing than it may take"})
    os._exit(0)


def run(name: str, values: list[str]) -> dict[str, object]:
    """Measure, copy or encode, or raise `Unreadable`."""
    # Import only what the command needs: the process is short-lived.
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


MAX_MEMORY_BYTES = 768 * 1024 * 1024
MAX_OUTPUT_BYTES = 25_000_000

LOWER_BY = 10
"""Leaves other processes about nine times the share; lower, a busy machine would never finish."""

TURN_S = 0.01
"""CPU seconds between two pauses."""


def end_with_parent() -> None:
    """Exit at the end of standard input, which only the parent holds open."""

    def wait() -> None:
        while os.read(0, 1024):
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def limit(cpu_s: int, within_s: float) -> None:
    """Set priority, seconds, memory and output, and disable core dumps."""
    signal.setitimer(signal.ITIMER_REAL, within_s + 1.0)  # the default action kills
    for what, most in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, MAX_MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, MAX_OUTPUT_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            # The soft limit is the lower one: SIGXCPU comes first and is handled.
            resource.setrlimit(what, (most, most + 5 if what == resource.RLIMIT_CPU else most))
        except (ValueError, OSError):
            continue  # unsupported here
    lower_priority()


def lower_priority() -> None:
    """Yield to other processes; the session, which Linux's autogroups share by, is lowered too."""
    os.nice(LOWER_BY)
    if os.getsid(0) == os.getpid():
        try:
            with open("/proc/self/autogroup", "w") as group:
                group.write(str(LOWER_BY))
        except OSError:
            pass  # no autogroups


def throttle_cpu(share: float) -> None:
    """Pause after each turn, so that at most this share of a processor is used.

    With few processors a low priority is not enough: a process that wakes up still waits for the preemption
    of this one, several times per webhook. Time spent waiting for a processor counts as a pause, and is not
    saved up.
    """
    if share >= 1:
        return
    computed_s, resumed_at_s = time.process_time(), time.monotonic()

    def pause(*_: object) -> None:
        nonlocal computed_s, resumed_at_s
        turn_s = time.process_time() - computed_s
        time.sleep(max(0.0, turn_s / share - (time.monotonic() - resumed_at_s)))
        computed_s, resumed_at_s = time.process_time(), time.monotonic()

    signal.signal(signal.SIGPROF, pause)
    signal.setitimer(signal.ITIMER_PROF, TURN_S, TURN_S)
