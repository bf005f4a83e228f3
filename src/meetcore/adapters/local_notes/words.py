"""The words of a text that carry its meaning, without the frequent words of Indonesian and English."""

import re
from typing import Final

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

    puluh belas ratus ribu juta miliar persen empat lima enam tujuh delapan sembilan sepuluh percent
    hundred thousand million four five six seven eight nine ten
    """.split()  # noqa: SIM905  # a list of words is read as words
)

_WORD: Final = re.compile(r"[^\W\d_](?:[\w'-]*\w)?")
_TERM: Final = re.compile(r"\w[\w'-]*")


def words_of(text: str) -> list[str]:
    """Return the words in lower case, without stop words and single letters."""
    found = (word.casefold() for word in _WORD.findall(text))
    return [word for word in found if word not in STOPWORDS and len(word) > 1]


def terms_of(text: str) -> frozenset[str]:
    """Return words and numbers by which two sentences are about the same thing, without endings."""
    found = (word.casefold() for word in _TERM.findall(text))
    ended = (word[:-3] if word.endswith("nya") and len(word) > 5 else word for word in found)
    return frozenset(word for word in ended if word not in STOPWORDS and (len(word) > 2 or word.isdecimal()))
