"""The names and addresses of sandbox meetings.

Everything follows from our own meeting id and a key, so that nothing has to be stored and asking twice
gives the same. The token in an address protects the page from clients that only know or guess an id.
"""

import base64
import hmac
from uuid import UUID

_PREFIX = "sandbox-"
_TOKEN_BYTES = 12
"""96 bits: short in a link, and far beyond guessing over HTTP."""


def provider_meeting_id(meeting_id: UUID) -> str:
    """The name of a meeting at the sandbox."""
    return f"{_PREFIX}{meeting_id}"


def meeting_uuid(provider_meeting_id: str) -> UUID | None:
    """Return our own id in a sandbox name, or `None` when the sandbox never gave such a name."""
    text = provider_meeting_id.removeprefix(_PREFIX)
    try:
        found = UUID(text)
    except ValueError:
        return None
    # One spelling for each meeting: UUID() also reads braces and capitals.
    return found if f"{_PREFIX}{found}" == provider_meeting_id else None


class JoinLinks:
    """Makes join links and verifies them.

    Args:
        base_url: what the service is reached by from outside; a final slash does not matter.
        signing_key: secret bytes for this use alone.

    Raises:
        ValueError: the key has fewer than 16 bytes.
    """

    __slots__ = ("_base_url", "_key")

    def __init__(self, base_url: str, signing_key: bytes) -> None:
        if len(signing_key) < 16:
            raise ValueError("the signing key of the sandbox has at least 16 bytes")
        self._base_url = base_url.rstrip("/")
        self._key = signing_key

    def __repr__(self) -> str:
        return f"<JoinLinks at {self._base_url}>"

    def join_url(self, meeting_id: UUID) -> str:
        """The address of a meeting's join page, with its token."""
        return f"{self._base_url}/sandbox/meetings/{meeting_id}?t={self.token(meeting_id)}"

    def token(self, meeting_id: UUID) -> str:
        """Return the token of a meeting's link: 16 characters fit for a URL."""
        digest = hmac.digest(self._key, b"sandbox-join:" + meeting_id.bytes, "sha256")
        return base64.urlsafe_b64encode(digest[:_TOKEN_BYTES]).decode("ascii")

    def is_token(self, meeting_id: UUID, token: str) -> bool:
        """Return whether a token is this meeting's, in constant time."""
        return hmac.compare_digest(self.token(meeting_id).encode(), token.encode("utf-8", "replace"))
