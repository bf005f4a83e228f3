"""Requests: bodies, idempotency keys and their records, API keys, arrivals. Edges are frequent."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeAlias
from uuid import UUID

from hypothesis import strategies as st

from meetcore.domain.requests.idempotency import IdempotencyRecord, IdempotencyState
from meetcore.domain.requests.keys import SECRET_BYTES, ApiKey, Scope, mint
from meetcore.testing.strategies.moments import time_zones

__all__ = [
    "JSON_LOOK_ALIKES", "api_keys", "arrivals", "fingerprints", "idempotency_keys", "idempotency_records",
    "json_objects", "json_texts", "json_values", "key_prefixes", "key_texts",
]  # fmt: skip

JsonValue: TypeAlias = Any
"""A result of `json.loads`."""

JSON_LOOK_ALIKES: tuple[JsonValue, ...] = (
    None, "null", True, "true", False, 0, 0.0, -0.0, "0", "", 1, 1.0, "1", "1.0", 10**20, 1e20, 2**53,
    2**53 + 1, float(2**53), 0.1, 0.30000000000000004, 0.3, "\u00e9", "e\u0301", "\u00c9", "\U0001f600",
    "a", "A", "a ", "\\u00e9",
)  # fmt: skip
"""Leaves that a careless comparison confuses: numbers of another type, text in another normal form."""

_NAMES = st.sampled_from(("a", "b", "A", "\u00e9", "e\u0301", "", "1")) | st.text(max_size=5)
_LEAVES = st.one_of(
    st.sampled_from(JSON_LOOK_ALIKES), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
)  # fmt: skip
_VISIBLE_ASCII = "".join(map(chr, range(0x21, 0x7F)))
_NOTHING, _TICK, _SECOND = timedelta(0), timedelta(microseconds=1), timedelta(seconds=1)
_DAY = timedelta(days=1)


def json_values(
    leaves: st.SearchStrategy[JsonValue] = _LEAVES, max_leaves: int = 12
) -> st.SearchStrategy[JsonValue]:
    """Draw a JSON value of any shape, with names and leaves that look alike."""

    def nested(inner: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
        return st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=4)

    return st.recursive(leaves, nested, max_leaves=max_leaves)


def json_objects(max_leaves: int = 12) -> st.SearchStrategy[dict[str, JsonValue]]:
    """Draw a JSON object, such as a body."""
    return st.dictionaries(_NAMES, json_values(max_leaves=max_leaves), max_size=4)


def json_texts(value: JsonValue) -> st.SearchStrategy[str]:
    """Draw a text of this value, with any order of names, white space and escapes."""
    return st.randoms(use_true_random=False).map(lambda random: _written(value, random))


def _written(value: JsonValue, random: Random) -> str:
    gap = "".join(random.choices(" \t\r\n", k=random.randrange(3)))
    match value:
        case dict():
            names = random.sample(list(value), len(value))
            members = (f"{_written(name, random)}:{_written(value[name], random)}" for name in names)
            text = "{" + (",".join(members) or gap) + "}"
        case list():
            text = "[" + (",".join(_written(item, random) for item in value) or gap) + "]"
        case _:
            text = json.dumps(value, ensure_ascii=random.random() < 0.5)
    return f"{gap}{text}{gap[::-1]}"


def idempotency_keys() -> st.SearchStrategy[str]:
    """Draw a key: 1 to 255 visible ASCII characters."""
    return st.sampled_from(("!", "~" * 255)) | st.text(_VISIBLE_ASCII, min_size=1, max_size=255)


def fingerprints() -> st.SearchStrategy[bytes]:
    """Draw the fingerprint of a request, 32 bytes."""
    return st.binary(min_size=32, max_size=32)


def idempotency_records(
    state: IdempotencyState, now: datetime
) -> st.SearchStrategy[IdempotencyRecord | None]:
    """Draw the stored record of a key in this state at `now`, an edge of its lease included."""
    if state is IdempotencyState.UNKNOWN:
        return st.none()
    ahead = st.timedeltas(_TICK, _DAY).map(now.__add__)
    behind = st.timedeltas(_NOTHING, _DAY).map(now.__sub__)
    subjects: st.SearchStrategy[UUID | None] = st.uuids()
    leases: dict[IdempotencyState, st.SearchStrategy[datetime | None]] = {
        IdempotencyState.BOUND: st.none(), IdempotencyState.RUNNING: ahead, IdempotencyState.EXPIRED: behind,
        IdempotencyState.DONE: st.none() | ahead | behind,
    }  # fmt: skip
    return st.builds(
        IdempotencyRecord,
        key=idempotency_keys(),
        fingerprint=fingerprints(),
        is_done=st.just(state is IdempotencyState.DONE),
        subject_id=subjects
        if state in (IdempotencyState.RUNNING, IdempotencyState.EXPIRED)
        else st.none() | subjects,
        lease_until=leases[state],
        encoded_outcome=st.binary(max_size=50) if state is IdempotencyState.DONE else st.none(),
    )


def key_prefixes() -> st.SearchStrategy[str]:
    """Draw the prefix of a service's API keys."""
    return st.from_regex(r"[a-z][a-z0-9]{0,15}", fullmatch=True)


def key_texts(prefix: str) -> st.SearchStrategy[str]:
    """Draw an API key as a caller sends it."""
    return st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES).map(lambda random: mint(prefix, random))


def api_keys(now: datetime, *, is_usable: bool = True) -> st.SearchStrategy[ApiKey]:
    """Draw a stored key that is usable at `now`, or one that is revoked, expired or both."""
    past = st.timedeltas(_NOTHING, 400 * _DAY).map(now.__sub__)
    future = st.timedeltas(_TICK, 400 * _DAY).map(now.__add__)
    never = st.none()
    ends: st.SearchStrategy[tuple[datetime | None, datetime | None]]
    if is_usable:
        ends = st.tuples(never | future, never)
    else:  # the clock of the host that revoked a key may be ahead
        ends = st.tuples(past, never) | st.tuples(never | past | future, past | future)
    return st.builds(
        lambda ends, **fields: ApiKey(expires_at=ends[0], revoked_at=ends[1], **fields),
        ends, id=st.uuids(), account_id=st.uuids(), daily_cap=st.none() | st.integers(0, 10_000),
        scopes=st.sets(st.sampled_from(Scope), min_size=1).map(lambda scopes: tuple(sorted(scopes))),
        created_at=past,
    )  # fmt: skip


def arrivals(
    around: datetime = datetime(2026, 12, 1, 12, tzinfo=UTC), minutes: int = 4, max_size: int = 60
) -> st.SearchStrategy[Sequence[datetime]]:
    """Draw the instants of requests within a few minutes, by the clocks of several hosts.

    They are in no order and in several time zones, repeat, and often lie beside second 00.
    """
    edges = st.builds(
        lambda minute, offset: around + timedelta(minutes=minute) + offset,
        st.integers(0, minutes), st.sampled_from((_NOTHING, -_TICK, -_SECOND, _SECOND)),
    )  # fmt: skip
    anywhere = st.timedeltas(_NOTHING, timedelta(minutes=minutes)).map(around.__add__)
    instants_ = st.builds(datetime.astimezone, edges | anywhere, st.just(UTC) | time_zones())
    return st.lists(instants_, max_size=max_size)
