"""Main sentences and keywords: TextRank, after Mihalcea and Tarau (2004).

Two sentences are alike by the words that they share. Comparing every one with every other is quadratic, so
only `MOST_RANKED` take part: those whose words come most often in the meeting, for their length. For three
hours that is a tenth of a second.

Owns the choice. No sentence is written: all of a summary is quoted.
"""

import re
from collections import Counter
from collections.abc import Sequence
from math import log
from typing import Final

from meetcore.adapters.local_notes.sentences import Sentence
from meetcore.adapters.local_notes.stopwords import STOPWORDS

MOST_RANKED: Final = 200
"""How many sentences are compared with one another."""

_FEWEST_WORDS: Final = 4
_MOST_TOPICS: Final = 8
_FEWEST_LETTERS: Final = 3
_ITERATIONS: Final = 20
_DAMPING: Final = 0.85
_WORD: Final = re.compile(r"[^\W\d_](?:[\w'-]*\w)?")


def main_sentences(sentences: Sequence[Sentence], most: int) -> list[Sentence]:
    """The most central sentences, `most` of them at most, in the order of time."""
    words = [frozenset(_words(one.text)) for one in sentences]
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
    """The most frequent words, in lower case, without stop words."""
    counts = Counter(word for one in sentences for word in _words(one.text) if len(word) > _FEWEST_LETTERS)
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    often = [word for word, count in ranked if count > 1] or [word for word, _ in ranked]
    return tuple(often[:_MOST_TOPICS])


def _words(text: str) -> list[str]:
    found = (word.casefold() for word in _WORD.findall(text))
    return [word for word in found if word not in STOPWORDS and len(word) > 1]


def _ranks(words: Sequence[frozenset[str]]) -> list[float]:
    """The centrality of each sentence: the random walk of TextRank."""
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
