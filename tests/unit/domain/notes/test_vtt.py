"""WebVTT, read forgivingly and in linear time."""

from html import escape
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.notes.transcripts import Transcript, Utterance
from meetcore.domain.notes.vtt import MAX_UTTERANCES, read_vtt

ZOOM = Path(__file__).parents[3] / "fixtures" / "zoom" / "transcript.vtt"
CUE = "00:01.000 --> 00:02.000\n"


def texts_of(text: str) -> list[str]:
    return [one.text for one in read_vtt(text.encode())]


def voices_of(text: str) -> list[tuple[str | None, str]]:
    return [(one.speaker, one.text) for one in read_vtt(text.encode())]


def cues(*payloads: str) -> str:
    return "\n\n".join(
        ["WEBVTT", *(f"00:{at:02}.000 --> 00:{at + 1:02}.000\n{text}" for at, text in enumerate(payloads))]
    )


def test_what_zoom_writes():
    assert read_vtt(ZOOM.read_bytes()) == (
        Utterance(2.31, 5.92, "Selamat pagi, kita mulai rapat koordinasi.", "Budi Santoso"),
        Utterance(6.1, 11.48, "Anggaran Q4 saya usulkan dua ratus lima puluh juta.", "Siti Rahma"),
        Utterance(
            12.0, 15.25, "Setuju. Siti, tolong kirim RAB final paling lambat tanggal 28.", "Budi Santoso"
        ),
        Utterance(15.9, 16.7, "Baik, Pak."),
    )


@pytest.mark.parametrize(("times", "expected"), [
    ("00:01.500 --> 00:02.250", (1.5, 2.25)),
    ("01:02:03.004 --> 01:02:04.000", (3723.004, 3724.0)),
    ("123:00:00.000 --> 124:00:00.000", (442800.0, 446400.0)),
    ("\t00:01.500-->00:02.250", (1.5, 2.25)),
    ("00:01.500 --> 00:02.250 align:start position:0%", (1.5, 2.25)),
    ("00:01,500 --> 00:02,250", (1.5, 2.25)),
    ("00:09.000 --> 00:02.250", (9.0, 9.0)),
])  # fmt: skip
def test_the_times_of_a_cue(times: str, expected: tuple[float, float]):
    assert [(one.at_s, one.until_s) for one in read_vtt(f"WEBVTT\n\n{times}\nya\n".encode())] == [expected]


@pytest.mark.parametrize("times", [
    "1:02.000 --> 1:03.000", "00:60.000 --> 00:61.000", "60:00.000 --> 61:00.000", "00:01.00 --> 00:02.00",
    "00:01.000 -> 00:02.000", "--> 00:02.000", "00:01.000 -->", "00:01.000 --> 00:02.0005", "-->",
    "9999999:00:00.000 --> 9999999:00:01.000", "\u0661\u0661:01.000 --> \u0661\u0661:02.000",
])  # fmt: skip
def test_a_cue_with_unreadable_times_is_skipped(times: str):
    assert texts_of(f"WEBVTT\n\n{times}\nhilang\n\n{CUE}ada\n") == ["ada"]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "begin", ["WEBVTT", "\ufeffWEBVTT", "WEBVTT - rapat", "WEBVTT\tX", "WEBVTT\nKind: captions"]
)
def test_every_beginning_and_every_end_of_line(begin: str, newline: str):
    assert texts_of(f"{begin}\n\n{CUE}satu\ndua\n\n\n\n{CUE}tiga".replace("\n", newline)) == [
        "satu dua",
        "tiga",
    ]


@pytest.mark.parametrize(
    "text", ["", "WEBVT", "WEBVTTX\n\n", "\n\nWEBVTT\n\n", "1\n" + CUE + "srt\n", "<html>"]
)
def test_a_file_that_is_not_webvtt_has_no_utterances(text: str):
    assert texts_of(f"{text}\n\n{CUE}ya\n" if text.startswith(("WEBVTTX", "\n")) else text) == []


def test_ids_notes_styles_and_regions_are_no_utterances():
    text = (
        "WEBVTT\n\nNOTE dibuat mesin\nbaris kedua\n\nSTYLE\n::cue(v) { color: red }\n\n"
        "REGION\nid:a\nwidth:40%\n\n"
        f"kata pengantar\n{CUE}satu\n\nNOTE\n\n7\n{CUE}dua\n\n{CUE}\n\n{CUE}   \n"
    )
    assert texts_of(text) == ["satu", "dua"]


def test_a_cue_ends_where_the_next_begins_without_a_blank_line():
    assert texts_of(f"WEBVTT\n{CUE}satu\n{CUE}dua") == ["satu", "dua"]


def test_cues_come_in_the_order_of_time_and_those_of_one_time_in_their_own():
    text = "WEBVTT\n\n00:09.000 --> 00:10.000\nakhir\n\n" + CUE + "awal\n\n" + CUE + "kedua\n"
    assert texts_of(text) == ["awal", "kedua", "akhir"]


@pytest.mark.parametrize(("payload", "expected"), [
    ("<b>tebal</b> <i.x>miring</i>", "tebal miring"),
    ("satu<00:00:01.500><c> dua</c>", "satu dua"),
    ("Q&amp;A &lt;b&gt; &nbsp; caf&eacute; &#65;&#x42;", "Q&A <b> café AB"),
    ("&amp;lt; &unknown; & &amp", "&lt; &unknown; & &amp"),
    ("&#9999999; &#0; &#99999999999;", "\ufffd \ufffd &#99999999999;"),
    ("1 < 2", "1 < 2"),
    ("a <b", "a <b"),
    ("nul \0 di sini", "nul \ufffd di sini"),
    ("  banyak   \t ruang ", "banyak ruang"),
])  # fmt: skip
def test_tags_are_removed_and_references_are_decoded(payload: str, expected: str):
    assert texts_of(f"WEBVTT\n\n{CUE}{payload}\n") == [expected]


