"""Time in which this process could run, for bounds that hold on a busy machine, too."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_TICK_S = 0.02


@contextmanager
def running_time() -> Iterator[Callable[[], float]]:
    """Count seconds from now on: while the process waits for a processor, none pass."""
    over, ticks = threading.Event(), [0]

    def count() -> None:
        while not over.wait(_TICK_S):
            ticks[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        yield lambda: ticks[0] * _TICK_S
    finally:
        over.set()
        thread.join()
