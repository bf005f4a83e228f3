"""Tell the names of speakers before a colon, ``Budi Santoso: Selamat pagi``, from other words there.

People write their names as they like: ``rina``, ``dr. Andi Wijaya``, ``Siti Aminah, S.Kom., M.T.``, ``iPhone
milik Budi``, ``Andi / PT Maju Jaya``, ``+62 812-3456-7890``. Their letters therefore decide nothing; how
often such words stand before the texts of one file does.

- A prefix is what stands before the first colon, which a space follows: so ``10:30`` and ``https://`` are
  none. It has at most 64 characters, as a name at Zoom, and a letter or the digits of a telephone number.
- One that begins with a heading's word (``Keputusan``, ``Catatan Penting``, ``Next steps``) is never a name.
- One that reads like a part of a sentence (a comma without a degree after it, other punctuation, more than
  eight words) counts only when it stands before three texts.
- Where half of the texts have a prefix, the file names its speakers, and one text is enough for a name. Where
  a tenth has, names are those before two. Where fewer have, there are none.
- ``Tim IT: Rina: ya``: the second colon ends the name where a second prefix follows the first one in each of
  at least three texts. Else the first one does, and the rest is what was said.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

_LONGEST: Final = 64
_MAX_WORDS: Final = 8
_FEWEST_DIGITS: Final = 7
_OFTEN: Final = 3
_NO_NAME: Final = frozenset(';!?<>"')
# Masked digits of a telephone number are asterisks.
_DIGITS: Final = frozenset("0123456789*")
_FIRST_WORD: Final = re.compile(r"[^\W_][\w-]*")
_INDONESIAN: Final = """
    acara agenda alamat alasan anggaran artinya ayat bab berikut biaya bilang butir catatan contoh evaluasi
    halaman harga hasil intinya jadi jadwal jam jawab jawaban judul kata kedua kendala kesepakatan kesimpulan
    keterangan ketiga keputusan langkah laporan lokasi maksud masalah materi misal nomor opsi pasal pembahasan
    pembukaan pendahuluan pengumuman penting penutup perhatian permasalahan pertama pertanyaan poin pukul
    rangkuman rekomendasi rencana ringkasan risiko saran selanjut simpulan singkat solusi syarat tanggal
    target tema tempat tenggat terakhir tindak tugas tujuan topik usul usulan waktu yaitu yakni
"""
_ENGLISH: Final = """
    action actions agreed answer background budget conclusion conclusions deadline decided decision decisions
    example goal goals important issue issues item items minutes next note notes objective option outcome plan
    point points problem purpose question questions reason recap recommendation remark remarks reminder result
    results risk risks schedule section slide solution status step steps subject summary task tasks title
    to-do todo topic topics total update updates warning
"""
_HEADINGS: Final = frozenset(f"{_INDONESIAN} {_ENGLISH}".split())


def find_names(texts: Sequence[str]) -> list[str | None]:
    """Return the speaker's name at the beginning of each text of a file, `None` where it has none.

    A colon and a space follow the name. Takes time by the length of the texts.
    """
    prefixes = _prefixes(texts)
    counts = Counter(one for one in prefixes if one is not None)
    needed = {one: 1 if _is_plain(one) else _OFTEN for one in counts}
    named = sum(count for one, count in counts.items() if count >= needed[one])
    if 10 * named < len(texts):
        return [None] * len(texts)
    least = 1 if 2 * named >= len(texts) else 2
    names = {one for one, count in counts.items() if count >= max(least, needed[one])}
    return [one if one in names else None for one in prefixes]


def _prefixes(texts: Sequence[str]) -> list[str | None]:
    """Return the prefix of each text, up to its second colon where that ends the name."""
    pairs = [_first_two(text) for text in texts]
    counts = Counter(first for first, _ in pairs)
    alone = {first for first, second in pairs if second is None or counts[first] < _OFTEN}
    return [first if first in alone else f"{first}: {second}" for first, second in pairs]


def _first_two(text: str) -> tuple[str | None, str | None]:
    first = _prefix(text[: _LONGEST + 2])
    return first, first and _prefix(text[len(first) + 2 : _LONGEST + 2])


def _prefix(text: str) -> str | None:
    """Return the words before a colon and a space, if they can be a name."""
    prefix, colon, remainder = text.partition(":")
    if not (colon and prefix and remainder.startswith(" ")) or prefix[-1] == " ":
        return None
    word = _FIRST_WORD.search(prefix)
    if word is None or not _HEADINGS.isdisjoint((word[0].casefold(), word[0].casefold().removesuffix("nya"))):
        return None
    has_letter = any(map(str.isalpha, prefix))
    return prefix if has_letter or sum(map(_DIGITS.__contains__, prefix)) >= _FEWEST_DIGITS else None


def _is_plain(prefix: str) -> bool:
    """Return whether it reads like a name, with academic degrees after its commas: ``S.Kom.``, ``SE``."""
    name, *degrees = prefix.replace(". ", ".").split(",")
    if not _NO_NAME.isdisjoint(prefix) or len(name.split()) > _MAX_WORDS:
        return False
    return all(" " not in one.strip() and ("." in one or one.isupper()) for one in degrees)
