"""Jitsi as a `VideoProvider`: a join link without account or network call.

Creation depends on the order alone and stores nothing, so every meeting is found, created or removed. Removal
does not close the room. Passwords, recordings, capacity, logins, mail and hosts are not supported.

A room's name is its only protection: it is derived from our meeting id and a key, so it is stable and cannot
be guessed from the id. Options follow the `#` of the address, which browsers do not send; the server learns
the title from participants.
"""

import base64
import hmac
import json
from typing import Final
from urllib.parse import quote
from uuid import UUID

from meetcore.domain.meetings import cancellation, meetings, views
from meetcore.ports.video_provider import ProviderRefused

_NAME_BYTES = 15
"""120 bits: 24 letters and digits that Jitsi does not fold together."""
_GROUP = 4


class JitsiRooms:
    """Names rooms and builds their addresses on a server, an http(s) origin with or without path.

    Raises `ValueError` for a signing key of fewer than 16 bytes. Another key names other rooms.
    """

    __slots__ = ("_key", "_url")

    def __init__(self, url: str, signing_key: bytes) -> None:
        if len(signing_key) < 16:
            raise ValueError("the signing key of Jitsi's rooms has at least 16 bytes")
        self._url = url.rstrip("/")
        self._key = signing_key

    def __repr__(self) -> str:
        return f"<JitsiRooms at {self._url}>"

    def name(self, meeting_id: UUID) -> str:
        """Return a meeting's room: six groups of four lower-case letters and digits."""
        digest = hmac.digest(self._key, b"jitsi-room:" + meeting_id.bytes, "sha256")
        # Jitsi folds case. Base32 has no 0 or 1, which look like letters.
        text = base64.b32encode(digest[:_NAME_BYTES]).decode("ascii").lower()
        return "-".join(text[start : start + _GROUP] for start in range(0, len(text), _GROUP))

    def join_url(self, meeting_id: UUID, title: str, *, mic_off: bool) -> str:
        """Return the address of a meeting's room, which shows the title; `mic_off` starts muted."""
        options = f"config.subject={_as_option(title)}"
        if mic_off:
            options += "&config.startWithAudioMuted=true"
        return f"{self._url}/{self.name(meeting_id)}#{options}"


def _as_option(text: str) -> str:
    r"""Encode text as Jitsi decodes it: JSON, percent-encoded.

    Before parsing, Jitsi replaces typographic quotes and `\&`, which would break the JSON, so non-ASCII
    characters and `&` are JSON escapes.
    """
    return quote(json.dumps(text).replace("&", r"\u0026"), safe="")


_ABILITIES: Final = meetings.ProviderAbilities(
    name="jitsi",
    password=None,
    has_recording=False,
    has_capacity=False,
    has_login=False,
    has_notification=False,
    has_hosts=False,
    remembers_meetings=False,
)


class JitsiProvider:
    """Gives each meeting its own room on a Jitsi server, such as `https://meet.jit.si`; see `JitsiRooms`."""

    def __init__(self, url: str, signing_key: bytes) -> None:
        self._rooms = JitsiRooms(url, signing_key)

    def __repr__(self) -> str:
        return f"<JitsiProvider with {self._rooms!r}>"

    @property
    def abilities(self) -> meetings.ProviderAbilities:
        """Muted microphones only."""
        return _ABILITIES

    async def create(self, order: views.ProviderOrder) -> meetings.Provisioned:
        """Name the room of a meeting; cannot fail."""
        return meetings.Provisioned(
            provider_meeting_id=self._rooms.name(order.meeting_id),
            join_url=self._rooms.join_url(order.meeting_id, order.title, mic_off=order.options.mic_off),
        )

    async def find(self, order: views.ProviderOrder) -> tuple[meetings.Provisioned, ...]:
        """Return the meeting as `create` does, even if it was removed."""
        return (await self.create(order),)

    async def remove(self, provider_meeting_id: str) -> cancellation.ProviderMeetingState:
        """Report removal; a room needs none."""
        return cancellation.ProviderMeetingState.REMOVED

    async def end(self, provider_meeting_id: str) -> None:
        """Do nothing: a room closes with its last participant."""

    async def list_host(self, provider_user_id: str) -> tuple[views.ListedMeeting, ...]:
        """Return nothing: a server lists no meetings."""
        return ()

    async def read(self, provider_meeting_id: str) -> views.FoundMeeting | None:
        """Return `None`: nothing is stored with a room."""
        return None

    async def set_host_key(self, provider_user_id: str, host_key: str) -> None:
        raise ProviderRefused("Jitsi has no host keys")
