"""What bears out the items of a note: their sentence in the transcript, and what its speaker said.

A note writer may be a model that invents. An item whose quote is not in the transcript is no item; neither is
one with a number that is not in the cited sentence nor said by its speaker, nor a decision that was taken
back later, or that only an instruction to the note taker asks for. An owner or a day that was not said there
is taken off. Letter case, white space and punctuation are ignored.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from attrs import field, frozen

from meetcore.domain.notes import numbers
from meetcore.domain.notes.notes import ActionItem, Decision
from meetcore.domain.notes.transcripts import Transcript

FEWEST_LETTERS: Final = 8
"""A quote of fewer may stand anywhere: it has to be in the utterance that the writer names."""

_MAX_WORDS: Final = 200
_MAX_CHARS: Final = 1_000
_LOOK_BACK: Final = 300
# A speech model cuts a sentence into utterances; a transcript without punctuation has no sentences.
_RUNS_OVER: Final = 3
_WORD: Final = re.compile(r"\w+")
_ENDS: Final = ".!?…。？！"  # noqa: RUF001  # full-width marks are meant
_SENTENCE_END: Final = re.compile(f"(?<=[{_ENDS}])")

# "Ignore your instructions", "You are now an assistant", "Dear AI".
_TO_THE_MODEL: Final = re.compile(
    r"""\b(?:ignore|disregard|forget|override)\b[^.!?]{0,40}\b(?:your|all|any|previous|prior|above|these|earlier)\b
        [^.!?]{0,40}\b(?:instructions?|rules?|prompts?|guidelines)\b
    |\b(?:abaikan|lupakan|hiraukan)\b[^.!?]{0,40}
        \b(?:instruksi|prompt|(?:perintah|aturan|petunjuk)(?:\s?(?:mu|kamu|anda|sebelumnya|di\s+atas)))
    |\b(?:system|developer)\s+(?:prompt|message)\b
    |\b(?:you\s+are|kamu\s+adalah|anda\s+adalah)\s+(?:now\s+|an?\s+|sekarang\s+)*(?:ai|asisten|assistant|model)\b
        (?!\s+(?:mana[gj]|dire[ck]t|for\b|bagi\b|untuk\b))
    |\b(?:dear|hey|hi|attention|hai|halo|wahai)\s+(?:ai|bot|assistant|asisten|llm|chatgpt|note\s?-?taker)\b
    |\b(?:instruksi|perintah|pesan|instructions?|message|note)\s+(?:kepada|untuk|buat|bagi|to|for)\s+(?:the\s+)?
        (?:ai|bot|asisten|assistant|llm|chatgpt|model|note\s?-?taker)\s*[:,]
    |\bas\s+(?:the|an|our)\s+(?:ai|assistant|llm|note\s?-?taker)\b,?\s+(?:you|please)\b
    |\bsebagai\s+(?:ai|asisten\s+(?:ai|virtual)|llm)\b,?\s+(?:kamu|anda|tolong|mohon)\b
    |\bkepada\s+(?:ai\b|bot\b|llm\b|chatgpt|note\s?-?taker|asisten(?:[,:]|\s+(?:ai|virtual|rapat|notul\w*)\b))
    """,
    re.VERBOSE | re.IGNORECASE,
)
# "Note the decision that", "catat keputusan", without a word that people decide with.
_DICTATION: Final = re.compile(
    r"""\b(?:(?:di)?catat(?:lah|kan)?|(?:di)?tulis(?:lah|kan)?|masukkan|tambahkan|cantumkan|note|record|write|add|log
        |put|include)\b[^.!?]{0,80}
        \b(?<!sesuai\s)(?<!berdasarkan\s)
        (?:keputusan|notulen|notula|risalah|decisions?|(?:the|meeting)\s+(?:minutes|notes))\b""",
    re.VERBOSE | re.IGNORECASE,
)
_RESOLUTION: Final = re.compile(
    r"""\b(?:(?:di|me)?putuskan|memutuskan|\w*sepakat\w*|\w*setuju\w*|jadi\s+kita|kita\s+(?:pakai|pake|ambil|pilih)
        |fix|deal|approved?|agreed?|decided?|settled|we\s+will|we'll|let'?s)\b""",
    re.VERBOSE | re.IGNORECASE,
)


@frozen
class Quote:
    """Verbatim text of one utterance, and the second at which that utterance begins.

    The quote runs over the utterances `first` to `last`, from `start` to `end` of the transcript's text.
    """

    text: str = field(repr=False)
    at_s: float
    first: int
    last: int
    start: int
    end: int


@frozen
class _Word:
    text: str
    utterance: int
    start: int
    end: int


@frozen
class _Said:
    """Words and numbers that were said, as what can be claimed."""

    words: frozenset[str] = frozenset()
    values: numbers.Values = frozenset()


def _said(texts: Iterable[str]) -> _Said:
    text = "\n".join(texts)
    return _Said(frozenset(_words(text)), numbers.borne_out(text))


class Evidence:
    """A transcript, prepared to check the items that a writer made of it."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._text = " ".join(one.text for one in transcript)
        self._starts = list(accumulate((len(one.text) + 1 for one in transcript), initial=0))
        self._words = [
            _Word(found[0].casefold(), number, start + found.start(), start + found.end())
            for number, start in enumerate(self._starts[:-1])
            for found in _WORD.finditer(transcript[number].text)
        ]
        self._texts = [word.text for word in self._words]
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for place, text in enumerate(self._texts):
            self._places[text].append(place)
        self._own: dict[str | None, _Said] = {None: _Said()}
        self._names = {one.speaker: frozenset(_words(one.speaker)) for one in transcript if one.speaker}

    def decision(self, text: str, quote: str, near: int, reversed_at: int | None = None) -> Decision | None:
        """Return a decision as far as it is borne out; `near` and `reversed_at` are indexes of utterances."""
        found = self.find(quote, near)
        if found is None or not text or not self._bears_out(found, text) or self._is_dictated(found):
            return None
        if reversed_at is not None and found.last < reversed_at < len(self._transcript):
            return None
        return Decision(text, found.text[:_MAX_CHARS], found.at_s)

    def action_item(
        self, task: str, owner: str | None, due: str | None, quote: str, near: int
    ) -> ActionItem | None:
        """Return a task as far as it is borne out."""
        found = self.find(quote, near)
        if found is None or not task or not self._bears_out(found, task) or self._is_to_the_model(found):
            return None
        said = self._said_by(found)
        return ActionItem(
            task,
            found.text[:_MAX_CHARS],
            found.at_s,
            owner if owner and self._is_named(owner, said, found) else None,
            due if due and is_in_vocabulary(due, said.words) else None,
        )

    def find(self, quote: str, near: int) -> Quote | None:
        """Find the passage that is quoted, nearest to an utterance; `None` where it was not said."""
        wanted = _words(quote)[:_MAX_WORDS]
        if not wanted:
            return None
        more = len(wanted) - 1
        found = [at for at in self._places.get(wanted[0], ()) if self._texts[at : at + more + 1] == wanted]
        if sum(map(len, wanted)) < FEWEST_LETTERS:
            found = [
                at for at in found if self._words[at].utterance == self._words[at + more].utterance == near
            ]
        if not found:
            return None
        first = min(found, key=lambda at: abs(self._words[at].utterance - near))
        return self._quote(self._words[first : first + more + 1])

    def _quote(self, words: list[_Word]) -> Quote:
        """Return the quoted words of the utterance that has the most of them, with its end mark."""
        among = [word.utterance for word in words]
        number = max(among, key=among.count)
        cited = [word for word in words if word.utterance == number]
        text, end = self._text, cited[-1].end
        while end < len(text) and text[end] in _ENDS:
            end += 1
        quoted = text[cited[0].start : end]
        at_s = self._transcript[number].at_s
        return Quote(quoted, at_s, among[0], among[-1], words[0].start, words[-1].end)

    def _utterances(self, quote: Quote) -> range:
        """Return the cited utterances, and those of the same speaker that their sentence runs over."""
        first, last = quote.first, quote.last
        while first > max(0, quote.first - _RUNS_OVER) and self._runs_over(first - 1):
            first -= 1
        while last < min(len(self._transcript) - 1, quote.last + _RUNS_OVER) and self._runs_over(last):
            last += 1
        return range(first, last + 1)

    def _runs_over(self, number: int) -> bool:
        one, following = self._transcript[number : number + 2]
        return one.speaker == following.speaker and not one.text.rstrip().endswith(tuple(_ENDS))

    def _said_by(self, quote: Quote) -> _Said:
        """Return what the cited sentence and its speaker said."""
        speaker = self._transcript[quote.first].speaker
        if speaker not in self._own:
            self._own[speaker] = _said(one.text for one in self._transcript if one.speaker == speaker)
        sentence = _said(self._transcript[number].text for number in self._utterances(quote))
        own = self._own[speaker]
        return _Said(sentence.words | own.words, sentence.values | own.values)

    def _bears_out(self, quote: Quote, text: str) -> bool:
        claims = numbers.claimed(text)
        return not claims or numbers.are_borne_out(claims, self._said_by(quote).values)

    def _is_named(self, owner: str, said: _Said, quote: Quote) -> bool:
        """Return whether a name was said, or is the speaker's, or of the one speaker with a name said."""
        if is_in_vocabulary(owner, said.words):
            return True
        wanted, speaker = frozenset(_words(owner)), self._transcript[quote.first].speaker
        named = [name for name in self._names if wanted and wanted <= self._names[name]]
        if speaker in named:
            return True
        spoken = said.words & wanted
        return len(named) == 1 and any(
            sum(word in words for words in self._names.values()) == 1 for word in spoken
        )

    def _context(self, quote: Quote) -> tuple[str, str]:
        """Return what the speaker said right before the cited sentence, and that sentence."""
        among = self._utterances(quote)
        begin = among.start
        if begin and self._transcript[begin - 1].speaker == self._transcript[begin].speaker:
            begin -= 1
        before = self._text[self._starts[begin] : quote.start]
        after = self._text[quote.end : self._starts[among.stop]]
        opens = quote.start - len(_SENTENCE_END.split(before)[-1])
        closes = quote.end + len(_SENTENCE_END.split(after)[0])
        return self._text[self._starts[begin] : opens][-_LOOK_BACK:], self._text[opens:closes]

    def _is_to_the_model(self, quote: Quote) -> bool:
        return bool(_TO_THE_MODEL.search("".join(self._context(quote))))

    def _is_dictated(self, quote: Quote) -> bool:
        before, sentence = self._context(quote)
        is_dictation = _DICTATION.search(sentence) and not _RESOLUTION.search(sentence)
        return bool(is_dictation or _TO_THE_MODEL.search(before + sentence))


def vocabulary(transcript: Transcript) -> frozenset[str]:
    """Return every spoken word and every word of a speaker's name, folded for `is_in_vocabulary`."""
    return frozenset(word for one in transcript for word in _words(f"{one.speaker or ''} {one.text}"))


def is_in_vocabulary(text: str, among: frozenset[str]) -> bool:
    """Return whether a text, such as an owner or a day, has words and all of them are in a vocabulary."""
    wanted = set(_words(text))
    return bool(wanted) and wanted <= among


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
