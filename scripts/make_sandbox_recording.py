"""The sandbox's recording: a meeting of a minute in Indonesian, spoken by espeak-ng, and its transcript.

Needs `espeak-ng` on the path (Debian: `apt-get install espeak-ng`) and PyAV. It writes the sound and the VTT
into the package, the times of the VTT from the true lengths of the speech, and prints the length that
`meetcore.adapters.sandbox.recording_files` has to report. The same espeak-ng and PyAV make the same bytes.
"""

from __future__ import annotations

import io
import subprocess
import sys
import wave
from fractions import Fraction
from pathlib import Path

import av
from av.audio.stream import AudioStream

PLACE = Path(__file__).resolve().parent.parent / "src/meetcore/adapters/sandbox/recording"
RATE = 22_050  # espeak-ng's own
BIT_RATE = 24_000
PAUSE_S = 0.35
SPEED = "165"  # words in a minute

VOICES = {"Sari Wijaya": "id+f2", "Budi Santoso": "id+m3", "Dewi Lestari": "id+f4"}
SPEECH = (
    ("Sari Wijaya", "Selamat pagi semuanya. Hari ini kita bahas peluncuran aplikasi kasir."),
    ("Budi Santoso", "Uji coba di tiga toko sudah selesai dan hasilnya baik."),
    ("Dewi Lestari", "Masih ada satu masalah. Struk kadang tercetak dua kali kalau jaringan lambat."),
    ("Budi Santoso", "Saya akan memperbaiki masalah struk itu paling lambat hari Rabu."),
    ("Sari Wijaya", "Bagaimana dengan anggaran promosi?"),
    ("Dewi Lestari", "Anggaran promosi dua puluh juta rupiah, cukup untuk satu bulan."),
    ("Sari Wijaya", "Kalau begitu kita putuskan aplikasi kasir diluncurkan tanggal sepuluh Desember."),
    ("Budi Santoso", "Setuju. Pelatihan kasir perlu dua hari sebelum peluncuran."),
    ("Sari Wijaya", "Dewi, tolong siapkan materi pelatihan kasir sebelum hari Jumat."),
    ("Dewi Lestari", "Siap. Materi pelatihan saya kirim ke semua orang."),
    ("Sari Wijaya", "Disepakati juga promosi dimulai satu minggu sebelum peluncuran."),
    ("Sari Wijaya", "Terima kasih semuanya. Rapat berikutnya hari Senin jam sembilan."),
)


def main() -> int:
    """Make both files."""
    silence = bytes(2 * round(PAUSE_S * RATE))
    sound, cues = bytearray(silence), []
    for speaker, text in SPEECH:
        begin_s = len(sound) / 2 / RATE
        sound += synthesize(text, VOICES[speaker])
        cues.append((begin_s, len(sound) / 2 / RATE, speaker, text))
        sound += silence
    PLACE.mkdir(exist_ok=True)
    encode(bytes(sound), PLACE / "meeting.m4a")
    (PLACE / "meeting.vtt").write_text(vtt(cues), encoding="utf-8")
    print(f"LENGTH_S = {len(sound) / 2 / RATE:.3f}")
    return 0


def synthesize(text: str, voice: str) -> bytes:
    """Samples of 16 bits at `RATE`, one channel."""
    command = ["espeak-ng", "-v", voice, "-s", SPEED, "--stdout", text]
    with wave.open(io.BytesIO(subprocess.run(command, check=True, capture_output=True).stdout)) as speech:
        form = (speech.getnchannels(), speech.getsampwidth(), speech.getframerate())
        if form != (1, 2, RATE):
            raise SystemExit(f"espeak-ng speaks in another form: {form}")
        # Written to a pipe, its header has no length: read all frames.
        return speech.readframes(10_000_000)


def encode(sound: bytes, into: Path) -> None:
    """AAC in M4A, as Zoom records speech, with the index before the sound."""
    options = {"fflags": "+bitexact", "movflags": "+faststart"}
    with av.open(str(into), "w", format="ipod", options=options) as media:
        stream = media.add_stream("aac", rate=RATE, layout="mono")
        assert isinstance(stream, AudioStream)
        stream.codec_context.bit_rate = BIT_RATE
        resampler = av.AudioResampler(stream.codec_context.format, "mono", RATE)
        frame = av.AudioFrame("s16", "mono", len(sound) // 2)
        frame.planes[0].update(sound)
        frame.sample_rate, frame.pts, frame.time_base = RATE, 0, Fraction(1, RATE)
        for each in resampler.resample(frame):
            media.mux(stream.encode(each))
        media.mux(stream.encode(None))


def vtt(cues: list[tuple[float, float, str, str]]) -> str:
    """WebVTT in the form in which Zoom writes it: numbered cues that begin with the speaker."""
    lines = ["WEBVTT", ""]
    for number, (begin_s, end_s, speaker, text) in enumerate(cues, start=1):
        lines += [str(number), f"{clock(begin_s)} --> {clock(end_s)}", f"{speaker}: {text}", ""]
    return "\n".join(lines)


def clock(seconds: float) -> str:
    """Seconds as `hh:mm:ss.mmm`."""
    milliseconds = round(seconds * 1000)
    minutes, left = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{left // 1000:02}.{left % 1000:03}"


if __name__ == "__main__":
    sys.exit(main())
