"""Sounds for suites: silence as one channel of Opus in Ogg, of any length, without an encoder.

Opus has a packet for a stretch in which nothing changes: its first byte alone. So a whole file is a head, and
pages of such packets with the time at which each page ends (RFC 6716, 3.2.1; RFC 7845; RFC 3533).
"""

import struct
import tempfile
from collections.abc import Iterator
from typing import BinaryIO, Final, cast

from meetcore.ports.audio_editor import Sound

__all__ = ["silence", "sound_of"]

_SAMPLES_PER_S: Final = 48_000
_PACKET_SAMPLES: Final = 960
_SILK_NARROWBAND_20_MS: Final = b"\x08"
_PACKETS_PER_PAGE: Final = 250
_SKIPPED: Final = 312


def silence(length_s: float) -> bytes:
    """Return a file of silence of so many seconds."""
    wanted = round(length_s * _SAMPLES_PER_S) + _SKIPPED
    return b"".join(_pages(wanted))


def sound_of(content: bytes, length_s: float) -> Sound:
    """A piece as `AudioEditor.cut` gives it, with this in its file; closing it removes the file."""
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
    """One page; each packet is shorter than 255 bytes."""
    kind = (2 if is_first else 0) | (4 if is_last else 0)
    lengths = bytes(len(packet) for packet in packets)

    def page(checksum: int) -> bytes:
        head = struct.pack("<4sBBqIIIB", b"OggS", 0, kind, position, 1, number, checksum, len(packets))
        return head + lengths + b"".join(packets)

    return page(_checksum(page(0)))


def _checksum(page: bytes) -> int:
    """The CRC of Ogg: the polynomial of Ethernet, neither reflected nor inverted."""
    value = 0
    for byte in page:
        value ^= byte << 24
        for _ in range(8):
            value = ((value << 1) ^ 0x04C11DB7 if value & 0x80000000 else value << 1) & 0xFFFFFFFF
    return value
