"""A linear model over the features of sentences: what is learned is a weight for each feature.

`scripts/train_notes.py` writes the weights from the labelled meetings of the tests; a line of the file is the
part of the model, a feature and its weight. Scores are log odds, moved so that those above 0 are reported.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from math import fsum
from typing import Final

from meetcore.adapters.local_notes.reading import Meeting, Reading

_PAIRED: Final = ("LEAD", "DUE", "ME")
_SUFFIXES: Final = ("nya", "kan", "in", "i", "an")
_PREFIXES: Final = ("meng", "mem", "men", "me", "nge", "ng", "ny", "di", "ber", "ter", "pe")
_NEAR_TURNS: Final = ((0, 0), (-2, -1), (1, 2), (-6, -1), (1, 6), (-20, -1), (1, 20))


def features_of(meeting: Meeting) -> list[list[str]]:
    """Return the features of every sentence."""
    return [list(dict.fromkeys(_features(meeting, at))) for at in range(len(meeting.readings))]


def _features(meeting: Meeting, at: int) -> Iterator[str]:
    flags = _flags(meeting, at)
    yield from (f"c:{flag}" for flag in flags)
    yield from (f"{key}:{flag}" for key in _PAIRED if key in flags for flag in flags)
    if not meeting.is_short:
        yield from _history(meeting, at)
    yield from _words(meeting.readings[at])
    yield from _turn(meeting, at)
    yield from _before(meeting, at)
    yield from _after(meeting, at)


def _flags(meeting: Meeting, at: int) -> set[str]:
    one = meeting.readings[at]
    flags = {*one.flags, *one.marks}
    before, share = meeting.turn(at, -1), at / len(meeting.readings)
    flags |= {"ASKED"} if before and before[-1].asks else set()
    if meeting.is_short:
        flags.add("SHORT")
    else:
        flags |= {"LEAD"} if one.sentence.speaker == meeting.leader else set()
        flags |= {"EARLY"} if share < 0.08 else {"LATE"} if share > 0.9 else set()
        flags |= set() if one.terms & _terms(meeting, at, -8, 0) else {"NEWS"}
    called = {token.owner for token in one.tokens if token.owner}
    for step in (1, 2):
        if answer := meeting.turn(at, step):
            speaker = answer[0].sentence.speaker
            flags |= {f"AGREED{step}"} if answer[0].agrees and speaker != one.sentence.speaker else set()
            flags |= {f"CALLED{step}"} if speaker in called else set()
            flags |= {f"OK{step}"} if answer[0].names[:1] == ["OK"] else set()
    return flags


def _words(one: Reading) -> Iterator[str]:
    names = one.names
    for token in one.tokens:
        yield f"u:{token.name}"
        if token.word != token.name and token.owner is None and token.name not in ("DUE", "NUM"):
            yield f"u:{token.word}"
        elif token.word == token.name:
            yield from (f"affix:{affix}" for affix in _affixes(token.word))
            yield f"stem:{_stem(token.word)}"
    yield from (f"b:{one} {other}" for one, other in pairwise(["^", *names, "$"]))
    said = [name for name in names if name[0].isalnum()]
    yield from (f"first:{name}" for name in said[:1])
    yield from (f"first2:{name}" for name in said[:2])
    yield from (f"last:{name}" for name in said[-1:])


def _affixes(word: str) -> Iterator[str]:
    if len(word) > 4:
        yield from (each for each in ("di", "me", "nge", "ny") if word.startswith(each))
        yield from (each for each in ("nya", "in", "kan") if word.endswith(each))


def _stem(word: str) -> str:
    """Return roughly the stem of an Indonesian word."""
    suffix = next((each for each in _SUFFIXES if word.endswith(each) and len(word) - len(each) > 3), "")
    word = word.removesuffix(suffix)
    prefix = next((each for each in _PREFIXES if word.startswith(each) and len(word) - len(each) > 3), "")
    return word.removeprefix(prefix)[:5]


def _turn(meeting: Meeting, at: int) -> Iterator[str]:
    """Yield what stands beside a sentence in its own turn."""
    turn = meeting.turns[meeting.turn_of[at]]
    if at > turn[0]:
        yield from ("inner", *_beginning("back", meeting.readings[at - 1]))
    if at < turn[-1]:
        yield from ("more", *_beginning("on", meeting.readings[at + 1]))


def _beginning(place: str, one: Reading) -> Iterator[str]:
    yield from (f"{place}:{name}" for name in one.names[:2])
    yield from (f"{place}&{flag}" for flag in one.flags)


def _before(meeting: Meeting, at: int) -> Iterator[str]:
    if before := meeting.turn(at, -1):
        yield from (f"p:{name}" for name in before[0].names[:2])
        yield from (f"p&{flag}" for flag in before[-1].flags)


def _history(meeting: Meeting, at: int) -> Iterator[str]:
    """Yield where in the meeting a sentence stands, and how much of it was spoken of before."""
    one, before = meeting.readings[at], meeting.turn(at, -1)
    if before:
        yield f"p:{'lead' if before[0].sentence.speaker == meeting.leader else 'other'}"
    turns = [turn for step in range(-6, 0) if (turn := meeting.turn(at, step))]
    yield f"asked:{min(3, sum(turn[-1].asks for turn in turns[-5:]))}"
    yield f"own:{sum(turn[0].sentence.speaker == one.sentence.speaker for turn in turns)}"
    known = len(one.terms & _terms(meeting, at, -8, 0))
    yield from (f"known:{min(4, known)}", f"part:{4 * known // max(1, len(one.terms))}")
    yield f"share:{min(4, 10 * meeting.spoken[one.sentence.speaker] // len(meeting.turns))}"
    yield f"place:{10 * at // len(meeting.readings)}"


def _after(meeting: Meeting, at: int) -> Iterator[str]:
    one = meeting.readings[at]
    agreed = 0
    for step in (1, 2, 3):
        if not (turn := meeting.turn(at, step)):
            continue
        first = turn[0]
        agreed += first.agrees and first.sentence.speaker != one.sentence.speaker
        if step < 3:
            yield from (f"n{step}:{name}" for name in first.names[:2])
            yield f"n{step}:{' '.join(first.names[:2])}"
            yield from (f"n{step}&{flag}" for flag in first.flags)
            yield from (f"n{step}:short",) if len(turn) == 1 and len(first.tokens) < 6 else ()
            yield from (f"n{step}:lead",) if first.sentence.speaker == (meeting.leader or "") else ()
    yield f"agreed:{agreed}"
    yield f"after:{min(3, len(one.terms & _terms(meeting, at, 1, 3)))}"


def _terms(meeting: Meeting, at: int, begin: int, end: int) -> set[str]:
    """Return the terms of turns counted from a sentence's own, and of that the sentences before it."""
    found: set[str] = set()
    for step in range(begin, end + 1):
        turn = (
            meeting.turn(at, step) if step else meeting.readings[meeting.turns[meeting.turn_of[at]][0] : at]
        )
        found.update(*(one.terms for one in turn))
    return found


