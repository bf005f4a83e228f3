"""`traceparent`: what is one, what is none, and that it is written as it is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.requests.trace_context import TraceContext, parse_traceparent, sole_traceparent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01"


@given(st.integers(1, (1 << 128) - 1), st.integers(1, (1 << 64) - 1), st.booleans())
def test_what_is_written_is_read_back(trace: int, span: int, is_sampled: bool) -> None:
    context = TraceContext(f"{trace:032x}", f"{span:016x}", is_sampled)
    assert parse_traceparent(str(context)) == context
    assert len(str(context)) == 55


@pytest.mark.parametrize(
    ("flags", "is_sampled"), [("00", False), ("01", True), ("02", False), ("03", True), ("ff", True)]
)
def test_of_the_flags_the_lowest_bit_counts(flags: str, is_sampled: bool) -> None:
    assert parse_traceparent(f"00-{TRACE}-{SPAN}-{flags}") == TraceContext(TRACE, SPAN, is_sampled)


@pytest.mark.parametrize(
    "text",
    [
        "", "00", f"00-{TRACE}-{SPAN}", f"00-{TRACE}-{SPAN}-1", f"00-{TRACE}-{SPAN}-011", f"{GOOD}-",
        f"{GOOD}-x", f"ff-{TRACE}-{SPAN}-01", f"0-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01", GOOD.upper(), f" {GOOD}", f"{GOOD}\n", GOOD.replace("-", "_"),
        f"00-{TRACE[1:]}-{SPAN}-01", f"00-{TRACE}-{SPAN}x-01", f"0g-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0g", "\u0660" + GOOD[1:],
    ],
)  # fmt: skip
def test_what_is_no_header_is_none(text: str) -> None:
    assert parse_traceparent(text) is None


@pytest.mark.parametrize("version", ["01", "cc", "fe"])
@pytest.mark.parametrize("more", ["", "-", "-what-the-future-has"])
def test_a_later_version_is_read_as_far_as_it_is_known(version: str, more: str) -> None:
    assert parse_traceparent(f"{version}-{TRACE}-{SPAN}-01{more}") == TraceContext(TRACE, SPAN, True)


@given(st.text(max_size=60))
def test_no_text_raises(text: str) -> None:
    found = parse_traceparent(text)
    assert found is None or str(found).startswith("00-")


NAME = b"traceparent"


@pytest.mark.parametrize(
    ("headers", "is_found"),
    [
        ([], False),
        ([(b"host", b"x")], False),
        ([(NAME, GOOD.encode())], True),
        ([(b"host", b"x"), (NAME, b" \t" + GOOD.encode() + b" "), (b"accept", b"*/*")], True),
        ([(NAME, GOOD.encode()), (NAME, GOOD.encode())], False),
        ([(NAME, GOOD.encode()), (NAME, b"")], False),
        ([(b"tracestate", GOOD.encode())], False),
        ([(NAME, b"\xff" * 55)], False),
    ],
)
def test_a_request_has_one_header_or_none(headers: list[tuple[bytes, bytes]], is_found: bool) -> None:
    assert sole_traceparent(headers) == (parse_traceparent(GOOD) if is_found else None)
