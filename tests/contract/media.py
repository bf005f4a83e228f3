"""Media for the tests, made with PyAV: short tones at known seconds, in any container."""

import io
import math
from array import array
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from typing import BinaryIO

import av
from attrs import frozen
from av.audio.stream import AudioStream
from av.container import OutputContainer

TONE_S = 0.2


@frozen
class Form:
    """A container with a codec of sound in it."""

    format: str
    codec: str
    rate: int

    def __str__(self) -> str:
        return f"{self.format}-{self.codec}"


FORMS = (
    Form("ipod", "aac", 44100),
    Form("mp4", "aac", 32000),
    Form("ogg", "libopus", 48000),
    Form("mp3", "libmp3lame", 44100),
    Form("wav", "pcm_s16le", 22050),
    Form("webm", "libopus", 48000),
    Form("matroska", "aac", 48000),
    Form("flac", "flac", 44100),
)


def tones(form: Form, seconds: float, at: Iterable[float], begins_s: float = 0.0) -> bytes:
    """Silence of that length with a tone of 0.2 s at each of these seconds.

    `begins_s` is the container's time of the beginning.
    """
    file = io.BytesIO()
    with av.open(file, "w", format=form.format) as media:
        stream = _sound(media, form)
        _encode(media, stream, form.rate, seconds, tuple(at), begins_s)
    return file.getvalue()


def two_streams(form: Form, lengths_s: tuple[float, float], at: tuple[float, ...]) -> bytes:
    """Two streams of sound; only the longer has tones."""
    file = io.BytesIO()
    with av.open(file, "w", format=form.format) as media:
        streams = [_sound(media, form) for _ in lengths_s]
        for stream, length_s in zip(streams, lengths_s, strict=True):
            _encode(media, stream, form.rate, length_s, at if length_s == max(lengths_s) else (), 0.0)
    return file.getvalue()


def picture(seconds: float, form: Form | None = None, at: tuple[float, ...] = ()) -> bytes:
    """A film with sound of this form, or without."""
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as media:
        film = media.add_stream("mpeg4", rate=10)
        film.width, film.height, film.pix_fmt = 64, 64, "yuv420p"
        sound = None if form is None else _sound(media, form)
        for number in range(round(seconds * 10)):
            frame = av.VideoFrame(64, 64, "yuv420p")
            frame.pts = number
            media.mux(film.encode(frame))
        media.mux(film.encode(None))
        if form is not None:
            _encode(media, sound, form.rate, seconds, at, 0.0)
    return file.getvalue()


def with_a_gap(form: Form) -> bytes:
    """Four seconds, four of nothing at all, four more; tones after one second of each."""
    file = io.BytesIO()
    with av.open(file, "w", format=form.format) as media:
        stream = _sound(media, form)
        for begin_s in (0.0, 8.0):
            for number in range(4):
                frame = _frame(number * form.rate, form.rate, form.rate, (1.0,), begin_s)
                media.mux(stream.encode(frame))
        media.mux(stream.encode(None))
    return file.getvalue()


def _sound(media: OutputContainer, form: Form) -> AudioStream:
    stream = media.add_stream(form.codec, rate=form.rate, layout="mono")
    assert isinstance(stream, AudioStream)
    return stream


def _encode(media, stream, rate: int, seconds: float, at: tuple[float, ...], begins_s: float) -> None:
    resampler = av.AudioResampler(stream.codec_context.format, "mono", rate)
    total = round(seconds * rate)
    for first in range(0, total, rate):
        count = min(rate, total - first)
        frame = _frame(first, count, rate, at, begins_s)
        for each in resampler.resample(frame):
            media.mux(stream.encode(each))
    media.mux(stream.encode(None))


def _frame(first: int, count: int, rate: int, at: tuple[float, ...], begins_s: float) -> av.AudioFrame:
    frame = av.AudioFrame("s16", "mono", count)
    frame.planes[0].update(_samples(first, count, rate, at))
    frame.sample_rate, frame.pts, frame.time_base = rate, first + round(begins_s * rate), Fraction(1, rate)
    return frame


def _samples(first: int, count: int, rate: int, at: tuple[float, ...]) -> bytes:
    samples = array("h", bytes(2 * count))
    for begin_s in at:
        tone, begin = _tone(rate), round(begin_s * rate) - first
        start, end = max(0, begin), min(count, begin + len(tone))
        if start < end:
            samples[start:end] = tone[start - begin : end - begin]
    return samples.tobytes()


@cache
def _tone(rate: int) -> "array[int]":
    numbers = range(round(TONE_S * rate))
    return array("h", [round(12000 * math.sin(2 * math.pi * 880 * number / rate)) for number in numbers])


@frozen
class DecodedPiece:
    """What a piece sounds like: its length, and when tones begin."""

    seconds: float
    tones: list[float]


def decoded(piece: BinaryIO) -> DecodedPiece:
    samples = array("h")
    with av.open(piece, "r") as media:
        resampler = av.AudioResampler("s16", "mono", 16000)
        for frame in (*media.decode(audio=0), None):
            for each in resampler.resample(frame):
                samples.frombytes(bytes(each.planes[0])[: 2 * each.samples])
    loud = [max(map(abs, samples[at : at + 80])) > 3000 for at in range(0, len(samples), 80)]
    begins = [at * 0.005 for at, now in enumerate(loud) if now and not any(loud[max(0, at - 10) : at])]
    return DecodedPiece(len(samples) / 16000, begins)
