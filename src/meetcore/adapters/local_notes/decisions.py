"""Decisions, found by patterns of Indonesian and English, both at once: meetings mix them.

A question, a wish, a denial, an open point or another time is no decision. Owns the table. Looks no
further than one sentence, but for "Setuju." after a proposal.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from meetcore.adapters.local_notes.sentences import Sentence
from meetcore.domain.notes.notes import Decision

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
# What rules a decision out close before it: denied, open, wished, on a condition, in future.
_UNDECIDED: Final = re.compile(
    # "Kalau begitu" is no condition: it draws the conclusion.
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
    """What was decided, each with the sentence that it was decided with."""
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
