"""The part of the composition root that chooses who hears recordings and who writes notes.

An endpoint that speaks OpenAI's API does what the settings give it a model for; the rest is done on this
machine. Owns the one place that knows every assistant by name. Refuses to bound how many calls there are at
once over all notes: whoever works on notes does.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

import structlog
from attrs import frozen

from meetcore.adapters.local_notes import LocalNoteWriter
from meetcore.adapters.openai import AiAccess, OpenAiNoteWriter, OpenAiTranscriber
from meetcore.adapters.settings import Settings
from meetcore.adapters.speech import LocalTranscriber, can_hear
from meetcore.adapters.system import SystemClock
from meetcore.ports.note_writer import NoteWriter
from meetcore.ports.transcriber import Transcriber

__all__ = ["Assistants", "chosen_assistants"]

log = structlog.get_logger("meetcore")


@frozen
class Assistants:
    """Who works on notes. Without a transcriber there are notes only where the provider wrote it down."""

    transcriber: Transcriber | None
    note_writer: NoteWriter


@asynccontextmanager
async def chosen_assistants(settings: Settings) -> AsyncIterator[Assistants]:
    """Who hears and who writes by the settings, and their connections while the context lasts.

    Raises:
        SettingsRefused: a key is set, and not whose it is.
    """
    settings.require_ai()
    now = SystemClock().now
    access = AiAccess(
        base_url=settings.ai_base_url,
        api_key=str(settings.ai_api_key),
        transcribe_model=settings.ai_transcribe_model,
        write_model=settings.ai_write_model,
        timeout_s=settings.ai_timeout_s,
        tells_times=settings.ai_transcribe_format == "verbose_json",
        context_chars=settings.ai_context_chars,
    )
    async with AsyncExitStack() as stack:
        transcriber: Transcriber | None
        note_writer: NoteWriter
        if access.base_url and access.transcribe_model:
            transcriber = await stack.enter_async_context(aclosing(OpenAiTranscriber(access, log, now)))
        else:
            transcriber = _own_transcriber(settings.provider)
        if access.base_url and access.write_model:
            note_writer = await stack.enter_async_context(aclosing(OpenAiNoteWriter(access, log, now)))
        else:
            note_writer = LocalNoteWriter()
        yield Assistants(transcriber, note_writer)


def _own_transcriber(provider: str) -> Transcriber | None:
    """This machine's, if it has one; if not, the operator is told what notes there will be.

    The sandbox writes a transcript of every recording: there nothing is missing.
    """
    if can_hear():
        return LocalTranscriber()
    if provider != "sandbox":
        log.warning(
            "nothing_hears",
            effect="notes are made only of recordings that the video provider wrote a transcript of",
            hint="set MEETCORE_AI_BASE_URL, or install meetcore[speech] for meetings in English",
        )
    return None
