"""Numbers in spoken and written text, by their values: "250 juta" is "dua ratus lima puluh juta".

Digits in either notation, and the number words of Indonesian and English. `claimed` are the numbers of a text
that has to be borne out, `borne_out` the values that another text allows for.
"""

import re
from collections.abc import Iterable
from fractions import Fraction
from itertools import zip_longest
from typing import Final

# Digits, a word, or a character that ends a number; a space or a hyphen does not.
_TOKEN: Final = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+|[^ -]")
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
_SCALED: Final = _SCALES.keys() | _SUFFIXES.keys()
# "lima jutaan", "dua puluhan", "seratusan".
_ROUND: Final = {f"{word}an": word for word in (*_MULTIPLIERS, *_SCALES, *_WHOLE)}
# What a half and a quarter are: of anything, of an hour in minutes, and in percent.
_PARTS: Final = {
    **dict.fromkeys(("setengah", "separuh", "half"), frozenset({Fraction(1, 2), Fraction(30), Fraction(50)})),
    **dict.fromkeys(
        ("seperempat", "perempat"),
        frozenset({Fraction(1, 4), Fraction(3, 4), *map(Fraction, (15, 45, 25, 75))}),
    ),
}
_PAST: Final = frozenset({"lewat", "past"})
_ONES: Final = frozenset(
    ("a", "an", "sebuah", "seorang", "sekali", "semenit", "sejam", "sehari", "seminggu", "sepekan")
) | {"sebulan", "setahun"}
_SPOKEN: Final = (
    (re.compile(r"\band a half\b"), "setengah"),
    # Not "this quarter", which is no number.
    (re.compile(r"\b(?:quarter (?:to|past)|a quarter of)\b"), "seperempat"),
    (re.compile(r"\bin the (?=afternoon\b|evening\b)"), ""),
)
_AFTERNOON: Final = frozenset({"siang", "sore", "malam", "malem", "pm", "afternoon", "evening", "tonight"})
_MORNING: Final = range(1, 12)
_HOURS: Final = range(1, 13)
_GROUPED: Final = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_DECIMAL: Final = re.compile(r"\d+(?:[.,:]\d+)?")
_CLOCK: Final = re.compile(r"([01]?\d|2[0-4])[.:]([0-5]\d)")
_LONGEST: Final = 40

Values = frozenset[Fraction]


Number = tuple[Values, ...]
"""The readings of a number in a text: it is borne out by all the values of one of them."""


def claimed(text: str) -> tuple[Number, ...]:
    """Return the numbers of a text, but for words that count nothing as often as not."""
    return tuple(_Reader(text).claims)


def borne_out(text: str) -> Values:
    """Return the values that a text allows for: its numbers, their parts, halves, and hours of the clock."""
    return frozenset(_Reader(text).values)


def are_borne_out(numbers: tuple[Number, ...], values: Values) -> bool:
    """Return whether each number has a reading among the values."""
    return all(any(reading <= values for reading in readings) for readings in numbers)


def _literal(token: str) -> Number:
    """Return the readings of digits: `2,5`, `1.500` as either, `10.30` as an hour and minutes, too."""
    readings: list[Values] = []
    if _GROUPED.fullmatch(token):
        readings.append(frozenset({Fraction(re.sub("[.,]", "", token))}))
    if _DECIMAL.fullmatch(token):
        readings.append(frozenset({Fraction(re.sub("[,:]", ".", token))}))
    if clock := _CLOCK.fullmatch(token):
        readings.append(frozenset(map(Fraction, clock.groups())) - {Fraction(0)})
    return tuple(readings) or (frozenset(map(Fraction, re.findall(r"\d+", token))),)


