"""Who hears and who writes, by the settings."""

from collections.abc import Callable
from typing import Any

import pytest
import structlog
import typed_settings

from meetcore import assistants
from meetcore.adapters.local_notes import LocalNoteWriter
from meetcore.adapters.openai import OpenAiNoteWriter, OpenAiTranscriber
from meetcore.adapters.settings import Settings, SettingsRefused, load_settings
from meetcore.adapters.speech import LocalTranscriber
from meetcore.assistants import chosen_assistants
from meetcore.domain.notes import Language
from meetcore.testing.ai_server import ai_stand_in
from meetcore.testing.contracts.note_writer import MEETINGS

KEY = "sk-of-a-customer"


def settings(**told: Any) -> Settings:
    secret = typed_settings.SecretStr(told.pop("ai_api_key", ""))
    return Settings(ai_api_key=secret, **told)


@pytest.fixture
def hears(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    return lambda can: monkeypatch.setattr(assistants, "can_hear", lambda: can)


async def test_without_an_endpoint_this_machine_does_it_and_says_what_it_cannot(
    hears: Callable[[bool], None],
):
    hears(True)
    async with chosen_assistants(settings()) as chosen:
        assert isinstance(chosen.transcriber, LocalTranscriber)
        assert isinstance(chosen.note_writer, LocalNoteWriter)
    hears(False)
    with structlog.testing.capture_logs() as logged:
        async with chosen_assistants(settings(provider="jitsi")) as chosen:
            assert chosen.transcriber is None
            assert isinstance(chosen.note_writer, LocalNoteWriter)
    assert [(line["event"], line["log_level"]) for line in logged] == [("nothing_hears", "warning")]


async def test_the_sandbox_is_not_warned_of_for_it_writes_every_transcript(hears: Callable[[bool], None]):
    hears(False)
    with structlog.testing.capture_logs() as logged:
        async with chosen_assistants(settings(provider="sandbox")) as chosen:
            assert chosen.transcriber is None
    assert logged == []


@pytest.mark.parametrize(("models", "hearing", "writing"), [
    ({}, OpenAiTranscriber, OpenAiNoteWriter),
    ({"ai_transcribe_model": ""}, LocalTranscriber, OpenAiNoteWriter),
    ({"ai_write_model": ""}, OpenAiTranscriber, LocalNoteWriter),
])  # fmt: skip
async def test_an_endpoint_does_what_it_has_a_model_for(
    hears: Callable[[bool], None], models: dict[str, str], hearing: type, writing: type
):
    hears(True)
    async with chosen_assistants(settings(ai_base_url="http://127.0.0.1:9/v1", **models)) as chosen:
        assert isinstance(chosen.transcriber, hearing)
        assert isinstance(chosen.note_writer, writing)


async def test_the_settings_reach_the_endpoint():
    async with ai_stand_in() as ai:
        told = settings(
            ai_base_url=f"{ai.base_url}/", ai_api_key=ai.models.api_key, ai_transcribe_format="json"
        )
        async with chosen_assistants(told) as chosen:
            assert (await chosen.note_writer.write(MEETINGS["english"], Language.ENGLISH)).decisions
            assert chosen.transcriber is not None
            assert chosen.transcriber.max_piece_s == 60
        assert ai.tally.done == {"completions": 1}


async def test_a_key_without_an_address_is_refused_without_being_shown():
    with pytest.raises(SettingsRefused) as refused:
        async with chosen_assistants(settings(ai_api_key=KEY)):
            pass
    assert "MEETCORE_AI_BASE_URL" in str(refused.value)
    assert KEY not in str(refused.value) + repr(settings(ai_api_key=KEY))


@pytest.mark.parametrize(("name", "value"), [
    ("AI_BASE_URL", "ftp://x"), ("AI_BASE_URL", "https://user:pw@x/v1"), ("AI_API_KEY", "two words"),
    ("AI_TRANSCRIBE_MODEL", "two words"), ("AI_TRANSCRIBE_FORMAT", "vtt"), ("AI_TIMEOUT_S", "0"),
    ("AI_CONTEXT_CHARS", "100"),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str):
    monkeypatch.setenv(f"MEETCORE_{name}", value)
    with pytest.raises(SettingsRefused, match=f"MEETCORE_{name} must be") as refused:
        load_settings()
    assert value not in str(refused.value).partition(" must be ")[0]
