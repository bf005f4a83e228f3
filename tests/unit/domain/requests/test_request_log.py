"""The log of requests, and their traces."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.requests import request_log
from meetcore.domain.requests.request_log import TraceContext, parse_traceparent, sole_traceparent

NOW = datetime(2026, 7, 1, tzinfo=UTC)


def kept(errors: list[bool]) -> list[bool]:
    """Whether each request of a minute is kept, by whether it is an error."""
    so_far, found = request_log.MinuteSample(), []
    for each in errors:
        so_far, is_kept = request_log.sample(so_far, is_error=each)
        found.append(is_kept)
    return found


def test_the_first_successes_of_a_minute_are_all_kept() -> None:
    assert kept([False] * request_log.ALL_OF_MINUTE) == [True] * request_log.ALL_OF_MINUTE


def test_beyond_them_one_of_some_is_kept_up_to_a_limit() -> None:
    found = kept([False] * (request_log.ALL_OF_MINUTE + 2 * request_log.ONE_OF))[request_log.ALL_OF_MINUTE :]
    assert sum(found) == 2
    assert found[0]
    many = kept([False] * (request_log.ALL_OF_MINUTE + request_log.ONE_OF * request_log.MOST_OF_MINUTE))
    assert sum(many) == request_log.MOST_OF_MINUTE
    assert not any(many[-request_log.ONE_OF * request_log.ALL_OF_MINUTE :])


@given(st.lists(st.booleans(), max_size=2 * request_log.MOST_OF_MINUTE))
def test_errors_are_kept_whatever_succeeds(errors: list[bool]) -> None:
    found = kept(errors)
    of_errors = [is_kept for failed, is_kept in zip(errors, found, strict=True) if failed]
    assert of_errors == [place < request_log.MOST_ERRORS_OF_MINUTE for place in range(len(of_errors))]
    of_successes = [is_kept for failed, is_kept in zip(errors, found, strict=True) if not failed]
    assert of_successes == kept([False] * len(of_successes))


def test_errors_have_a_limit_too_which_a_success_does_not_lift() -> None:
    most = request_log.MOST_ERRORS_OF_MINUTE
    assert kept([True] * (most + 1) + [False, True]) == [True] * most + [False, True, False]


@pytest.mark.parametrize(("status", "expected"), [(200, False), (399, False), (400, True), (503, True)])
def test_a_refusal_or_a_fault_is_an_error(status: int, expected: bool) -> None:
    request = request_log.LoggedRequest(UUID(int=1), UUID(int=2), UUID(int=3), NOW, "GET", "/me", status, 1)
    assert request_log.is_error(request.status) is expected
    assert (request.code, request.subject_id) == (None, None)


def test_details_are_kept_without_values() -> None:
    fields = {"title": ["must be shorter", "must be one line"], "s\0\n\ud800": ["is no field"], "x" * 200: []}
    assert request_log.kept_details({"id": "0190", "fields": fields, "limit": 3}) == (
        "fields.title: must be shorter; must be one line", "fields.s???: is no field", "fields." + "x" * 93,
        "id", "limit",
    )  # fmt: skip
    long = request_log.kept_details({"fields": {"a": ["é" * 600]}})
    assert long == ("fields.a: " + "é" * request_log.MAX_RULES,)


@pytest.mark.parametrize("value", ["s3cret", "it's", 'a"b', 'it\'s "a"', "a\nb"])
def test_a_value_that_a_rule_quotes_is_not_kept(value: str) -> None:
    kept = request_log.kept_details({"fields": {"kind": [f"does not know {value!r}; there are: x, y"]}})
    assert kept == ("fields.kind: does not know …; there are: x, y",)


def test_few_details_are_kept() -> None:
    assert request_log.kept_details({}) == ()
    assert request_log.kept_details({"fields": "none"}) == ()
    many: dict[str, object] = {"fields": {str(number): [] for number in range(request_log.MAX_DETAILS + 1)}}
    assert len(request_log.kept_details(many)) == request_log.MAX_DETAILS


def test_a_message_is_kept_up_to_a_length() -> None:
    assert request_log.kept_message("Top\0up.") == "Top?up."
    assert request_log.kept_message("é" * 600) == "é" * request_log.MAX_MESSAGE


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


@pytest.mark.parametrize("text", [
    "", "00", f"00-{TRACE}-{SPAN}", f"00-{TRACE}-{SPAN}-1", f"00-{TRACE}-{SPAN}-011", f"{GOOD}-", f"{GOOD}-x",
    f"ff-{TRACE}-{SPAN}-01", f"0-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01",
    GOOD.upper(), f" {GOOD}", f"{GOOD}\n", GOOD.replace("-", "_"), f"00-{TRACE[1:]}-{SPAN}-01",
    f"00-{TRACE}-{SPAN}x-01", f"0g-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-0g", "\u0660" + GOOD[1:],
])  # fmt: skip
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


@pytest.mark.parametrize(("headers", "is_found"), [
    ([], False),
    ([(b"host", b"x")], False),
    ([(NAME, GOOD.encode())], True),
    ([(b"host", b"x"), (NAME, b" \t" + GOOD.encode() + b" "), (b"accept", b"*/*")], True),
    ([(NAME, GOOD.encode()), (NAME, GOOD.encode())], False),
    ([(NAME, GOOD.encode()), (NAME, b"")], False),
    ([(b"tracestate", GOOD.encode())], False),
    ([(NAME, b"\xff" * 55)], False),
    ([(NAME, GOOD.encode() + b"\n")], False),
    ([(NAME, GOOD.encode() + b"X")], False),
])  # fmt: skip
def test_a_request_has_one_header_or_none(headers: list[tuple[bytes, bytes]], is_found: bool) -> None:
    assert sole_traceparent(headers) == (parse_traceparent(GOOD) if is_found else None)
