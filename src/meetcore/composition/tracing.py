"""The traces of this process: recorded where a collector is named, and nowhere else.

Without one the package for traces is not imported. The thread that sends begins here, in the process that
records.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec

from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.adapters.system import version
from meetcore.ports.tracing import NO_TRACING, Tracing


def has_traces() -> bool:
    """Return whether the extra `traces` is installed."""
    try:
        return all(map(find_spec, ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.common")))
    except ModuleNotFoundError:  # of a package above
        return False


def check_traces(settings: Settings) -> None:
    """Make sure that traces can be sent where a collector is named.

    Raises:
        SettingsRefused: the extra is not installed.
    """
    if settings.traces_url and not has_traces():
        raise SettingsRefused(
            "MEETCORE_TRACES_URL needs a package that is not installed: pip install 'meetcore[traces]'"
        )


@asynccontextmanager
async def open_tracing(settings: Settings, role: str) -> AsyncIterator[Tracing]:
    """Open the traces of a process, and send what is left of them at the end, within a few seconds.

    Args:
        role: of the process, as its log lines name it.

    Raises:
        SettingsRefused: see `check_traces`.
    """
    check_traces(settings)
    if not settings.traces_url or role == "command":  # which records no request, and is over at once
        yield NO_TRACING
        return
    from meetcore.adapters.otlp.exporter import close_provider, open_provider  # an extra
    from meetcore.adapters.otlp.sampling import Sampling
    from meetcore.adapters.otlp.tracing import OtlpTracing

    process: dict[str, str | int] = {
        "service.name": "meetcore", "service.version": version(), "meetcore.role": role,
        "process.pid": os.getpid(),
    }  # fmt: skip
    provider = open_provider(settings.traces_url, settings.traces_header_fields, process)
    try:
        yield OtlpTracing(provider, Sampling(settings.traces_sampled, settings.traces_callers_per_s))
    finally:
        await asyncio.to_thread(close_provider, provider)
