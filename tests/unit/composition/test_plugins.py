"""The adapter of each group: by its name, or by what else is set."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from meetcore.adapters.local_notes import LocalNoteWriter
from meetcore.adapters.redis import RedisRateCounters
from meetcore.adapters.settings import SecretStr, Settings, SettingsRefused
from meetcore.adapters.settings.plugins import RATE_COUNTERS
from meetcore.composition.adapter_checks import check_adapters
from meetcore.composition.application import Part
from meetcore.composition.doctor import SERVICE_CHECKS, result_of
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

    closed: ClassVar[list[str]] = []


async def check_scribe(context: Context[None]) -> str:
    return f"scribe reads {context.base_url}"


async def check_quill(context: Context[None]) -> str:
    raise SettingsRefused("no ink")


def open_scribe(_: Context[None]) -> NoteWriter:
    return Scribe()


def open_closing(context: Context[None]) -> NoteWriter:
    context.stack.callback(Scribe.closed.append, "others")
    return Scribe()


def open_worn(_: Context[None]) -> NoteWriter:
    raise OSError("hunter2")


@pytest.fixture(autouse=True)
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of adapters of others."""
    module = SimpleNamespace(
        SCRIBE=Plugin(open_scribe, check=check_scribe),
        QUILL=Plugin(open_scribe, check=check_quill),
        CLOSING=Plugin(open_closing),
        WORN=Plugin(open_worn),
        open_mailer=lambda _: FakeMailer(),
    )
    monkeypatch.setitem(sys.modules, "others", module)


@pytest.mark.parametrize(("given", "setting", "name"), [
    ({}, "transcriber", "local"), ({}, "writer", "rules"), ({}, "rate_counters", "postgres"),
    ({}, "sender", "http"), ({}, "mailer", None), ({}, "payment_gateway", None), ({}, "provider", "sandbox"),
    (AI, "transcriber", "openai"), (AI, "writer", "openai"), (AI | {"ai_write_model": ""}, "writer", "rules"),
    (AI | {"writer": "rules"}, "writer", "rules"), ({"rate_store_url": REDIS}, "rate_counters", "redis"),
    ({"rate_store_url": REDIS, "rate_counters": "postgres"}, "rate_counters", "postgres"),
    ({"smtp_url": SecretStr("smtp://h")}, "mailer", "smtp"),
    ({"mailer": "others:open_mailer"}, "mailer", "others:open_mailer"),
])  # fmt: skip
def test_the_adapter_of_a_group(given: dict[str, Any], setting: str, name: str | None) -> None:
    found = {group.setting: each for group, each in names_of(Settings(**given)).items()}
    assert found.get(setting) == name


async def test_redis_counts_where_it_is_named() -> None:
    async with AsyncExitStack() as stack:
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
    found = result_of(check, Settings(writer="others:SCRIBE"))
    assert (found.status, found.message) == (HealthStatus.OK, "scribe reads http://127.0.0.1:8000")
    found = result_of(check, Settings(writer="others:QUILL"))
    assert (found.status, found.message) == (HealthStatus.FAILED, "no ink")
    mail = SERVICE_CHECKS["mail"](Settings(mailer="others:open_mailer"))
    assert mail.message == "others:open_mailer, which has no check"
    assert sends_mails(Settings(mailer="others:open_mailer"))


@pytest.mark.parametrize(("given", "part", "message"), [
    ({"provider": "zoom"}, None, "MEETCORE_PROVIDER is zoom, which needs MEETCORE_ZOOM_ACCOUNT_ID"),
    (
        {"payment_gateway": "stripe"}, None,
        "MEETCORE_PAYMENT_GATEWAY is stripe, which needs MEETCORE_PAYMENT_GATEWAY_SECRET",
    ),
    ({"payment_gateway": "others:open_mailer"}, None, "and it cannot be opened: AttributeError"),
    ({"rate_counters": "redis"}, Part.API, "_RATE_COUNTERS is redis, which needs MEETCORE_RATE_STORE"),
    ({"oidc_issuer": "https://a.example"}, Part.API, "an OpenID provider needs MEETCORE_OIDC_CLIENT_ID"),
    ({"mailer": "smtp"}, Part.WEBHOOKS, "MEETCORE_MAILER is smtp, which needs MEETCORE_SMTP_URL too"),
    ({"sender": "others:WORN"}, Part.WEBHOOKS, "MEETCORE_SENDER is others:WORN, and it cannot be opened"),
    ({"transcriber": "openai"}, Part.NOTES, "_TRANSCRIBER is openai, which needs MEETCORE_AI_BASE_URL"),
    (AI | {"writer": "openai", "ai_write_model": ""}, Part.NOTES, "MEETCORE_WRITER is openai, which needs"),
    ({"writer": "openai"}, Part.NOTES, "MEETCORE_WRITER is openai, which needs MEETCORE_AI_BASE_URL"),
    ({"writer": "others:WORN"}, Part.NOTES, "MEETCORE_WRITER is others:WORN, and it cannot be opened"),
])  # fmt: skip
def test_a_start_tries_the_adapters_of_its_parts(
    given: dict[str, Any], part: Part | None, message: str
) -> None:
    settings = Settings(**given)
    with pytest.raises(SettingsRefused, match=message):
        check_adapters(settings, () if part is None else (part,))
    if part is not None:
        check_adapters(settings, set(Part) - {part})


def test_adapters_that_were_tried_are_closed() -> None:
    check_adapters(Settings(writer="others:CLOSING"), tuple(Part))
    assert Scribe.closed == ["others"]
