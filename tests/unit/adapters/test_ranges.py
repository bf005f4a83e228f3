"""The `Range` field as RFC 9110 has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.adapters.http.downloads import range_of
from meetcore.ports.recording_files import ByteRange, RangeUnsatisfiable

SIZE = 1000


@pytest.mark.parametrize(("field", "wanted"), [
    ("bytes=0-0", ByteRange(0, 0)),
    ("bytes=0-499", ByteRange(0, 499)),
    ("bytes=500-", ByteRange(500)),
    ("bytes=999-5000", ByteRange(999, 5000)),
    ("bytes=-1", ByteRange(999)),
    ("bytes=-500", ByteRange(500)),
    ("bytes=-5000", ByteRange(0)),
    ("BYTES = 1 - 2", ByteRange(1, 2)),
])  # fmt: skip
def test_one_part(field: str, wanted: ByteRange):
    assert range_of({"range": field}, SIZE) == wanted


@pytest.mark.parametrize("field", [
    "", "bytes", "bytes=", "bytes=-", "bytes=5-2", "bytes=a-b", "bytes=0-1,3-4", "bytes=0-1,", "items=0-1",
    "bytes=٣-٤", "bytes=0x1-2", "bytes=+1-2", "bytes=1--2", "bytes=1-2-3", "bytes=" + "9" * 19 + "-",
])  # fmt: skip
def test_invalid_or_multiple_ranges_select_the_whole(field: str):
    assert range_of({"range": field}, SIZE) is range_of({}, SIZE) is None


@pytest.mark.parametrize("validator", ['"abc"', 'W/"abc"', "Wed, 21 Oct 2026 07:28:00 GMT", ""])
def test_if_range_with_an_unknown_version_selects_the_whole(validator: str):
    assert range_of({"range": "bytes=0-1", "if-range": validator}, SIZE) is None


@pytest.mark.parametrize("field", ["bytes=1000-", "bytes=1000-1001", "bytes=999999999-", "bytes=-0"])
def test_a_range_beyond_the_end_is_unsatisfiable(field: str):
    with pytest.raises(RangeUnsatisfiable) as caught:
        range_of({"range": field}, SIZE)
    assert caught.value.size_bytes == SIZE


@given(st.text(), st.integers(0, 10**6))
def test_any_text_selects_a_part_within_the_file_or_the_whole(field: str, size: int):
    for text in (field, f"bytes={field}"):
        try:
            wanted = range_of({"range": text}, size)
        except RangeUnsatisfiable:
            continue
        assert wanted is None or 0 <= wanted.first < size
