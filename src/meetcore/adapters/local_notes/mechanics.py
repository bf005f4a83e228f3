"""Tell what is said to run a meeting, and small talk, from what the meeting is about."""

import re
from typing import Final

# Beginnings of requests that are over when the meeting is.
_RUNS: Final = re.compile(
    r"""(?:bantu\s+)?(?:di)?(?:(?:per)?besar|(?:per)?jelas|kirim(?:kan)?\s+salam|salam|maaf|izin|ijin|perhatian|maklum|tenang|(?:ber)?sabar|diam|tunggu|ulang|doa|duduk|mulai|lanjut|silakan|bicara|ngomong
    |dengar|denger|simak|cermati|perkenal|hening|fokus|jawab|tanggap|besar|kecil|keras|mute|unmute
    |matikan\s+(?:mik|mic|kamera|suara)|hadir
    |raise|angkat\s+tangan|standby|stand\s+by|gabung|join|berdiri|berdoa|mengheningkan|tertib|ketik
    |tulis\s+di\s+(?:chat|kolom)|lihat|liat|diperhatikan
    |waktu(?:nya)?|tepat\s+waktu|koreksi(?:nya)?(?:\s+kalau)?|masukan(?:nya)?|pencerahan|arahan|tanggapan
    |pendapat|saran|dukungan(?:nya)?\s*[.!]*$|kerja\s*sama(?:nya)?|bantuan(?:nya)?\s*[.!]*$
    |diingat|ingat\s+ya|pelan|agak|gantian|bergantian|satu-satu|ditutup|dibuka|dimulai|diterima
    |dimengerti|dipahami|dimaafkan|dimaklumi|dibantu\s*[.!]*$|catat\s+ya\b
    |jangan\b(?!\s+lupa)|(?:di)?catat(?:\s+(?:ya|dulu|pak|bu)\b|\s*[.!]*$)
    |find\s+(?:it|the|that|them|my|attached)\b(?=.*\b(?:on|in|attached|below|here)\b)|put\s+the\s+kettle
    |pamit|duluan|close\s+the\s+(?:window|door)|call\s+you\s+back|add\s+to\s+that|follow\s+your
    |(?:try|do)\s*[.!]*$|please\b|ucapkan|rekam|speak\s+first
    |pick\s+up\s+(?:his|her|my|the)\s+(?:kid|child|son|daughter)
    |take\s+(?:a\s+)?(?:short\s+|quick\s+)?break
    |(?:laporan|penjelasan|paparan|sambutan)(?:nya)?\s+dari\b|hear|see|repeat|say|speak\s+up|bear|hold
    |wait|note\s+that|welcome|be\s+quiet|be\s+patient|excuse
    |explain|look\s+at\s+(?:the|my|this)|go\s+(?:ahead|on|first|back)|introduce
    |continue|start|begin|stop|tell\s+(?:us|me)|walk\s+(?:us|me|you)|show\s+(?:us|me|you)|share\s+(?:your
    |my|the|his|her|a)\s+(?:screen|slides?)|turn\s+(?:on|off)|take\s+a\s+(?:seat|look|break)
    |give\s+(?:me|us)\s+(?:a|one|your)|let\s+(?:me|us)|have\s+a|type|sit|move\s+on|keep\s+it|remember
    |imagine|think|be\b|read\s+(?:it|that|this)?\s*(?:out|aloud)|jump|come|talk\s+(?:about|us|me|through)
    |leave|miss|need|never|not\b|grab|put\s+(?:it|that)\s+in\s+the\s+chat|hand\s+(?:it\s+)?over|pass|get\s+(?:back\s+to\s+(?:that|this|it|the\s+agenda)|started)|ask\s+a\s+question|take\s+that\s+as)""",
    re.IGNORECASE | re.VERBOSE,
)
_ABOUT: Final = re.compile(
    r"\b(?:mikrofon|mikrofonnya|microphone|mic(?:nya)?|mik|mute|unmute|suara(?:nya)?|kamera(?:nya)?"
    r"|camera|layar(?:nya)?|share\s*screen|screen\s*share"
    r"|bagikan\s+layar|bagi\s+layar|volume(?:nya)?|sinyal(?:nya)?|koneksi(?:nya)?|earphone|headset"
    r"|kedengeran|kedengaran|putus-putus|raise\s+hand|your\s+screen|my\s+screen"
    r"|breakout|waiting\s+room|doanya|mendoakan|doakan|berdoa|tepuk\s+tangan)\b",
    re.IGNORECASE,
)
# To say something now, unless it is for a later day or for somebody else.
_SAYS: Final = re.compile(
    r"(?:me|di|ny)?(?:n?jelas|ny?ampai|sampai|papar|maparkan|baca|bacakan|tampil|nampil|cerita|present"
    r"|terang|nerang|bahas|mbahas|laporkan|sebut|nyebut|kata|ngomong|bilang|tanggap|mperkenal"
    r"|jelasin|cek\s+(?:suara|mic)|tambahkan|komentar|pimpin|mimpin|buka|tutup)\w*",
    re.IGNORECASE,
)
_TO_SOMEBODY: Final = re.compile(r"\b(?:ke|kepada|pada|to)\s+\w", re.IGNORECASE)
_SMALL_TALK: Final = re.compile(
    r"\b(?:halo+|hai|hi|hello|hey|selamat\s+(?:pagi|siang|sore|malam|datang|istirahat)|good\s+(?:morning"
    r"|afternoon|evening)|assalam\w*|wa+'?alaikum\w*|terima\s+kasih|makasih|thanks|thank\s+you"
    r"|maaf|sori|sorry|kedengeran|kedengaran|terdengar|keliatan|kelihatan|share\s+screen|bentar|sebentar"
    r"|wkwk\w*|haha\w*|macet|hujan|laper|lapar|makan\s+siang|kopi|bye|see\s+you|sampai\s+jumpa"
    r"|weekend|you're\s+on\s+mute|can\s+you\s+hear|good\s+luck|kucing|anak\s+saya|suaranya|mikrofon\w*"
    r"|layar\w*|amin|semoga|insya\w*)\b",
    re.IGNORECASE,
)


def is_mechanics(task: str, sentence: str) -> bool:
    """Return whether a task is about the running of the meeting itself."""
    return _RUNS.match(task) is not None or _ABOUT.search(sentence) is not None


def is_said_now(task: str, *, is_mine: bool) -> bool:
    """Return whether a task is to say something, which is done at once unless it is for others."""
    return _SAYS.match(task) is not None and (is_mine or _TO_SOMEBODY.search(task) is None)


def is_small_talk(text: str) -> bool:
    """Return whether a sentence is of greeting, thanks, the equipment or the weather."""
    return _SMALL_TALK.search(text) is not None or _ABOUT.search(text) is not None
