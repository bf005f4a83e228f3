"""Texts that a speech model makes up of silence and noise.

Whisper and its kin were trained on subtitles. Of silence and noise they make the phrases that end a video,
the name of a sound in brackets, or the same texts again and again. Their own thresholds mark most of it; a
phrase or a loop is known by its words.
"""

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from attrs import evolve

from meetcore.domain.notes.transcripts import Transcript, Utterance

MAX_NO_SPEECH: Final = 0.6
MIN_AVG_LOGPROB: Final = -1.0
MAX_COMPRESSION_RATIO: Final = 2.4
"""Whisper's thresholds: `no_speech_threshold`, `logprob_threshold`, `compression_ratio_threshold`."""

LOOP_FROM: Final = 3
"""A text that is repeated so often without a break was said once."""

LONGER_LOOP_FROM: Final = 5
"""The same for a round of two to `_MOST_IN_A_ROUND` texts: people take turns, too."""

_MOST_IN_A_ROUND: Final = 4
_WORD: Final = re.compile(r"\w+")
# "[BLANK_AUDIO]", "(music playing)", "*laughs*", "♪♪".
_SOUND: Final = re.compile(r"\[[^][]*\]|\([^()]*\)|\*[^*]*\*|[♪♫][^\w]*|♪.*♪")
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
    """Drop what ends a video or names a sound, and take texts that are repeated in a row as said once."""
    said = [one for one in transcript if not _is_of_silence(one.text)]
    while len(shorter := list(_said(said))) < len(said):
        said = shorter
    return tuple(said)


def _is_of_silence(text: str) -> bool:
    return bool(_END_OF_A_VIDEO.fullmatch(_words(text)) or _SOUND.fullmatch(text.strip()))


def _said(transcript: Sequence[Utterance]) -> Iterator[Utterance]:
    names = [(one.speaker, _words(one.text)) for one in transcript]
    at = 0
    while at < len(names):
        size, end = _loop_at(names, at)
        *others, last = transcript[at : at + size]
        yield from others
        yield evolve(last, until_s=transcript[end - 1].until_s)
        at = end


def _loop_at(names: Sequence[object], at: int) -> tuple[int, int]:
    """Return the length of the round that is repeated from a place on, and the end of the last one."""
    for size in range(1, _MOST_IN_A_ROUND + 1):
        end = at + size
        while end < len(names) and names[end] == names[end - size]:
            end += 1
        rounds = (end - at) // size
        if rounds >= (LOOP_FROM if size == 1 else LONGER_LOOP_FROM):
            return size, at + rounds * size
    return 1, at + 1


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold().replace("'", "").replace("’", "")))  # noqa: RUF001  # the apostrophe of subtitles is meant


def _compression_ratio(text: str) -> float:
    content = text.encode(errors="replace")
    return len(content) / len(zlib.compress(content))
