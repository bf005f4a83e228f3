"""Choose the decisions that stand at the end of a meeting: those found that are not taken back later.

A sentence takes back the decision with which it shares most terms, if it revokes ("kita batalkan", "scrap
that") or decides again and says that something changes. One that revokes and shares none takes back the last
decision, if that was just made; so does one that only revokes ("eh, batal deh"), if of nothing else was
spoken since.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from attrs import frozen

from meetcore.adapters.local_notes.lexicon import terms_of, words_of
from meetcore.adapters.local_notes.reading import Meeting
from meetcore.domain.notes.due_words import MONTHS, NUMBERS, WEEKDAYS
from meetcore.domain.notes.notes import Decision

_REACH: Final = 3
_NEAR: Final = 6
_AT_ONCE: Final = 2
_NEARLY: Final = -1.5
_CALENDAR: Final = frozenset((*MONTHS, *NUMBERS, *WEEKDAYS))
_REVOKES: Final = re.compile(
    r"\b(?:(?:di)?batal(?:kan|in)?|membatalkan|(?:di)?cancel(?:led)?|(?:tidak|nggak|gak|ga|tak|enggak|ndak|ngga)\s+jadi"
    r"|urung|ralat|(?:di)?urungkan|(?:kita|kami|saya)\s+cabut|dicabut|mencabut|meralat|menganulir|dianulir"
    r"|(?:keputusan|yang|kesepakatan|rencana|hasil)\s+(?:\w+\s+){0,2}tadi\s+(?:\w+\s+){0,2}(?:di)?(?:ubah|ganti|revisi"
    r"|hapus|coret|salah|geser)|scrap|ditch|(?:cancel|forget|reverse|undo|revoke|withdraw|overturn)\s+(?:that|the|this|it"
    r"|what|our)|never\s+mind|on\s+second\s+thoughts?|change\s+of\s+plans?|(?:i|we)\s+take\s+(?:that|it)\s+back"
    r"|is\s+off\s+the\s+table|changed?\s+(?:my|our)\s+minds?)\b",
    re.IGNORECASE,
)
_CHANGES: Final = re.compile(
    r"\b(?:(?:di)?(?:tangguhkan|tunda|ubah|ganti|geser|undur)(?:kan|in)?|majuin|mundurin|pindahin|switch|instead|moved?"
    r"|revert|split)\b",
    re.IGNORECASE,
)
# What may also be said of something else.
_KEEPS: Final = re.compile(
    r"\b(?:tetap|tetep|(?:di)?(?:revisi|pindah(?:kan)?)|bukan\s+(?:\w+\s+){1,3}(?:lagi|tapi))\b",
    re.IGNORECASE,
)
# What stands alone, right after a decision.
_DROPS: Final = re.compile(
    r"\b(?:jangan|(?:di)?tunda|forget\s+it|let's\s+not|(?:kita|kami)\s+pikir(?:kan|in)?\s+lagi)\b",
    re.IGNORECASE,
)
_REFERS: Final = re.compile(
    r"\b(?:tadi|barusan|keputusan|kesepakatan|that|earlier|just\s+now|maaf|sorry)\b", re.IGNORECASE
)
_FOLLOWS: Final = re.compile(r"\b(?:them|it|there|tersebut|situ|sana|\w+nya)\b", re.IGNORECASE)


@frozen
class Struck:
    """A decision that was taken back: the numbers of its sentence and of the revoking one, its own terms."""

    begin: int
    end: int
    terms: frozenset[str]

    def covers(self, at: int, text: str) -> bool:
        """Return whether a task that was given in between followed from the decision alone."""
        shared, after = len(self.terms & terms_of(text)), at - self.begin
        is_near = (shared == 1 and after <= _NEAR) or (
            after <= _AT_ONCE and _FOLLOWS.search(text) is not None
        )
        return self.begin <= at < self.end and (shared > 1 or is_near)


def decided_in(meeting: Meeting, scores: Sequence[float]) -> tuple[dict[int, Decision], list[Struck]]:
    """Return the decisions that stand, by the number of their sentence, and those that were taken back."""
    standing: dict[int, Decision] = {}
    revoked: list[tuple[int, int]] = []
    for at, one in enumerate(meeting.readings):
        text, is_new = one.sentence.text, scores[at] > 0
        target = _revoked_by(meeting, at, scores[at], standing)
        if target is not None:
            del standing[target]
            revoked.append((target, at))
        if is_new:
            standing[at] = Decision(text, text, one.sentence.at_s)
    revoking = {end for _, end in revoked}
    others = frozenset[str]().union(*(_about(meeting, at) for at in standing if at not in revoking))
    return standing, [Struck(begin, end, _about(meeting, begin) - others) for begin, end in revoked]


def recaps_in(meeting: Meeting, found: Iterable[int]) -> set[int]:
    """Return the sentences, of those found, that only repeat earlier ones at the end of a meeting."""
    earlier: dict[int, frozenset[str]] = {}
    recaps: set[int] = set()
    for at in found:
        about = frozenset(term for term in _about(meeting, at) if not _counts(term))
        alike = sum(len(about & other) > 1 for before, other in earlier.items() if before < at - _AT_ONCE)
        if alike > 1 and at > len(meeting.readings) // 2:
            recaps.add(at)
        else:
            earlier[at] = about
    return recaps


def _about(meeting: Meeting, at: int) -> frozenset[str]:
    """Return the terms of a sentence but those that any decision is said with."""
    return meeting.readings[at].terms - words_of("decision cues")


def _revoked_by(meeting: Meeting, at: int, score: float, standing: Collection[int]) -> int | None:
    """Return the number of the decision that a sentence takes back."""
    one = meeting.readings[at]
    text = one.sentence.text.replace("\u2019", "'")
    if not standing or one.asks or "ASK" in one.flags:
        return None
    if _only_revokes(text) and _is_next(meeting, at, max(standing)):
        return max(standing)
    refers = _REFERS.search(text) is not None
    revokes = _REVOKES.search(text) is not None and (refers or score > _NEARLY)
    changes = _CHANGES.search(text) is not None
    if not revokes and (score <= 0 or not (changes or _KEEPS.search(text))):
        return None
    about = _about(meeting, at) if revokes else {term for term in _about(meeting, at) if not _counts(term)}
    shared = {number: len(about & _about(meeting, number)) for number in standing}
    most = max(shared.values())
    if most >= (1 if revokes or changes else 2):
        return max(number for number, count in shared.items() if count == most)
    last = max(standing)
    is_near = meeting.turn_of[at] - meeting.turn_of[last] <= _REACH
    return last if revokes and refers and is_near else None


def _only_revokes(text: str) -> bool:
    """Return whether a sentence revokes and names nothing."""
    rest, count = _REVOKES.subn(" ", text)
    rest, more = _DROPS.subn(" ", rest)
    return count + more > 0 and terms_of(rest) <= words_of("fillers")


def _is_next(meeting: Meeting, at: int, last: int) -> bool:
    """Return whether what was said since a decision was about it, or about nothing, and asked nothing."""
    about, since = _about(meeting, last), meeting.readings[last + 1 : at]
    return at - last <= _NEAR and all(
        not one.asks and (one.terms <= words_of("fillers") or bool(one.terms & about)) for one in since
    )


def _counts(term: str) -> bool:
    """Return whether a term is a number or a day, which different things share."""
    return term.isdecimal() or term in _CALENDAR
