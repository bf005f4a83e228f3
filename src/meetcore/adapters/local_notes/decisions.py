"""Find decisions, and those that are taken back later in the meeting.

A rule looks at one sentence, except for "Setuju." after a proposal. Questions, wishes, denials, open points
and what was decided in the past are none. A sentence that takes a decision back strikes the one that it
shares most words with; without any, the last one if it follows soon, or the one that was talked about alike.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import frozen

from meetcore.adapters.local_notes.sentences import Sentence
from meetcore.adapters.local_notes.verbs import is_english_verb
from meetcore.adapters.local_notes.words import terms_of
from meetcore.domain.notes.notes import Decision

_WE: Final = r"(?:kita|kami|semua(?:nya)?|peserta|tim|rapat|forum|musyawarah|warga|pengurus|direksi|panitia)"
_JUST: Final = (
    r"(?:\s+(?:semua|sudah|udah|telah|juga|sama-sama|akhirnya|ini|jadi|langsung|tetap|tetep|aja|saja))*"
)
# What is chosen, by "kita" and a conclusion before it or a particle behind it.
_CHOOSE: Final = (
    r"(?:pakai|pake|memakai|gunakan|gunain|pilih|memilih|ambil|tunda|undur|undurin|mundurin|majuin|geser"
    r"|batalkan"
    r"|batalin|cancel|stop|setop|hentikan|hentiin|rollback|jadikan|jadiin|hire|rekrut|terima|tolak|beli"
    r"|sewa|adakan"
    r"|naikkan|naikin|turunkan|turunin|pindah|pindahkan|pindahin|tambah|tambahkan|tambahin|kurangi"
    r"|kurangin|ganti"
    r"|pertahankan|pertahanin|hapus|tetapkan|tetapin|patok|bayar|lanjutkan|lanjutin|rilis|launching|pisah"
    r"|gabung"
    r"|gabungkan|gabungin|hidupkan|aktifkan|buka|tutup|libur(?:kan)?|approve|acc|go|sepakati|setujui"
    r"|mulai|balik"
    r"|kembali|coret|skip|drop|keep|bagi|potong|prioritaskan|prioritasin|fokus|serahkan|outsource|bangun"
    r"|perpanjang"
    r"|jual|tunjuk|charge|maju|tangguhkan|angkat|bebaskan|wajibkan|larang|perbaiki|renovasi|alokasikan"
    r"|anggarkan|lelang|migrasi|pangkas|ke|di|tetap|tetep|off|freeze|extend|reschedule|ubah|revisi)"
)
_SO: Final = (
    r"(?:oke+|ok|okay|baik(?:lah)?|sip|ya\s*u?dah|yaudah|ya\s+sudah|jadi(?:nya)?|berarti"
    r"|kalau\s+(?:be)?gitu|kalo\s+gitu"
    r"|dengan\s+demikian|kesimpulannya|fix|final|deal|gas|gaskeun|cus|nah|maka|pokoknya|intinya|setuju"
    r"|alhamdulillah)"
)
# A weaker conclusion, with any verb of "kita" that neither leads the meeting nor tells how things are.
_FIRMLY: Final = (
    r"(?:ya\s*u?dah|yaudah|ya\s+sudah|berarti|kalau\s+(?:be)?gitu|kalo\s+gitu|fix|deal|final|putusannya)"
)
_NO_CHOICE: Final = (
    r"(?:mau|akan|bakal|bisa|boleh|perlu|harus|mesti|belum|blm|tidak|tak|gak|nggak|ga|enggak|lagi|sudah"
    r"|udah|telah|masih|lihat|liat"
    r"|coba|tunggu|nunggu|mulai|bahas|lanjut\w*|masuk|buka|tutup|dengar\w*|denger\w*|cek|tanya\w*|kan|ini"
    r"|itu|semua|sebenarnya|juga|nanti"
    r"|dulu|punya|butuh|kurang|ada|dapat|dapet|kena|tau|tahu|ingin|pengen|emang|memang|kemarin|tadi|cuma"
    r"|hanya|baru|sering|pernah"
    r"|kembali|break|istirahat|berdoa|sambut|persilakan|ucapkan|kasih\s+tepuk|skip\s+ke|rugi|untung|telat"
    r"|terlambat|hampir|sekarang|yang"
    r"|minta|doakan|simak|diskusi\w*|bicara\w*|voting|rapat|meeting|sama|dan|pikir\w*|review|recap|rekap"
    r"|absen|kumpul\w*|ngobrol\w*|beri|kasih|tinggal|rehat|simpulkan|foto|makan|pulang|ketemu|usahakan)"
)
_LETS: Final = (
    r"(?:go\s+(?:with|for|ahead\s+with)|stick\s+(?:with|to)|use|choose|pick|postpone|keep|drop|hire"
    r"|cancel|adopt|settle\s+on"
    r"|move\s+(?:it|the\s+\w+)\s+to|push\s+(?:it|the\s+\w+)\s+(?:back\s+)?to|delay|switch\s+to"
    r"|stay\s+with|take\s+the|buy|do\s+(?!our\b|my\b|that\b|it\b(?!\s+(?:on|in|at)\b)|what\b)\w+)"
)
_DECIDED: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?:(?:di|me)?putuskan|(?:di)?putusin|memutuskan|(?:di)?sepakati|menyepakati|(?:di)?setujui"
        r"|menyetujui"
        r"|(?:di|me)?tetapkan|menetapkan|ditetapin|disahkan|mengesahkan|ketok\s+palu|di-?(?:acc|approve))\b",
        r"\bkeputusan(?:nya)?(?:\s+(?:rapat|kita|hari\s+ini|akhir(?:nya)?))*\s*(?:adalah|ialah|:|,)",
        rf"\b{_WE}{_JUST}\s+(?:sepakat|setuju|deal|acc|approve|putus(?:kan|in)|sahkan|jadiin|jadikan"
        r"|tetapkan)\b",
        r"\bsepakat\s+(?:untuk|bahwa|kita|ya)\b",
        r"\bjadi(?:nya)?,?\s+(?:kita|kami)\s+(?:pakai|pilih|ambil|tunda|lanjutkan|batalkan)\b",
        r"\b(?:kita|kami)\s+(?:pilih|memilih)\b",
        rf"^(?:{_SO}[\s,]+)*(?:fix|deal|final|acc|sepakat)\s*(?:ya|dong|nih|kalau\s+gitu"
        rf"|kalo\s+gitu)?\s*[,.:]?\s+"
        r"(?:ya\s+)?(?:kita|kami|\w+nya|pakai|pake|jadi)\b",
        r"\b(?:kita|kami)\s+(?:\w+\s+){1,5}(?:ya\s*,?\s*)?(?:fix|final|deal)\b",
        rf"^(?:{_SO}[\s,]+)+(?:[\w-]+\s+){{1,8}}(?:kita|kami)\s+(?!(?:ke|di|go|mulai|buka|tutup|tetap"
        rf"|tetep|kembali|balik|fokus|lanjut\w*"
        rf"|kurangi|bagi|off)\b){_CHOOSE}\b",
        rf"^(?:{_SO}[\s,]+)+(?:ya\s+)?(?:kita|kami|gue\s+setuju)\s+(?:jadi\s+|langsung\s+|tetap\s+"
        rf"|tetep\s+)?{_CHOOSE}\b",
        r"^(?:(?:oke+|ok|baik|nah|ya)[\s,]+)*(?:jadi|berarti)\s+(?:\w+\s+){1,4}(?:tetap|tetep)\s+(?:di"
        r"|ada|jalan|pakai)\w*\b",
        r"\b(?:we|they|team|board|everyone|everybody|committee|management)(?:'ve|'re|\s+have|\s+has"
        r"|\s+are|\s+all|\s+just)*"
        r"\s+(?:decided|agreed|resolved|settled\s+on|chose|chosen|approved|going\s+(?:with|for"
        r"|ahead\s+with))\b",
        r"\b(?:it\s+(?:is|was)|it's|that's|that\s+is|has\s+been|have\s+been|was|were|is"
        r"|are)\s+(?:hereby\s+|now\s+|finally\s+|all\s+)?"
        r"(?:decided|agreed|approved|resolved|settled|a\s+deal)\b",
        r"\b(?:the|our)\s+(?:final\s+)?decision\s+(?:is|was)\b|^(?:final\s+)?decision\s*[:,]\s*\w",
        r"^(?:(?:ok(?:ay)?|all\s*right|alright|so|then|fine|great|good|right)[\s,]+)+we(?:'re"
        r"|\s+are)\s+(?:keeping|sticking|postponing"
        r"|cancell?ing|dropping|hiring|using|moving\s+(?:it|the\s+\w+)\s+to|switching)\b",
        r"\b(?:itu|ini|begitu)(?:lah)?\s+keputusan(?:nya)?\s+(?:kita|rapat|saya|bersama)\b",
        rf"^(?:{_SO}[\s,]+)*fix\s+(?!bug|the\b|it\b|this\b|dulu)(?:[\w.]+\s+){{1,8}}ya\b|\b(?:kita"
        rf"|we)\b.{{1,80}}[\s,]final[.!]*$",
        rf"^(?:{_SO}[\s,]+)*(?:sudah|udah)\s+(?:fix|final|deal)\s+(?:ya|kita)\b|^(?:{_SO}[\s,]+)+(?:fix"
        rf"|final|deal)\s*(?:ya)?\s*,\s*\w",
        rf"^(?:{_SO}[\s,]+)*{_FIRMLY}[\s,]+(?:[\w-]+,?\s+){{0,8}}(?:kita"
        rf"|kami)\s+(?!{_NO_CHOICE}\b)\w(?!.*\bnanti\b)",
        rf"^(?:{_SO}[\s,]+)+(?:[\w-]+,?\s+){{0,8}}(?:kita|kami)\s+(?!{_NO_CHOICE}\b)[^?]*\b(?:ya|yah|aja"
        rf"|saja|deh)\b[\s,.!]*(?:fix|final|deal|gais|guys|semua)?[.!]*$",
        rf"^(?:{_SO}[\s,]+)+(?:deal|final)\s+(?!ya\b|dong\b|nih\b|sama\b|dengan\b)\w[\w\s.-]{{2,60}}[.!]*$",
        r"^(?:[\w,.-]+\s+){3,14}(?:fix|final|deal)\s*(?:ya|dong)?[.!]*$",
        r"\b(?:kita|kami)\s+\w+.{1,80}\bsetuju\s+(?:semua|ya)\b",
        r"[,;]\s*(?:so\s+)?(?:that's\s+|it's\s+)?(?:agreed|decided|settled|done\s+deal)[.!]*$",
        r"\bapproved\s+ya\b|\b(?:kita|kami)\s+(?:lock|kunci)(?:in)?\s+(?:di|ke|tanggal|tgl)\b"
        r"|\b(?:di)?sepakatin\b|\bsecara\s+(?:aklamasi|mufakat)\b"
        r"|\bditerima\s+(?:oleh\s+seluruh|oleh\s+semua|dengan\s+bulat|secara)\b",
        r"\b(?:kita|kami)\s+(?:cancel|batalin|batalkan|stop|tunda|pending)\s+(?:aja|saja)\b",
        r"\blet's\s+lock\s+in\b|\bso\s+we\s+(?:all\s+)?agree\b|\bit's\s+final\b"
        r"|\bwe're\s+(?:all\s+)?in\s+agreement\b",
        r"\b(?:committee|board|council|members|team)\s+(?:has\s+|have\s+)?voted\s+(?:to|for|against)\b"
        r"|\b(?:proposal|budget|amendment|resolution)\s+(?:is\s+)?(?:passes|passed|adopted|carries"
        r"|carried)\b",
        r"^(?:(?:ok(?:ay)?|all\s*right|alright|so|then|fine|great|good"
        r"|right)[\s,]+)+(?:[\w']+\s+){1,4}it\s+is(?:\s+then)?[.!,]*(?:$|\s+(?:so|we)\b)",
        r"\bmotion\s+(?:is\s+)?(?:carried|carries|passed|passes)\b",
        r"^(?:so\s+|ok(?:ay)?,?\s+|right,?\s+|good,?\s+|great,?\s+)*(?:decided|agreed|decision|approved"
        r"|settled)\s*[:,]\s*\w",
        r"\b(?:let's|let\s+us|we'll|we\s+will|we're\s+going\s+to|we\s+are\s+going\s+to)\s+(?:go"
        r"|stick)\s+(?:with|to)\b",
        rf"^(?:(?:ok(?:ay)?|all\s*right|alright|so|then|fine|great|good|right|well|yes|perfect"
        rf"|in\s+that\s+case)[\s,]+)+"
        rf"(?:let's|let\s+us|we'll|we\s+will|we're\s+going\s+to|we)\s+{_LETS}\b",
        rf"\b(?:we'll|we\s+will)\s+(?:{_LETS})\b(?!.*\blater\b)|\b(?:we'll|we\s+will|we)\s+(?:take|use|do"
        rf"|keep|go)\b.*\binstead\b",
        rf"\b(?:let's|let\s+us|we)\s+{_LETS}\b[^?]*\bthen[.!]*$",
    )
)
# Rules a decision out when shortly before it: denial, open point, wish, condition, future.
_UNDECIDED: Final = re.compile(
    # "Kalau begitu" draws a conclusion.
    r"\b(?:belum|blm|belom|tidak|tak|bukan|nggak|gak|ga|enggak|ngga|jika|kal(?:au|o)(?!\s+(?:be)?gitu\b)"
    r"|apabila|bila"
    r"|seandainya|harus|perlu|akan|bisa|sebelum|menunggu|nunggu|supaya|agar|apakah|siapa|kapan|semoga|mau"
    r"|ingin|mari"
    r"|ayo|yang|nanti|ntar|entar|later|sudah\s+pernah|pernah|misalnya|boleh|usulkan|mengusulkan"
    r"|not|never|no|if|whether|unless|until|once|before|should|must|need|needs|to\s+be|will\s+be|can"
    r"|could|would|who"
    r"|haven't|hasn't|hadn't|isn't|aren't|wasn't|weren't|didn't|nothing"
    r"|nobody)\b(?:[^\w,;.:]+\w+){0,3}[^\w,;.:]*$",
    re.IGNORECASE,
)
# "All right, we send two people."
_WE_DO: Final = re.compile(
    r"(?:(?:ok(?:ay)?|all\s*right|alright|right|fine|good|great|then|perfect)[\s,]+)+(?:so\s+"
    r"|then\s+)?we(?:'ll|\s+will)?\s+(?P<verb>[\w-]+)\s+\w",
    re.IGNORECASE,
)
_WE_VERBS: Final = re.compile(
    r"(?:accept|adopt|keep|stay|use|choose|postpone|raise|lower|increase|reduce|split|end|allow|ban"
    r"|donate|spend|invest|skip|delay)$",
    re.IGNORECASE,
)
_TALKS: Final = re.compile(
    r"(?:talk|get|know|see|hear|have|do|speak|look|check|take|move|start|close|open|follow|stop"
    r"|go)\b",
    re.IGNORECASE,
)
_DENIED: Final = re.compile(
    r"\b(?:belum|blm|belom|tidak|nggak|gak|ga|bukan|harus|perlu|mau|nanti|not)\b", re.IGNORECASE
)
_NO_OBJECTION: Final = re.compile(
    r"\b(?:tidak|nggak|gak|ga)\s+ada\s+(?:yang\s+)?(?:\w+\s+)?(?:keberatan|sanggah\w*|masukan)", re.IGNORECASE
)
_PAST: Final = re.compile(
    r"\b(?:tahun|bulan|minggu|pekan|periode|rapat|pertemuan|sprint|kuartal"
    r"|semester)\s+(?:yang\s+)?(?:lalu|kemarin|kemaren"
    r"|sebelumnya|terdahulu)|\b(?:kemarin|kemaren|dulu(?=\s+(?:kita|kami|di|pernah|sudah|udah|waktu))"
    r"|dahulu|waktu\s+itu|pernah"
    r"|sebelumnya|lampau)\b|^dulu\b|\b(?:last\s+(?:year|month|week|time|quarter|meeting|spring|summer"
    r"|autumn|winter)"
    r"|previously|yesterday|years?\s+ago|months?\s+ago|weeks?\s+ago|back\s+(?:in|then)|at\s+the\s+time"
    r"|used\s+to|originally)\b",
    re.IGNORECASE,
)
_ASKS: Final = re.compile(
    r"^(?:saya|gue|aku)\s+(?:rasa|kira|pikir)\b|\b(?:kayaknya|sepertinya|menurut\s+(?:saya|gue|aku))\b"
    r"|^(?:i\s+(?:think|guess|suggest|propose)|maybe)\b|^(?:apakah|apa|siapa|kapan|bagaimana|gimana"
    r"|kenapa|mengapa|berapa|who|when|what|why|how|did|do|does"
    r"|have|has|is|are"
    r"|shall|should|could|can|would)\b|\b(?:oleh\s+siapa|siapa\s+ya|belum\s+(?:sih|ya)|(?:gak|nggak"
    r"|enggak|ga|kan)\s+(?:sih|ya)"
    r"|apa\s+(?:gimana|enggak|nggak)|yang\s+mana|bagaimana\s+kalau|gimana\s+kalau|gimana\s+kalo)\b",
    re.IGNORECASE,
)
# What leads through the meeting.
_RUNS: Final = re.compile(
    r"\b(?:kita|kami)\s+(?:\w+\s+)?(?:lanjut(?:kan|in)?|mulai|buka|tutup|masuk|bahas|break|istirahat|skip"
    r"|kembali|balik|fokus)"
    r"\s+(?:(?:saja|aja|dulu|lagi)\s+)*(?:ke\b|agenda|acara|sesi|rapat|meeting|pembahasan|topik|poin|bahas"
    r"|soal|dengan|ya\b|dari|diskusi)"
    r"|\b(?:lanjut|mulai|bahas|istirahat|break|rehat|shalat|salat|doa|voting)\s*(?:aja|saja|dulu|ya"
    r"|bentar|sebentar)*\s*[.!]*$"
    r"|\b(?:let's|we'll)\s+(?:go\s+(?:on|around|through|back|ahead\s*[.!]*$)|move\s+on|take\s+(?:a"
    r"|the)\s+(?:break|next)|do\s+(?:a|the)\s+"
    r"(?:round|intro|check)|keep\s+(?:it|this)\s+short|pick\s+(?:this|that)\s+up)",
    re.IGNORECASE,
)
_AGREES: Final = re.compile(
    r"(?:ya|iya|oke|ok|okay|yes|yeah|baik|sip|saya|i|great|good)?[,.\s]*"
    r"(?:setuju|sepakat|deal|agreed|agree|sounds\s+good|approved)(?:[,.\s]+(?:sekali|pak|bu|semua|ya))?[.!]*",
    re.IGNORECASE,
)
_PROPOSES: Final = re.compile(
    r"\b(?:usul|usulkan|mengusulkan|usulan|bagaimana\s+kalau|gimana\s+kalau|sebaiknya|propose|suggest"
    r"|proposal"
    r"|how\s+about|what\s+if|why\s+don't\s+we|let's|shall\s+we)\b",
    re.IGNORECASE,
)
_REVERSES: Final = re.compile(
    r"\b(?:(?:di)?batal(?:kan|in)?|membatalkan|(?:di)?cancel(?:led)?|(?:tidak|nggak|gak|ga|tak|enggak"
    r"|ndak|ngga)\s+jadi|urung|ralat"
    r"|(?:di)?cabut|mencabut|meralat|menganulir|dianulir|(?:di)?urungkan|berubah\s+pikiran"
    r"|(?:keputusan|yang|kesepakatan|rencana|hasil)\s+(?:\w+\s+){0,2}tadi\s+(?:\w+\s+){0,2}(?:diubah|ubah"
    r"|diganti|ganti|direvisi|revisi|dihapus|hapus|dicoret|coret|salah)"
    r"|scrap|ditch|(?:cancel|forget|reverse|undo|revoke|withdraw|drop|ignore|overturn)\s+(?:that|the|this"
    r"|it|what|our|(?-i:[A-Z])\w+)|never\s+mind|on\s+second\s+thoughts?"
    r"|change\s+of\s+plans?|(?:i|we)\s+take\s+(?:that|it)\s+back|revers(?:e|ing)\s+(?:that|the|our)"
    r"|is\s+off\s+the\s+table"
    r"|after\s+all|changed?\s+(?:my|our)\s+minds?|not\s+(?:going|doing)\s+(?:with|that|it)\s+any\s*more"
    r"|instead\s+of\s+what)\b",
    re.IGNORECASE,
)
_CHANGES: Final = re.compile(
    r"\b(?:kita|kami|we|let's|jadinya|berarti)\s+(?:\w+\s+){0,2}?(?:tangguhkan|tunda|pending|ubah|ganti"
    r"|geser|revisi|undur|majuin"
    r"|mundurin|pindah(?:kan|in)?|balik(?:in)?|kembali"
    r"|change|move|switch|go\s+back|revert)\b|\b(?:instead|saja\s+deh|diubah|diganti|digeser)\b",
    re.IGNORECASE,
)
_REQUESTS: Final = re.compile(r"\b(?:tolong|mohon|agar|dimohon|please)\b", re.IGNORECASE)
_THAT: Final = re.compile(
    r"\b(?:tadi|itu|barusan|that|it|this|what\s+we|earlier|just\s+now)\b", re.IGNORECASE
)
_OURS: Final = re.compile(
    r"\b(?:kita|kami|we|let's|keputusan|maaf|sorry|scrap|forget|tadi|that|rencana|change\s+of)\b",
    re.IGNORECASE,
)
_KEEPS: Final = re.compile(r"\b(?:tetap|tetep|kembali\s+ke|balik\s+ke|stay|keep|stick)\b", re.IGNORECASE)
_SCREEN: Final = re.compile(r"\b(?:share|screen|layar|mic|mikrofon|kamera|zoom)\b", re.IGNORECASE)
_REACH: Final = 4
_CONTEXT: Final = 25
_FEWEST_TERMS: Final = 2
_NEAR: Final = 6
_AT_ONCE: Final = 2
_REFERS: Final = re.compile(r"\b(?:them|it|there|tersebut|situ|sana|\w+nya)\b", re.IGNORECASE)
# What a decision is said with, not what it is about.
_CUES: Final = frozenset(
    """
    putuskan diputuskan memutuskan putusin sepakati disepakati menyepakati setujui disetujui menyetujui
    tetapkan ditetapkan menetapkan keputusan kesepakatan rencana pakai pake memakai batal batalkan dibatalkan
    batalin membatalkan cancel ralat jadiin demikian rapat final deal fix decide decision approved settled
    scrap stick let's forget never mind keberatan
    """.split()  # noqa: SIM905  # a list of words is read as words
)


@frozen
class Struck:
    """A decision that was taken back: the numbers of its sentence and of the reversing one, its own words."""

    begin: int
    end: int
    terms: frozenset[str]

    def covers(self, at: int, text: str) -> bool:
        """Return whether a task that was given in between followed from the decision alone."""
        shared, after = len(self.terms & terms_of(text)), at - self.begin
        is_near = (shared == 1 and after <= _NEAR) or (after <= _AT_ONCE and _REFERS.search(text) is not None)
        return self.begin <= at < self.end and (shared > 1 or is_near)


def decisions_in(sentences: Sequence[Sentence]) -> Iterator[Decision]:
    """Yield the decisions that stand at the end, with the sentences that state them."""
    standing, _ = decided_in(sentences)
    yield from standing.values()


def decided_in(sentences: Sequence[Sentence]) -> tuple[dict[int, Decision], list[Struck]]:
    """Return the decisions that stand, by the number of their sentence, and those that were taken back."""
    standing: dict[int, Decision] = {}
    taken_back: list[tuple[int, int]] = []
    for at, sentence in enumerate(sentences):
        text = sentence.text.replace("\u2019", "'")
        is_new = is_decision(text)
        target = _reversed_by(text, at, standing, sentences, is_new=is_new)
        if target is not None:
            del standing[target]
            taken_back.append((target, at))
            is_new = is_new or _KEEPS.search(text) is not None or len(_about(text)) >= _FEWEST_TERMS
        if is_new:
            standing[at] = Decision(sentence.text, sentence.text, sentence.at_s)
        elif at and _is_agreed(sentences, at, standing):
            standing[at] = Decision(sentences[at - 1].text, sentence.text, sentence.at_s)
    reversing = {end for _, end in taken_back}
    others = frozenset[str]().union(
        *(_about(one.text) for at, one in standing.items() if at not in reversing)
    )
    return standing, [Struck(begin, end, _about(sentences[begin].text) - others) for begin, end in taken_back]


def _about(text: str) -> frozenset[str]:
    return terms_of(text) - _CUES


def is_decision(text: str) -> bool:
    """Return whether a sentence states a decision, whatever follows."""
    if _asks(text) or _RUNS.search(text):
        return False
    plain = _NO_OBJECTION.sub("", text)
    found = (pattern.search(plain) for pattern in _DECIDED)
    if (
        (ours := _WE_DO.match(plain))
        and (is_english_verb(ours["verb"]) or _WE_VERBS.match(ours["verb"]))
        and not _TALKS.match(ours["verb"])
    ):
        return True
    return any(
        one is not None and not _DENIED.search(one[0]) and _stands(plain, one.start()) for one in found
    )


def _stands(text: str, begin: int) -> bool:
    if _UNDECIDED.search(text, 0, begin):
        return False
    past = _PAST.search(text)
    return past is None or past.start() > begin + 40


def _asks(text: str) -> bool:
    return text.rstrip("\"')] ").endswith("?") or _ASKS.search(text) is not None


def _reversed_by(
    text: str, at: int, standing: dict[int, Decision], sentences: Sequence[Sentence], *, is_new: bool
) -> int | None:
    """Return the number of the decision that a sentence takes back."""
    if not standing or _asks(text) or _PAST.search(text) or _REQUESTS.search(text):
        return None
    reverses = _REVERSES.search(text) is not None
    if not reverses and not (is_new and _CHANGES.search(text)):
        return None
    shared = {number: len(_about(text) & _about(one.text)) for number, one in standing.items()}
    if most := max(shared.values()):
        return max(number for number, count in shared.items() if count == most)
    if not reverses or not _OURS.search(text) or _SCREEN.search(text):
        return None
    last = max(standing)
    if len({one.at_s for one in sentences[last : at + 1]}) <= _REACH:
        return last
    return _by_context(at, sentences, standing) or (last if _THAT.search(text) else None)


def _by_context(at: int, sentences: Sequence[Sentence], standing: dict[int, Decision]) -> int | None:
    """Return the decision before which the same rare words were spoken as before its reversal."""
    own = _about(sentences[at].text)
    spoken = frozenset[str]().union(*(_about(one.text) for one in sentences[max(0, at - _CONTEXT * 4) : at]))
    around = frozenset[str]().union(*(_about(one.text) for one in sentences[max(0, at - _NEAR) : at + 1]))
    here = own if own & spoken else around
    counts = Counter(term for one in sentences[:at] for term in _about(one.text) & here)
    best, place, begin = 0.0, None, 0
    for number in sorted(standing):
        context = sentences[max(begin, number - _CONTEXT) : number + 1]
        terms = frozenset().union(*(_about(one.text) for one in context)) & here
        worth = sum(1 / counts[term] for term in terms)
        if worth > best:
            best, place = worth, number
        begin = number + 1
    return place


def _is_agreed(sentences: Sequence[Sentence], at: int, standing: dict[int, Decision]) -> bool:
    before = sentences[at - 1]
    return (
        _AGREES.fullmatch(sentences[at].text) is not None
        and _PROPOSES.search(before.text) is not None
        and at - 1 not in standing
    )
