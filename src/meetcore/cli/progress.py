"""Progress of long work: a bar in a terminal, plain lines elsewhere, both on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_EVERY_S = 5.0

Report = Callable[[int, int], None]


@contextmanager
def progress(what: str) -> Iterator[Report]:
    """Provide a function that reports how much is done, and of how much."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
    else:
        yield _Lines(what)


class _Lines:
    def __init__(self, what: str) -> None:
        self._what = what
        self._next = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done >= total or now >= self._next:
            self._next = now + LINE_EVERY_S
            sys.stderr.write(f"{self._what}: {done} of {total}\n")
