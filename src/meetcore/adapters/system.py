"""Clock, randomness, processes and logs of the operating system: the only place that reads the present.

Logs go to standard error: text in a terminal, else one JSON object per line. Lines of libraries, warnings and
uncaught exceptions have the same form, once `configure_logs` has run.

A process started by `multiprocessing` holds one end of a pipe (Windows: a handle) whose other end only its
parent has, so its end signals the parent's, SIGKILL included. Other processes do not depend on their parent.
"""

import io
import json
import logging
import logging.config
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from types import TracebackType
from typing import Any, Final

import msgspec

from meetcore.ports.observability import log_fields

# structlog would import rich for unused tracebacks: a tenth of the time of a short command.
_HAS_RICH = "rich" in sys.modules or sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
import structlog  # noqa: E402
from structlog.typing import EventDict, Processor  # noqa: E402

if not _HAS_RICH:
    del sys.modules["rich"]


_ENCODER: Final = msgspec.json.Encoder(enc_hook=repr)
_LEVELS: Final = {"exception": "error", "warn": "warning"}
"""Levels of methods with other names."""
_TIME: Final = structlog.processors.TimeStamper(fmt="iso", utc=True)


def configure_logs(level: str = "info", role: str = "command") -> None:
    """Send all log lines of this process to standard error, those of libraries from `warning` up.

    Call it before settings are read, and again with their level. Outside a terminal, lines name the process.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    is_terminal = sys.stderr.isatty()
    binary = None if is_terminal else _bytes_of(sys.stderr)
    encode = _text if binary is None else _bytes
    structlog.configure(
        processors=_for_terminal() if is_terminal else _for_machines(role, encode),
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_WholeLines(sys.stderr, "\n") if binary is None else _WholeLines(binary, b"\n"),
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(stdlib_logging(level, role))
    logging.captureWarnings(True)
    if not is_terminal:
        _log_uncaught_exceptions()


def stdlib_logging(level: str, role: str = "command") -> dict[str, Any]:
    """Return the configuration for `logging.config.dictConfig` and for servers that take one."""
    number = max(logging.getLevelNamesMapping()[level.upper()], logging.WARNING)
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"meetcore": {"()": _formatter, "role": role}},
        "handlers": {
            "meetcore": {
                "class": "meetcore.adapters.system.LibraryHandler",
                "formatter": "meetcore",
                "stream": "ext://sys.stderr",
            }
        },
        "root": {"level": number, "handlers": ["meetcore"]},
    }


def _formatter(role: str) -> logging.Formatter:
    is_terminal = sys.stderr.isatty()
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.contextvars.merge_contextvars,
            _add_log_fields,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            _TIME,
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *([_console()] if is_terminal else _for_library(role)),
        ],
    )


def _for_terminal() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        _add_log_fields,
        structlog.processors.add_log_level,
        _TIME,
        _console(),
    ]


def _for_machines(role: str, encode: Processor) -> list[Processor]:
    return [structlog.contextvars.merge_contextvars, _line(role, encode)]


def _for_library(role: str) -> list[Processor]:
    return [structlog.processors.format_exc_info, _identified(role), _text]


def _console() -> Processor:
    # Plain: the default shows local variables, including secrets.
    return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)


def _add_log_fields(_: object, __: str, event: EventDict) -> EventDict:
    return {**log_fields(), **event}


def _line(role: str, encode: Processor) -> Processor:
    """Return a processor that renders a line in one step: one is written per request."""
    process = _process(role)

    def write(logger: object, name: str, event: EventDict) -> Any:
        if "exc_info" in event:
            event = structlog.processors.format_exc_info(logger, name, event)
        ending = {"level": _LEVELS.get(name, name), "timestamp": datetime.now(UTC)}
        return encode(logger, name, {**process, **log_fields(), **event, **ending})

    return write


def _process(role: str) -> dict[str, Any]:
    return {"service": "meetcore", "version": version(), "role": role, "pid": os.getpid()}


def _identified(role: str) -> Processor:
    """Return a processor that adds service, version, role and pid, unless the line has them."""
    process = _process(role)

    def add(_: object, __: str, event: EventDict) -> EventDict:
        return {**process, **event}

    return add


def _bytes(_: object, __: str, event: EventDict) -> bytes:
    try:
        return _ENCODER.encode(event)
    except (TypeError, ValueError, UnicodeEncodeError, RecursionError):  # such as a lone surrogate
        return json.dumps(_plain(event), default=repr).encode()


def _text(logger: object, name: str, event: EventDict) -> str:
    return _bytes(logger, name, event).decode()


def _plain(event: EventDict) -> dict[str, object]:
    """Convert an event to JSON values; nested values become text."""
    return {str(name): _plain_value(value) for name, value in event.items()}


def _plain_value(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _bytes_of(stream: Any) -> io.BufferedIOBase | None:
    """Return the byte stream below a text stream; `None` without one, as under some test runners."""
    found = getattr(stream, "buffer", None)
    return found if isinstance(found, io.BufferedIOBase) else None


class LogFailures:
    """Counts log lines that could not be written, as on a full disk. They are delayed or lost."""

    def __init__(self) -> None:
        self.total = 0
        self._is_failing = False
        self._reported = 0

    def add(self) -> None:
        """Count one."""
        self.total += 1
        self._is_failing = True

    def since_last(self) -> int:
        """Return how many there were since the last call."""
        before, self._reported = self._reported, self.total
        return self._reported - before

    def end(self) -> None:
        """Log that lines are written again, once after failures."""
        if self._is_failing:
            self._is_failing = False
            structlog.get_logger("meetcore").warning("log lines were not written", count=self.total)


LOG_FAILURES: Final = LogFailures()
"""Those of this process since its start."""


class LibraryHandler(logging.StreamHandler[Any]):
    """Writes the lines of libraries; one that cannot be written is counted."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # as the class above names it
        """Count a line that the stream refused; report a line that cannot be formatted."""
        if isinstance(sys.exception(), OSError):
            LOG_FAILURES.add()
        else:
            super().handleError(record)


