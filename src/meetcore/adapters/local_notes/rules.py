"""Find decisions and action items by patterns of Indonesian and English.

The rules of both languages are tried on every sentence, since meetings mix them. A rule looks at one
sentence, except for "Setuju." after a proposal. Questions, wishes, denials and open points are no decisions;
announcements of the next topic and events without an actor are no action items.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import frozen

from meetcore.adapters.local_notes.sentences import NAME, WHO, Sentence, due_in, without_due
from meetcore.domain.notes.notes import ActionItem, Decision

_DECIDED: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?:diputuskan|memutuskan|putuskan|disepakati|menyepakati|disetujui|menyetujui|ditetapkan|menetapkan)\b",
        r"\bkeputusan(?:nya)?(?:\s+(?:rapat|kita|hari\s+ini|akhir(?:nya)?))*\s*(?:adalah|ialah|:|,)",
        r"\b(?:kita|kami|semua(?:nya)?|peserta|tim)\s+(?:semua\s+|sudah\s+|telah\s+)*(?:sepakat|setuju)\b",
        r"\bsepakat\s+(?:untuk|bahwa|kita|ya)\b",
        r"\bjadi(?:nya)?,?\s+(?:kita|kami)\s+(?:pakai|pilih|ambil|tunda|lanjutkan|batalkan)\b",
        r"\b(?:kita|kami)\s+(?:pilih|memilih|tetapkan|sepakati|setujui)\b",
        r"\b(?:we|they|team|board|everyone|everybody|committee|management)(?:'ve|\s+have|\s+has|\s+all|\s+just)*"
        r"\s+(?:decided|agreed|resolved|settled\s+on|chose|chosen|approved)\b",
        r"\b(?:it\s+(?:is|was)|it's|has\s+been|have\s+been|was|were|is|are)\s+(?:hereby\s+|now\s+|finally\s+)?"
        r"(?:decided|agreed|approved|resolved)\b",
        r"\b(?:the|our)\s+(?:final\s+)?decision\s+(?:is|was)\b",
        r"^(?:so\s+|ok(?:ay)?,?\s+)*(?:decided|agreed|decision)\s*:",
        r"\b(?:let's|let\s+us|we'll|we\s+will|we're\s+going\s+to|we\s+are\s+going\s+to)\s+(?:go|stick)\s+with\b",
    )
)
# Rules a decision out when shortly before it: denial, open point, wish, condition, future.
_UNDECIDED: Final = re.compile(
    # "Kalau begitu" draws a conclusion.
    r"\b(?:belum|tidak|tak|bukan|nggak|gak|enggak|jika|kal(?:au|o)(?!\s+(?:be)?gitu\b)|apabila|bila"
    r"|seandainya|harus|perlu|akan|bisa|sebelum|menunggu|supaya|agar|apakah|siapa|kapan|semoga|mau|ingin|mari|ayo"
    r"|not|never|no|if|whether|unless|until|once|before|should|must|need|needs|to\s+be|will\s+be|can|could|would"
    r"|haven't|hasn't|hadn't|isn't|aren't|wasn't|weren't|didn't|nothing|nobody)\b(?:\W+\w+){0,3}\W*$",
    re.IGNORECASE,
)
_AGREES: Final = re.compile(
    r"(?:ya|iya|oke|ok|okay|yes|yeah|baik|sip|saya|i|great|good)?[,.\s]*"
    r"(?:setuju|sepakat|deal|agreed|agree|sounds\s+good|approved)(?:[,.\s]+(?:sekali|pak|bu|semua|ya))?[.!]*",
    re.IGNORECASE,
)
_PROPOSES: Final = re.compile(
    r"\b(?:usul|usulkan|mengusulkan|usulan|bagaimana\s+kalau|gimana\s+kalau|sebaiknya|propose|suggest|proposal"
    r"|how\s+about|what\s+if|why\s+don't\s+we|let's|shall\s+we)\b",
    re.IGNORECASE,
)


def decisions_in(sentences: Sequence[Sentence]) -> Iterator[Decision]:
    """Yield the decisions with the sentences that state them."""
    for before, sentence in zip((None, *sentences), sentences, strict=False):
        if _is_decision(sentence.text):
            yield Decision(sentence.text, sentence.text, sentence.at_s)
        elif before is not None and _AGREES.fullmatch(sentence.text) and _PROPOSES.search(before.text):
            yield Decision(before.text, sentence.text, sentence.at_s)


def _is_decision(text: str) -> bool:
    if text.rstrip("\"')] ").endswith("?"):
        return False
    found = (pattern.search(text) for pattern in _DECIDED)
    return any(one is not None and not _UNDECIDED.search(text, 0, one.start()) for one in found)


# Stems of Indonesian action verbs, with formal and colloquial prefixes.
_VERB_ID: Final = (
    r"(?:me(?:ng|ny|n|m)?)?(?:kirim|siap|buat|cek|kerja|selesai|hubung|urus|perbaik|perbarui|susun|revisi|jadwal"
    r"|bagi|lapor|undang|pesan|beli|bayar|atur|lengkap|koordinasi|review|follow|update|test|uji|tes|pegang"
    r"|handle|tangani|ngirim|nyiap|nghubung|ngurus|nyusun|nyelesai)"
)
# Verbs of running the meeting, and of events without an actor.
_NO_ACTION_ID: Final = (
    r"(?!(?i:(?:me(?:ng|ny|n|m)?)?(?:jelas|mulai|bahas|ulang|tanya|baca|bicara|cerita|tampil|tunjuk|sampai|nyampai"
    r"|awal|akhir|presentasi|share|bilang|kata)|di[a-z]|(?:ada|naik|turun|menjadi|jadi|selesai|terjadi|hujan"
    r"|berlangsung|berakhir|bertambah|berkurang|lebih|sangat|hadir|datang|ikut|tidak|cuti|absen)\b))"
)
_NO_ACTION_EN: Final = (
    r"(?!(?i:(?:be|say|start|begin|end|explain|show|repeat|go|admit|mention|wait|see|tell|ask|talk|read|present"
    r"|share\s+my|stop|come|jump|hand|just|need|have|never|not|miss|leave|walk\s+you|rise|fall|grow|increase"
    r"|decrease|take\s+place|happen|join\s+us|attend|arrive|probably|likely)\b))(?=[a-z])"
)
_NO_REQUEST: Final = (
    r"(?!(?i:maaf|izin|ijin|perhatian|maklum|tenang|bersabar|diam|jelaskan|ulangi|hear|see\b|repeat|say\b|speak"
    r"|mute|unmute|bear\s+with|hold\s+on|wait|note\s+that|welcome|be\s+quiet|let\s+me|excuse|explain))"
)
_BEGIN: Final = (
    r"(?:^|[,;:.]\s*|\b(?i:ya|oke|ok|baik|dan|lalu|terus|nanti|untuk|tapi|bahwa|putuskan|sepakat"
    r"|okay|and|so|then|but|that|agreed)\s+)"
)
_OWNER: Final = rf"{_BEGIN}(?P<owner>{WHO})"
_NAMED: Final = rf"(?P<owner>{NAME})"
_TASK: Final = r"(?P<task>.+)"
_I_ID: Final = r"\b(?i:saya|aku|gue)\s+(?i:yang\s+)?"
_WILL_ID: Final = r"(?i:akan|bakal)\s+"
_PLEASE_ID: Final = r"(?i:(?:bisa|boleh|saya)?\s*(?:minta\s+)?tolong|mohon|harap)\s+"
_MUST_ID: Final = (
    r"(?i:diminta|ditugaskan|ditunjuk|bertugas|bertanggung\s+jawab|harus|wajib|perlu)\s+"
    r"(?i:untuk\s+|atas\s+)?"
)
_PLEASE_EN: Final = r"(?i:please|(?:could|can|would|will)\s+you(?:\s+please)?)\s+"
_WILL_EN: Final = r"(?:'ll|\s+(?i:will|is\s+going\s+to|are\s+going\s+to))\s+"
_I_EN: Final = r"\b[Ii](?:'ll|\s+will|'m\s+going\s+to|\s+am\s+going\s+to|\s+can)\s+"
_MUST_EN: Final = (
    r"\s+(?i:needs?\s+to|has\s+to|have\s+to|must|should|is\s+responsible\s+for|is\s+in\s+charge\s+of"
    r"|takes\s+care\s+of|was\s+asked\s+to|is\s+to)\s+"
)


@frozen
class _Rule:
    """A pattern of an action item.

    `form` has a group `task`, and `owner` if it names one; with `is_speakers` the speaker is the owner.
    `needs_due`: too weak without a due date. `as_question`: also matches questions.
    """

    form: str
    is_speakers: bool = False
    needs_due: bool = False
    as_question: bool = False


# The first match decides, so the order matters.
_RULES: Final = tuple((rule, re.compile(rule.form)) for rule in (
    _Rule(rf"^(?i:action(?:\s+items?)?|to-?do|tindak\s+lanjut)\s*:\s*{_TASK}"),
    _Rule(rf"\b(?i:tugas|PR|pekerjaan\s+rumah)\s+(?i:untuk\s+|buat\s+)?{_NAMED}\s*(?::|,|\badalah\b)\s*{_TASK}"),
    _Rule(rf"{_OWNER}\s*,?\s+{_PLEASE_ID}{_NO_REQUEST}{_TASK}", as_question=True),
    # Only with an addressee: "uji coba" is a thing.
    _Rule(rf"{_OWNER}\s*,\s+(?i:coba)\s+{_NO_REQUEST}{_TASK}", as_question=True),
    _Rule(rf"{_OWNER}\s*,?\s+{_PLEASE_EN}{_NO_REQUEST}{_TASK}", as_question=True),
    _Rule(rf"\b(?i:tolong|mohon)\s+{_NAMED}\s+(?i:untuk\s+)?{_TASK}", as_question=True),
    _Rule(rf"\b(?i:tolong|mohon|harap|jangan\s+lupa|pastikan)\s+{_NO_REQUEST}{_TASK}", as_question=True),
    _Rule(rf"{_I_ID}{_WILL_ID}{_NO_ACTION_ID}{_TASK}", is_speakers=True),
    _Rule(rf"\b(?i:biar|nanti)\s+{_I_ID}(?P<task>(?i:{_VERB_ID}).*)", is_speakers=True),
    _Rule(rf"{_I_ID}(?P<task>(?i:{_VERB_ID}).*)", is_speakers=True, needs_due=True),
    _Rule(rf"{_OWNER}\s+(?i:yang\s+)?{_WILL_ID}{_NO_ACTION_ID}{_TASK}"),
    _Rule(rf"{_OWNER}\s+{_MUST_ID}{_NO_ACTION_ID}{_TASK}"),
    _Rule(rf"{_OWNER}\s+(?i:yang)\s+(?P<task>(?i:{_VERB_ID}).*)"),
    _Rule(rf"\b(?i:kita|kami)\s+(?i:harus|perlu|wajib|mesti)\s+{_TASK}", needs_due=True),
    _Rule(rf"(?:^|[,;:.]\s*|\b(?i:and|but|so|okay|ok)\s+){_PLEASE_EN}{_NO_REQUEST}{_TASK}", as_question=True),
    _Rule(rf"\b(?i:make\s+sure|don't\s+forget|remember)\s+(?i:to|that|you|we)\s+{_TASK}"),
    _Rule(rf"{_I_EN}{_NO_ACTION_EN}{_TASK}", is_speakers=True),
    _Rule(rf"{_OWNER}{_WILL_EN}{_NO_ACTION_EN}{_TASK}"),
    _Rule(rf"{_OWNER}{_MUST_EN}{_NO_ACTION_EN}{_TASK}"),
    _Rule(rf"{_BEGIN}{_NAMED}\s+to\s+{_NO_ACTION_EN}{_TASK}", needs_due=True),
    _Rule(rf"\b[Ww]e\s+(?i:need\s+to|must|have\s+to|should)\s+{_TASK}", needs_due=True),
))  # fmt: skip
# Every rule needs one of these: a cheap filter for most sentences.
_SIGNS: Final = re.compile(
    r"tolong|mohon|harap|coba|lupa|pastikan|akan|bakal|saya|aku|gue|minta|tugas|tunjuk|tanggung|harus|wajib|perlu"
    r"|mesti|yang|pekerjaan|\bpr\b|tindak|action|to-?do|please|you|'ll|will|going|need|has|have|must|should"
    r"|responsible|charge|takes|asked|\bto\b|\bcan\b",
    re.IGNORECASE,
)
_MARKS: Final = " \t\n,;:.!?…\"'"
_TAIL: Final = re.compile(r",?\s+(?:ya|please|pak|bu|oke|okay|thanks|terima\s+kasih)$", re.IGNORECASE)


def action_in(sentence: Sentence) -> ActionItem | None:
    """Return the action item of a sentence."""
    # Typographic apostrophe to plain; the same length keeps the offsets.
    text = sentence.text.replace("\u2019", "'")
    if _SIGNS.search(text) is None:
        return None
    is_question = text.rstrip("\"')] ").endswith("?")
    for rule, form in _RULES:
        found = None if is_question and not rule.as_question else form.search(text)
        if found is not None and (item := _item(rule, found, sentence)) is not None:
            return item
    return None


def _item(rule: _Rule, found: re.Match[str], sentence: Sentence) -> ActionItem | None:
    begin = found.start("task")
    phrase = sentence.text[begin : found.end("task")]
    owner = sentence.text[slice(*found.span("owner"))] if "owner" in found.re.groupindex else None
    due = due_in(phrase) or due_in(sentence.text[:begin])
    if rule.needs_due and due is None:
        return None
    task = _TAIL.sub("", without_due(phrase).strip(_MARKS)).strip(_MARKS)
    if not task:
        return None
    owner = sentence.speaker if rule.is_speakers else owner
    return ActionItem(task[0].upper() + task[1:], sentence.text, sentence.at_s, owner, due)
