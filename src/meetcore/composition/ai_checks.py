"""The checks of an AI endpoint: its list of models, and one small request to each, made as for a note."""

import asyncio
from typing import TYPE_CHECKING, Any

from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.adapters.system import SystemClock
from meetcore.composition import doctor, providers
from meetcore.ports.ai import AiRefused, AiUnavailable
from meetcore.ports.figures import CheckResult, HealthStatus, failed, ok, warning

if TYPE_CHECKING:
    from meetcore.adapters.openai import AiAccess

MODELS_DEADLINE_S = 90.0
"""Seconds for both models: a server of one's own may have to load them first."""


class _Lines:
    """A log that keeps the fields of its lines, for an operator."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.events: list[str] = []

    def error(self, event: str, /, **fields: Any) -> None:
        """Keep a line."""
        self.events.append(event)
        self.fields |= fields

    info = warning = exception = error


def check_endpoint(settings: Settings) -> CheckResult:
    """Ask the endpoint, if any, for its models."""
    try:
        settings.require_ai()
    except SettingsRefused as error:
        return failed(str(error))
    if not settings.ai_base_url:
        from meetcore.adapters import speech

        own = "this machine transcribes" if speech.can_transcribe() else "nothing transcribes"
        return ok(f"none set: {own}, and rules write the notes")
    key = str(settings.ai_api_key)
    status, body = doctor.read_json(
        f"{settings.ai_base_url}/models", {"Authorization": f"Bearer {key}"} if key else {}
    )
    match status:
        case 0:
            return failed("no answer: check MEETCORE_AI_BASE_URL; notes wait until it answers")
        case 401 | 403:
            return failed("the key is refused: check MEETCORE_AI_API_KEY; notes wait until then")
        case 200:
            return _judge_models(settings, body)
        case 404 | 405:
            return warning("answers, and lists no models: whether ours are there shows with the first note")
        case _:
            return failed(f"answers with status {status}: check MEETCORE_AI_BASE_URL")


def _judge_models(settings: Settings, body: Any) -> CheckResult:
    listed = body.get("data") if isinstance(body, dict) else None
    known = {model.get("id") for model in listed or () if isinstance(model, dict)}
    wanted = {
        "MEETCORE_AI_TRANSCRIBE_MODEL": (settings.transcriber_name, settings.ai_transcribe_model),
        "MEETCORE_AI_WRITE_MODEL": (settings.writer_name, settings.ai_write_model),
    }
    lacking = [name for name, (by, model) in wanted.items() if by == "openai" and model not in known]
    if known and lacking:
        return warning(f"lets us in, and does not list the model of {' and '.join(lacking)}")
    return ok("lets us in")


def check_models(settings: Settings) -> CheckResult:
    """Ask the endpoint for its models, then each of ours for a small piece of work."""
    listed = doctor.SERVICE_CHECKS["ai"](settings)
    if not settings.ai_base_url or listed.status is HealthStatus.FAILED:
        return listed
    access = providers.ai_access(settings)
    asked = [
        ("MEETCORE_AI_WRITE_MODEL", settings.writer_name, _write),
        ("MEETCORE_AI_TRANSCRIBE_MODEL", settings.transcriber_name, _transcribe),
    ]
    faults = [
        f"{fault}: check {name} and what the server offers"
        for name, by, ask in asked
        if by == "openai" and (fault := asyncio.run(ask(access)))
    ]
    if faults:
        return failed(f"{'; '.join(faults)}; notes wait until then")
    return ok("the models answer a small request as they should")


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
