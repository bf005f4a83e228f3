"""A stretch of sound as it is: the packets of AAC that it consists of, in M4A of their own.

What meetings are recorded in mostly is AAC. Nothing is decoded for it and nothing is lost; it takes a
tenth of the computing that encoding anew takes. The stretch begins with its sample: an edit list
(ISO/IEC 14496-12, 8.6.6) says how much of the first packets only prepares the decoder. It ends with a packet,
whose last samples may lie behind the end.

Owns when packets may be copied. Refuses everything but one whole run of them: gaps, damage and other codecs
are for the decoder.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from meetcore.adapters.media.sound import (
    JITTER_S,
    LEAST_S,
    base_of,
    go_to,
    opened,
    packets_of,
    stream_of,
)

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet

MAX_BYTES = 24_000_000
"""Of the packets and what the file says of each: transcribers accept 25 MB."""

_PACKET_SAMPLES = 1024
# What a table in the file needs for one packet, at most.
_ENTRY_BYTES = 16
# A packet is decoded together with the one before it.
_BEFORE_SAMPLES = 2 * _PACKET_SAMPLES


class NotCopied(Exception):
    """It cannot be done with what is there."""


def copy(descriptor: int, index: int, into: int, from_s: float, length_s: float) -> float:
    """Write a stretch of a stream; gives its seconds.

    Raises:
        NotCopied: see there; something may have been written.
        Unreadable: the stream has no times.
    """
    import av

    with opened(descriptor) as media, open(into, "wb", closefd=False) as target:
        stream = stream_of(media, index)
        rate = _rate_of(stream)
        # The end in samples by the end in seconds: the next piece begins with the one after.
        first = round(from_s * rate)
        total = round((from_s + length_s) * rate) - first
        end = size = 0
        with av.open(target, "w", format="ipod") as written:
            copied = written.add_stream_from_template(stream)
            sample_s = Fraction(1, rate)
            for place, packet, samples in _run(media, stream, from_s, first, total):
                size += packet.size + _ENTRY_BYTES
                if size > MAX_BYTES:
                    raise NotCopied
                end = min(place + samples, total)
                packet.stream, packet.time_base = copied, sample_s
                packet.pts = packet.dts = place
                packet.duration = end - place
                written.mux(packet)
    if end < LEAST_S * rate:
        raise NotCopied
    return end / rate


def _rate_of(stream: AudioStream) -> int:
    """The samples a second of plain AAC."""
    codec = stream.codec_context
    is_plain = codec.name == "aac" and codec.profile == "LC" and codec.frame_size == _PACKET_SAMPLES
    if not (is_plain and codec.extradata and codec.channels in (1, 2) and codec.sample_rate):
        raise NotCopied
    return int(codec.sample_rate)


def _run(
    media: InputContainer, stream: AudioStream, from_s: float, first: int, total: int
) -> Iterator[tuple[int, Packet[AudioStream], int]]:
    """The packets that are needed: each with its place, from the beginning of the stretch, and its length.

    In samples. The last packet of the media may have fewer audible samples than it holds.
    """
    rate, base_s = stream.codec_context.sample_rate, float(base_of(stream))
    start_at = go_to(media, stream, from_s)
    if start_at is None:
        raise NotCopied
    jitter = JITTER_S * rate
    place: int | None = None
    for packet in packets_of(media, stream):
        if packet.pts is None or packet.size == 0:
            continue
        at = round((packet.pts * base_s - start_at) * rate) - first
        if at <= -_BEFORE_SAMPLES:
            continue
        if place is None:
            place = min(at, 0)
        if abs(at - place) > jitter or packet.is_corrupt:
            raise NotCopied
        if place >= total:
            return
        length = round((packet.duration or 0) * base_s * rate)
        yield place, packet, length if 0 < length < _PACKET_SAMPLES else _PACKET_SAMPLES
        place += _PACKET_SAMPLES
