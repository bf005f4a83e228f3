"""Find the people of a meeting in its sentences: those who speak, those with a title, and roles.

A person is found by any word of a speaker's name, in letters of any case, as speech to text writes them, or
by a title ("Pak Hendra", "Bu RT"). Another capitalised word is a stranger's name, unless it often begins
sentences or names a firm or a place. Somebody who is called by a part of a name ("Bay" for Bayu) is the one
speaker whom it fits.
"""

import re
from typing import Final

from attrs import define, field, frozen

_NO_NAMES: Final = frozenset(
    """
    acara ada agar agenda aku anda anggaran apa apakah atau bagaimana bagus baik baiklah barang berarti
    besok biaya bisa boleh bulan coba cuma dan dari data deadline dengan deal di dia dokumen dua eh fix
    gue hal harga hari harus hasil ini itu iya jadi jangan jika jumlah kalau kalian kalo kami kamu kapan
    karena kemarin kemudian keputusan kita konsumsi lalu laporan lo lu maaf makanya mari masalah mereka
    minggu mohon mungkin nah namun nanti nggak ok okay oke oh padahal pagi pasar pekan pelanggan
    pembayaran perusahaan produk proyek rapat rencana ruangan saat saya sebelum sebenarnya selamat
    selanjutnya semoga semua sepertinya server setelah setuju siang siap siapa silakan sip sistem sore
    sudah supaya tadi tahun tampaknya tapi tentu terima terus tetapi tidak tiga tolong tunggu uang untuk
    usulan versi waktu wah ya yah yang

    a absolutely actually after agreed all alright also and another any anybody anyone anything approved
    are as at because before but by can could customers decided demand did do does either english even
    every everybody everyone everything exactly finally fine first for from good great he hello her here
    hers hey hi his hopefully how however i if in indeed is it its just let let's lets look maybe
    meanwhile meeting more most much my next no nobody none not nothing now of off oh ok on once one
    only or our ours people perfect perhaps please prices probably project rain really right sales she
    should since so some somebody someone something sorry still sure thank thanks that the their them
    then there these they things this those though thus to today tomorrow tonight two unless until us
    users very wait we well what whatever when where whether which while who whoever why will with would
    wow yeah yes yesterday yet you your yours

    pak bu bapak ibu mas mbak mba kak kang bang om tante saudara saudari mr mrs ms dr prof bank zoom
    google whatsapp excel indonesia jakarta bandung surabaya bali pemerintah dinas pln pdam pt cv bi
    kementerian inflasi rupiah dolar listrik internet toko hotel gedung kantor sekolah pabrik anak istri
    suami ayah teman tetangga tamu klien client vendor user boss bos senin selasa rabu kamis jumat sabtu
    monday tuesday wednesday thursday friday saturday sunday januari februari maret april mei juni juli
    agustus september oktober november desember january february march may june july august october
    december
    """.split()  # noqa: SIM905  # a list of words is read as words
)
_TITLE: Final = (
    r"(?:Pak(?:\s+Haji)?|Bu(?:\s+Hajah)?|Bapak|Ibu|Mas|Mbak|Mba|Kak|Kakak|Bang|Bung|Kang|Teh|Om|Tante|Cak|Mama|Papa|Haji|Kiai|Mbah|Yu|Gus"
    r"|Ustadz?|Ustaz|Saudara|Saudari|Sdri?\.|Mr\.?|Mrs\.?|Ms\.?|Dr\.?|Prof\.?)"
)
_OFFICE: Final = (
    r"(?:RT|RW|Lurah|Kades|Camat|Ketua|Sekretaris|Bendahara|Direktur|Manajer|Kepsek|Kepala\s+Sekolah|Dukuh"
    r"|Koordinator|Sekdes|Carik)"
)
_ROLE: Final = (
    r"(?:(?:the\s+)?(?:[\w-]+\s+){1,2}team|(?:the\s+)(?:\w+\s+)?(?:manager|lead|department|committee|agency|vendor)"
    r"|(?:tim|divisi|bagian|bidang|seksi|sie|departemen|koordinator|pokja|komite|kepala|ketua|dewan|unit|satgas)"
    r"\s+[\w-]+|wali\s+(?:kelas\s+\w+|kelas|murid)|sekretariat|sekretaris|bendahara|panitia|humas|karang\s+taruna|pengurus|wali\s+kelas|komite"
    r"|logistik|perlengkapan|admin|operator|hrd?|finance|legal|marketing|purchasing|qa|pkk|kesiswaan"
    r"|(?:the\s+)?(?:treasurer|secretary|chair(?:man|woman|person)?))"
)
_CAPITAL: Final = r"[A-ZÀ-ÖØ-Þ][\w'’-]*"  # noqa: RUF001  # the apostrophe of software
_NO_NAME: Final = rf"(?!(?i:{'|'.join(sorted(_NO_NAMES))})(?!\w))"
_NAME: Final = rf"{_NO_NAME}(?!\w+nya\b|[A-Z]{{2,}}\b){_CAPITAL}(?:\s+{_NO_NAME}{_CAPITAL}){{0,2}}"
_TITLED: Final = rf"(?i:{_TITLE})\s+(?:(?i:{_OFFICE})(?!\w)|{_NAME})"
_JOIN: Final = re.compile(
    r"\s*(?:,|&|(?:,\s*)?\b(?:dan|sama|serta|bareng|bersama|karo|and|plus)\b)\s*", re.IGNORECASE
)
_TITLES: Final = re.compile(rf"(?:{_TITLE}|S\.\w+\.?|M\.\w+\.?)(?!\w)", re.IGNORECASE)
_PART: Final = re.compile(r"[^\W\d_][\w'-]+")
_FEWEST_LETTERS: Final = 3
_MOST_SPEAKERS: Final = 200
_MOST_NAMES: Final = 5
# Words that are short for nobody.
_NO_CALLS: Final = frozenset(
    """
    aja ada ah an and apa ar at ayo bro bos boss cek deh di do dong eh em en er go gue guys he hi in is
    ke la lah loh ma me min nah ni nih no nya oh ok on or pas ri sa sama san se si sih so sudah ta tapi
    to tuh udah us wa we ya yah yuk mas mbak pak bu kak bang ibu bapak all team semua kan min sis may
    can will
    """.split()  # noqa: SIM905  # a list of words is read as words
)
_LAST: Final = re.compile(
    rf"(?:(?P<comma>,)|\b(?:ya|yah|dong|please|oke"
    rf"|thanks))\s+(?P<name>(?:{_TITLE}\s+)?[^\W\d_][\w'-]*)[.!?\s]*$",
    re.IGNORECASE,
)


