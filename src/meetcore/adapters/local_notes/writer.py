"""Write notes in a thread, from the transcript alone: the same transcript gives the same note.

Main sentences and keywords are chosen by TextRank (Mihalcea and Tarau, 2004). Similarity counts shared words,
without Indonesian and English stop words. Comparing all pairs is quadratic, so only the `MOST_RANKED`
sentences with the most frequent words for their length take part: a tenth of a second for three hours. The
summary quotes sentences.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import log
from types import MappingProxyType
from typing import Final

from meetcore.adapters.local_notes.rules import action_in, decisions_in
from meetcore.adapters.local_notes.sentences import Sentence, sentences_of
from meetcore.domain.notes import notes, transcripts
from meetcore.ports.ai import NOTHING_KEPT, KeptParts

STOPWORDS: Final = frozenset(
    """
    ada adalah adanya agar akan aku anda antara apa apakah atas atau bagaimana bagi bahkan bahwa baik
    banyak bapak baru begini begitu belum benar berapa berarti bersama besok bila bisa boleh bu buat
    bukan cara coba cukup cuma dalam dan dapat dari deh demi dengan depan di dia dibuat diri dong dua
    dulu gak gimana gitu gue hal hanya hari harus hingga ibu ikut ingin ini itu iya jadi jam jangan jika
    juga jumat kak kalau kali kalian kalo kami kamis kamu kan kapan karena kasih kata kayak ke kemarin
    kembali kemudian kepada ketika kita kok kurang lagi lah lain lalu lama lambat langsung lebih lewat
    loh lu maaf mana mari mas masih masing-masing mau mbak melalui memang mereka mesti minggu minta
    mohon mulai mungkin nah namun nanti nggak nih nya oke oleh pada padahal pagi pak paling para pas
    pasti per perlu pernah pukul pun rabu rasa saat sabtu saja sama sambil sampai sangat satu saya sebab
    sebagai sebelum sebenarnya secara sedang sedikit segala sehingga sejak sekali sekarang selalu selama
    selamat selasa semoga semua semuanya senin sepakat seperti sering serta sesuatu sesudah setelah
    setiap setuju siang siap siapa silakan sini sore sudah supaya tadi tahu tak tanggal tanpa tapi telah
    tentang tentu tentunya terhadap terima terlalu termasuk terus tetap tetapi tiap tidak tiga tolong
    tuh udah untuk usah waktu walau ya yah yaitu yang

    a about actually after again agree agreed all also although always am an and another any anyone
    anything are around as ask at back be because been before being between both but by can can't come
    could couldn't day decided did didn't do does doesn't doing don't done down each else even every
    everyone everything few first for friday from further get getting give go goes going gonna good got
    great had has have haven't having he hello her here here's hi him his how i i'd i'll i'm i've if in
    into is isn't it it's its just keep kind know last least let let's like little lot made make many
    may maybe me mean might monday more morning most much must my need never new next no not nothing now
    of off oh ok okay on once one only or other our out over own people please point probably put quite
    rather really right said same saturday say see she should since so some someone something soon sorry
    still such sunday sure take talk tell than thank thanks that that's the their them then there
    there's these they they're thing things think this those though three through thursday time to today
    together tomorrow too tuesday two under until up us use used very want was wasn't way we we'll we're
    we've wednesday well were what what's when where which while who whole why will with without won't
    would yeah yes yesterday yet you you'll you're you've your

    puluh belas ratus ribu juta miliar persen empat lima enam tujuh delapan sembilan sepuluh percent hundred
    thousand million four five six seven eight nine ten
    """.split()  # noqa: SIM905  # a list of words is read as words
)


MOST_RANKED: Final = 200
"""Number of sentences compared with one another."""

_FEWEST_WORDS: Final = 4
_MOST_TOPICS: Final = 8
_FEWEST_LETTERS: Final = 3
_ITERATIONS: Final = 20
_DAMPING: Final = 0.85
_WORD: Final = re.compile(r"[^\W\d_](?:[\w'-]*\w)?")


def main_sentences(sentences: Sequence[Sentence], most: int) -> list[Sentence]:
    """Return at most `most` of the most central sentences, in order."""
    words = [frozenset(_words(one.text)) for one in sentences]
    counts = Counter(word for one in words for word in one)
    worth = [sum(log(1 + counts[word]) for word in one) / (len(one) + 5) for one in words]
    fitting = [at for at, one in enumerate(words) if len(one) >= _FEWEST_WORDS] or list(range(len(sentences)))
    entered = sorted(sorted(fitting, key=lambda at: (-worth[at], at))[:MOST_RANKED])
    ranks = _ranks([words[at] for at in entered])
    chosen: dict[str, int] = {}
    for at, _ in sorted(zip(entered, ranks, strict=True), key=lambda pair: (-pair[1], pair[0])):
        chosen.setdefault(sentences[at].text.casefold(), at)
    return [sentences[at] for at in sorted(list(chosen.values())[:most])]


def keywords(sentences: Sequence[Sentence]) -> tuple[str, ...]:
    """Return the most frequent words in lower case, without stop words."""
    counts = Counter(word for one in sentences for word in _words(one.text) if len(word) > _FEWEST_LETTERS)
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    often = [word for word, count in ranked if count > 1] or [word for word, _ in ranked]
    return tuple(often[:_MOST_TOPICS])


def _words(text: str) -> list[str]:
    found = (word.casefold() for word in _WORD.findall(text))
    return [word for word in found if word not in STOPWORDS and len(word) > 1]


def _ranks(words: Sequence[frozenset[str]]) -> list[float]:
    """Return the centrality of each sentence, by TextRank's random walk."""
    count = len(words)
    links: list[list[tuple[int, float]]] = [[] for _ in range(count)]
    for one in range(count):
        for other in range(one + 1, count):
            if shared := len(words[one] & words[other]):
                weight = shared / (log(1 + len(words[one])) + log(1 + len(words[other])))
                links[one].append((other, weight))
                links[other].append((one, weight))
    given = [sum(weight for _, weight in each) for each in links]
    ranks = [1.0] * count
    for _ in range(_ITERATIONS):
        ranks = [
            1 - _DAMPING + _DAMPING * sum(ranks[at] * weight / given[at] for at, weight in each)
            for each in links
        ]
    return ranks


