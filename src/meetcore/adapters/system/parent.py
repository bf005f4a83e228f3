"""The end of the process that started this one.

A process that `multiprocessing` started holds one end of a pipe (Windows: a handle) whose other end only its
parent has. End of file means that the parent has ended for any reason, kill -9 included. The processes of a
server and of a worker are started so; one that was started otherwise has no parent that it depends on.
"""

import multiprocessing
import signal
from collections.abc import Callable
from threading import Thread

import structlog

__all__ = ["at_end_of_parent", "stop_with_parent"]

log = structlog.get_logger("meetcore")


def at_end_of_parent(act: Callable[[], object]) -> None:
    """Call a function, in a thread of its own, once the parent has ended.

    It is never called in a process that `multiprocessing` did not start.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        act()

    Thread(target=wait, name="parent", daemon=True).start()


def stop_with_parent() -> None:
    """Raise SIGTERM here once the parent has ended: the process stops as if it had been asked to.

    Call it when the signal is handled: before that it ends the process at once.
    """
    at_end_of_parent(_stop)


def _stop() -> None:
    log.warning("parent process ended")
    signal.raise_signal(signal.SIGTERM)
