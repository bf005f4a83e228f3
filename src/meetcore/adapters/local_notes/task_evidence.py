"""Weigh the evidence that a sentence gives a task, where no form of words settles it.

An agent, a word in the place of its verb, a day, a request or promise, and the words that rule a task out
count together.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from meetcore.adapters.local_notes.due_phrases import due_in
from meetcore.adapters.local_notes.names import Found, People
from meetcore.adapters.local_notes.verbs import is_english_verb, is_verb

ENOUGH: Final = 3.0
ME: Final = "\N{NULL}"
"""Stands for the speaker in a list of owners."""


def _compiled(form: str) -> re.Pattern[str]:
    return re.compile(form, re.IGNORECASE)


_SOON: Final = r"(?:akan|bakal|nanti|ntar|entar|langsung|segera|besok|will|'ll|biar)"
_LINKS: Final = (
    r"(?:(?:(?P<yang>yang|yg|sing)|(?P<soon>"
    + _SOON
    + r")|(?P<duty>harus|bertanggung\s+jawab|perlu|wajib|kudu|mesti|tolong|mohon|agar|supaya"
    r"|coba|bisa|dapat|please|needs?\s+to|ha(?:s|ve)\s+to|must|should|(?:is|are|am|'m|'s"
    r"|'re)\s+(?:going\s+)?to|can|could)"
    r"|masing-masing|deh|aja|saja|sendiri|juga|dulu|lah|dong|ya|kan|bantu|sudah|pak|bu|mas|mbak|to"
    r"|also|just|then|probably)\b[\s,]*)*"
)
_ME: Final = _compiled(
    r"\b(?<!bisa\s)(?<!and\s)(?<!dan\s)(?:(?P<lead>(?:nanti|ntar|entar|besok"
    r"|lusa)\s+(?:[\w-]+\s+){0,4}?|biar\s+))?"
    r"(?:(?P<id>saya|aku|gue|gua|gw|ane|kula)|(?P<tak>tak)"
    r"|(?P<en>i(?=\s+(?:will|can|am\s+going)|'ll|'m\s+going)|let\s+me))\b\s*"
)
_WITH: Final = _compiled(r"(?:sama|dan|bareng|bersama|karo|and)\s+")
_CONDITION: Final = _compiled(r"(?:if|unless|once|jika|seandainya)\b")
_ACCEPTS: Final = _compiled(r"(?:oke+|ok|okay|siap|sip|baik|boleh|sure|yep|yes|fine|will\s+do)\b")
_YOU: Final = _compiled(
    r"\b(?:lo|lu|elo|kamu|panjenengan|sampeyan|kowe)\b\s*" + _LINKS + r"(?P<verb>[^\W\d_][\w-]*)"
)
_DOES: Final = _compiled(r"[\s,:]*" + _LINKS + r"(?P<verb>[^\W\d_][\w'-]*)")
_DONE: Final = _compiled(
    r"\b(?:(?P<duty>tolong|mohon|harap|harus|perlu|wajib|kudu|agar|supaya|bisa|must|should"
    r"|needs?\s+to|has\s+to|have\s+to)\s+)?"
    r"(?:sudah\s+|udah\s+)?(?P<verb>(?<!yang\s)di-?(?!a\b|tetapkan|putus|sepakat|setuju|mana|ri\b"
    r"|sini|situ|atas|bawah|dalam|luar|ulang|mulai|buka|tutup)[a-z]{4,}|be\s+\w+(?:ed|ent|one|ade|aid)\b)"
)
_NO_VERB: Final = frozenset(
    """
    mau sudah udah belum tidak gak nggak ga enggak ndak bukan juga rasa kira pikir pikirin setuju
    sepakat sependapat
    tahu tau ngerti mengerti paham punya ada suka senang takut khawatir ingat inget lupa bilang kata
    dapat dapet
    harus perlu bisa minta mohon usul usulkan mengusulkan sarankan saranin ucapkan jelaskan ingin pengen
    kan sih lagi masih cuma hanya baru dulu pernah sampai sampe ikut datang pulang tinggal jamin yakin
    heran bingung
    capek sakit kena maksud sebagai dan sama dengan dari di ke pada untuk buat yang yg itu ini tadi
    kemarin kalau kalo
    jadi kok lho loh dong ya pak bu mas mbak semua sendiri aja saja lebih sangat agak memang emang malah
    justru
    lihat liat dengar denger kaget malu bangga terima percaya berharap harap doakan tunggu nunggu pamit
    izin ijin maaf
    makan minum tidur duduk diam jalan rugi untung telat terlambat mewakili selaku adalah biasanya
    selalu sering
    persilakan persilahkan mulai lanjut lanjutkan tutup buka akhiri bacakan tanya menunggu merasa
    melihat mendengar
    menjelaskan jelasin explain present pikirkan mikirin pikirin butuh perkenalkan ucap be have say
    think see know guess hope want need like love mean wonder bet suppose agree believe feel imagine
    admit never not no try remember forget stop come hear miss understand live stay wait
    a an the it that this these those is are was were do does did of in on at to for and or but so if
    with from
    hujan sekarang apa siapa berapa kapan mana tiga dua satu tim orang nggih gitu begitu seperti kayak
    tetap setiap
    tiap antara mungkin kayaknya sekali banget enak bagus jelas aman siap oke ok cukup pas hampir boleh
    saling cocok
    paling kurang beda gimana bagaimana demi pasti bukannya mikir nyaman tanggal hari jam minggu bulan tahun
    """.split()  # noqa: SIM905  # a list of words is read as words
)
_AGAINST: Final = _compiled(
    r"\b(?:kemarin|kemaren|tadi|barusan|waktu\s+itu|pernah|biasanya|selalu|sering"
    r"|dulu(?:nya)?\s+(?:kan|itu|saya|kita)|tahun\s+lalu"
    r"|minggu\s+lalu|bulan\s+lalu|(?<!harus\s)(?:sudah|udah|udh)(?!\s+harus)|telah|belum|tidak"
    r"|nggak|gak|ga|enggak|ndak|bukan|jangan|kalau|kalo|jika|soalnya|karena"
    r"|nek(?!\s+ngono)|seandainya|apakah|siapa|kenapa|mungkin|kayaknya|usul\w*|katanya|ternyata"
    r"|sampai\s+sekarang"
    r"|ngomong|bilang|terima\s+kasih|makasih|selamat|maaf|semoga|already|yesterday|last|if|unless"
    r"|not|never|don't|didn't|wouldn't"
    r"|can't|won't|maybe|would|who|when\s+(?:we|i|you|they)|usually|always|was|were|had|been"
    r"|thank\w*|sorry)\b"
)
_YA: Final = _compiled(r"\b(?:ya|yah|yo|dong|deh|nggih)\b(?=[\s,.!?]|$)")
_OBJECT: Final = _compiled(r"\b\w{3,}(?:nya|ne)\b|\b(?:the|that|a|an|it|them|you|this|our)\b")
_AFTER: Final = _compiled(r"[\s,]*")


_Found = tuple[int, str | None, bool, bool]


def weighed(
    text: str, people: People, people_at: Callable[[str, int, People], tuple[Found, int, bool] | None]
) -> _Found | None:
    """Return where a task begins, its owner, and whether it is the speaker's or theirs who are spoken to."""
    if len(text) < 12 or _CONDITION.match(text):
        return None
    is_question = text.rstrip("\"')] ").endswith("?")
    called = _called(text, people)
    readings = (
        *_mine(text, people),
        *_yours(text, called),
        *_theirs(text, people, people_at),
        *_done(text, people, called),
    )
    if not readings:
        return None
    common = 1.5 * (due_in(text) is not None) + 0.5 * (_YA.search(text) is not None)
    common += 0.5 * (_OBJECT.search(text) is not None)
    best: tuple[float, _Found] | None = None
    for weight, is_asked, found in readings:
        weight += common - _AGAINST_WEIGHT * len(_AGAINST.findall(text[: found[0] + 40]))
        weight -= 1.5 * (is_question and not (called and is_asked))
        if weight >= ENOUGH and (best is None or weight > best[0]):
            best = weight, found
    return None if best is None else best[1]


