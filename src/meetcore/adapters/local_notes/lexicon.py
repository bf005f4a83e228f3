"""Words of Indonesian and English: lists, verbs of tasks, words that carry a meaning, and small talk.

`lexicon.txt` holds the lists under the name of each in brackets. Indonesian verbs are kept as stems; their
forms, with the prefixes of the language and of Jakarta's ("mengirimkan", "ngirimin", "di-review"), are made
once.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Final


def words_of(name: str) -> frozenset[str]:
    """Return a list of words."""
    return _lists()[name]


@cache
def classes() -> Mapping[str, str]:
    """Return the class of every word that has one; the names of classes are in capital letters."""
    return {word: name for name, words in _lists().items() if name.isupper() for word in words}


@cache
def _lists() -> Mapping[str, frozenset[str]]:
    """Read the lists, once in a process."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in files(__package__).joinpath("lexicon.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            name = line.strip("[]")
        elif not line.startswith("#"):
            found.setdefault(name, []).extend(line.split())
    return {name: frozenset(words) for name, words in found.items()}


_WORD: Final = re.compile(r"[^\W\d_](?:[\w'-]*\w)?")
_TERM: Final = re.compile(r"\w[\w'-]*")


def content_of(text: str) -> list[str]:
    """Return the words in lower case, without stop words and single letters."""
    stopwords = words_of("stopwords")
    found = (word.casefold() for word in _WORD.findall(text))
    return [word for word in found if word not in stopwords and len(word) > 1]


def terms_of(text: str) -> frozenset[str]:
    """Return words and numbers by which two sentences are about the same thing, without endings."""
    stopwords = words_of("stopwords")
    found = (word.casefold() for word in _TERM.findall(text))
    ended = (
        word[:-3].removesuffix("-") if word.endswith("nya") and len(word) > 5 else word for word in found
    )
    return frozenset(word for word in ended if word not in stopwords and (len(word) > 2 or word.isdecimal()))


_SUFFIXES: Final = ("", "kan", "in", "i")
_NASALS: Final = {"k": ("meng", "ng"), "t": ("men", "n"), "s": ("meny", "ny"), "p": ("mem", "m")}
_PREFIXES: Final = {
    **dict.fromkeys("aiueogh", ("meng", "ng")),
    **dict.fromkeys("bfv", ("mem", "m")),
    **dict.fromkeys("cdjz", ("men", "n")),
    **dict.fromkeys("lmnrwy", ("me",)),
}


def is_verb(word: str) -> bool:
    """Return whether a word in small letters is a verb of a task in Indonesian."""
    return word.replace("-", "").removesuffix("lah").removesuffix("nya") in _forms()


def is_english_verb(word: str) -> bool:
    """Return whether a word in small letters is the base form of a verb of a task in English."""
    verbs = words_of("english verbs")
    return word in verbs or (word.startswith("re") and word[2:].removeprefix("-") in verbs)


@cache
def _forms() -> frozenset[str]:
    free = chain.from_iterable(_forms_of(stem, is_free=True) for stem in words_of("stems"))
    bound = chain.from_iterable(_forms_of(stem, is_free=False) for stem in words_of("bound stems"))
    return frozenset(chain(free, bound)) - words_of("no forms") | words_of("irregular forms")


def _forms_of(stem: str, *, is_free: bool) -> Iterator[str]:
    """Make the active, passive and imperative forms of a stem."""
    whole = [f"{prefix}{stem}" for prefix in ("di", "nge", "menge", "me", "meng", "ng", "mem", "men")]
    whole += [] if is_free else [f"ber{stem}"]
    whole += [f"{prefix}{stem}" for prefix in _PREFIXES.get(stem[0], ())]
    whole += [f"{prefix}{stem[1:]}" for prefix in _NASALS.get(stem[0], ())]
    if stem[0] == "c":
        whole.append(f"ny{stem[1:]}")  # nyari
    yield from (f"{form}{suffix}" for form in whole for suffix in _SUFFIXES)
    yield from (f"{stem}{suffix}" for suffix in _SUFFIXES if suffix or is_free)


_ABOUT: Final = re.compile(
    r"\b(?:mikrofon|mikrofonnya|microphone|mic(?:nya)?|mik|mute|unmute|suara(?:nya)?|kamera(?:nya)?"
    r"|camera|layar(?:nya)?|share\s*screen|screen\s*share"
    r"|bagikan\s+layar|bagi\s+layar|volume(?:nya)?|sinyal(?:nya)?|koneksi(?:nya)?|earphone|headset"
    r"|kedengeran|kedengaran|putus-putus|raise\s+hand|your\s+screen|my\s+screen"
    r"|breakout|waiting\s+room|doanya|mendoakan|doakan|berdoa|tepuk\s+tangan)\b",
    re.IGNORECASE,
)
_SMALL_TALK: Final = re.compile(
    r"\b(?:halo+|hai|hi|hello|hey|selamat\s+(?:pagi|siang|sore|malam|datang|istirahat)|good\s+(?:morning"
    r"|afternoon|evening)|assalam\w*|wa+'?alaikum\w*|terima\s+kasih|makasih|thanks|thank\s+you"
    r"|maaf|sori|sorry|kedengeran|kedengaran|terdengar|keliatan|kelihatan|share\s+screen|bentar|sebentar"
    r"|wkwk\w*|haha\w*|macet|hujan|laper|lapar|makan\s+siang|kopi|bye|see\s+you|sampai\s+jumpa"
    r"|weekend|you're\s+on\s+mute|can\s+you\s+hear|good\s+luck|kucing|anak\s+saya|suaranya|mikrofon\w*"
    r"|layar\w*|amin|semoga|insya\w*)\b",
    re.IGNORECASE,
)


def is_mechanics(text: str) -> bool:
    """Return whether a sentence is about the equipment of the meeting itself."""
    return _ABOUT.search(text) is not None


def is_small_talk(text: str) -> bool:
    """Return whether a sentence is of greeting, thanks, the equipment or the weather."""
    return _SMALL_TALK.search(text) is not None or _ABOUT.search(text) is not None
