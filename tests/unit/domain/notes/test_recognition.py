"""What a speech model writes of silence, and its loops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.notes.recognition import LOOP_FROM, is_hallucinated, without_loops
from meetcore.domain.notes.transcripts import Utterance


@pytest.mark.parametrize(("no_speech", "logprob", "ratio", "expected"), [
    (0.95, -1.5, 1.0, True), (0.95, -1.0, 1.0, False), (0.6, -1.5, 1.0, False), (0.1, -0.1, 2.41, True),
    (0.1, -0.1, 2.4, False), (None, None, None, False), (0.95, None, None, False), (0.95, 0.0, None, False),
    (None, -1.5, None, False),
])  # fmt: skip
def test_the_thresholds_of_whisper(
    no_speech: float | None, logprob: float | None, ratio: float | None, expected: bool
) -> None:
    assert is_hallucinated("Kita mulai.", no_speech, logprob, ratio) is expected


def test_without_a_ratio_that_of_the_text_is_taken() -> None:
    assert is_hallucinated("ya " * 60, None, None, None)
    assert not is_hallucinated("ya " * 60, None, None, 1.2)
    speech = "Anggaran kuartal keempat dua ratus lima puluh juta, dan tolong kirim rinciannya hari Jumat."
    assert not is_hallucinated(speech, None, None, None)
    assert not is_hallucinated("", None, None, None)
    assert is_hallucinated("\ud800" * 60, None, None, None), "half a character, as JSON can have it"


@pytest.mark.parametrize("text", [
    "Terima kasih telah menonton.", "Terima kasih sudah menonton!", "terima kasih telah menonton video ini",
    "Terimakasih sudah nonton", "Thanks for watching!", "Thank you so much for watching.",
    "Jangan lupa like, share, dan subscribe ya!", "Please subscribe to my channel.",
    "Don't forget to like and subscribe.", "Don\u2019t forget to subscribe!",
    "Sampai jumpa di video selanjutnya.", "See you in the next video!",
    "Subtitles by the Amara.org community", "Teks oleh Budi", "[BLANK_AUDIO]", " [Musik]", "(music playing)",
    "*laughs*", "\u266a\u266a\u266a", "\u266a la la \u266a",
])  # fmt: skip
def test_the_end_of_a_video_and_the_name_of_a_sound_are_dropped(text: str) -> None:
    assert without_loops([Utterance(0, 1, text)]) == ()


@pytest.mark.parametrize("text", [
    "Terima kasih.", "Terima kasih atas perhatiannya.", "Kita nonton dulu videonya.", "I like that.",
    "Thanks for the report.", "Subtitle laporannya diganti.", "See you tomorrow.", "?!", "Like, kemarin itu.",
    "Sampai jumpa minggu depan.", "(b) kita tunda (c) kita batalkan", "[Rapat] dimulai.", "5 * 3 * 2", "*",
])  # fmt: skip
def test_what_people_say_in_meetings_stays(text: str) -> None:
    said = (Utterance(0, 1, text),)
    assert without_loops(said) == said


def test_a_loop_was_said_once_and_an_echo_twice() -> None:
    loop = [Utterance(at, at + 1, text) for at, text in enumerate(["Baik.", "baik", "BAIK!", "Ya.", "Ya."])]
    assert without_loops(loop) == (Utterance(0, 3, "Baik."), *loop[3:])
    names = [Utterance(at, at + 1, "Setuju.", name) for at, name in enumerate("ABC")]
    assert without_loops(names) == tuple(names), "three people agree"


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_round_of_texts_that_is_repeated_five_times_was_said_once(size: int) -> None:
    texts = ["Mulai.", *["Ya, betul.", "Oke.", "Siap.", "Lanjut."][:size] * 5, "Selesai."]
    said = [Utterance(at, at + 1, text) for at, text in enumerate(texts)]
    result = without_loops(said)
    assert [one.text for one in result] == texts[: size + 1] + texts[-1:]
    assert result[-2].until_s == result[-1].at_s
    fewer = tuple(said[: size * 4 + 1])
    assert without_loops(fewer) == fewer, "people take turns"


def test_a_round_of_five_texts_is_no_loop() -> None:
    said = tuple(Utterance(at, at + 1, "abcde"[at % 5]) for at in range(30))
    assert without_loops(said) == said


@given(st.lists(st.sampled_from(["ya", "tidak", "Ya!", "thanks for watching"]), max_size=30))
def test_the_result_is_in_order_and_has_no_loop(texts: list[str]) -> None:
    result = without_loops(Utterance(at, at + 1, text) for at, text in enumerate(texts))
    assert without_loops(result) == result
    assert [one.at_s for one in result] == sorted(one.at_s for one in result)
    assert {one.text for one in result} <= set(texts)
    assert len(result) <= len(texts)
    run = 0
    for before, one in zip((None, *result), result, strict=False):
        run = run + 1 if before and before.text.casefold().strip("!") == one.text.casefold().strip("!") else 1
        assert run < LOOP_FROM