_MOST_ITEMS: Final = 200
_FEWEST_MAIN: Final = 3
_MOST_MAIN: Final = 10
_SENTENCES_PER_MAIN: Final = 15

_OPENING: Final[Mapping[notes.Language, str]] = MappingProxyType(
    {
        notes.Language.INDONESIAN: "Inti pembicaraan, dalam kata-kata para peserta:",
        notes.Language.ENGLISH: "The main points, in the words of those who spoke:",
    }
)


class LocalNoteWriter:
    """Writes notes that quote the transcript; the language sets only the opening of the summary."""

    name: Final = notes.BY_RULES

    async def write(
        self, transcript: transcripts.Transcript, language: notes.Language, kept: KeptParts = NOTHING_KEPT
    ) -> notes.NoteDraft:
        return await asyncio.to_thread(_draft, transcript, language)


def _draft(transcript: transcripts.Transcript, language: notes.Language) -> notes.NoteDraft:
    sentences = sentences_of(transcript)
    most = min(_MOST_MAIN, _FEWEST_MAIN + len(sentences) // _SENTENCES_PER_MAIN)
    lines = [_line(one) for one in main_sentences(sentences, most)]
    actions = (action_in(one) for one in sentences)
    return notes.NoteDraft(
        summary="\n".join([_OPENING[language], "", *lines]),
        decisions=tuple(dict.fromkeys(decisions_in(sentences)))[:_MOST_ITEMS],
        action_items=tuple(dict.fromkeys(one for one in actions if one is not None))[:_MOST_ITEMS],
        topics=keywords(sentences),
    )


def _line(sentence: Sentence) -> str:
    """Format a sentence of the summary: time, speaker, text."""
    minutes, seconds = divmod(int(sentence.at_s), 60)
    name = f"{sentence.speaker}: " if sentence.speaker else ""
    return f"- [{minutes:02}:{seconds:02}] {name}{' '.join(sentence.text.split())}"
