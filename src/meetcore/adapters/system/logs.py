"""Logs on standard error: lines for people in a terminal, one JSON object a line elsewhere.

The lines of libraries, warnings and uncaught exceptions take the same form. Only what the interpreter writes
before `configure_logs` was called does not.
"""

import io
import json
import logging
import logging.config
import os
import sys
import threading
from types import TracebackType
from typing import Any, Final

import msgspec
import structlog
from structlog.typing import EventDict, Processor

from meetcore.adapters.system.version import version

_ENCODER: Final = msgspec.json.Encoder(enc_hook=repr)
_TIME: Final = structlog.processors.TimeStamper(fmt="iso", utc=True)


def configure_logs(level: str = "info", role: str = "command") -> None:
    """Send every log line of this process to standard error, those of libraries from `warning` up.

    Call it before settings are read, and again with the level that they name. Outside a terminal each line
    says which process wrote it: the service, its version, the role of the process and its pid.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    is_terminal = sys.stderr.isatty()
    binary = None if is_terminal else _bytes_of(sys.stderr)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _TIME,
            *_ending(role, is_terminal=is_terminal, encode=_text if binary is None else _bytes),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_WholeLines(sys.stderr, "\n") if binary is None else _WholeLines(binary, b"\n"),
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(stdlib_logging(level, role))
    logging.captureWarnings(True)
    if not is_terminal:
        _log_uncaught_exceptions()


def stdlib_logging(level: str, role: str = "command") -> dict[str, Any]:
    """The configuration of `logging` for `logging.config.dictConfig`, and for servers that take one.

    Args:
        role: of the process that it is for.
    """
    number = max(logging.getLevelNamesMapping()[level.upper()], logging.WARNING)
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"meetcore": {"()": _formatter, "role": role}},
        "handlers": {
            "meetcore": {
                "class": "logging.StreamHandler",
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
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            _TIME,
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *_ending(role, is_terminal=is_terminal, encode=_text),
        ],
    )


def _ending(role: str, *, is_terminal: bool, encode: Processor) -> list[Processor]:
    if is_terminal:
        # Plain, because the default form shows the local variables of every frame, secrets among them.
        return [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    return [structlog.processors.format_exc_info, _identified(role), encode]


def _identified(role: str) -> Processor:
    """Return a processor that adds which process wrote a line; what the line says of itself stays."""
    fields = {"service": "meetcore", "version": version(), "role": role, "pid": os.getpid()}

    def add(_: object, __: str, event: EventDict) -> EventDict:
        return {**fields, **event}

    return add


def _bytes(_: object, __: str, event: EventDict) -> bytes:
    try:
        return _ENCODER.encode(event)
    except (TypeError, ValueError, UnicodeEncodeError, RecursionError):  # a lone surrogate, a strange key
        return json.dumps(_plain(event), default=repr).encode()


def _text(logger: object, name: str, event: EventDict) -> str:
    return _bytes(logger, name, event).decode()


def _plain(event: EventDict) -> dict[str, object]:
    """Convert an event to values that JSON accepts: nested values become text."""
    return {
        str(name): value if isinstance(value, str | int | float | bool | None) else repr(value)
        for name, value in event.items()
    }


def _bytes_of(stream: Any) -> io.BufferedIOBase | None:
    """Return the stream below a stream of text; `None` where there is none, as under some test runners."""
    found = getattr(stream, "buffer", None)
    return found if isinstance(found, io.BufferedIOBase) else None


class _WholeLines:
    """A logger and its factory; writes each line with one call, so that lines of threads do not mix."""

    def __init__(self, stream: Any, end: str | bytes) -> None:
        self._stream = stream
        self._end = end
        self._lock = threading.Lock()

    def __call__(self, *_: object) -> "_WholeLines":
        return self

    def msg(self, line: Any) -> None:
        with self._lock:
            self._stream.write(line + self._end)
            self._stream.flush()

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
        trace = (details.exc_type, details.exc_value, details.exc_traceback)
        log.error("exception ignored", during=details.err_msg or "a destructor", exc_info=trace)

    sys.excepthook, threading.excepthook, sys.unraisablehook = main, in_thread, unraisable
