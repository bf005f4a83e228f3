"""Numbers in spoken and written text, by their values: "250 juta" is "dua ratus lima puluh juta".

Digits in either notation, and the number words of Indonesian and English. `claimed` are the numbers of a text
that has to be borne out, `borne_out` the values that another text allows for.
"""

import re
from fractions import Fraction
from typing import Final

from attrs import frozen

_TOKEN: Final = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+")
_UNITS: Final = {
    word: value
    for value, words in enumerate(
        (
            *("nol zero", "satu one", "dua two", "tiga three", "empat four", "lima five", "enam six"),
            *("tujuh seven", "delapan eight", "sembilan nine", "sepuluh ten", "sebelas eleven", "twelve"),
            *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
        )
    )
    for word in words.split()
}
_TENS: Final = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ENGLISH_ORDINALS: Final = (
    *("third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"),
)
# Words that count nothing as often as not, as in "salah satu", "kedua tim", "one of us".
_IDLE: Final = {"kosong": 0, "satu": 1, "one": 1, "pertama": 1, "first": 1, "kedua": 2, "second": 2}
_SMALL: Final = {
    **_UNITS,
    **{word: 10 * value for value, word in enumerate(_TENS, 2)},
    **{word: value for value, word in enumerate(_ENGLISH_ORDINALS, 3)},
    **{f"ke{word}": value for word, value in _UNITS.items()},
    **_IDLE,
}
_MULTIPLIERS: Final = {"puluh": 10, "ratus": 100, "hundred": 100}
_WHOLE: Final = {"seratus": 100, "seribu": 1_000, "sejuta": 10**6, "semiliar": 10**9}
_SCALES: Final = {
    "ribu": 10**3, "thousand": 10**3, "juta": 10**6, "million": 10**6, "miliar": 10**9, "milyar": 10**9,
    "billion": 10**9, "triliun": 10**12, "trillion": 10**12,
}  # fmt: skip
_SUFFIXES: Final = {"rb": 10**3, "k": 10**3, "jt": 10**6}
_AFTERNOON: Final = frozenset({"siang", "sore", "malam", "malem", "pm", "afternoon", "evening", "tonight"})
_GROUPED: Final = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_CLOCK: Final = re.compile(r"([01]?\d|2[0-4])[.:]([0-5]\d)")
_LONGEST: Final = 40

Values = frozenset[Fraction]


@frozen
class Number:
    """A number of a text: it is borne out by all the values of one of its readings."""

    readings: tuple[Values, ...]
    parts: Values = frozenset()
    is_idle: bool = False


def claimed(text: str) -> tuple[Number, ...]:
    """Return the numbers of a text, but for words that count nothing as often as not."""
    return tuple(number for number in _Reader().read(text) if not number.is_idle)


def borne_out(text: str) -> Values:
    """Return the values that a text allows for: its numbers, their parts, and hours of the afternoon."""
    values = {value for number in _Reader().read(text) for each in number.readings for value in each}
    return frozenset(values | {value for number in _Reader().read(text) for value in number.parts})


def are_borne_out(numbers: tuple[Number, ...], values: Values) -> bool:
    """Return whether each number has a reading among the values."""
    return all(any(reading <= values for reading in number.readings) for number in numbers)


def _literal(token: str) -> tuple[Values, ...]:
    """Return the readings of digits: `2,5`, `1.500` as either, `10.30` as an hour and minutes, too."""
    readings: list[Values] = []
    if _GROUPED.fullmatch(token):
        readings.append(frozenset({Fraction(re.sub("[.,]", "", token))}))
    if clock := _CLOCK.fullmatch(token):
        readings.append(frozenset(map(Fraction, clock.groups())) - {Fraction(0)})
    head, _, tail = token.partition(re.sub(r"\d", "", token)[:1] or ".")
    if tail.isdecimal() or not tail:
        readings.append(frozenset({Fraction(f"{head}.{tail or 0}")}))
    return tuple(readings) or (frozenset(map(Fraction, re.findall(r"\d+", token))),)


