"""Decode a stretch and encode it: mono Opus in Ogg at 24 kbit/s.

Each sample keeps its place; gaps and broken packets become silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from meetcore.adapters.media.sound import JITTER_S, LEAST_S, Unreadable, go_to, opened, packets_of, stream_of

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer

RATE = 16_000
BIT_RATE = 24_000
_BYTES = 2  # per sample
_LEAST_SAMPLES = round(LEAST_S * RATE)


def encode(descriptor: int, index: int, into: int, from_s: float, length_s: float) -> float:
    """Write a stretch of a stream and return its seconds, or raise `Unreadable`."""
    with open(into, "wb", closefd=False) as target, Piece(target, round(length_s * RATE)) as piece:
        # Round start and end, not the length: the next piece begins at the next sample.
        start = round(from_s * RATE)
        piece.total = round((from_s + length_s) * RATE) - start
        for is_seeking in (True, False):
            with opened(descriptor) as media:
                if _listen(media, index, start / RATE, piece, is_seeking=is_seeking):
                    break
        piece.fill(_LEAST_SAMPLES)
        return piece.done / RATE


def _listen(media: InputContainer, index: int, from_s: float, piece: Piece, *, is_seeking: bool) -> bool:
    """Decode into a piece; false if seeking went past its beginning and nothing was written."""
    stream = stream_of(media, index)
    start_at = go_to(media, stream, from_s if is_seeking else 0.0)
    if start_at is None:
        return False
    sound = Resampled(piece.put)
    end_s = piece.total / RATE + JITTER_S
    has_frames = False
    for time_s, frame in _frames(media, stream):
        at_s = time_s - start_at - from_s
        if not has_frames and is_seeking and at_s > 0 and from_s > 0:
            return False  # a gap or an inexact seek: decode from the beginning to find out
        has_frames = True
        if at_s >= end_s:
            sound.flush()
            piece.fill(piece.total)  # the media goes on, so the rest is a gap
            return True
        sound.put(at_s, frame)
    sound.flush()
    if not has_frames and not is_seeking:
        raise Unreadable("no decodable audio")
    return has_frames


def _frames(media: InputContainer, stream: AudioStream) -> Iterator[tuple[float, AudioFrame]]:
    """Yield the decoded frames with their seconds; broken packets are skipped."""
    import av

    for packet in packets_of(media, stream):
        try:
            frames = packet.decode()
        except av.error.FFmpegError:
            continue
        for frame in frames:
            if frame.time is not None and frame.samples:
                yield frame.time, frame


class Resampled:
    """Converts frames to 16-bit mono samples at 16 kHz, each run with its place in the piece.

    A jump in time begins another run. Samples are passed on by the second: doing so for each frame of 20 ms
    costs as much as encoding.
    """

    def __init__(self, put: Callable[[int, bytes], None]) -> None:
        self._put = put
        self._resampler: Any = None
        self._form: object = None
        self._next_s = 0.0
        self._place = 0
        self._waiting = bytearray()

    def put(self, at_s: float, frame: AudioFrame) -> None:
        """Add a frame that begins `at_s` seconds after the piece."""
        import av

        form = (frame.format.name, frame.layout.name, frame.sample_rate)
        if self._resampler is None or form != self._form or abs(at_s - self._next_s) > JITTER_S:
            self.flush()
            self._resampler = av.AudioResampler("s16", "mono", RATE)
            self._form = form
            self._next_s, self._place = at_s, round(at_s * RATE)
        self._next_s += frame.samples / frame.sample_rate
        frame.pts = None
        self._take(self._resampler.resample(frame))
        if len(self._waiting) >= RATE * _BYTES:
            self._hand_on()

    def flush(self) -> None:
        """End the run."""
        if self._resampler is not None:
            self._take(self._resampler.resample(None))
            self._hand_on()
            self._resampler = None

    def _take(self, frames: list[AudioFrame]) -> None:
        for frame in frames:
            self._waiting += memoryview(frame.planes[0])[: frame.samples * _BYTES]

    def _hand_on(self) -> None:
        samples, self._waiting = bytes(self._waiting), bytearray()
        self._put(self._place, samples)
        self._place += len(samples) // _BYTES


class Piece:
    """An Ogg file under construction; places without samples are silent."""

    def __init__(self, target: Any, total: int) -> None:
        import av

        self.total = total
        self.done = 0
        self._target = av.open(target, "w", format="ogg")
        self._stream = self._target.add_stream(
            "libopus", rate=RATE, layout="mono",
            options={"application": "voip", "compression_level": "0", "frame_duration": "60"},
        )  # fmt: skip
        self._stream.codec_context.bit_rate = BIT_RATE

    def __enter__(self) -> Piece:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._target.mux(self._stream.encode(None))
        self._target.close()

    def put(self, place: int, samples: bytes) -> None:
        """Write samples; those before the current place or past the end are dropped."""
        end = min(place + len(samples) // _BYTES, self.total)
        if end <= self.done:
            return
        self.fill(min(place, self.total))
        self._write(samples[(self.done - place) * _BYTES : (end - place) * _BYTES])

    def fill(self, until: int) -> None:
        """Write silence up to a place."""
        while self.done < until:
            self._write(bytes(_BYTES * min(RATE, until - self.done)))

    def _write(self, samples: bytes) -> None:
        import av

        frame = av.AudioFrame("s16", "mono", len(samples) // _BYTES)
        frame.planes[0].update(samples)
        frame.sample_rate, frame.pts, frame.time_base = RATE, self.done, Fraction(1, RATE)
        self.done += frame.samples
        self._target.mux(self._stream.encode(frame))
