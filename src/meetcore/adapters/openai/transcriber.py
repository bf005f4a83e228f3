"""Speech to text at the endpoint: `POST /audio/transcriptions`.

Owns the request and the meaning of the answer's segments. Nothing is sent that the endpoint would not take,
and times are not trusted: they are brought into order, and segments that the model itself marks as unlikely
are left out.
"""

import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

import msgspec
from attrs import frozen

from meetcore.adapters.openai.access import AiAccess, Log
from meetcore.adapters.openai.errors import require_done
from meetcore.adapters.openai.http import FileForm, HttpClient
from meetcore.adapters.openai.text import one_line
from meetcore.domain.notes.transcripts import Transcript, Utterance
from meetcore.ports.ai import AiRefused, AiUnavailable
from meetcore.ports.audio_editor import Sound
from meetcore.ports.tracing import NO_TRACING, Tracing

MAX_FILE_BYTES: Final = 25 * 1024 * 1024
"""What an endpoint takes at most for one file."""

_PIECE_S: Final = 600
# Without times, a sentence's second is estimated from its place in the text: the shorter the piece, the
# better the estimate.
_PIECE_WITHOUT_TIMES_S: Final = 60
# What an endpoint refuses for its shortness: the last moment of a recording must not be the end of its note.
_SHORTEST_S: Final = 0.1
_LONGEST_TEXT: Final = 10_000
# An endpoint goes by the name.
_AS_RECORDED: Final = FileForm("piece.m4a", "audio/mp4")
_ENCODED_HERE: Final = FileForm("piece.ogg", "audio/ogg")
# Whisper's own rule for text that it made of silence.
_DOUBT: Final = 0.6
_UNLIKELY: Final = -1.0
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…。？！])\s+")  # noqa: RUF001  # full-width marks are meant


@frozen
class _Segment:
    start: float
    end: float
    text: str
    no_speech_prob: float | None = None
    avg_logprob: float | None = None


@frozen
class _Transcription:
    text: str = ""
    segments: list[_Segment] | None = None


class OpenAiTranscriber:
    """Transcribes with a model of the endpoint, which detects the language itself."""

    def __init__(
        self, access: AiAccess, log: Log, now: Callable[[], datetime], tracing: Tracing = NO_TRACING
    ) -> None:
        self._access = access
        self._http = HttpClient(access, tracing)
        self._log = log
        self._now = now

    @property
    def max_piece_s(self) -> int:
        """Ten minutes, or one where the model returns no timestamps."""
        return _PIECE_S if self._access.returns_timestamps else _PIECE_WITHOUT_TIMES_S

    @property
    def takes_copies(self) -> bool:
        return True

    async def transcribe(self, sound: Sound) -> Transcript:
        if sound.file.seek(0, os.SEEK_END) > MAX_FILE_BYTES:
            raise AiRefused("ai: a piece of sound that is larger than 25 MiB")
        if sound.length_s < _SHORTEST_S:
            return ()
        sound.file.seek(0)
        fields = {
            "model": self._access.transcribe_model,
            "response_format": "verbose_json" if self._access.returns_timestamps else "json",
        }
        form = _AS_RECORDED if sound.is_copied else _ENCODED_HERE
        response = await self._http.post_file("/audio/transcriptions", fields, form, sound.file)
        return _transcript(require_done(response, self._log, self._now), sound.length_s)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _transcript(body: bytes, length_s: float) -> Transcript:
    try:
        transcription = msgspec.json.decode(body, type=_Transcription)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise AiUnavailable("ai: a transcript that cannot be read") from None
    if transcription.segments is None:
        return tuple(_spread(one_line(transcription.text, _LONGEST_TEXT * 10), length_s))
    return tuple(sorted(_utterances(transcription.segments, length_s), key=lambda one: one.at_s))


def _utterances(segments: list[_Segment], length_s: float) -> Iterator[Utterance]:
    for segment in segments:
        is_unlikely = (segment.no_speech_prob or 0) > _DOUBT and (segment.avg_logprob or 0) < _UNLIKELY
        text = one_line(segment.text, _LONGEST_TEXT)
        if text and not is_unlikely:
            at_s = min(max(0.0, segment.start), length_s)
            yield Utterance(at_s, min(max(at_s, segment.end), length_s), text)


def _spread(text: str, length_s: float) -> Iterator[Utterance]:
    """The sentences of a text, each at the second that its place in the text makes likely."""
    sentences = [sentence for sentence in _SENTENCE_END.split(text) if sentence]
    letters = sum(map(len, sentences))
    before = 0
    for sentence in sentences:
        at_s = length_s * before / letters
        before += len(sentence)
        yield Utterance(at_s, length_s * before / letters, sentence)
