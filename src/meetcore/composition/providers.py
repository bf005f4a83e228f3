"""Outside services: the video providers by name, AI services, mail, passkeys and OpenID providers.

Packages of extras are imported where they are used. An endpoint of OpenAI's API does the work for which the
settings name a model; the rest is done on this machine. The note worker limits the concurrent calls.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog
from attrs import frozen

from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.adapters.system import SystemClock
from meetcore.composition.application import MailPorts
from meetcore.composition.configuration import INSTALL_NOTES, ROOM_PURPOSES, room_secret
from meetcore.domain.members.sign_in import SignUpMode
from meetcore.domain.notes.notes import BY_RULES
from meetcore.ports.observability import NO_TRACING

if TYPE_CHECKING:
    from starlette.routing import Route

    from meetcore.adapters.oidc import OidcClient
    from meetcore.adapters.openai import AiAccess
    from meetcore.adapters.postgres.pool import Pool
    from meetcore.adapters.smtp import SmtpMailer
    from meetcore.adapters.zoom import ZoomAccess
    from meetcore.composition.application import Application, OpenVerifier
    from meetcore.domain.meetings.meetings import Meeting
    from meetcore.domain.meetings.provider_events import ProviderEvent
    from meetcore.ports.ai import NoteWriter, Transcriber
    from meetcore.ports.identity import IdentityProvider, PasskeyVerifier
    from meetcore.ports.mails import Mailer
    from meetcore.ports.observability import Tracing
    from meetcore.ports.recording_files import RecordingFiles
    from meetcore.ports.video_provider import VideoProvider, WebhookParser

    Opened = tuple[VideoProvider, RecordingFiles]

_MAIL_PACKAGES = ("aiosmtplib", "babel", "jinja2")

log = structlog.get_logger("meetcore")


def _has_no_webhooks(settings: Settings) -> WebhookParser | None:
    return None


def _has_no_pages(application: Application) -> Sequence[Route]:
    return ()


@frozen
class Provider:
    """A video provider.

    `open` opens it with the files of its recordings, which the stack closes; from the last of the keys follow
    room addresses, which have to stay. `webhook_parser` returns its parser, where its signing secret is set,
    and `pages` the routes of its pages on this service.
    """

    open: Callable[[Settings, Pool, tuple[bytes, ...], Tracing, AsyncExitStack], Opened]
    webhook_parser: Callable[[Settings], WebhookParser | None] = _has_no_webhooks
    pages: Callable[[Application], Sequence[Route]] = _has_no_pages


def _open_sandbox(
    settings: Settings, pool: Pool, keys: tuple[bytes, ...], _: Tracing, __: AsyncExitStack
) -> Opened:
    from meetcore.adapters.sandbox import SandboxProvider, SandboxRecordingFiles
    from meetcore.adapters.sandbox.postgres_state import PostgresSandboxState

    state = PostgresSandboxState(pool)
    provider = SandboxProvider(
        settings.base_url, state, room_secret(settings, keys, ROOM_PURPOSES["sandbox"])
    )
    return provider, SandboxRecordingFiles(state)


def _sandbox_pages(application: Application) -> Sequence[Route]:
    from meetcore.adapters.sandbox import SandboxProvider
    from meetcore.adapters.sandbox.pages import sandbox_routes

    provider, now = application.ports.provider, application.runtime.now
    assert isinstance(provider, SandboxProvider)
    name = provider.abilities.name

    async def on_event(event: ProviderEvent) -> None:
        await application.meetings.track(event, now())

    async def lookup(provider_meeting_id: str) -> Meeting | None:
        return await application.ports.queries.find_at_provider(name, provider_meeting_id)

    return sandbox_routes(provider, lookup, on_event, now=now, empty_for=application.meetings.track.empty_for)


def _open_jitsi(
    settings: Settings, pool: Pool, keys: tuple[bytes, ...], _: Tracing, __: AsyncExitStack
) -> Opened:
    from meetcore.adapters.jitsi import JitsiProvider, JitsiRecordingFiles

    return (
        JitsiProvider(settings.jitsi_url, room_secret(settings, keys, ROOM_PURPOSES["jitsi"])),
        JitsiRecordingFiles(),
    )


def _open_zoom(
    settings: Settings, pool: Pool, keys: tuple[bytes, ...], tracing: Tracing, stack: AsyncExitStack
) -> Opened:
    from meetcore.adapters.zoom import ZoomProvider

    provider = ZoomProvider(zoom_access(settings), log, now=SystemClock().now, tracing=tracing)
    stack.push_async_callback(provider.aclose)
    return provider, provider.files


def zoom_access(settings: Settings) -> ZoomAccess:
    """Return the Zoom application that the settings name."""
    from meetcore.adapters.zoom import ZoomAccess

    # Tokens come from the same host without `api.`, in each of Zoom's clouds and at a stand-in.
    api = urlsplit(settings.zoom_api_url)
    return ZoomAccess(
        account_id=settings.zoom_account_id,
        client_id=settings.zoom_client_id,
        client_secret=str(settings.zoom_client_secret),
        api_url=settings.zoom_api_url,
        oauth_url=f"{api.scheme}://{api.netloc.removeprefix('api.')}/oauth/token",
    )


def _zoom_webhook_parser(settings: Settings) -> WebhookParser | None:
    secret = str(settings.zoom_webhook_token)
    if not secret:
        return None
    from meetcore.adapters.zoom.events import zoom_webhook_parser

    return zoom_webhook_parser(secret)


PROVIDERS = {
    "sandbox": Provider(_open_sandbox, pages=_sandbox_pages),
    "jitsi": Provider(_open_jitsi),
    "zoom": Provider(_open_zoom, _zoom_webhook_parser),
}


def open_provider(
    settings: Settings, pool: Pool, keys: tuple[bytes, ...], tracing: Tracing, stack: AsyncExitStack
) -> Opened:
    """Open the provider that the settings name; raises `SettingsRefused` where a setting of it is missing."""
    settings.require_provider()
    if settings.provider not in PROVIDERS:
        raise SettingsRefused(f"MEETCORE_PROVIDER names one that is not built in: {settings.provider}")
    return PROVIDERS[settings.provider].open(settings, pool, keys, tracing, stack)


def webhook_parsers(settings: Settings) -> dict[str, WebhookParser]:
    """Return the webhook parsers, by the provider's name.

    A provider's webhooks are accepted if its signing secret is set, also when another provider is chosen now:
    meetings of an earlier provider end, too.
    """
    parsers = {name: each.webhook_parser(settings) for name, each in PROVIDERS.items()}
    return {name: parser for name, parser in parsers.items() if parser is not None}


def provider_pages(application: Application) -> Sequence[Route]:
    """Return the routes of the pages that the chosen provider shows on this service."""
    return PROVIDERS[application.ports.provider.abilities.name].pages(application)


@asynccontextmanager
async def open_ai(
    settings: Settings, tracing: Tracing = NO_TRACING
) -> AsyncIterator[tuple[Transcriber | None, NoteWriter]]:
    """Open the transcriber, if any, and the note writer that the settings name; raises `SettingsRefused`."""
    settings.require_ai()
    async with AsyncExitStack() as stack:
        yield _transcriber(settings, tracing, stack), _note_writer(settings, tracing, stack)


def _transcriber(settings: Settings, tracing: Tracing, stack: AsyncExitStack) -> Transcriber | None:
    """Return a transcriber, or log the effect on notes; the sandbox, which writes transcripts, needs none."""
    from meetcore.adapters import openai, speech

    if settings.ai_base_url and settings.ai_transcribe_model:
        transcriber = openai.OpenAiTranscriber(ai_access(settings), log, SystemClock().now, tracing)
        stack.push_async_callback(transcriber.aclose)
        return transcriber
    if speech.can_transcribe():
        return speech.LocalTranscriber()
    if settings.provider != "sandbox":
        log.warning(
            "no_transcriber",
            effect="notes are made only of recordings that the video provider wrote a transcript of",
            hint="set MEETCORE_AI_BASE_URL, or install meetcore[speech] for meetings in English",
        )
    return None


def _note_writer(settings: Settings, tracing: Tracing, stack: AsyncExitStack) -> NoteWriter:
    if settings.note_writer != BY_RULES:
        from meetcore.adapters.openai import OpenAiNoteWriter

        note_writer = OpenAiNoteWriter(ai_access(settings), log, SystemClock().now, tracing)
        stack.push_async_callback(note_writer.aclose)
        return note_writer
    from meetcore.adapters.local_notes import LocalNoteWriter

    return LocalNoteWriter()


def ai_access(settings: Settings) -> AiAccess:
    """Return the AI endpoint that the settings name."""
    from meetcore.adapters.openai import AiAccess

    return AiAccess(
        base_url=settings.ai_base_url,
        api_key=str(settings.ai_api_key),
        transcribe_model=settings.ai_transcribe_model,
        write_model=settings.ai_write_model,
        timeout_s=settings.ai_timeout_s,
        returns_timestamps=settings.ai_transcribe_format == "verbose_json",
        spoken_language=settings.ai_spoken_language,
        context_chars=settings.ai_context_chars,
    )


def can_make_notes() -> bool:
    """Return whether recordings can be measured, and notes made of them, here."""
    from meetcore.adapters.media import can_edit

    return can_edit()


def require_notes() -> None:
    """Raise `SettingsRefused` where the extra `notes` is not installed."""
    if not can_make_notes():
        raise SettingsRefused(f"recordings and notes need a package more: {INSTALL_NOTES}")


def warn_of_notes() -> None:
    """Log where the process cannot do a worker's work on recordings and notes."""
    if not can_make_notes():
        log.warning("recordings are not measured and notes not made here", hint=INSTALL_NOTES)


