"""The check of an AI endpoint: one small request to each of its models, made as for a note."""

import asyncio
from typing import TYPE_CHECKING, Any

from meetcore.adapters.settings import Settings
from meetcore.adapters.system import SystemClock
from meetcore.composition import doctor, providers
from meetcore.ports.ai import AiRefused, AiUnavailable
from meetcore.ports.figures import HealthStatus

if TYPE_CHECKING:
    from meetcore.adapters.openai import AiAccess

MODELS_DEADLINE_S = 90.0
"""Seconds for both models: a server of one's own may have to load them first."""


class _Lines:
    """A log that keeps the fields of what an operator is told."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.events: list[str] = []

    def error(self, event: str, /, **fields: Any) -> None:
        """Keep a line."""
        self.events.append(event)
        self.fields |= fields

    info = warning = exception = error


def check_models(settings: Settings) -> doctor.CheckResult:
    """Ask the endpoint for its models, then each of ours for a small piece of work."""
    listed = doctor.SERVICE_CHECKS["ai"](settings)
    if not settings.ai_base_url or listed.status is HealthStatus.FAILED:
        return listed
    access = providers.ai_access(settings)
    asked = [("MEETCORE_AI_WRITE_MODEL", _write), ("MEETCORE_AI_TRANSCRIBE_MODEL", _transcribe)]
    faults = [
        f"{fault}: check {name} and what the server offers"
        for name, ask in asked
        if getattr(settings, name.removeprefix("MEETCORE_").lower()) and (fault := asyncio.run(ask(access)))
    ]
    if faults:
        return doctor.failed(f"{'; '.join(faults)}; notes wait until then")
    return doctor.ok("the models answer a small request as they should")


async def _write(access: "AiAccess") -> str | None:
    """Let the model write the notes of one sentence; return its fault."""
    from meetcore.adapters.openai import OpenAiNoteWriter
    from meetcore.adapters.openai.writer import TooLong

    log = _Lines()
    writer = OpenAiNoteWriter(access, log, SystemClock().now)
    try:
        await writer.check()
    except (AiUnavailable, AiRefused, TooLong) as error:
        return _fault("POST /chat/completions", error, log)
    finally:
        await writer.aclose()
    return None


async def _transcribe(access: "AiAccess") -> str | None:
    """Let the model transcribe a second of silence; return its fault."""
    from meetcore.adapters.openai import OpenAiTranscriber

    log = _Lines()
    transcriber = OpenAiTranscriber(access, log, SystemClock().now)
    try:
        await transcriber.check()
    except (AiUnavailable, AiRefused) as error:
        return _fault("POST /audio/transcriptions", error, log)
    finally:
        await transcriber.aclose()
    return None


def _fault(call: str, error: Exception, log: _Lines) -> str:
    named = [str(log.fields[name]) for name in ("code", "param") if log.fields.get(name)]
    text = str(error).removeprefix("ai: ")
    return f"{call}: {text} ({', '.join(named)})" if named else f"{call}: {text}"
