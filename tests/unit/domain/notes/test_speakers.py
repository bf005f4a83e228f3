"""Names before colons: how often words stand there decides, not their letters."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.notes.speakers import find_names

NAMES = [
    "Budi Santoso", "Budi Santoso, S.Kom., M.T.", "Siti Aminah, M.Si", "dr. Andi Wijaya", "drg. Lestari",
    "budi santoso", "rina", "iPhone", "iPhone milik Budi", "Andi / PT Maju Jaya", "+62 812-3456-7890",
    "1646***4567", "Raden Mas Haryo Bimo Setyo Adi Nugroho", "Budi (PT Maju)", "Ruang Rapat 2", "李明",
    "A" * 64, "O'Neil-Smith", "Rudi, SE, MM", "Ahmad,S.E.,M.M.", "Prof. Dr. Ir. Haryo Adi, M. Sc., Ph.D",
    "Tanya", "Hari", "Sonya Putri", "812 3456", "a b c d e f g h", "Notulis", "Tim IT",
]  # fmt: skip
PHRASES = [
    "Terima kasih, Budi", "Benar! Budi", "Ada apa? Budi", '"Budi"', "<Budi>", "Oke; Budi",
    "Baik, jadi begini", "Oke, baik", "Oke, dr. Andi lanjut",
    "satu dua tiga empat lima enam tujuh delapan sembilan",
]  # fmt: skip
HEADINGS = [
    "Keputusan", "keputusan", "Catatan Penting", "Catatan", "Kesimpulan", "Kesimpulannya", "Tindak lanjut",
    "Agenda hari ini", "Intinya", "Next steps", "Action items", "DECISIONS", "Jam 10", "Langkah 2", "- Note",
    "(Catatan)", "Kata Budi",
]  # fmt: skip
NO_PREFIXES = [
    "10:30 kita mulai", "https://example.com", "Lihat https://example.com", "Budi:rapat", "Budi :", "Budi:",
    ": kosong", "Budi : jauh", "1: satu", "10: 30", "2026: anggaran", "123456: enam", "Tanpa titik dua",
    "A" * 65 + ": a", "", " : a", "10:30 Budi: ya",
]  # fmt: skip
FILLER = "kata-kata"


def names_of(*texts: str) -> list[str | None]:
    return find_names(texts)


@pytest.mark.parametrize("name", [*NAMES, *PHRASES])
def test_what_stands_before_a_colon_often_is_a_name(name: str):
    texts = [f"{name}: {what}" for what in ("satu", "dua: tiga", "Catatan: empat", "10:30", "enam")]
    assert names_of(*texts, FILLER, FILLER) == [name] * 5 + [None, None]


@pytest.mark.parametrize("name", NAMES)
def test_once_is_enough_in_a_file_that_names_its_speakers(name: str):
    assert names_of("Budi: ya", f"{name}: tidak", FILLER, FILLER) == ["Budi", name, None, None]
    assert names_of("Budi: ya", FILLER, FILLER) == [None] * 3


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_part_of_a_sentence_stands_there_three_times_or_is_no_name(phrase: str):
    text = f"{phrase}: ya"
    assert names_of(*["Budi: ya"] * 9, text, text) == ["Budi"] * 9 + [None, None]
    assert names_of(*["Budi: ya"] * 9, text, text, text)[9:] == [phrase] * 3
    assert names_of(*[FILLER] * 7, text, text, text)[7:] == [phrase] * 3
    assert names_of(*[text] * 2) == [None, None]


@pytest.mark.parametrize("name", NAMES)
def test_where_a_tenth_of_the_texts_has_names_twice_is_enough(name: str):
    text = f"{name}: ya"
    assert names_of(text, text, *[FILLER] * 18) == [name] * 2 + [None] * 18
    assert names_of(text, text, *[FILLER] * 19) == [None] * 21
    assert names_of(text, *[FILLER] * 2) == [None] * 3
    assert names_of("Budi: ya", "Budi: ya", f"{name}: ya" if name != "Budi" else FILLER, *[FILLER] * 4) == [
        "Budi", "Budi", *[None] * 5,
    ]  # fmt: skip


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_heading_is_no_name_however_often(heading: str):
    assert names_of(*[f"{heading}: ya"] * 9) == [None] * 9
    assert names_of("Budi: ya", f"{heading}: ya") == ["Budi", None]


@pytest.mark.parametrize("text", NO_PREFIXES)
def test_what_is_no_prefix_is_no_name_however_often(text: str):
    assert names_of(*[text] * 9) == [None] * 9
    assert names_of("Budi: ya", text) == ["Budi", None]


def test_headings_and_other_words_do_not_count_as_names():
    assert names_of("Keputusan: a", "Keputusan: b", "Oke, baik: c", "Ayu: d", FILLER) == [None] * 5


def test_the_first_colon_ends_the_name():
    assert names_of("Budi: Agenda: anggaran", "Budi: Rina: ya", "Budi: ya") == ["Budi"] * 3
    assert names_of("Budi: Rina: ya", "Budi: Rina: ya") == ["Budi"] * 2
    assert names_of(*["Budi: Catatan: ya"] * 3) == ["Budi"] * 3
    assert names_of(*[f"Budi: {'A' * 60}: ya"] * 3) == ["Budi"] * 3


def test_a_second_colon_ends_it_where_one_follows_in_each_text():
    assert names_of("Tim IT: Rina: ya", "Tim IT: Dedi: tidak", "Tim IT: Rina: Ayu: ya", "Budi: ya") == [
        "Tim IT: Rina", "Tim IT: Dedi", "Tim IT: Rina", "Budi",
    ]  # fmt: skip
    assert names_of(*[f"Tim IT: {'A' * 56}: ya"] * 3) == [f"Tim IT: {'A' * 56}"] * 3
    assert names_of(*[f"Tim IT: {'A' * 57}: ya"] * 3) == ["Tim IT"] * 3


def test_no_texts():
    assert names_of() == []


# Properties

_WORDS = st.text("abAB ,.:;!?/1*-", max_size=12)
_NAMED = st.builds("{}: {}".format, st.sampled_from([*NAMES, *PHRASES, *HEADINGS]), _WORDS)


@given(st.lists(_WORDS | st.text(max_size=80) | _NAMED, max_size=30))
def test_a_name_is_followed_by_a_colon_and_a_space(texts: list[str]):
    names = find_names(texts)
    assert len(names) == len(texts)
    for name, text in zip(names, texts, strict=True):
        assert name is None or (text.startswith(f"{name}: ") and 0 < len(name) <= 64)


@given(
    st.lists(_WORDS | _NAMED, max_size=30).flatmap(
        lambda texts: st.tuples(st.just(texts), st.permutations(texts))
    )
)
def test_the_order_of_the_texts_does_not_matter(orders: tuple[list[str], list[str]]):
    one, other = orders
    assert dict(zip(one, find_names(one), strict=True)) == dict(zip(other, find_names(other), strict=True))


@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=30), st.data())
def test_a_file_that_names_every_speaker_is_read_as_it_was_written(speakers: list[str], data: st.DataObject):
    said = [data.draw(st.text("ab ,.1", min_size=1, max_size=12)) for _ in speakers]
    texts = [f"{who}: {what}" for who, what in zip(speakers, said, strict=True)]
    assert find_names(texts) == speakers


@pytest.mark.parametrize(
    "text", ["A: ", "A: B: ", ": ", "a" * 60 + ": ", "1" * 60 + ": ", "A, B.: ", " ", "a, " * 21 + ": "]
)
def test_a_hostile_file_takes_time_by_its_length(text: str):
    texts = [text, text * 1000, *(f"{at}{text}" for at in range(100_000))]
    begun = process_time()
    find_names(texts)
    assert process_time() - begun < 5  # a fraction of a second; a square of the number would take an hour
