"""How long a sound is, by its first page and its last."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.ogg import opus_length_s


def page(position: int, body: bytes = b"") -> bytes:
    return b"OggS" + struct.pack("<BBqIIIB", 0, 0, position, 1, 0, 0, 1) + bytes([len(body)]) + body


def head(skipped: int = 312) -> bytes:
    return page(0, b"OpusHead" + struct.pack("<BBHIhB", 1, 1, skipped, 48_000, 0, 0))


def test_the_last_page_tells_and_what_is_skipped_is_not_heard():
    file = head() + page(48_000 + 312) + page(96_000 + 312, b"sound")
    assert opus_length_s(file[:100], file[-60:]) == 2.0


def test_a_page_on_which_nothing_ends_is_passed_over():
    assert opus_length_s(head(), page(48_312) + page(-1)) == 1.0


def test_a_page_that_is_cut_off_is_passed_over():
    assert opus_length_s(head(), page(48_312) + b"OggS\0\0" + bytes(7)) == 1.0


def test_less_than_what_is_skipped_is_nothing():
    assert opus_length_s(head(), page(100)) == 0.0


@pytest.mark.parametrize("wrong", [b"", b"RIFF", b"OggS", head()[1:], head()[:39], page(0, b"vorbis")])
def test_what_is_no_opus_has_no_length(wrong: bytes):
    assert opus_length_s(wrong, page(48_000)) is None


def test_an_end_without_a_page_has_no_length():
    assert opus_length_s(head(), page(-1)) is None


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_nothing_raises(one: bytes, other: bytes):
    for begin in (one, head() + one):
        length_s = opus_length_s(begin, b"OggS" + other)
        assert length_s is None or length_s >= 0
