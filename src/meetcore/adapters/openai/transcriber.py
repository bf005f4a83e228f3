"""Speech to text: `POST /audio/transcriptions`.

Times of segments are put into order; what the model wrote of silence, and its loops, are dropped.
"""

import io
import os
import re
import wave
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import BinaryIO, Final

import msgspec
from attrs import frozen

from meetcore.adapters.openai import drafts, endpoint
from meetcore.domain.notes import recognition
from meetcore.domain.notes.notes import Language
from meetcore.domain.notes.transcripts import Transcript, Utterance
from meetcore.ports.ai import AiRefused, AiUnavailable, Sound
from meetcore.ports.observability import NO_TRACING, Log, Tracing

MAX_FILE_BYTES: Final = 25 * 1024 * 1024
"""Largest file that endpoints accept."""

_PIECE_S: Final = 600
# Without timestamps, seconds are estimated from the place in the text: better in short pieces.
_PIECE_WITHOUT_TIMES_S: Final = 60
# Endpoints refuse shorter files; the last moment of a recording must not fail its note.
_SHORTEST_S: Final = 0.1
_LONGEST_TEXT: Final = 10_000
# Endpoints detect the format by the file name.
_AS_RECORDED: Final = "piece.m4a", "audio/mp4"
_ENCODED_HERE: Final = "piece.ogg", "audio/ogg"
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…。？！])\s+")  # noqa: RUF001  # full-width marks are meant


@frozen
class _Segment:
    start: float
    end: float
    text: str
    no_speech_prob: float | None = None
    avg_logprob: float | None = None
    compression_ratio: float | None = None


@frozen
class _Transcription:
    text: str = ""
    segments: list[_Segment] | None = None


class OpenAiTranscriber:
    """Transcribes with a model that is given the language, unless the settings leave it to the model."""

    def __init__(
        self, access: endpoint.AiAccess, log: Log, now: Callable[[], datetime], tracing: Tracing = NO_TRACING
    ) -> None:
        self._access, self._log = access, log
        self._endpoint = endpoint.AiEndpoint(access, log, now, tracing)

    @property
    def max_piece_s(self) -> int:
        """Ten minutes, or one if the model returns no timestamps."""
        return _PIECE_S if self._access.returns_timestamps else _PIECE_WITHOUT_TIMES_S

    @property
    def takes_copies(self) -> bool:
        return True

    async def transcribe(self, sound: Sound, language: Language) -> Transcript:
        if sound.file.seek(0, os.SEEK_END) > MAX_FILE_BYTES:
            raise AiRefused("ai: audio larger than 25 MiB")
        if sound.length_s < _SHORTEST_S:
            return ()
        sound.file.seek(0)
        name, media_type = _AS_RECORDED if sound.is_copied else _ENCODED_HERE
        return _transcript(await self._send(sound.file, name, media_type, language), sound.length_s)

    async def _send(self, file: BinaryIO, name: str, media_type: str, language: Language) -> bytes:
        fields = {
            "model": self._access.transcribe_model,
            "response_format": "verbose_json" if self._access.returns_timestamps else "json",
        }
        spoken = language.value if self._access.spoken_language == "note" else self._access.spoken_language
        if spoken != "auto":
            fields["language"] = spoken
        try:
            return await self._endpoint.post_file("/audio/transcriptions", fields, name, file, media_type)
        except endpoint.FormatRefused:
            endpoint.log_settings(self._log, param="response_format")
            raise

    async def check(self) -> None:
        """Transcribe a second of silence. Raises as `transcribe`."""
        sound = io.BytesIO()
        with wave.open(sound, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(16_000)
            file.writeframes(bytes(32_000))
        sound.seek(0)
        _transcript(await self._send(sound, "piece.wav", "audio/wav", Language.INDONESIAN), 1.0)

    async def aclose(self) -> None:
        await self._endpoint.aclose()


def _transcript(body: bytes, length_s: float) -> Transcript:
    try:
        transcription = msgspec.json.decode(body, type=_Transcription)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise AiUnavailable("ai: malformed transcript") from None
    if not transcription.segments:
        text = drafts.one_line(transcription.text, _LONGEST_TEXT * 10)
        if transcription.segments is not None:  # a server that gives no times, though it was asked
            return recognition.without_loops([Utterance(0.0, length_s, text)] if text else [])
        return recognition.without_loops(_spread(text, length_s))
    utterances = sorted(_utterances(transcription.segments, length_s), key=lambda one: one.at_s)
    return recognition.without_loops(utterances)


def _utterances(segments: list[_Segment], length_s: float) -> Iterator[Utterance]:
    for one in segments:
        text = drafts.one_line(one.text, _LONGEST_TEXT)
        if text and not recognition.is_hallucinated(
            text, one.no_speech_prob, one.avg_logprob, one.compression_ratio
        ):
            at_s = min(max(0.0, one.start), length_s)
            yield Utterance(at_s, min(max(at_s, one.end), length_s), text)


def _spread(text: str, length_s: float) -> Iterator[Utterance]:
    """Yield the sentences of a text, each at a second estimated from its place."""
    sentences = [sentence for sentence in _SENTENCE_END.split(text) if sentence]
    letters = sum(map(len, sentences))
    before = 0
    for sentence in sentences:
        at_s = length_s * before / letters
        before += len(sentence)
        yield Utterance(at_s, length_s * before / letters, sentence)