def sends_mails(settings: Settings, mailer: Mailer | None = None) -> bool:
    """Return whether mails are sent.

    Raises `SettingsRefused` where a mail server is named, and the sender or a package is missing; or sign-up
    is not closed, and no mail can be sent.
    """
    settings.require_mail()
    has_packages = all(find_spec(name) is not None for name in _MAIL_PACKAGES)
    if str(settings.smtp_url) and not has_packages:
        raise SettingsRefused("MEETCORE_SMTP_URL is set, which needs: pip install 'meetcore[server,web]'")
    is_on = has_packages and (mailer is not None or bool(str(settings.smtp_url)))
    if settings.sign_up != SignUpMode.CLOSED and not is_on:
        raise SettingsRefused(f"MEETCORE_SIGN_UP is {settings.sign_up}, which needs MEETCORE_SMTP_URL too")
    return is_on


def mail_ports(settings: Settings, mailer: Mailer | None = None) -> MailPorts | None:
    """Return the ports for mails, if `sends_mails`. A `mailer` takes them instead of the mail server."""
    if not sends_mails(settings, mailer):
        return None
    from meetcore.adapters.mail_texts import TemplateMailTexts

    texts = TemplateMailTexts(urlsplit(settings.base_url).netloc)
    return MailPorts(smtp_mailer(settings) if mailer is None else mailer, texts)


