"""Whatever comes back, a call gives its record or raises an error of the tree."""

from __future__ import annotations

import json
from typing import Any, get_origin

from hypothesis import given
from hypothesis import strategies as st

from meetcore.client import ApiError, MeetcoreError, RateLimit, UnexpectedResponse
from meetcore.client import errors as tree
from meetcore.client.calls import Call
from meetcore.client.errors import error_for
from meetcore.client.exchange import HttpResponse, NoResponse, understand
from meetcore.client.rate_limit import read_rate_limit
from tests.client.descriptions import calls
from tests.client.samples import balance, delivery, estimate, meeting, transaction, webhook
from tests.support.api_contract import CODES

CALLS = tuple(calls().values())
RECORDS = (meeting(), webhook(), delivery(), balance(), estimate(), transaction())
CODES_KNOWN = sorted({code for codes in CODES.values() for code in codes})

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def spoiled(draw: st.DrawFn) -> object:
    """A record of the API of which one field is something else, or gone."""
    record = dict(draw(st.sampled_from(RECORDS)))
    name = draw(st.sampled_from(sorted(record)))
    if draw(st.booleans()):
        del record[name]
    else:
        record[name] = draw(values)
    return draw(st.sampled_from([record, {"data": [record], "next_cursor": None}]))


def envelopes() -> st.SearchStrategy[object]:
    names = ["fields", "required", "available", "id", "cap", "spent", "resets_at", "limit", "window_seconds"]
    details = values | st.dictionaries(st.sampled_from(names), values)
    error = st.fixed_dictionaries(
        {"code": st.sampled_from(CODES_KNOWN) | st.text()},
        optional={"message": st.text(), "docs_url": st.text(), "request_id": st.text(), "details": details},
    )
    return st.fixed_dictionaries({"error": error | values})


bodies = (values | spoiled() | envelopes()).map(lambda value: json.dumps(value).encode()) | st.binary()
names = [
    "retry-after", "date", "x-request-id", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
    "ratelimit-policy",
]  # fmt: skip
texts = (
    st.text(st.characters(max_codepoint=255))
    | st.integers().map(str)
    | st.just("Sat, 21 Nov 2026 12:00:00 GMT")
)
headers = st.dictionaries(st.sampled_from(names), texts)


@given(call=st.sampled_from(CALLS), status=st.integers(100, 599), headers=headers, body=bodies)
def test_an_answer_is_a_record_or_an_error_of_the_tree(
    call: Call[Any], status: int, headers: dict[str, str], body: bytes
) -> None:
    assert isinstance(read_rate_limit(headers), RateLimit | None)
    found = outcome(call, HttpResponse(status, headers, body))
    if isinstance(found, MeetcoreError):
        assert str(found)
        assert repr(found)
        assert found.status == status
        assert found.retry_after_s is None or found.retry_after_s >= 0
        for name in ("fields", "required", "available", "existing_id", "cap", "spent", "resets_at", "limit"):
            getattr(found, name, None)
    else:
        assert 200 <= status < 300
        into = get_origin(call.into) or call.into
        assert isinstance(found, into)


def outcome(call: Call[Any], reply: HttpResponse | NoResponse) -> Any:
    """What a reply is understood as: a record, or an error of the tree."""
    try:
        return understand(call, reply)
    except MeetcoreError as error:
        return error


@given(reason=st.text(), is_timeout=st.booleans())
def test_no_answer_is_an_error_of_the_tree(reason: str, is_timeout: bool) -> None:
    kind = tree.TimedOut if is_timeout else tree.ConnectionFailed
    assert {type(outcome(call, NoResponse(reason, is_timeout))) for call in CALLS} == {kind}


def test_every_code_of_the_api_has_a_class_of_its_own() -> None:
    classes = [error_for(code) for code in CODES_KNOWN]
    assert ApiError not in classes
    assert len(set(classes)) == len(CODES_KNOWN)
    assert error_for("a_code_of_next_year") is ApiError


def test_the_tree_is_drawn_as_it_is() -> None:
    drawn = {
        word
        for line in (tree.__doc__ or "").splitlines()
        for word in line.split()[:4]
        if word in tree.__all__
    }
    assert drawn == set(tree.__all__) - {"error_for"}


def test_an_error_that_is_no_envelope_keeps_what_there_is() -> None:
    answer = HttpResponse(502, {"x-request-id": "r-1", "retry-after": "3"}, b"<html>")
    error = outcome(CALLS[0], answer)
    assert type(error) is UnexpectedResponse
    assert (error.status, error.request_id, error.retry_after_s) == (502, "r-1", 3)
