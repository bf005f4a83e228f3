"""Outside services: the video providers by name, AI services, mail, passkeys and OpenID providers.

Packages of extras are imported where they are used. An endpoint of OpenAI's API does the work for which the
settings name a model; the rest is done on this machine. The note worker limits the concurrent calls.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog

from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.adapters.settings.plugins import MAILERS, PROVIDERS, TRANSCRIBERS, WRITERS
from meetcore.adapters.settings.tiers import read_packages
from meetcore.composition.application import MailPorts
from meetcore.composition.configuration import INSTALL_NOTES, ROOM_PURPOSES, room_secret
from meetcore.composition.plugins import (
    OwnPorts,
    ServiceParts,
    check_name,
    context_for,
    open_named,
    opened,
    own_settings,
    refusing,
)
from meetcore.domain.members.sign_in import SignUpMode
from meetcore.ports.observability import NO_TRACING
from meetcore.ports.plugins import Plugin, ProviderPlugin
from meetcore.ports.recording_files import NoRecordingFiles

if TYPE_CHECKING:
    from starlette.routing import Route

    from meetcore.adapters.jitsi import JitsiProvider
    from meetcore.adapters.oidc import OidcClient
    from meetcore.adapters.openai import AiAccess
    from meetcore.adapters.sandbox import SandboxProvider
    from meetcore.adapters.smtp import SmtpMailer
    from meetcore.adapters.zoom import ZoomAccess, ZoomProvider
    from meetcore.composition.application import Application, OpenVerifier
    from meetcore.domain.meetings import meetings, provider_events
    from meetcore.ports.ai import NoteWriter, Transcriber
    from meetcore.ports.identity import IdentityProvider, PasskeyVerifier
    from meetcore.ports.mails import Mailer
    from meetcore.ports.observability import Tracing
    from meetcore.ports.plugins import Context
    from meetcore.ports.recording_files import RecordingFiles
    from meetcore.ports.video_provider import VideoProvider, WebhookParser

_MAIL_PACKAGES = ("aiosmtplib", "babel", "jinja2")

log = structlog.get_logger("meetcore")


def _open_sandbox(context: Context[ServiceParts]) -> SandboxProvider:
    from meetcore.adapters.sandbox import SandboxProvider
    from meetcore.adapters.sandbox.postgres_state import PostgresSandboxState

    parts = context.settings
    assert parts.pool is not None
    key = room_secret(parts.settings, parts.keys, ROOM_PURPOSES["sandbox"])
    return SandboxProvider(context.base_url, PostgresSandboxState(parts.pool), key)


def _sandbox_files(provider: SandboxProvider) -> RecordingFiles:
    from meetcore.adapters.sandbox import SandboxRecordingFiles

    return SandboxRecordingFiles(provider.state)


def _open_jitsi(context: Context[ServiceParts]) -> JitsiProvider:
    from meetcore.adapters.jitsi import JitsiProvider

    settings, keys = context.settings.settings, context.settings.keys
    return JitsiProvider(settings.jitsi_url, room_secret(settings, keys, ROOM_PURPOSES["jitsi"]))


def _open_zoom(context: Context[ServiceParts]) -> ZoomProvider:
    from meetcore.adapters.zoom import ZoomProvider

    access = zoom_access(context.settings.settings)
    provider = ZoomProvider(access, context.log, now=context.now, tracing=context.tracing)
    context.stack.push_async_callback(provider.aclose)
    return provider


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


def _zoom_webhook_parser(parts: ServiceParts) -> WebhookParser | None:
    secret = str(parts.settings.zoom_webhook_token)
    if not secret:
        return None
    from meetcore.adapters.zoom.events import zoom_webhook_parser

    return zoom_webhook_parser(secret)


SANDBOX = ProviderPlugin(_open_sandbox, ServiceParts, files=_sandbox_files)
JITSI = ProviderPlugin(_open_jitsi, ServiceParts)
ZOOM = ProviderPlugin(
    _open_zoom, ServiceParts, files=lambda provider: provider.files, webhook_parser=_zoom_webhook_parser
)


def open_provider(
    parts: ServiceParts, stack: AsyncExitStack, tracing: Tracing = NO_TRACING
) -> tuple[VideoProvider, RecordingFiles]:
    """Open the provider that the settings name, and the files of its recordings, which the stack closes.

    Raises `SettingsRefused` where a setting of it is missing.
    """
    name = parts.settings.provider
    parts.settings.require_provider()
    plugin = PROVIDERS.load(name)
    provider: VideoProvider = opened(PROVIDERS, name, plugin, context_for(plugin, parts, stack, tracing))
    with refusing(PROVIDERS, name):
        own = provider.abilities.name
        check_name(PROVIDERS, name, own)
        return provider, NoRecordingFiles(own) if plugin.files is None else plugin.files(provider)


def webhook_parsers(settings: Settings, name: str = "") -> dict[str, WebhookParser]:
    """Return the webhook parsers, by the provider's name; `name` is that of the provider that is open.

    A provider's webhooks are accepted if its signing secret is set, for ours also when another provider is
    chosen now: meetings of an earlier provider end, too.
    """
    parts, chosen = ServiceParts(settings), settings.provider
    names = {own: own for own in PROVIDERS.own_names()} | {chosen: name or chosen}
    found = {}
    for registered, own in names.items():
        plugin = PROVIDERS.load(registered)
        with refusing(PROVIDERS, registered):
            if plugin.webhook_parser and (parser := plugin.webhook_parser(own_settings(plugin, parts))):
                found[own] = parser
    return found


def has_dashboard() -> bool:
    """Return whether the extra `web` is installed."""
    return all(map(find_spec, ("babel", "jinja2")))


def provider_pages(application: Application) -> Sequence[Route]:
    """Return the pages on which meetings of the sandbox are held; of other providers there are none here."""
    provider, now = application.ports.provider, application.runtime.now
    name = provider.abilities.name
    if name != "sandbox":
        return ()
    from meetcore.adapters.sandbox import SandboxProvider
    from meetcore.adapters.sandbox.pages import sandbox_routes

    assert isinstance(provider, SandboxProvider)

    async def on_event(event: provider_events.ProviderEvent) -> None:
        await application.meetings.track(event, now())

    async def lookup(provider_meeting_id: str) -> meetings.Meeting | None:
        return await application.ports.queries.find_at_provider(name, provider_meeting_id)

    empty_for = application.meetings.track.empty_for
    return sandbox_routes(
        provider, lookup, on_event, now=now, empty_for=empty_for, has_dashboard=has_dashboard()
    )


def open_ai(
    parts: ServiceParts, stack: AsyncExitStack, tracing: Tracing = NO_TRACING, own: OwnPorts | None = None
) -> tuple[Transcriber | None, NoteWriter]:
    """Open the transcriber, if any, and the note writer that the settings name, unless they are `own`.

    Raises `SettingsRefused`.
    """
    parts.settings.require_ai()
    own, settings = own or OwnPorts(), parts.settings
    return (
        own.transcriber or open_named(TRANSCRIBERS, settings.transcriber_name, parts, stack, tracing),
        own.note_writer or open_named(WRITERS, settings.writer_name, parts, stack, tracing),
    )


def _open_ai_transcriber(context: Context[ServiceParts]) -> Transcriber:
    from meetcore.adapters.openai import OpenAiTranscriber

    access = ai_access(context.settings.settings)
    transcriber = OpenAiTranscriber(access, context.log, context.now, context.tracing)
    context.stack.push_async_callback(transcriber.aclose)
    return transcriber


def _open_local_transcriber(context: Context[ServiceParts]) -> Transcriber | None:
    """Return a transcriber, or log the effect on notes; the sandbox, which writes transcripts, needs none."""
    from meetcore.adapters import speech

    if speech.can_transcribe():
        return speech.LocalTranscriber()
    if context.settings.settings.provider != "sandbox":
        context.log.warning(
            "no_transcriber",
            effect="notes are made only of recordings that the video provider wrote a transcript of",
            hint="set MEETCORE_AI_BASE_URL, or install meetcore[speech] for meetings in English",
        )
    return None


def _open_ai_writer(context: Context[ServiceParts]) -> NoteWriter:
    from meetcore.adapters.openai import OpenAiNoteWriter

    access = ai_access(context.settings.settings)
    note_writer = OpenAiNoteWriter(access, context.log, context.now, context.tracing)
    context.stack.push_async_callback(note_writer.aclose)
    return note_writer


def _open_rules(_: Context[ServiceParts]) -> NoteWriter:
    from meetcore.adapters.local_notes import LocalNoteWriter

    return LocalNoteWriter()


OPENAI_TRANSCRIBER = Plugin(_open_ai_transcriber, ServiceParts)
LOCAL_TRANSCRIBER = Plugin(_open_local_transcriber, ServiceParts)
OPENAI_WRITER = Plugin(_open_ai_writer, ServiceParts)
RULES = Plugin(_open_rules, ServiceParts)


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
    if settings.mailer_name and not has_packages:
        variable = MAILERS.variable if settings.mailer else "MEETCORE_SMTP_URL"
        raise SettingsRefused(f"{variable} is set, which needs: pip install 'meetcore[server,web]'")
    is_on = has_packages and (mailer is not None or bool(settings.mailer_name))
    if settings.sign_up != SignUpMode.CLOSED and not is_on:
        raise SettingsRefused(f"MEETCORE_SIGN_UP is {settings.sign_up}, which needs MEETCORE_SMTP_URL too")
    return is_on


def name_in_mails(settings: Settings) -> str:
    """Return what mails call the service: the name of their sender, else the seller's, else its host."""
    from meetcore.domain.mails.mails import parse_sender

    sender = parse_sender(settings.mail_from).name if settings.mail_from else ""
    seller = read_packages(settings.tiers_file).seller
    return sender or seller.name or urlsplit(settings.base_url).hostname or ""


