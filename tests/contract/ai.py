"""An AI endpoint at hand: the stand-in, both adapters on it, and what they logged."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from attrs import field, frozen

from meetcore.adapters.openai import AiAccess, OpenAiNoteWriter, OpenAiTranscriber
from meetcore.testing.ai_server import AiStandIn, ai_stand_in

NOW = datetime(2026, 12, 1, 2, 0, tzinfo=UTC)


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def warning(self, event: str, /, **fields: Any) -> None:
        self.lines.append(("warning", event, fields))

    def error(self, event: str, /, **fields: Any) -> None:
        self.lines.append(("error", event, fields))

    info = exception = warning

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(level, event) for level, event, _ in self.lines]


@frozen
class Ai:
    """Everything of one test."""

    stand_in: AiStandIn
    transcriber: OpenAiTranscriber
    writer: OpenAiNoteWriter
    log: Lines = field(repr=False)


def access_to(stand_in: AiStandIn, **changes: Any) -> AiAccess:
    models = stand_in.models
    settings = {
        "base_url": stand_in.base_url, "api_key": models.api_key, "transcribe_model": models.transcribes,
        "write_model": models.writes, "timeout_s": 10.0,
    }  # fmt: skip
    return AiAccess(**{**settings, **changes})


@asynccontextmanager
async def ai_at_hand(**changes: Any) -> AsyncIterator[Ai]:
    async with ai_stand_in() as stand_in:
        access, log = access_to(stand_in, **changes), Lines()
        transcriber = OpenAiTranscriber(access, log, now=lambda: NOW)
        writer = OpenAiNoteWriter(access, log, now=lambda: NOW)
        try:
            yield Ai(stand_in, transcriber, writer, log)
        finally:
            await transcriber.aclose()
            await writer.aclose()
