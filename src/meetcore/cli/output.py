"""The program's output, the progress of long work, and exit codes.

With `--json`, standard output is one JSON document; people get lines and tables. Errors go to standard error
as text, and with `--json` to standard output as `{"error": {...}}` too.

    0  done                           3  a setting is impossible or missing
    1  refused, with the reason       4  the database does not answer
    2  the command line is not valid  130  interrupted, before it was done
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from shutil import get_terminal_size
from typing import Any

Record = Mapping[str, object]
Report = Callable[[int, int], None]
"""Reports how much of long work is done, and of how much."""

LINE_EVERY_S = 5.0

_writes_log = False


class ExitCode(IntEnum):
    """How the program ended."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    SETTINGS = 3
    STORE_UNAVAILABLE = 4
    INTERRUPTED = 130


@contextmanager
def until_unread() -> Iterator[None]:
    """Write to standard output until nothing reads it any more, as behind `| head -1`; drop the rest."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes once more at its end


def show(record: Record | Sequence[Record], *, as_json: bool) -> None:
    """Print a record, or a list of them."""
    with until_unread():
        if as_json:
            document: object = (
                dict(record) if isinstance(record, Mapping) else {"data": [dict(each) for each in record]}
            )
            sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
        elif isinstance(record, Mapping):
            _print_fields(record)
        else:
            _print_table(record)


def _print_fields(record: Record) -> None:
    width = max(map(len, record), default=0)
    for name, value in record.items():
        sys.stdout.write(f"{name:<{width}}  {_plain(value)}\n")


def _print_table(records: Sequence[Record]) -> None:
    """Print a line for each record; in a terminal that is too narrow a block, for an id is copied whole."""
    if not records:
        sys.stdout.write("none\n")
        return
    from rich.cells import cell_len, set_cell_size  # most commands end without it

    rows = [list(records[0]), *([_plain(value) for value in each.values()] for each in records)]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    if sys.stdout.isatty() and sum(widths) + 2 * len(widths) - 2 > get_terminal_size().columns:
        for number, each in enumerate(records):
            sys.stdout.write("\n" if number else "")
            _print_fields(each)
        return
    for row in rows:
        sys.stdout.write("  ".join(map(set_cell_size, row, widths)) + "\n")


def _plain(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return " ".join(str(item) for item in value)
        case _:
            return str(value)


def print_message(text: str, *, as_json: bool = False) -> None:
    """Print a message for a person; with `--json` to standard error."""
    stream = sys.stderr if as_json else sys.stdout
    stream.write(text + "\n")
    stream.flush()  # the program goes on, and its reader may be a pipe


def log_refusals(role: str) -> None:
    """Make a refusal a log line outside a terminal: for programs whose standard error is their log."""
    global _writes_log
    from meetcore.adapters.system import configure_logs

    configure_logs(role=role)
    _writes_log = not sys.stderr.isatty()


def log_or_print(text: str) -> None:
    """Print a message to the operator of a service; outside a terminal, log it."""
    if _writes_log:
        _log().info(text)
    else:
        print_message(text, as_json=True)


def _log() -> Any:
    import structlog  # most commands end without it

    return structlog.get_logger("meetcore")


def complain(code: str, message: str, *, as_json: bool) -> None:
    """Report an error."""
    if _writes_log:
        _log().critical(message, code=code)
        return
    sys.stderr.write(f"meetcore: {message}\n")
    if as_json:
        sys.stdout.write(json.dumps({"error": {"code": code, "message": message}}, ensure_ascii=False) + "\n")


@contextmanager
def progress(what: str) -> Iterator[Report]:
    """Yield a function that shows progress on standard error: a bar in a terminal, plain lines elsewhere."""
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
        self._last = (0, 0)

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if (done >= total or now >= self._next) and self._last != (done, total):
            self._next, self._last = now + LINE_EVERY_S, (done, total)
            sys.stderr.write(f"{self._what}: {done} of {total}\n")
