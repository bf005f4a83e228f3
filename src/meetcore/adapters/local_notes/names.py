"""Names in a sentence.

A word with a capital is a name unless it is one of the words that sentences begin with. Owns the list of
those, and the patterns.
"""

from typing import Final

_NO_NAMES: Final = frozenset(
    """
    acara ada agar agenda aku anda anggaran apa apakah atau bagaimana baik baiklah barang berarti besok
    biaya bisa boleh bulan coba dan dari data deadline dengan di dia dokumen dua gue hal harga hari
    harus hasil ini itu iya jadi jangan jika jumlah kalau kalian kalo kami kamu kapan karena kemarin
    kemudian keputusan kita lalu laporan lo lu maaf makanya mari masalah mereka minggu mohon mungkin nah
    namun nanti ok okay oke padahal pagi pasar pekan pelanggan pembayaran perusahaan produk proyek rapat
    rencana ruangan saat saya sebelum sebenarnya selamat selanjutnya semoga semua sepertinya server
    setelah setuju siang siapa silakan sip sistem sore sudah supaya tadi tahun tampaknya tapi tentu
    terima tetapi tidak tiga tolong uang untuk usulan versi waktu ya yang

    a actually after agreed all alright also and another any anybody anyone anything are as at because
    before but can could customers demand did do does either english even every everybody everyone
    everything exactly finally fine first for from good great he hello her here hers hey hi his
    hopefully how however i if in indeed is it its just let let's lets look maybe meanwhile meeting more
    most much my next no nobody none not nothing now of ok on once one only or our ours people perhaps
    please prices probably project rain really right sales she should since so some somebody someone
    something sorry still sure thank thanks that the their them then there these they things this those
    though thus to today tomorrow tonight two unless until us users very wait we well what whatever when
    where whether which while who whoever why will with would yeah yes yesterday yet you your yours
    """.split()  # noqa: SIM905  # a list of words is read as words
)
_TITLE: Final = r"(?:Pak|Bu|Bapak|Ibu|Mas|Mbak|Kak|Bang|Bung|Mr\.?|Mrs\.?|Ms\.?|Dr\.?)"
_WORD: Final = r"[A-ZÀ-ÖØ-Þ][\w'’-]*"  # noqa: RUF001  # the apostrophe of software
_NO_NAME: Final = rf"(?!(?i:{'|'.join(sorted(_NO_NAMES))})\b)"
NAME: Final = rf"{_NO_NAME}(?:{_TITLE}\s+)?{_WORD}(?:\s+{_WORD}){{0,2}}"
"""A pattern of a name, with a title or without."""

_TEAM: Final = r"(?:[Tt]im|[Dd]ivisi|[Bb]agian)\s+[\w-]+|[Tt]he\s+(?:[\w-]+\s+){1,2}team"
WHO: Final = rf"(?:{_TEAM}|{NAME})"
"""A pattern of a name or of a team."""
