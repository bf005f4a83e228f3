"""The part of the composition root that chooses the transcriber and the note writer.

An endpoint that speaks OpenAI's API does what the settings give it a model for; the rest is done on this
machine. Owns the one place that knows every assistant by name. The note worker limits the concurrent calls
over all notes.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

import structlog
from attrs import frozen

from meetcore.adapters.local_notes import LocalNoteWriter
from meetcore.adapters.openai import AiAccess, OpenAiNoteWriter, OpenAiTranscriber
from meetcore.adapters.settings import Settings
from meetcore.adapters.speech import LocalTranscriber, can_transcribe
from meetcore.adapters.system import SystemClock
from meetcore.ports.note_writer import NoteWriter
from meetcore.ports.transcriber import Transcriber

__all__ = ["Assistants", "chosen_assistants"]

log = structlog.get_logger("meetcore")


@frozen
class Assistants:
    """The adapters that make notes. Without a transcriber, only recordings with a transcript get notes."""

    transcriber: Transcriber | None
    note_writer: NoteWriter


@asynccontextmanager
async def chosen_assistants(settings: Settings) -> AsyncIterator[Assistants]:
    """Open the transcriber and the note writer that the settings name, while the context lasts.

    Raises:
        SettingsRefused: a key is set without the address of its endpoint.
    """
    settings.require_ai()
    now = SystemClock().now
    access = AiAccess(
        base_url=settings.ai_base_url,
        api_key=str(settings.ai_api_key),
        transcribe_model=settings.ai_transcribe_model,
        write_model=settings.ai_write_model,
        timeout_s=settings.ai_timeout_s,
        returns_timestamps=settings.ai_transcribe_format == "verbose_json",
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
    """Return this machine's transcriber, if any; if not, warn the operator of the effect on notes.

    The sandbox writes a transcript of every recording: it needs no transcriber.
    """
    if can_transcribe():
        return LocalTranscriber()
    if provider != "sandbox":
        log.warning(
            "nothing_hears",
            effect="notes are made only of recordings that the video provider wrote a transcript of",
            hint="set MEETCORE_AI_BASE_URL, or install meetcore[speech] for meetings in English",
        )
    return None
