"""The patterns of action items: requests, duties, promises, and what is given to somebody.

A pattern for the beginning of a clause has the groups `task` and `verb`, where a form needs them.
"""

import re
from typing import Final


def _compiled(form: str) -> re.Pattern[str]:
    return re.compile(form, re.IGNORECASE)


# Where a clause can begin, and what stands before its first word.
BEGINS: Final = _compiled(
    r"[,;:.!?…]\s+|\b(?:dan|terus|trus|lalu|kemudian|jadi|untuk|buat|tapi|bahwa|sekalian|sementara|maka"
    r"|berarti|putuskan"
    r"|begitu|gitu|sepakat|biar|so|and|then|but|that|agreed|also)\s+"
)
FILLERS: Final = _compiled(
    r"(?:(?:oke+|ok|okay|ya|yah|nah|eh|oh|baik|baiklah|sip|siap|terus|trus|jadi|u?dah|yaudah|sudah|so"
    r"|well|alright|right|all"
    r"|great|good|thanks|thank\s+you|and|then|also|but|now|(?-i:dan)|lalu|iya|hmm|um|uh|anyway|wah|halo"
    r"|mungkin|maybe|perhaps"
    r"|tapi|coba|lagi|satu\s+lagi|oh\s+iya|berarti|kalau\s+begitu|kalo\s+gitu|untuk\s+sementara|sementara"
    r"|sekalian|guys|setuju"
    r"|perfect|fine|sure|makasih|terima\s+kasih|by\s+the\s+way|btw|selanjutnya|berikutnya|next|sama|itu"
    r"|ini|kepada|seluruh|para|(?:nanti|ntar|entar)(?!\s+(?:siang|sore|malam|malem))|(?:untuk"
    r"|buat)(?=\s+(?:pak|bu"
    r"|bapak|ibu|tim|mas|mbak)\b))\b[\s,.:]*)*+"
)
AFTER_NAME: Final = _compiled(
    r"(?P<comma>\s*[,:])?\s*(?:(?:ya|nih|dong|deh|juga|sekalian|nanti|ntar|aja|saja)\b[\s,]*)*+"
)
_SOFTLY: Final = (
    r"(?:(?:untuk|utk|agar|supaya|segera|dapat|bisa|atas|juga|langsung|sekalian|dulu|ya|buat|kindly"
    r"|please|just|also|to"
    r"|be\s+sure\s+to|make\s+sure\s+to|nanti|dong|berkenan|mulai(?=\s+me)|membantu\s+untuk|minta)\s+)*+"
)
_PLEASE_ID: Final = (
    r"(?:(?:bisa|boleh|saya|gue|aku|kami|minta)\s+)*+(?:tolong(?:in)?|mohon|harap|jangan\s+lupa|pastikan"
    r"|minta\s+tolong)"
)
_YOU_EN: Final = (
    r"(?:could|can|would)\s+you(?:\s+guys|\s+all|\s+both)?|(?:can|could)\s+(?:someone|somebody"
    r"|anyone)|would\s+you\s+mind|I\s+need\s+you\s+to"
    r"|I'd\s+like\s+you\s+to"
)
_PLEASE_EN: Final = (
    rf"(?:please|pls|kindly|{_YOU_EN}|it\s+would\s+be\s+(?:great|good|nice)\s+if\s+you\s+(?:could|can)"
    rf"|make\s+sure\s+(?:to|that|you|we)"
    r"|don't\s+forget\s+to|remember\s+to|I'd\s+appreciate\s+it\s+if\s+you\s+could|if\s+you\s+could)"
)
_DUTY_ID: Final = (
    r"(?:agar|supaya|dimohon(?:kan)?|diharap(?:kan)?|dimintai?|ditugaskan|ditugasi|ditunjuk|diwajibkan"
    r"|bertugas|bertanggung\s+jawab"
    r"|wajib|harus|perlu|mesti|musti|kudu|mohon\s+(?:agar|untuk)|saya\s+(?:minta|mohon|tugaskan"
    r"|harap(?:kan)?)|gue\s+minta|kami\s+(?:minta|mohon|harap(?:kan)?)"
    r"|kita\s+minta|(?:PR|tugas)[-\s]?nya)"
)
_DUTY_EN: Final = (
    r"(?:needs?\s+to|ha(?:s|ve)\s+to|must|should|is\s+responsible\s+for|are\s+responsible\s+for"
    r"|is\s+in\s+charge\s+of|was\s+asked\s+to"
    r"|is\s+to|are\s+to|is\s+on\s+the\s+hook\s+for|your\s+(?:task|job)\s+is\s+to|you(?:'re"
    r"|\s+are)\s+(?:responsible\s+for|in\s+charge\s+of)|takes?\s+care\s+of"
    r"|will\s+take\s+care\s+of|is\s+going\s+to\s+take\s+care\s+of|is\s+supposed\s+to)"
)
ASKED: Final = _compiled(
    rf"(?:{_PLEASE_ID}|{_PLEASE_EN}|{_DUTY_ID}|{_DUTY_EN}|coba(?=\s+\w))\s+{_SOFTLY}(?P<task>\S.*)"
)
STRONG: Final = _compiled(
    rf"(?:{_PLEASE_ID}|{_PLEASE_EN}|agar|supaya|dimohon|diharap|diminta|ditugas|saya\s|kami\s)"
)
WILL: Final = _compiled(
    r"(?:(?:akan|bakal|yang|yg|segera|langsung|nanti|ntar|bisa|bantu|coba|aja|saja|dulu"
    r"|dan)\s+)*+(?P<task>(?P<verb>[^\W\d_][\w-]*).*)"
)
WILL_EN: Final = _compiled(
    r"(?:'ll|will|(?:'s|\s*is|\s*are)\s+going\s+to|can|could)\s+(?:then\s+|also\s+|just\s+"
    r"|probably\s+)?(?P<task>(?P<verb>[\w-]+).*)"
)
OWNS: Final = _compiled(
    r"(?:will\s+)?(?:owns?|handles?|takes?(?:\s+over)?|drives?|leads?|looks?\s+after"
    r"|deals?\s+with)\s+(?P<task>(?:the|that|this|our|all|both)\b.*)"
)
TO: Final = _compiled(r"to\s+(?P<task>(?P<verb>[\w-]+).*)")
BASE: Final = _compiled(r"(?:then\s+|also\s+|just\s+)?(?P<task>(?P<verb>[\w-]+).*)")
PASSIVE: Final = _compiled(r"(?P<task>(?:[\w-]+\s+){0,4}(?:juga\s+)?(?P<verb>di-?[\w-]+).*)")
YOU: Final = _compiled(
    r"(?:lo|lu|elo|elu|kamu|anda|kalian|you)\s+(?:(?:yang|yg|aja|saja|juga|bisa|tolong|harus|nanti"
    r"|langsung|coba|bantu|dulu|should|need\s+to|can|could|will|have\s+to)\s+)*+(?P<task>(?P<verb>[\w-]+).*)"
)
FRONTED_YOU: Final = _compiled(
    r"(?P<task>\S.*?\b(?:lo|lu|elo|kamu)\s+(?:(?:yang|yg|aja|bisa|harus|nanti)\s+)*+(?P<verb>[\w-]+).*)"
)
ASKS_NAME: Final = _compiled(
    r"(?:(?:saya|gue|gw|aku|kami|kita)\s+)?(?:minta\s+tolong|jangan\s+lupa|tolong|mohon(?:\s+bantuan)?|minta"
    r"|harap(?:kan)?|tugaskan|menugaskan|suruh|meminta"
    r"|I'd\s+like|I\s+want|I\s+need|let's\s+(?:have|ask|get)|let\s+us\s+(?:have|ask)|could|can"
    r"|please\s+(?:have|ask|get)|we\s+need|maybe)\s+"
    r"(?:(?:tolong|kepada|ke|sama|dong|kiranya|sekiranya|juga|agar|supaya|untuk|buat)\s+)*+"
)
UNOWNED: Final = _compiled(
    rf"(?:{_PLEASE_ID}|dimohon|diharapkan|mohon\s+(?:bantuannya|kesediaannya|dukungannya)(?:\s+untuk)?"
    rf"|{_PLEASE_EN})\s+{_SOFTLY}(?P<task>\S.*)"
)
LABEL: Final = _compiled(r"(?:action(?:\s+items?)?|to-?do|tindak\s+lanjut)\s*:\s*(?P<task>\S.*)")
ITS_TASK: Final = _compiled(r"(?:tugas|PR|pekerjaan\s+rumah)\s+(?:untuk\s+|buat\s+)?")
MY: Final = _compiled(
    r"\b(?P<lead>(?:(?:biar|nanti|ntar|entar|akan|bakal|langsung)\s+)*+)(?:saya|gue|gua|gw|aku|ane)\s+"
    r"(?P<mark>(?:(?:yang|yg|akan|bakal|nanti|ntar|entar|langsung|bantu|membantu|segera|aja|saja|juga"
    r"|coba|sendiri|dulu)\s+)*+)(?P<task>(?P<verb>[^\W\d_][\w-]*).*)"
)
MY_EN: Final = _compiled(
    r"\bI(?:'ll|\s+will|'m\s+going\s+to|\s+am\s+going\s+to|'m\s+gonna|\s+can|\s+shall)\s+(?:then\s+"
    r"|also\s+|just\s+|go\s+ahead\s+and\s+)?(?P<task>(?P<verb>[\w-]+).*)"
)
HAVE_READY: Final = _compiled(r"have\s+(?:\w+\s+){1,6}(?:ready|done|finished|prepared)\b")
ONLY_ME: Final = _compiled(
    r"(?:(?:biar|akan|bakal|saya|gue|gua|gw|aku|ane|yang|yg|I'll|I|will|juga|coba)\s*)*+"
)
REPORTS: Final = _compiled(r"\s+(?:bahwa|kalau|kalo|soal|tentang|mengenai|that)\b")
GIVEN: Final = _compiled(
    r"\b(?:(?:jadi|menjadi|adalah|itu)\s+(?:tugas|tanggung\s+jawab|bagian|PR|urusan)(?:nya)?"
    r"|(?:di-?\w+)\s+(?:oleh|sama|ama)"
    r"|(?:di-?handle|ditangani|diurus|dipegang|dikerjakan|dikerjain|dikoordinir)"
    r"|(?<!kita\s)(?:(?:di)?serahkan|percayakan|serahin|kasih|delegasikan|titip(?:kan)?)\s+"
    r"(?:(?:ini|itu|saja|aja)\s+)*(?:kepada|ke|sama|pada)|(?:PIC|penanggung\s+jawab"
    r"|koordinator)(?:[-\s]?nya)?(?:\s+(?:untuk|buat)(?:\s+\w+){1,3}?)?(?:\s+adalah|\s+itu|\s*:)?|biar"
    r"|assign(?:ed|in)?\s+(?:this\s+|that\s+|it\s+)?(?:to|ke)|need\s+(?:\w+\s+){1,6}from|(?:is|are"
    r"|be)\s+on)\s+"
)
WE_ID: Final = _compiled(r"\b(?:kita|kami)\s+(?:harus|perlu|wajib|mesti)\s+(?P<task>\S.*)")
WE_EN: Final = _compiled(
    r"\b(?:we|someone|somebody)\s+(?:needs?\s+to|must|ha(?:ve|s)\s+to|should)\s+(?P<task>\S.*)"
)
MUST_BE: Final = _compiled(
    r"(?P<task>\S.*?\b(?:(?:harus|perlu|wajib|mesti|agar|harap|mohon|segera)\s+(?:sudah\s+"
    r"|segera\s+)?(?P<verb>di-?\w+)"
    r"|(?:needs?\s+to|must|has\s+to|have\s+to|should)\s+be\s+(?:\w+ed|sent|done|made|built|sold|bought"
    r"|written|paid))\b.*)"
)
# What happened, or happens as a rule, shortly before its verb.
DONE: Final = _compiled(
    r"\b(?:sudah|udah|udh|telah|tadi|kemarin|kemaren|pernah|barusan|lagi|sedang|masih|biasanya|selalu"
    r"|sering|belum|tidak|nggak|gak|ga"
    r"|enggak|ndak|bukan|jangan|kalau|kalo|jika|apakah|siapa|already|yesterday|if|when|who|not"
    r"|never)\s+(?:\w+\s+){0,2}$"
)
WAS: Final = _compiled(
    r"\b(?:kemarin|kemaren|tadi|tahun\s+lalu|bulan\s+lalu|minggu\s+lalu|waktu\s+itu|dulu\s+(?:pernah"
    r"|waktu)|yesterday|last\s+(?:week|month|year|time))\b"
)
ACCEPTS: Final = _compiled(
    r"(?:siap|oke+|okay|ok|baik|sip|beres|bisa|noted|sure|will\s+do|yep|yes|yup|got\s+it|on\s+it"
    r"|of\s+course|happy\s+to|no\s+problem"
    r"|boleh|iya|ya|nggih|inggih|gas|aman|understood|hadeh|gampang|laksanakan|dengan\s+senang|absolutely"
    r"|mantap|insya\w*)\b"
)
MARKS: Final = " \t\n,;:.!?…\"'"
TAIL: Final = re.compile(
    r",?\s+(?:ya|yah|dong|deh|please|pak|bu|oke|okay|thanks|terima\s+kasih|latest|at\s+the\s+latest)$",
    re.IGNORECASE,
)
# Each form needs one of these, or the verb of a task: a cheap filter for most sentences.
SIGNS: Final = _compiled(
    r"tolong|mohon|harap|minta|pasti|lupa|please|pls|kindly|agar|supaya|tugas|tunjuk|jawab|wajib|harus"
    r"|perlu|mesti|musti|kudu|coba"
    r"|need|must|should|has|have|responsible|charge|care|to-?do|action|tindak|\bpr\b|pic|biar|serah|kasih"
    r"|titip|assign|from|hook"
    r"|percaya|oleh|sama|own|you\b"
)
WORD: Final = re.compile(r"[^\W\d_][\w-]*")
AFTER_DUE: Final = re.compile(r"(?:[\s,]|\b(?:ya|ini)\b)*+")
REMINDS: Final = _compiled(r"\bjangan\s+lupa\s+$")
STATES: Final = _compiled(r"^(?:belum|sudah|udah|ternyata|not\s+yet|already)\b|,\s*(?:udah|sudah|already)\b")
BY_ME: Final = _compiled(r"(?:saya|gue|kami|kita)\b")
THE: Final = _compiled(r"(?:the|a|an|me\w+|pe\w+)\b")
NO_DUTY: Final = _compiled(
    r"(?:di\w+|ada|lebih|be\b|have\b|not\b|tidak|jadi|menjadi|tau|tahu|ngerti|mengerti|paham|mau|ingin"
    r"|sabar|sehat|istirahat|pulang|hadir|datang|ikut|sangat|naik|turun"
    r"|get\s+(?:better|well)|know|understand|feel|like|want)\b"
)
AND_ME: Final = _compiled(
    r"\s+(?:and|dan|sama|bareng)\s+(?:I|me|saya|gue|gw|aku)\b(?!\s+(?:yang|yg|akan|kirim))"
)
CALL: Final = _compiled(r"\s*,|\s+(?:lo|lu|kamu|tolong|please|yang|coba|minta)\b")
COULD: Final = _compiled(
    r"(?:bisa|boleh)\s+(?:(?:gak|nggak|tidak|kan|bantu|tolong|minta"
    r"|ya)\s+)*+(?P<task>(?P<verb>[^\W\d_][\w-]*).*)"
)
ANSWERABLE: Final = _compiled(r"yang\s+(?:bertanggung|tanggung)\s+jawab|yang\s+in\s+charge")
WEAK: Final = _compiled(r"(?:bisa|aja|saja|dulu|coba|can|could)\b")
TAIL_YA: Final = _compiled(r"\b(?:ya|yah|dong)\b")
SOFT: Final = _compiled(_SOFTLY)
FIRM: Final = _compiled(r"\b(?:yang|yg|akan|bakal|nanti|ntar|entar|langsung|bantu|membantu|segera)\b")
CONDITION: Final = _compiled(r"\b(?:if|unless|when|once)\b")
ITS: Final = _compiled(r"\s*(?::|,|\badalah\b)\s*(?P<task>\S.*)")
TALKS: Final = _compiled(
    r"(?:(?:di|me)?(?:putus|bahas|mbahas|pilih|milih|sepakat|tentu|pikir|mikir)|discuss|decide|talk|think"
    r"|choose|agree)"
)
ONLY_DUE: Final = _compiled(
    r"[\s,.!]*(?:(?:ya|kalau\s+bisa|deadline(?:nya)?|tenggat(?:nya)?|ditunggu|maksimal|harus|selesai"
    r"|sudah|oke|please|ready|done|pak|bu|thanks)[\s,.!:]*)*+"
)
ALSO: Final = _compiled(r"\b(?:juga|also|sekalian)\b")
