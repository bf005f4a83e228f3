"""A response is a record or an error of the tree; records are decoded as by msgspec, which clients lack."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.client import (
    ApiError,
    Balance,
    Delivery,
    Estimate,
    Event,
    MeetcoreError,
    Meeting,
    Note,
    RateLimit,
    Recording,
    Transaction,
    UnexpectedResponse,
    Webhook,
)
from meetcore.client import errors as tree
from meetcore.client.calls import Call, encode
from meetcore.client.decoding import converted, decoded
from meetcore.client.errors import error_for
from meetcore.client.exchange import HttpResponse, NoResponse, read_response
from meetcore.client.records import Page, read_rate_limit
from tests.client import samples
from tests.client.clients import calls
from tests.support.api_contract import CODES

CALLS = tuple(calls().values())
CODES_KNOWN = sorted({code for codes in CODES.values() for code in codes})
SAMPLES: dict[type, dict[str, object]] = {
    Meeting: samples.meeting(), Transaction: samples.transaction(), Webhook: samples.webhook(),
    Delivery: samples.delivery(), Event: samples.event(), Balance: samples.balance(),
    Estimate: samples.estimate(), Recording: samples.recording(), Note: samples.note(),
}  # fmt: skip

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def spoiled(draw: st.DrawFn) -> tuple[type, dict[str, object]]:
    """A record of which up to two fields are another value, or missing."""
    kind = draw(st.sampled_from(sorted(SAMPLES, key=lambda each: each.__name__)))
    record = dict(SAMPLES[kind])
    for name in draw(st.lists(st.sampled_from(sorted(record)), max_size=2)):
        if draw(st.booleans()):
            record.pop(name, None)
        else:
            record[name] = draw(values)
    return kind, record


def by_msgspec(body: bytes, into: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=into)
    except msgspec.MsgspecError:
        return None


@given(spoiled())
@example((Balance, SAMPLES[Balance] | {"balance": True}))
@example((Balance, SAMPLES[Balance] | {"balance": 3.0}))
@example((Balance, SAMPLES[Balance] | {"daily_cap": None}))
def test_a_record_and_a_page_are_decoded_as_by_msgspec(case: tuple[type, dict[str, object]]) -> None:
    kind, record = case
    body = json.dumps(record).encode()
    assert decoded(body, kind) == by_msgspec(body, kind) == converted(json.loads(body), kind)
    body = json.dumps({"data": [SAMPLES[kind], record], "next_cursor": None, "new": 1}).encode()
    into: Any = Page[kind]  # type: ignore[valid-type]
    assert decoded(body, into) == by_msgspec(body, into)


@pytest.mark.parametrize("text", [
    "2026-12-01T02:00:00", "2026-12-01", "20261201T020000Z", "2026-13-01T02:00:00Z", "2026-12-01T25:00:00Z",
    "2026-W49-2T02:00:00Z", "2026-12-01 02:00", "", "now", "2026-12-01T02:00:00+0700",
    "\N{ARABIC-INDIC DIGIT TWO}026-12-01T02:00:00Z",
])  # fmt: skip
def test_a_time_without_an_offset_or_in_another_form_is_none(text: str) -> None:
    assert decoded(json.dumps(SAMPLES[Meeting] | {"created_at": text}).encode(), Meeting) is None


@pytest.mark.parametrize(
    "text", ["2026-12-01T02:00:00Z", "2026-12-01t02:00:00.25z", "2026-12-01T09:00:00+07:00"]
)
def test_a_time_is_read_with_its_offset(text: str) -> None:
    found = decoded(json.dumps(SAMPLES[Meeting] | {"created_at": text}).encode(), Meeting)
    assert found is not None
    assert found.created_at == datetime.fromisoformat(text.upper())
    assert found.created_at.tzinfo is not None


@pytest.mark.parametrize("body", [
    b"", b"\xff", b"{}x", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000,
    "{}".encode("utf-16"), b"\xef\xbb\xbf{}",
    *(
        json.dumps(SAMPLES[Event]).encode().replace(b'"data":', b'"data": %s, "x":' % value)
        for value in (b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": 1e999}',
                      b'{"a": "\\ud800"}', b'{"\\udfff": 1}')
    ),
])  # fmt: skip
def test_a_body_that_is_not_json_is_none(body: bytes) -> None:
    assert decoded(body, Event) is None


def test_an_event_keeps_its_data_as_it_was_sent() -> None:
    data = {"title": "Rapat 😀", "nested": {"list": [1, 2.5, None, True]}}
    found = decoded(json.dumps(SAMPLES[Event] | {"data": data}).encode(), Event)
    assert found is not None
    assert found.data == data
    assert "Rapat" not in repr(found)


def test_a_body_is_plain_json() -> None:
    assert encode({"title": "Rapat é", "n": 1}) == '{"title":"Rapat é","n":1}'.encode()
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"n": float("nan")})
    with pytest.raises(TypeError, match="object has no JSON form"):
        encode({"n": object()})


# Responses as a whole

DETAILS = ["fields", "required", "available", "id", "cap", "spent", "resets_at", "limit", "window_seconds"]
envelopes = st.fixed_dictionaries(
    {
        "error": values
        | st.fixed_dictionaries(
            {"code": st.sampled_from(CODES_KNOWN) | st.text()},
            optional={
                **dict.fromkeys(("message", "docs_url", "request_id"), st.text()),
                "details": values | st.dictionaries(st.sampled_from(DETAILS), values),
            },
        )
    }
)
records = spoiled().map(lambda case: case[1])
pages = records.map(lambda record: {"data": [record], "next_cursor": None})
bodies = (values | records | pages | envelopes).map(lambda value: json.dumps(value).encode()) | st.binary()
headers = st.dictionaries(
    st.sampled_from([
        "retry-after", "date", "x-request-id", "x-ratelimit-limit", "x-ratelimit-remaining",
        "x-ratelimit-reset", "ratelimit-policy",
    ]),
    st.text(st.characters(max_codepoint=255)) | st.integers().map(str)
    | st.just("Sat, 21 Nov 2026 12:00:00 GMT"),
)  # fmt: skip


@st.composite
def replies(draw: st.DrawFn) -> tuple[Call[Any], int, bytes]:
    """A call, a status, and a body: often those of a success."""
    call, status = draw(st.sampled_from(CALLS)), draw(st.sampled_from([200, 201]) | st.integers(100, 599))
    kind = get_args(call.into)[0] if get_origin(call.into) else call.into
    record: object = SAMPLES.get(kind)
    fitting = {"data": [record], "next_cursor": None} if get_origin(call.into) else record
    return call, status, draw(bodies | st.just(json.dumps(fitting).encode()))


def outcome(call: Call[Any], reply: HttpResponse | NoResponse) -> Any:
    try:
        return read_response(call, reply)
    except MeetcoreError as error:
        return error


@given(replies(), headers)
def test_a_response_is_a_record_or_an_error_of_the_tree(
    reply: tuple[Call[Any], int, bytes], headers: dict[str, str]
) -> None:
    call, status, body = reply
    assert isinstance(read_rate_limit(headers), RateLimit | None)
    found = outcome(call, HttpResponse(status, headers, body))
    if isinstance(found, MeetcoreError):
        assert str(found)
        assert repr(found)
        assert found.status == status
        assert found.retry_after_s is None or found.retry_after_s >= 0
        for name in (*DETAILS, "existing_id", "next_available_at"):
            getattr(found, name, None)
    else:
        assert 200 <= status < 300
        assert isinstance(found, get_origin(call.into) or call.into)


@given(reason=st.text(), is_timeout=st.booleans())
def test_no_response_is_an_error_of_the_tree(reason: str, is_timeout: bool) -> None:
    kind = tree.TimedOut if is_timeout else tree.ConnectionFailed
    assert {type(outcome(call, NoResponse(reason, is_timeout))) for call in CALLS} == {kind}


def test_an_error_that_is_no_envelope_keeps_its_headers() -> None:
    error = outcome(CALLS[0], HttpResponse(502, {"x-request-id": "r-1", "retry-after": "3"}, b"<html>"))
    assert type(error) is UnexpectedResponse
    assert (error.status, error.request_id, error.retry_after_s) == (502, "r-1", 3)


def test_every_code_of_the_api_has_a_class_of_its_own() -> None:
    classes = [error_for(code) for code in CODES_KNOWN]
    assert ApiError not in classes
    assert len(set(classes)) == len(CODES_KNOWN)
    assert error_for("a_code_of_next_year") is ApiError


def test_the_tree_is_drawn_as_it_is() -> None:
    words = {word for line in (tree.__doc__ or "").splitlines() for word in line.split()[:4]}
    assert words & set(tree.__all__) == set(tree.__all__)
