"""Opus in Ogg, as far as its length: RFC 7845, RFC 3533.

Every page of the stream says how many samples there are when it ends, and the first one how many of them are
not to be heard. The length of a sound is therefore in its first and its last page; nothing is decoded.

Owns that arithmetic. Refuses to decode, and to believe what it reads of a stranger's file to be its length.
"""

from typing import Final

__all__ = ["TAIL_BYTES", "opus_length_s"]

TAIL_BYTES: Final = 65_536
"""A page is shorter than this: the last page of a file begins within so many bytes of its end."""

_SAMPLES_PER_S: Final = 48_000
_PAGE: Final = b"OggS"
_UNKNOWN: Final = -1


def opus_length_s(head: bytes, tail: bytes) -> float | None:
    """How long a sound is, in seconds; none where these are not the ends of an Opus file.

    Args:
        head: its first bytes, a hundred at least where there are as many.
        tail: its last `TAIL_BYTES`, or all of it.
    """
    header = head.find(b"OpusHead")
    if not head.startswith(_PAGE) or header < 0 or len(head) < header + 12:
        return None
    skipped = int.from_bytes(head[header + 10 : header + 12], "little")
    at = tail.rfind(_PAGE)
    while at >= 0:
        if at + 14 <= len(tail):
            position = int.from_bytes(tail[at + 6 : at + 14], "little", signed=True)
            if position != _UNKNOWN:
                return max(0, position - skipped) / _SAMPLES_PER_S
        at = tail.rfind(_PAGE, 0, at)
    return None
