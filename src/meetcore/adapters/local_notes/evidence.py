"""Weigh the evidence that a sentence announces a conclusion, where no form of words settles it.

Who leads the meeting, how the sentence begins, what it says, and who agrees after it count together.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final

from attrs import define, field

from meetcore.adapters.local_notes.sentences import Sentence

ENOUGH: Final = 4.25


def _compiled(form: str) -> re.Pattern[str]:
    return re.compile(form, re.IGNORECASE)


_OPENS: Final = _compiled(
    r"(?:(?P<strong>ya\s*u?dah|ya\s+(?:sudah|wis)|(?:yo\s+)?wis|kal(?:au|o)\s+(?:be)?gitu|nek\s+ngono|jadi(?:nya|in)?"
    r"|berarti|dengan\s+demikian|fix|deal|final|sepakat|kesimpulannya|pokoknya|maka|ke\s+depan(?:nya)?"
    r"|dengan\s+begitu|artinya|simpulannya|putusannya|keputusannya|hasilnya|catat(?:\s+ya)?|sah|bungkus|tok|dadi"
    r"|(?:karena\s+)?(?:semua|semuanya)\s+(?:sudah\s+)?(?:setuju|sepakat)|(?:tidak|nggak|gak|ndak)\s+ada\s+(?:yang\s+)?keberatan"
    r"|agreed|settled|decided|decision|approved|ya\s+wes|(?:yo\s+)?wes|mulai\s+(?:sekarang|besok|bulan|minggu)"
    r"|fine|al(?:l\s+)?right|then|so|in\s+that\s+case|done|(?:semua\s+)?setuju|ketok\s+palu)"
    r"|oke+h?|ok|okay|baik(?:lah)?|sip+|siap|gas(?:keun)?|boleh(?:\s+(?:tuh|juga|deh))?|ya|iya|nggih|nah|sudah|udah"
    r"|yes|yeah|right|good|great|perfect|cool|sure|well|mantap|cakep|yuk|ayo|monggo|mangga|yes\s+please|makasih|alhamdulillah|bismillah|(?:pak|bu|mas|mbak|guys|team|teman-teman))"
    r"\b(?:\s+(?:ya|nggih|deh|tuh|aja|saja|then|lah|dong|nih|semua))*[\s,:.]+"
)
_AGREES: Final = _compiled(
    r"^\W*(?:(?:ya|iya|nah|oke+|wah|pak|bu|oh|nggih|yes|yeah|i'm|i|me|saya|gue|aku|kalau|itu|that|it)\b[\s,]*)*"
    r"(?:setuju\w*|se?pakat|sip+|oke+|ok|okay|deal|boleh|cocok|manut|siap|aman|akur|mantap|mantul|gas\w*|nggih"
    r"|inggih|rapopo|alhamdulillah|ya+y|yeay|yes+|asyik|asik|masuk\s+akal|wajar|baik|bisa|cukup|pantes|lega|cakep"
    r"|mending|sependapat|tidak\s+keberatan|agreed?|sounds|fine|fair|cool|great|good|perfect|works|comfortable"
    r"|no\s+objections?|happy|done|yep|yup|love|lovely|makes\s+sense|nice|excellent|hooray|seconded|same|okay"
    r"|all\s+right|better|even\s+better|sure|makasih|terima\s+kasih|thanks?|thank\s+you)\b"
)
_WE: Final = _compiled(
    r"\b(?:kita|kami|awak\s+dewe|we(?:'ll|'re)?|let's)\s+(?!(?:mulai|bahas|lanjut\w*|lihat|liat|tunggu|cek|tanya\w*|punya"
    r"|ada|masih|belum|sudah|udah|kan|ini|itu|butuh|kurang|tau|tahu|mau|bisa|perlu|harus|dapat|kena|buka|tutup|masuk"
    r"|ke\b(?!\s+depan)|dengar\w*|denger\w*|coba|nanti|have|need|are|were|had|can|could|should|must|know|see|did|don't|do\s+we"
    r"|got|get|might|may|talk|start|move\s+on|look|wait|want|think|also|always|usually|still|never|only|just|lost|sold"
    r"|saw|said|spent|'ve|kemarin|tadi|pernah|sering|biasa\w*|cuma|lagi|semua|memang|emang|would|wouldn't|can't)\b)[\w']+"
)
_OUTCOME: Final = _compiled(
    r"\b(?:jadi|jadinya|tetap|tetep|pakai|pake|saja|aja|wae|mulai|terhitung|per|ditunda|diundur|dimajukan|digeser|geser|pindah\w*"
    r"|naik\w*|turun\w*|maksimal|minimal|bukan|di(?!a\b|ri\b)[a-z]{4,}(?:kan|i)?|tidak\s+(?:jadi|ada|kita)|ndak\s+usah"
    r"|(?:nggak|gak|ga|tidak)\s+(?:ada|usah|perlu|jadi|pakai|pake)|dulu|tanpa|setiap|tiap|full"
    r"|ambil|pilih|ganti|tambah\w*|libur\w*|batal\w*|cukup|dapet|dapat|stop|skip"
    r"|instead|starting|stays?|keep|will\s+be|is|are|it\s+is|only|goes|go|moves?|from\s+now\s+on|no\s+more|until|every|per)\b"
)
_FIGURE: Final = _compiled(
    r"\d|\b(?:satu|dua|tiga|empat|lima|enam|tujuh|delapan|sembilan|sepuluh|belas|puluh|ratus|ribu|juta|persen|sewu|ewu"
    r"|senin|selasa|rabu|kamis|jumat|sabtu|minggu|one|two|three|four|five|six|seven|eight|nine|ten|percent|hundred|thousand"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b"
)
_AGAINST: Final = _compiled(
    r"\b(?:tolong|mohon|agar|please|could|can\s+you|terima\s+kasih|makasih|thanks?|thank\s+you|silakan|monggo|selamat"
    r"|saya|gue|gua|aku|i|i'll|i'm|i've|i'd|let\s+me|my|lo|lu|kamu|you|your|kul[ao]|tak|minta|jangan"
    r"|mereka|dia|they|he|she|siapa|apa(?:kah)?|berapa|gimana|bagaimana|kapan|kenapa|who|what|when|how|why"
    r"|mungkin|kayaknya|sepertinya|kira-kira|usul\w*|maybe|perhaps|probably|think|guess|wonder|would|might"
    r"|belum|sudah|udah|sedang|lagi|masih|tadi|kemarin|waktu\s+itu|dulu\s+itu|biasanya|selalu|sering|kan|lho|loh|sih|kok"
    r"|already|yesterday|last|usually|always|been|was|were|did|didn't|had|if|kalau(?!\s+(?:be)?gitu)|kalo(?!\s+(?:be)?gitu)|jika"
    r"|agenda|lanjut\w*|bahas|next|move\s+on|nomor|topik|rapat\w*|meeting|rugi|masalah\w*|problem|ternyata|katanya"
    r"|harus|perlu|bisa|need|needs|should|must|nanti|ntar|hampir|baru|but|tapi|berikutnya|selanjutnya)\b"
)
_WORD: Final = re.compile(r"\w+")


@define
class Meeting:
    """The sentences of a meeting, by utterance."""

    sentences: Sequence[Sentence]
    tasks: Collection[int] = ()
    leader: str | None = field(init=False)
    _begins: list[int] = field(init=False)
    _place: list[int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        changes = [
            at + 1 for at, (one, other) in enumerate(pairwise(self.sentences)) if one.at_s != other.at_s
        ]
        self._begins = [0, *changes] if self.sentences else []
        self._place, number = [], -1
        starts = set(self._begins)
        for at in range(len(self.sentences)):
            number += at in starts
            self._place.append(number)
        spoken = Counter(one.speaker for one in (self.sentences[at] for at in self._begins) if one.speaker)
        self.leader = spoken.most_common(1)[0][0] if len(spoken) > 2 else None

    def weight(self, at: int, *, is_outright: bool = False) -> float:
        """Return the weight of the evidence that a sentence announces a conclusion.

        `is_outright`: a form of words says so by itself.
        """
        one = self.sentences[at]
        text = one.text.replace("\u2019", "'")
        begin, strong = _opening(text)
        said = text[begin:]
        words = len(_WORD.findall(said))
        if words < 3 or text.rstrip("\"')] ").endswith("?"):
            return 0.0
        leads = self.leader is None or one.speaker == self.leader
        weight = 2.0 * leads + 1.25 * strong + 1.0 * (leads and begin > 0) + 2.0 * is_outright
        weight += 1.0 * (_WE.search(said) is not None) + 1.25 * (_OUTCOME.search(said) is not None)
        weight += 0.5 * (_FIGURE.search(said) is not None) + self._agreed(at, 1, 3)
        weight -= 0.25 * min(4, len(_AGAINST.findall(said)))
        return weight - 2.0 * (at in self.tasks) - 1.25 * (words < 5)

    def _agreed(self, at: int, begin: int, end: int) -> float:
        """Return how much others agree, in utterances counted from the sentence's own."""
        place, speaker = self._place[at], self.sentences[at].speaker
        near = self._begins[max(0, place + begin) : max(0, place + end)]
        firsts = (self.sentences[each] for each in near)
        return min(
            1.5,
            0.75
            * sum(
                one.speaker != speaker and not one.text.endswith("?") and _AGREES.match(one.text) is not None
                for one in firsts
            ),
        )


def _opening(text: str) -> tuple[int, bool]:
    """Return where the words after a conclusion's opening begin, and whether it is a strong one."""
    begin, strong = 0, False
    while found := _OPENS.match(text, begin):
        begin, strong = found.end(), strong or found["strong"] is not None
    return begin, strong
