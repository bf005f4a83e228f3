"""Cut a stretch of AAC without re-encoding: copy its packets into an M4A.

Most meetings are recorded in AAC; copying is lossless and takes a tenth of the CPU time. An edit list
(ISO/IEC 14496-12, 8.6.6) marks how much of the first packets only primes the decoder, so the stretch begins
at its sample. It ends with a whole packet, which may reach past the end. Only one gapless run of packets is
copied; gaps, damage and other codecs are left to the encoder.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from meetcore.adapters.media import sound

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet

MAX_BYTES = 24_000_000
"""Limit of packets and their table entries: transcribers accept 25 MB."""

_PACKET_SAMPLES = 1024
# Upper bound of a packet's table entries.
_ENTRY_BYTES = 16
# Decoding a packet needs the one before it.
_BEFORE_SAMPLES = 2 * _PACKET_SAMPLES


class NotCopied(Exception):
    """The stretch cannot be copied."""


def copy(descriptor: int, index: int, into: int, from_s: float, length_s: float) -> float:
    """Write a stretch of a stream and return its seconds.

    Raises `NotCopied`, after which something may have been written, or `Unreadable` without times.
    """
    import av

    with sound.opened(descriptor) as media, open(into, "wb", closefd=False) as target:
        stream = sound.stream_of(media, index)
        rate = _rate_of(stream)
        # Round start and end, not the length: the next piece begins at the next sample.
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
    if end < sound.LEAST_S * rate:
        raise NotCopied
    return end / rate


def _rate_of(stream: AudioStream) -> int:
    """Return the sample rate of plain AAC."""
    codec = stream.codec_context
    is_plain = codec.name == "aac" and codec.profile == "LC" and codec.frame_size == _PACKET_SAMPLES
    if not (is_plain and codec.extradata and codec.channels in (1, 2) and codec.sample_rate):
        raise NotCopied
    return int(codec.sample_rate)


def _run(
    media: InputContainer, stream: AudioStream, from_s: float, first: int, total: int
) -> Iterator[tuple[int, Packet[AudioStream], int]]:
    """Yield the needed packets with place, from the start of the stretch, and length, both in samples.

    The last packet of the media may have fewer audible samples than it holds.
    """
    rate, base_s = stream.codec_context.sample_rate, float(sound.base_of(stream))
    start_at = sound.go_to(media, stream, from_s)
    if start_at is None:
        raise NotCopied
    jitter = sound.JITTER_S * rate
    place: int | None = None
    for packet in sound.packets_of(media, stream):
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