def smtp_mailer(settings: Settings, timeout_s: float | None = None) -> SmtpMailer:
    """Return a mailer to the mail server; its own time limit unless one is given."""
    from meetcore.adapters.smtp import TIMEOUT_S, SmtpMailer, server_from_url
    from meetcore.domain.mails.mails import parse_sender

    server = server_from_url(str(settings.smtp_url), settings.ca_file or None)
    return SmtpMailer(server, parse_sender(settings.mail_from), timeout_s=timeout_s or TIMEOUT_S)


def passkey_verifier(base_url: str) -> OpenVerifier | None:
    """Return a function that opens the verifier of a site, if it can have passkeys: it loads some 10 MB."""
    from meetcore.domain.members.passkeys import relying_party

    rp_id = relying_party(base_url)
    if rp_id is None or find_spec("webauthn") is None:
        return None

    @cache
    def opened() -> PasskeyVerifier:
        from meetcore.adapters.passkeys import WebauthnVerifier

        return WebauthnVerifier(rp_id, base_url)

    return opened


def oidc_clients(settings: Settings) -> tuple[OidcClient | None, OidcClient | None]:
    """Return the OpenID clients of members and operators, if set; raise `SettingsRefused` if incomplete."""
    settings.require_oidc()
    if not (settings.oidc_issuer or settings.console_oidc_issuer):
        return None, None
    if find_spec("jwt") is None:
        raise SettingsRefused("an OpenID provider needs: pip install 'meetcore[server,web]'")
    from meetcore.adapters.oidc import OidcClient

    def client(issuer: str, client_id: str, secret: str) -> OidcClient | None:
        return OidcClient(issuer, client_id, secret) if issuer else None

    return (
        client(settings.oidc_issuer, settings.oidc_client_id, str(settings.oidc_client_secret)),
        client(
            settings.console_oidc_issuer,
            settings.console_oidc_client_id,
            str(settings.console_oidc_client_secret),
        ),
    )


@asynccontextmanager
async def open_identities(
    settings: Settings,
) -> AsyncIterator[tuple[IdentityProvider | None, IdentityProvider | None]]:
    """Open the `oidc_clients` that are set; they are called at the first sign-in."""
    members, operators = oidc_clients(settings)
    if members is None and operators is None:
        yield None, None
        return
    from meetcore.adapters.oidc import OidcProvider, open_http

    http = open_http()
    try:
        yield (
            None if members is None else OidcProvider(members, http),
            None if operators is None else OidcProvider(operators, http),
        )
    finally:
        await http.aclose()


async def check_provider(client: OidcClient, timeout_s: float) -> None:
    """Read the metadata and the keys of a provider; raises `IdentityUnavailable`."""
    from meetcore.adapters.oidc import OidcProvider, open_http

    http = open_http(timeout_s)
    try:
        await OidcProvider(client, http).check()
    finally:
        await http.aclose()
