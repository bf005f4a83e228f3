"""One act on one file of media, in a process of its own.

Run as a script, by path, with the standard library and PyAV alone; it imports nothing of meetcore. Arguments:
the seconds of computing and by the clock that it may take, and the share of a processor; then `measure` and
the descriptor of the media, or `cut`, from which second, how many seconds, the media's descriptor and that of
an empty file. It writes one line of JSON: `seconds`; or `unreadable` and why; or `failed` and why, where this
machine is at its end and the file may be fine.

The formats and codecs that meetings are recorded in are listed, and nothing else is tried: ffmpeg also reads
lists of other files and addresses. It is given the one open file and opens none by itself.

Owns the reading of media, and the limits that are put on it. Refuses whatever has no sound.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer

FORMATS = "mov,matroska,webm,ogg,mp3,wav,flac"
CODECS = (
    "aac,aac_fixed,alac,flac,mp3,mp3float,opus,libopus,vorbis,ac3,eac3,"
    "pcm_s16le,pcm_s16be,pcm_s24le,pcm_s32le,pcm_f32le,pcm_u8,pcm_mulaw,pcm_alaw"
)
MAX_MEMORY_BYTES = 768 * 1024 * 1024
MAX_OUTPUT_BYTES = 25_000_000
MAX_LENGTH_S = 48 * 3600  # what says to be longer has times that cannot be believed

LOWER_BY = 10
"""Others have about nine times the share; at the lowest priority a busy machine would never be done."""

TURN_S = 0.01
"""Seconds of computing between two rests."""

RATE = 16_000
BIT_RATE = 24_000
_BYTES = 2  # a sample of 16 bits
# Whoever hears refuses less than a tenth of a second.
_LEAST_SAMPLES = RATE // 5
# A decoder that starts in the middle needs what is before: a few frames, and for MP3 its reservoir.
_PREROLL_S = 1.0
# Times in a file are rounded, to milliseconds in some; what is further off is a gap.
_JITTER_S = 0.03
# A header that is shorter by less than a frame tells of the padding in the last one.
_PADDING_S = 0.1


# No room on the disk, no descriptor left: nothing that a file could bring about.
_AT_OUR_END = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)


class Unreadable(Exception):
    """No media, or none with sound."""


def main(arguments: list[str]) -> int:
    """Carry out one act and say what came of it."""
    cpu_s, within_s, share, act, *rest = arguments
    end_with_parent()
    limit(int(cpu_s), float(within_s))
    take_turns(float(share))
    try:
        import av  # noqa: F401  (what is missing is told apart from what cannot be read)
    except ImportError:
        return say({"missing": "av"})
    try:
        if act == "measure":
            return say({"seconds": measure(int(rest[0]))})
        return say({"seconds": cut(int(rest[2]), int(rest[3]), float(rest[0]), float(rest[1]))})
    except Unreadable as error:
        return say({"unreadable": str(error)})
    except (OSError, ValueError, ArithmeticError, MemoryError, LookupError) as error:
        if isinstance(error, OSError) and error.errno in _AT_OUR_END:
            return say({"failed": errno.errorcode[error.errno]})
        # PyAV's errors are among these. Only the kind: a text may quote what is in the file.
        return say({"unreadable": type(error).__name__})


def say(told: dict[str, object]) -> int:
    """One line for whoever waits."""
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    return 0


def end_with_parent() -> None:
    """End when standard input does: only the parent holds its other end."""

    def wait() -> None:
        while os.read(0, 1024):
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def limit(cpu_s: int, within_s: float) -> None:
    """Put the limits on this process: priority, seconds, memory, output, no core of a meeting's sound."""
    signal.setitimer(signal.ITIMER_REAL, within_s + 1.0)  # ends it if nobody else does
    for what, most in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, MAX_MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, MAX_OUTPUT_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            # With the hard limit of the seconds above the soft one, it is SIGXCPU that tells of it.
            resource.setrlimit(what, (most, most + 5 if what == resource.RLIMIT_CPU else most))
        except (ValueError, OSError):
            continue  # not every system has every limit
    give_way()


def give_way() -> None:
    """Take a small share where others want the time, too.

    Where Linux shares its processors between sessions first, a process's own priority counts for nothing
    outside of its session: ours, in which there is nobody else, has one too.
    """
    os.nice(LOWER_BY)
    if os.getsid(0) == os.getpid():
        try:
            with open("/proc/self/autogroup", "w") as group:
                group.write(str(LOWER_BY))
        except OSError:
            pass  # not every system shares so


def take_turns(share: float) -> None:
    """Rest after each turn of computing, so long that no more than this share of a processor is taken.

    A low priority is not enough on a machine of few processors: whoever is woken there still waits until this
    one has been put off, several times for each webhook. Where a processor was waited for, that counts as
    rest; nothing is saved up for later.
    """
    if share >= 1:
        return
    computed_s, rested_at_s = time.process_time(), time.monotonic()

    def rest(*_: object) -> None:
        nonlocal computed_s, rested_at_s
        turn_s = time.process_time() - computed_s
        time.sleep(max(0.0, turn_s / share - (time.monotonic() - rested_at_s)))
        computed_s, rested_at_s = time.process_time(), time.monotonic()

    signal.signal(signal.SIGPROF, rest)
    signal.setitimer(signal.ITIMER_PROF, TURN_S, TURN_S)


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
        Unreadable: it is none, or has no sound.
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


def measure(descriptor: int) -> float:
    """The seconds of the longest stream of sound.

    Raises:
        Unreadable: there is none.
    """
    with opened(descriptor) as media:
        return max(lengths(media).values())


