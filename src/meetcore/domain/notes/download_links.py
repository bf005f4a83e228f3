"""Signed links to the files of a recording: a part can be fetched without an API key until a deadline.

A link names an account, a recording, one of its parts (counted from 1) and the second at which it is over.
The signature is an HMAC-SHA256 over all four, each of a fixed width, behind a label that no other use of a
key has. It proves that the service issued the link, not that the recording still exists: that is
checked at each use.

Owns the signature; keys, URLs and the time are arguments.
"""

import base64
import hmac
from collections.abc import Iterable
from datetime import timedelta
from typing import Final
from uuid import UUID

from attrs import field, frozen
from attrs.validators import and_, ge, le

__all__ = ["LINK_LIFETIME", "DownloadLink", "is_over", "is_signed_by", "sign_link"]

LINK_LIFETIME: Final = timedelta(minutes=15)
"""How long a link works."""

_LABEL: Final = b"meetcore recording download v1\x00"
_MAX_PART: Final = 2**32 - 1
_MAX_TIME: Final = 2**63 - 1


@frozen
class DownloadLink:
    """The content of a link. `expires` is unix time in whole seconds: from then on it does not work.

    Raises:
        ValueError: a part below 1, a time before 1970, or one of them out of range.
    """

    account_id: UUID
    recording_id: UUID
    part: int = field(validator=and_(ge(1), le(_MAX_PART)))
    expires: int = field(validator=and_(ge(0), le(_MAX_TIME)))


def sign_link(key: bytes, link: DownloadLink) -> str:
    """The signature of a link: 43 characters that fit into an address.

    Args:
        key: secret bytes for this use.
    """
    digest = hmac.digest(key, _LABEL + _bytes_of(link), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def is_signed_by(keys: Iterable[bytes], link: DownloadLink, signature: str) -> bool:
    """Whether one of these keys signed the link. Takes the same time wherever a signature differs."""
    matches = False
    for key in keys:
        expected = sign_link(key, link).encode()
        matches |= hmac.compare_digest(expected, signature.encode(errors="replace"))
    return matches


def is_over(link: DownloadLink, now: float) -> bool:
    """Whether a link has ended at this unix time in seconds."""
    return now >= link.expires


def _bytes_of(link: DownloadLink) -> bytes:
    numbers = link.part.to_bytes(4, "big") + link.expires.to_bytes(8, "big")
    return link.account_id.bytes + link.recording_id.bytes + numbers