class _Reader:
    """The number that is being read: up to its last scale, the group after it, and what may follow."""

    def __init__(self) -> None:
        self.numbers: list[Number] = []
        self.chain: list[Fraction] = []
        self.reset()

    def reset(self) -> None:
        self.total = self.group = self.below = self.scale = Fraction(0)
        self.parts: set[Fraction] = set()
        self.is_open = self.is_idle = False
        self.decimals = 0

    def read(self, text: str) -> list[Number]:
        folded = text.casefold()
        found = list(_TOKEN.finditer(folded))
        for at, match in enumerate(found):
            token, follows = match[0], found[at + 1][0] if at + 1 < len(found) else ""
            if at and folded[found[at - 1].end() : match.start()].strip(" -"):
                self.end_of_chain()
            if token[0].isdecimal():
                self.literal(token[:_LONGEST], follows in _SCALES or follows in _SUFFIXES)
            elif not self.word(token):
                self.end_of_chain(is_afternoon=token in _AFTERNOON)
        self.end_of_chain()
        return self.numbers

    def literal(self, token: str, is_scaled: bool) -> None:
        readings = _literal(token)
        if is_scaled:
            self.small(next(iter(readings[0])), Fraction(1000), is_idle=False)
            self.below = Fraction(0)
            return
        self.flush()
        self.numbers.append(Number(readings))
        self.chain.append(min(readings[0]) if readings[0] else Fraction(0))

    def word(self, word: str) -> bool:
        """Read a word of a number; return whether it is one."""
        if word in _SMALL:
            value = Fraction(_SMALL[word])
            is_ten = value >= 20
            self.small(value, Fraction(100 if is_ten or value >= 10 else 10), is_idle=word in _IDLE)
            self.below = Fraction(10 if is_ten else 0)
        elif word in _WHOLE:
            value = Fraction(_WHOLE[word])
            self.small(value if value < 1000 else Fraction(1), Fraction(1000), is_idle=False)
            if value >= 1000:
                self.raise_by(value)
            self.below = Fraction(min(_WHOLE[word], 1000))
        elif word in _MULTIPLIERS or (word == "belas" and self.is_open):
            self.multiply(word)
        elif word in _SCALES or (word in _SUFFIXES and self.is_open):
            self.raise_by(Fraction(_SCALES.get(word) or _SUFFIXES[word]))
        elif word == "setengah" and self.is_open:
            self.group += Fraction(1, 2)
        elif word in ("koma", "point") and self.is_open:
            self.decimals = 1
        else:
            return word == "and" and self.is_open and self.below == 100
        return True

    def small(self, value: Fraction, size: Fraction, *, is_idle: bool) -> None:
        """Add a value of less than `size` to the group, or begin a number with it."""
        if self.decimals and value < 10:
            self.group += value / 10**self.decimals
            self.decimals += 1
            return
        if self.is_open and size > self.below:
            self.flush()
        self.is_idle = is_idle and not self.is_open
        self.group += value
        self.is_open = True

    def multiply(self, word: str) -> None:
        digit = self.group % 10
        by = _MULTIPLIERS.get(word)
        self.group += 10 if by is None else (digit or 1) * by - digit
        self.below, self.is_open, self.is_idle = Fraction(by or 0), True, False

    def raise_by(self, scale: Fraction) -> None:
        if self.scale and scale >= self.scale:  # "five thousand two million" are two
            group, self.group = self.group, Fraction(0)
            self.flush()
            self.group = group
        self.decimals = 0
        self.parts.add(self.group or Fraction(1))
        self.total += (self.group or 1) * scale
        self.group, self.below, self.scale = Fraction(0), Fraction(1000), scale
        self.is_open, self.is_idle = True, False

    def flush(self) -> None:
        """End a number; the next may follow at once, as in "twenty twenty-six"."""
        if self.is_open:
            value = self.total + self.group
            self.numbers.append(Number((frozenset({value}),), frozenset(self.parts), self.is_idle))
            self.chain.append(value)
        self.reset()

    def end_of_chain(self, *, is_afternoon: bool = False) -> None:
        """End the numbers that follow one another: spelled digits are one number, too."""
        self.flush()
        if is_afternoon and self.chain and 0 < self.chain[-1] < 12:
            self.numbers.append(Number((), frozenset({self.chain[-1] + 12}), is_idle=True))
        if 1 < len(self.chain) < _LONGEST:
            spelled = "".join(str(value) for value in self.chain)
            if spelled.isdecimal():
                self.numbers.append(Number((), frozenset({Fraction(spelled)}), is_idle=True))
        self.chain = []
