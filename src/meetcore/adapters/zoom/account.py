"""What an operator has to set at Zoom: the scopes of the application, and settings of licensed users.

Zoom tells the granted scopes with a token. An application of the older kind has fewer, wider ones, of which
each stands for several of ours.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Final

import msgspec
from attrs import frozen

from meetcore.adapters.zoom import schemas
from meetcore.adapters.zoom.calls import NoLog, Tokens, ZoomAccess, ZoomCalls, open_http, segment
from meetcore.ports.video_provider import ProviderRefused

SCOPES: Final = {
    "meeting:write:meeting:admin": "meeting:write:admin",
    "meeting:read:list_meetings:admin": "meeting:read:admin",
    "meeting:read:meeting:admin": "meeting:read:admin",
    "meeting:read:list_past_instances:admin": "meeting:read:admin",
    "meeting:delete:meeting:admin": "meeting:write:admin",
    "meeting:update:status:admin": "meeting:write:admin",
    "user:update:user:admin": "user:write:admin",
    "user:read:settings:admin": "user:read:admin",
    "cloud_recording:read:list_recording_files:admin": "recording:read:admin",
    "cloud_recording:delete:recording_file:admin": "recording:write:admin",
    "cloud_recording:delete:meeting_recording:admin": "recording:write:admin",
}
"""The scopes that our calls need, each with the one of an older application that stands for it."""


async def granted_scopes(access: ZoomAccess) -> frozenset[str]:
    """Fetch a token and drop it; return its scopes, none where Zoom does not tell.

    Raises `ProviderRefused`.
    """
    http = open_http()
    try:
        tokens = Tokens(access, http, NoLog())
        await tokens.get()
        return tokens.scopes
    finally:
        await http.aclose()


def missing_scopes(granted: Collection[str]) -> list[str]:
    """Return the scopes that our calls need and the application lacks."""
    return [scope for scope, older in SCOPES.items() if scope not in granted and older not in granted]


class _Recording(msgspec.Struct, frozen=True):
    cloud_recording: bool | None = None
    recording_audio_transcript: bool | None = None
    auto_delete_cmr: bool | None = None
    auto_delete_cmr_days: int | None = None


class _Schedule(msgspec.Struct, frozen=True):
    join_before_host: bool | None = None


class _Settings(msgspec.Struct, frozen=True):
    recording: _Recording = _Recording()
    schedule_meeting: _Schedule = _Schedule()


@frozen
class UserSettings:
    """Settings of a licensed user, `None` where Zoom does not tell.

    `keeps_days` is after how many days Zoom deletes recordings by itself, `None` where it does not.
    """

    has_cloud_recording: bool | None
    has_transcript: bool | None
    lets_guests_in: bool | None
    keeps_days: int | None


async def read_settings(
    access: ZoomAccess, users: Sequence[str], now: Callable[[], datetime], budget_s: float
) -> list[UserSettings]:
    """Read the settings of users; raise `ProviderRefused` or `ProviderUnknown` where one gets no answer."""
    calls = ZoomCalls(access, NoLog(), now, budget_s)
    try:
        return list(await asyncio.gather(*(_read(calls, user) for user in users)))
    finally:
        await calls.aclose()


async def _read(calls: ZoomCalls, user: str) -> UserSettings:
    response = await calls.ask("GET", f"/users/{segment(user)}/settings")
    if not response.is_done:
        raise ProviderRefused(f"zoom: settings answered {response.status}, code {response.code}")
    found = schemas.decoded(response, _Settings)
    recording = found.recording
    return UserSettings(
        recording.cloud_recording,
        recording.recording_audio_transcript,
        found.schedule_meeting.join_before_host,
        recording.auto_delete_cmr_days if recording.auto_delete_cmr else None,
    )


def setting_faults(found: Sequence[UserSettings], kept_days: int) -> list[str]:
    """Return what is to be set at Zoom, with how many users lack it; recordings are kept for `kept_days`."""
    counts = {
        "cloud recording is off": sum(each.has_cloud_recording is False for each in found),
        "the audio transcript of recordings is off": sum(each.has_transcript is False for each in found),
        "joining before the host is off": sum(each.lets_guests_in is False for each in found),
        f"recordings are deleted before {kept_days} days": sum(
            each.keeps_days is not None and each.keeps_days < kept_days for each in found
        ),
    }
    return [f"{text} for {count} of {len(found)}" for text, count in counts.items() if count]
