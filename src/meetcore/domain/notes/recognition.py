"""Texts that a speech model makes up of silence and noise.

Whisper and its kin were trained on subtitles. Of silence and noise they make the phrases that end a video, or
one text again and again. Their own thresholds mark most of it; a phrase or a loop is known by its words.
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from attrs import evolve

from meetcore.domain.notes.transcripts import Transcript, Utterance

MAX_NO_SPEECH: Final = 0.6
MIN_AVG_LOGPROB: Final = -1.0
MAX_COMPRESSION_RATIO: Final = 2.4
"""Whisper's thresholds: `no_speech_threshold`, `logprob_threshold`, `compression_ratio_threshold`."""

LOOP_FROM: Final = 3
"""A text that is repeated so often without a break was said once."""

_WORD: Final = re.compile(r"\w+")
_END_OF_A_VIDEO: Final = re.compile(
    r"""(?:terima\ ?kasih|makasih)(?:\ (?:banyak|telah|sudah|udah|untuk))*\ (?:me)?nonton
        (?:\ (?:video|channel|ini))*
    |(?:sampai\ (?:jumpa|ketemu)|see\ you)(?:\ (?:lagi|di|in|the|next))*\ (?:video|episode)(?:\ \w+nya)?
    |(?=.*\bsubscribe\b)(?:(?:jangan|lupa|dont|forget|please|like|komen|comment|share|and|dan|subscribe|ya
        |channel|to|my|our|this|the|ini|di|kami)(?:\ |$))+
    |(?:thanks|thank\ you)(?:\ so\ much|\ very\ much|\ guys)?\ for\ watching(?:\ (?:this|the|video|guys))*
    |(?:subtitles?|subtitling|captions?|teks|takarir|terjemahan)\ (?:by|oleh)\ .*""",
    re.VERBOSE,
)


def is_hallucinated(
    text: str, no_speech_prob: float | None, avg_logprob: float | None, compression_ratio: float | None
) -> bool:
    """Return whether a segment is to be dropped by Whisper's thresholds; a figure may be missing.

    Without `compression_ratio`, that of the segment's own text is taken.
    """
    is_silence = (no_speech_prob or 0) > MAX_NO_SPEECH and (avg_logprob or MIN_AVG_LOGPROB) < MIN_AVG_LOGPROB
    ratio = _compression_ratio(text) if compression_ratio is None else compression_ratio
    return is_silence or ratio > MAX_COMPRESSION_RATIO


def without_loops(transcript: Iterable[Utterance]) -> Transcript:
    """Drop what ends a video, and take a text that is repeated three times or more in a row as said once."""
    return tuple(_said(one for one in transcript if not _END_OF_A_VIDEO.fullmatch(_words(one.text))))


def _said(transcript: Iterable[Utterance]) -> Iterator[Utterance]:
    for _, same in groupby(transcript, key=lambda one: (one.speaker, _words(one.text))):
        repeats = list(same)
        if len(repeats) < LOOP_FROM:
            yield from repeats
        else:
            yield evolve(repeats[0], until_s=repeats[-1].until_s)


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold().replace("'", "").replace("’", "")))  # noqa: RUF001  # the apostrophe of subtitles is meant


def _compression_ratio(text: str) -> float:
    content = text.encode(errors="replace")
    return len(content) / len(zlib.compress(content))