def lengths(media: InputContainer) -> dict[int, float]:
    """How long each stream of sound is, by its index: from its beginning to the end of its last packet.

    What is cut off at the end of a file is not there, whatever the header says. The header may only take
    away what the last frame was filled up with.

    Raises:
        Unreadable: no packet of sound, or times that cannot be believed.
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
    base = _base(stream)
    length_s = float((last - _beginning(stream)) * base)
    told_s = length_s if stream.duration is None else float(stream.duration * base)
    return told_s if 0 < length_s - told_s < _PADDING_S else length_s


def _base(stream: AudioStream) -> Fraction:
    if not stream.time_base:
        raise Unreadable("sound without times")
    return Fraction(stream.time_base)


def _beginning(stream: AudioStream) -> int:
    """When the first sample is heard; packets before it only prepare the decoder."""
    return stream.start_time or 0


def cut(descriptor: int, into: int, from_s: float, length_s: float) -> float:
    """Write a stretch of the longest stream; gives its seconds.

    Raises:
        Unreadable: nothing can be decoded.
    """
    with opened(descriptor) as media:
        audio = media.streams.audio
        index = audio[0].index
        if len(audio) > 1:
            found = lengths(media)
            index = max(found, key=lambda one: found[one])
    with open(into, "wb", closefd=False) as target, Piece(target, round(length_s * RATE)) as piece:
        # The end in samples by the end in seconds: the next piece begins with the one after.
        start = round(from_s * RATE)
        piece.total = round((from_s + length_s) * RATE) - start
        for is_seeking in (True, False):
            with opened(descriptor) as media:
                if _listen(media, index, start / RATE, piece, is_seeking=is_seeking):
                    break
        piece.fill(_LEAST_SAMPLES)
        return piece.done / RATE


def _listen(media: InputContainer, index: int, from_s: float, piece: Piece, *, is_seeking: bool) -> bool:
    """Decode what a piece needs; False where seeking came out behind its beginning, and nothing was done.

    Raises:
        Unreadable: nothing can be decoded.
    """
    stream = next(each for each in media.streams.audio if each.index == index)
    start_at = _start_at(media, stream, from_s if is_seeking else 0.0)
    if start_at is None:
        return False
    sound = Resampled(piece.put)
    end_s = piece.total / RATE + _JITTER_S
    has_heard = False
    for time_s, frame in _frames(media, stream):
        at_s = time_s - start_at - from_s
        if not has_heard and is_seeking and at_s > 0 and from_s > 0:
            return False  # between two packets, or the seek lies: only from the beginning can it be told
        has_heard = True
        if at_s >= end_s:
            sound.flush()
            piece.fill(piece.total)  # it goes on: what is missing until there is a gap
            return True
        sound.put(at_s, frame)
    sound.flush()
    if not has_heard and not is_seeking:
        raise Unreadable("no sound that can be decoded")
    return has_heard


def _start_at(media: InputContainer, stream: AudioStream, from_s: float) -> float | None:
    """The media's own time of its beginning, having gone to shortly before `from_s`; none where it cannot."""
    import av

    base = _base(stream)
    start_at = float(_beginning(stream) * base)
    target_s = from_s - _PREROLL_S
    if target_s > 0:
        try:
            media.seek(int((start_at + target_s) / float(base)), stream=stream, backward=True)
        except av.error.FFmpegError:
            return None
    return start_at


def _frames(media: InputContainer, stream: AudioStream) -> Iterator[tuple[float, AudioFrame]]:
    """The frames that can be decoded, with their seconds; what is broken between them is passed over."""
    import av

    packets = media.demux(stream)
    while True:
        try:
            packet = next(packets, None)
        except av.error.FFmpegError:
            packet = None  # as far as it goes
        if packet is None:
            return
        try:
            frames = packet.decode()
        except av.error.FFmpegError:
            continue
        for frame in frames:
            if frame.time is not None and frame.samples:
                yield frame.time, frame


class Resampled:
    """Frames as samples of 16 bits at 16 kHz, one channel, each with its place in the piece.

    Frames that follow each other are one run; where the times jump, another begins. A run is handed on by the
    second: a frame has some twenty milliseconds, and handing over costs as much as encoding them.
    """

    def __init__(self, put: Callable[[int, bytes], None]) -> None:
        self._put = put
        self._resampler: Any = None
        self._form: object = None
        self._next_s = 0.0
        self._place = 0
        self._waiting = bytearray()

    def put(self, at_s: float, frame: AudioFrame) -> None:
        """Take the next frame, which begins `at_s` seconds after the piece."""
        import av

        form = (frame.format.name, frame.layout.name, frame.sample_rate)
        if self._resampler is None or form != self._form or abs(at_s - self._next_s) > _JITTER_S:
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
    """An Ogg file that is being written: samples by their place, silence where there are none."""

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
        """Take samples; what lies before what is written, or behind the end, is dropped."""
        end = min(place + len(samples) // _BYTES, self.total)
        if end <= self.done:
            return
        self.fill(min(place, self.total))
        self._write(samples[(self.done - place) * _BYTES : (end - place) * _BYTES])

    def fill(self, until: int) -> None:
        """Silence up to there."""
        while self.done < until:
            self._write(bytes(_BYTES * min(RATE, until - self.done)))

    def _write(self, samples: bytes) -> None:
        import av

        frame = av.AudioFrame("s16", "mono", len(samples) // _BYTES)
        frame.planes[0].update(samples)
        frame.sample_rate, frame.pts, frame.time_base = RATE, self.done, Fraction(1, RATE)
        self.done += frame.samples
        self._target.mux(self._stream.encode(frame))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