class _Reader:
    """The number that is being read: up to its last scale, the group after it, and what may follow.

    `claims` are the numbers of the text, `values` what it bears out, `chain` the numbers that follow one
    another, `hours` what they are on a clock. A part that follows is less than `below`; `decimal` is the
    place value of a digit after a comma. `is_before`: the hour that follows is not full yet.
    """

    def __init__(self, text: str) -> None:
        self.claims: list[Number] = []
        self.values: set[Fraction] = set()
        self.chain: list[Fraction] = []
        self.hours: list[Fraction] = []
        self.is_before = False
        self.reset()
        text = text.casefold()
        for spoken, written in _SPOKEN:
            text = spoken.sub(written, text)
        tokens = _TOKEN.findall(text)
        for token, following in zip_longest(tokens, tokens[1:]):
            if token[0].isdecimal():
                self.literal(token[:_LONGEST], _ROUND.get(following, following) in _SCALED)
            elif not self.word(token):
                self.values |= {Fraction(1)} if token in _ONES else set()
                self.end_of_chain(is_afternoon=token in _AFTERNOON)
        self.end_of_chain()

    def reset(self) -> None:
        self.total = self.group = self.below = self.scale = self.decimal = Fraction(0)
        self.is_open = self.is_idle = False

    def literal(self, token: str, is_scaled: bool) -> None:
        readings = _literal(token)
        if is_scaled:
            self.small(min(readings[0]), token)
            return
        self.flush()
        self.claims.append(readings)
        self.values.update(*readings)
        clock = _CLOCK.fullmatch(token)
        self.follow(Fraction(clock[1]) if clock else min(readings[-1]))

    def word(self, word: str) -> bool:
        """Read a word of a number; return whether it is one."""
        if self.is_open or word.startswith("se"):
            word = _ROUND.get(word, word)
        if word in _SMALL:
            value = Fraction(_SMALL[word])
            self.small(value, word)
            self.below = Fraction(10 if value >= 20 else 0)
        elif word in _WHOLE:
            self.make_room(Fraction(_WHOLE[word]))
            self.word(word.removeprefix("se"))
        elif word in _MULTIPLIERS or (word == "belas" and self.is_open):
            self.multiply(word)
        elif word in _SCALES or (word in _SUFFIXES and self.is_open):
            self.raise_by(Fraction(_SCALES.get(word) or _SUFFIXES[word]))
        elif word == "setengah" and self.is_open:
            self.total += 0 if self.group else self.scale / 2  # "dua juta setengah"
            self.group += Fraction(1, 2) if self.group or not self.scale else 0
        elif word in ("koma", "point") and self.is_open:
            self.decimal = Fraction(1, 10)
        elif word in _PARTS or word in _PAST or word == "kurang":
            self.part_of_hour(word)
        else:
            return word == "and" and self.below == 100
        return True

    def part_of_hour(self, word: str) -> None:
        """Read what stands before or behind an hour: "setengah tiga", "tiga kurang seperempat"."""
        self.flush()
        self.values |= _PARTS.get(word, frozenset())
        if word not in _PAST and not self.is_before:  # one hour for "kurang seperempat"
            self.add_hours_before(self.hours[-1:])
            self.is_before = True

    def add_hours_before(self, hours: Iterable[Fraction]) -> None:
        """Bear out the hours before others, on a clock of twelve."""
        before = [(hour - 2) % 12 + 1 for hour in hours if hour in _HOURS]
        self.values.update(before)
        self.hours += before

    def follow(self, value: Fraction) -> None:
        """Add a number to those that follow one another."""
        self.chain.append(value)
        self.hours.append(value)
        if self.is_before:
            self.add_hours_before([value])
        self.is_before = False

    def make_room(self, value: Fraction) -> None:
        """End a number that a value cannot be a part of."""
        if self.is_open and value >= self.below:
            self.flush()

    def small(self, value: Fraction, token: str) -> None:
        """Add the value of a token to the group, or begin a number with it."""
        if self.decimal and value < 10:
            self.group += value * self.decimal
            self.decimal /= 10
            return
        self.make_room(value)
        self.is_idle = token in _IDLE and not self.is_open
        self.group += value
        self.is_open = True

    def multiply(self, word: str) -> None:
        digit = self.group % 10
        by = _MULTIPLIERS.get(word, 0)
        self.group += (digit or 1) * by - digit if by else 10
        self.below, self.is_open, self.is_idle = Fraction(by), True, False

    def raise_by(self, scale: Fraction) -> None:
        if self.scale and scale >= self.scale:  # "five thousand two million" are two
            group, self.group = self.group, Fraction(0)
            self.flush()
            self.group = group
        part = self.group or Fraction(1)
        self.values.add(part)
        self.total += part * scale
        self.group = self.decimal = Fraction(0)
        self.below = self.scale = scale
        self.is_open, self.is_idle = True, False

    def flush(self) -> None:
        """End a number; the next may follow at once, as in "twenty twenty-six"."""
        if self.is_open:
            value = self.total + self.group
            self.values.add(value)
            self.follow(value)
            if not self.is_idle:
                self.claims.append((frozenset({value}),))
        self.reset()

    def end_of_chain(self, *, is_afternoon: bool = False) -> None:
        """End the numbers that follow one another: spelled digits are one number, too."""
        self.flush()
        if is_afternoon:
            self.values.update(hour + 12 for hour in self.hours if hour in _MORNING)
        spelled = "".join(map(str, self.chain[:_LONGEST]))
        if spelled.isdecimal():
            self.values.add(Fraction(spelled))
        self.chain, self.hours, self.is_before = [], [], False