def mail_ports(parts: ServiceParts, stack: AsyncExitStack, mailer: Mailer | None = None) -> MailPorts | None:
    """Return the ports for mails, if `sends_mails`. A `mailer` takes them instead of the named one."""
    settings = parts.settings
    if not sends_mails(settings, mailer):
        return None
    from meetcore.adapters.mail_texts import TemplateMailTexts

    address = " ".join(read_packages(settings.tiers_file).seller.address.split())
    texts = TemplateMailTexts(name_in_mails(settings), address)
    return MailPorts(mailer or open_named(MAILERS, settings.mailer_name, parts, stack), texts)


def _open_smtp(context: Context[ServiceParts]) -> Mailer:
    return smtp_mailer(context.settings.settings)


SMTP = Plugin(_open_smtp, ServiceParts)


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

    async with aclosing(open_http()) as http:
        yield (
            None if members is None else OidcProvider(members, http),
            None if operators is None else OidcProvider(operators, http),
        )


async def check_provider(client: OidcClient, timeout_s: float) -> None:
    """Read the metadata and the keys of a provider; raises `IdentityUnavailable`."""
    from meetcore.adapters.oidc import OidcProvider, open_http

    async with aclosing(open_http(timeout_s)) as http:
        await OidcProvider(client, http).check()
