"""Transcripts: utterances with speakers and times in a recording.

A recording in several segments has one transcript: the segments' own, each moved by the media before it. So
does a long medium that was transcribed piece by piece.

Owns the utterance and the arithmetic of its times. Transcribes and reads no files: `vtt` reads what a
provider wrote, adapters transcribe the rest.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

from attrs import evolve, field, frozen

__all__ = ["Transcript", "Utterance", "join", "moved", "speech_of"]


@frozen
class Utterance:
    """A spoken text, from `at_s` to `until_s`, in seconds from the beginning of the media.

    `speaker` is a name where the provider gave one, else `None`.
    """

    at_s: float
    until_s: float
    text: str = field(repr=False)
    speaker: str | None = field(default=None, repr=False)


Transcript = tuple[Utterance, ...]
"""What was said, in the order of time."""


def moved(transcript: Iterable[Utterance], by_s: float) -> Transcript:
    """The same utterances, `by_s` seconds later: a segment's transcript within its recording."""
    return tuple(evolve(one, at_s=one.at_s + by_s, until_s=one.until_s + by_s) for one in transcript)


def join(parts: Sequence[tuple[float, Transcript]]) -> Transcript:
    """One transcript of several.

    Args:
        parts: for each, how many seconds of media lie before it, and its transcript.
    """
    whole = chain.from_iterable(moved(transcript, offset_s) for offset_s, transcript in parts)
    return tuple(sorted(whole, key=lambda one: one.at_s))


def speech_of(transcript: Transcript) -> str:
    """Return the bare text, an utterance a line; empty without speech."""
    return "\n".join(text for one in transcript if (text := one.text.strip()))
