"""Verbs of tasks in Indonesian and English, and what is said to run a meeting, which is no task.

Indonesian verbs are kept as stems. Their forms, with the prefixes of the language and of Jakarta's
("mengirimkan", "ngirimin", "di-review"), are made once.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Final

# Their bare form is an imperative, too.
_STEMS: Final = """
    itung matur narik
    ajak ambil analisa analisis antar atur audit bagi balas bales bantu bawa bayar beli bikin booking
    book briefing buat buka bungkus cari catat cek cetak cicil copot cover deploy desain download draft
    edit eksekusi ekspor email evaluasi export finalisasi fix follow followup forward foto ganti garap
    hapus handle hitung install instal integrasi investigasi jaga jahit japri jemput jilid jual kaji
    kelola kirim konfirmasi kontak koordinasi merge migrasi monitor nego panggil pantau pasang patch
    pegang pelajari periksa perbaiki perbarui pesan pilih pimpin pinjam posting print proses publish
    push rangkum rawat rekap rekrut reschedule reset restart revisi review riset rilis rollback salin
    sebar servis set setor setup sewa share simpan sortir submit susun tagih tambah tanya tarik tawar
    telepon telpon tes test tinjau transfer tulis uji undang unduh unggah update upload urus validasi
    verifikasi wawancara cat bor las semprot sembelih dekor hias latih bimbing angkut lobi blast info
    list
""".split()  # noqa: SIM905  # a list of words is read as words
# Verbs with a prefix or a suffix only.
_BOUND_STEMS: Final = """
    koordinasi acc aju alih aktif alokasi aman anggar arsip banding beres benah beri bersih cair data daftar
    diskusi dokumentasi edar eskalasi gelar hubung identifikasi imbau info inform ingat inget input
    inventaris isi jadwal kabar kasih kelar kerja keluar komunikasi kondisi konsultasi kumpul kunjung
    laku laksana lampir lapor lengkap list luncur oper olah order pasti perbanyak pertimbang persiap
    potong publikasi rancang rapi rapih realisasi rumus sambung sampai sedia sekat selenggara selesai
    serah serta siap siar sosialisasi sunting survei survey tampil tanda tata telusur temu tempel tengok
    terbit terjemah terus tindak tindaklanjut tandatangan umum waspada wakil tangan tugas
""".split()  # noqa: SIM905  # a list of words is read as words
_SUFFIXES: Final = ("", "kan", "in", "i")
_NASALS: Final = {"k": ("meng", "ng"), "t": ("men", "n"), "s": ("meny", "ny"), "p": ("mem", "m")}
_PREFIXES: Final = {
    **dict.fromkeys("aiueogh", ("meng", "ng")),
    **dict.fromkeys("bfv", ("mem", "m")),
    **dict.fromkeys("cdjz", ("men", "n")),
    **dict.fromkeys("lmnrwy", ("me",)),
}


def _forms(stem: str, *, is_free: bool) -> Iterator[str]:
    """Make the active, passive and imperative forms of a stem."""
    whole = [
        f"di{stem}",
        f"nge{stem}",
        f"menge{stem}",
        f"me{stem}",
        f"meng{stem}",
        f"ng{stem}",
        f"mem{stem}",
        f"men{stem}",
    ]
    whole += [] if is_free else [f"ber{stem}"]
    whole += [f"{prefix}{stem}" for prefix in _PREFIXES.get(stem[0], ())]
    whole += [f"{prefix}{stem[1:]}" for prefix in _NASALS.get(stem[0], ())]
    if stem[0] == "c":
        whole.append(f"ny{stem[1:]}")  # nyari
    yield from (f"{form}{suffix}" for form in whole for suffix in _SUFFIXES)
    yield from (f"{stem}{suffix}" for suffix in _SUFFIXES if suffix or is_free)


_FORMS: Final = frozenset(
    chain(
        chain.from_iterable(_forms(stem, is_free=True) for stem in _STEMS),
        chain.from_iterable(_forms(stem, is_free=False) for stem in _BOUND_STEMS),
    )
) - {"pasti", "siapi", "umumi", "mesin", "tangani", "dari", "kasihi", "tugasi", "amani", "infoin"} | {
    "nangani", "menangani", "tangani", "ditangani", "infoin", "pasti-in",
}  # fmt: skip
_ENGLISH: Final = frozenset(
    """
    add address adjust align announce approve arrange ask assign attach audit back block book bring
    build buy calculate call cancel change chase check circulate clean clear close collect compile
    complete configure confirm contact coordinate copy correct create cut debug define deliver deploy
    design distribute document double-check draft draw drop edit email escalate estimate evaluate file
    fill finalize finalise find finish fix follow forward gather get give hand handle help hire
    implement inform install interview investigate invite issue launch lead line link list look loop
    maintain make manage measure merge message migrate monitor move negotiate notify open order organize
    organise own paint pay phone pick ping plan post prep prepare print process produce propose provide
    publish pull purchase push put raise reach rebook recruit redesign redo remind remove renew rent
    reorder repair replace reply report request research reserve reset resolve respond restart review
    revise rewrite roll run schedule secure sell send set set-up share ship sign sort speak submit
    summarize summarise support sync take talk tell test track train transfer translate try update
    upgrade upload verify visit wrap write bake bill carry chase compare cook count decorate deposit
    drive explore export import extend fetch grade inspect invoice log map mark mock onboard
    outline pack pilot pitch
    proofread prototype quote rank reconcile refine refund register release rename restore rotate scan
    scope serve settle sketch source swap tag teach tidy trim tune unblock validate wash water weigh
    wire
    """.split()  # noqa: SIM905  # a list of words is read as words
)
_FREE: Final = frozenset(_STEMS)
_WORD: Final = re.compile(r"[^\W\d_][\w'-]*")


def is_verb(word: str) -> bool:
    """Return whether a word is a verb of a task in Indonesian."""
    plain = word.casefold().replace("-", "").removesuffix("lah").removesuffix("nya")
    return plain in _FORMS


def is_free(word: str) -> bool:
    """Return whether a word is a bare stem, by which people also say what somebody does anyway."""
    return word.casefold() in _FREE


def is_english_verb(word: str) -> bool:
    """Return whether a word is the base form of a verb of a task in English."""
    plain = word.casefold()
    return plain in _ENGLISH or (plain.startswith("re") and plain[2:].removeprefix("-") in _ENGLISH)
