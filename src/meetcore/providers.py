"""The part of the composition root that chooses the video provider and its adapters.

Owns the one place that knows every provider by name. The wiring limits their calls.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import structlog

from meetcore.adapters.jitsi import JitsiProvider
from meetcore.adapters.jitsi.recording_files import JitsiRecordingFiles
from meetcore.adapters.postgres.pool import Pool
from meetcore.adapters.sandbox.postgres_state import PostgresSandboxState
from meetcore.adapters.sandbox.provider import SandboxProvider
from meetcore.adapters.sandbox.recording_files import SandboxRecordingFiles
from meetcore.adapters.secrets import derive
from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.adapters.system import SystemClock
from meetcore.domain.meetings.meetings import Meeting, MeetingEvent
from meetcore.ports.provider_events import WebhookParser
from meetcore.ports.queries import Queries
from meetcore.ports.recording_files import RecordingFiles
from meetcore.ports.video_provider import VideoProvider
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.track_meeting import TrackMeeting

if TYPE_CHECKING:
    from starlette.routing import Route

    from meetcore.adapters.zoom import ZoomAccess, ZoomProvider

__all__ = ["chosen_provider", "files_of", "sandbox_pages", "webhook_parsers", "zoom_access"]

log = structlog.get_logger("meetcore")


@asynccontextmanager
async def chosen_provider(
    settings: Settings, pool: Pool, keys: tuple[bytes, ...]
) -> AsyncIterator[VideoProvider]:
    """Open the provider that the settings name, with its connections, while the context lasts.

    Args:
        settings: which one, and how it is reached.
        pool: where the sandbox keeps its state.
        keys: what secrets are kept under; from the last one follow the sandbox's links and Jitsi's rooms.

    Raises:
        SettingsRefused: something that this provider needs is not set.
    """
    settings.require_provider()
    if settings.provider == "sandbox":
        yield SandboxProvider(
            settings.base_url, PostgresSandboxState(pool), derive(keys[-1], "sandbox join links")
        )
    elif settings.provider == "jitsi":
        yield JitsiProvider(settings.jitsi_url, derive(keys[-1], "jitsi rooms"))
    elif settings.provider == "zoom":
        async with _zoom(settings) as provider:
            yield provider
    else:
        raise SettingsRefused(f"MEETCORE_PROVIDER names one that is not built in: {settings.provider}")


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


@asynccontextmanager
async def _zoom(settings: Settings) -> AsyncIterator[VideoProvider]:
    # Only who uses Zoom loads its client.
    from meetcore.adapters.zoom import ZoomProvider

    provider = ZoomProvider(zoom_access(settings), log, now=SystemClock().now)
    try:
        yield provider
    finally:
        await provider.aclose()


def files_of(provider: VideoProvider) -> RecordingFiles:
    """Return the recording files of a provider."""
    # By its name, so that who does not use Zoom does not load its client.
    if isinstance(provider, SandboxProvider):
        return SandboxRecordingFiles(provider.state)
    if provider.abilities.name == "zoom":
        return cast("ZoomProvider", provider).files
    return JitsiRecordingFiles()


def webhook_parsers(settings: Settings) -> dict[str, WebhookParser]:
    """Return the webhook parsers, by the provider's name.

    A provider's webhooks are accepted if its signing secret is set, even if another provider is chosen now:
    meetings of an earlier provider end, too.
    """
    secret = str(settings.zoom_webhook_token)
    if not secret:
        return {}
    from meetcore.adapters.zoom.events import PROVIDER, zoom_webhook_parser

    return {PROVIDER: zoom_webhook_parser(secret)}


def sandbox_pages(
    provider: VideoProvider, queries: Queries, track: TrackMeeting, runtime: Runtime
) -> "list[Route]":
    """Return the routes of the sandbox's join pages; empty for another provider.

    Args:
        provider: the chosen one.
        queries: where the pages look a meeting up.
        track: gets the event of a click.
        runtime: the clock.
    """
    if not isinstance(provider, SandboxProvider):
        return []
    from meetcore.adapters.sandbox.pages import sandbox_routes  # pages are the API's alone

    happened = {"started": MeetingEvent.START, "ended": MeetingEvent.END}
    name = provider.abilities.name

    async def on_event(kind: str, provider_meeting_id: str) -> None:
        await track(name, provider_meeting_id, happened[kind], runtime.now())

    async def lookup(provider_meeting_id: str) -> Meeting | None:
        return await queries.find_at_provider(name, provider_meeting_id)

    return sandbox_routes(provider, lookup, on_event, now=runtime.now)
