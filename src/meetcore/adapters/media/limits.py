"""What a process that works on media may take: time, memory, output, and how much of a processor at once.

Owns the limits, which the process puts on itself before it opens anything. Knows nothing of its task.
"""

from __future__ import annotations

import os
import resource
import signal
import threading
import time

MAX_MEMORY_BYTES = 768 * 1024 * 1024
MAX_OUTPUT_BYTES = 25_000_000

LOWER_BY = 10
"""Others have about nine times the share; at the lowest priority a busy machine would never be done."""

TURN_S = 0.01
"""Seconds of computing between two rests."""


def end_with_parent() -> None:
    """End when standard input does: only the parent holds its other end."""

    def wait() -> None:
        while os.read(0, 1024):
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def limit(cpu_s: int, within_s: float) -> None:
    """Put the limits on this process: priority, seconds, memory, output, no core of a meeting's sound."""
    signal.setitimer(signal.ITIMER_REAL, within_s + 1.0)  # ends it if nothing else does
    for what, most in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, MAX_MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, MAX_OUTPUT_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            # With the hard limit of the seconds above the soft one, SIGXCPU comes first, which is handled.
            resource.setrlimit(what, (most, most + 5 if what == resource.RLIMIT_CPU else most))
        except (ValueError, OSError):
            continue  # not every system has every limit
    lower_priority()


def lower_priority() -> None:
    """Take a small share where others want the time, too.

    Where Linux shares its processors between sessions first, a process's own priority counts for nothing
    outside of its session: this one, in which it is alone, has one too.
    """
    os.nice(LOWER_BY)
    if os.getsid(0) == os.getpid():
        try:
            with open("/proc/self/autogroup", "w") as group:
                group.write(str(LOWER_BY))
        except OSError:
            pass  # not every system shares so


def throttle_cpu(share: float) -> None:
    """Pause after each turn of computing, so that no more than this share of a processor is used.

    A low priority is not enough on a machine of few processors: a process that wakes up there still waits
    until this one is preempted, several times for each webhook. Time spent waiting for a processor counts as
    a pause; nothing is saved up for later.
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
