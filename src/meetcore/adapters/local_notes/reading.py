"""Read a meeting as words and classes of words: names, who speaks or is spoken to, days, numbers, verbs.

A class stands in place of the word in the model's features, so that what was learned of one name, day or verb
holds for all.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from attrs import define, field, frozen

from meetcore.adapters.local_notes.due_phrases import due_spans
from meetcore.adapters.local_notes.lexicon import classes, is_english_verb, is_verb, terms_of, words_of
from meetcore.adapters.local_notes.names import People
from meetcore.adapters.local_notes.sentences import Sentence

_TOKEN: Final = re.compile(r"\d[\w.,:/%-]*|[^\W\d_][\w'-]*|[?!.,:;…]")
_PASSIVE: Final = re.compile(r"di-?[a-z]{4,}")


@frozen
class Token:
    """A word in small letters, its class or else itself, its place, and the person that it names."""

    word: str
    name: str
    begin: int
    end: int
    owner: str | None = None


@frozen
class Reading:
    """A sentence with its tokens, the classes and marks that occur in it, and the terms that it is about."""

    sentence: Sentence
    tokens: tuple[Token, ...]
    flags: frozenset[str]
    marks: frozenset[str]
    terms: frozenset[str]

    @property
    def names(self) -> list[str]:
        """The classes, or else words, in order."""
        return [token.name for token in self.tokens]

    @property
    def asks(self) -> bool:
        """Whether it ends with a question mark."""
        return "Q" in self.flags

    @property
    def agrees(self) -> bool:
        """Whether it begins as an answer that agrees does."""
        return not self.asks and any(token.word in words_of("agreeing") for token in self.tokens[:4])


_FEWEST_TURNS: Final = 30
_Span = tuple[int, int, str, str | None]


@define
class Meeting:
    """The sentences of a meeting, as they were read, and its turns: runs of sentences of one utterance."""

    readings: Sequence[Reading]
    turns: list[range] = field(init=False, factory=list)
    turn_of: list[int] = field(init=False, factory=list)
    leader: str | None = field(init=False)
    spoken: Counter[str | None] = field(init=False, factory=Counter)

    def __attrs_post_init__(self) -> None:
        ends = [
            at + 1 for at, (one, other) in enumerate(pairwise(self.readings))
            if (one.sentence.at_s, one.sentence.speaker) != (other.sentence.at_s, other.sentence.speaker)
        ]  # fmt: skip
        for begin, end in pairwise([0, *ends, len(self.readings)]):
            self.turn_of += [len(self.turns)] * (end - begin)
            self.turns.append(range(begin, end))
        self.spoken.update(self.readings[turn[0]].sentence.speaker for turn in self.turns if turn)
        self.leader = None if self.is_short else self.spoken.most_common(1)[0][0]

    @property
    def is_short(self) -> bool:
        """Whether it is too short to tell who leads it, and what is early or late, or new."""
        return len(self.turns) < _FEWEST_TURNS

    def turn(self, at: int, step: int) -> Sequence[Reading]:
        """Return the sentences of a turn, counted from that of a sentence; none beyond the ends."""
        number = self.turn_of[at] + step
        return [self.readings[each] for each in self.turns[number]] if 0 <= number < len(self.turns) else ()


def read(sentences: Sequence[Sentence]) -> Meeting:
    """Read the sentences of a meeting."""
    people = People(tuple(dict.fromkeys(one.speaker for one in sentences if one.speaker)))
    return Meeting([_read(one, people) for one in sentences])


def _read(sentence: Sentence, people: People) -> Reading:
    text = sentence.text.replace("\u2019", "'")
    dues = due_spans(text)
    spans: list[_Span] = [(begin, end, "DUE", None) for begin, end in dues]
    spans += [
        (one.begin, one.end, one.kind, one.name) for one in people.mentions(text, dues, sentence.speaker)
    ]
    tokens = tuple(_tokens(text, sorted(spans, key=lambda span: span[:2])))
    flags = {token.name for token in tokens if token.name.isupper()}
    if tokens and tokens[-1].name == "?":
        flags.add("Q")
    return Reading(sentence, tokens, frozenset(flags), frozenset(_marks(tokens)), terms_of(text))


def _tokens(text: str, spans: Sequence[_Span]) -> Iterator[Token]:
    """Yield the words, and each span as one."""
    at, until = 0, 0
    for found in _TOKEN.finditer(text):
        while at < len(spans) and spans[at][1] <= found.start():
            at += 1
        if found.start() < until:
            continue
        if at < len(spans) and spans[at][0] <= found.start():
            begin, until, name, owner = spans[at]
            yield Token(text[begin:until].casefold(), name, begin, until, owner)
        else:
            word = found[0].casefold()
            yield Token(word, _class(word), *found.span())


def _class(word: str) -> str:
    if word[0].isdigit():
        return "NUM"
    if known := classes().get(word):
        return known
    if is_verb(word):
        return "VDI" if word.startswith("di") else "V"
    return "VE" if is_english_verb(word) else word


def _marks(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield what tells a conclusion: its opening, outcome and length, and words that are rare in one."""
    words = [token.word for token in tokens if token.word[0].isalnum()]
    if not words_of("opens").isdisjoint(words[:2]):
        yield "OPEN"
    if not words_of("outcomes").isdisjoint(words):
        yield "OUTCOME"
    if any(_PASSIVE.fullmatch(word) for word in words):
        yield "PASSIVE"
    yield f"AGAINST{min(3, sum(word in words_of('against') for word in words))}"
    yield f"LENGTH{sum(len(words) >= most for most in (5, 9, 16))}"
