"""Sentences of meetings, with the results that a person and the rules find in each.

`Action(task, owner, due)`; the speaker of every sentence is `SPEAKER`. A sentence whose `found` differs from
its `expected` is one that the rules are known to get wrong.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

SPEAKER: Final = "Dewi"


@frozen
class Action:
    task: str
    owner: str | None = None
    due: str | None = None


@frozen
class Found:
    decision: bool = False
    action: Action | None = None


@frozen
class Case:
    text: str
    expected: Found
    found: Found


NOTHING: Final = Found()
DECIDED: Final = Found(decision=True)


def plain(text: str, expected: Found = NOTHING) -> Case:
    return Case(text, expected, expected)


def action(text: str, task: str, owner: str | None = None, due: str | None = None) -> Case:
    return plain(text, Found(action=Action(task, owner, due)))


INDONESIAN: Final = (
    # Decisions
    plain("Diputuskan anggaran kuartal empat sebesar 250 juta.", DECIDED),
    plain("Jadi diputuskan kita pindah kantor bulan Maret.", DECIDED),
    plain("Kita sepakat memakai vendor yang lama.", DECIDED),
    plain("Oke, kita sudah sepakat soal harga.", DECIDED),
    plain("Kami telah memutuskan untuk menunda peluncuran.", DECIDED),
    plain("Rapat menyetujui usulan dari bagian keuangan.", DECIDED),
    plain("Keputusannya adalah kita pakai sistem baru.", DECIDED),
    plain("Keputusan rapat hari ini: proyek dilanjutkan.", DECIDED),
    plain("Disepakati bahwa rapat berikutnya daring saja.", DECIDED),
    plain("Usulan itu disetujui semua peserta.", DECIDED),
    plain("Semua setuju dengan jadwal ini.", DECIDED),
    plain("Kalau begitu kita putuskan aplikasi diluncurkan tanggal sepuluh Desember.", DECIDED),
    plain("Kalo gitu kita sepakat tunda saja.", DECIDED),
    plain("Uji coba di tiga toko sudah selesai dan hasilnya baik."),
    action("Rina, coba cek stok gudang besok.", "Cek stok gudang", "Rina", "besok"),
    plain("Jadi kita pilih opsi kedua.", DECIDED),
    plain("Direksi menetapkan target baru dua puluh persen.", DECIDED),
    plain("Jadinya, kita tunda sampai tahun depan.", DECIDED),
    # What sounds like one
    plain("Apakah kita setuju dengan usulan ini?"),
    plain("Belum diputuskan siapa yang berangkat."),
    plain("Saya tidak setuju dengan angka itu."),
    plain("Kalau disetujui, kita bisa mulai minggu depan."),
    plain("Itu perlu diputuskan di rapat direksi."),
    plain("Kita belum sepakat soal tanggalnya."),
    plain("Harga masih menunggu untuk disepakati."),
    plain("Keputusan ada di tangan pelanggan."),
    # Actions
    action(
        "Siti, tolong kirim RAB final paling lambat tanggal 28.",
        "Kirim RAB final",
        "Siti",
        "paling lambat tanggal 28",
    ),
    action("Pak Andi, mohon siapkan ruangan besok pagi.", "Siapkan ruangan", "Pak Andi", "besok pagi"),
    action("Tolong Budi kirimkan notulen hari ini.", "Kirimkan notulen", "Budi", "hari ini"),
    action("Tolong dicek lagi angka penjualannya ya.", "Dicek lagi angka penjualannya"),
    action(
        "Budi akan menghubungi vendor sebelum hari Jumat.", "Menghubungi vendor", "Budi", "sebelum hari Jumat"
    ),
    action("Saya akan menyiapkan presentasi besok.", "Menyiapkan presentasi", SPEAKER, "besok"),
    action("Nanti saya kirim tautannya.", "Kirim tautannya", SPEAKER),
    action("Biar saya yang urus kontraknya.", "Urus kontraknya", SPEAKER),
    action("Saya perbaiki laporannya minggu depan.", "Perbaiki laporannya", SPEAKER, "minggu depan"),
    action(
        "Tim pemasaran akan membuat brosur dalam dua minggu.",
        "Membuat brosur",
        "Tim pemasaran",
        "dalam dua minggu",
    ),
    action("Bu Rina diminta untuk menyusun jadwal.", "Menyusun jadwal", "Bu Rina"),
    action(
        "Rudi bertanggung jawab atas pengujian sampai akhir bulan.", "Pengujian", "Rudi", "sampai akhir bulan"
    ),
    action(
        "Kita harus menyelesaikan audit sebelum 15 Maret.", "Menyelesaikan audit", None, "sebelum 15 Maret"
    ),
    action("Jangan lupa undang bagian hukum.", "Undang bagian hukum"),
    action("Pastikan server sudah dicadangkan malam ini.", "Server sudah dicadangkan", None, "malam ini"),
    action("Tugas untuk Maya: rapikan data pelanggan.", "Rapikan data pelanggan", "Maya"),
    action("Tindak lanjut: kirim surat ke dinas.", "Kirim surat ke dinas"),
    action("Siti, bisa tolong cek stok di gudang?", "Cek stok di gudang", "Siti"),
    action(
        "Untuk anggaran, Siti harus merevisi RAB paling lambat hari Senin.",
        "Merevisi RAB",
        "Siti",
        "paling lambat hari Senin",
    ),
    action("Andi yang mengurus izin tempat.", "Mengurus izin tempat", "Andi"),
    # What sounds like one
    plain("Rapat akan dimulai jam sembilan."),
    plain("Harga akan naik bulan depan."),
    plain("Saya akan menjelaskan agenda hari ini."),
    plain("Mohon maaf saya terlambat."),
    plain("Budi sudah mengirim laporannya kemarin."),
    plain("Kita akan membahas anggaran."),
    plain("Budi tidak akan datang."),
    plain("Selamat pagi, apa kabar semuanya?"),
    plain("Siapa yang akan mengirim undangan?"),
    # Both
    plain(
        "Kita putuskan Budi akan memimpin proyek ini mulai minggu depan.",
        Found(True, Action("Memimpin proyek ini", "Budi", "mulai minggu depan")),
    ),
    # Minutes, everyday speech, and speech as it is transcribed
    plain("oke fix ya kita rollback", DECIDED),
    plain("deal kita pake versi B", DECIDED),
    plain("Oke, jalan dengan vendor lama saja ya, fix.", DECIDED),
    plain("ya udah kita maju pake konsep horor", DECIDED),
    plain("Kita tunjuk CV Sinar, setuju semua ya.", DECIDED),
    plain("kayaknya kita pakai vendor A saja"),
    plain("oke guys kita kumpul lagi abis makan ya"),
    plain("berarti kita masih punya sisa anggaran"),
    plain("oke kita tunggu Pak Hendra dulu"),
    plain("kita harus semangat sampai akhir tahun"),
    plain("siap, nanti saya cek"),
    plain("Hendra menambahkan bahwa harga naik"),
    plain("jadi kita ini sebenarnya kekurangan orang"),
    plain("kita approve budgetnya", DECIDED),
    plain("kita jadiin hari Kamis aja", DECIDED),
    plain("yaudah fix live tanggal 26 ya", DECIDED),
    plain("Rapat menetapkan iuran sebesar lima puluh ribu", DECIDED),
    plain("Kalau tidak ada keberatan, disepakati acara pindah ke aula", DECIDED),
    plain("Baik, mulai bulan depan rapat kita adakan setiap Rabu.", DECIDED),
    plain("Dulu diputuskan begitu, sekarang tidak berlaku."),
    plain("tahun lalu kita sepakat pakai seragam"),
    plain("Disetujui oleh siapa ya"),
    plain("nanti kita putuskan di rapat berikutnya"),
    plain("kita belum deal sama vendor"),
    plain("oke kita lanjut ke agenda berikutnya"),
    plain("oke kita break dulu lima menit"),
    action(
        "saya minta Pak Hendra menyampaikan laporan ke dinas paling lambat tanggal 5",
        "Menyampaikan laporan ke dinas",
        "Pak Hendra",
        "paling lambat tanggal 5",
    ),
    action("Bu Ratna agar menyusun jadwal kunjungan", "Menyusun jadwal kunjungan", "Bu Ratna"),
    action("Sekretariat dimohon menyiapkan daftar hadir", "Menyiapkan daftar hadir", "Sekretariat"),
    action(
        "Dewi, revisi anggaran dan kirim ke saya tgl 5", "Revisi anggaran dan kirim ke saya", "Dewi", "tgl 5"
    ),
    action("dewi sama Pak Joko nyiapin konsumsi ya", "Nyiapin konsumsi", "dewi, Pak Joko"),
    action("laporan keuangan jadi tugas Dewi", "Laporan keuangan jadi tugas Dewi", "Dewi"),
    action("lo handle desainnya ya Dew", "Handle desainnya ya Dew", "Dewi"),
    action("Mohon kiranya Bu Ratna berkenan menyusun sambutan", "Menyusun sambutan", "Bu Ratna"),
    action("file finalnya gue upload besok", "Upload", SPEAKER, "besok"),
    action(
        "Berkas harap dilengkapi paling lambat hari Senin",
        "Berkas harap dilengkapi",
        None,
        "paling lambat hari Senin",
    ),
    action(
        "Humas agar menyiapkan spanduk, H-3 Lebaran sudah terpasang",
        "Menyiapkan spanduk",
        "Humas",
        "H-3 Lebaran",
    ),
    plain("mohon diulang pertanyaannya"),
    plain("Tolong dimatikan mikrofonnya."),
    plain("Mohon doanya."),
    plain("Dewi tolong share screen ya"),
    plain("Bank akan tutup pada hari Jumat."),
    plain("Indonesia akan mengalami resesi"),
    plain("Zoom akan mati sebentar lagi."),
    plain("Saya akan terlambat besok"),
    plain("Bu Ratna silakan menyampaikan laporannya"),
    plain("kemarin gue udah kirim ke klien"),
    plain("kalau Dewi kirim besok, kita bisa mulai"),
    # Known to go wrong
    Case("Kontraknya biar Andi.", Found(action=Action("Kontraknya", "Andi")), NOTHING),
)

ENGLISH: Final = (
    # Decisions
    plain("We decided to ship on the third.", DECIDED),
    plain("We've agreed on the new pricing.", DECIDED),
    plain("We have all agreed that the office closes on Friday.", DECIDED),
    plain("It was decided to keep the old vendor.", DECIDED),
    plain("The budget is approved.", DECIDED),
    plain("The board approved the plan.", DECIDED),
    plain("Our final decision is to move to Jakarta.", DECIDED),
    plain("Okay, let's go with option two.", DECIDED),
    plain("We will go with the cheaper one.", DECIDED),
    plain("Decision: we hire two engineers.", DECIDED),
    plain("Everyone agreed on the roadmap.", DECIDED),
    plain("The team has decided against the merger.", DECIDED),
    plain("So we settled on Tuesday mornings.", DECIDED),
    # What sounds like one
    plain("Have we decided on a date?"),
    plain("We haven't decided anything yet."),
    plain("If it is approved, we can start."),
    plain("That needs to be decided by the board."),
    plain("I don't agree with that."),
    plain("Nothing was decided last time."),
    plain("Once the budget is approved we can hire."),
    plain("The decision lies with the customer."),
    # Actions
    action(
        "Ben, please send the build to the store by Friday.",
        "Send the build to the store",
        "Ben",
        "by Friday",
    ),
    action("Please review the contract before the 3rd.", "Review the contract", None, "before the 3rd"),
    action("Sarah, could you book the room for tomorrow?", "Book the room", "Sarah", "for tomorrow"),
    action("Could you please update the ticket?", "Update the ticket"),
    action("I'll write the release notes tomorrow.", "Write the release notes", SPEAKER, "tomorrow"),
    action("I will call the supplier this afternoon.", "Call the supplier", SPEAKER, "this afternoon"),
    action("I'm going to fix the login page.", "Fix the login page", SPEAKER),
    action(
        "Anna will prepare the slides by the end of the week.",
        "Prepare the slides",
        "Anna",
        "by the end of the week",
    ),
    action("Tom to send the invoice by Monday.", "Send the invoice", "Tom", "by Monday"),
    action(
        "The design team will draw three sketches within two weeks.",
        "Draw three sketches",
        "The design team",
        "within two weeks",
    ),
    action("Lisa needs to sign the form by 5 pm.", "Sign the form", "Lisa", "by 5 pm"),
    action("Mr. Tan is responsible for the audit.", "The audit", "Mr. Tan"),
    action(
        "We need to renew the certificate before March 15.", "Renew the certificate", None, "before March 15"
    ),
    action("Action item: clean up the backlog.", "Clean up the backlog"),
    action("Don't forget to invite legal.", "Invite legal"),
    action("Make sure to back up the server tonight.", "Back up the server", None, "tonight"),
    action("By Friday, Ben will close the books.", "Close the books", "Ben", "By Friday"),
    action("And Kate is going to paint the lobby.", "Paint the lobby", "Kate"),
    action("Todo: update the wiki.", "Update the wiki"),
    action(
        "So David should check the numbers again next week.", "Check the numbers again", "David", "next week"
    ),
    # What sounds like one
    plain("It will rain tomorrow."),
    plain("The meeting will start at nine."),
    plain("I'll be brief."),
    plain("I will explain the agenda."),
    plain("Can you hear me?"),
    plain("Prices will rise next year."),
    plain("Ben sent the invoice yesterday."),
    plain("Will Anna send the slides?"),
    plain("We will see."),
    plain("Ben won't come."),
    plain("Good morning, how is everybody?"),
    # Both
    plain(
        "We agreed that Ben will call the bank by noon.",
        Found(True, Action("Call the bank", "Ben", "by noon")),
    ),
    # Everyday speech, and speech as it is transcribed
    plain("Last year we decided to wait, and that was a mistake."),
    plain("who decided that"),
    plain("let's take a break"),
    plain("we'll do our best"),
    plain("okay we have three options"),
    plain("I'll call you back"),
    plain("so we're going with the blue one", DECIDED),
    plain("Fine, the red one it is.", DECIDED),
    plain("Alright, we send two people to the conference.", DECIDED),
    plain("all right, so it's settled then, the party is on the 12th", DECIDED),
    action("can you send the deck, Dewi?", "Send the deck, Dewi", "Dewi"),
    action(
        "Carol and Kate, please review the draft by Friday", "Review the draft", "Carol, Kate", "by Friday"
    ),
    action("Let's have Kate draft the policy", "Draft the policy", "Kate"),
    action("Dewi, send me the numbers before Christmas", "Send me the numbers", "Dewi", "before Christmas"),
    action("dewi please set up the call for wednesday", "Set up the call", "dewi", "for wednesday"),
    action("Someone needs to book a room by Thursday", "Book a room", None, "by Thursday"),
    plain("Can you hear me, Bob?"),
    plain("Please mute yourself"),
    plain("The train will leave at noon"),
    plain("Did Bob send the file?"),
    # Known to go wrong
    Case("The slides are on Anna.", Found(action=Action("The slides", "Anna")), NOTHING),
)