@frozen
class Found:
    """People that a text names one after the other, up to `end`; `is_known` unless all are strangers."""

    names: tuple[str, ...]
    end: int
    is_known: bool

    @property
    def owner(self) -> str:
        """The names as an owner."""
        return ", ".join(self.names)


@define
class People:
    """Finds people in the sentences of a meeting by its speakers' names."""

    speakers: tuple[str, ...]
    _person: re.Pattern[str] = field(init=False)
    _first_names: tuple[str, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        parts = [_parts(name) for name in dict.fromkeys(self.speakers[:_MOST_SPEAKERS])]
        self._first_names = tuple(dict.fromkeys(each[0] for each in parts if each))
        ranked = sorted({part for each in parts for part in each}, key=lambda part: (-len(part), part))
        usual = "|".join(re.escape(part) for part in ranked if part.casefold() not in _NO_NAMES)
        rare = "|".join(re.escape(part) for part in ranked if part.casefold() in _NO_NAMES)
        spoken = "|".join(filter(None, (f"(?i:{usual})" if usual else "", rare)))
        of_speakers = rf"(?:(?i:{_TITLE})\s+)?(?:{spoken})(?!\w)|" if spoken else ""
        self._person = re.compile(
            rf"(?P<known>{of_speakers}{_TITLED}|(?i:{_ROLE})(?!\w))|(?P<stranger>{_NAME})"
        )

    def at(self, text: str, begin: int, *, strangers: bool = True) -> Found | None:
        """Find the people that are named at a place; `strangers` admits capitalised words."""
        names: list[str] = []
        is_known, end = False, begin
        while len(names) < _MOST_NAMES and (found := self._person.match(text, begin)):
            if found["known"] is None and not strangers:
                break
            names.append(found[0].removeprefix("the "))
            is_known, end = is_known or found["known"] is not None, found.end()
            joint = _JOIN.match(text, end)
            if joint is None:
                break
            begin = joint.end()
        return Found(tuple(names), end, is_known) if names else None

    def called_at(self, text: str, begin: int) -> Found | None:
        """Find a speaker who is called by the beginning or the end of a first name."""
        found = _PART.match(text, begin)
        if found is None or (word := found[0].casefold()) in _NO_CALLS or word in _NO_NAMES:
            return None
        if any(name.casefold() == word for name in self._first_names):
            return None
        names = [name for name in self._first_names if name.casefold().startswith(word)] or [
            name for name in self._first_names if name.casefold().endswith(word)
        ]
        if len(names) != 1:
            return None
        joint = _JOIN.match(text, found.end())
        others = self.at(text, joint.end(), strangers=False) if joint and "," not in joint[0] else None
        if others is not None:
            return Found((names[0], *others.names), others.end, is_known=True)
        return Found((names[0],), found.end(), is_known=True)

    def called_last(self, text: str) -> Found | None:
        """Find somebody who is called at the end of a sentence: "…, Bob?", "… ya Ky"."""
        found = _LAST.search(text)
        if found is None:
            return None
        begin = found.start("name")
        named = self.called_at(text, begin) or self.at(text, begin, strangers=found["comma"] is not None)
        return named if named is not None and named.end == found.end("name") else None


def _parts(speaker: str) -> list[str]:
    """Return the words of a speaker's name without titles, degrees and what follows a comma or a slash."""
    name = re.split(r"[,/(|]", speaker, maxsplit=1)[0]
    words = [word for word in _PART.findall(_TITLES.sub(" ", name)) if len(word) >= _FEWEST_LETTERS]
    return words[:3]