_AGAINST_WEIGHT: Final = 1.75


def _called(text: str, people: People) -> Found | None:
    """Return who is called at the beginning or the end of a sentence."""
    first = people.at(text, 0)
    if first is None or not first.is_known:
        first = people.called_at(text, 0)
    if first is not None and text[first.end : first.end + 1] == ",":
        return first
    last = people.called_last(text)
    return last if last is not None and last.is_known else None


def _sure(word: str) -> float | None:
    """Return how surely a word in the place of a verb is the verb of a task."""
    verb = word.casefold()
    if verb in _NO_VERB or len(verb) < 2:
        return None
    return 1.0 * (is_verb(verb) or is_english_verb(verb)) + 0.5 * (_AFFIXED.fullmatch(verb) is not None)


_AFFIXED: Final = re.compile(r"(?:me|di|ng|ny)\w{4,}|\w{3,}(?:in|kan)")
_Reading = tuple[float, bool, _Found]


def _mine(text: str, people: People) -> Iterator[_Reading]:
    accepts = 0.5 * (_ACCEPTS.match(text) is not None)
    for me in _ME.finditer(text):
        owner, end = None, me.end()
        if (joint := _WITH.match(text, end)) and (others := people.at(text, joint.end())):
            owner, end = ", ".join((ME, *others.names)), others.end
        does = _DOES.match(text, end)
        if does is None or (sure := _sure(does["verb"])) is None:
            continue
        firm = 1.5 * bool(does["yang"] or does["soon"] or me["lead"] or me["en"]) + 1.0 * bool(
            me["tak"] and sure
        )
        yield 1.0 + sure + firm + accepts, False, (does.start("verb"), owner, owner is None, False)


