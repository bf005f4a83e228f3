"""Records are read as msgspec reads them, which is no package of the client: what is out of shape is None."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.client import Balance, Delivery, Estimate, Event, Meeting, Note, Recording, Transaction, Webhook
from meetcore.client.calls import encode
from meetcore.client.decoding import converted, decoded
from meetcore.client.records import Page
from tests.client import samples
from tests.client.test_answers import values

SAMPLES: dict[type, dict[str, object]] = {
    Meeting: samples.meeting(),
    Transaction: samples.transaction(),
    Webhook: samples.webhook(),
    Delivery: samples.delivery(),
    Event: samples.event(),
    Balance: samples.balance(),
    Estimate: samples.estimate(),
    Recording: samples.recording(),
    Note: samples.note(),
}


def by_msgspec(body: bytes, into: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=into)
    except msgspec.MsgspecError:
        return None


@st.composite
def spoiled(draw: st.DrawFn) -> tuple[type, dict[str, object]]:
    """A record, of which up to two fields are something else, or gone."""
    kind = draw(st.sampled_from(sorted(SAMPLES, key=lambda each: each.__name__)))
    record = dict(SAMPLES[kind])
    for name in draw(st.lists(st.sampled_from(sorted(record)), max_size=2)):
        if draw(st.booleans()):
            record.pop(name, None)
        else:
            record[name] = draw(values)
    return kind, record


@given(spoiled())
@example((Balance, SAMPLES[Balance] | {"balance": True}))
@example((Balance, SAMPLES[Balance] | {"balance": 3.0}))
@example((Balance, SAMPLES[Balance] | {"daily_cap": None}))
def test_what_is_read_is_what_msgspec_reads(case: tuple[type, dict[str, object]]) -> None:
    kind, record = case
    body = json.dumps(record).encode()
    assert decoded(body, kind) == by_msgspec(body, kind) == converted(json.loads(body), kind)


@given(spoiled())
def test_a_page_is_read_with_the_records_in_it(case: tuple[type, dict[str, object]]) -> None:
    kind, record = case
    body = json.dumps({"data": [SAMPLES[kind], record], "next_cursor": None, "new": 1}).encode()
    into: Any = Page[kind]  # type: ignore[valid-type]
    assert decoded(body, into) == by_msgspec(body, into)


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-01T02:00:00", "2026-12-01", "20261201T020000Z", "2026-13-01T02:00:00Z",
        "2026-12-01T25:00:00Z", "2026-W49-2T02:00:00Z", "2026-12-01 02:00", "", "now",
        "2026-12-01T02:00:00+0700", "\N{ARABIC-INDIC DIGIT TWO}026-12-01T02:00:00Z",
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\xff", b"{}x", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000,
        "{}".encode("utf-16"), b"\xef\xbb\xbf{}",
        *(
            json.dumps(SAMPLES[Event]).encode().replace(b'"data":', b'"data": %s, "x":' % value)
            for value in (b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": 1e999}',
                          b'{"a": "\\ud800"}', b'{"\\udfff": 1}')
        ),
    ],
)  # fmt: skip
def test_what_is_no_json_is_none(body: bytes) -> None:
    assert decoded(body, Event) is None


def test_an_event_keeps_its_data_as_it_was_sent() -> None:
    data = {"title": "Rapat 😀", "nested": {"list": [1, 2.5, None, True]}}
    body = json.dumps(SAMPLES[Event] | {"data": data}).encode()
    found = decoded(body, Event)
    assert found is not None
    assert found.data == data
    assert "Rapat" not in repr(found)


def test_a_body_is_plain_json_and_nothing_that_json_has_not() -> None:
    assert encode({"title": "Rapat é", "n": 1}) == '{"title":"Rapat é","n":1}'.encode()
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"n": float("nan")})
    with pytest.raises(TypeError, match="object is no value of JSON"):
        encode({"n": object()})
