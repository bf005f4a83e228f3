"""The names and addresses of Jitsi rooms.

A room's name is its only protection, so it is derived from our meeting id and a key: it is stable, and the id
alone does not reveal it. All other options of a room go behind the `#` of its address, which browsers keep to
themselves: the server learns the title from those who enter.
"""

import base64
import hmac
import json
from urllib.parse import quote
from uuid import UUID

_NAME_BYTES = 15
"""120 bits: 24 letters and digits, none of which Jitsi could fold into another."""
_GROUP = 4


class JitsiRooms:
    """Names rooms and writes their addresses.

    Args:
        url: where the server is reached, an http(s) origin with or without a path; a final slash does not
            matter.
        signing_key: secret bytes for this use alone. Another key gives other rooms.

    Raises:
        ValueError: the key has fewer than 16 bytes.
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
        """Return the room of a meeting: six groups of four lower-case letters and digits."""
        digest = hmac.digest(self._key, b"jitsi-room:" + meeting_id.bytes, "sha256")
        # Jitsi folds capitals. In base32 neither 0 nor 1 is there to be taken for a letter.
        text = base64.b32encode(digest[:_NAME_BYTES]).decode("ascii").lower()
        return "-".join(text[start : start + _GROUP] for start in range(0, len(text), _GROUP))

    def join_url(self, meeting_id: UUID, title: str, *, mic_off: bool) -> str:
        """Return the address of a meeting's room, which shows the title and can mute participants at first.

        Args:
            title: any text.
            mic_off: whether microphones are off at first. Participants can unmute themselves.
        """
        options = f"config.subject={_as_option(title)}"
        if mic_off:
            options += "&config.startWithAudioMuted=true"
        return f"{self._url}/{self.name(meeting_id)}#{options}"


def _as_option(text: str) -> str:
    r"""Encode a text as Jitsi reads it: JSON, percent-encoded.

    Before it parses, Jitsi turns typographic quotes into plain ones and a backslash with `&` into `&`. Either
    would break the JSON, so neither is there: beyond ASCII and for `&` there are only JSON's own escapes.
    """
    return quote(json.dumps(text).replace("&", r"\u0026"), safe="")