class _WholeLines:
    """A logger and its factory; writes each line with one call, so that threads do not mix lines.

    A line that cannot be written is counted and never raises into the program.
    """

    def __init__(self, stream: Any, end: str | bytes) -> None:
        self._stream = stream
        self._end = end
        self._lock = threading.Lock()

    def __call__(self, *_: object) -> "_WholeLines":
        return self

    def msg(self, line: Any) -> None:
        try:
            with self._lock:
                self._stream.write(line + self._end)
                self._stream.flush()
        except (OSError, ValueError):  # a full disk, a reader that is gone, a closed stream
            LOG_FAILURES.add()
        else:
            LOG_FAILURES.end()

    debug = info = warning = error = critical = exception = fatal = failure = err = log = msg


def _log_uncaught_exceptions() -> None:
    log = structlog.get_logger("meetcore")

    def main(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
        else:
            log.critical("uncaught exception", exc_info=(kind, error, trace))

    def in_thread(details: threading.ExceptHookArgs) -> None:
        if not issubclass(details.exc_type, SystemExit) and details.exc_value is not None:
            name = None if details.thread is None else details.thread.name
            trace = (details.exc_type, details.exc_value, details.exc_traceback)
            log.critical("uncaught exception", thread=name, exc_info=trace)

    def unraisable(details: Any) -> None:
        if isinstance(details.exc_value, OSError) and "ignored due to race condition" in str(
            details.exc_value
        ):
            return  # Python's note on a signal that came while it was being set to be ignored
        trace = (details.exc_type, details.exc_value, details.exc_traceback)
        log.error("exception ignored", during=details.err_msg or "a destructor", exc_info=trace)

    sys.excepthook, threading.excepthook, sys.unraisablehook = main, in_thread, unraisable


# The monotonic clock stands still while the machine is suspended.
_UPTIME: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The wall clock, which may jump, and one that does not."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def uptime(self) -> float:
        return time.clock_gettime(_UPTIME)


class SystemEntropy:
    """The kernel's cryptographic random generator."""

    def token_bytes(self, count: int) -> bytes:
        return os.urandom(count)


def cores() -> int:
    """Return the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


OTHER_FILES: Final = 1024
"""Open files besides connections and webhook posts: kept connections to receivers, database, broker, logs."""


def allow_open_files(wanted: int) -> int:
    """Raise the soft limit of open files up to the hard one; return that in force, or the wanted one."""
    if sys.platform == "win32":  # pragma: no cover - has no such limit
        return wanted
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if target > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return max(soft, target)


@cache
def version() -> str:
    """Return the installed version; `0` in a checkout that is not installed."""
    try:
        return metadata.version("meetcore")
    except metadata.PackageNotFoundError:
        return "0"


def at_end_of_parent(act: Callable[[], object]) -> None:
    """Call a function from a thread after the parent ended; never without a `multiprocessing` parent."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        act()

    threading.Thread(target=wait, name="parent", daemon=True).start()


def stop_with_parent() -> None:
    """Raise SIGTERM after the parent ended. Call it once the signal has a handler."""
    at_end_of_parent(_stop)


def _stop() -> None:
    structlog.get_logger("meetcore").warning("parent process ended")
    signal.raise_signal(signal.SIGTERM)


def notify_ready() -> None:
    """Tell the service manager that the process works (`Type=notify` of systemd); nothing without one."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if not place or sys.platform == "win32":
        return
    with (
        suppress(OSError),  # a manager that is gone does not stop the service
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager,
    ):
        manager.connect("\0" + place[1:] if place.startswith("@") else place)
        manager.send(b"READY=1")


def notify_when(is_ready: Callable[[], bool]) -> None:
    """Call `notify_ready` from a thread once a condition holds; without a service manager, do nothing."""
    if os.environ.get("NOTIFY_SOCKET"):
        call_when(is_ready, notify_ready)


def call_when(is_so: Callable[[], bool], act: Callable[[], None], every_s: float = 0.1) -> None:
    """Call `act` from a thread once a condition holds."""

    def wait() -> None:
        while not is_so():
            time.sleep(every_s)
        act()

    threading.Thread(target=wait, name="ready", daemon=True).start()
