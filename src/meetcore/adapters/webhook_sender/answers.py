"""What a receiver answered, and what is kept of it.

Owns the caps on what is read, the excerpt, `Retry-After` and the error codes that customers see. It
reveals nothing of our own network: no addresses, no texts of exceptions.
"""

import re
import ssl
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import ceil

from meetcore.domain.errors import HostUnresolved, Unprocessable

MAX_BODY_BYTES = 64 * 1024
"""As it comes over the wire; nothing is decompressed but the excerpt."""

_EXCERPT_BYTES = 2048
_GZIP_OR_ZLIB = 47  # zlib: 32 detects the header, 15 is the largest window
_MAX_WAIT_S = 999_999_999  # what a store's 32-bit integer can hold; the schedule caps it far lower


class InvalidResponse(Exception):
    """The answer is not HTTP, or has no end."""


def excerpt_of(body: bytes, content_encoding: str) -> str | None:
    """Give the first 2 KiB of the body as text that any store can hold, or None if it is empty."""
    if content_encoding.strip().lower() in ("gzip", "x-gzip", "deflate"):
        try:
            body = zlib.decompressobj(_GZIP_OR_ZLIB).decompress(body, _EXCERPT_BYTES)
        except zlib.error:
            pass  # not in its declared encoding: shown as received
    text = body[:_EXCERPT_BYTES].decode("utf-8", "replace").replace("\0", "")
    # A replacement character is longer than the byte that it stands for.
    return text.encode("utf-8")[:_EXCERPT_BYTES].decode("utf-8", "ignore") or None


def retry_after_s(headers: Mapping[str, str], now: datetime) -> int | None:
    """Read `Retry-After`, whole seconds or an HTTP date, as seconds from now; None if absent or invalid."""
    given = headers.get("Retry-After")
    if given is None:
        return None
    value = given.strip()
    if re.fullmatch(r"[0-9]+", value):
        return min(int(value[:10]), _MAX_WAIT_S)
    try:
        moment = parsedate_to_datetime(value)
        wait_s = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(0, ceil(wait_s)), _MAX_WAIT_S)


def error_code(fault: Exception, *, is_connected: bool) -> str:
    """Name what went wrong before there was a whole answer, as a code that is stable for customers."""
    match fault:
        case HostUnresolved():
            return "dns_failed"
        case Unprocessable():
            return "address_refused"
        case ssl.SSLError():
            return "tls_failed"
        case OSError():
            return "connection_lost" if is_connected else "connect_failed"
        case _:
            return "invalid_response"
