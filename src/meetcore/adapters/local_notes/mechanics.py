"""Tell what is said to run a meeting, and small talk, from what the meeting is about."""

import re
from typing import Final

_ABOUT: Final = re.compile(
    r"\b(?:mikrofon|mikrofonnya|microphone|mic(?:nya)?|mik|mute|unmute|suara(?:nya)?|kamera(?:nya)?"
    r"|camera|layar(?:nya)?|share\s*screen|screen\s*share"
    r"|bagikan\s+layar|bagi\s+layar|volume(?:nya)?|sinyal(?:nya)?|koneksi(?:nya)?|earphone|headset"
    r"|kedengeran|kedengaran|putus-putus|raise\s+hand|your\s+screen|my\s+screen"
    r"|breakout|waiting\s+room|doanya|mendoakan|doakan|berdoa|tepuk\s+tangan)\b",
    re.IGNORECASE,
)
_SMALL_TALK: Final = re.compile(
    r"\b(?:halo+|hai|hi|hello|hey|selamat\s+(?:pagi|siang|sore|malam|datang|istirahat)|good\s+(?:morning"
    r"|afternoon|evening)|assalam\w*|wa+'?alaikum\w*|terima\s+kasih|makasih|thanks|thank\s+you"
    r"|maaf|sori|sorry|kedengeran|kedengaran|terdengar|keliatan|kelihatan|share\s+screen|bentar|sebentar"
    r"|wkwk\w*|haha\w*|macet|hujan|laper|lapar|makan\s+siang|kopi|bye|see\s+you|sampai\s+jumpa"
    r"|weekend|you're\s+on\s+mute|can\s+you\s+hear|good\s+luck|kucing|anak\s+saya|suaranya|mikrofon\w*"
    r"|layar\w*|amin|semoga|insya\w*)\b",
    re.IGNORECASE,
)


def is_mechanics(text: str) -> bool:
    """Return whether a sentence is about the equipment of the meeting itself."""
    return _ABOUT.search(text) is not None


def is_small_talk(text: str) -> bool:
    """Return whether a sentence is of greeting, thanks, the equipment or the weather."""
    return _SMALL_TALK.search(text) is not None or _ABOUT.search(text) is not None
