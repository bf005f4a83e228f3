"""Logs: structlog to standard error, lines for people in a terminal, JSON elsewhere."""

import logging
import sys

import structlog

__all__ = ["configure_logs"]


def configure_logs(level: str) -> None:
    """Send every log line of this process to standard error, from `level` up."""
    number = logging.getLevelNamesMapping()[level.upper()]
    is_terminal = sys.stderr.isatty()
    renderer: structlog.typing.Processor = (
        # Plain, because the default form shows the local variables of every frame, secrets among them.
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if is_terminal
        else structlog.processors.JSONRenderer()
    )
    chain: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if not is_terminal:
        chain.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*chain, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=max(number, logging.WARNING), stream=sys.stderr, format="%(name)s: %(message)s")
