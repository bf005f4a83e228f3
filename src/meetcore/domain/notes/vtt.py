"""Read a provider's transcript in WebVTT (W3C, "WebVTT 1").

Reading is lenient: everything but cues is skipped (ids, settings, the blocks NOTE, STYLE and REGION, cues
with unreadable times). Cues are returned in the order of time. The time of reading grows linearly, and no
file raises.

A speaker is named by the recommendation's ``<v Budi Santoso>Selamat pagi``; a file that uses it anywhere uses
it everywhere. Or as Zoom writes it, ``Budi Santoso: Selamat pagi``, where the words before a colon may be a
name or a heading. They are a name when

- a space follows the colon, which excludes ``10:30`` and ``https://``,
- they are one to six words of at most 64 characters that begin with a letter that is not a small one, and
  have none of ``,;!?<>"/`` in them,
- and the file supports it: they stand before another cue too, or they are two words or more that are all
  capitalised, or at least half of the file's cues begin with such words.

A cue without a name has none, even after a named one: the writer may have lost the speaker.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Final

from attrs import evolve

from meetcore.domain.notes.transcripts import Transcript, Utterance

MAX_UTTERANCES: Final = 100_000
"""How many utterances of one file are read: a day of talking, and a bound on what a stranger's file takes."""

_TIME: Final = r"(?:([0-9]{1,6}):)?([0-5][0-9]):([0-5][0-9])[.,]([0-9]{3})"
_TIMES: Final = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?![0-9])")
# Never more than one "<" to a tag: a text full of them is still read once.
_TAG: Final = re.compile(r"<([^<>]*)>")
_VOICE: Final = re.compile(r"v(?:\.[^ \t\n]*)?[ \t\n](.*)", re.DOTALL)
_REFERENCE: Final = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_LINE: Final = re.compile(r"^.*$", re.MULTILINE)
_BLANK_LINES: Final = re.compile(r"\n{3,}")
_LONGEST_NAME: Final = 64
_MAX_NAME_WORDS: Final = 6
_NO_NAME: Final = frozenset(',;!?<>"/')


def read_vtt(file: bytes) -> Transcript:
    """Read the utterances of a WebVTT file, in the order of time, `MAX_UTTERANCES` at most.

    Invalid UTF-8 is replaced. Empty where the file is no WebVTT or has no text. A cue with several voices is
    one utterance for each.
    """
    text = _BLANK_LINES.sub("\n\n", _decoded(file))
    if re.match(r"WEBVTT(?:[ \t\n]|$)", text) is None:
        return ()
    utterances, has_voices = _utterances(text)
    if not has_voices:
        utterances = _named(utterances)
    return tuple(sorted(utterances, key=lambda one: one.at_s))


def _decoded(file: bytes) -> str:
    text = file.decode("utf-8-sig", "replace").replace("\0", "\ufffd")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _utterances(text: str) -> tuple[list[Utterance], bool]:
    """Return the cues' utterances in the order of the file, and whether any cue has a voice tag."""
    utterances: list[Utterance] = []
    has_voices = False
    for at_s, until_s, payload in _cues(text):
        for voice, content in _spans(payload):
            has_voices = has_voices or voice is not None
            if content:
                utterances.append(Utterance(at_s, until_s, content, voice))
            if len(utterances) == MAX_UTTERANCES:
                return utterances, has_voices
    return utterances, has_voices


def _cues(text: str) -> Iterator[tuple[float, float, str]]:
    """Yield each cue's beginning, end and payload. A line with an arrow begins a cue, readable or not."""
    times: tuple[float, float] | None = None
    payload: list[str] = []
    # A blank line ends the last one. The lines are not split beforehand: a stranger's file can be all lines.
    for line in chain((found[0] for found in _LINE.finditer(text)), [""]):
        has_arrow = "-->" in line
        if line and not has_arrow:
            if times is not None:
                payload.append(line)
            continue
        if times is not None:
            yield *times, "\n".join(payload)
        times, payload = _times(line), []


def _times(line: str) -> tuple[float, float] | None:
    found = _TIMES.match(line)
    if found is None:
        return None
    at_s, until_s = _seconds(*found.group(1, 2, 3, 4)), _seconds(*found.group(5, 6, 7, 8))
    return at_s, max(at_s, until_s)


def _seconds(hours: str | None, minutes: str, seconds: str, thousandths: str) -> float:
    whole = (int(hours or 0) * 60 + int(minutes)) * 60 + int(seconds)
    return (whole * 1000 + int(thousandths)) / 1000


def _spans(payload: str) -> Iterator[tuple[str | None, str]]:
    """Yield each voice of a cue with its text without tags; `None` where the cue names no voice."""
    voice: str | None = None
    fragments: list[str] = []
    begin = 0
    for tag in _TAG.finditer(payload):
        fragments.append(payload[begin : tag.start()])
        begin = tag.end()
        voice_tag = _VOICE.fullmatch(tag[1])
        if voice_tag is not None or tag[1] == "/v":
            yield voice, _plain("".join(fragments))
            voice, fragments = (_plain(voice_tag[1]) or None) if voice_tag else None, []
    yield voice, _plain("".join((*fragments, payload[begin:])))


def _plain(text: str) -> str:
    return " ".join(_REFERENCE.sub(lambda reference: html.unescape(reference[0]), text).split())


def _named(utterances: list[Utterance]) -> list[Utterance]:
    """Take the names before colons for speakers, where the file supports it."""
    candidates = [(one, _candidate(one.text)) for one in utterances]
    counts = Counter(name for _, name in candidates if name is not None)
    is_habit = 2 * counts.total() >= len(utterances)
    return [
        evolve(one, speaker=name, text=one.text[len(name) + 2 :])
        if name is not None and (is_habit or counts[name] > 1 or _is_full_name(name))
        else one
        for one, name in candidates
    ]


def _candidate(text: str) -> str | None:
    """Return the words before a first colon and a space, if they have the form of a name."""
    name, colon, remainder = text[: _LONGEST_NAME + 2].partition(":")
    if not colon or not remainder.startswith(" ") or not name or name[-1] == " ":
        return None
    fits = name[0].isalpha() and not name[0].islower() and len(name.split()) <= _MAX_NAME_WORDS
    return name if fits and _NO_NAME.isdisjoint(name) else None


def _is_full_name(name: str) -> bool:
    parts = name.split()
    return len(parts) > 1 and all(word[0].isupper() for word in parts)
