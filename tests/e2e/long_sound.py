"""A recording of hours, made in seconds."""

from __future__ import annotations

import io
import itertools
from fractions import Fraction

import av

__all__ = ["long_sound"]

RATE = 32_000
BURST_S = 20
SAMPLES = 1024
"""Per packet of AAC."""


def long_sound(seconds: int) -> bytes:
    """Return AAC in M4A: an intermittent tone, encoded once and repeated packet by packet."""
    file = io.BytesIO()
    with av.open(file, "w", format="ipod") as target:
        stream = target.add_stream("aac", rate=RATE, layout="mono")
        assert isinstance(stream, av.AudioStream)
        burst = itertools.cycle(_encoded(stream))
        for number in range(seconds * RATE // SAMPLES):
            packet = av.Packet(next(burst))
            packet.stream, packet.time_base = stream, Fraction(1, RATE)
            packet.pts = packet.dts = SAMPLES * number
            packet.duration = SAMPLES
            target.mux(packet)
    return file.getvalue()


def _encoded(stream: av.AudioStream) -> list[bytes]:
    stream.bit_rate = 48_000
    packets: list[bytes] = []
    for number in range(BURST_S * RATE // SAMPLES):
        loud = 12_000 if number // 64 % 2 else 40
        wave = [loud if (sample + number * SAMPLES) // 40 % 2 else -loud for sample in range(SAMPLES)]
        frame = av.AudioFrame("s16", "mono", SAMPLES)
        frame.planes[0].update(b"".join(each.to_bytes(2, "little", signed=True) for each in wave))
        frame.sample_rate, frame.pts, frame.time_base = RATE, number * SAMPLES, Fraction(1, RATE)
        packets += [bytes(each) for each in stream.encode(frame)]
    return packets
