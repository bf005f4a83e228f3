"""The patterns of decisions, of what rules them out, and of what takes them back."""

import re
from typing import Final

_WE: Final = r"(?:kita|kami|semua(?:nya)?|peserta|tim|rapat|forum|musyawarah|warga|pengurus|direksi|panitia)"
_JUST: Final = (
    r"(?:\s+(?:semua|sudah|udah|telah|juga|sama-sama|akhirnya|ini|jadi|langsung|tetap|tetep|aja|saja))*"
)
# What is chosen, by "kita" and a conclusion before it or a particle behind it.
_CHOOSE: Final = (
    r"(?:pakai|pake|memakai|gunakan|gunain|pilih|memilih|ambil|tunda|undur|undurin|mundurin|majuin|geser"
    r"|batalkan"
    r"|batalin|cancel|stop|setop|hentikan|hentiin|rollback|jadikan|jadiin|hire|rekrut|terima|tolak|beli"
    r"|sewa|adakan"
    r"|naikkan|naikin|turunkan|turunin|pindah|pindahkan|pindahin|tambah|tambahkan|tambahin|kurangi"
    r"|kurangin|ganti"
    r"|pertahankan|pertahanin|hapus|tetapkan|tetapin|patok|bayar|lanjutkan|lanjutin|rilis|launching|pisah"
    r"|gabung"
    r"|gabungkan|gabungin|hidupkan|aktifkan|buka|tutup|libur(?:kan)?|approve|acc|go|sepakati|setujui"
    r"|mulai|balik"
    r"|kembali|coret|skip|drop|keep|bagi|potong|prioritaskan|prioritasin|fokus|serahkan|outsource|bangun"
    r"|perpanjang"
    r"|jual|tunjuk|charge|maju|tangguhkan|angkat|bebaskan|wajibkan|larang|perbaiki|renovasi|alokasikan"
    r"|anggarkan|lelang|migrasi|pangkas|ke|di|tetap|tetep|off|freeze|extend|reschedule|ubah|revisi)"
)
_SO: Final = (
    r"(?:oke+|ok|okay|baik(?:lah)?|sip|ya\s*u?dah|yaudah|ya\s+sudah|jadi(?:nya)?|berarti"
    r"|kalau\s+(?:be)?gitu|kalo\s+gitu"
    r"|dengan\s+demikian|kesimpulannya|fix|final|deal|gas|gaskeun|cus|nah|maka|pokoknya|intinya|setuju"
    r"|alhamdulillah)"
)
# Verbs of "kita" that lead the meeting or tell how things are.
_NO_CHOICE: Final = (
    r"(?:mau|akan|bakal|bisa|boleh|perlu|harus|mesti|belum|blm|tidak|tak|gak|nggak|ga|enggak|lagi|sudah"
    r"|udah|telah|masih|lihat|liat"
    r"|coba|tunggu|nunggu|mulai|bahas|lanjut\w*|masuk|buka|tutup|dengar\w*|denger\w*|cek|tanya\w*|kan|ini"
    r"|itu|semua|sebenarnya|juga|nanti"
    r"|dulu|punya|butuh|kurang|ada|dapat|dapet|kena|tau|tahu|ingin|pengen|emang|memang|kemarin|tadi|cuma"
    r"|hanya|baru|sering|pernah"
    r"|kembali|break|istirahat|berdoa|sambut|persilakan|ucapkan|kasih\s+tepuk|skip\s+ke|rugi|untung|telat"
    r"|terlambat|hampir|sekarang|yang"
    r"|minta|doakan|simak|diskusi\w*|bicara\w*|voting|rapat|meeting|sama|dan|pikir\w*|review|recap|rekap"
    r"|absen|kumpul\w*|ngobrol\w*|beri|kasih|tinggal|rehat|simpulkan|foto|makan|pulang|ketemu|usahakan)"
)
_LETS: Final = (
    r"(?:go\s+(?:with|for|ahead\s+with)|stick\s+(?:with|to)|use|choose|pick|postpone|keep|drop|hire"
    r"|cancel|adopt|settle\s+on"
    r"|move\s+(?:it|the\s+\w+)\s+to|push\s+(?:it|the\s+\w+)\s+(?:back\s+)?to|delay|switch\s+to"
    r"|stay\s+with|take\s+the|buy|do\s+(?!our\b|my\b|that\b|it\b(?!\s+(?:on|in|at)\b)|what\b)\w+)"
)
DECIDED: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?:(?:di|me)?putuskan|(?:di)?putusin|memutuskan|(?:di)?sepakati|menyepakati|(?:di)?setujui"
        r"|menyetujui"
        r"|(?:di|me)?tetapkan|menetapkan|ditetapin|disahkan|mengesahkan|ketok\s+palu|di-?(?:acc|approve))\b",
        r"\bkeputusan(?:nya)?(?:\s+(?:rapat|kita|hari\s+ini|akhir(?:nya)?))*\s*(?:adalah|ialah|:|,)",
        rf"\b{_WE}{_JUST}\s+(?:sepakat|setuju|deal|acc|approve|putus(?:kan|in)|sahkan|jadiin|jadikan"
        r"|tetapkan)\b",
        r"\bsepakat\s+(?:untuk|bahwa|kita|ya)\b",
        rf"^(?:{_SO}[\s,]+)+(?:[\w-]+\s+){{1,8}}(?:kita|kami)\s+(?!(?:ke|di|go|mulai|buka|tutup|tetap"
        rf"|tetep|kembali|balik|fokus|lanjut\w*"
        rf"|kurangi|bagi|off)\b){_CHOOSE}\b",
        rf"^(?:{_SO}[\s,]+)+(?:ya\s+)?(?:kita|kami|gue\s+setuju)\s+(?:jadi\s+|langsung\s+|tetap\s+"
        rf"|tetep\s+)?{_CHOOSE}\b",
        r"\b(?:we|they|team|board|everyone|everybody|committee|management)(?:'ve|'re|\s+have|\s+has"
        r"|\s+are|\s+all|\s+just)*"
        r"\s+(?:decided|agreed|resolved|settled\s+on|chose|chosen|approved|going\s+(?:with|for"
        r"|ahead\s+with))\b",
        r"\b(?:it\s+(?:is|was)|it's|that's|that\s+is|has\s+been|have\s+been|was|were|is"
        r"|are)\s+(?:hereby\s+|now\s+|finally\s+|all\s+)?"
        r"(?:decided|agreed|approved|resolved|settled|a\s+deal)\b",
        r"\b(?:the|our)\s+(?:final\s+)?decision\s+(?:is|was)\b|^(?:final\s+)?decision\s*[:,]\s*\w",
        r"\b(?:itu|ini|begitu)(?:lah)?\s+keputusan(?:nya)?\s+(?:kita|rapat|saya|bersama)\b",
        rf"^(?:{_SO}[\s,]+)*fix\s+(?!bug|the\b|it\b|this\b|dulu)(?:[\w.]+\s+){{1,8}}ya\b|\b(?:kita"
        rf"|we)\b.{{1,80}}[\s,]final[.!]*$",
        rf"^(?:{_SO}[\s,]+)+(?:[\w-]+,?\s+){{0,8}}(?:kita|kami)\s+(?!{_NO_CHOICE}\b)[^?]*\b(?:ya|yah|aja"
        rf"|saja|deh)\b[\s,.!]*(?:fix|final|deal|gais|guys|semua)?[.!]*$",
        r"^(?:[\w,.-]+\s+){3,14}(?:fix|final|deal|putus)\s*(?:ya|dong)?[.!]*$",
        r"\b(?:kita|kami)\s+\w+.{1,80}\bsetuju\s+(?:semua|ya)\b",
        r"[,;]\s*(?:so\s+)?(?:that's\s+|it's\s+)?(?:agreed|decided|settled|done\s+deal)[.!]*$",
        r"^(?:(?:ok(?:ay)?|all\s*right|alright|so|then|fine|great|good"
        r"|right)[\s,]+)+(?:[\w']+\s+){1,4}it\s+is(?:\s+then)?[.!,]*(?:$|\s+(?:so|we)\b)",
        r"\bmotion\s+(?:is\s+)?(?:carried|carries|passed|passes)\b",
        r"^(?:so\s+|ok(?:ay)?,?\s+|right,?\s+|good,?\s+|great,?\s+)*(?:decided|agreed|decision|approved"
        r"|settled)\s*[:,]\s*\w",
        r"\b(?:let's|let\s+us|we'll|we\s+will|we're\s+going\s+to|we\s+are\s+going\s+to)\s+(?:go"
        r"|stick)\s+(?:with|to)\b",
        rf"^(?:(?:ok(?:ay)?|all\s*right|alright|so|then|fine|great|good|right|well|yes|perfect"
        rf"|in\s+that\s+case)[\s,]+)+"
        rf"(?:let's|let\s+us|we'll|we\s+will|we're\s+going\s+to|we)\s+{_LETS}\b",
        rf"\b(?:we'll|we\s+will)\s+(?:{_LETS})\b(?!.*\blater\b)|\b(?:we'll|we\s+will|we)\s+(?:take|use|do"
        rf"|keep|go)\b.*\binstead\b",
    )
)
# Rules a decision out when shortly before it: denial, open point, wish, condition, future.
UNDECIDED: Final = re.compile(
    # "Kalau begitu" draws a conclusion.
    r"\b(?:belum|blm|belom|tidak|tak|bukan|nggak|gak|ga|enggak|ngga|jika|kal(?:au|o)(?!\s+(?:be)?gitu\b)"
    r"|apabila|bila"
    r"|seandainya|harus|perlu|akan|bisa|sebelum|menunggu|nunggu|supaya|agar|apakah|siapa|kapan|semoga|mau"
    r"|ingin|mari"
    r"|ayo|yang|nanti|ntar|entar|later|sudah\s+pernah|pernah|misalnya|boleh|usulkan|mengusulkan"
    r"|not|never|no|if|whether|unless|until|once|before|should|must|need|needs|to\s+be|will\s+be|can"
    r"|could|would|who"
    r"|haven't|hasn't|hadn't|isn't|aren't|wasn't|weren't|didn't|nothing"
    r"|nobody)\b(?:[^\w,;.:]+\w+){0,3}[^\w,;.:]*$",
    re.IGNORECASE,
)
# "All right, we send two people."
WE_DO: Final = re.compile(
    r"(?:(?:ok(?:ay)?|all\s*right|alright|right|fine|good|great|then|perfect)[\s,]+)+(?:so\s+"
    r"|then\s+)?we(?:'ll|\s+will)?\s+(?P<verb>[\w-]+)\s+\w",
    re.IGNORECASE,
)
WE_VERBS: Final = re.compile(
    r"(?:accept|adopt|keep|stay|use|choose|postpone|raise|lower|increase|reduce|split|end|allow|ban"
    r"|donate|spend|invest|skip|delay)$",
    re.IGNORECASE,
)
TALKS: Final = re.compile(
    r"(?:talk|get|know|see|hear|have|do|speak|look|check|take|move|start|close|open|follow|stop"
    r"|go)\b",
    re.IGNORECASE,
)
DENIED: Final = re.compile(
    r"\b(?:belum|blm|belom|tidak|nggak|gak|ga|bukan|harus|perlu|mau|nanti|not)\b", re.IGNORECASE
)
NO_OBJECTION: Final = re.compile(
    r"\b(?:tidak|nggak|gak|ga)\s+ada\s+(?:yang\s+)?(?:\w+\s+)?(?:keberatan|sanggah\w*|masukan)", re.IGNORECASE
)
PAST: Final = re.compile(
    r"\b(?:tahun|bulan|minggu|pekan|periode|rapat|pertemuan|sprint|kuartal"
    r"|semester)\s+(?:yang\s+)?(?:lalu|kemarin|kemaren"
    r"|sebelumnya|terdahulu)|\b(?:kemarin|kemaren|dulu(?=\s+(?:kita|kami|di|pernah|sudah|udah|waktu))"
    r"|dahulu|waktu\s+itu|pernah"
    r"|sebelumnya|lampau)\b|^dulu\b|\b(?:last\s+(?:year|month|week|time|quarter|meeting|spring|summer"
    r"|autumn|winter)"
    r"|previously|yesterday|years?\s+ago|months?\s+ago|weeks?\s+ago|back\s+(?:in|then)|at\s+the\s+time"
    r"|used\s+to|originally)\b",
    re.IGNORECASE,
)
ASKS: Final = re.compile(
    r"^(?:saya|gue|aku)\s+(?:rasa|kira|pikir)\b|\b(?:kayaknya|sepertinya|menurut\s+(?:saya|gue|aku))\b"
    r"|^(?:i\s+(?:think|guess|suggest|propose)|maybe)\b|^(?:apakah|apa|siapa|kapan|bagaimana|gimana"
    r"|kenapa|mengapa|berapa|who|when|what|why|how|did|do|does"
    r"|have|has|is|are"
    r"|shall|should|could|can|would)\b|\b(?:oleh\s+siapa|siapa\s+ya|belum\s+(?:sih|ya)|(?:gak|nggak"
    r"|enggak|ga|kan)\s+(?:sih|ya)"
    r"|apa\s+(?:gimana|enggak|nggak)|yang\s+mana|bagaimana\s+kalau|gimana\s+kalau|gimana\s+kalo)\b",
    re.IGNORECASE,
)
# What leads through the meeting.
RUNS: Final = re.compile(
    r"\b(?:kita|kami)\s+(?:\w+\s+)?(?:lanjut(?:kan|in)?|mulai|buka|tutup|masuk|bahas|break|istirahat|skip"
    r"|kembali|balik|fokus)"
    r"\s+(?:(?:saja|aja|dulu|lagi)\s+)*(?:ke\b|agenda|acara|sesi|rapat|meeting|pembahasan|topik|poin|bahas"
    r"|soal|dengan|ya\b|dari|diskusi)"
    r"|\b(?:lanjut|mulai|bahas|istirahat|break|rehat|shalat|salat|doa|voting)\s*(?:aja|saja|dulu|ya"
    r"|bentar|sebentar)*\s*[.!]*$"
    r"|\b(?:let's|we'll)\s+(?:go\s+(?:on|around|through|back|ahead\s*[.!]*$)|move\s+on|take\s+(?:a"
    r"|the)\s+(?:break|next)|do\s+(?:a|the)\s+"
    r"(?:round|intro|check)|keep\s+(?:it|this)\s+short|pick\s+(?:this|that)\s+up)",
    re.IGNORECASE,
)
AGREES: Final = re.compile(
    r"(?:ya|iya|oke|ok|okay|yes|yeah|baik|sip|saya|i|great|good)?[,.\s]*"
    r"(?:setuju|sepakat|deal|agreed|agree|sounds\s+good|approved)(?:[,.\s]+(?:sekali|pak|bu|semua|ya))?[.!]*",
    re.IGNORECASE,
)
PROPOSES: Final = re.compile(
    r"\b(?:usul|usulkan|mengusulkan|usulan|bagaimana\s+kalau|gimana\s+kalau|sebaiknya|propose|suggest"
    r"|proposal"
    r"|how\s+about|what\s+if|why\s+don't\s+we|let's|shall\s+we)\b",
    re.IGNORECASE,
)
REVERSES: Final = re.compile(
    r"\b(?:(?:di)?batal(?:kan|in)?|membatalkan|(?:di)?cancel(?:led)?|(?:tidak|nggak|gak|ga|tak|enggak"
    r"|ndak|ngga)\s+(?:jadi|usah)|urung|ralat"
    r"|(?:di)?cabut|mencabut|meralat|menganulir|dianulir|(?:di)?urungkan|berubah\s+pikiran"
    r"|(?:keputusan|yang|kesepakatan|rencana|hasil)\s+(?:\w+\s+){0,2}tadi\s+(?:\w+\s+){0,2}(?:diubah|ubah"
    r"|diganti|ganti|direvisi|revisi|dihapus|hapus|dicoret|coret|salah)"
    r"|scrap|ditch|(?:cancel|forget|reverse|undo|revoke|withdraw|drop|ignore|overturn)\s+(?:that|the|this"
    r"|it|what|our|(?-i:[A-Z])\w+)|never\s+mind|on\s+second\s+thoughts?"
    r"|change\s+of\s+plans?|(?:i|we)\s+take\s+(?:that|it)\s+back|revers(?:e|ing)\s+(?:that|the|our)"
    r"|is\s+off\s+the\s+table"
    r"|after\s+all|changed?\s+(?:my|our)\s+minds?|not\s+(?:going|doing)\s+(?:with|that|it)\s+any\s*more"
    r"|instead\s+of\s+what)\b",
    re.IGNORECASE,
)
CHANGES: Final = re.compile(
    r"\b(?:kita|kami|we|let's|jadinya|berarti)\s+(?:\w+\s+){0,2}?(?:tangguhkan|tunda|pending|ubah|ganti"
    r"|geser|revisi|undur|majuin"
    r"|mundurin|pindah(?:kan|in)?|balik(?:in)?|kembali"
    r"|change|move|switch|go\s+back|revert)\b|\b(?:instead|saja\s+deh|diubah|diganti|digeser)\b",
    re.IGNORECASE,
)
REQUESTS: Final = re.compile(r"\b(?:tolong|mohon|agar|dimohon|please)\b", re.IGNORECASE)
# What is asked, thanked for or still to come, unless a decision is stated outright.
RUNS_ON: Final = re.compile(
    r"\b(?:tolong|mohon|dimohon|please|thanks?|thank\s+you|terima\s+kasih|makasih|agenda|kita\s+(?:mulai|tutup"
    r"|akhiri|lihat)|segitu|saya\s+kira|harus|must|today:|things|nanti\s+kita)\b",
    re.IGNORECASE,
)
THAT: Final = re.compile(r"\b(?:tadi|itu|barusan|that|it|this|what\s+we|earlier|just\s+now)\b", re.IGNORECASE)
OURS: Final = re.compile(
    r"\b(?:kita|kami|we|let's|keputusan|maaf|sorry|scrap|forget|tadi|that|rencana|change\s+of)\b",
    re.IGNORECASE,
)
RENEWS: Final = re.compile(
    rf"(?:{_SO}[\s,]+)*(?:kita|kami|we(?:'ll)?)\s+(?:{_CHOOSE}|{_LETS}|take)\b", re.IGNORECASE
)
KEEPS: Final = re.compile(r"\b(?:tetap|tetep|kembali\s+ke|balik\s+ke|stay|keep|stick)\b", re.IGNORECASE)
SCREEN: Final = re.compile(r"\b(?:share|screen|layar|mic|mikrofon|kamera|zoom)\b", re.IGNORECASE)
REFERS: Final = re.compile(r"\b(?:them|it|there|tersebut|situ|sana|\w+nya)\b", re.IGNORECASE)
