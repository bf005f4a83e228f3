"""The video providers by name: one entry for each, with everything that the service needs of it.

What only users of a provider need is imported where it is opened.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import structlog
from attrs import frozen

from meetcore.adapters.postgres.pool import Pool
from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.composition.application import Application
from meetcore.composition.secret_keys import ROOM_PURPOSES, room_secret
from meetcore.domain.meetings.meetings import Meeting, MeetingEvent
from meetcore.ports.provider_events import WebhookParser
from meetcore.ports.recording_files import RecordingFiles
from meetcore.ports.tracing import NO_TRACING, Tracing
from meetcore.ports.video_provider import VideoProvider

if TYPE_CHECKING:
    from starlette.routing import Route

    from meetcore.adapters.zoom import ZoomAccess

log = structlog.get_logger("meetcore")

Opened = tuple[VideoProvider, RecordingFiles]


def _has_no_webhooks(settings: Settings) -> WebhookParser | None:
    return None


def _has_no_pages(application: Application) -> "Sequence[Route]":
    return ()


@frozen
class Provider:
    """A video provider.

    Attributes:
        open: opens it with the files of its recordings, for a context. The keys are those that secrets are
            kept under; from the last one follow addresses that have to stay. Its calls continue the traces.
        webhook_parser: its parser, where its signing secret is set.
        pages: the routes of pages that it shows on this service.
    """

    open: Callable[[Settings, Pool, tuple[bytes, ...], Tracing], AbstractAsyncContextManager[Opened]]
    webhook_parser: Callable[[Settings], WebhookParser | None] = _has_no_webhooks
    pages: "Callable[[Application], Sequence[Route]]" = _has_no_pages


@asynccontextmanager
async def _open_sandbox(
    settings: Settings, pool: Pool, keys: tuple[bytes, ...], _: Tracing
) -> AsyncIterator[Opened]:
    from meetcore.adapters.sandbox import SandboxProvider, SandboxRecordingFiles
    from meetcore.adapters.sandbox.postgres_state import PostgresSandboxState

    state = PostgresSandboxState(pool)
    provider = SandboxProvider(
        settings.base_url, state, room_secret(settings, keys, ROOM_PURPOSES["sandbox"])
    )
    yield provider, SandboxRecordingFiles(state)


def _sandbox_pages(application: Application) -> "Sequence[Route]":
    from meetcore.adapters.sandbox import SandboxProvider
    from meetcore.adapters.sandbox.pages import sandbox_routes

    provider, now = application.ports.provider, application.runtime.now
    assert isinstance(provider, SandboxProvider)
    events = {"started": MeetingEvent.START, "ended": MeetingEvent.END}
    name = provider.abilities.name

    async def on_event(kind: str, provider_meeting_id: str) -> None:
        await application.meetings.track(name, provider_meeting_id, events[kind], now())

    async def lookup(provider_meeting_id: str) -> Meeting | None:
        return await application.ports.queries.find_at_provider(name, provider_meeting_id)

    return sandbox_routes(provider, lookup, on_event, now=now)


@asynccontextmanager
async def _open_jitsi(
    settings: Settings, pool: Pool, keys: tuple[bytes, ...], _: Tracing
) -> AsyncIterator[Opened]:
    from meetcore.adapters.jitsi import JitsiProvider
    from meetcore.adapters.jitsi.recording_files import JitsiRecordingFiles

    yield (
        JitsiProvider(settings.jitsi_url, room_secret(settings, keys, ROOM_PURPOSES["jitsi"])),
        JitsiRecordingFiles(),
    )


@asynccontextmanager
async def _open_zoom(
    settings: Settings, pool: Pool, keys: tuple[bytes, ...], tracing: Tracing
) -> AsyncIterator[Opened]:
    from meetcore.adapters.system import SystemClock
    from meetcore.adapters.zoom import ZoomProvider

    provider = ZoomProvider(zoom_access(settings), log, now=SystemClock().now, tracing=tracing)
    try:
        yield provider, provider.files
    finally:
        await provider.aclose()


def zoom_access(settings: Settings) -> "ZoomAccess":
    """Return the Zoom application that the settings name."""
    from meetcore.adapters.zoom import ZoomAccess

    return ZoomAccess(
        account_id=settings.zoom_account_id,
        client_id=settings.zoom_client_id,
        client_secret=str(settings.zoom_client_secret),
        api_url=settings.zoom_api_url,
        oauth_url=settings.zoom_oauth_url,
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


@asynccontextmanager
async def open_provider(
    settings: Settings, pool: Pool, keys: tuple[bytes, ...], tracing: Tracing = NO_TRACING
) -> AsyncIterator[Opened]:
    """Open the provider that the settings name, with its connections, while the context lasts.

    Raises:
        SettingsRefused: something that this provider needs is not set.
    """
    settings.require_provider()
    if settings.provider not in PROVIDERS:
        raise SettingsRefused(f"MEETCORE_PROVIDER names one that is not built in: {settings.provider}")
    async with PROVIDERS[settings.provider].open(settings, pool, keys, tracing) as opened:
        yield opened


def webhook_parsers(settings: Settings) -> dict[str, WebhookParser]:
    """Return the webhook parsers, by the provider's name.

    A provider's webhooks are accepted if its signing secret is set, even if another provider is chosen now:
    meetings of an earlier provider end, too.
    """
    parsers = {name: each.webhook_parser(settings) for name, each in PROVIDERS.items()}
    return {name: parser for name, parser in parsers.items() if parser is not None}


def provider_pages(application: Application) -> "Sequence[Route]":
    """Return the routes of the pages that the chosen provider shows on this service."""
    return PROVIDERS[application.ports.provider.abilities.name].pages(application)
