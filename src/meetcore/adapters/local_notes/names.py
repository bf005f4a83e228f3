"""Find the people that a sentence names: those who speak, those with a title, roles, and strangers.

A speaker is found by any word of the name, in letters of any case, as speech to text writes them, by the
beginning or the end of a first name ("Bay" for Bayu) that fits no other speaker, and by a title alone that is
called and that no other has. Whatever title is said, a person who speaks has the name of the transcript.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import define, field, frozen

from meetcore.adapters.local_notes.lexicon import classes, words_of

_WORD: Final = re.compile(r"[^\W\d_](?:[\w'-]*\w)?")
_FEWEST_LETTERS: Final = 2
_MOST_SPEAKERS: Final = 200
_AFTER_NAMES: Final = frozenset({"SOON", "MUST", "ASK", "CAN", "YANG", "to", "is", "dan", "sama", "and"})
_SAME_TITLES: Final = {
    "bapak": "pak",
    "ibu": "bu",
    "dok": "dr",
    "dokter": "dr",
    "kakak": "kak",
    "ustad": "ustaz",
}


@frozen
class Mention:
    """A person that a text names: the `kind` is NAME for a speaker, TITLED, ROLE, or NEW for a stranger."""

    begin: int
    end: int
    kind: str
    name: str


@frozen
class _Line:
    """A text with the places of its words."""

    text: str
    spans: Sequence[tuple[int, int]]

    def written(self, at: int) -> str:
        begin, end = self.spans[at]
        return self.text[begin:end].removesuffix("'s")

    def folded(self, at: int) -> str:
        return self.written(at).casefold() if at < len(self.spans) else ""

    def is_next(self, at: int) -> bool:
        """Return whether only a space stands between a word and the next."""
        return at + 1 < len(self.spans) and self.text[self.spans[at][1] : self.spans[at + 1][0]] in (
            " ",
            ". ",
        )

    def is_called(self, at: int) -> bool:
        """Return whether a word stands as that of a call: at the beginning or between marks."""
        begin, end = self.spans[at]
        return not self.text[:begin].rstrip(" ,:") or (
            self.text[:begin].rstrip()[-1] in ",:" or self.text[end : end + 1] in ("", ",", "?", ".", "!")
        )

    def is_name(self, at: int) -> bool:
        """Return whether a word is written as a name is."""
        written, folded = self.written(at), self.folded(at)
        return (
            written[0].isupper()
            and not folded.endswith("nya")
            and not any(folded in words_of(name) for name in ("no names", "titles", "stopwords"))
            and folded not in classes()
        )

    def last_name(self, at: int) -> int:
        """Return the last of up to three words that make a name together."""
        end = at
        while end < at + 2 and self.is_next(end) and self.is_name(end + 1):
            end += 1
        return end

    def mention(self, begin: int, end: int, kind: str, name: str | None = None) -> Mention:
        first, last = self.spans[begin][0], self.spans[end][0] + len(self.written(end))
        return Mention(first, last, kind, name or self.text[first:last])


_Found = tuple[int, Mention]


@define
class People:
    """Finds people in the sentences of a meeting by its speakers' names."""

    speakers: tuple[str, ...]
    _whole: dict[str, str] = field(init=False, factory=dict)
    _parts: dict[str, list[str]] = field(init=False, factory=dict)
    _titles: dict[str, list[str]] = field(init=False, factory=dict)
    _first: list[tuple[str, str]] = field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        for name in self.speakers[:_MOST_SPEAKERS]:
            words = _folded(name)
            self._whole[" ".join(words)] = name
            own = [word for word in _folded(re.split(r"[,/(|]", name, maxsplit=1)[0]) if not _title(word)]
            for word in own[:3]:
                self._parts.setdefault(word, []).append(name)
            for word in words[:1]:
                self._titles.setdefault(_title(word), []).append(name)
            self._first += [(own[0], name)] if own else []

    def mentions(
        self, text: str, besides: Sequence[tuple[int, int]] = (), speaker: str | None = None
    ) -> Iterator[Mention]:
        """Yield who is named, in order, outside of the spans `besides`; `speaker` calls others by titles."""
        spans = [one.span() for one in _WORD.finditer(text)]
        line = _Line(text, [span for span in spans if not any(one <= span[0] < end for one, end in besides)])
        at = 0
        while at < len(line.spans):
            found = self._titled(line, at) or self._speaker(line, at) or self._role(line, at)
            found = found or self._called(line, at, speaker) or self._stranger(line, at)
            if found is not None:
                yield found[1]
            at = at + 1 if found is None else found[0] + 1

    def _titled(self, line: _Line, at: int) -> _Found | None:
        title, after = _title(line.folded(at)), at + 1
        if not title or not line.is_next(at):
            return None
        if _title(line.folded(after)) and (deeper := self._titled(line, after)):
            end, inner = deeper
            return end, line.mention(at, end, inner.kind, inner.name if inner.kind == "NAME" else None)
        said = line.folded(after)
        if whole := self._whole.get(f"{line.folded(at)} {said}"):
            return after, line.mention(at, after, "NAME", whole)
        if found := self._speaker(line, after, title):
            return found[0], line.mention(at, found[0], "NAME", found[1].name)
        if (name := self._short(said)) is not None:
            return after, line.mention(at, after, "NAME", name)
        if said in words_of("offices") or line.is_name(after):
            end = line.last_name(after)
            return end, line.mention(at, end, "TITLED")
        return None

    def _speaker(self, line: _Line, at: int, title: str = "") -> _Found | None:
        names = self._parts.get(line.folded(at))
        if not names or (line.folded(at) in words_of("no names") and not line.written(at)[0].isupper()):
            return None
        end = at
        while line.is_next(end) and (
            both := [name for name in self._parts.get(line.folded(end + 1), ()) if name in names]
        ):
            names, end = both, end + 1
        best = next((name for name in names if title and _title(_folded(name)[0]) == title), names[0])
        return end, line.mention(at, end, "NAME", best)

    def _role(self, line: _Line, at: int) -> _Found | None:
        word, after = line.folded(at), line.folded(at + 1) if line.is_next(at) else ""
        if after and word in words_of("role heads") and after not in words_of("no calls"):
            return at + 1, line.mention(at, at + 1, "ROLE")
        if after in words_of("role ends") and word not in words_of("stopwords"):
            return at + 1, line.mention(at, at + 1, "ROLE")
        return (at, line.mention(at, at, "ROLE")) if word in words_of("roles") else None

    def _called(self, line: _Line, at: int, speaker: str | None) -> _Found | None:
        word = line.folded(at)
        is_called = line.is_called(at)
        others = (
            [name for name in self._titles.get(_title(word), ()) if name != speaker] if _title(word) else []
        )
        name = others[0] if is_called and len(others) == 1 else None
        if name is None and (is_called or line.written(at)[0].isupper()):
            name = self._short(word)
        return None if name is None else (at, line.mention(at, at, "NAME", name))

    def _stranger(self, line: _Line, at: int) -> _Found | None:
        """Find a capitalised word; the first of a sentence if it is called, or asked to do something."""
        if not line.is_name(at) or line.written(at).isupper():
            return None
        end = line.last_name(at)
        after = line.folded(end + 1)
        if (
            at == 0
            and not line.text.startswith(",", line.spans[end][1])
            and classes().get(after, after) not in _AFTER_NAMES
        ):
            return None
        return end, line.mention(at, end, "NEW")

    def _short(self, word: str) -> str | None:
        """Return the only speaker whose first name begins or ends with a word."""
        if (
            len(word) < _FEWEST_LETTERS
            or word in words_of("no calls")
            or word in words_of("no names")
            or _title(word)
        ):
            return None
        for fits in (str.startswith, str.endswith):
            names = [name for first, name in self._first if fits(first, word)]
            if len(names) == 1:
                return names[0]
        return None


def _title(word: str) -> str:
    """Return a title in its usual form; nothing for another word."""
    word = _SAME_TITLES.get(word, word)
    return word if word in words_of("titles") else ""


def _folded(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
