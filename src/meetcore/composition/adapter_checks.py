"""Adapters tried before a start, and by `meetcore doctor`: what a start would refuse is refused here.

Settings that belong together are looked at. Those adapters of others that the settings name are opened, as a
start opens them, and closed again.

Whether webhooks can be posted from this machine, by a name server and by TLS, is found out without asking a
stranger: a name that cannot exist is looked up, and TLS is tried with the server of the video provider, or
with our own base URL. `doctor` shows the fault, a worker logs it when it starts.

Of an AI endpoint the list of models is read and, where an operator asks for it, each model gets one small
request, made as for a note.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Collection, Iterable
from contextlib import AsyncExitStack
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import structlog

from meetcore.adapters.settings import Settings, plugins
from meetcore.adapters.settings.plugins import SENDERS, TRANSCRIBERS, WRITERS
from meetcore.adapters.system import SystemClock
from meetcore.adapters.tls import client_context
from meetcore.adapters.webhook_sender.resolver import answers_lookups
from meetcore.adapters.webhook_sender.trust import holds_authorities
from meetcore.composition import application, gateways, providers
from meetcore.composition.plugins import ServiceParts, context_for, names_of, open_named
from meetcore.ports.ai import AiRefused, AiUnavailable
from meetcore.ports.figures import CheckResult, HealthStatus, failed, ok, warning

if TYPE_CHECKING:
    from meetcore.adapters.openai import AiAccess

log = structlog.get_logger("meetcore.worker")

TIMEOUT_S = 5.0
MODELS_DEADLINE_S = 90.0
"""Seconds for both models: a server of one's own may have to load them first."""


def check_adapters(settings: Settings, parts: Collection[application.Part]) -> None:
    """Make sure that a process for these parts can open its adapters; raises `SettingsRefused`."""
    settings.require_provider()
    gateways.find_gateway(settings)
    groups: list[plugins.Group[Any]] = [plugins.PROVIDERS, plugins.GATEWAYS]
    if application.Part.API in parts:
        settings.require_counters()
        providers.oidc_clients(settings)
        groups.append(plugins.RATE_COUNTERS)
    if application.Part.WEBHOOKS in parts:
        providers.sends_mails(settings)
        groups += [plugins.SENDERS, plugins.MAILERS]
    if application.Part.NOTES in parts and providers.can_make_notes():
        settings.require_ai()
        groups += [plugins.TRANSCRIBERS, plugins.WRITERS]
    try_foreign(settings, groups)


def try_foreign(settings: Settings, groups: Iterable[plugins.Group[Any]] = plugins.GROUPS) -> None:
    """Open the adapters of others in these groups, and close them; raises `SettingsRefused`."""

    async def run() -> None:
        async with AsyncExitStack() as stack:
            for group, name in names_of(settings).items():
                if group in groups and group.is_foreign(name):
                    _open(group, name, settings, stack)

    asyncio.run(run())


async def check_foreign(group: plugins.Group[Any], settings: Settings) -> str:
    """Open the adapter of others that the settings name, run its check, return its text for the operator.

    Raises `SettingsRefused` with its fault.
    """
    name = names_of(settings)[group]
    plugin = group.load(name)
    async with AsyncExitStack() as stack:
        _open(group, name, settings, stack)
        if plugin.check is None:
            return f"{name}, which has no check"
        text: str = await plugin.check(context_for(plugin, ServiceParts(settings), stack))
        return text


def _open(group: plugins.Group[Any], name: str, settings: Settings, stack: AsyncExitStack) -> None:
    parts = ServiceParts(settings)
    if group is plugins.PROVIDERS:
        provider, _ = providers.open_provider(parts, stack)
        providers.webhook_parsers(settings, provider.abilities.name)
    elif group is plugins.GATEWAYS:
        gateways.open_gateway(parts, stack)
        gateways.notification_parsers(settings)
    else:
        open_named(group, name, parts, stack)


_SERVERS = {
    "zoom": ("MEETCORE_ZOOM_API_URL", "zoom_api_url"),
    "jitsi": ("MEETCORE_JITSI_URL", "jitsi_url"),
    "sandbox": ("MEETCORE_BASE_URL", "base_url"),
}


def posting_fault(settings: Settings) -> str | None:
    """Return in one sentence why no webhook can be posted from here; `None` where nothing is known."""
    if not answers_lookups():
        return "no name server answers: check /etc/resolv.conf and that its servers are reached from here"
    context = client_context(settings.ca_file or None)
    if not holds_authorities(context, ssl.get_default_verify_paths().capath):
        return "there are no certificate authorities: install ca-certificates, or set MEETCORE_CA_FILE"
    variable, name = _SERVERS.get(settings.provider, _SERVERS["sandbox"])
    place = urlsplit(str(getattr(settings, name)))
    if place.scheme != "https" or place.hostname is None:
        return None
    fault = _handshake_fault(context, place.hostname, place.port or 443)
    return fault and f"{fault} of {variable}"


def _handshake_fault(context: ssl.SSLContext, host: str, port: int) -> str | None:
    try:
        with (
            socket.create_connection((host, port), TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        return f"no TLS ({error.verify_message}; check this machine's clock and authorities) with the server"
    except socket.gaierror:
        return "no address is found for the name"
    except OSError as error:
        return f"no connection ({error.strerror or type(error).__name__}) to the server"


def warn_of_posting(settings: Settings) -> None:
    """Log from a thread of its own why no webhook can be posted from here; not for a sender of others."""
    if SENDERS.is_foreign(settings.sender):
        return

    def check() -> None:
        if fault := posting_fault(settings):
            log.error("webhooks in doubt", hint=fault)

    Thread(target=check, name="outbound", daemon=True).start()


def read_json(url: str, headers: dict[str, str]) -> tuple[int, Any]:
    """Return the status of an answer and its JSON, if any; 0 for no answer."""
    import httpx

    try:
        answer = httpx.get(url, headers=headers, timeout=TIMEOUT_S, trust_env=False, follow_redirects=False)
    except (httpx.HTTPError, httpx.InvalidURL):
        return 0, None
    try:
        return answer.status_code, answer.json()
    except ValueError:
        return answer.status_code, None


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


def check_ai(settings: Settings) -> CheckResult:
    """Check the adapters of others that do the AI's work, and ask the endpoint, if any, for its models."""
    chosen: dict[plugins.Group[Any], str] = {TRANSCRIBERS: settings.transcriber, WRITERS: settings.writer}
    foreign = [group for group, name in chosen.items() if group.is_foreign(name)]
    results = [ok(asyncio.run(check_foreign(group, settings))) for group in foreign]
    if settings.ai_base_url or not results:
        results.append(_check_endpoint(settings))
    faults = [each for each in results if each.status is not HealthStatus.OK]
    return faults[0] if faults else ok("; ".join(each.message for each in results))


def _check_endpoint(settings: Settings) -> CheckResult:
    settings.require_ai()
    if not settings.ai_base_url:
        from meetcore.adapters import speech

        own = "this machine transcribes" if speech.can_transcribe() else "nothing transcribes"
        return ok(f"none set: {own}, and rules write the notes")
    key = str(settings.ai_api_key)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    status, body = read_json(f"{settings.ai_base_url}/models", headers)
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
    listed = check_ai(settings)
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


async def _write(access: AiAccess) -> str | None:
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


async def _transcribe(access: AiAccess) -> str | None:
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
