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
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final

import msgspec
import structlog
from structlog.typing import EventDict, Processor

from meetcore.adapters.system.version import version
from meetcore.ports.log_fields import log_fields

_ENCODER: Final = msgspec.json.Encoder(enc_hook=repr)
_LEVELS: Final = {"exception": "error", "warn": "warning"}
"""The levels of methods that have other names."""
_TIME: Final = structlog.processors.TimeStamper(fmt="iso", utc=True)


def configure_logs(level: str = "info", role: str = "command") -> None:
    """Send every log line of this process to standard error, those of libraries from `warning` up.

    Call it before settings are read, and again with the level that they name. Outside a terminal each line
    says which process wrote it: the service, its version, the role of the process and its pid.
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
    # Plain, because the default form shows the local variables of every frame, secrets among them.
    return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)


def _add_log_fields(_: object, __: str, event: EventDict) -> EventDict:
    return {**log_fields(), **event}


def _line(role: str, encode: Processor) -> Processor:
    """Return a processor that makes a whole line in one step: one is written for each request."""
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
    """Return a processor that adds which process wrote a line; what the line says of itself stays."""
    process = _process(role)

    def add(_: object, __: str, event: EventDict) -> EventDict:
        return {**process, **event}

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
    return {str(name): _plain_value(value) for name, value in event.items()}


def _plain_value(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


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
