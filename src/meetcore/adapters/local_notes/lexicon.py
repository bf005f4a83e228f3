"""The word lists of the package, which `lexicon.txt` holds under the name of each in brackets."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files


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
