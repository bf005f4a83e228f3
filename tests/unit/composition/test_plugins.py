"""The adapter of each group: by its name, or by what else is set."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from meetcore.adapters.local_notes import LocalNoteWriter
from meetcore.adapters.redis import RedisRateCounters
from meetcore.adapters.settings import SecretStr, Settings, SettingsRefused
from meetcore.adapters.settings.plugins import RATE_COUNTERS
from meetcore.composition.doctor import SERVICE_CHECKS
from meetcore.composition.plugins import ServiceParts, names_of, open_named
from meetcore.composition.providers import open_ai, sends_mails
from meetcore.domain.notes.notes import BY_RULES
from meetcore.ports.ai import NoteWriter
from meetcore.ports.figures import HealthStatus
from meetcore.ports.plugins import Context, Plugin
from tests.support.fakes import FakeMailer

REDIS = SecretStr("redis://h")
AI: dict[str, Any] = {"ai_base_url": "http://127.0.0.1:9/v1"}


class Scribe(LocalNoteWriter):
    """A writer of another package."""


async def check_scribe(context: Context[None]) -> str:
    return f"scribe reads {context.base_url}"


async def check_quill(context: Context[None]) -> str:
    raise SettingsRefused("no ink")


def open_scribe(_: Context[None]) -> NoteWriter:
    return Scribe()


@pytest.fixture(autouse=True)
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of adapters of others."""
    module = SimpleNamespace(
        SCRIBE=Plugin(open_scribe, check=check_scribe),
        QUILL=Plugin(open_scribe, check=check_quill),
        open_mailer=lambda _: FakeMailer(),
    )
    monkeypatch.setitem(sys.modules, "others", module)


@pytest.mark.parametrize(
    ("given", "setting", "name"),
    [
        ({}, "transcriber", "local"), ({}, "writer", "rules"), ({}, "rate_counters", "postgres"),
        ({}, "sender", "http"), ({}, "mailer", None), ({}, "gateway", None), ({}, "provider", "sandbox"),
        (AI, "transcriber", "openai"), (AI, "writer", "openai"),
        (AI | {"ai_write_model": ""}, "writer", "rules"), (AI | {"writer": "rules"}, "writer", "rules"),
        ({"rate_store_url": REDIS}, "rate_counters", "redis"),
        ({"rate_store_url": REDIS, "rate_counters": "postgres"}, "rate_counters", "postgres"),
        ({"smtp_url": SecretStr("smtp://h")}, "mailer", "smtp"),
        ({"mailer": "others:open_mailer"}, "mailer", "others:open_mailer"),
    ],
)  # fmt: skip
def test_the_adapter_of_a_group(given: dict[str, Any], setting: str, name: str | None) -> None:
    found = {group.setting: each for group, each in names_of(Settings(**given)).items()}
    assert found.get(setting) == name


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"transcriber": "openai"}, "MEETCORE_TRANSCRIBER is openai, which needs MEETCORE_AI_BASE_URL"),
        (AI | {"writer": "openai", "ai_write_model": ""}, "MEETCORE_WRITER is openai, which needs"),
    ],
)
async def test_an_endpoint_that_is_named_is_needed(given: dict[str, Any], message: str) -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(SettingsRefused, match=message):
            open_ai(ServiceParts(Settings(**given)), stack)


def test_a_mail_server_that_is_named_is_needed() -> None:
    with pytest.raises(SettingsRefused, match="MEETCORE_MAILER is smtp, which needs MEETCORE_SMTP_URL too"):
        sends_mails(Settings(mailer="smtp"))
    assert sends_mails(Settings(mailer="others:open_mailer"))


async def test_redis_that_is_named_is_needed() -> None:
    async with AsyncExitStack() as stack:
        parts = ServiceParts(Settings(rate_counters="redis"))
        with pytest.raises(SettingsRefused, match="RATE_COUNTERS is redis, which needs MEETCORE_RATE_STORE"):
            open_named(RATE_COUNTERS, "redis", parts, stack)
        parts = ServiceParts(Settings(rate_store_url=SecretStr("redis://127.0.0.1")))
        assert isinstance(open_named(RATE_COUNTERS, "redis", parts, stack), RedisRateCounters)


async def test_a_writer_of_others_writes_under_its_name_at_the_price_of_a_model() -> None:
    settings = Settings(writer="others:SCRIBE", **AI)
    assert settings.note_writer == "others:SCRIBE"
    assert Settings(writer="rules").note_writer == BY_RULES
    async with AsyncExitStack() as stack:
        _, writer = open_ai(ServiceParts(settings), stack)
        assert isinstance(writer, Scribe)


def test_the_doctor_runs_the_check_of_a_writer_of_others() -> None:
    check = SERVICE_CHECKS["ai"]
    found = check(Settings(writer="others:SCRIBE"))
    assert (found.status, found.message) == (HealthStatus.OK, "scribe reads http://127.0.0.1:8000")
    found = check(Settings(writer="others:QUILL"))
    assert (found.status, found.message) == (HealthStatus.FAILED, "no ink")
    mail = SERVICE_CHECKS["mail"](Settings(mailer="others:open_mailer"))
    assert mail.message == "others:open_mailer, which has no check"
