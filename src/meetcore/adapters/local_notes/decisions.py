"""Find decisions, and those that are taken back later in the meeting.

A rule looks at one sentence, except for "Setuju." after a proposal. Questions, wishes, denials, open points
and what was decided in the past are none. A sentence that takes a decision back strikes the one that it
shares most words with; without any, the last one if it follows soon, or the one that was talked about alike.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from attrs import frozen

from meetcore.adapters.local_notes import decision_patterns as patterns
from meetcore.adapters.local_notes.evidence import ENOUGH, Meeting
from meetcore.adapters.local_notes.sentences import Sentence
from meetcore.adapters.local_notes.verbs import is_english_verb
from meetcore.adapters.local_notes.words import terms_of
from meetcore.domain.notes.notes import Decision

_REACH: Final = 4
_CONTEXT: Final = 25
_FEWEST_TERMS: Final = 2
_NEAR: Final = 6
_AT_ONCE: Final = 2
# What a decision is said with, not what it is about.
_CUES: Final = frozenset(
    """
    putuskan diputuskan memutuskan putusin sepakati disepakati menyepakati setujui disetujui menyetujui
    tetapkan ditetapkan menetapkan keputusan kesepakatan rencana pakai pake memakai batal batalkan dibatalkan
    batalin membatalkan cancel ralat jadiin demikian rapat final deal fix decide decision approved settled
    scrap stick let's forget never mind keberatan
    """.split()  # noqa: SIM905  # a list of words is read as words
)


@frozen
class Struck:
    """A decision that was taken back: the numbers of its sentence and of the reversing one, its own words."""

    begin: int
    end: int
    terms: frozenset[str]

    def covers(self, at: int, text: str) -> bool:
        """Return whether a task that was given in between followed from the decision alone."""
        shared, after = len(self.terms & terms_of(text)), at - self.begin
        is_near = (shared == 1 and after <= _NEAR) or (
            after <= _AT_ONCE and patterns.REFERS.search(text) is not None
        )
        return self.begin <= at < self.end and (shared > 1 or is_near)


def decisions_in(sentences: Sequence[Sentence]) -> Iterator[Decision]:
    """Yield the decisions that stand at the end, with the sentences that state them."""
    standing, _ = decided_in(sentences)
    yield from standing.values()


def decided_in(
    sentences: Sequence[Sentence], tasks: Collection[int] = ()
) -> tuple[dict[int, Decision], list[Struck]]:
    """Return the decisions that stand, by the number of their sentence, and those that were taken back.

    `tasks`: the numbers of sentences that give a task.
    """
    meeting = Meeting(sentences, tasks)
    standing: dict[int, Decision] = {}
    taken_back: list[tuple[int, int]] = []
    for at, sentence in enumerate(sentences):
        text = sentence.text.replace("\u2019", "'")
        is_new = _is_new(text, at, meeting)
        target = _reversed_by(text, at, standing, sentences, is_new=is_new)
        if target is not None:
            about = _about(standing.pop(target).text)
            taken_back.append((target, at))
            is_new = (
                is_new
                or patterns.KEEPS.search(text) is not None
                or len(_about(text) - about) >= _FEWEST_TERMS
            )
        is_new = is_new or _renews(text, sentence, sentences, taken_back)
        if is_new:
            standing[at] = Decision(sentence.text, sentence.text, sentence.at_s)
        elif at and _is_agreed(sentences, at, standing):
            standing[at] = Decision(sentences[at - 1].text, sentence.text, sentence.at_s)
    reversing = {end for _, end in taken_back}
    others = frozenset[str]().union(
        *(_about(one.text) for at, one in standing.items() if at not in reversing)
    )
    return standing, [Struck(begin, end, _about(sentences[begin].text) - others) for begin, end in taken_back]


def _renews(
    text: str, sentence: Sentence, sentences: Sequence[Sentence], taken_back: list[tuple[int, int]]
) -> bool:
    """Return whether a plain "kita pakai …" follows at once on what was taken back, and so replaces it."""
    if not taken_back or patterns.RENEWS.match(text) is None or _asks(text):
        return False
    end = taken_back[-1][1]
    return sentence.at_s > sentences[end].at_s and sentences.index(sentence, end) - end <= _AT_ONCE


def _about(text: str) -> frozenset[str]:
    return terms_of(text) - _CUES


def is_decision(text: str) -> bool:
    """Return whether a sentence states a decision, whatever follows."""
    if _asks(text) or patterns.RUNS.search(text):
        return False
    plain = patterns.NO_OBJECTION.sub("", text)
    found = (pattern.search(plain) for pattern in patterns.DECIDED)
    if (
        (ours := patterns.WE_DO.match(plain))
        and (is_english_verb(ours["verb"]) or patterns.WE_VERBS.match(ours["verb"]))
        and not patterns.TALKS.match(ours["verb"])
    ):
        return True
    return any(
        one is not None and not patterns.DENIED.search(one[0]) and _stands(plain, one.start())
        for one in found
    )


def _is_new(text: str, at: int, meeting: Meeting) -> bool:
    is_outright = is_decision(text)
    if meeting.leader is None:
        return is_outright
    if not is_outright and patterns.RUNS_ON.search(text):
        return False
    return not _is_ruled_out(text) and meeting.weight(at, is_outright=is_outright) >= ENOUGH


def _is_ruled_out(text: str) -> bool:
    return _asks(text) or patterns.RUNS.search(text) is not None or patterns.PAST.search(text) is not None


def _stands(text: str, begin: int) -> bool:
    if patterns.UNDECIDED.search(text, 0, begin):
        return False
    past = patterns.PAST.search(text)
    return past is None or past.start() > begin + 40


def _asks(text: str) -> bool:
    return text.rstrip("\"')] ").endswith("?") or patterns.ASKS.search(text) is not None


def _reversed_by(
    text: str, at: int, standing: dict[int, Decision], sentences: Sequence[Sentence], *, is_new: bool
) -> int | None:
    """Return the number of the decision that a sentence takes back."""
    if not standing or _asks(text) or patterns.PAST.search(text) or patterns.REQUESTS.search(text):
        return None
    reverses = patterns.REVERSES.search(text) is not None
    if not reverses and not (is_new and patterns.CHANGES.search(text)):
        return None
    shared = {number: len(_about(text) & _about(one.text)) for number, one in standing.items()}
    if most := max(shared.values()):
        return max(number for number, count in shared.items() if count == most)
    if not reverses or not patterns.OURS.search(text) or patterns.SCREEN.search(text):
        return None
    last = max(standing)
    if len({one.at_s for one in sentences[last : at + 1]}) <= _REACH:
        return last
    return _by_context(at, sentences, standing) or (last if patterns.THAT.search(text) else None)


def _by_context(at: int, sentences: Sequence[Sentence], standing: dict[int, Decision]) -> int | None:
    """Return the decision before which the same rare words were spoken as before its reversal."""
    own = _about(sentences[at].text)
    spoken = frozenset[str]().union(*(_about(one.text) for one in sentences[max(0, at - _CONTEXT * 4) : at]))
    around = frozenset[str]().union(*(_about(one.text) for one in sentences[max(0, at - _NEAR) : at + 1]))
    here = own if own & spoken else around
    counts = Counter(term for one in sentences[:at] for term in _about(one.text) & here)
    best, place, begin = 0.0, None, 0
    for number in sorted(standing):
        context = sentences[max(begin, number - _CONTEXT) : number + 1]
        terms = frozenset().union(*(_about(one.text) for one in context)) & here
        worth = sum(1 / counts[term] for term in terms)
        if worth > best:
            best, place = worth, number
        begin = number + 1
    return place


def _is_agreed(sentences: Sequence[Sentence], at: int, standing: dict[int, Decision]) -> bool:
    before = sentences[at - 1]
    return (
        patterns.AGREES.fullmatch(sentences[at].text) is not None
        and patterns.PROPOSES.search(before.text) is not None
        and at - 1 not in standing
    )
