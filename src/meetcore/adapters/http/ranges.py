"""The `Range` field of HTTP: the one part of a file that a client wants (RFC 9110, section 14).

A field that is malformed, names several parts or is bound to a version is ignored, as the standard allows:
the whole file is a valid answer.
"""

import re
from collections.abc import Mapping
from typing import Final

from meetcore.ports.recording_files import ByteRange, RangeUnsatisfiable

_ONE: Final = re.compile(r"\s*bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*", re.ASCII | re.IGNORECASE)


def range_of(headers: Mapping[str, str], size_bytes: int) -> ByteRange | None:
    """Return the requested part of a file of this size; `None` for the whole.

    Raises:
        RangeUnsatisfiable: the last 0 bytes are requested, or bytes behind the end.
    """
    # We give a file no version: none that a client may name can be that of what we have.
    if "if-range" in headers:
        return None
    found = _ONE.fullmatch(headers.get("range", ""))
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        return _the_last(int(found[2]), size_bytes)
    first, last = int(found[1]), int(found[2]) if found[2] else None
    if last is not None and last < first:
        return None
    if first >= size_bytes:
        raise RangeUnsatisfiable(size_bytes)
    return ByteRange(first, last)


def _the_last(count: int, size_bytes: int) -> ByteRange:
    if count == 0 or size_bytes == 0:
        raise RangeUnsatisfiable(size_bytes)
    return ByteRange(max(0, size_bytes - count))