@pytest.mark.parametrize(("payload", "voices"), [
    ("<v Budi Santoso>Halo", [("Budi Santoso", "Halo")]),
    ("<v.loud.first Esme O&apos;Neil>Hello</v>", [("Esme O'Neil", "Hello")]),
    ("<v Ayu>se<b>tu</b>ju</v> ya", [("Ayu", "setuju"), (None, "ya")]),
    ("<v Ayu>A</v> <v Budi>Dua\ntiga</v> penutup", [("Ayu", "A"), ("Budi", "Dua tiga"), (None, "penutup")]),
    ("<v\tAyu\nLestari>Ya: <b>betul", [("Ayu Lestari", "Ya: betul")]),
    ("<v  >Siapa", [(None, "Siapa")]),
    ("<v Ayu>Budi Santoso: katanya", [("Ayu", "Budi Santoso: katanya")]),
    ("<video>Ayu Lestari: ya", [("Ayu Lestari", "ya")]),
])  # fmt: skip
def test_voices(payload: str, voices: list[tuple[str | None, str]]):
    assert voices_of(f"WEBVTT\n\n{CUE}{payload}\n") == voices


def test_a_file_with_voices_has_no_names_before_colons():
    assert voices_of(cues("<v Ayu>Ya", "Budi Santoso: begitu", "Budi Santoso: lagi"))[1] == (
        None,
        "Budi Santoso: begitu",
    )


def test_names_before_colons_are_told_from_other_words():
    told = cues("rina: satu", "Keputusan: dua", "tanpa nama", "Ayu, M.Si: &lt;tiga&gt;: <b>ya</b>")
    assert voices_of(told) == [
        ("rina", "satu"), (None, "Keputusan: dua"), (None, "tanpa nama"), ("Ayu, M.Si", "<tiga>: ya"),
    ]  # fmt: skip


# Properties

_TOKENS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=12)
_TEXTS = st.lists(_TOKENS, min_size=1, max_size=5).map(" ".join)


@st.composite
def transcripts(draw: st.DrawFn, named: bool) -> Transcript:
    begins = draw(st.lists(st.integers(0, 10**8), max_size=8))
    speakers = _TEXTS if named else st.none()
    return tuple(
        Utterance(at / 1000, (at + draw(st.integers(0, 10**5))) / 1000, draw(_TEXTS), draw(speakers))
        for at in sorted(begins)
    )


def written(transcript: Transcript) -> bytes:
    """A cue for each utterance, with a voice tag where it has a speaker."""

    def stamp(at_s: float) -> str:
        minutes, thousandths = divmod(round(at_s * 1000), 60_000)
        return f"{minutes // 60:02}:{minutes % 60:02}:{thousandths // 1000:02}.{thousandths % 1000:03}"

    cues = (
        f"{stamp(one.at_s)} --> {stamp(one.until_s)}\n"
        + (f"<v {escape(one.speaker, quote=False)}>" if one.speaker else "")
        + escape(one.text, quote=False)
        for one in transcript
    )
    return "\n\n".join(("WEBVTT", *cues)).encode()


@given(transcripts(named=True))
def test_what_is_written_is_read_back(transcript: Transcript):
    assert read_vtt(written(transcript)) == transcript


@given(transcripts(named=False))
def test_without_names_the_text_is_read_back_whole(transcript: Transcript):
    def line(one: Utterance) -> str:
        return f"{one.speaker}: {one.text}" if one.speaker else one.text

    back = read_vtt(written(transcript))
    assert [(one.at_s, one.until_s) for one in back] == [(one.at_s, one.until_s) for one in transcript]
    assert ["".join(line(one).split()) for one in back] == ["".join(one.text.split()) for one in transcript]


@given(st.binary() | st.text().map(str.encode))
def test_no_file_raises(file: bytes):
    for begin in (b"", b"WEBVTT\n\n", b"WEBVTT\n\n00:00.000 --> 00:01.000\n"):
        for one in read_vtt(begin + file):
            assert 0 <= one.at_s <= one.until_s
            assert one.text


@given(
    st.lists(
        st.sampled_from(["<v A>", "</v>", "<", ">", "-->", "&", "&#", "00:00.000", " ", "\n", "A", ": ", "x"])
    )
)
def test_no_arrangement_of_syntax_characters_raises(pieces: list[str]):
    for one in read_vtt(("WEBVTT\n\n" + CUE + "".join(pieces)).encode()):
        assert one.text == " ".join(one.text.split()) != ""


@pytest.mark.parametrize("piece", [
    "<", "<v ", "&#", "&" + "a" * 30, "-->", "0", "A: ", "\n", "00:00.000 --> ", "<v A>x</v>", " ", "A b ",
    CUE + "x\n\n", CUE, CUE + "x\n", "x\n", "--", "-->\n",
])  # fmt: skip
def test_a_hostile_file_takes_time_by_its_length(piece: str):
    file = ("WEBVTT\n\n" + CUE + piece * (4_000_000 // len(piece))).encode()
    begun = process_time()
    assert len(read_vtt(file)) <= MAX_UTTERANCES
    assert process_time() - begun < 10  # a fraction of a second; a square of the length would take hours


def test_a_transcript_has_no_more_utterances_than_its_limit():
    cue = "00:00.000 --> 00:01.000\nword\n\n"
    assert len(read_vtt(("WEBVTT\n\n" + cue * (MAX_UTTERANCES + 1)).encode())) == MAX_UTTERANCES
