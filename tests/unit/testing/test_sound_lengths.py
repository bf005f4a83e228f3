"""The length the stand-in computes for a sound, by the ends of its file."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.testing.sounds import sound_length_s


def page(position: int, body: bytes = b"") -> bytes:
    return b"OggS" + struct.pack("<BBqIIIB", 0, 0, position, 1, 0, 0, 1) + bytes([len(body)]) + body


def head(skipped: int = 312) -> bytes:
    return page(0, b"OpusHead" + struct.pack("<BBHIhB", 1, 1, skipped, 48_000, 0, 0))


def test_the_last_page_gives_the_length_without_the_skipped_part():
    assert sound_length_s(head() + page(48_000 + 312) + page(96_000 + 312, b"sound")) == 2.0


def test_a_page_on_which_nothing_ends_is_passed_over():
    assert sound_length_s(head() + page(48_312) + page(-1)) == 1.0


def test_a_page_that_is_cut_off_is_passed_over():
    assert sound_length_s(head() + page(48_312) + b"OggS\0\0" + bytes(7)) == 1.0


def test_less_than_what_is_skipped_is_nothing():
    assert sound_length_s(head() + page(100)) == 0.0


def test_an_end_without_a_page_has_no_length():
    assert sound_length_s(b"OggS" + bytes(2) + b"\xff" * 8 + b"OpusHead" + bytes(12)) is None


def box(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(content), kind) + content


def long_box(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I4sQ", 1, kind, 16 + len(content)) + content


@pytest.mark.parametrize("write", [box, long_box])
@pytest.mark.parametrize("header", [
    struct.pack(">IIIII", 0, 0, 0, 1000, 2500), struct.pack(">IQQIQ", 1 << 24, 0, 0, 1000, 2500),
])  # fmt: skip
def test_the_header_of_a_movie_gives_the_length(write, header: bytes):
    file = box(b"ftyp", b"M4A ") + write(b"mdat", bytes(50)) + write(b"moov", write(b"mvhd", header))
    assert sound_length_s(file) == 2.5
    assert sound_length_s(file[:-1]) is None


@pytest.mark.parametrize("wrong", [
    b"", b"RIFF", b"OggS", head()[1:], head()[:39], page(0, b"vorbis"), b"WEBVTT\n\n", box(b"ftyp", b"M4A "),
    box(b"ftyp", b"M4A ") + box(b"moov", box(b"mvhd", bytes(20))),
    box(b"ftyp", b"M4A ") + box(b"moov", box(b"mvhd", bytes(12))),
    box(b"ftyp", b"M4A ") + box(b"moov", box(b"trak", bytes(20))),
])  # fmt: skip
def test_what_is_none_of_these_has_no_length(wrong: bytes):
    assert sound_length_s(wrong) is None


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_nothing_raises(one: bytes, other: bytes):
    for file in (one, head() + one + b"OggS" + other, box(b"ftyp", one) + box(b"moov", other), b"RIFF" + one):
        length_s = sound_length_s(file)
        assert length_s is None or length_s >= 0
