"""Idempotency: the whole decision table, and what a fingerprint tells apart."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.requests.idempotency import (
    DECISIONS,
    DUPLICATE_WAIT_S,
    LONGEST_PAUSE_S,
    TRANSITIONS,
    IdempotencyEvent,
    IdempotencyRecord,
    IdempotencyState,
    Verdict,
    decide,
    fingerprint,
    is_idempotency_key,
    next_look_s,
    state_of,
)
from meetcore.testing.strategies.requests import (
    JSON_LOOK_ALIKES,
    fingerprints,
    idempotency_keys,
    idempotency_records,
    json_texts,
    json_values,
)

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)
TICK = timedelta(microseconds=1)
FINGERPRINT = fingerprint("POST", "/api/v1/meetings", {"title": "Rapat"})
OTHER = fingerprint("POST", "/api/v1/meetings", {"title": "rapat"})


def record(**fields: Any) -> IdempotencyRecord:
    return IdempotencyRecord("key-1", FINGERPRINT, **fields)


TABLE = {
    #                     same               other
    IdempotencyState.UNKNOWN: (Verdict.CLAIM, Verdict.CLAIM),
    IdempotencyState.BOUND: (Verdict.CLAIM, Verdict.REJECT),
    IdempotencyState.RUNNING: (Verdict.WAIT, Verdict.REJECT),
    IdempotencyState.EXPIRED: (Verdict.TAKE_OVER, Verdict.REJECT),
    IdempotencyState.DONE: (Verdict.REPLAY, Verdict.REJECT),
}


@pytest.mark.spec("4/idem-replay", "4/idem-reused")
@pytest.mark.parametrize("state", IdempotencyState)
@given(st.data())
def test_any_record_in_a_state_is_decided_by_the_table(state: IdempotencyState, data: st.DataObject) -> None:
    known = data.draw(idempotency_records(state, NOW))
    other = data.draw(fingerprints())
    bound = other if known is None else known.fingerprint
    assert state_of(known, NOW) is state
    assert decide(known, bound, NOW) is TABLE[state][0]
    assert decide(known, other, NOW) is TABLE[state][other != bound]


@pytest.mark.parametrize("event", IdempotencyEvent)
@pytest.mark.parametrize("state", IdempotencyState)
def test_a_key_changes_state_as_its_verdicts_require(
    state: IdempotencyState, event: IdempotencyEvent
) -> None:
    """Work begins exactly where a verdict tells somebody to begin it, and what is done is only forgotten."""
    after = TRANSITIONS.get((state, event))
    begins = {IdempotencyEvent.CLAIM: Verdict.CLAIM, IdempotencyEvent.TAKE_OVER: Verdict.TAKE_OVER}
    if event in begins:
        assert (after is IdempotencyState.RUNNING) is (DECISIONS[state, True] is begins[event])
    if event in (IdempotencyEvent.FINISH, IdempotencyEvent.GIVE_UP):
        assert (after is None) is (state is IdempotencyState.DONE)
    if event is IdempotencyEvent.EXPIRE:
        assert (after is IdempotencyState.EXPIRED) is (state is IdempotencyState.RUNNING)
    if state is IdempotencyState.DONE:
        assert after is (IdempotencyState.UNKNOWN if event is IdempotencyEvent.PURGE else None)


@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)), st.booleans())
@example(NOW, NOW, False)
@example(NOW + TICK, NOW, False)
@example(NOW + TICK, NOW, True)
def test_a_key_that_is_bound_stays_bound_at_every_instant(
    lease_until: datetime, now: datetime, is_done: bool
) -> None:
    known = record(is_done=is_done, lease_until=lease_until)
    assert decide(known, OTHER, now) is Verdict.REJECT
    expected = Verdict.REPLAY if is_done else Verdict.WAIT if now < lease_until else Verdict.TAKE_OVER
    assert decide(known, FINGERPRINT, now) is expected


# Fingerprints

look_alikes = json_values(st.sampled_from(JSON_LOOK_ALIKES), max_leaves=3)


def exactly(value: Any) -> Any:
    """The value with its types told, so that == means the same JSON value and no less."""
    match value:
        case dict():
            return "object", {name: exactly(inner) for name, inner in value.items()}
        case list():
            return "array", [exactly(inner) for inner in value]
    return type(value).__name__, repr(value)


@given(st.data(), json_values())
def test_the_fingerprint_ignores_key_order_and_white_space(data: st.DataObject, value: Any) -> None:
    """And how a string is escaped, which is no more part of what a body says than white space is."""
    text = data.draw(json_texts(value))
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
def test_the_fingerprint_ignores_nothing_else(one: Any, two: Any) -> None:
    is_same = fingerprint("POST", "/p", one) == fingerprint("POST", "/p", two)
    assert is_same == (exactly(one) == exactly(two))


places: st.SearchStrategy[tuple[str, str, Any]] = st.tuples(
    st.sampled_from(["POST", "PATCH", "DELETE", "post"]),
    st.sampled_from(["/a", "/a/", "/A", "/a?b=1", "/a?b=2", "/", "/a%20", "/a 1"]),
    st.sampled_from([None, {}, [], "", 1]),
)


@given(places, places)
def test_the_fingerprint_includes_method_and_path(
    one: tuple[str, str, Any], two: tuple[str, str, Any]
) -> None:
    assert (fingerprint(*one) == fingerprint(*two)) == (one == two)


def test_a_fingerprint_keeps_its_form_while_key_records_are_kept() -> None:
    canonical = 'POST\n/api/v1/meetings\n{"a":[1,1.0,true,null],"b":"\\u00e9"}'
    body = {"b": "\u00e9", "a": [1, 1.0, True, None]}
    assert fingerprint("POST", "/api/v1/meetings", body) == hashlib.sha256(canonical.encode()).digest()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_body_that_is_not_json_has_no_fingerprint(number: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        fingerprint("POST", "/p", {"a": number})


# Keys

VISIBLE = "".join(map(chr, range(0x21, 0x7F)))


@given(idempotency_keys())
@example("~" * 255)
@example("!")
def test_a_key_is_1_to_255_visible_ascii_characters(text: str) -> None:
    assert is_idempotency_key(text)


@given(
    st.text(VISIBLE, max_size=20), st.characters(exclude_characters=VISIBLE), st.text(VISIBLE, max_size=20)
)
@example("", " ", "")
@example("a", "\x7f", "")
@example("a", "\n", "")
@example("a", "é", "")
def test_any_other_character_makes_a_key_invalid(before: str, foreign: str, after: str) -> None:
    assert not is_idempotency_key(before + foreign + after)


@pytest.mark.parametrize("text", ["", "a" * 256, "a" * 10_000])
def test_another_length_makes_a_key_invalid(text: str) -> None:
    assert not is_idempotency_key(text)


# Waiting for the first request


def test_the_pauses_of_a_waiting_duplicate_grow_to_a_second() -> None:
    pauses = [0.05]
    while sum(pauses) < DUPLICATE_WAIT_S:
        pauses.append(next_look_s(pauses[-1]))
    assert pauses[:6] == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0])
    assert set(pauses[5:]) == {LONGEST_PAUSE_S}
    assert len(pauses) < 16


def test_no_two_requests_share_a_fingerprint_by_their_borders_or_names() -> None:
    with pytest.raises(ValueError, match=r"^a method has no line break$"):
        fingerprint("POST\n/a", "/b", {})
    assert fingerprint("POST", "/a\n/b", {}) != fingerprint("POST", "/a", {"/b": {}})
    for body in ({1: 2}, {"a": [{True: 2}]}, [({None: 1},)]):
        with pytest.raises(TypeError, match=r"^the names in a body are texts: JSON has no others$"):
            fingerprint("POST", "/a", body)
