"""The note writer that needs nothing but the transcript: a thread, and for one transcript always one note."""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from meetcore.adapters.local_notes.actions import action_in
from meetcore.adapters.local_notes.decisions import decisions_in
from meetcore.adapters.local_notes.sentences import Sentence, sentences_of
from meetcore.adapters.local_notes.summary import keywords, main_sentences
from meetcore.domain.notes.notes import Language, NoteDraft
from meetcore.domain.notes.transcripts import Transcript

_MOST_ITEMS: Final = 200
_FEWEST_MAIN: Final = 3
_MOST_MAIN: Final = 10
_SENTENCES_PER_MAIN: Final = 15

_OPENING: Final[Mapping[Language, str]] = MappingProxyType(
    {
        Language.INDONESIAN: "Inti pembicaraan, dalam kata-kata para peserta:",
        Language.ENGLISH: "The main points, in the words of those who spoke:",
    }
)


class LocalNoteWriter:
    """Writes notes from sentences of the transcript.

    The language sets only the summary's opening: quotes are not translated.
    """

    async def write(self, transcript: Transcript, language: Language) -> NoteDraft:
        return await asyncio.to_thread(_draft, transcript, language)


def _draft(transcript: Transcript, language: Language) -> NoteDraft:
    sentences = sentences_of(transcript)
    most = min(_MOST_MAIN, _FEWEST_MAIN + len(sentences) // _SENTENCES_PER_MAIN)
    lines = [_line(one) for one in main_sentences(sentences, most)]
    actions = (action_in(one) for one in sentences)
    return NoteDraft(
        summary="\n".join([_OPENING[language], "", *lines]),
        decisions=tuple(dict.fromkeys(decisions_in(sentences)))[:_MOST_ITEMS],
        action_items=tuple(dict.fromkeys(one for one in actions if one is not None))[:_MOST_ITEMS],
        topics=keywords(sentences),
    )


def _line(sentence: Sentence) -> str:
    """A sentence of the summary: when, who, what."""
    minutes, seconds = divmod(int(sentence.at_s), 60)
    name = f"{sentence.speaker}: " if sentence.speaker else ""
    return f"- [{minutes:02}:{seconds:02}] {name}{' '.join(sentence.text.split())}"
