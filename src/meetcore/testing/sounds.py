"""Sounds for suites: silence of any length, and the length of a sound by its file. No codec is needed.

Silence is one channel of Opus in Ogg: an Opus packet of one byte stands for a stretch without change, so a
file is a head and pages of such packets, each with the time of its end (RFC 6716, 3.2.1; RFC 7845; RFC 3533).
The length of a sound is read from the last page of Ogg, the movie header of M4A (ISO/IEC 14496-12, 8.2.2) or
the head of WAV.
"""

import io
import struct
import tempfile
import wave
from collections.abc import Iterator
from typing import BinaryIO, Final, cast

from meetcore.ports.ai import Sound

_SAMPLES_PER_S: Final = 48_000
_PACKET_SAMPLES: Final = 960
_SILK_NARROWBAND_20_MS: Final = b"\x08"
_PACKETS_PER_PAGE: Final = 250
_SKIPPED: Final = 312
_PAGE: Final = b"OggS"
_HEAD_BYTES: Final = 256


def silence(length_s: float) -> bytes:
    """Return a file of silence of so many seconds."""
    return b"".join(_pages(round(length_s * _SAMPLES_PER_S) + _SKIPPED))


def sound_of(content: bytes, length_s: float) -> Sound:
    """Make a sound as `AudioEditor.cut` returns it, with this content; closing it removes the file."""
    file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115  (the caller closes it)
    file.write(content)
    file.seek(0)
    return Sound(file, length_s)


def _pages(samples: int) -> Iterator[bytes]:
    head = b"OpusHead" + struct.pack("<BBHIhB", 1, 1, _SKIPPED, _SAMPLES_PER_S, 0, 0)
    tags = b"OpusTags" + struct.pack("<I", 8) + b"silence " + struct.pack("<I", 0)
    yield _page(0, 0, (head,), is_first=True)
    yield _page(1, 0, (tags,))
    packets, number, done = -(-samples // _PACKET_SAMPLES), 2, 0
    while done < packets:
        count = min(_PACKETS_PER_PAGE, packets - done)
        done += count
        position = min(samples, done * _PACKET_SAMPLES)
        yield _page(number, position, (_SILK_NARROWBAND_20_MS,) * count, is_last=done == packets)
        number += 1


def _page(
    number: int, position: int, packets: tuple[bytes, ...], *, is_first: bool = False, is_last: bool = False
) -> bytes:
    """Write a page of packets that are shorter than 255 bytes."""
    kind = (2 if is_first else 0) | (4 if is_last else 0)
    lengths = bytes(len(packet) for packet in packets)

    def page(checksum: int) -> bytes:
        head = struct.pack("<4sBBqIIIB", _PAGE, 0, kind, position, 1, number, checksum, len(packets))
        return head + lengths + b"".join(packets)

    return page(_checksum(page(0)))


def _checksum(page: bytes) -> int:
    """Compute the CRC of Ogg: the polynomial of Ethernet, neither reflected nor inverted."""
    value = 0
    for byte in page:
        value ^= byte << 24
        for _ in range(8):
            value = ((value << 1) ^ 0x04C11DB7 if value & 0x80000000 else value << 1) & 0xFFFFFFFF
    return value


def sound_length_s(file: bytes) -> float | None:
    """Return the length in seconds of Opus in Ogg, M4A or WAV; `None` for other or truncated files."""
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
            if position != -1:  # no packet ends on this page
                return max(0, position - skipped) / _SAMPLES_PER_S
        at = file.rfind(_PAGE, 0, at)
    return None


def _m4a_length_s(file: bytes) -> float | None:
    movies = (movie for kind, movie in _boxes(file) if kind == b"moov")
    headers = (header for movie in movies for kind, header in _boxes(movie) if kind == b"mvhd")
    header = next(headers, None)
    return None if header is None else _movie_length_s(header)


def _boxes(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the kind and content of the complete boxes."""
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
