"""Read a provider's transcript in WebVTT (W3C, "WebVTT 1").

Reading is lenient: everything but cues is skipped (ids, settings, the blocks NOTE, STYLE and REGION, cues
with unreadable times). Cues are returned in the order of time. The time of reading grows linearly, and no
file raises.

A speaker is named by the recommendation's ``<v Budi Santoso>Selamat pagi``; a file that uses it anywhere uses
it everywhere. Or as Zoom writes it, ``Budi Santoso: Selamat pagi``, which `speakers` tells from other words
before a colon. A cue without a name has none, even after a named one: the writer may have lost the speaker.
"""

import html
import re
from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from meetcore.domain.notes import speakers
from meetcore.domain.notes.transcripts import Transcript, Utterance

MAX_UTTERANCES: Final = 100_000
"""How many utterances of one file are read: a day of talking, and a bound on what a stranger's file takes."""

_TIME: Final = r"(?:([0-9]{1,6}):)?([0-5][0-9]):([0-5][0-9])[.,]([0-9]{3})"
_TIMES: Final = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?![0-9])")
# A blank line ends a cue, and so does the line with the next arrow. The lines are not split beforehand: a
# stranger's file can be all lines.
_CUE: Final = re.compile(r"^(.*-->.*)$((?:\n(?!.*-->).+)*+)", re.MULTILINE)
# Never more than one "<" to a tag: a text full of them is still read once.
_TAG: Final = re.compile(r"<([^<>]*)>")
_VOICE: Final = re.compile(r"v(?:\.[^ \t\n]*)?[ \t\n](.*)", re.DOTALL)
_REFERENCE: Final = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_Said = tuple[float, float, str, str | None]
"""Beginning, end, text and speaker of an utterance."""


def read_vtt(file: bytes) -> Transcript:
    """Read the utterances of a WebVTT file, in the order of time, `MAX_UTTERANCES` at most.

    Invalid UTF-8 is replaced. Empty where the file is no WebVTT or has no text. A cue with several voices is
    one utterance for each.
    """
    text = _decoded(file)
    if re.match(r"WEBVTT(?:[ \t\n]|$)", text) is None:
        return ()
    said, has_voices = _said(text)
    if not has_voices:
        said = _named(said)
    said.sort(key=itemgetter(0))
    return tuple(Utterance(*one) for one in said)


def _decoded(file: bytes) -> str:
    text = file.decode("utf-8-sig", "replace").replace("\0", "\ufffd")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _said(text: str) -> tuple[list[_Said], bool]:
    """Return the cues' utterances in the order of the file, and whether any cue has a voice tag."""
    said: list[_Said] = []
    has_voices = False
    for at_s, until_s, payload in _cues(text):
        for voice, content in _spans(payload):
            has_voices = has_voices or voice is not None
            if content:
                said.append((at_s, until_s, content, voice))
            if len(said) == MAX_UTTERANCES:
                return said, has_voices
    return said, has_voices


def _cues(text: str) -> Iterator[tuple[float, float, str]]:
    """Yield each cue's beginning, end and payload. A line with an arrow begins a cue, readable or not."""
    for cue in _CUE.finditer(text):
        times = _times(cue[1])
        if times is not None:
            yield *times, cue[2]


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
    if "<" not in payload:
        yield None, _plain(payload)
        return
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
    if "&" in text:
        text = _REFERENCE.sub(lambda reference: html.unescape(reference[0]), text)
    return " ".join(text.split())


def _named(said: list[_Said]) -> list[_Said]:
    """Take the names before colons for speakers."""
    names = speakers.find_names([text for _, _, text, _ in said])
    return list(map(_spoken_by, names, said))


def _spoken_by(name: str | None, one: _Said) -> _Said:
    at_s, until_s, text, _ = one
    return one if name is None else (at_s, until_s, text[len(name) + 2 :], name)
