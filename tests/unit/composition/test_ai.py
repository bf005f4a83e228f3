"""The transcriber and the note writer, by the settings."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from meetcore.adapters.local_notes import LocalNoteWriter
from meetcore.adapters.openai import OpenAiNoteWriter, OpenAiTranscriber
from meetcore.adapters.settings import SecretStr, Settings, SettingsRefused
from meetcore.adapters.speech import LocalTranscriber
from meetcore.composition.plugins import ServiceParts
from meetcore.composition.providers import open_ai
from meetcore.domain.notes.notes import Language
from meetcore.ports.ai import NoteWriter, Transcriber
from meetcore.testing.ai_server import ai_stand_in
from meetcore.testing.contracts.notes import MEETINGS
from tests.support.kept_log import capture_own_logs

KEY = "sk-of-a-customer"


def settings(**values: Any) -> Settings:
    secret = SecretStr(values.pop("ai_api_key", ""))
    return Settings(ai_api_key=secret, **values)


@asynccontextmanager
async def opened(chosen: Settings) -> AsyncIterator[tuple[Transcriber | None, NoteWriter]]:
    async with AsyncExitStack() as stack:
        yield open_ai(ServiceParts(chosen), stack)


@pytest.fixture
def set_recognizer(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    return lambda can: monkeypatch.setattr("meetcore.adapters.speech.can_transcribe", lambda: can)


async def test_without_an_endpoint_local_adapters_are_used_and_missing_ones_are_logged(
    set_recognizer: Callable[[bool], None],
):
    set_recognizer(True)
    async with opened(settings()) as (transcriber, note_writer):
        assert isinstance(transcriber, LocalTranscriber)
        assert isinstance(note_writer, LocalNoteWriter)
    set_recognizer(False)
    with capture_own_logs() as logged:
        async with opened(settings(provider="jitsi")) as (transcriber, note_writer):
            assert transcriber is None
            assert isinstance(note_writer, LocalNoteWriter)
    assert [(line["event"], line["log_level"]) for line in logged] == [("no_transcriber", "warning")]


async def test_the_sandbox_needs_no_transcriber_and_logs_no_warning(set_recognizer: Callable[[bool], None]):
    set_recognizer(False)
    with capture_own_logs() as logged:
        async with opened(settings(provider="sandbox")) as (transcriber, _):
            assert transcriber is None
    assert logged == []


@pytest.mark.parametrize(("models", "transcribes", "writes"), [
    ({}, OpenAiTranscriber, OpenAiNoteWriter),
    ({"ai_transcribe_model": ""}, LocalTranscriber, OpenAiNoteWriter),
    ({"ai_write_model": ""}, OpenAiTranscriber, LocalNoteWriter),
])  # fmt: skip
async def test_an_endpoint_is_used_for_each_task_with_a_model(
    set_recognizer: Callable[[bool], None], models: dict[str, str], transcribes: type, writes: type
):
    set_recognizer(True)
    async with opened(settings(ai_base_url="http://127.0.0.1:9/v1", **models)) as (transcriber, note_writer):
        assert isinstance(transcriber, transcribes)
        assert isinstance(note_writer, writes)


async def test_the_settings_reach_the_endpoint():
    async with ai_stand_in() as stand_in:
        chosen_settings = settings(
            ai_base_url=f"{stand_in.base_url}/",
            ai_api_key=stand_in.models.api_key,
            ai_transcribe_format="json",
        )
        async with opened(chosen_settings) as (transcriber, note_writer):
            assert (await note_writer.write(MEETINGS["english"], Language.ENGLISH)).decisions
            assert transcriber is not None
            assert transcriber.max_piece_s == 60
        assert stand_in.tally.done == {"completions": 1}


async def test_a_key_without_an_address_is_refused_without_being_shown():
    with pytest.raises(SettingsRefused) as refused:
        async with opened(settings(ai_api_key=KEY)):
            pass
    assert "MEETCORE_AI_BASE_URL" in str(refused.value)
    assert KEY not in str(refused.value) + repr(settings(ai_api_key=KEY))
