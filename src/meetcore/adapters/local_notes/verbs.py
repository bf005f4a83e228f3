"""Verbs of tasks in Indonesian and English.

Indonesian verbs are kept as stems. Their forms, with the prefixes of the language and of Jakarta's
("mengirimkan", "ngirimin", "di-review"), are made once.
"""

from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Final

from meetcore.adapters.local_notes.lexicon import words_of

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
