"""Write notes in a thread, from the transcript alone: the same transcript gives the same note.

Main sentences and keywords are chosen by TextRank (Mihalcea and Tarau, 2004). Similarity counts shared words,
without Indonesian and English stop words. Comparing all pairs is quadratic, so only the `MOST_RANKED`
sentences with the most frequent words for their length take part: a tenth of a second for three hours. The
summary quotes sentences.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import log
from types import MappingProxyType
from typing import Final

from meetcore.adapters.local_notes.actions import actions_in
from meetcore.adapters.local_notes.decisions import decided_in, recaps_in
from meetcore.adapters.local_notes.lexicon import content_of, is_small_talk
from meetcore.adapters.local_notes.model import Model, scores_of, shipped
from meetcore.adapters.local_notes.reading import read
from meetcore.adapters.local_notes.sentences import Sentence, sentences_of
from meetcore.domain.notes import notes, transcripts
from meetcore.ports.ai import NOTHING_KEPT, KeptParts

MOST_RANKED: Final = 200
"""Number of sentences compared with one another."""

_FEWEST_WORDS: Final = 4
_MOST_TOPICS: Final = 8
_FEWEST_LETTERS: Final = 3
_ITERATIONS: Final = 20
_DAMPING: Final = 0.85


def main_sentences(sentences: Sequence[Sentence], most: int) -> list[Sentence]:
    """Return at most `most` of the most central sentences, in order."""
    words = [frozenset(content_of(one.text)) for one in sentences]
    counts = Counter(word for one in words for word in one)
    worth = [sum(log(1 + counts[word]) for word in one) / (len(one) + 5) for one in words]
    fitting = [at for at, one in enumerate(words) if len(one) >= _FEWEST_WORDS] or list(range(len(sentences)))
    entered = sorted(sorted(fitting, key=lambda at: (-worth[at], at))[:MOST_RANKED])
    ranks = _ranks([words[at] for at in entered])
    chosen: dict[str, int] = {}
    for at, _ in sorted(zip(entered, ranks, strict=True), key=lambda pair: (-pair[1], pair[0])):
        chosen.setdefault(sentences[at].text.casefold(), at)
    return [sentences[at] for at in sorted(list(chosen.values())[:most])]


def keywords(sentences: Sequence[Sentence]) -> tuple[str, ...]:
    """Return the most frequent words in lower case, without stop words."""
    counts = Counter(
        word for one in sentences for word in content_of(one.text) if len(word) > _FEWEST_LETTERS
    )
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    often = [word for word, count in ranked if count > 1] or [word for word, _ in ranked]
    return tuple(often[:_MOST_TOPICS])


def _ranks(words: Sequence[frozenset[str]]) -> list[float]:
    """Return the centrality of each sentence, by TextRank's random walk."""
    count = len(words)
    links: list[list[tuple[int, float]]] = [[] for _ in range(count)]
    for one in range(count):
        for other in range(one + 1, count):
            if shared := len(words[one] & words[other]):
                weight = shared / (log(1 + len(words[one])) + log(1 + len(words[other])))
                links[one].append((other, weight))
                links[other].append((one, weight))
    given = [sum(weight for _, weight in each) for each in links]
    ranks = [1.0] * count
    for _ in range(_ITERATIONS):
        ranks = [
            1 - _DAMPING + _DAMPING * sum(ranks[at] * weight / given[at] for at, weight in each)
            for each in links
        ]
    return ranks


_MOST_ITEMS: Final = 200
_FEWEST_MAIN: Final = 3
_MOST_MAIN: Final = 10
_SENTENCES_PER_MAIN: Final = 15

_OPENING: Final[Mapping[notes.Language, str]] = MappingProxyType(
    {
        notes.Language.INDONESIAN: "Inti pembicaraan, dalam kata-kata para peserta:",
        notes.Language.ENGLISH: "The main points, in the words of those who spoke:",
    }
)


class LocalNoteWriter:
    """Writes notes that quote the transcript; the language sets only the opening of the summary."""

    name: Final = notes.BY_RULES

    async def write(
        self, transcript: transcripts.Transcript, language: notes.Language, kept: KeptParts = NOTHING_KEPT
    ) -> notes.NoteDraft:
        return await asyncio.to_thread(draft_by, shipped(), transcript, language)


def draft_by(model: Model, transcript: transcripts.Transcript, language: notes.Language) -> notes.NoteDraft:
    """Write notes by the weights of a model."""
    sentences = sentences_of(transcript)
    meeting = read(sentences)
    scores = scores_of(meeting, model)
    recaps = recaps_in(meeting, (at for at, both in enumerate(zip(*scores, strict=True)) if max(both) > 0))
    deciding, giving = ([0.0 if at in recaps else one for at, one in enumerate(each)] for each in scores)
    standing, struck = decided_in(meeting, deciding)
    actions = (
        item for at, item in actions_in(meeting, giving, model)
        if not any(one.end == at or one.covers(at, item.quote) for one in struck)
    )  # fmt: skip
    lines = [_line(one) for one in _summary(sentences, standing)]
    return notes.NoteDraft(
        summary="\n".join([_OPENING[language], "", *lines]),
        decisions=tuple(dict.fromkeys(standing.values()))[:_MOST_ITEMS],
        action_items=tuple(dict.fromkeys(actions))[:_MOST_ITEMS],
        topics=keywords(sentences),
    )


def _summary(sentences: Sequence[Sentence], standing: Collection[int]) -> list[Sentence]:
    """Choose the decisions, and main sentences that are no small talk up to the length of the summary."""
    most = min(_MOST_MAIN, _FEWEST_MAIN + len(sentences) // _SENTENCES_PER_MAIN)
    decided = sorted(standing)[:_MOST_MAIN]
    others = [
        one for at, one in enumerate(sentences)
        if at not in standing and not is_small_talk(one.text) and not one.text.endswith("?")
    ]  # fmt: skip
    main = main_sentences(others or sentences, max(most - len(decided), 0 if decided else 1))
    return sorted([*(sentences[at] for at in decided), *main], key=lambda one: one.at_s)


def _line(sentence: Sentence) -> str:
    """Format a sentence of the summary: time, speaker, text."""
    name = f"{sentence.speaker}: " if sentence.speaker else ""
    return f"- {transcripts.format_offset(sentence.at_s)} {name}{' '.join(sentence.text.split())}"
