"""Idempotency: the whole decision table, and what a fingerprint tells apart."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.idempotency import (
    DECISIONS,
    IdempotencyRecord,
    KeyState,
    Verdict,
    decide,
    fingerprint,
    is_key,
    state_of,
)

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)
TICK = timedelta(microseconds=1)
MINE = fingerprint("POST", "/api/v1/meetings", {"title": "Rapat"})
OTHER = fingerprint("POST", "/api/v1/meetings", {"title": "rapat"})
SUBJECT = UUID(int=7)


def record(**fields: Any) -> IdempotencyRecord:
    return IdempotencyRecord("key-1", MINE, **fields)


KNOWN: dict[KeyState, tuple[IdempotencyRecord | None, ...]] = {
    KeyState.UNKNOWN: (None,),
    KeyState.BOUND: (record(), record(subject_id=SUBJECT)),
    KeyState.RUNNING: (
        record(subject_id=SUBJECT, lease_until=NOW + TICK),
        record(subject_id=SUBJECT, lease_until=NOW + timedelta(seconds=20)),
    ),
    KeyState.LAPSED: (
        record(subject_id=SUBJECT, lease_until=NOW),
        record(subject_id=SUBJECT, lease_until=NOW - timedelta(days=1)),
    ),
    KeyState.DONE: (
        record(is_done=True, answer=b"{}"),
        record(is_done=True, subject_id=SUBJECT),
        record(is_done=True, answer=b"{}", lease_until=NOW + TICK),
        record(is_done=True, answer=b"{}", lease_until=NOW - TICK),
    ),
}
TABLE = {
    #                     same               other
    KeyState.UNKNOWN: (Verdict.CLAIM, Verdict.CLAIM),
    KeyState.BOUND: (Verdict.CLAIM, Verdict.REJECT),
    KeyState.RUNNING: (Verdict.WAIT, Verdict.REJECT),
    KeyState.LAPSED: (Verdict.TAKE_OVER, Verdict.REJECT),
    KeyState.DONE: (Verdict.REPLAY, Verdict.REJECT),
}


@pytest.mark.spec("4/idem-replay", "4/idem-reused")
@pytest.mark.parametrize("state", KeyState)
def test_the_whole_decision_table(state: KeyState) -> None:
    for known in KNOWN[state]:
        assert state_of(known, NOW) is state
        assert (decide(known, MINE, NOW), decide(known, OTHER, NOW)) == TABLE[state]


def test_the_table_has_an_answer_for_every_pair() -> None:
    assert set(DECISIONS) == set(product(KeyState, (True, False)))
    assert {state: (DECISIONS[state, True], DECISIONS[state, False]) for state in KeyState} == TABLE


@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)), st.booleans())
def test_a_key_that_is_bound_stays_bound_at_every_instant(
    lease_until: datetime, now: datetime, is_done: bool
) -> None:
    known = record(is_done=is_done, lease_until=lease_until)
    assert decide(known, OTHER, now) is Verdict.REJECT
    expected = Verdict.REPLAY if is_done else Verdict.WAIT if now < lease_until else Verdict.TAKE_OVER
    assert decide(known, MINE, now) is expected


# Fingerprints

LEAVES = (
    None, "null", True, "true", False, 0, 0.0, -0.0, "0", "", 1, 1.0, "1", "1.0", 10**20, 1e20, 2**53,
    2**53 + 1, float(2**53), 0.1, 0.30000000000000004, 0.3, "\u00e9", "e\u0301", "É", "\U0001f600", "a", "A",
    "a ", "\\u00e9",
)  # fmt: skip
NAMES = st.sampled_from(["a", "b", "A", "\u00e9", "e\u0301", "", "1"])

leaves = st.one_of(
    st.sampled_from(LEAVES), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4)


values = st.recursive(leaves, nested, max_leaves=12)
look_alikes = st.recursive(st.sampled_from(LEAVES), nested, max_leaves=3)


def exactly(value: Any) -> Any:
    """The value with its types told, so that == means the same JSON value and no less."""
    match value:
        case dict():
            return "object", {name: exactly(inner) for name, inner in value.items()}
        case list():
            return "array", [exactly(inner) for inner in value]
    return type(value).__name__, repr(value)


def written_otherwise(value: Any, random: Any) -> Any:
    """The same JSON value in another key order, through another text."""
    match value:
        case dict():
            names = random.sample(list(value), len(value))
            return {name: written_otherwise(value[name], random) for name in names}
        case list():
            return [written_otherwise(inner, random) for inner in value]
    return value


@given(values, st.randoms(use_true_random=False), st.sampled_from([None, 1, "\t"]), st.booleans())
def test_key_order_white_space_and_escapes_do_not_matter(
    value: Any, random: Any, indent: Any, ensure_ascii: bool
) -> None:
    text = json.dumps(written_otherwise(value, random), indent=indent, ensure_ascii=ensure_ascii)
    assert fingerprint("POST", "/p", json.loads(text)) == fingerprint("POST", "/p", value)


@given(look_alikes, look_alikes)
@example({"a": 1}, {"a": 1.0})
@example({"a": 1}, {"a": True})
@example({"a": 1}, {"a": "1"})
@example({"a": 0.0}, {"a": -0.0})
@example({"a": None}, {})
@example({"a": "\u00e9"}, {"a": "e\u0301"})
@example({"\u00e9": 1}, {"e\u0301": 1})
@example([1, 1], [1])
@example([1, 2], [2, 1])
@example([[1], 2], [1, [2]])
@example({"a": {"b": 1}}, {"a": {}, "b": 1})
@example('{"a":1}', {"a": 1})
def test_everything_else_does(one: Any, two: Any) -> None:
    is_same = fingerprint("POST", "/p", one) == fingerprint("POST", "/p", two)
    assert is_same == (exactly(one) == exactly(two))


@given(values, values)
def test_two_bodies_share_a_fingerprint_only_if_they_are_one_value(one: Any, two: Any) -> None:
    is_same = fingerprint("POST", "/p", one) == fingerprint("POST", "/p", two)
    assert is_same == (exactly(one) == exactly(two))


places: st.SearchStrategy[tuple[str, str, Any]] = st.tuples(
    st.sampled_from(["POST", "PATCH", "DELETE", "post"]),
    st.sampled_from(["/a", "/a/", "/A", "/a?b=1", "/a?b=2", "/", "/a%20", "/a 1"]),
    st.sampled_from([None, {}, [], "", 1]),
)


@given(places, places)
def test_method_and_path_belong_to_it(one: tuple[str, str, Any], two: tuple[str, str, Any]) -> None:
    assert (fingerprint(*one) == fingerprint(*two)) == (one == two)


def test_a_fingerprint_keeps_its_form_for_as_long_as_keys_are_remembered() -> None:
    told = 'POST\n/api/v1/meetings\n{"a":[1,1.0,true,null],"b":"\\u00e9"}'
    body = {"b": "\u00e9", "a": [1, 1.0, True, None]}
    assert fingerprint("POST", "/api/v1/meetings", body) == hashlib.sha256(told.encode()).digest()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_json_has_no_fingerprint(number: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        fingerprint("POST", "/p", {"a": number})


# Keys

VISIBLE = "".join(map(chr, range(0x21, 0x7F)))


@given(st.text(VISIBLE, min_size=1, max_size=255))
@example("~" * 255)
@example("!")
def test_a_key_is_1_to_255_visible_ascii_characters(text: str) -> None:
    assert is_key(text)


@given(
    st.text(VISIBLE, max_size=20), st.characters(exclude_characters=VISIBLE), st.text(VISIBLE, max_size=20)
)
@example("", " ", "")
@example("a", "\x7f", "")
@example("a", "\n", "")
@example("a", "é", "")
def test_any_other_character_makes_it_none(before: str, foreign: str, after: str) -> None:
    assert not is_key(before + foreign + after)


@pytest.mark.parametrize("text", ["", "a" * 256, "a" * 10_000])
def test_another_length_makes_it_none(text: str) -> None:
    assert not is_key(text)
