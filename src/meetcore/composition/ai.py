"""The AI services by name: one function for each that transcribes, and for each that writes notes.

An endpoint that speaks OpenAI's API does what the settings give it a model for; the rest is done on this
machine. The note worker limits the concurrent calls over all notes.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext

import structlog

from meetcore.adapters.local_notes import LocalNoteWriter
from meetcore.adapters.openai import AiAccess, OpenAiNoteWriter, OpenAiTranscriber
from meetcore.adapters.settings import Settings
from meetcore.adapters.speech import LocalTranscriber, can_transcribe
from meetcore.adapters.system import SystemClock
from meetcore.ports.note_writer import NoteWriter
from meetcore.ports.tracing import NO_TRACING, Tracing
from meetcore.ports.transcriber import Transcriber

log = structlog.get_logger("meetcore")


@asynccontextmanager
async def open_ai(
    settings: Settings, tracing: Tracing = NO_TRACING
) -> AsyncIterator[tuple[Transcriber | None, NoteWriter]]:
    """Open the transcriber, if there is any, and the note writer that the settings name.

    Raises:
        SettingsRefused: a key is set without the address of its endpoint.
    """
    settings.require_ai()
    transcribes = "openai" if settings.ai_base_url and settings.ai_transcribe_model else "local"
    writes = "openai" if settings.ai_base_url and settings.ai_write_model else "local"
    async with (
        TRANSCRIBERS[transcribes](settings, tracing) as transcriber,
        NOTE_WRITERS[writes](settings, tracing) as note_writer,
    ):
        yield transcriber, note_writer


def _openai_transcriber(settings: Settings, tracing: Tracing) -> AbstractAsyncContextManager[Transcriber]:
    return aclosing(OpenAiTranscriber(_access(settings), log, SystemClock().now, tracing))


def _openai_note_writer(settings: Settings, tracing: Tracing) -> AbstractAsyncContextManager[NoteWriter]:
    return aclosing(OpenAiNoteWriter(_access(settings), log, SystemClock().now, tracing))


def _access(settings: Settings) -> AiAccess:
    return AiAccess(
        base_url=settings.ai_base_url,
        api_key=str(settings.ai_api_key),
        transcribe_model=settings.ai_transcribe_model,
        write_model=settings.ai_write_model,
        timeout_s=settings.ai_timeout_s,
        returns_timestamps=settings.ai_transcribe_format == "verbose_json",
        context_chars=settings.ai_context_chars,
    )


def _local_transcriber(settings: Settings, _: Tracing) -> AbstractAsyncContextManager[Transcriber | None]:
    """Return this machine's transcriber, if any; if not, warn the operator of the effect on notes.

    The sandbox writes a transcript of every recording: it needs no transcriber.
    """
    if can_transcribe():
        return nullcontext(LocalTranscriber())
    if settings.provider != "sandbox":
        log.warning(
            "no_transcriber",
            effect="notes are made only of recordings that the video provider wrote a transcript of",
            hint="set MEETCORE_AI_BASE_URL, or install meetcore[speech] for meetings in English",
        )
    return nullcontext(None)


def _local_note_writer(settings: Settings, _: Tracing) -> AbstractAsyncContextManager[NoteWriter]:
    return nullcontext(LocalNoteWriter())


TRANSCRIBERS: dict[str, Callable[[Settings, Tracing], AbstractAsyncContextManager[Transcriber | None]]] = {
    "openai": _openai_transcriber,
    "local": _local_transcriber,
}
NOTE_WRITERS: dict[str, Callable[[Settings, Tracing], AbstractAsyncContextManager[NoteWriter]]] = {
    "openai": _openai_note_writer,
    "local": _local_note_writer,
}
