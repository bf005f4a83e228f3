"""How long a sound is, by what its file says: Opus in Ogg, M4A, WAV. Nothing is decoded.

Opus: RFC 7845 and RFC 3533. Every page of the stream says how many samples there are when it ends, and the
first one how many of them are silent padding. M4A: ISO/IEC 14496-12, 8.2.2. The movie's header has its
length, without what only prepares the decoder.

Owns that arithmetic. Refuses everything else.
"""

import io
import struct
import wave
from collections.abc import Iterator
from typing import Final

__all__ = ["sound_length_s"]

_SAMPLES_PER_S: Final = 48_000
_PAGE: Final = b"OggS"
_UNKNOWN: Final = -1
_HEAD_BYTES: Final = 256


def sound_length_s(file: bytes) -> float | None:
    """Return the length in seconds; `None` for any other form, or a file that is cut off."""
    if file.startswith(_PAGE):
        return _opus_length_s(file)
    if file[4:8] == b"ftyp":
        return _m4a_length_s(file)
    return _wav_length_s(file)


def _opus_length_s(file: bytes) -> float | None:
    header = file.find(b"OpusHead", 0, _HEAD_BYTES)
    if header < 0 or len(file) < header + 12:
        return None
    skipped = int.from_bytes(file[header + 10 : header + 12], "little")
    at = file.rfind(_PAGE)
    while at >= 0:
        if at + 14 <= len(file):
            position = int.from_bytes(file[at + 6 : at + 14], "little", signed=True)
            if position != _UNKNOWN:
                return max(0, position - skipped) / _SAMPLES_PER_S
        at = file.rfind(_PAGE, 0, at)
    return None


def _m4a_length_s(file: bytes) -> float | None:
    for kind, movie in _boxes(file):
        if kind == b"moov":
            for inner, header in _boxes(movie):
                if inner == b"mvhd":
                    return _movie_length_s(header)
    return None


def _boxes(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The boxes in there that are whole."""
    at = 0
    while at + 8 <= len(content):
        size, kind = struct.unpack_from(">I4s", content, at)
        begin = 8
        if size == 1 and at + 16 <= len(content):
            begin, (size,) = 16, struct.unpack_from(">Q", content, at + 8)
        if size < begin or at + size > len(content):
            return
        yield kind, content[at + begin : at + size]
        at += size


def _movie_length_s(header: bytes) -> float | None:
    is_long = header[:1] == b"\x01"
    form, at = (">IQ", 20) if is_long else (">II", 12)
    if len(header) < at + struct.calcsize(form):
        return None
    in_a_second, length = struct.unpack_from(form, header, at)
    return float(length / in_a_second) if in_a_second else None


def _wav_length_s(file: bytes) -> float | None:
    try:
        with wave.open(io.BytesIO(file)) as sound:
            return float(sound.getnframes() / sound.getframerate())
    except (wave.Error, EOFError, ZeroDivisionError):
        return None
