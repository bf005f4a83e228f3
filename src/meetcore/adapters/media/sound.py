"""The reading of media: what is opened at all, where its sound begins, and how long it is.

The formats and codecs that meetings are recorded in are listed, and nothing else is tried: ffmpeg also reads
lists of other files and addresses. It is given the one open file and opens none by itself.

Owns that list and those times. Media without sound are refused.
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
MAX_LENGTH_S = 48 * 3600  # longer media have invalid times

JITTER_S = 0.03
"""Times in a file are rounded, to milliseconds in some; what is further off is a gap."""

LEAST_S = 0.2
"""Transcribers refuse less than a tenth of a second."""

# A decoder that starts in the middle needs what is before: a few frames, and for MP3 its reservoir.
_PREROLL_S = 1.0
# A header that is shorter by less than a frame accounts for the padding in the last one.
_PADDING_S = 0.1


class Unreadable(Exception):
    """No media, or media without sound."""


class OpenMedia:
    """A file by its descriptor, with a position of its own: another process may read the same file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._position = 0
        self._size = os.fstat(descriptor).st_size

    def read(self, count: int) -> bytes:
        """Read on."""
        piece = os.pread(self._descriptor, count, self._position)
        self._position += len(piece)
        return piece

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go there."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def tell(self) -> int:
        """Where it is."""
        return self._position


@contextmanager
def opened(descriptor: int) -> Iterator[InputContainer]:
    """The media in a file; all streams but those of sound are passed over.

    Raises:
        Unreadable: it is no media, or has no sound.
    """
    import av

    options = {"format_whitelist": FORMATS, "codec_whitelist": CODECS, "protocol_whitelist": "none"}
    try:
        media = av.open(
            OpenMedia(descriptor), "r", options=options, io_open=_refuse,
            metadata_errors="replace", buffer_size=256 * 1024,
        )  # fmt: skip
    except (av.error.FFmpegError, ValueError) as error:
        raise Unreadable(f"no media: {type(error).__name__}") from None
    with media:
        if not media.streams.audio:
            raise Unreadable("no sound")
        for stream in media.streams:
            if stream.type != "audio":
                stream.discard = av.stream.Discard.all
        yield media


def _refuse(*_: object, **__: object) -> NoReturn:
    raise PermissionError("no other file is opened")


def stream_of(media: InputContainer, index: int) -> AudioStream:
    """The stream of sound with this index."""
    return next(each for each in media.streams.audio if each.index == index)


def longest(descriptor: int) -> int:
    """The index of the longest stream of sound.

    Raises:
        Unreadable: there is no sound.
    """
    with opened(descriptor) as media:
        audio = media.streams.audio
        if len(audio) == 1:
            return int(audio[0].index)
        found = lengths(media)
        return max(found, key=lambda one: found[one])


def measure(descriptor: int) -> float:
    """The seconds of the longest stream of sound.

    Raises:
        Unreadable: there is no sound.
    """
    with opened(descriptor) as media:
        return max(lengths(media).values())


def lengths(media: InputContainer) -> dict[int, float]:
    """How long each stream of sound is, by its index: from its beginning to the end of its last packet.

    What is cut off at the end of a file does not count, whatever the header says. The header may only take
    away what the last frame was filled up with.

    Raises:
        Unreadable: no packet of sound, or invalid times.
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
        pass  # as far as it goes
    found = {
        stream.index: _length_s(stream, last[stream.index])
        for stream in media.streams.audio
        if stream.index in last
    }
    if not found or max(found.values()) <= 0:
        raise Unreadable("no packet of sound")
    if max(found.values()) > MAX_LENGTH_S:
        raise Unreadable("longer than a meeting can be")
    return found


def _length_s(stream: AudioStream, last: int) -> float:
    base = base_of(stream)
    length_s = float((last - _beginning(stream)) * base)
    declared_s = length_s if stream.duration is None else float(stream.duration * base)
    return declared_s if 0 < length_s - declared_s < _PADDING_S else length_s


def base_of(stream: AudioStream) -> Fraction:
    """The seconds in which its times are counted.

    Raises:
        Unreadable: it has no times.
    """
    if not stream.time_base:
        raise Unreadable("sound without times")
    return Fraction(stream.time_base)


def _beginning(stream: AudioStream) -> int:
    """The time of the first audible sample; packets before it only prepare the decoder."""
    return stream.start_time or 0


def go_to(media: InputContainer, stream: AudioStream, from_s: float) -> float | None:
    """Seek to shortly before this second; return the media's own start time, `None` where it cannot."""
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
    """Its packets from there on, as far as the file goes; an empty one at the end."""
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