def _yours(text: str, called: Found | None) -> Iterator[_Reading]:
    for you in _YOU.finditer(text):
        if (sure := _sure(you["verb"])) is not None:
            owner = called.owner if called else None
            yield (
                1.5 + sure + bool(you["yang"] or you["duty"]) + 0.5 * bool(called),
                True,
                (you.start("verb"), owner, False, True),
            )


def _theirs(
    text: str, people: People, people_at: Callable[[str, int, People], tuple[Found, int, bool] | None]
) -> Iterator[_Reading]:
    for begin in (0, *(found.end() for found in _BEGINS.finditer(text))):
        found = people_at(text, begin, people)
        if found is None:
            continue
        person, _, has_comma = found
        does = _DOES.match(text, person.end)
        if does is None or (sure := _sure(does["verb"])) is None:
            continue
        is_firm = bool(does["yang"] or does["soon"] or does["duty"])
        if not person.is_known and not (sure and is_firm):
            continue
        yield (
            0.5 * person.is_known + sure + 1.5 * is_firm + 0.5 * has_comma,
            does["duty"] is not None,
            (
                does.start("verb"),
                person.owner,
                False,
                False,
            ),
        )


def _done(text: str, people: People, called: Found | None) -> Iterator[_Reading]:
    for done in _DONE.finditer(text):
        sure = 0.5 * is_verb(done["verb"])
        after = _AFTER.match(text, done.end())
        agent = people.at(text, after.end()) if after and sure else None
        is_agent = agent is not None and agent.is_known
        person = agent if is_agent else called
        begin = called.end if called and called.end < done.start() else 0
        weight = 0.25 + sure + 1.0 * bool(done["duty"]) + 1.25 * (person is not None) + 1.0 * is_agent
        yield (
            weight,
            done["duty"] is not None,
            (end_of_gap(text, begin), person.owner if person else None, False, False),
        )


def end_of_gap(text: str, begin: int) -> int:
    """Skip spaces and commas."""
    return len(text) - len(text[begin:].lstrip(" ,"))


_BEGINS: Final = _compiled(
    r"[,;:]\s+|\b(?:dan|terus|jadi|nanti|besok|biar|sing|yang|ngono|and|so|then|oleh|itu"
    r"|meantime)\s+|^[\w-]+\s+"
)
