"""Open media and measure their audio.

Only the listed formats and codecs are opened: ffmpeg also follows playlists and URLs. It gets one open file
and may open no other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet

FORMATS = "mov,matroska,webm,ogg,mp3,wav,flac"
CODECS = (
    "aac,aac_fixed,alac,flac,mp3,mp3float,opus,libopus,vorbis,ac3,eac3,"
    "pcm_s16le,pcm_s16be,pcm_s24le,pcm_s32le,pcm_f32le,pcm_u8,pcm_mulaw,pcm_alaw"
)
MAX_LENGTH_S = 48 * 3600  # beyond, times are invalid

JITTER_S = 0.03
"""Tolerance of rounded times; a larger difference is a gap."""

LEAST_S = 0.2
"""Shortest piece; transcribers refuse less than 0.1 s."""

# A decoder needs some frames before its start, for MP3 the bit reservoir.
_PREROLL_S = 1.0
# A header shorter by less than a frame excludes the padding of the last one.
_PADDING_S = 0.1


class Unreadable(Exception):
    """Not a media file, or one without audio."""


class OpenMedia:
    """A file by descriptor with its own position, since processes share the descriptor's."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._position = 0
        self._size = os.fstat(descriptor).st_size

    def read(self, count: int) -> bytes:
        piece = os.pread(self._descriptor, count, self._position)
        self._position += len(piece)
        return piece

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def tell(self) -> int:
        return self._position


@contextmanager
def opened(descriptor: int) -> Iterator[InputContainer]:
    """Open a media file, all streams but audio discarded; or raise `Unreadable`."""
    import av

    options = {"format_whitelist": FORMATS, "codec_whitelist": CODECS, "protocol_whitelist": "none"}
    try:
        media = av.open(
            OpenMedia(descriptor), "r", options=options, io_open=_refuse,
            metadata_errors="replace", buffer_size=256 * 1024,
        )  # fmt: skip
    except (av.error.FFmpegError, ValueError) as error:
        raise Unreadable(f"not a media file: {type(error).__name__}") from None
    with media:
        if not media.streams.audio:
            raise Unreadable("no audio")
        for stream in media.streams:
            if stream.type != "audio":
                stream.discard = av.stream.Discard.all
        yield media


def _refuse(*_: object, **__: object) -> NoReturn:
    raise PermissionError("only one file may be opened")


def stream_of(media: InputContainer, index: int) -> AudioStream:
    """Return the audio stream with this index."""
    return next(each for each in media.streams.audio if each.index == index)


def longest(descriptor: int) -> int:
    """Return the index of the longest audio stream, or raise `Unreadable`."""
    with opened(descriptor) as media:
        audio = media.streams.audio
        if len(audio) == 1:
            return int(audio[0].index)
        found = lengths(media)
        return max(found, key=lambda one: found[one])


def measure(descriptor: int) -> float:
    """Return the seconds of the longest audio stream, or raise `Unreadable`."""
    with opened(descriptor) as media:
        return max(lengths(media).values())


def lengths(media: InputContainer) -> dict[int, float]:
    """Return the seconds of each audio stream by index, from its start to the end of its last packet.

    A truncated end does not count, despite the header, which may only subtract the padding of the last frame.
    Raises `Unreadable` without an audio packet, or with invalid times.
    """
    import av

    last: dict[int, int] = {}
    try:
        for packet in media.demux(tuple(media.streams.audio)):
            if packet.pts is None or packet.size == 0:
                continue
            end = packet.pts + (packet.duration or 0)
            last[packet.stream_index] = max(last.get(packet.stream_index, end), end)
    except av.error.FFmpegError:
        pass  # measure up to the damage
    found = {
        stream.index: _length_s(stream, last[stream.index])
        for stream in media.streams.audio
        if stream.index in last
    }
    if not found or max(found.values()) <= 0:
        raise Unreadable("no audio packet")
    if max(found.values()) > MAX_LENGTH_S:
        raise Unreadable("invalid length")
    return found


def _length_s(stream: AudioStream, last: int) -> float:
    base = base_of(stream)
    length_s = float((last - _beginning(stream)) * base)
    declared_s = length_s if stream.duration is None else float(stream.duration * base)
    return declared_s if 0 < length_s - declared_s < _PADDING_S else length_s


def base_of(stream: AudioStream) -> Fraction:
    """Return the time base of a stream in seconds, or raise `Unreadable`."""
    if not stream.time_base:
        raise Unreadable("no time base")
    return Fraction(stream.time_base)


def _beginning(stream: AudioStream) -> int:
    """Return the time of the first audible sample; earlier packets prime the decoder."""
    return stream.start_time or 0


def go_to(media: InputContainer, stream: AudioStream, from_s: float) -> float | None:
    """Seek to shortly before this second; return the stream's start time, `None` if seeking fails."""
    import av

    base = base_of(stream)
    start_at = float(_beginning(stream) * base)
    target_s = from_s - _PREROLL_S
    if target_s > 0:
        try:
            media.seek(int((start_at + target_s) / float(base)), stream=stream, backward=True)
        except av.error.FFmpegError:
            return None
    return start_at


def packets_of(media: InputContainer, stream: AudioStream) -> Iterator[Packet[AudioStream]]:
    """Yield the packets from there on, up to damage or the end."""
    import av

    packets = media.demux(stream)
    while True:
        try:
            packet = next(packets, None)
        except av.error.FFmpegError:
            return
        if packet is None:
            return
        yield packet
