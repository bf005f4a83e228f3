"""Downloads of a recording's files: signed links to them, and how many streams run at once.

A link names an account, a recording, one of its parts (counted from 1) and the second at which it expires.
The signature is an HMAC-SHA256 over all four, each of a fixed width, behind a label that no other use of a
key has. It proves that the service issued the link, not that the recording still exists: that is checked at
each use.

A stream holds a socket, a connection to the provider and a task until its reader is done. Without limits the
slow readers of one link take all of them. Keys, URLs and the time are arguments.
"""

import base64
import hmac
from collections.abc import Iterable
from datetime import timedelta
from typing import Final
from uuid import UUID

from attrs import field, frozen
from attrs.validators import and_, ge, le

from meetcore.domain.errors import TooManyDownloads

LINK_LIFETIME: Final = timedelta(minutes=15)
"""How long a link works."""

_LABEL: Final = b"meetcore recording download v1\x00"
_MAX_PART: Final = 2**32 - 1
_MAX_TIME: Final = 2**63 - 1


@frozen
class DownloadLink:
    """The content of a link, which does not work from `expires`, in whole unix seconds, on.

    Raises `ValueError` for a part below 1, a time before 1970, or one of them out of range.
    """

    account_id: UUID
    recording_id: UUID
    part: int = field(validator=and_(ge(1), le(_MAX_PART)))
    expires: int = field(validator=and_(ge(0), le(_MAX_TIME)))


def sign_link(key: bytes, link: DownloadLink) -> str:
    """Return the signature of a link under a secret key: 43 characters that are safe in a URL."""
    digest = hmac.digest(key, _LABEL + _bytes_of(link), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def is_signed_by(keys: Iterable[bytes], link: DownloadLink, signature: str) -> bool:
    """Return whether one of these keys signed the link, in constant time."""
    matches = False
    for key in keys:
        expected = sign_link(key, link).encode()
        matches |= hmac.compare_digest(expected, signature.encode(errors="replace"))
    return matches


def is_over(link: DownloadLink, now: float) -> bool:
    """Return whether a link has expired at this unix time in seconds."""
    return now >= link.expires


def _bytes_of(link: DownloadLink) -> bytes:
    numbers = link.part.to_bytes(4, "big") + link.expires.to_bytes(8, "big")
    return link.account_id.bytes + link.recording_id.bytes + numbers


RETRY_AFTER_S: Final = 10


@frozen
class DownloadLimits:
    """Limits of streams. A rate is measured over `rate_window_s` seconds of waiting for the reader.

    No stream lasts longer than `longest_s`, whatever its rate.
    """

    streams_per_link: int = 4
    streams_per_account: int = 20
    min_bytes_per_s: int = 16 * 1024
    rate_window_s: float = 60.0
    longest_s: float = 24 * 3600.0

    def check_streams(self, of_link: int, of_account: int) -> None:
        """Raise `TooManyDownloads` where the link or its account has as many streams as it may have."""
        if of_link >= self.streams_per_link:
            raise TooManyDownloads("of this link", self.streams_per_link, RETRY_AFTER_S)
        if of_account >= self.streams_per_account:
            raise TooManyDownloads("of this account", self.streams_per_account, RETRY_AFTER_S)

    def is_too_slow(self, taken_bytes: int, waited_s: float) -> bool:
        """Return whether to cut a reader off: by its own waiting time, never before a whole window of it."""
        return waited_s >= self.rate_window_s and taken_bytes < self.min_bytes_per_s * waited_s