def context_of(
    meeting: Meeting, features: Sequence[Sequence[str]], scores: Sequence[Sequence[float]]
) -> list[list[str]]:
    """Return the features for a second look: how sentences nearby scored, as decisions and as actions."""
    return [
        [
            *(feature for feature in features[at] if feature.startswith("c:")),
            *(each for kind, own in enumerate(scores) for each in _nearby(meeting, at, kind, own)),
        ]
        for at in range(len(meeting.readings))
    ]


def _nearby(meeting: Meeting, at: int, kind: int, scores: Sequence[float]) -> Iterator[str]:
    own, number = scores[at], meeting.turn_of[at]
    yield from (f"{kind}>{half / 2}" for half in range(-10, 7) if own >= half / 2)
    for begin, end in _NEAR_TURNS:
        turns = meeting.turns[max(0, number + begin) : max(0, number + end + 1)]
        most = max((scores[each] for turn in turns for each in turn if each != at), default=-6.0)
        yield from (f"{kind}[{begin},{end}]>{least}" for least in range(-4, 3) if most >= least)
        if most > own:
            yield f"{kind}[{begin},{end}]>own"


BIAS: Final = ""
"""The feature that every sentence has."""
KINDS: Final = ("decision", "action")
CONTEXT: Final = " in context"
OWNER: Final = "owner"

Weights = Mapping[str, float]
Model = Mapping[str, Weights]
"""The weights by part: each of `KINDS`, the same with `CONTEXT`, and `OWNER`."""


@cache
def shipped() -> Model:
    """Read the weights of the package, once in a process."""
    parts: dict[str, dict[str, float]] = {}
    for line in files(__package__).joinpath("weights.tsv").read_text(encoding="utf-8").splitlines():
        part, feature, weight = line.split("\t")
        parts.setdefault(part, {})[feature] = float(weight)
    return parts


def total(weights: Weights, features: Iterable[str]) -> float:
    """Return the score of features, whatever their order."""
    return fsum((weights.get(BIAS, 0.0), *(weights.get(feature, 0.0) for feature in features)))


def scores_of(meeting: Meeting, model: Model) -> Sequence[Sequence[float]]:
    """Return the scores of every sentence, as a decision and as an action; the better one counts."""
    features = features_of(meeting)
    first = [[total(model[kind], each) for each in features] for kind in KINDS]
    context = context_of(meeting, features, first)
    decided, given = ([total(model[kind + CONTEXT], each) for each in context] for kind in KINDS)
    return [
        min(one, 0.0) if other > max(one, 0.0) else one for one, other in zip(decided, given, strict=True)
    ], given
